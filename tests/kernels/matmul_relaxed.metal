// relaxed_precision may shorten the mantissa of float operands; the result stays within the precision of 10 bits.
//
// kernel: product
// arg 0: tensor float (128, 32) = random(1)
// arg 1: tensor float (32, 128) = random(2)
// arg 2: tensor float (32, 32) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1)
// tolerance: abs 5e-2 rel 2e-3

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void product(tensor<device float, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device float, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 128, false, false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}
