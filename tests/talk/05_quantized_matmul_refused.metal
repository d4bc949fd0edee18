// Session listing at 7:19 as it was shown: scaled operands with the transposes (false, false). The right operand's blocks
// would run along N. Apple's headers refuse it, and so do we; --lenient multiplies with blocks along dimension 0.
//
// kernel: scaled_matmul
// arg 0: tensor fp8_e4m3 (160, 70) scales (32, 1) = random(11)
// arg 1: tensor fp8_e4m3 (64, 160) scales (32, 1) = random(12)
// arg 2: tensor half (64, 70) = zeros
// grid: threadgroups 2 2 1
// threads: 128 1 1
// run: refused
// error: * Right tensor must be transposed if it has scale factors
// run: lenient
// option: lenient
// expect 2: matmul(0, 1)
// tolerance: abs 4e-3 rel 2e-3

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int TILE_M = 64;
constant constexpr int TILE_N = 32;

using block_scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

using mx_tensor = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, block_scales>;

kernel void scaled_matmul(mx_tensor left [[buffer(0)]],
                          mx_tensor right [[buffer(1)]],
                          tensor<device half, dextents<int, 2>> product [[buffer(2)]],
                          uint2 tgid [[threadgroup_position_in_grid]])
{
    auto left_tile = left.slice(0, tgid.y * TILE_M);
    auto right_tile = right.slice(tgid.x * TILE_N, 0);
    auto product_tile = product.slice(tgid.x * TILE_N, tgid.y * TILE_M);

    constexpr auto descriptor = matmul2d_descriptor(TILE_M,                 // rows of the tile
                                                    TILE_N,                 // columns of the tile
                                                    dynamic_length_v<int>,  // K, from the operands
                                                    false,                  // left operand transposed
                                                    false);                 // right operand transposed

    matmul2d<descriptor, execution_simdgroups<4>> op;
    op.run(left_tile, right_tile, product_tile);
}
