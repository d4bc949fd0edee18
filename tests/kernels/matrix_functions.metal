// transpose and determinant, of square and other matrices.
//
// kernel: matrices
// arg 0: buffer float[16] = random(21)
// arg 1: buffer float[16] = zeros
// threads: 1 1 1
// expect 1[0..6]: formula "a0[2 * (i % 3) + floor(i / 3)]"
// expect 1[6..7]: formula "a0[0] * a0[3] - a0[1] * a0[2]"
// expect 1[7..8]: formula "a0[0] * (a0[4] * a0[8] - a0[5] * a0[7]) - a0[1] * (a0[3] * a0[8] - a0[5] * a0[6]) + a0[2] * (a0[3] * a0[7] - a0[4] * a0[6])"
// expect 1[8..9]: formula "sum(p, 0, 4, (p % 2 == 0 ? 1 : -1) * a0[p] * (a0[4 + (p > 0 ? 0 : 1)] * (a0[8 + (p > 1 ? 1 : 2)] * a0[12 + (p > 2 ? 2 : 3)] - a0[8 + (p > 2 ? 2 : 3)] * a0[12 + (p > 1 ? 1 : 2)]) - a0[4 + (p > 1 ? 1 : 2)] * (a0[8 + (p > 0 ? 0 : 1)] * a0[12 + (p > 2 ? 2 : 3)] - a0[8 + (p > 2 ? 2 : 3)] * a0[12 + (p > 0 ? 0 : 1)]) + a0[4 + (p > 2 ? 2 : 3)] * (a0[8 + (p > 0 ? 0 : 1)] * a0[12 + (p > 1 ? 1 : 2)] - a0[8 + (p > 1 ? 1 : 2)] * a0[12 + (p > 0 ? 0 : 1)])))"
// expect 1[9..10]: [-2]

#include <metal_stdlib>
using namespace metal;

kernel void matrices(device const float* x [[buffer(0)]], device float* y [[buffer(1)]])
{
    const float3x2 a(x[0], x[1], x[2], x[3], x[4], x[5]);
    const float2x3 b = transpose(a);
    for (int column = 0; column < 2; column++) {
        for (int row = 0; row < 3; row++) {
            y[3 * column + row] = b[column][row];
        }
    }
    y[6] = determinant(float2x2(x[0], x[1], x[2], x[3]));
    y[7] = determinant(float3x3(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8]));
    y[8] = determinant(float4x4(float4(x[0], x[1], x[2], x[3]), float4(x[4], x[5], x[6], x[7]),
                                float4(x[8], x[9], x[10], x[11]), float4(x[12], x[13], x[14], x[15])));
    y[9] = float(determinant(half2x2(1, 2, 3, 4)));
}
