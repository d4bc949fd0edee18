// 64-bit integers.
//
// kernel: long_integers
// arg 0: buffer long[8] = [1, -1, 4294967296, -4294967296, 1000000007, -1000000007, 3, 281474976710656]
// arg 1: buffer long[24] = zeros
// grid: threads 8 1 1
// threads: 8 1 1
// expect 1[0..8]: [3000000021, -3000000021, -5561842095515238400, 5561842095515238400, 3000000042000000147, -3000000042000000147, 9000000063, 6779324814076149760]
// expect 1[8..16]: [0, -1, 1, -1, 0, -1, 0, 65536]
// expect 1[16..24]: [0, 0, 613566756, -613566756, 142857143, -142857143, 0, 40210710958665]

#include <metal_stdlib>
using namespace metal;

kernel void long_integers(device const long* x [[buffer(0)]],
                          device long* y [[buffer(1)]],
                          uint id [[thread_position_in_grid]])
{
    const long value = x[id];
    y[id] = value * 3000000021L;
    y[8 + id] = value >> 32;
    y[16 + id] = value / 7;
}
