// SIMD-groups that do different work meet at barriers; a SIMD-group that left early is not waited for at simdgroup_barrier.
//
// kernel: pipeline
// arg 0: buffer float[128] = zeros
// threads: 128 1 1
// expect 0: formula "floor(i / 32) == 3 ? 7 : 100 * floor(i / 32) + i % 32 + (i % 32 == 0 ? 31 : i % 32 - 1)"

#include <metal_stdlib>
using namespace metal;

kernel void pipeline(device float* y [[buffer(0)]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup float values[4][32];
    if (simdgroup == 3) {
        y[tid] = 7.0f;
        return;
    }
    values[simdgroup][lane] = float(lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    y[tid] = 100.0f * float(simdgroup) + float(lane) + values[simdgroup][(lane + 31) % 32];
}
