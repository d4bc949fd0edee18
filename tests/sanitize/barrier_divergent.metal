// A barrier in a branch that half of the threads take.
//
// option: sanitize
// arg 0: buffer float[64] = zeros
// threads: 64 1 1
// finding: S0201 at 16: move the barrier out of the branch

#include <metal_stdlib>
using namespace metal;

kernel void half_way(device float* y [[buffer(0)]], uint t [[thread_index_in_threadgroup]])
{
    threadgroup float tile[64];
    tile[t] = float(t);
    if (t < 40) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = tile[t];
    }
}
