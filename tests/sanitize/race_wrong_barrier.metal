// Barriers that do not order what is shared: the flags of another memory, and a barrier of the SIMD-group between threads
// of two.
//
// option: sanitize
// arg 0: buffer float[64] = iota
// arg 1: buffer float[64] = zeros
// threads: 64 1 1
// run: flags
// flags: -D BARRIER=threadgroup_barrier(mem_flags::mem_device)
// finding: S0101 at 23, 21, 22: this barrier does not order threadgroup memory
// run: scope
// flags: -D BARRIER=simdgroup_barrier(mem_flags::mem_threadgroup)
// finding: S0101 at 23, 21: different SIMD-groups
// run: right
// flags: -D BARRIER=threadgroup_barrier(mem_flags::mem_threadgroup)
// expect 1: formula "(i + 32) % 64"
#include <metal_stdlib>
using namespace metal;
kernel void rotate_half(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]])
{
    threadgroup float tile[64];                  tile[t] = x[t];
    BARRIER;
    y[t] = tile[(t + 32) % 64];
}
