// execution_simdgroups<4> asks for 128 threads; another threadgroup size is refused before the kernel runs.
//
// kernel: product
// arg 0: tensor half (32, 32) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 32) = zeros
// threads: 64 1 1
// fault: execution_simdgroups<4>

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    op.run(a, b, c);
}
