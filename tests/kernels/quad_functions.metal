// Functions over four neighbouring lanes.
//
// kernel: quads
// arg 0: buffer float[32] = random(9)
// arg 1: buffer float[96] = zeros
// threads: 32 1 1
// expect 1[0..32]: formula "sum(k, 0, 4, a0[4 * floor(i / 4) + k])"
// expect 1[32..64]: formula "a0[xor(i - 32, 3)]"
// expect 1[64..96]: formula "a0[4 * floor((i - 64) / 4) + 2]"

#include <metal_stdlib>
using namespace metal;

kernel void quads(device const float* x [[buffer(0)]],
                  device float* y [[buffer(1)]],
                  ushort lane [[thread_index_in_simdgroup]])
{
    const float value = x[lane];
    y[lane] = quad_sum(value);
    y[32 + lane] = quad_shuffle_xor(value, 3);
    y[64 + lane] = quad_broadcast(value, 2);
}
