// Reductions and scans over a SIMD-group.
//
// kernel: reductions
// arg 0: buffer float[64] = random(6)
// arg 1: buffer float[384] = zeros
// arg 2: buffer int[64] = random(7)
// arg 3: buffer int[192] = zeros
// threads: 64 1 1
// expect 1[0..64]: formula "sum(k, 0, 32, a0[32 * floor(i / 32) + k])"
// expect 1[64..128]: formula "maxof(k, 0, 32, a0[32 * floor(i / 32 - 2) + k])"
// expect 1[128..192]: formula "minof(k, 0, 32, a0[32 * floor(i / 32 - 4) + k])"
// expect 1[192..256]: formula "sum(k, 0, i % 32, a0[32 * floor(i / 32 - 6) + k])"
// expect 1[256..320]: formula "sum(k, 0, i % 32 + 1, a0[32 * floor(i / 32 - 8) + k])"
// expect 1[320..384]: formula "prod(k, 0, 32, 1 + 0.1 * a0[32 * floor(i / 32 - 10) + k])"
// expect 3[0..64]: formula "sum(k, 0, 32, a2[32 * floor(i / 32) + k])"
// expect 3[64..128]: formula "maxof(k, 0, 32, a2[32 * floor(i / 32 - 2) + k])"
// expect 3[128..192]: fill(31)
// tolerance: abs 1e-5 rel 1e-5

#include <metal_stdlib>
using namespace metal;

kernel void reductions(device const float* x [[buffer(0)]],
                       device float* y [[buffer(1)]],
                       device const int* n [[buffer(2)]],
                       device int* m [[buffer(3)]],
                       uint id [[thread_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]])
{
    const float value = x[id];
    y[id] = simd_sum(value);
    y[64 + id] = simd_max(value);
    y[128 + id] = simd_min(value);
    y[192 + id] = simd_prefix_exclusive_sum(value);
    y[256 + id] = simd_prefix_inclusive_sum(value);
    y[320 + id] = simd_product(1.0f + 0.1f * value);
    m[id] = simd_sum(n[id]);
    m[64 + id] = simd_max(n[id]);
    m[128 + id] = int(simd_or(lane));
}
