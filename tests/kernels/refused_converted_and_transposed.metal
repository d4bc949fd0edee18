// A converted input cannot be the transposed operand.
//
// error: * Input cooperative tensor cannot be transposed

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device float, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(1)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 32, true, false);
    matmul2d<descriptor, execution_simdgroup> op;
    auto first = op.get_destination_cooperative_tensor<decltype(a), decltype(a), float>();
    op.run(a, a, first);
    auto left = op.get_left_input_cooperative_tensor<float, float, float>(first);
    op.run(left, a, c);
}
