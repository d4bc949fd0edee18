// kernels/fp8_matmul.metal: both tiles, K that 16 divides and K that it does not, edges.
//
// run: large tiles into half
// kernel: fp8_matmul_f16_128x192
// arg 0: buffer fp8_e4m3 (272, 200) = random(1)
// arg 1: buffer fp8_e4m3 (272, 300) = random(2)
// arg 2: buffer half (300, 200) = zeros
// arg 3: bytes = int 200, int 300, int 272
// grid: threadgroups 2 2 1
// threads: 256 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 2e-2 rel 2e-3
// run: large tiles into float, odd rows
// kernel: fp8_matmul_f32_128x192
// arg 0: buffer fp8_e4m3 (100, 130) = random(1)
// arg 1: buffer fp8_e4m3 (100, 210) = random(2)
// arg 2: buffer float (210, 130) = zeros
// arg 3: bytes = int 130, int 210, int 100
// grid: threadgroups 2 2 1
// threads: 256 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-2 rel 1e-3
// run: small tiles
// kernel: fp8_matmul_f32_64x64
// arg 0: buffer fp8_e4m3 (160, 100) = random(1)
// arg 1: buffer fp8_e4m3 (160, 70) = random(2)
// arg 2: buffer float (70, 100) = zeros
// arg 3: bytes = int 100, int 70, int 160
// grid: threadgroups 2 2 1
// threads: 128 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-2 rel 1e-3

#include "../../kernels/fp8_matmul.metal"
