// A transpose through threadgroup memory without a barrier between writing and reading the tile.
//
// option: sanitize
// arg 0: buffer float[64] = iota
// arg 1: buffer float[64] = zeros
// threads: 64 1 1
// finding: S0101 at 22, 21: different SIMD-groups
// finding: S0101 at 22, 21: put `threadgroup_barrier(mem_flags::mem_threadgroup)` between the two lines

#include <metal_stdlib>
using namespace metal;

kernel void reverse(device const float* x [[buffer(0)]],
                    device float* y [[buffer(1)]],
                    uint t [[thread_index_in_threadgroup]])
{
    threadgroup float tile[64];



    tile[t] = x[t];
    y[t] = tile[63 - t];
}
