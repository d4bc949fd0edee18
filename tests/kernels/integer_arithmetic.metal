// Integer arithmetic wraps, division truncates, shifts take the type of the left operand, small types are promoted to int.
//
// kernel: integer_arithmetic
// arg 0: buffer int[16] = [7, -7, 2147483647, -2147483647, 0, 1, -1, 100, -100, 65536, 12345, -12345, 3, 5, -5, 42]
// arg 1: buffer int[96] = zeros
// arg 2: buffer uint[48] = zeros
// grid: threads 16 1 1
// threads: 16 1 1
// expect 1[0..16]: [2, -2, 715827882, -715827882, 0, 0, 0, 33, -33, 21845, 4115, -4115, 1, 1, -1, 14]
// expect 1[16..32]: [1, -1, 1, -1, 0, 1, -1, 1, -1, 1, 0, 0, 0, 2, -2, 0]
// expect 1[32..48]: [8, -6, -2147483648, -2147483646, 1, 2, 0, 101, -99, 65537, 12346, -12344, 4, 6, -4, 43]
// expect 1[48..64]: [1, -2, 536870911, -536870912, 0, 0, -1, 25, -25, 16384, 3086, -3087, 0, 1, -2, 10]
// expect 1[64..80]: [7, -7, -1, 1, 0, 1, -1, 100, -100, 0, 57, -57, 3, 5, -5, 42]
// expect 1[80..96]: [7, 249, 255, 1, 0, 1, 255, 100, 156, 0, 57, 199, 3, 5, 251, 42]
// expect 2[0..16]: [1, 1073741822, 536870911, 536870912, 0, 0, 1073741823, 25, 1073741799, 16384, 3086, 1073738737, 0, 1, 1073741822, 10]
// expect 2[16..32]: [2, 1431655763, 715827882, 715827883, 0, 0, 1431655765, 33, 1431655732, 21845, 4115, 1431651650, 1, 1, 1431655763, 14]
// expect 2[32..48]: [4294967288, 6, 2147483648, 2147483646, 4294967295, 4294967294, 0, 4294967195, 99, 4294901759, 4294954950, 12344, 4294967292, 4294967290, 4, 4294967253]

#include <metal_stdlib>
using namespace metal;

kernel void integer_arithmetic(device const int* x [[buffer(0)]],
                               device int* signed_results [[buffer(1)]],
                               device uint* unsigned_results [[buffer(2)]],
                               uint id [[thread_position_in_grid]])
{
    const int value = x[id];
    signed_results[id] = value / 3;
    signed_results[16 + id] = value % 3;
    signed_results[32 + id] = int(uint(value) + 1u);
    signed_results[48 + id] = value >> 2;
    signed_results[64 + id] = char(value);
    signed_results[80 + id] = uchar(value);
    unsigned_results[id] = uint(value) >> 2;
    unsigned_results[16 + id] = uint(value) / 3;
    unsigned_results[32 + id] = ~uint(value);
}
