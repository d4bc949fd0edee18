// A cooperative destination: the product stays with the threads, each element is changed in place, then stored with clipping.
// Index loop, iterator loop and validity checks visit every element once.
//
// arg 0: tensor half (48, 30) = random(1)
// arg 1: tensor half (45, 48) = random(2)
// arg 2: tensor float (45, 30) = fill(77)
// threads: 64 1 1
// expect 2: formula "2 * sum(k, 0, 48, a0[floor(i / 45) * 48 + k] * a1[k * 45 + i % 45]) + i % 45 - 1000 * floor(i / 45)"
// tolerance: abs 5e-3 rel 1e-5
// run: index loop
// kernel: by_index
// run: iterator loop
// kernel: by_iterator

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using operand = tensor<device half, dextents<int, 2>>;
using result = tensor<device float, dextents<int, 2>>;

constant constexpr auto descriptor = matmul2d_descriptor(32, 48, static_cast<int>(dynamic_extent));

kernel void by_index(operand a [[buffer(0)]], operand b [[buffer(1)]], result c [[buffer(2)]])
{
    matmul2d<descriptor, execution_simdgroups<2>> op;
    auto sums = op.get_destination_cooperative_tensor<operand, operand, float>();
    op.run(a, b, sums);
    #pragma unroll full
    for (ushort i = 0; i < sums.get_capacity(); i++) {
        if (sums.is_valid_element(i)) {
            auto at = sums.get_multidimensional_index(i);
            sums[i] = 2.0f * sums[i] + float(at[0]) - 1000.0f * float(at[1]);
        }
    }
    sums.store(c);
}

kernel void by_iterator(operand a [[buffer(0)]], operand b [[buffer(1)]], result c [[buffer(2)]])
{
    matmul2d<descriptor, execution_simdgroups<2>> op;
    auto sums = op.get_destination_cooperative_tensor<operand, operand, float>();
    op.run(a, b, sums);
    #pragma clang loop unroll(full)
    for (auto it = sums.begin(); it != sums.end(); it++) {
        if (!it.is_valid_element()) {
            continue;
        }
        auto at = sums.get_multidimensional_index(it);
        *it = *it * 2.0f + float(at[0]) - float(at[1]) * 1000.0f;
    }
    sums.store(c.slice(0, 0));
}
