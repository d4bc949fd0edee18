// Operands and destination in threadgroup memory, as inline tensors; the kernel widens int4 pairs while it fills them.
//
// kernel: dequantised
// arg 0: buffer half (32, 16) = random(1)
// arg 1: buffer uchar[512] = random(2, 0, 256)
// arg 2: buffer float (32, 16) = zeros
// threads: 64 1 1
// expect 2: formula "sum(k, 0, 32, a0[floor(i / 32) * 32 + k] * (k % 2 == 0 ? a1[(i % 32) * 16 + floor(k / 2)] % 16 - 8 :
//     floor(a1[(i % 32) * 16 + floor(k / 2)] / 16) - 8))"
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void dequantised(device half* a [[buffer(0)]],
                        device uchar* packed [[buffer(1)]],
                        device float* c [[buffer(2)]],
                        uint tid [[thread_index_in_threadgroup]])
{
    threadgroup half left_memory[16 * 32];
    threadgroup half right_memory[32 * 32];
    threadgroup float result_memory[16 * 32];
    for (uint i = tid; i < 512; i += 64) {
        left_memory[i] = a[i];
        const uchar both = packed[i];
        right_memory[2 * i] = half(int(both & 15) - 8);
        right_memory[2 * i + 1] = half(int(both >> 4) - 8);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    tensor<threadgroup half, extents<int, 32, 16>, tensor_inline> left(left_memory, extents<int, 32, 16>());
    tensor<threadgroup half, extents<int, 32, 32>, tensor_inline> right(right_memory, extents<int, 32, 32>());
    tensor<threadgroup float, dextents<int, 2>, tensor_inline> result(result_memory, dextents<int, 2>(32, 16));
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32, false, true);
    matmul2d<descriptor, execution_simdgroups<2>> op;
    op.run(left, right, result);
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint i = tid; i < 512; i += 64) {
        c[i] = result_memory[i];
    }
}
