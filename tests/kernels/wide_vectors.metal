// vec<T, 8> and vec<T, 16>.
//
// kernel: wide_vectors
// arg 0: buffer float[64] = random(5)
// arg 1: buffer float[8] = zeros
// grid: threads 4 1 1
// threads: 4 1 1
// expect 1[0..4]: formula "sum(k, 0, 16, a0[16 * i + k] * (k % 2 == 0 ? 1 : -1))"
// expect 1[4..8]: formula "sum(k, 0, 8, 2 * a0[16 * (i - 4) + k])"

#include <metal_stdlib>
using namespace metal;

kernel void wide_vectors(device const float* x [[buffer(0)]],
                         device float* y [[buffer(1)]],
                         uint id [[thread_position_in_grid]])
{
    vec<float, 16> v;
    vec<float, 8> w;
    for (int k = 0; k < 16; k++) {
        v[k] = x[16 * id + k];
    }
    for (int k = 0; k < 8; k++) {
        w[k] = v[k];
    }
    w = w + w;
    float alternating = 0.0f;
    float sum = 0.0f;
    for (int k = 0; k < 16; k++) {
        alternating += k % 2 == 0 ? v[k] : -v[k];
    }
    for (int k = 0; k < 8; k++) {
        sum += w[k];
    }
    y[id] = alternating;
    y[4 + id] = sum;
}
