// matmul2d of half and metal_fp8_e5m2_format into float, from device memory into device memory, with tiles at the edges.
//
// kernel: product
// arg 0: tensor half (37, 64) = random(126)
// arg 1: tensor fp8_e5m2 (64, 45) = random(127)
// arg 2: tensor float (45, 37) = fill(99)
// grid: threadgroups 2 2 1
// threads: 128 1 1
// expect 2: matmul(0, 1, transpose_left, transpose_right)
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device metal_fp8_e5m2_format, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(
        32, 32, static_cast<int>(dynamic_extent), true, true, false, matmul2d_descriptor::mode::multiply);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left = a.slice(tgid.y * 32, 0);
    auto right = b.slice(0, tgid.x * 32);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    op.run(left, right, result);
}
