// matmul2d of metal_fp4_e2m1_format and metal_fp4_e2m1_format into float, by one SIMD-group, with tiles at the edges.
//
// kernel: product
// arg 0: tensor fp4_e2m1 (64, 37) = random(130)
// arg 1: tensor fp4_e2m1 (64, 45) = random(131)
// arg 2: tensor float (45, 37) = fill(99)
// grid: threadgroups 2 2 1
// threads: 32 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device metal_fp4_e2m1_format, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device metal_fp4_e2m1_format, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(
        32, 32, static_cast<int>(dynamic_extent), false, true, false, matmul2d_descriptor::mode::multiply);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = a.slice(0, tgid.y * 32);
    auto right = b.slice(0, tgid.x * 32);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    op.run(left, right, result);
}
