// Sums of products with small integers cut out of words, in the shapes that weights are decoded in: constant and varying shifts,
// masks of all widths, codes used twice, signed words, sums that meet branches and loops on the way, long chains.
//
// kernel: sums
// arg 0: buffer uint[300] = formula "(i * 2654435761) % 4294967296"
// arg 1: buffer float[300] = random(3)
// arg 2: buffer float[1800] = zeros
// grid: threads 300 1 1
// threads: 100 1 1
// expect 2[0..300]: formula "sum(k, 0, 8, a1[(i + k) % 300] * and(shr(a0[i], 4 * k), 15))"
// expect 2[300..600]: formula "a1[i - 300] * (2 * and(shr(a0[i - 300], 3), 127) + shr(a0[i - 300], 29)) + 1"
// expect 2[600..900]: formula "a1[i - 600] * and(shr(a0[i - 600], 28), 7) + a1[(i - 599) % 300] * and(a0[i - 600], 1048575)"
// expect 2[900..1200]: formula "a1[i - 900] * and(a0[i - 900], 255) + (i % 3 == 0 ? 2 : 3) * a1[(i - 899) % 300] * and(shr(a0[i - 900], 8), 255)"
// expect 2[1200..1500]: formula "sum(k, 0, 5 + i % 4, a1[(i - 1200 + k) % 300] * and(shr(a0[(i - 1200 + k) % 300], 5), 3))"
// expect 2[1500..1800]: formula "sum(k, 0, 40, a1[(i + k) % 300] * and(shr(a0[i - 1500], k % 8 * 4), 15))"
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
using namespace metal;

kernel void sums(device const uint* words [[buffer(0)]],
                 device const float* x [[buffer(1)]],
                 device float* y [[buffer(2)]],
                 uint id [[thread_position_in_grid]])
{
    const uint word = words[id];
    const float here = x[id];
    const float next = x[(id + 1) % 300];

    float sum = 0.0f;
#pragma unroll
    for (uint k = 0; k < 8; k++) {
        sum += x[(id + k) % 300] * float((word >> (4 * k)) & 15);
    }
    y[id] = sum;

    // One code has two uses, another is a shift alone.
    const float twice = float((word >> 3) & 127);
    sum = 1.0f;
    sum += here * twice;
    sum += here * twice;
    sum += here * float(word >> 29);
    y[300 + id] = sum;

    // A signed word: the mask hides the sign bits.
    const int signed_word = int(word);
    sum = here * float((signed_word >> 28) & 7);
    sum += next * float(signed_word & 0xfffff);
    y[600 + id] = sum;

    // A branch between two steps, and a factor that is set in it.
    sum = here * float(word & 255);
    float factor = 3.0f;
    const float code = float((word >> 8) & 255);
    if (id % 3 == 0) {
        factor = 2.0f;
        sum += next * code;
    } else {
        sum += next * code;
        sum += next * code;
    }
    sum += (factor - 1.0f) * next * code - (id % 3 == 0 ? 0.0f : 1.0f) * next * code;
    y[900 + id] = sum;

    // A loop whose length varies: the sum is a local.
    sum = 0.0f;
    for (uint k = 0; k < 5 + id % 4; k++) {
        sum += x[(id + k) % 300] * float((words[(id + k) % 300] >> 5) & 3);
    }
    y[1200 + id] = sum;

    // More steps than one loop takes.
    sum = 0.0f;
#pragma unroll
    for (uint k = 0; k < 40; k++) {
        sum += x[(id + k) % 300] * float((word >> (k % 8 * 4)) & 15);
    }
    y[1500 + id] = sum;
}
