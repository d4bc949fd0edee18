// Threadgroup memory declared in the kernel, with barriers in a loop: an inclusive scan of each threadgroup.
//
// kernel: scan
// arg 0: buffer float[512] = random(10)
// arg 1: buffer float[512] = zeros
// grid: threadgroups 2 1 1
// threads: 256 1 1
// expect 1: formula "sum(k, 256 * floor(i / 256), i + 1, a0[k])"
// tolerance: abs 1e-4 rel 1e-5

#include <metal_stdlib>
using namespace metal;

kernel void scan(device const float* x [[buffer(0)]],
                 device float* y [[buffer(1)]],
                 uint id [[thread_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]])
{
    threadgroup float values[2][256];
    uint from = 0;
    values[0][tid] = x[id];
    for (uint distance = 1; distance < 256; distance *= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = values[from][tid];
        if (tid >= distance) {
            sum += values[from][tid - distance];
        }
        from = 1 - from;
        values[from][tid] = sum;
    }
    y[id] = values[from][tid];
}
