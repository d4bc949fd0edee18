// Atomic operations on int and uint in device and threadgroup memory.
//
// kernel: atomics
// arg 0: buffer uint[8] = [0, 0, 1000, 0, 4294967295, 7, 0, 0]
// arg 1: buffer int[2] = [0, 100]
// grid: threadgroups 4 1 1
// threads: 64 1 1
// expect 0: [256, 255, 0, 255, 0, 7, 2016, 256]
// expect 1: [-256, -255]

#include <metal_stdlib>
using namespace metal;

kernel void atomics(device atomic_uint* u [[buffer(0)]],
                    device atomic_int* s [[buffer(1)]],
                    uint id [[thread_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]])
{
    threadgroup atomic_uint shared_sum;
    if (tid == 0) {
        atomic_store_explicit(&shared_sum, 0u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&u[0], 1u, memory_order_relaxed);
    atomic_fetch_max_explicit(&u[1], id, memory_order_relaxed);
    atomic_fetch_min_explicit(&u[2], id, memory_order_relaxed);
    atomic_fetch_or_explicit(&u[3], id, memory_order_relaxed);
    atomic_fetch_and_explicit(&u[4], id, memory_order_relaxed);
    atomic_fetch_add_explicit(&shared_sum, tid, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (id == 0) {
        atomic_store_explicit(&u[6], atomic_load_explicit(&shared_sum, memory_order_relaxed), memory_order_relaxed);
    }
    uint seen = atomic_load_explicit(&u[7], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&u[7], &seen, seen + 1, memory_order_relaxed, memory_order_relaxed)) {
    }
    atomic_fetch_sub_explicit(&s[0], 1, memory_order_relaxed);
    atomic_fetch_min_explicit(&s[1], -int(id), memory_order_relaxed);
}
