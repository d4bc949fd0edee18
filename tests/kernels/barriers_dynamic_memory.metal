// Threadgroup memory as kernel arguments, its size given by the dispatch: two arrays of different types.
//
// kernel: reverse_groups
// arg 0: buffer float[192] = iota
// arg 1: buffer float[192] = zeros
// threadgroup 0: 256
// threadgroup 1: 128
// grid: threadgroups 3 1 1
// threads: 64 1 1
// expect 1: formula "a0[64 * floor(i / 64) + 63 - i % 64] + (i % 64) * 2"

#include <metal_stdlib>
using namespace metal;

kernel void reverse_groups(device const float* x [[buffer(0)]],
                           device float* y [[buffer(1)]],
                           threadgroup float* values [[threadgroup(0)]],
                           threadgroup ushort* indices [[threadgroup(1)]],
                           uint id [[thread_position_in_grid]],
                           uint tid [[thread_index_in_threadgroup]])
{
    values[63 - tid] = x[id];
    indices[(tid + 5) % 64] = ushort(2 * ((tid + 5) % 64));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[id] = values[tid] + float(indices[tid]);
}
