// The barrier after reading is missing: the next iteration overwrites the tile while other threads still read it.
//
// option: sanitize
// arg 0: buffer float[256] = iota
// arg 1: buffer float[64] = zeros
// threads: 64 1 1
// finding: S0101 at 19, 21: where the loop starts over

#include <metal_stdlib>
using namespace metal;

kernel void sum_of_mirrored(device const float* x [[buffer(0)]],
                            device float* y [[buffer(1)]],
                            uint t [[thread_index_in_threadgroup]])
{
    threadgroup float tile[64];
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        tile[t] = x[64 * i + t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[63 - t];
    }
    y[t] = sum;
}
