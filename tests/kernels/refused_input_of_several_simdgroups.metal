// Cooperative inputs belong to one SIMD-group.
//
// error: * Input cooperative tensors require a single SIMD group

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> b [[buffer(0)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(1)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    op.run(left, b, c);
}
