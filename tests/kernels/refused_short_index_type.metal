// Operands of TensorOps have the index type int.
//
// error: * Index type must be int

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<short, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<short, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<short, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}
