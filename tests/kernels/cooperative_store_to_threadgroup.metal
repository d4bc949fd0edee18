// A cooperative tensor stored into threadgroup memory of a narrower pitch, read back by all threads after a barrier.
//
// kernel: transposed_product
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (16, 32) = zeros
// threads: 64 1 1
// expect 2: formula "sum(k, 0, 32, a0[(i % 16) * 32 + k] * a1[k * 32 + floor(i / 16)])"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void transposed_product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                               tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                               tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                               uint tid [[thread_index_in_threadgroup]])
{
    threadgroup float memory[16 * 33];
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroups<2>> op;
    auto sums = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, sums);
    sums.store(tensor<threadgroup float, dextents<int, 2>, tensor_inline>(memory, dextents<int, 2>(32, 16),
                                                                         array<int, 2>({1, 33})));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int i = int(tid); i < 512; i += 64) {
        const int row = i % 16;
        const int column = i / 16;
        c[row, column] = memory[row * 33 + column];
    }
}
