// kernels/attention_unfused.metal: the products; softmax between them has a test of its own.
//
// threads: 128 1 1
// run: scores
// kernel: attention_scores_f16
// arg 0: buffer half (64, 70, 2) = random(1)
// arg 1: buffer half (64, 90, 2) = random(2)
// arg 2: buffer float (90, 70, 2) = zeros
// arg 3: bytes = int 70, int 90, int 64, float 0.125
// grid: threadgroups 2 2 2
// expect 2: formula "0.125 * sum(d, 0, 64, a0[64 * floor(i / 90) + d] * a1[64 * (90 * floor(i / 6300) + i % 90) + d])"
// run: values
// kernel: attention_values_f32
// arg 0: buffer float (90, 70, 2) = random(1)
// arg 1: buffer float (80, 90, 2) = random(2)
// arg 2: buffer float (80, 70, 2) = zeros
// arg 3: bytes = int 70, int 90, int 80, float 0.125
// grid: threadgroups 2 2 2
// expect 2: formula "sum(k, 0, 90, a0[90 * floor(i / 80) + k] * a1[80 * (90 * floor(i / 5600) + k) + i % 80])"
// tolerance: abs 1e-4 rel 1e-5

#include "../../kernels/attention_unfused.metal"
