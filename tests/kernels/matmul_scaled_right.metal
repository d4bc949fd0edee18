// half × scaled fp8: only the right operand carries scales.
//
// kernel: product
// arg 0: tensor half (128, 40) = random(1)
// arg 1: tensor fp8_e4m3 (128, 50) scales (32, 1) = random(2)
// arg 2: tensor float (50, 40) = zeros
// grid: threadgroups 2 2 1
// threads: 128 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;
using weights = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, scales>;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    weights b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left = a.slice(0, tgid.y * 32);
    auto right = b.slice(0, tgid.x * 32);
    auto result = c.slice(tgid.x * 32, tgid.y * 32);
    op.run(left, right, result);
}
