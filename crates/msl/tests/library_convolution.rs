//! The rules of `convolution2d` (reference 7): each is broken once, and the whole text of the refusal is asserted.

#[path = "common/library.rs"]
mod library;

use library::{check, compiles};

/// A convolution of 4 × 4 places in a tensor of rank 4, with a body after it.
fn conv(descriptor: &str, body: &str) -> String {
    format!(
        "using D4 = dextents<int, 4>; using A4 = tensor<device half, D4, tensor_inline>; device half *h = (device half *)u; \
         A4 x(h, D4(3, 4, 4, 1)), w(h, D4(8, 3, 3, 3)), y(h, D4(8, 4, 4, 1)); \
         convolution2d<convolution2d_descriptor({descriptor}), execution_simdgroups<4>> op; {body}"
    )
}

const PLAIN: &str = "int4(8, 4, 4, 1), int4(3, 4, 4, 1), int2(3, 3)";

fn refused(rules: &[(&str, &str, &str)]) {
    let bodies: Vec<(String, &str)> = rules
        .iter()
        .map(|(descriptor, body, text)| (conv(descriptor, body), *text))
        .collect();
    let rules: Vec<(&str, &str)> = bodies.iter().map(|(body, text)| (body.as_str(), *text)).collect();
    check(&rules);
}

#[test]
fn descriptors_and_scopes() {
    check(&[
        (
            "convolution2d<3, execution_simdgroup> c;",
            "E0970 the first template argument of 'convolution2d' must be a constant 'convolution2d_descriptor' | help: declare it as 'constexpr auto descriptor = convolution2d_descriptor(…);'",
        ),
        (
            "convolution2d<convolution2d_descriptor(int4(8, 4, 4, 1), int4(3, 4, 4, 1), int2(3, 3)), execution_thread> c;",
            "E0971 the scope of 'convolution2d' must be 'execution_simdgroups<N>', not 'execution_thread' | help: a convolution is run by all SIMD-groups of a threadgroup",
        ),
    ]);
    refused(&[
        (
            "int4(8, 4, 4, 1), int4(3, 4, 4, 1), int2(3, 3), convolution2d_activation_layout(1)",
            "",
            "E0972 only nhwc activation layout supported currently",
        ),
        (
            "int4(8, 4, 4, 1), int4(3, 4, 4, 1), int2(3, 3), convolution2d_activation_layout::nhwc, convolution2d_weights_layout(1)",
            "",
            "E0972 only hwio weights layout supported currently",
        ),
        (
            "int4(8, 4, 4, 1), int4(3, 4, 4, 1), int2(3, 3), convolution2d_activation_layout::nhwc, convolution2d_weights_layout::hwio, int2(1), int2(1), 2",
            "",
            "E0972 only group size 1 supported currently | help: groups is 2",
        ),
        (
            "int4(8, 0, 4, 1), int4(3, 4, 4, 1), int2(3, 3)",
            "",
            "E0973 convolution2d_descriptor: destination_dimensions.y = 0 is not in 1…65536",
        ),
        (
            "int4(8, 4, 4, 1), int4(3, 4, 4, -1), int2(3, 3)",
            "",
            "E0973 convolution2d_descriptor: source_dimensions.w = -1 is not in 1…65536",
        ),
        (
            "int4(8, 4, 4, 1), int4(3, 4, 4, 1), int2(3, 3), convolution2d_activation_layout::nhwc, convolution2d_weights_layout::hwio, int2(0, 1)",
            "",
            "E0973 convolution2d_descriptor: strides.x = 0 is not in 1…65536",
        ),
    ]);
}

#[test]
fn operands() {
    let destination = "auto t = op.get_destination_cooperative_tensor<A4, A4, half>(); ";
    refused(&[
        (
            PLAIN,
            "op.run(p, w, y);",
            "E0975 Activation must be a tensor, not 'device float *'",
        ),
        (PLAIN, "op.run(x, 3, y);", "E0975 Weights must be a tensor, not 'int'"),
        (
            PLAIN,
            "op.run(x, w, p);",
            "E0975 Destination must be a tensor or cooperative tensor, not 'device float *'",
        ),
        (
            PLAIN,
            &format!("{destination}op.run(t, w, y);"),
            "E0975 Activation must be a tensor, not 'cooperative_tensor<half, 8 × 16, destination>'",
        ),
        (
            PLAIN,
            &format!("{destination}op.run(x, t, y);"),
            "E0975 Weights must be a tensor, not 'cooperative_tensor<half, 8 × 16, destination>'",
        ),
        (
            PLAIN,
            "auto t = op.get_destination_cooperative_tensor<half, A4, half>();",
            "E0975 Activation must be a tensor, not 'half' | help: pass the operand's type: 'decltype(tile)'",
        ),
        (
            PLAIN,
            "op.run(a, w, y);",
            "E0977 Activation must have rank 4, not 2 | help: its extents are (channels, width, height, batch)",
        ),
        (
            PLAIN,
            "op.run(x, cube, y);",
            "E0977 Weights must have rank 4, not 3 | help: its extents are (output channels, input channels, kernel width, kernel height)",
        ),
        (
            PLAIN,
            "op.run(x, w, cube);",
            "E0977 Destination must have rank 4, not 3 | help: its extents are (output channels, width, height, batch)",
        ),
        (
            PLAIN,
            "tensor<device half, dextents<uint, 4>, tensor_inline> z(h, dextents<uint, 4>(3, 4, 4, 1)); op.run(z, w, y);",
            "E0897 Index type must be int | help: the extents are of 'uint'",
        ),
        (
            PLAIN,
            "half local[64]; tensor<thread half, D4, tensor_inline> z(local, D4(3, 4, 4, 1)); op.run(z, w, y);",
            "E0866 Unsupported address space: Activation is in thread memory",
        ),
        (
            PLAIN,
            "tensor<device const half, D4, tensor_inline> z(h, D4(8, 4, 4, 1)); op.run(x, w, z);",
            "E0854 the elements of the destination are const | help: declare the tensor without 'const' elements",
        ),
        (
            PLAIN,
            "tensor<device float, D4, tensor_inline> z(p, D4(8, 3, 3, 3)); op.run(x, z, y);",
            "E0974 Unsupported type: convolution2d has no row for activation 'half', weights 'float', destination 'half' | help: activation and weights are both half, both float, both bfloat, or integers of 8 bits",
        ),
        (
            PLAIN,
            "tensor<device int, D4, tensor_inline> z((device int *)u, D4(8, 4, 4, 1)); op.run(x, w, z);",
            "E0974 Unsupported type: convolution2d has no row for activation 'half', weights 'half', destination 'int' | help: these operands can have a destination of float or half",
        ),
        (
            PLAIN,
            "tensor<device metal_fp8_e4m3_format, D4, tensor_inline> z(u, D4(3, 4, 4, 1)); op.run(z, w, y);",
            "E0974 Unsupported type: convolution2d has no row for activation 'metal_fp8_e4m3_format', weights 'half', destination 'half' | help: activation and weights are both half, both float, both bfloat, or integers of 8 bits",
        ),
        (
            PLAIN,
            "const auto fixed_op = op; fixed_op.set_offsets(int2(0, 0));",
            "E0976 'set_offsets' changes the operation, which is const or a temporary | help: declare the operation as a variable that is not 'const'",
        ),
    ]);
}

#[test]
fn cooperative_destinations() {
    let destination = "auto t = op.get_destination_cooperative_tensor<A4, A4, half>(); ";
    let cases = [
        (
            "auto t = op.get_destination_cooperative_tensor<A4, A4, uchar>();",
            "E0884 cooperative tensor data type can only be one of float, half, bfloat, int, not 'uchar'",
        ),
        (
            "convolution2d<convolution2d_descriptor(int4(8, 2, 8, 1), int4(3, 4, 4, 1), int2(3, 3)), execution_simdgroups<4>> other; \
             auto t = other.get_destination_cooperative_tensor<A4, A4, half>(); op.run(x, w, t);",
            "E0978 this cooperative tensor is not a destination of this convolution | help: obtain it with 'get_destination_cooperative_tensor' of the same operation",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 8), execution_simdgroups<4>> mm; TILE mm.run(a, b, t);",
            "E0898 this cooperative tensor is not a destination operand | help: obtain it with 'get_destination_cooperative_tensor'",
        ),
        (
            "TILE t.load(cube);",
            "E0867 a cooperative tensor of rank 4 cannot be moved to or from a tensor of rank 3",
        ),
        (
            "TILE t.store(a);",
            "E0867 a cooperative tensor of rank 4 cannot be moved to or from a tensor of rank 2",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_simdgroup> mm; TILE auto r = mm.get_row_reduction_destination_cooperative_tensor<H2, H2, half>(); reduce_rows(t, r);",
            "E0871 reduce_rows: the source must be a matmul2d destination cooperative tensor",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_simdgroup> mm; TILE auto r = mm.get_row_reduction_destination_cooperative_tensor<H2, H2, half>(); r.map_iterator(t.begin());",
            "E0863 map_iterator: the iterator must come from a matmul2d destination cooperative tensor",
        ),
    ];
    let cases: Vec<(String, &str)> = cases
        .iter()
        .map(|(body, text)| (conv(PLAIN, &body.replace("TILE ", destination)), *text))
        .collect();
    let rules: Vec<(&str, &str)> = cases.iter().map(|(body, text)| (body.as_str(), *text)).collect();
    check(&rules);
}

#[test]
fn accepted() {
    let bodies = [
        "op.set_offsets(int2(1, -1)); op.run(x, w, y);",
        "auto t = op.get_destination_cooperative_tensor<decltype(x), decltype(w), float>(); op.run(x, w, t); static_assert(decltype(t)::get_rank() == 4);",
        "decltype(op)::cooperative_tensor_destination_t<A4, A4, half> t; auto i = t.get_multidimensional_index(0); static_assert(sizeof(i) == 16);",
        "auto t = op.get_destination_cooperative_tensor<A4, A4, half, short>(); static_assert(is_same_v<decltype(t)::index_type, short>);",
        "static_assert(decltype(op)::descriptor.kernel_dimensions.x == 3); static_assert(is_same_v<decltype(op)::scope, execution_simdgroups<4>>);",
        "auto copy = op; copy.set_offsets(int2(3)); copy.run(x, w, y);",
    ];
    let bodies: Vec<String> = bodies.iter().map(|body| conv(PLAIN, body)).collect();
    compiles(&bodies.iter().map(String::as_str).collect::<Vec<_>>());
}
