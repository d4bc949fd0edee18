// Inline tensors in device, threadgroup and thread memory, with deduced and explicit types and with strides (zero strides broadcast).
//
// kernel: inline_tensors
// arg 0: buffer float[64] = iota
// arg 1: buffer float[64] = zeros
// arg 2: buffer float[8] = zeros
// threads: 64 1 1
// expect 1: formula "(i % 8) * 8 + floor(i / 8) + i % 8"
// expect 2: formula "4 * i + 6"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void inline_tensors(device float* x [[buffer(0)]],
                           device float* y [[buffer(1)]],
                           device float* z [[buffer(2)]],
                           uint tid [[thread_index_in_threadgroup]])
{
    threadgroup float memory[64];
    tensor source(x, dextents<int, 2>(8, 8));
    tensor transposed(memory, dextents<int, 2>(8, 8), array<int, 2>({8, 1}));
    tensor<device float, extents<int, 8, 8>, tensor_inline> result(y, extents<int, 8, 8>());
    tensor<device float, dextents<int, 2>, tensor_inline> repeated(x, dextents<int, 2>(8, 8), array<int, 2>({1, 0}));

    const int column = int(tid) % 8;
    const int row = int(tid) / 8;
    transposed[column, row] = source[column, row];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    result[column, row] = memory[tid] + repeated[column, row];

    if (tid < 8) {
        float own[4] = {0.0f, 1.0f, 2.0f, 3.0f};
        tensor<thread float, dextents<int, 1>, tensor_inline> list(own, dextents<int, 1>(4));
        float sum = 0.0f;
        for (int k = 0; k < list.get_extent(0); k++) {
            list[k] += float(tid);
            sum += list[k];
        }
        z[tid] = sum;
    }
}
