// kernels/rms_norm.metal: rows of a length that is a multiple of nothing, one to eight SIMD-groups.
//
// flags: -I ../../kernels/include
// kernel: rms_norm_f32
// arg 0: buffer float (333, 5) = random(1, -2, 2)
// arg 1: buffer float[333] = random(2)
// arg 2: buffer float (333, 5) = zeros
// arg 3: bytes = int 333, float 1e-5
// grid: threadgroups 5 1 1
// expect 2: formula "a0[i] * a1[i % 333] / sqrt(sum(k, 0, 333, a0[333 * floor(i / 333) + k] * a0[333 * floor(i / 333) + k]) / 333 + 1e-5)"
// run: one SIMD-group
// threads: 32 1 1
// run: eight SIMD-groups
// threads: 256 1 1
// run: half
// kernel: rms_norm_f16
// threads: 128 1 1
// arg 0: buffer half (333, 5) = random(1, -2, 2)
// arg 1: buffer half[333] = random(2)
// arg 2: buffer half (333, 5) = zeros
// run: half, rows that begin where vectors do
// kernel: rms_norm_f16
// threads: 64 1 1
// arg 0: buffer half (1048, 5) = random(1, -2, 2)
// arg 1: buffer half[1048] = random(2)
// arg 2: buffer half (1048, 5) = zeros
// arg 3: bytes = int 1048, float 1e-5
// expect 2: formula "a0[i] * a1[i % 1048] / sqrt(sum(k, 0, 1048, a0[1048 * floor(i / 1048) + k] * a0[1048 * floor(i / 1048) + k]) / 1048 + 1e-5)"

#include "../../kernels/rms_norm.metal"
