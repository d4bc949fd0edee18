// A cooperative right operand of metal_fp8_e5m2_format: loaded, its elements exchanged one by one as codes, stored, and multiplied.
//
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor fp8_e5m2 (32, 32) = random(2)
// arg 2: tensor float (32, 16) = zeros
// arg 3: tensor fp8_e5m2 (32, 32) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1)
// expect 3: arg 1
// tolerance: abs 1e-3 rel 1e-4

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device metal_fp8_e5m2_format, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    tensor<device metal_fp8_e5m2_format, dextents<int, 2>> copy [[buffer(3)]])
{
    constexpr matmul2d_descriptor descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto loaded = op.get_right_input_cooperative_tensor<half, metal_fp8_e5m2_format, float>();
    auto right = op.get_right_input_cooperative_tensor<half, metal_fp8_e5m2_format, float>();
    loaded.load(b);
    for (ushort i = 0; i < right.get_capacity(); ++i)
        right[i] = loaded[i];
    right.store(copy);
    auto sums = op.get_destination_cooperative_tensor<decltype(a), decltype(right), float>();
    op.run(a, right, sums);
    sums.store(c);
}
