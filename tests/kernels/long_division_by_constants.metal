// Division of 64-bit integers by constants: powers of two, both signs, divisors beyond 2^63. Expected values from Python's integers, rounded
// towards zero.
//
// kernel: long_division_by_constants
// arg 0: buffer long[8] = [9223372036854775807, -9223372036854775808, -1, 31, -33, 1000000007, -4294967297, 5]
// arg 1: buffer long[144] = zeros
// grid: threads 8 1 1
// threads: 8 1 1
// expect 1[0..8]: [288230376151711743, -288230376151711744, 0, 0, -1, 31250000, -134217728, 0]
// expect 1[8..16]: [31, 0, -1, 31, -1, 7, -1, 5]
// expect 1[16..24]: [-192153584101141162, 192153584101141162, 0, 0, 0, -20833333, 89478485, 0]
// expect 1[24..32]: [31, -32, -1, 31, -33, 23, -17, 5]
// expect 1[32..40]: [3074457345618258602, -3074457345618258602, 0, 10, -11, 333333335, -1431655765, 1]
// expect 1[40..48]: [1, -2, -1, 1, 0, 2, -2, 2]
// expect 1[48..56]: [0, 1, 0, 0, 0, 0, 0, 0]
// expect 1[56..64]: [9223372036854775807, 0, -1, 31, -33, 1000000007, -4294967297, 5]
// expect 1[64..72]: [9223371972, -9223371972, 0, 0, 0, 1, -4, 0]
// expect 1[72..80]: [291172003, -291172004, -1, 31, -33, 0, -294967269, 5]
// expect 1[80..88]: [-9223372036854775807, -9223372036854775808, 1, -31, 33, -1000000007, 4294967297, -5]
// expect 1[88..96]: [0, 0, 0, 0, 0, 0, 0, 0]
// expect 1[96..104]: [0, 0, 1, 0, 1, 0, 1, 0]
// expect 1[104..112]: [9223372036854775807, -9223372036854775808, 6148914691236517205, 31, 6148914691236517173, 1000000007, 6148914686941549909, 5]
// expect 1[112..120]: [1317624576693539401, 1317624576693539401, 2635249153387078802, 4, 2635249153387078797, 142857143, 2635249152773512045, 0]
// expect 1[120..128]: [0, 1, 1, 3, 4, 6, 4, 5]
// expect 1[128..136]: [0, 0, 1, 0, 1, 0, 1, 0]
// expect 1[136..144]: [9223372036854775807, -9223372036854775808, 9223372036854775806, 31, 9223372036854775774, 1000000007, 9223372032559808510, 5]

#include <metal_stdlib>
using namespace metal;

template <typename T, T BY>
inline void divide(T value, device long* y, uint at, uint id)
{
    y[at * 8 + id] = long(value / BY);
    y[at * 8 + 8 + id] = long(value % BY);
}

kernel void long_division_by_constants(device const long* x [[buffer(0)]],
                                       device long* y [[buffer(1)]],
                                       uint id [[thread_position_in_grid]])
{
    const long value = x[id];
    divide<long, 32L>(value, y, 0, id);
    divide<long, -48L>(value, y, 2, id);
    divide<long, 3L>(value, y, 4, id);
    divide<long, -9223372036854775807L - 1>(value, y, 6, id);
    divide<long, 1000000007L>(value, y, 8, id);
    divide<long, -1L>(value, y, 10, id);
    divide<ulong, 12297829382473034410UL>(ulong(value), y, 12, id);
    divide<ulong, 7UL>(ulong(value), y, 14, id);
    divide<ulong, 9223372036854775809UL>(ulong(value), y, 16, id);
}
