// kernels/matmul.metal: types, storage orders, tiles, batches, padded rows.
//
// flags: -I ../../kernels/include
// threads: 128 1 1
// run: f32 nn
// kernel: matmul_f32_nn_64x64
// arg 0: buffer float (70, 100) = random(1)
// arg 1: buffer float (90, 70) = random(2)
// arg 2: buffer float (90, 100) = zeros
// arg 3: bytes = int 100, int 90, int 70, int 70, int 90, int 90, long 0, long 0, long 0
// grid: threadgroups 2 2 1
// expect 2: matmul(0, 1)
// tolerance: abs 1e-4 rel 1e-5
// run: f32 nt, large tile
// kernel: matmul_f32_nt_128x128
// arg 0: buffer float (70, 100) = random(1)
// arg 1: buffer float (70, 90) = random(2)
// arg 2: buffer float (90, 100) = zeros
// arg 3: bytes = int 100, int 90, int 70, int 70, int 70, int 90, long 0, long 0, long 0
// grid: threadgroups 1 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-4 rel 1e-5
// run: bf16 nt
// kernel: matmul_bf16_nt_64x64
// arg 0: buffer bfloat (70, 100) = random(1)
// arg 1: buffer bfloat (70, 90) = random(2)
// arg 2: buffer bfloat (90, 100) = zeros
// arg 3: bytes = int 100, int 90, int 70, int 70, int 70, int 90, long 0, long 0, long 0
// grid: threadgroups 2 2 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 2e-2 rel 1e-2
// run: f16 into float, small tile
// kernel: matmul_f16_f32_nn_16x64
// arg 0: buffer half (70, 5) = random(1)
// arg 1: buffer half (90, 70) = random(2)
// arg 2: buffer float (90, 5) = zeros
// arg 3: bytes = int 5, int 90, int 70, int 70, int 90, int 90, long 0, long 0, long 0
// grid: threadgroups 2 1 1
// expect 2: matmul(0, 1)
// tolerance: abs 1e-4 rel 1e-5
// run: three batches with one B
// kernel: matmul_f32_nn_64x64
// arg 0: buffer float (20, 10, 3) = random(1)
// arg 1: buffer float (30, 20) = random(2)
// arg 2: buffer float (30, 10, 3) = zeros
// arg 3: bytes = int 10, int 30, int 20, int 20, int 30, int 30, long 200, long 0, long 300
// grid: threadgroups 1 1 3
// expect 2: formula "sum(k, 0, 20, a0[floor(i / 30) * 20 + k] * a1[k * 30 + i % 30])"
// tolerance: abs 1e-4 rel 1e-5
// run: rows that bulk copies can bring, bf16 nn, 128 × 256
// kernel: matmul_bf16_nn_128x256
// arg 0: buffer bfloat (200, 150) = random(1)
// arg 1: buffer bfloat (304, 200) = random(2)
// arg 2: buffer bfloat (304, 150) = zeros
// arg 3: bytes = int 150, int 300, int 200, int 200, int 304, int 304, long 0, long 0, long 0
// grid: threadgroups 2 2 1
// threads: 256 1 1
// expect 2: formula "i % 304 < 300 ? sum(k, 0, 200, a0[floor(i / 304) * 200 + k] * a1[k * 304 + i % 304]) : 0"
// tolerance: abs 5e-2 rel 1e-2
// run: rows that bulk copies can bring, f16 into float nt, 128 × 256, two batches
// kernel: matmul_f16_f32_nt_128x256
// arg 0: buffer half (72, 140, 2) = random(1)
// arg 1: buffer half (72, 270, 2) = random(2)
// arg 2: buffer float (270, 140, 2) = zeros
// arg 3: bytes = int 140, int 270, int 72, int 72, int 72, int 270, long 10080, long 19440, long 37800
// grid: threadgroups 2 2 2
// threads: 256 1 1
// expect 2: formula "sum(k, 0, 72, a0[floor(i / 270) * 72 + k] * a1[(floor(i / 37800) * 270 + i % 270) * 72 + k])"
// tolerance: abs 1e-4 rel 1e-5
// run: rows that bulk copies can bring, f16 nt, 128 × 128
// kernel: matmul_f16_nt_128x128
// arg 0: buffer half (136, 200) = random(1)
// arg 1: buffer half (136, 300) = random(2)
// arg 2: buffer half (300, 200) = zeros
// arg 3: bytes = int 200, int 300, int 136, int 136, int 136, int 300, long 0, long 0, long 0
// grid: threadgroups 3 2 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 2e-2 rel 2e-3
// run: rows that bulk copies can bring, bf16 into float nn, 64 × 64
// kernel: matmul_bf16_f32_nn_64x64
// arg 0: buffer bfloat (40, 100) = random(1)
// arg 1: buffer bfloat (96, 40) = random(2)
// arg 2: buffer float (96, 100) = zeros
// arg 3: bytes = int 100, int 96, int 40, int 40, int 96, int 96, long 0, long 0, long 0
// grid: threadgroups 2 2 1
// expect 2: matmul(0, 1)
// tolerance: abs 1e-4 rel 1e-5
// run: rows that copies can bring, f16 nt, 16 × 64
// kernel: matmul_f16_nt_16x64
// arg 0: buffer half (72, 40) = random(1)
// arg 1: buffer half (72, 100) = random(2)
// arg 2: buffer half (100, 40) = zeros
// arg 3: bytes = int 40, int 100, int 72, int 72, int 72, int 100, long 0, long 0, long 0
// grid: threadgroups 2 3 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 2e-2 rel 2e-3

#include "../../kernels/matmul.metal"
