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
// run: several vectors for each thread
// kernel: layer_norm_f32
// arg 0: buffer float (136, 4) = random(1, 9, 11)
// arg 1: buffer float[136] = random(2)
// arg 2: buffer float[136] = random(3)
// arg 3: buffer float (136, 4) = zeros
// arg 4: bytes = int 136, float 1e-5
// threads: 32 1 1
// expect 3: formula "(a0[i] - sum(k, 0, 136, a0[136 * floor(i / 136) + k]) / 136) / sqrt(sum(j, 0, 136, pow(a0[136 * floor(i / 136) + j] -
//     sum(k, 0, 136, a0[136 * floor(i / 136) + k]) / 136, 2)) / 136 + 1e-5) * a1[i % 136] + a2[i % 136]"

#include "../../kernels/layer_norm.metal"
