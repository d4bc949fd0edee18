// Memory that is read before it was written: threadgroup memory (a reduction that forgets the tail), and an array of the
// thread's own.
//
// option: sanitize
// arg 0: buffer float[64] = iota
// arg 1: buffer float[64] = zeros
// threads: 64 1 1
// run: threadgroup
// kernel: tail
// finding: S0301 at 25: `part[40]` is read before anything was written
// run: thread
// kernel: own
// finding: S0302 at 34: element 3 of `last` is read before it was set
#include <metal_stdlib>
using namespace metal;

kernel void tail(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]])
{
    threadgroup float part[64];
    if (t < 40) part[t] = x[t];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t == 0) {
        float sum = 0;
        for (int i = 0; i < 64; i++)
            sum += part[i];
        y[0] = sum;
    }
}

kernel void own(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]])
{
    float last[4];
    for (int i = 0; i < 3; i++) last[i] = x[(t + i) % 64];
    for (int i = 0; i < 4; i++) y[t] += last[i];
}
