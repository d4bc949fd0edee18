// matmul2d of half and uint8_t into float, into a cooperative tensor, with tiles at the edges.
//
// kernel: product
// arg 0: tensor half (50, 37) = random(56)
// arg 1: tensor uchar (45, 50) = random(57)
// arg 2: tensor float (45, 37) = random(99)
// grid: threadgroups 2 2 1
// threads: 32 1 1
// expect 2: matmul(0, 1, accumulate)
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device uint8_t, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(
        32, 32, static_cast<int>(dynamic_extent), false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = a.slice(0, tgid.y * 32);
    auto right = b.slice(tgid.x * 32, 0);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    auto tile = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    tile.load(result);
    op.run(left, right, tile);
    tile.store(result);
}
