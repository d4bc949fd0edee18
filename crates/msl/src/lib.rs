//! The Metal Shading Language front end: source text in, kernel IR out.
//!
//! Text goes through the preprocessor and the lexer to the parser, which yields the tree of [`ast`].
//! Everything a user may see goes through [`diagnostics`].

pub mod ast;
pub mod diagnostics;
pub mod headers;
pub mod lexer;
pub mod options;
mod parser;
pub mod preprocessor;
pub mod sema;
pub mod source;
pub mod token;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use options::{CompileOptions, MetalStd, OsRelease};
pub use sema::api::{FunctionConstantInfo, KernelInfo, Library, Specialization};
pub use sema::function_constant::{ConstantValue, FunctionConstantValues};
pub use sema::library::tensorops_tables;

/// A parsed translation unit.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The declarations of the source and of every file it includes, in order.
    pub decls: Vec<ast::Decl>,
    /// The files and macro expansions the spans point into.
    pub sources: Arc<source::SourceMap>,
    /// The embedded headers that were included, directly or through another, by the name between the brackets: `metal_tensor`.
    pub system_headers: BTreeSet<String>,
    /// Warnings so far.
    pub warnings: Vec<Diagnostic>,
    /// The options it was parsed with.
    pub options: CompileOptions,
}

/// Stack of the thread that a compilation runs on: the parser's and the checker's nesting limits fit in it.
const STACK_BYTES: usize = 256 << 20;

/// Runs `f` on a thread with a stack that is large enough for every limit of the front end.
///
/// The address space is reserved, not used: a page is touched only when nesting reaches it.
pub fn with_large_stack<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .name("anymetal-msl".into());
        match builder.spawn_scoped(scope, f) {
            Ok(handle) => match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Err(e) => panic!("cannot start a compiler thread: {e}"),
        }
    })
}

/// Preprocesses and parses a source text. `file_name` is shown in diagnostics, and includes are searched beside it.
///
/// # Errors
/// All errors that were found, up to [`CompileOptions::max_errors`], with the warnings.
pub fn parse(source: &str, file_name: &str, options: &CompileOptions) -> Result<Translation, Diagnostics> {
    with_large_stack(|| parse_here(source, file_name, options))
}

/// As [`parse`], on the caller's thread: for callers that are inside [`with_large_stack`] already.
///
/// # Errors
/// As [`parse`].
pub fn parse_here(source: &str, file_name: &str, options: &CompileOptions) -> Result<Translation, Diagnostics> {
    let mut sources = source::SourceMap::new();
    let output = preprocessor::preprocess(source, file_name, options, &mut sources);
    let mut list = output.diagnostics;
    let errors = list.iter().filter(|d| d.is_error()).count();
    let mut decls = Vec::new();
    if errors == 0 {
        if let Some(os) = options.os {
            list.extend(sema::library::availability::names(&output.tokens, &sources, os));
        }
        let available = parser::Available::new(options.std, &output.system_headers);
        let (parsed, diagnostics) = parser::parse_tokens(&output.tokens, available, options.max_errors);
        decls = parsed;
        list.extend(diagnostics);
    }
    let sources = Arc::new(sources);
    if list.iter().any(Diagnostic::is_error) {
        return Err(Diagnostics { sources, list });
    }
    Ok(Translation {
        decls,
        sources,
        system_headers: output.system_headers,
        warnings: list,
        options: options.clone(),
    })
}
