//! Parse trees of tricky snippets, error texts, and hostile input.

mod dump;
mod errors;
mod hostile;
mod trees;

use crate::{CompileOptions, Translation, parse};

/// Parses; panics with the diagnostics when it does not.
fn tree(source: &str) -> Translation {
    let header = "MetalPerformancePrimitives/MetalPerformancePrimitives.h";
    let options = CompileOptions {
        force_includes: vec![header.into()],
        ..Default::default()
    };
    match parse(source, "t.metal", &options) {
        Ok(t) => t,
        Err(d) => panic!("{d}"),
    }
}

/// The declarations as text.
fn decls(source: &str) -> String {
    tree(source).decls.iter().map(dump::decl).collect::<Vec<_>>().join("\n")
}

/// The body of a function with these statements, after some declarations that tests use.
fn body(statements: &str) -> String {
    let prelude = "using namespace metal; struct S { int a; template <int N> int get(); int x; }; template <typename T> T tf(T);\n";
    let source =
        format!("{prelude}template <typename T, int N> void f(S s, int a, int b, int c, int d) {{ {statements} }}");
    let t = tree(&source);
    match t.decls.last() {
        Some(crate::ast::Decl::Function(f)) => match &f.body {
            crate::ast::Body::Block(b) => {
                let text = dump::stmt(b);
                text[2..text.len() - 2].to_string()
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The rendered diagnostics.
fn error(source: &str) -> String {
    match parse(source, "t.metal", &CompileOptions::default()) {
        Ok(_) => panic!("it parses"),
        Err(d) => d.render(),
    }
}
