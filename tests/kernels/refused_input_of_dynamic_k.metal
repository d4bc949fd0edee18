// A cooperative input needs a fixed inner dimension.
//
// error: * Inner dimension cannot be dynamic with input cooperative tensors

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> b [[buffer(0)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(1)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    op.run(left, b, c);
}
