// matmul2d of bfloat and half into bfloat, from device memory into device memory, with tiles at the edges.
//
// kernel: product
// arg 0: tensor bfloat (50, 37) = random(42)
// arg 1: tensor half (50, 45) = random(43)
// arg 2: tensor bfloat (45, 37) = fill(99)
// grid: threadgroups 2 2 1
// threads: 128 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-1 rel 1e-2

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device bfloat, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device bfloat, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(
        32, 32, static_cast<int>(dynamic_extent), false, true, false, matmul2d_descriptor::mode::multiply);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left = a.slice(0, tgid.y * 32);
    auto right = b.slice(0, tgid.x * 32);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    op.run(left, right, result);
}
