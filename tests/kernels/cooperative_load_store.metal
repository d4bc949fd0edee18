// load fills a cooperative tensor from memory, multiply_accumulate adds to it, store writes it: C = A·B + D.
//
// kernel: add_product
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 16) = random(3)
// arg 3: tensor float (32, 16) = zeros
// threads: 32 1 1
// expect 3: formula "a2[i] + sum(k, 0, 32, a0[floor(i / 32) * 32 + k] * a1[k * 32 + i % 32])"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void add_product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                        tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                        tensor<device float, dextents<int, 2>> d [[buffer(2)]],
                        tensor<device float, dextents<int, 2>> c [[buffer(3)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32, false, false, false,
                                                    matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = a.slice<32, 16>(0, 0);
    auto right = b.slice<32, 32>(0, 0);
    auto sums = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    sums.load(d);
    op.run(left, right, sums);
    sums.store(c);
}
