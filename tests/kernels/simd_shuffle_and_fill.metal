// simd_shuffle_and_fill_down/up and the quad forms: what comes from past the end is taken from the second value, also in
// segments of the group.
//
// kernel: filled
// arg 0: buffer int[192] = zeros
// grid: threads 32 1 1
// threads: 32 1 1
// expect 0[0..32]: formula "i + 5 < 32 ? i + 5 : 100 + i + 5 - 32"
// expect 0[32..64]: formula "i % 32 >= 3 ? i - 35 : 100 + i - 3"
// expect 0[64..96]: formula "i % 32 + (i % 8 + 2 < 8 ? 2 : 94)"
// expect 0[96..128]: formula "i % 32 + (i % 4 >= 1 ? -1 : 103)"
// expect 0[128..160]: formula "i % 32 + (i % 4 + 3 < 4 ? 3 : 99)"
// expect 0[160..192]: formula "i % 2 == 0 ? i % 32 + 1 : 200 + 2 * (i % 32 - 1)"

#include <metal_stdlib>
using namespace metal;

kernel void filled(device int* y [[buffer(0)]], uint lane [[thread_index_in_simdgroup]])
{
    const int a = int(lane);
    const int b = 100 + int(lane);
    y[lane] = simd_shuffle_and_fill_down(a, b, 5);
    y[32 + lane] = simd_shuffle_and_fill_up(a, b, 3);
    y[64 + lane] = simd_shuffle_and_fill_down(a, b, 2, 8);
    y[96 + lane] = quad_shuffle_and_fill_up(a, b, 1);
    y[128 + lane] = quad_shuffle_and_fill_down(a, b, 3);
    const float2 pair = quad_shuffle_and_fill_down(float2(a, a), float2(2 * a, 200 + 2 * a), 1, 2);
    y[160 + lane] = int(pair.y);
}
