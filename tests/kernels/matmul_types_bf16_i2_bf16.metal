// matmul2d of bfloat and int2b_format into bfloat, into a cooperative tensor, with tiles at the edges.
//
// kernel: product
// arg 0: tensor bfloat (50, 37) = random(104)
// arg 1: tensor int2 (64, 50) = random(105)
// arg 2: tensor bfloat (64, 37) = random(99)
// grid: threadgroups 2 2 1
// threads: 32 1 1
// expect 2: matmul(0, 1, accumulate)
// tolerance: abs 1e-1 rel 1e-2

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device bfloat, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device int2b_format, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device bfloat, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(
        32, 32, static_cast<int>(dynamic_extent), false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = a.slice(0, tgid.y * 32);
    auto right = b.slice(tgid.x * 32, 0);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    auto tile = op.get_destination_cooperative_tensor<decltype(left), decltype(right), bfloat>();
    tile.load(result);
    op.run(left, right, tile);
    tile.store(result);
}
