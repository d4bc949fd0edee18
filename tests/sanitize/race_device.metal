// Races in device memory: within a threadgroup, and between threadgroups, which no barrier orders.
//
// option: sanitize
// arg 0: buffer float[128] = iota
// arg 1: buffer float[128] = zeros
// arg 2: buffer uint[1] = zeros
// threads: 64 1 1
// run: within a threadgroup
// kernel: within
// grid: threadgroups 1
// finding: S0102 at 29, 28: put `threadgroup_barrier(mem_flags::mem_device)` between
// run: between threadgroups
// kernel: between
// grid: threadgroups 2
// finding: S0103 at 34: threadgroups run in any order
// run: all threads count
// kernel: count
// grid: threadgroups 2
// finding: S0103 at 39: use atomics
// finding: S0102 at 39: use an atomic
// run: atomics
// kernel: count_atomically
// grid: threadgroups 2
// expect 2: [128]
#include <metal_stdlib>
using namespace metal;
kernel void within(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]]) {
    y[t] = x[t];
    y[t + 64] = y[63 - t];
}
kernel void between(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]],
                    uint g [[threadgroup_position_in_grid]])
{
    y[t] = x[t + 64 * g];
}
kernel void count(device uint* n [[buffer(2)]])
{

    n[0] += 1;
}
kernel void count_atomically(device atomic_uint* n [[buffer(2)]])
{
    atomic_fetch_add_explicit(n, 1u, memory_order_relaxed);
}
