// A tensor that the kernel makes may claim more than there is: what lies in its memory is reached.
//
// kernel: claims
// arg 0: buffer float[64] = iota
// arg 1: buffer float[32] = zeros
// grid: threads 32 1 1
// threads: 32 1 1
// expect 1: formula "a0[(i % 8) * 8 + 3] + i"

#include <metal_stdlib>
#include <metal_tensor>

using namespace metal;

kernel void claims(device float* x [[buffer(0)]],
                   device float* y [[buffer(1)]],
                   uint lane [[thread_position_in_grid]])
{
    auto claimed = tensor<device float, dextents<long, 2>, tensor_inline>(
        x, dextents<long, 2>(8, 1L << 61), array<long, 2>{1, 8});
    y[lane] = claimed[3, long(lane % 8)] + float(lane);
}
