// Integers with block scales along K: int8 and int4 weights beside half, int2 beside bfloat.
//
// kernel: product
// grid: threadgroups 1 2 1
// threads: 64 1 1
// expect 2: matmul(0, 1, transpose_right)
//
// run: int8
// flags: -D LEFT=half -D RIGHT=int8_t
// arg 0: tensor half (96, 40) = random(1)
// arg 1: tensor char (96, 32) scales (32, 1) = random(2)
// arg 2: tensor float (32, 40) = fill(9)
// tolerance: abs 1e-2 rel 1e-5
//
// run: int4
// flags: -D LEFT=half -D RIGHT=int4b_format
// arg 0: tensor half (96, 40) = random(3)
// arg 1: tensor int4 (96, 32) scales (32, 1) = random(4)
// arg 2: tensor float (32, 40) = fill(9)
// tolerance: abs 1e-2 rel 1e-5
//
// run: uint2
// flags: -D LEFT=bfloat -D RIGHT=uint2b_format
// arg 0: tensor bfloat (96, 40) = random(5)
// arg 1: tensor uint2 (96, 32) scales (32, 1) = random(6)
// arg 2: tensor float (32, 40) = fill(9)
// tolerance: abs 1e-2 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

kernel void product(tensor<device LEFT, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device RIGHT, dextents<int, 2>, tensor_handle, scales> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr matmul2d_descriptor descriptor(32, 32, dynamic_extent, false, true);
    matmul2d<descriptor, execution_simdgroups<2>> op;
    auto left = a.slice(0, tgid.y * 32);
    auto result = c.slice(0, tgid.y * 32);
    op.run(left, b, result);
}
