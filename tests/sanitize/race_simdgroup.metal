// Two threads of one SIMD-group exchange values through threadgroup memory: without a barrier that is a race too, although
// it may work where SIMD-groups happen to run in lock-step. `simdgroup_barrier` is enough to order them.
//
// option: sanitize
// arg 0: buffer float[32] = iota
// arg 1: buffer float[32] = zeros
// run: without a barrier
// finding: S0101 at 21, 17: not promised to run in lock-step
// run: with one
// flags: -D BARRIER
// expect 1: formula "i % 2 == 0 ? i + 1 : i - 1"
#include <metal_stdlib>
using namespace metal;
kernel void swap(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]])
{
    threadgroup float tile[32];
    tile[t] = x[t];
#ifdef BARRIER
    simdgroup_barrier(mem_flags::mem_threadgroup);
#endif
    y[t] = tile[t ^ 1];
}
