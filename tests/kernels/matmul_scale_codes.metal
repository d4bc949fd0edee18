// The outermost scale codes: 0 is 2^-127, 254 is 2^127, 255 is NaN. Products of a large and a small scale are in range even where
// the scaled elements are not.
//
// kernel: product
// arg 2: buffer float (16, 16) = fill(9)
// threads: 32 1 1
// tolerance: exact
// expect 2: matmul(0, 1, transpose_right)
//
// run: small
// arg 0: tensor fp8_e4m3 (32, 16) scales (32, 1) = fill(1.5) scales [0, 1, 254, 255]
// arg 1: tensor fp8_e4m3 (32, 16) scales (32, 1) = fill(1.5) scales [254, 127, 1, 0]
//
// run: large
// arg 0: tensor fp8_e4m3 (32, 16) scales (32, 1) = fill(448) scales [0, 1, 254, 253]
// arg 1: tensor fp8_e4m3 (32, 16) scales (32, 1) = fill(448) scales [254, 127, 1, 0]
//
// run: tensor unit
// option: numerics=tensor-unit
// arg 0: tensor fp8_e4m3 (32, 16) scales (32, 1) = fill(448) scales [0, 1, 254, 255]
// arg 1: tensor fp8_e4m3 (32, 16) scales (32, 1) = fill(448) scales [254, 127, 1, 0]

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;
using weights = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, scales>;

kernel void product(weights a [[buffer(0)]], weights b [[buffer(1)]], device float* c [[buffer(2)]])
{
    constexpr matmul2d_descriptor descriptor(16, 16, dynamic_extent, false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    tensor out(c, dextents<int, 2>(16, 16));
    op.run(a, b, out);
}
