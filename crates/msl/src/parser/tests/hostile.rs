//! Input made to break a parser: it ends with an error, never with a panic, a hang or an overflow of the stack.

use std::sync::Arc;

use crate::diagnostics::Diagnostics;
use crate::parser::{Available, parse_counted};
use crate::preprocessor::preprocess;
use crate::source::SourceMap;
use crate::{CompileOptions, with_large_stack};

/// A kernel that uses much of the grammar.
const SAMPLE: &str = r#"
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
#define UNROLL _Pragma("clang loop unroll(full)")
#define LOAD(T, p, i) static_cast<T>((p)[i])
using namespace metal;
namespace tiles { template <typename T, int N> struct tile { T data[N]; thread T& operator[](int i) thread { return data[i]; }
  tile() = default; tile(T x) : first{x} { for (int i = 0; i < N; ++i) data[i] = x; } T first; }; }
template <typename T, int BM = 8, bool causal = (BM > 4), class... Rest>
[[kernel, max_total_threads_per_threadgroup(64)]] void run(
    device const T* a [[buffer(0)]], tensor<device half, dextents<int, 2>> b [[buffer(1)]], constant float& scale [[buffer(2)]],
    threadgroup T* shared [[threadgroup(0)]], uint3 tid [[threadgroup_position_in_grid]]) {
  constexpr auto desc = matmul2d_descriptor(BM, 32, static_cast<int>(dynamic_extent), false, true);
  matmul2d<desc, execution_simdgroups<4>> op;
  auto s = b.slice<BM, 32>(0, tid.x * BM);
  auto ct = op.template get_destination_cooperative_tensor<decltype(s), decltype(b), float>();
  tiles::tile<T, BM> t(T(0));
  UNROLL
  for (auto it = ct.begin(); it != ct.end(); it++) { *it = exp(*it - scale) * (float)t[0] + 0.5h; }
  if constexpr (causal && BM < 16) { t[0] = LOAD(T, a, tid.x); } else switch (BM) { case 1: break; default: t[1] += 1; }
  auto f = [&](auto i, thread auto& x) -> T { return x[i] + b[i, 0]; };
  threadgroup_barrier(mem_flags::mem_threadgroup);
  shared[tid.x] = f(1, t) > 0 ? as_type<T>(0x3f80u) : T{2};
}
template [[host_name("run_f32")]] kernel void run<float, 16>(device const float*, tensor<device half, dextents<int, 2>>, constant float&, threadgroup float*, uint3);
"#;

/// Parses with a bound on the work, counted in tokens consumed and levels entered: a machine may be slow, the parser may not.
fn try_parse(source: &str) {
    let options = CompileOptions {
        allow_files: false,
        ..Default::default()
    };
    let (tokens, steps) = with_large_stack(|| {
        let mut sources = SourceMap::new();
        let output = preprocess(source, "fuzz.metal", &options, &mut sources);
        let available = Available::new(options.std, &output.system_headers);
        let (_, list, steps) = parse_counted(&output.tokens, available, options.max_errors);
        let mut all = output.diagnostics;
        all.extend(list);
        if !all.is_empty() {
            // Rendering must hold up as well.
            let d = Diagnostics {
                sources: Arc::new(sources),
                list: all,
            };
            assert!(!d.render().is_empty());
            assert!(d.to_json().starts_with('['));
        }
        (output.tokens.len(), steps)
    });
    let bound = 4 * super::super::fuel(tokens) as u64;
    assert!(steps <= bound, "{steps} steps for {tokens} tokens: {source:.200}");
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }
}

#[test]
fn the_sample_parses() {
    super::tree(SAMPLE);
}

#[test]
fn truncated_anywhere() {
    for end in (0..SAMPLE.len()).filter(|i| SAMPLE.is_char_boundary(*i)).step_by(3) {
        try_parse(&SAMPLE[..end]);
    }
}

#[test]
fn mutated_bytes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let alphabet = b"<>(){}[];:,.*&#\\\"'@ \n0aT=+-!~?|^%/";
    for _ in 0..600 {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for _ in 0..=random.next(6) {
            let at = random.next(bytes.len());
            match random.next(4) {
                0 => bytes[at] = alphabet[random.next(alphabet.len())],
                1 => {
                    bytes.remove(at);
                }
                2 => bytes.insert(at, alphabet[random.next(alphabet.len())]),
                _ => {
                    // A piece of the text, moved elsewhere.
                    let len = random.next(40).min(bytes.len() - at);
                    let piece: Vec<u8> = bytes[at..at + len].to_vec();
                    let to = random.next(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        try_parse(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn shuffled_tokens() {
    let words: Vec<&str> = SAMPLE
        .split_inclusive([' ', '\n', '(', ')', '<', '>', ',', ';'])
        .collect();
    let mut random = Random(42);
    for _ in 0..300 {
        let text: String = (0..random.next(200)).map(|_| words[random.next(words.len())]).collect();
        try_parse(&text);
    }
}

#[test]
fn nesting() {
    let n = 3_000;
    for (open, middle, close) in [
        ("void f() { x = (", "1", ");}"),
        ("void f() { x = -", "1", ";}"),
        ("void f() { x = !", "1", ";}"),
        ("void f() { x = a<", "1", ">;}"),
        ("a<", "b", "> c;"),
        ("void f() { {", "", "} }"),
        ("void f() { x = {", "", "}; }"),
        ("void f() { x = [&]{ y = ", "1", "; }; }"),
        ("void f() { if (a) ", ";", " }"),
        ("void f() { x = a ? ", "b", " : c; }"),
        ("void f() { x = a ? b : ", "c", "; }"),
        ("void f() { x = (float)", "b", "; }"),
        ("void f() { x = sizeof(", "b", "); }"),
        ("void f() { x = b[", "b", "]; }"),
        ("void f() { x = f(", "b", "); }"),
        ("void f() { x = a = ", "b", "; }"),
        ("namespace a {", "", "}"),
        ("struct A {", "", "};"),
        ("template <template <class", "", "> class T> struct A;"),
        ("decltype(", "a", ") x;"),
        ("int (*", "a", ")();"),
        ("int ", "*", " a;"),
        ("void f(int (", "a", "));"),
        ("a::", "b", " c;"),
        ("void f() { a.b", "", "; }"),
        ("void f() { a + ", "b", "; }"),
        ("void f() { a, ", "b", "; }"),
        ("[[a(", "b", ")]] int x;"),
    ] {
        let (head, tail) = match open.rfind(['{', ';']) {
            Some(i) if open.starts_with("void f()") => open.split_at(i + 1),
            _ => ("", open),
        };
        let (inner_close, outer_close) = if head.is_empty() {
            (close, "")
        } else {
            (close.trim_end_matches('}'), "}")
        };
        try_parse(&format!(
            "{head}{}{middle}{}{outer_close}",
            tail.repeat(n),
            inner_close.repeat(n)
        ));
        try_parse(&format!("{head}{}", tail.repeat(n)));
    }
    try_parse(&format!("int x{};", "[1]".repeat(n)));
    try_parse(&format!("int x = a{};", ".b".repeat(n)));
    try_parse(&format!("int x = a{};", "[1]".repeat(n)));
    try_parse(&format!("int x = 1{};", " + 1".repeat(n)));
    try_parse(&format!("void f() {{ {} }}", "if (a) ; else ".repeat(n)));
    try_parse(&"(".repeat(n));
    try_parse(&"<".repeat(n));
    try_parse(&"[".repeat(n));
    try_parse(&"{".repeat(n));
    try_parse(&"template <class T> ".repeat(n));
}

#[test]
fn ambiguity_does_not_explode() {
    // Every level can be read in two ways.
    for level in [
        "(a<",
        "a<(b)<",
        "(a)(",
        "x.y<",
        "(T<(",
        "a<b<",
        "decltype(a<",
        "sizeof(a<",
        "alignas(a<",
    ] {
        for n in [10, 30, 100] {
            try_parse(&format!("void f() {{ {} 1; }}", level.repeat(n)));
            try_parse(&format!("int x = {} 1;", level.repeat(n)));
        }
    }
}
