// A tile needs rows or columns in multiples of 16.
//
// error: * At least one of M or N must be a multiple of 16

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(8, 8);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}
