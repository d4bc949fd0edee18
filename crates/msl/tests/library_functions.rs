//! The functions of the Metal library: what is refused, with the whole text, and what is computed.

mod common;
#[path = "common/library.rs"]
mod library;

use common::{run_floats, run_ints};
use library::{check, compiles, source, text};

use anymetal_msl::{CompileOptions, Library, Severity};

const HEAD: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

fn ints(body: &str, input: &[i32], outputs: usize) -> Vec<i32> {
    let source = format!(
        "{HEAD}kernel void k(device int *out [[buffer(0)]], device const int *in [[buffer(1)]]) {{\n{body}\n}}\n"
    );
    run_ints(&source, input, outputs)
}

fn floats(body: &str, input: &[f32], outputs: usize) -> Vec<f32> {
    let source = format!(
        "{HEAD}kernel void k(device float *out [[buffer(0)]], device const float *in [[buffer(1)]]) {{\n{body}\n}}\n"
    );
    run_floats(&source, input, outputs)
}

/// The rows of reference 4.4: left, right, destinations.
const ROWS: &[(&str, &str, &str)] = &[
    ("half", "half", "half float"),
    ("half", "float", "float"),
    ("float", "half", "float"),
    ("float", "float", "float"),
    ("half", "int8_t", "half float"),
    ("int8_t", "half", "half float"),
    ("float", "int8_t", "float"),
    ("int8_t", "float", "float"),
    ("int8_t", "int8_t", "int"),
    ("bfloat", "bfloat", "bfloat float"),
    ("bfloat", "float", "float"),
    ("float", "bfloat", "float"),
    ("bfloat", "int8_t", "bfloat float"),
    ("int8_t", "bfloat", "bfloat float"),
    ("bfloat", "half", "bfloat half float"),
    ("half", "bfloat", "bfloat half float"),
    ("half", "uchar", "half float"),
    ("uchar", "half", "half float"),
    ("float", "uchar", "float"),
    ("uchar", "float", "float"),
    ("uchar", "uchar", "int"),
    ("bfloat", "uchar", "bfloat float"),
    ("uchar", "bfloat", "bfloat float"),
    ("half", "int4b_format", "half float"),
    ("half", "uint4b_format", "half float"),
    ("bfloat", "int4b_format", "bfloat float"),
    ("bfloat", "uint4b_format", "bfloat float"),
    ("int8_t", "int4b_format", "int"),
    ("uchar", "uint4b_format", "int"),
    ("half", "int2b_format", "half float"),
    ("half", "uint2b_format", "half float"),
    ("bfloat", "int2b_format", "bfloat float"),
    ("bfloat", "uint2b_format", "bfloat float"),
    ("int8_t", "int2b_format", "int"),
    ("uchar", "uint2b_format", "int"),
    ("half", "metal_fp4_e2m1_format", "half float"),
    ("half", "metal_fp8_e4m3_format", "half float"),
    ("half", "metal_fp8_e5m2_format", "half float"),
    ("metal_fp4_e2m1_format", "metal_fp4_e2m1_format", "half float"),
    ("metal_fp8_e4m3_format", "metal_fp8_e4m3_format", "half float"),
    ("metal_fp8_e5m2_format", "metal_fp8_e5m2_format", "half float"),
];

/// Every type that an operand can have in some row.
const OPERANDS: &[&str] = &[
    "half",
    "bfloat",
    "float",
    "int8_t",
    "uchar",
    "int",
    "int4b_format",
    "uint4b_format",
    "int2b_format",
    "uint2b_format",
    "metal_fp4_e2m1_format",
    "metal_fp8_e4m3_format",
    "metal_fp8_e5m2_format",
];

/// All pairs of operands with all destinations: the rows compile, everything else is refused as an unsupported type.
#[test]
fn rows_of_types() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for left in OPERANDS {
        for right in OPERANDS {
            for destination in ["half", "bfloat", "float", "int"] {
                let supported = ROWS
                    .iter()
                    .any(|row| (row.0, row.1) == (*left, *right) && row.2.split(' ').any(|d| d == destination));
                rows += usize::from(supported);
                let source = format!(
                    "#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops; using D2 = dextents<int, 2>;
kernel void k(tensor<device {left}, D2> l [[buffer(0)]], tensor<device {right}, D2> r [[buffer(1)]],
              tensor<device {destination}, D2> d [[buffer(2)]]) {{
    matmul2d<matmul2d_descriptor(16, 16), execution_simdgroup> op; op.run(l, r, d);
}}"
                );
                let result = Library::compile(&source, "row.metal", &CompileOptions::default());
                let ok = match &result {
                    Ok(_) => supported,
                    Err(d) => !supported && d.list.iter().all(|d| d.code == "E0880"),
                };
                if !ok {
                    let error = result.err().map(|d| d.render()).unwrap_or_default();
                    wrong.push(format!("{left} × {right} → {destination}: {error}"));
                }
            }
        }
    }
    assert_eq!(rows, 69);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The member types and the static members of `matmul2d`.
#[test]
fn members_of_matmul2d() {
    compiles(&[
        "using Op = matmul2d<matmul2d_descriptor(16, 32, 16, false, true), execution_simdgroup>;
         Op op;
         Op::cooperative_tensor_destination_t<H2, H2, float> d = op.get_destination_cooperative_tensor<H2, H2, float>();
         Op::cooperative_tensor_left_input_t<half, half, float> l = op.get_left_input_cooperative_tensor<half, half, float>();
         Op::cooperative_tensor_right_input_t<half, half, float> r = op.get_right_input_cooperative_tensor<half, half, float>();
         Op::cooperative_tensor_row_reduction_destination_t<H2, H2, float> rr;
         Op::cooperative_tensor_column_reduction_destination_t<H2, H2, float, short> cr;
         rr = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>();
         static_assert(Op::descriptor.m == 16 && Op::descriptor.n == 32 && Op::descriptor.k == 16, \"sizes\");
         static_assert(!Op::descriptor.transpose_left && Op::descriptor.transpose_right, \"orders\");
         static_assert(Op::descriptor.matmul_mode == matmul2d_descriptor::mode::multiply, \"mode\");
         static_assert(is_same_v<Op::scope, execution_simdgroup>, \"scope\"); typename decltype(op)::cooperative_tensor_destination_t<H2, H2, half> other;
         static_assert(is_same_v<matmul2d<Op::descriptor, Op::scope>, Op>, \"the same type\");
         matmul2d<Op::descriptor, execution_simdgroups<4>> wide; static_assert(decltype(wide)::descriptor.n == 32, \"n\");
         int width = op.descriptor.n; p[0] = width;
         op.run(l, r, d); reduce_rows(d, rr);",
        "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>();
         auto it = d.begin(); it = d.end(); it = d.begin() + 1; it += 2; it -= 1; --it; it++;
         int n = d.end() - it; bool last = it == d.end() || it >= d.begin(); *it = 1.0f; it[0] = last ? n : 0;",
        "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>();
         auto j = d.get_iterator(&d[3]); bool v = d.is_valid_element(&d[1]) && d.is_valid_element(d.begin());
         auto m = d.get_multidimensional_index(&d[2]); d.set(&d[1], d.get(&d[2]) + m[0]); d.set(j, v ? 1.0f : d.get(j));
         thread float *e = &d[0]; *e = 1; d.store(c);",
        "using E = extents<int, 16, 8>; static_assert(E::rank() == 2 && E::static_extent(0) == 16 && E::rank_dynamic() == 0, \"\");
         E e; p[0] = e.extent(1) + fixed.extents().extent(0); D2 f(1, 2); f = D2(3, 4); D2 z = {3, 4}; dextents<uint, 2> w = z;
         static_assert(is_same_v<H2::value_type, half> && is_same_v<decltype(a)::extents_type, D2> && H2::get_rank() == 2, \"\");
         for (int i = 0; i < 2; i++) p[i] = a.get_extent(i) + a.get_stride(i);",
        "tensor<device half, D2, tensor_handle, tensor_offset> t = a.slice(1, 2); auto s = t.slice<8, 8>(1, 1); t = a;
         p[0] = s[0, 0] + fixed.slice(0, 0)[1, 1]; auto x = tensor(p, D2(4, 4)); tensor y(p, extents<int, 4, 4>()); x[1, 2] = y[0, 0];
         tensor<device float, D2, tensor_inline> i(p, D2(4, 4), {1, 4}); array<int, 2> st = {1, 4};
         tensor<device float, D2, tensor_inline> j(p, D2(4, 4), st); i[0, 0] = j[1, 1] + st.size();",
        "constexpr auto desc = matmul2d_descriptor(16, 16, dynamic_extent); matmul2d<desc, execution_simdgroup> op; op.run(a, b, c);
         matmul2d<matmul2d_descriptor(16, 16, dyn), execution_simdgroups<2>>{}.run(a, b, c);
         const auto as = a.slice(0, 0); auto bs = b.slice<dynamic_extent, 16>(0, 0); auto cs = c.slice<16, 16>(0, 0);
         op.run(as, bs, cs); op.run(k, b, c); op.run(ac, b, c);",
    ]);
}

/// What only Apple's headers refuse is a warning with the same code and text when the compilation is lenient.
#[test]
fn lenient() {
    let bodies = [
        ("E0879", "OP(16, 16, 8); op.run(a, b, c);"),
        ("E0892", "OP(12, 16, dyn); op.run(a, b, c);"),
        ("E0893", "OP(8, 8, dyn); op.run(a, b, c);"),
        (
            "E0906",
            "OP(16, 16, dyn, true, true); SCALED(l, S32); SCALED(r, S32); op.run(l, r, c);",
        ),
        (
            "E0907",
            "OP(16, 16, dyn, false, false); SCALED(l, S32); SCALED(r, S32); op.run(l, r, c);",
        ),
        (
            "E0908",
            "OP(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, float>(); auto r = op.get_right_input_cooperative_tensor<half, half, float>(); op.run(l, r, c);",
        ),
    ];
    let lenient = CompileOptions {
        lenient: true,
        ..Default::default()
    };
    for (code, body) in bodies {
        let source = source(body);
        let strict = Library::compile(&source, "strict.metal", &CompileOptions::default());
        let strict = strict.err().unwrap_or_else(|| panic!("{body} compiles"));
        let library = Library::compile(&source, "lenient.metal", &lenient).unwrap_or_else(|d| panic!("{}", d.render()));
        let warnings = library.warnings();
        assert_eq!(strict.list.len(), 1, "{body}");
        assert_eq!(warnings.list.len(), 1, "{body}");
        assert_eq!(strict.list[0].code, code);
        assert_eq!(warnings.list[0].severity, Severity::Warning);
        assert_eq!(text(&warnings.list[0]), text(&strict.list[0]));
    }
}

/// A reduction without an identity starts from 0, whatever the operation.
#[test]
fn reduction_without_identity_warns() {
    let body = |call: &str| {
        source(&format!(
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>();
             auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); {call}"
        ))
    };
    let warnings = |call: &str| {
        let library = Library::compile(&body(call), "r.metal", &CompileOptions::default())
            .unwrap_or_else(|d| panic!("{}", d.render()));
        let list = &library.warnings().list;
        list.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("reduce_rows(d, r, reduction_operation::max);"),
        ["W0873 'reduce_rows' starts from the identity of a sum (0) whatever the operation is; pass the identity"]
    );
    assert!(warnings("reduce_rows(d, r); reduce_rows(d, r, reduction_operation::min, INFINITY);").is_empty());
}

#[test]
fn math_on_scalars_and_vectors() {
    assert_eq!(
        floats(
            "half h = half(in[0]); auto m = max(h, in[1]); static_assert(is_same_v<decltype(m), float>, \"float\"); out[0] = m;
             auto n = max(h, 1.5h); static_assert(is_same_v<decltype(n), half>, \"half\"); out[1] = n;
             float3 v = clamp(float3(in[0], in[1], in[2]), 0.0f, 2.5f); out[2] = v.x; out[3] = v.y; out[4] = v.z;
             float2 w = mix(float2(in[0], in[1]), float2(3, 5), 0.25f); out[5] = w.x; out[6] = w.y;
             out[7] = select(in[0], in[1], in[0] < in[1]); out[8] = select(in[0], in[1], 1); out[9] = select(in[0], in[1], 0);
             float2 s = select(float2(1, 2), float2(3, 4), bool2(true, false)); out[10] = s.x; out[11] = s.y;
             out[12] = precise::sqrt(in[3]); out[13] = fast::exp2(in[1]); out[14] = precise::divide(in[3], in[1]);
             out[15] = clamp(in[3], 0.0f, 4.0f); out[16] = min3(in[0], in[1], in[2]); out[17] = median3(in[0], in[1], in[2]);
             out[18] = fma(in[0], in[1], in[2]); out[19] = sign(in[2]); out[20] = step(1.5f, in[1]); out[21] = fract(2.75f);
             out[22] = max(in[0], 3); float c; out[23] = sincos(0.0f, c); out[24] = c; float whole; out[25] = modf(3.25f, whole); out[26] = whole;
             out[27] = length(float2(3, 4)); out[28] = copysign(in[3], in[2]); out[29] = saturate(in[3]); int e; out[30] = frexp(in[3], e); out[31] = e;",
            &[1.0, 2.0, -3.0, 9.0],
            32
        ),
        [
            2.0, 1.5, 1.0, 2.0, 0.0, 1.5, 2.75, 2.0, 2.0, 1.0, 3.0, 2.0, 3.0, 4.0, 4.5, 4.0, -3.0, 1.0,
            -1.0, -1.0, 1.0, 0.75, 3.0, 0.0, 1.0, 0.25, 3.0, 5.0, -9.0, 1.0, 0.5625, 4.0
        ]
    );
}

#[test]
fn math_on_integers() {
    assert_eq!(
        ints(
            "out[0] = min(in[0], in[1]); out[1] = max(uint(in[1]), 3u); out[2] = abs(in[1]); out[3] = clamp(in[0], -1, 5);
             out[4] = popcount(in[0]); out[5] = clz(in[0]); out[6] = ctz(in[2]); out[7] = mulhi(in[3], in[3]); out[8] = absdiff(in[0], in[1]);
             out[9] = addsat(in[3], in[3]); out[10] = subsat(uint(in[2]), uint(in[3])); out[11] = hadd(in[0], 4); out[12] = rhadd(in[0], 4);
             out[13] = rotate(uint(in[2]), 30u); out[14] = reverse_bits(uint(in[2])); out[15] = extract_bits(uint(in[0]), 1u, 2u);
             out[16] = insert_bits(0u, 3u, 4u, 2u); int2 v = max(int2(in[0], in[1]), 0); out[17] = v.x; out[18] = v.y;
             out[19] = madsat(char(100), char(2), char(3)); out[20] = madhi(in[3], in[3], 1); out[21] = mad24(in[0], 3, 4);
             out[22] = min(short(in[1]), short(2)); out[23] = any(int2(in[0], in[1]) < 0) + 2 * all(int2(in[0], in[1]) < 0);",
            &[7, -2, 8, 0x4000_0000],
            24
        ),
        [
            -2, -2, 2, 5, 3, 29, 3, 0x1000_0000, 9, i32::MAX, 0, 5, 6, 2, 0x1000_0000, 3, 48, 7, 0, 127,
            0x1000_0001, 25, -2, 1
        ]
    );
}

#[test]
fn limits_and_traits() {
    assert_eq!(
        floats(
            "out[0] = numeric_limits<half>::max(); out[1] = numeric_limits<half>::lowest(); out[2] = numeric_limits<bfloat>::epsilon();
             out[3] = numeric_limits<float>::infinity(); out[4] = numeric_limits<float>::min(); out[5] = numeric_limits<half>::denorm_min();
             out[6] = isnan(numeric_limits<float>::quiet_NaN()); out[7] = numeric_limits<uchar>::max(); out[8] = numeric_limits<short>::min();
             out[9] = numeric_limits<float>::digits; out[10] = numeric_limits<int>::digits; out[11] = numeric_limits<float>::digits10;
             out[12] = numeric_limits<half>::max_digits10; out[13] = numeric_limits<uint>::digits10; out[14] = numeric_limits<half>::is_signed;
             out[15] = float(numeric_limits<char>::lowest());",
            &[0.0],
            16
        ),
        [
            65504.0, -65504.0, 0.0078125, f32::INFINITY, f32::MIN_POSITIVE, 5.9604645e-8, 1.0, 255.0, -32768.0,
            24.0, 31.0, 6.0, 5.0, 9.0, 1.0, -128.0
        ]
    );
    compiles(&[
        "static_assert(is_same_v<remove_cv_t<const float>, float> && is_same_v<make_unsigned_t<int>, uint>, \"\");
         static_assert(is_floating_point_v<half> && is_floating_point_v<bfloat> && !is_floating_point_v<int>, \"\");
         static_assert(is_integral_v<uchar> && is_signed_v<char> && is_unsigned_v<ulong> && is_arithmetic_v<float>, \"\");
         static_assert(is_pointer_v<device float *> && !is_pointer_v<float> && is_void_v<void> && is_array_v<int[3]>, \"\");
         static_assert(is_vector_v<float4> && !is_vector_v<float> && is_class_v<Pair> && is_enum_v<memory_order>, \"\");
         static_assert(is_convertible_v<int, float> && is_const_v<const int> && is_lvalue_reference_v<thread int &>, \"\");
         static_assert(is_tensor_handle_v<H2> && !is_tensor_inline_v<H2> && has_tensor_blockwise_v<scaled<S32>>, \"\");
         static_assert(is_same_v<conditional_t<true, half, float>, half> && is_same_v<remove_addrspace_t<device float>, float>, \"\");",
    ]);
}

#[test]
fn bits_of_values() {
    assert_eq!(
        ints(
            "out[0] = as_type<int>(1.0f); out[1] = as_type<ushort>(1.0h); out[2] = as_type<int>(half2(1.0h, 2.0h));
             uchar4 b = as_type<uchar4>(in[0]); out[3] = b.x; out[4] = b.w; out[5] = as_type<int>(b) == in[0];
             out[6] = as_type<short>(bfloat(1.0f)); int2 v = as_type<int2>(float2(1, 2)); out[7] = v.y;",
            &[0x0403_0201],
            8
        ),
        [0x3f80_0000, 0x3c00, 0x4000_3c00, 1, 4, 1, 0x3f80, 0x4000_0000]
    );
}

#[test]
fn group_and_atomic_functions_compile() {
    compiles(&[
        "float x = p[0]; uint i = u[0]; x += simd_sum(x) + simd_prefix_exclusive_sum(x) + simd_max(x); i = simd_and(i) | simd_xor(i);
         x = simd_shuffle(x, ushort(3)) + simd_shuffle_xor(x, 1) + simd_shuffle_down(x, 1) + simd_broadcast(x, 0) + simd_broadcast_first(x);
         float4 f = simd_sum(float4(x)); half2 h = quad_shuffle_xor(half2(half(x)), 1); simd_vote::vote_t mask = (simd_vote::vote_t)simd_ballot(x > 0);
         bool any = simd_any(x > 0) && simd_all(x > 0) && simd_ballot(x > 1).any() && simd_is_first(); p[1] = quad_sum(x) + f.x + h.x + any + mask + i;
         simdgroup_barrier(mem_flags::mem_none); threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);",
        "device atomic_uint *n = (device atomic_uint *)u; uint old = atomic_fetch_add_explicit(n, 1, memory_order_relaxed); atomic_store_explicit(n, old, memory_order_relaxed);
         device const atomic_uint *m = n; p[0] = atomic_load_explicit(m, memory_order_relaxed) + atomic_exchange_explicit(&n[1], 2, memory_order_relaxed);
         threadgroup atomic<int> shared[2]; int expected = 0; bool done = atomic_compare_exchange_weak_explicit(&shared[1], &expected, 5, memory_order_relaxed, memory_order_relaxed);
         device atomic_float *f = (device atomic_float *)p; atomic_fetch_add_explicit(f, 1.5f, memory_order_relaxed); p[1] = done;
         device atomic_ulong *w = (device atomic_ulong *)p; atomic_max_explicit(w, 7ul, memory_order_relaxed);",
    ]);
}

/// `<metal_math>` and its neighbours.
#[test]
fn math_refusals() {
    check(&[
        (
            "int x = p[0]; uint y = u[0]; auto z = min(x, y);",
            "E0816 the call of 'min' with 'int' and 'uint' is ambiguous | help: convert one argument: 'uint(…)'",
        ),
        (
            "int2 x = int2(p[0]); uint2 y = uint2(u[0]); auto z = max(x, y);",
            "E0816 the call of 'max' with 'int' and 'uint' is ambiguous | help: convert one argument: 'uint(…)'",
        ),
        ("float x = max(p[0]);", "E0811 'max' takes 2 arguments, 1 given"),
        (
            "auto x = max(float2(0), float3(0));",
            "E0814 'max' takes vectors of one length, not 2 and 3",
        ),
        (
            "auto x = popcount(p[0]);",
            "E0815 'popcount' takes integers, not 'float'",
        ),
        ("auto x = mulhi(1, p[0]);", "E0815 'mulhi' takes integers, not 'float'"),
        (
            "auto x = cross(float2(0), float2(1));",
            "E0817 'cross' takes vectors of 3 components, not 2",
        ),
        (
            "auto x = madsat(long(p[0]), long(2), long(3));",
            "E0818 'madsat' on 64-bit integers is not supported",
        ),
        (
            "auto x = sincos(p[0]);",
            "E0819 'sincos' takes a value and a variable for its second result",
        ),
        (
            "half c; auto x = sincos(p[0], c);",
            "E0819 the second result of 'sincos' is 'float', not 'half'",
        ),
        (
            "auto x = sin(p);",
            "E0813 'sin' takes numbers and vectors, not 'device float *'",
        ),
        ("auto x = sin({1});", "E0812 'sin' takes no braced list"),
        (
            "auto x = sincos(p, p[0]);",
            "E0813 'sincos' takes numbers and vectors, not 'device float *'",
        ),
        (
            "auto x = select(1.0f, 2.0f);",
            "E0811 'select' takes 3 arguments, 2 given",
        ),
        (
            "auto x = extract_bits(p[0], 1u, 2u);",
            "E0815 'extract_bits' takes integers, not 'float'",
        ),
        ("auto x = frexp({1}, p[0]);", "E0812 'frexp' takes no braced list"),
        (
            "auto x = fast::sin(1.0f, 2.0f);",
            "E0811 'sin' takes 1 argument, 2 given",
        ),
        (
            "auto x = fast::nothing(1.0f);",
            "E0435 there is no 'nothing' in namespace 'metal::fast'",
        ),
    ]);
}

/// SIMD-group functions, barriers and fences.
#[test]
fn group_refusals() {
    check(&[
        (
            "auto x = simd_shuffle_and_fill_down(p[0], 2.0f, 1, 12);",
            "E0912 12 lanes are no part of the group that 'simd_shuffle_and_fill_down' works on | help: 'modulo' is a power of two from 2 to 32",
        ),
        (
            "auto x = quad_shuffle_and_fill_up(p[0], 2.0f);",
            "E0811 'quad_shuffle_and_fill_up' takes 3 to 4 arguments, 2 given",
        ),
        (
            "auto x = simd_sum(p);",
            "E0813 'simd_sum' takes numbers and vectors, not 'device float *'",
        ),
        (
            "auto x = simd_and(p[0]);",
            "E0815 'simd_and' takes integers, not 'float'",
        ),
        ("auto x = simd_sum();", "E0811 'simd_sum' takes 1 argument, 0 given"),
        (
            "auto x = simd_shuffle(p[0]);",
            "E0811 'simd_shuffle' takes 2 arguments, 1 given",
        ),
        (
            "auto x = simd_shuffle(p[0], p);",
            "E0823 expected a number, not 'device float *'",
        ),
        ("auto x = simd_all(p);", "E0823 expected a number, not 'device float *'"),
        (
            "auto x = simd_ballot(true).count();",
            "E0472 'simd_vote' has no member function 'count'",
        ),
        (
            "threadgroup_barrier(mem_flags(u[0]));",
            "E0911 the memory flags of 'threadgroup_barrier' must be a constant | help: write 'mem_flags::mem_device', 'mem_flags::mem_threadgroup' or both joined by '|'",
        ),
        (
            "threadgroup_barrier();",
            "E0811 'threadgroup_barrier' takes 1 to 2 arguments, 0 given",
        ),
        ("auto x = simd_sum({1});", "E0812 'simd_sum' takes no braced list here"),
    ]);
}

/// `<metal_atomic>`.
#[test]
fn atomic_refusals() {
    check(&[
        (
            "device atomic<half> *x = (device atomic<half> *)p;",
            "E0915 'atomic<half>' does not exist: its argument must be int, uint, float, ulong or bool",
        ),
        (
            "atomic_fetch_add_explicit(p, 1, memory_order_relaxed);",
            "E0916 'atomic_fetch_add_explicit' takes a pointer to an atomic, not 'device float *'",
        ),
        (
            "device const atomic_uint *x = (device const atomic_uint *)p; atomic_store_explicit(x, 1, memory_order_relaxed);",
            "E0914 'atomic_store_explicit' cannot change a const atomic | help: declare the pointer without 'const'",
        ),
        (
            "device atomic_float *x = (device atomic_float *)p; atomic_fetch_and_explicit(x, 1, memory_order_relaxed);",
            "E0918 'atomic_fetch_and_explicit' does not exist for 'atomic<float>'",
        ),
        (
            "device atomic_bool *x = (device atomic_bool *)p; atomic_fetch_add_explicit(x, 1, memory_order_relaxed);",
            "E0918 'atomic_fetch_add_explicit' does not exist for 'atomic<bool>'",
        ),
        (
            "device atomic_ulong *x = (device atomic_ulong *)p; atomic_fetch_add_explicit(x, 1, memory_order_relaxed);",
            "E0918 'atomic_fetch_add_explicit' does not exist for 'atomic<ulong>'",
        ),
        (
            "constant atomic_uint *x = (constant atomic_uint *)q; auto y = atomic_load_explicit(x, memory_order_relaxed);",
            "E0917 'atomic_load_explicit' takes an atomic in device or threadgroup memory, not in constant memory",
        ),
        (
            "device atomic_int *x = (device atomic_int *)p; atomic_compare_exchange_weak_explicit(x, 1, 2, memory_order_relaxed, memory_order_relaxed);",
            "E0919 the expected value is passed by pointer: '&expected'",
        ),
        (
            "device atomic_int *x = (device atomic_int *)p; atomic_store_explicit(x);",
            "E0811 'atomic_store_explicit' takes 3 to 4 arguments, 1 given",
        ),
        (
            "device atomic_int *x = (device atomic_int *)p; atomic_store_explicit(x, p, memory_order_relaxed);",
            "E0823 expected a number, not 'device float *'",
        ),
    ]);
}

/// `numeric_limits`, `array`, type traits and `as_type`.
#[test]
fn traits_and_bits_refusals() {
    check(&[
        ("array<int, -1> x;", "E0920 'array' cannot have -1 elements"),
        (
            "auto x = numeric_limits<Pair>::max();",
            "E0921 'numeric_limits<Pair>' has no members: its argument must be a number type",
        ),
        ("auto x = is_same<3, int>::value;", "E0922 'is_same' takes types"),
        (
            "auto x = numeric_limits<float>::max(1);",
            "E0811 'max' takes no arguments",
        ),
        (
            "auto x = numeric_limits<float>::width;",
            "E0435 there is no 'width' in type 'numeric_limits<float>'",
        ),
        ("remove_cv_t x;", "E0434 'remove_cv_t' needs template arguments here"),
        (
            "auto x = as_type<half>(p[0]);",
            "E0936 'as_type' needs types of one size: 'float' has 4 bytes, 'half' has 2",
        ),
        (
            "auto x = as_type<Pair>(p[0]);",
            "E0935 'as_type' takes scalars and vectors of numbers, not 'Pair'",
        ),
        (
            "auto x = as_type<int>(p);",
            "E0935 'as_type' takes scalars and vectors of numbers, not 'device float *'",
        ),
        (
            "auto x = as_type(p[0]);",
            "E0821 'as_type' needs template argument 1 (a type)",
        ),
        (
            "auto x = as_type<int>(true);",
            "E0935 'as_type' takes scalars and vectors of numbers, not 'bool'",
        ),
        (
            "auto x = as_type<float3>(int2(1));",
            "E0936 'as_type' needs types of one size: 'int2' has 8 bytes, 'float3' has 12",
        ),
    ]);
}

/// Element formats as values, `packed_numeric_type`, `pack` and `unpack`, functions of matrices.
#[test]
fn packed_refusals() {
    check(&[
        (
            "packed_numeric_type<float, 8> x;",
            "E0924 'float' is no element format of at most 8 bits | help: write 'packed_numeric_type<metal_fp8_e4m3_format, 8>'",
        ),
        (
            "packed_numeric_type<int4b_format, 3> x;",
            "E0925 'packed_numeric_type' does not hold 3 elements of 4 bits | help: the count is 2, 4, 8 or 16, and the elements fill whole bytes",
        ),
        (
            "packed_numeric_type<int4b_format, 4> x(1, 2);",
            "E0926 'packed_numeric_type<int4b_format, 4>' is constructed from its storage, 2 arguments given | help: pass one 'uchar2'",
        ),
        (
            "packed_numeric_type<int4b_format, 8> x(uchar2(0));",
            "E0466 'uchar2' does not convert to 'uchar4'",
        ),
        (
            "packed_numeric_type<int2b_format, 8> x; auto y = unpack<float>(x);",
            "E0927 there is no 'unpack' for the 2-bit format 'int2b_format' | note: take the elements out of 'as_storage_type()' by shifts, or let 'matmul2d' take the format",
        ),
        (
            "packed_numeric_type<int4b_format, 8> x; auto y = unpack<int>(x);",
            "E0928 'unpack' gives float, half or bfloat, not 'int' | help: write 'unpack<float>(packed)'",
        ),
        (
            "auto y = unpack<float>(p[0]);",
            "E0929 'unpack' takes a 'packed_numeric_type', not 'float' | help: construct one from its storage: 'packed_numeric_type<FORMAT, N>(bytes)'",
        ),
        (
            "auto y = pack<metal_fp4_e2m1_format>(float3(0));",
            "E0931 'pack' cannot make 'metal_fp4_e2m1_format' elements of 'float3' | help: it takes a vector of float, half or bfloat whose elements fill whole bytes of the format",
        ),
        (
            "device int4b_format* q = (device int4b_format*)p; auto x = *q;",
            "E0524 an element of 'int4b_format' is less than a byte and has no address | help: read it through a tensor or as bytes: 'device uchar *'",
        ),
        (
            "threadgroup int2b_format q[8];",
            "E0525 'int2b_format' elements are less than a byte: there is no array of them | help: declare an array of 'uchar' and a 'tensor_inline' over it",
        ),
        (
            "metal_fp8_e4m3_format x = 1.0f;",
            "E0466 'float' does not convert to 'metal_fp8_e4m3_format' | help: element formats convert only explicitly: write 'float(element)' or 'metal_fp8_e4m3_format(number)'",
        ),
        (
            "auto x = transpose(p[0]);",
            "E0932 'transpose' takes a matrix, not 'float'",
        ),
        (
            "auto x = determinant(float2x3(0));",
            "E0933 'determinant' takes a square matrix, not 2 columns of 3",
        ),
    ]);
}

#[test]
fn simdgroup_matrices() {
    check(&[
        (
            "simdgroup_matrix<int, 8, 8> m;",
            "E0960 the elements of a simdgroup_matrix are half, bfloat or float, not 'int'",
        ),
        (
            "simdgroup_matrix<float, 16, 8> m;",
            "E0961 a simdgroup_matrix has 8 columns and 8 rows, not 16 and 8",
        ),
        (
            "auto m = make_filled_simdgroup_matrix<half, 4, 8>(0.0h);",
            "E0961 a simdgroup_matrix has 8 columns and 8 rows, not 4 and 8",
        ),
        (
            "simdgroup_float8x8 m; simdgroup_multiply(m, m, 2.0f);",
            "E0962 argument 3 of 'simdgroup_multiply' must be a simdgroup_matrix, not 'float'",
        ),
        (
            "float m; simdgroup_load(m, p);",
            "E0962 argument 1 of 'simdgroup_load' must be a simdgroup_matrix, not 'float'",
        ),
        (
            "const simdgroup_float8x8 m(1); simdgroup_load(m, p);",
            "E0963 'simdgroup_load' writes its first argument, which cannot be changed | help: pass a variable that is not 'const'",
        ),
        (
            "simdgroup_multiply_accumulate(simdgroup_float8x8(0), simdgroup_half8x8(1), simdgroup_half8x8(1), simdgroup_float8x8(0));",
            "E0963 'simdgroup_multiply_accumulate' writes its first argument, which cannot be changed | help: pass a variable that is not 'const'",
        ),
        (
            "simdgroup_half8x8 m; simdgroup_load(m, p);",
            "E0964 'simdgroup_load' of a matrix of 'half' takes a pointer to 'half', not to 'device float' | help: declare the matrix with the element type of the memory",
        ),
        (
            "simdgroup_float8x8 m(0); simdgroup_store(m, 3);",
            "E0964 'simdgroup_store' takes a pointer to elements, not 'int'",
        ),
        (
            "simdgroup_float8x8 m; float x[64]; simdgroup_load(m, x);",
            "E0965 'simdgroup_load' has no version for thread memory",
        ),
        (
            "simdgroup_float8x8 m(0); simdgroup_store(m, q);",
            "E0965 'simdgroup_store' has no version for constant memory",
        ),
        (
            "simdgroup_float8x8 m(0); simdgroup_store(m, pc);",
            "E0965 'simdgroup_store' has no version for const device memory",
        ),
        (
            "simdgroup_float8x8 a(1); simdgroup_half8x8 b(1); auto c = a * b;",
            "E0531 '*' is not defined for 'simdgroup_matrix<float, 8, 8>' and 'simdgroup_matrix<half, 8, 8>'",
        ),
        (
            "simdgroup_float8x8 a(1); auto c = a.rows();",
            "E0472 'simdgroup_matrix<float, 8, 8>' has no member function 'rows'",
        ),
    ]);
    compiles(&[
        "simdgroup_float8x8 m; simdgroup_load(m, q, 8); simdgroup_store(m, p, ulong(8), ulong2(0, 8), true);",
        "simdgroup_matrix<bfloat, 8, 8> a[2][3]; for (int i = 0; i < 2; ++i) for (int k = 0; k < 3; ++k) a[i][k] = simdgroup_matrix<bfloat, 8, 8>(bfloat(0));",
        "static_assert(is_same_v<decltype(simdgroup_half8x8(0).thread_elements()[0] + 0), half> || true); static_assert(sizeof(simdgroup_half8x8) == 4);",
    ]);
}
