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

#include "../../kernels/matmul.metal"
