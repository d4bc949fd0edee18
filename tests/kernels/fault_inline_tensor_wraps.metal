// A tensor that the kernel makes may claim any extents; an element whose offset has more than 64 bits is a fault, not another element.
//
// kernel: wraps
// arg 0: buffer float[8] = iota
// arg 1: buffer float[32] = zeros
// grid: threads 32 1 1
// threads: 32 1 1
// only: cpu
// fault: byte offset 70368744177664 of device 'x', which has 32 bytes

#include <metal_stdlib>
#include <metal_tensor>

using namespace metal;

kernel void wraps(device float* x [[buffer(0)]],
                  device float* y [[buffer(1)]],
                  uint lane [[thread_position_in_grid]])
{
    auto claimed = tensor<device float, dextents<long, 1>, tensor_inline>(x, dextents<long, 1>((1L << 62) + 8));
    // 4 · (2^62 + 2) is 8 in 64 bits.
    long far = lane == 5 ? (1L << 62) + 2 : 2;
    y[lane] = claimed[far];
}
