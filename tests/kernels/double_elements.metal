// One element a thread: the smallest kernel.
//
// kernel: double_elements
// arg 0: buffer float[100] = iota
// arg 1: buffer float[100] = zeros
// grid: threads 100 1 1
// threads: 32 1 1
// expect 0: same
// expect 1: formula "2 * a0[i]"

#include <metal_stdlib>
using namespace metal;

kernel void double_elements(device const float* x [[buffer(0)]],
                            device float* y [[buffer(1)]],
                            uint id [[thread_position_in_grid]])
{
    y[id] = 2.0f * x[id];
}
