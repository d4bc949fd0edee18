// Both inputs cooperative: loaded from memory, changed in registers, multiplied.
//
// kernel: product
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 16) = zeros
// threads: 32 1 1
// expect 2: formula "sum(k, 0, 32, (a0[floor(i / 32) * 32 + k] + 1) * a1[k * 32 + i % 32])"
// tolerance: abs 5e-3 rel 1e-3

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    auto right = op.get_right_input_cooperative_tensor<half, half, float>();
    left.load(a);
    right.load(b);
    for (ushort i = 0; i < left.get_capacity(); i++) {
        if (left.is_valid_element(i)) {
            left[i] += 1.0h;
        }
    }
    auto sums = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    op.run(left, right, sums);
    sums.store(c);
}
