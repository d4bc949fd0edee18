//! Snippets with tensors of all kinds, and the text of their refusal.

#![allow(dead_code)]

use anymetal_msl::{CompileOptions, Diagnostic, Library};

/// Tensors of all kinds that the snippets need; a snippet is the body of the kernel.
const HEAD: &str = "
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
using D1 = dextents<int, 1>;
using D2 = dextents<int, 2>;
using D3 = dextents<int, 3>;
using H2 = tensor<device half, D2>;
using F2 = tensor<device float, D2>;
template <typename T, int... B> using blocks = tensor_blockwise<tensor_plane_scales, T, B...>;
using S32 = blocks<device metal_fp8_ue8m0_format, 32>;
template <typename P> using scaled = tensor<device metal_fp8_e4m3_format, D2, tensor_inline, P>;
#define SCALED(name, plane) scaled<plane> name(u, D2(32, 32), plane(u))
#define OP(...) matmul2d<matmul2d_descriptor(__VA_ARGS__), execution_simdgroup> op
#define OP4(...) matmul2d<matmul2d_descriptor(__VA_ARGS__), execution_simdgroups<4>> op
constexpr constant int dyn = dynamic_length_v<int>;
struct Pair { int a, b; };
template <int N> struct Scope {};
";

const PARAMETERS: &str = "H2 a [[buffer(0)]], H2 b [[buffer(1)]], F2 c [[buffer(2)]], \
     device float *p [[buffer(3)]], constant float *q [[buffer(4)]], device uchar *u [[buffer(5)]], \
     tensor<device const half, D2> ac [[buffer(6)]], tensor<device float, D1> v [[buffer(7)]], \
     tensor<device half, D3> cube [[buffer(8)]], tensor<device half, dextents<uint, 2>> wide [[buffer(9)]], \
     tensor<constant half, D2> k [[buffer(10)]], tensor<device half, extents<int, 16, 8>> fixed [[buffer(11)]], \
     tensor<device float, D3> cube32 [[buffer(12)]], device const float *pc [[buffer(13)]], \
     tensor<constant float, D2> kf [[buffer(14)]], tensor<device int, D2> ci [[buffer(15)]]";

/// The kernel around a body.
pub fn source(body: &str) -> String {
    format!("{HEAD}kernel void test({PARAMETERS})\n{{\n{body}\n}}\n")
}

/// `CODE message | note: … | help: …`
pub fn text(d: &Diagnostic) -> String {
    let mut out = format!("{} {}", d.code, d.message);
    for note in &d.notes {
        out += &format!(" | note: {note}");
    }
    if let Some(help) = &d.help {
        out += &format!(" | help: {help}");
    }
    out
}

/// The text of the only error of a body; what is wrong otherwise.
pub fn refusal(body: &str) -> String {
    match Library::compile(&source(body), "rule.metal", &CompileOptions::default()) {
        Ok(_) => "it compiles".into(),
        Err(d) => {
            let errors: Vec<String> = d.list.iter().filter(|d| d.is_error()).map(text).collect();
            errors.join(" && ")
        }
    }
}

/// Each body is refused with exactly the text beside it.
pub fn check(rules: &[(&str, &str)]) {
    let failures: Vec<String> = rules
        .iter()
        .map(|(body, expected)| (body, expected, refusal(body)))
        .filter(|(_, expected, actual)| *expected != actual)
        .map(|(body, expected, actual)| format!("{body}\n  expected {expected}\n  actual   {actual}"))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Each body compiles.
pub fn compiles(bodies: &[&str]) {
    let failures: Vec<String> = bodies
        .iter()
        .filter_map(|body| {
            let result = Library::compile(&source(body), "good.metal", &CompileOptions::default());
            result.err().map(|d| format!("{body}\n{}", d.render()))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
