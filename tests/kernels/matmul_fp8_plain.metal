// fp8 e4m3 × fp8 e4m3 without scales, into half.
//
// kernel: product
// arg 0: tensor fp8_e4m3 (64, 32) = random(1)
// arg 1: tensor fp8_e4m3 (32, 64) = random(2)
// arg 2: tensor half (32, 32) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1)
// tolerance: abs 4e-3 rel 2e-3

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using operand = tensor<device metal_fp8_e4m3_format, dextents<int, 2>>;

kernel void product(operand a [[buffer(0)]],
                    operand b [[buffer(1)]],
                    tensor<device half, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 64);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}
