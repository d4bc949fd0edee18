//! What comes out of the preprocessor, as text.

use super::*;
use crate::diagnostics::Diagnostics;
use std::sync::Arc;

fn run_with(source: &str, options: &CompileOptions) -> (String, Output, SourceMap) {
    let mut sources = SourceMap::new();
    let output = preprocess(source, "t.metal", options, &mut sources);
    let words: Vec<String> = output
        .tokens
        .iter()
        .map(Token::text)
        .filter(|t| !t.is_empty())
        .collect();
    (words.join(" "), output, sources)
}

fn run(source: &str) -> String {
    let (text, output, sources) = run_with(source, &CompileOptions::default());
    let shown = Diagnostics {
        sources: Arc::new(sources),
        list: output.diagnostics,
    };
    assert!(!shown.has_errors(), "{shown}");
    text
}

fn error(source: &str) -> String {
    let (_, output, _) = run_with(source, &CompileOptions::default());
    let first = output.diagnostics.iter().find(|d| d.is_error()).expect("an error");
    format!("{}: {}", first.code, first.message)
}

#[test]
fn object_and_function_macros() {
    assert_eq!(
        run("#define N 4\n#define F(a, b) a + b * N\nF(1, (2, 3)) N"),
        "1 + ( 2 , 3 ) * 4 4"
    );
    assert_eq!(run("#define F(x) x\nF\nF (1)"), "F 1");
    assert_eq!(run("#define F() 1\nF()"), "1");
    assert_eq!(run("#define E\n#define G(a) [a]\nG() G(E)"), "[ ] [ ]");
    assert_eq!(run("#define N 4\n#undef N\nN"), "N");
}

#[test]
fn recursion_stops() {
    assert_eq!(run("#define a b\n#define b a\na b"), "a b");
    assert_eq!(run("#define f(x) x f\nf(1)(2)"), "1 f ( 2 )");
    assert_eq!(run("#define x x + 1\nx"), "x + 1");
    // The example of the C standard, 6.10.3.5.
    let text = "#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n#define h g(~\n\
                #define m(a) a(w)\n#define w 0,1\n#define t(a) a\nf(y+1) + f(f(z)) % t(t(g)(0) + t)(1);\ng(x+(3,4)-w) | h 5) & m\n(f)^m(m);";
    assert_eq!(
        run(text),
        "f ( 2 * ( y + 1 ) ) + f ( 2 * ( f ( 2 * ( z [ 0 ] ) ) ) ) % f ( 2 * ( 0 ) ) + t ( 1 ) ; \
         f ( 2 * ( 2 + ( 3 , 4 ) - 0 , 1 ) ) | f ( 2 * ( ~ 5 ) ) & f ( 2 * ( 0 , 1 ) ) ^ m ( 0 , 1 ) ;"
    );
}

#[test]
fn strings_and_pasting() {
    assert_eq!(run("#define S(x) #x\nS( a  + \"b\\n\" )"), "\"a + \\\"b\\\\n\\\"\"");
    assert_eq!(run("#define C(a, b) a##b\nC(x, 1) C(, y) C(z, ) C(1, 2)"), "x1 y z 12");
    assert_eq!(run("#define C(a, b) a##b\n#define X Y\nC(X, X)"), "XX");
    assert_eq!(
        run("#define I(a, b) C(a, b)\n#define C(a, b) a##b\n#define X Y\nI(X, X)"),
        "YY"
    );
    assert_eq!(
        run("#define K(n, t) template [[host_name(#n \"_\" #t)]] kernel void n<t>()\nK(f, float);"),
        "template [ [ host_name ( \"f\" \"_\" \"float\" ) ] ] kernel void f < float > ( ) ;"
    );
}

#[test]
fn operator_words() {
    assert_eq!(
        run("a and not b\n#define P(x, y) x##y\nP(and, _1)\n#if 1 and not 0\nc\n#endif"),
        "a && ! b and_1 c"
    );
}

#[test]
fn variadic() {
    assert_eq!(
        run("#define V(...) f(__VA_ARGS__)\nV() V(1) V(1, 2)"),
        "f ( ) f ( 1 ) f ( 1 , 2 )"
    );
    assert_eq!(
        run("#define V(a, ...) f(a, ##__VA_ARGS__)\nV(1) V(1, 2)"),
        "f ( 1 ) f ( 1 , 2 )"
    );
    assert_eq!(
        run("#define V(a, ...) f(a __VA_OPT__(, ) __VA_ARGS__)\nV(1) V(1, 2, 3)"),
        "f ( 1 ) f ( 1 , 2 , 3 )"
    );
    assert_eq!(run("#define V(args...) f(args)\nV(1, 2)"), "f ( 1 , 2 )");
}

#[test]
fn conditionals() {
    let text = "#if 0\n#error no\n#if 1\n#else\n#endif\na\n#elif 1 + 1 == 2 && defined(X) == 0\nb\n#else\nc\n#endif";
    assert_eq!(run(text), "b");
    assert_eq!(run("#ifdef __METAL__\na\n#endif\n#ifndef __METAL__\nb\n#endif"), "a");
    assert_eq!(
        run("#define A 3\n#if A > 2 ? 1 : 0\na\n#endif\n#if -1 > 0u\nb\n#endif\n#if -1 < 0\nc\n#endif"),
        "a b c"
    );
    assert_eq!(
        run("#if defined __METAL_VERSION__ && __METAL_VERSION__ >= 410\na\n#endif"),
        "a"
    );
    assert_eq!(
        run("#if __has_include(<metal_tensor>) && !__has_include(\"no.h\") && !__has_feature(x)\na\n#endif"),
        "a"
    );
    assert_eq!(
        run("#ifdef X\na\n#elifndef Y\nb\n#endif\n#if 0\nc\n#elifdef __METAL__\nd\n#endif"),
        "b d"
    );
    assert_eq!(
        run("#if 'a' == 97 && 0x10 == 16 && true && !false && UNKNOWN == 0\na\n#endif"),
        "a"
    );
}

#[test]
fn version_gates() {
    let source = "#ifdef __HAVE_TENSOR__\nt\n#endif\n#ifdef __HAVE_TENSOR_MULTIPLANE__\nm\n#endif\n#ifdef __HAVE_BFLOAT__\nb\n#endif";
    let with = |std| {
        run_with(
            source,
            &CompileOptions {
                std,
                ..Default::default()
            },
        )
        .0
    };
    assert_eq!(with(MetalStd::Metal4_1), "t m b");
    assert_eq!(with(MetalStd::Metal4_0), "t b");
    assert_eq!(with(MetalStd::Metal3_0), "");
}

#[test]
fn includes() {
    let mut options = CompileOptions {
        allow_files: false,
        ..Default::default()
    };
    options
        .virtual_files
        .insert("d/a.h".into(), "#pragma once\n#include \"b.h\"\na".into());
    options
        .virtual_files
        .insert("d/b.h".into(), "#ifndef B\n#define B\nb\n#endif".into());
    let source =
        "#define H \"d/a.h\"\n#include H\n#include <d/a.h>\n#include \"./d/../d/b.h\"\n#include <metal_stdlib>\nM_PI_F";
    let (text, output, _) = run_with(source, &options);
    assert!(output.diagnostics.is_empty(), "{:?}", output.diagnostics);
    assert_eq!(text, "b a ( 3.1415926535897931f )");
    assert!(output.system_headers.contains("metal_stdlib") && output.system_headers.contains("metal_math"));
    let (_, output, _) = run_with(
        "#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>",
        &options,
    );
    assert!(
        output.system_headers.contains("MetalPerformancePrimitives") && output.system_headers.contains("metal_tensor")
    );
}

#[test]
fn command_line_options() {
    let options = CompileOptions {
        defines: vec![
            ("A".into(), None),
            ("F(x)".into(), Some("x + x".into())),
            ("B".into(), Some("2".into())),
        ],
        undefines: vec!["B".into()],
        force_includes: vec!["metal_limits".into()],
        ..Default::default()
    };
    assert_eq!(run_with("A F(3) B INT_MAX", &options).0, "1 3 + 3 B 2147483647");
}

#[test]
fn dynamic_macros() {
    assert_eq!(
        run("__FILE__ __LINE__\n__LINE__ __COUNTER__ __COUNTER__"),
        "\"t.metal\" 1 2 0 1"
    );
}

#[test]
fn pragmas() {
    let kinds = |source: &str| -> Vec<crate::token::Pragma> {
        let (_, output, _) = run_with(source, &CompileOptions::default());
        assert!(output.diagnostics.is_empty(), "{:?}", output.diagnostics);
        output
            .tokens
            .iter()
            .filter_map(|t| match &t.kind {
                TokenKind::Pragma(p) => Some((**p).clone()),
                _ => None,
            })
            .collect()
    };
    use crate::token::Pragma::*;
    let full = kinds(
        "#pragma unroll\n#pragma unroll(full)\n#pragma clang loop unroll(full)\n\
         #define UNROLL _Pragma(\"clang loop unroll(full)\")\nUNROLL",
    );
    assert_eq!(full, [UnrollFull, UnrollFull, UnrollFull, UnrollFull]);
    assert_eq!(
        kinds("#pragma nounroll\n#pragma clang loop unroll(disable)\n#pragma clang diagnostic push"),
        [UnrollDisable, UnrollDisable]
    );
    let counts = kinds("#define N 8\n#pragma unroll(4)\n#pragma unroll 4\n#pragma clang loop unroll_count(N)");
    let texts: Vec<String> = counts
        .iter()
        .map(|p| match p {
            UnrollCount(t) => t[0].text(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["4", "4", "8"]);
    assert_eq!(
        kinds("#pragma METAL fp math_mode(safe)"),
        [Fp(crate::ast::FpPragma::MathSafe)]
    );
}

#[test]
fn spans_point_at_the_use() {
    let source = "#define ADD(a, b) (a + b)\nint x = ADD(1, y);";
    let (_, output, sources) = run_with(source, &CompileOptions::default());
    let plus = output.tokens.iter().find(|t| t.is(Punct::Plus)).unwrap();
    assert_eq!(sources.snippet(plus.span), "ADD");
    assert_eq!(sources.expansion(plus.span.expansion).unwrap().name, "ADD");
    let y = output.tokens.iter().find(|t| t.is_ident("y")).unwrap();
    assert_eq!((sources.snippet(y.span), y.span.expansion.0), ("y", 0));
}

#[test]
fn errors() {
    assert_eq!(error("#include \"no.h\""), "E0101: file 'no.h' not found");
    assert_eq!(
        error("#include <metal_raytracing>"),
        "E0101: file 'metal_raytracing' not found"
    );
    assert_eq!(error("#if 1 +\n#endif"), "E0102: expected a value in '#if'");
    assert_eq!(error("#if 1 / 0\n#endif"), "E0102: division by zero in '#if'");
    assert_eq!(error("#frob"), "E0103: unknown directive '#frob'");
    assert_eq!(error("#define F(a, a) a"), "E0104: duplicate macro parameter 'a'");
    assert_eq!(error("#else"), "E0105: '#else' without '#if'");
    assert_eq!(error("#if 1"), "E0106: unterminated conditional directive");
    assert_eq!(error("#error not today"), "E0107: #error not today");
    assert_eq!(
        error("#define P(a, b) a##b\nP(+, x)"),
        "E0108: pasting '+' and 'x' does not give one token"
    );
    assert_eq!(
        error("#define F(a) a\nF(1, 2)"),
        "E0109: macro 'F' takes 1 argument, got 2"
    );
    assert_eq!(error("#define F(a) a\nF(1"), "E0109: unterminated call of macro 'F'");
}

#[test]
fn bombs_end_with_an_error() {
    let mut bomb = String::from("#define A0 x x x x x x x x x x\n");
    for i in 1..12 {
        bomb.push_str(&format!("#define A{i} {}\n", format!("A{} ", i - 1).repeat(10)));
    }
    assert!(error(&format!("{bomb}A11")).starts_with("E0114"));
    let nested = format!("#define F(x) x\n{}1{}", "F(".repeat(5000), ")".repeat(5000));
    assert!(error(&nested).starts_with("E0113"));
    assert!(error(&format!("#if {}1\n#endif", "(".repeat(100_000))).starts_with("E0112"));
    assert!(error(&format!("#if {}1\n#endif", "!".repeat(100_000))).starts_with("E0112"));
    assert!(error(&"#if 1\n".repeat(5000)).starts_with("E0112"));
    let mut options = CompileOptions {
        allow_files: false,
        ..Default::default()
    };
    options
        .virtual_files
        .insert("self.h".into(), "#include \"self.h\"\n".into());
    let (_, output, _) = run_with("#include \"self.h\"", &options);
    assert_eq!(output.diagnostics[0].code, "E0116");
    options
        .virtual_files
        .insert("two.h".into(), "#include \"two.h\"\n#include \"two.h\"\n".into());
    let (_, output, _) = run_with("#include \"two.h\"", &options);
    assert_eq!(output.diagnostics[0].code, "E0116");
}
