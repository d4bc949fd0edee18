// A scale serves 32 elements.
//
// error: * Scale block size 0 must be 32

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 16, 1>;
using operand = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, scales>;

kernel void product(operand a [[buffer(0)]], operand b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, static_cast<int>(dynamic_extent), false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}
