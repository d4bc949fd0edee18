// Vectors: constructors, component-wise operators, swizzles on both sides, comparison and select, dot and length.
//
// kernel: vectors
// arg 0: buffer float[32] = random(1)
// arg 1: buffer float[40] = zeros
// grid: threads 8 1 1
// threads: 8 1 1
// expect 1[0..8]: formula "a0[4 * i] + 2 * a0[4 * i + 3]"
// expect 1[8..16]: formula "a0[4 * (i - 8) + 2] * a0[4 * (i - 8) + 1]"
// expect 1[16..24]: formula "sum(k, 0, 4, a0[4 * (i - 16) + k] * a0[4 * (i - 16) + 3 - k])"
// expect 1[24..32]: formula "sqrt(sum(k, 0, 3, a0[4 * (i - 24) + k] * a0[4 * (i - 24) + k]))"
// expect 1[32..40]: formula "max(a0[4 * (i - 32)], a0[4 * (i - 32) + 1]) + (a0[4 * (i - 32) + 2] < 0 ? 10 : 20)"

#include <metal_stdlib>
using namespace metal;

kernel void vectors(device const float4* x [[buffer(0)]],
                    device float* y [[buffer(1)]],
                    uint id [[thread_position_in_grid]])
{
    const float4 v = x[id];
    float4 w = float4(v.x, v.yz, v.w);
    w += v.wzyx * float2(2.0f, 0.0f).xyyy;
    y[id] = w.x;
    float3 a = v.xyz;
    a.xz = a.zx;
    y[8 + id] = a[0] * a.g;
    y[16 + id] = dot(v, v.abgr);
    y[24 + id] = length(v.xyz);
    const float2 larger = select(v.yy, v.xx, v.xx > v.yy);
    y[32 + id] = larger.x + (any(v.zz < 0.0f) ? 10.0f : 20.0f);
}
