// kernels/layer_norm.metal: with and without a residual; a mean far from zero.
//
// flags: -I ../../kernels/include
// arg 0: buffer float (100, 4) = random(1, 9, 11)
// arg 1: buffer float[100] = random(2)
// arg 2: buffer float[100] = random(3)
// arg 3: buffer float (100, 4) = zeros
// arg 4: bytes = int 100, float 1e-5
// arg 5: buffer float (100, 4) = random(4)
// grid: threadgroups 4 1 1
// threads: 64 1 1
// tolerance: abs 2e-5 rel 1e-5
// run: plain
// kernel: layer_norm_f32
// expect 3: formula "(a0[i] - sum(k, 0, 100, a0[100 * floor(i / 100) + k]) / 100) / sqrt(sum(j, 0, 100, pow(a0[100 * floor(i / 100) + j] -
//     sum(k, 0, 100, a0[100 * floor(i / 100) + k]) / 100, 2)) / 100 + 1e-5) * a1[i % 100] + a2[i % 100]"
// run: residual
// kernel: add_layer_norm_f32
// expect 3: formula "(a0[i] + a5[i] - sum(k, 0, 100, a0[100 * floor(i / 100) + k] + a5[100 * floor(i / 100) + k]) / 100) /
//     sqrt(sum(j, 0, 100, pow(a0[100 * floor(i / 100) + j] + a5[100 * floor(i / 100) + j] -
//     sum(k, 0, 100, a0[100 * floor(i / 100) + k] + a5[100 * floor(i / 100) + k]) / 100, 2)) / 100 + 1e-5) * a1[i % 100] + a2[i % 100]"

#include "../../kernels/layer_norm.metal"
