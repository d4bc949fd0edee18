// A product of types that TensorOps does not have.
//
// error: E0880 Unsupported type

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device uchar, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device bfloat, dextents<int, 2>> c [[buffer(2)]])
{
    matmul2d<matmul2d_descriptor(16, 32, dynamic_length_v<int>), execution_simdgroup> op;
    op.run(a, b, c);
}
