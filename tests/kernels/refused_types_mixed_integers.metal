// int8 times uint8 is no supported row of matmul2d.
//
// error: * Unsupported type

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device int8_t, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device uint8_t, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device int32_t, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}
