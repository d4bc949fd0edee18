// Reductions of one operation share a layout: element-wise arithmetic by slot; is_iterator_compatible says which tensors map.
//
// kernel: spread
// arg 0: tensor half (32, 32) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32) = zeros
// arg 3: buffer int[2] = fill(9)
// threads: 32 1 1
// expect 2: formula "maxof(j, 0, 32, sum(k, 0, 32, a0[i * 32 + k] * a1[k * 32 + j]))
//     - minof(j, 0, 32, sum(k, 0, 32, a0[i * 32 + k] * a1[k * 32 + j]))"
// expect 3: [1, 0]
// tolerance: abs 1e-4 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void spread(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                   tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                   tensor<device float, dextents<int, 1>> out [[buffer(2)]],
                   device int* answers [[buffer(3)]],
                   uint lane [[thread_index_in_simdgroup]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto product = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, product);
    auto high = op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    auto low = op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    reduce_rows(product, high, reduction_operation::max, -INFINITY);
    reduce_rows(product, low, reduction_operation::min, INFINITY);
    for (ushort i = 0; i < high.get_capacity(); i++) {
        high[i] = high[i] - low[i];
    }
    high.store(out);

    constexpr auto other_descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<other_descriptor, execution_simdgroup> other_op;
    auto other = other_op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    if (lane == 0) {
        answers[0] = is_iterator_compatible(product, high) ? 1 : 0;
        answers[1] = is_iterator_compatible(product, other) ? 1 : 0;
    }
}
