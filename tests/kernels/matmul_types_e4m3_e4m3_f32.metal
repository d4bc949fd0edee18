// matmul2d of metal_fp8_e4m3_format and metal_fp8_e4m3_format into float, into a cooperative tensor, with tiles at the edges.
//
// kernel: product
// arg 0: tensor fp8_e4m3 (64, 64) = random(134)
// arg 1: tensor fp8_e4m3 (64, 45) = random(135)
// arg 2: tensor float (45, 64) = fill(99)
// grid: threadgroups 2 2 1
// threads: 32 1 1
// expect 2: matmul(0, 1, transpose_left, transpose_right)
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device metal_fp8_e4m3_format, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device metal_fp8_e4m3_format, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(
        32, 32, static_cast<int>(dynamic_extent), true, true, false, matmul2d_descriptor::mode::multiply);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = a.slice(tgid.y * 32, 0);
    auto right = b.slice(0, tgid.x * 32);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    auto tile = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    op.run(left, right, tile);
    tile.store(result);
}
