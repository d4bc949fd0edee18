// Exchanges between the lanes of a SIMD-group.
//
// kernel: shuffles
// arg 0: buffer float[32] = random(8)
// arg 1: buffer float[224] = zeros
// threads: 32 1 1
// expect 1[0..32]: formula "a0[31 - i]"
// expect 1[32..64]: formula "a0[xor(i - 32, 5)]"
// expect 1[64..96]: formula "i - 64 < 3 ? a0[i - 64] : a0[i - 67]"
// expect 1[96..128]: formula "i - 96 + 2 > 31 ? a0[i - 96] : a0[i - 94]"
// expect 1[128..160]: formula "a0[7]"
// expect 1[160..192]: formula "a0[0]"
// expect 1[192..224]: formula "a0[(i - 192 + 31) % 32]"

#include <metal_stdlib>
using namespace metal;

kernel void shuffles(device const float* x [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     ushort lane [[thread_index_in_simdgroup]])
{
    const float value = x[lane];
    y[lane] = simd_shuffle(value, 31 - lane);
    y[32 + lane] = simd_shuffle_xor(value, 5);
    const float up = simd_shuffle_up(value, 3);
    y[64 + lane] = lane < 3 ? value : up;
    const float down = simd_shuffle_down(value, 2);
    y[96 + lane] = lane + 2 > 31 ? value : down;
    y[128 + lane] = simd_broadcast(value, 7);
    y[160 + lane] = simd_broadcast_first(value);
    y[192 + lane] = simd_shuffle_rotate_up(value, 1);
}
