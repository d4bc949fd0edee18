// as_type between types of one size, and bit functions.
//
// kernel: bits
// arg 0: buffer uint[8] = [0, 1, 1065353216, 2147483648, 4294967295, 305419896, 3212836864, 65535]
// arg 1: buffer uint[40] = zeros
// grid: threads 8 1 1
// threads: 8 1 1
// expect 1[0..8]: [0, 1, 1065353216, 2147483648, 4294967295, 305419896, 3212836864, 65535]
// expect 1[8..16]: [0, 1, 7, 1, 32, 13, 8, 16]
// expect 1[16..24]: [32, 31, 2, 0, 0, 3, 0, 16]
// expect 1[24..32]: [32, 0, 23, 31, 0, 3, 23, 0]
// expect 1[32..40]: [0, 2147483648, 508, 1, 4294967295, 510274632, 509, 4294901760]

#include <metal_stdlib>
using namespace metal;

kernel void bits(device const uint* x [[buffer(0)]],
                 device uint* y [[buffer(1)]],
                 uint id [[thread_position_in_grid]])
{
    const uint value = x[id];
    const ushort2 parts = as_type<ushort2>(value);
    const uchar4 bytes = as_type<uchar4>(parts);
    y[id] = as_type<uint>(as_type<int>(bytes));
    y[8 + id] = popcount(value);
    y[16 + id] = clz(value);
    y[24 + id] = ctz(value);
    y[32 + id] = reverse_bits(value);
}
