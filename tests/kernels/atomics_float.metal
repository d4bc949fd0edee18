// Atomic sum of floats in device memory; the values are small integers, so that the order does not matter.
//
// kernel: float_sum
// arg 0: buffer float[1000] = formula "i % 17"
// arg 1: buffer float[1] = [5]
// grid: threads 1000 1 1
// threads: 128 1 1
// expect 1: formula "5 + sum(k, 0, 1000, a0[k])"

#include <metal_stdlib>
using namespace metal;

kernel void float_sum(device const float* x [[buffer(0)]],
                      device atomic<float>* total [[buffer(1)]],
                      uint id [[thread_position_in_grid]])
{
    atomic_fetch_add_explicit(total, x[id], memory_order_relaxed);
}
