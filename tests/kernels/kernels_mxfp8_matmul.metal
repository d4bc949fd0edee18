// kernels/mxfp8_matmul.metal with tensor handles (the inline form is in tests/talk).
//
// threads: 128 1 1
// arg 0: tensor fp8_e4m3 (256, 100) scales (32, 1) = random(1)
// arg 1: tensor fp8_e4m3 (256, 90) scales (32, 1) = random(2)
// grid: threadgroups 2 2 1
// expect 2: matmul(0, 1, transpose_right)
// run: half
// kernel: mxfp8_matmul_handle_f16
// arg 2: tensor half (90, 100) = zeros
// tolerance: abs 1e-2 rel 2e-3
// run: float
// kernel: mxfp8_matmul_handle_f32
// arg 2: tensor float (90, 100) = zeros
// tolerance: abs 1e-3 rel 1e-5
// run: large tiles, shared by threadgroups
// kernel: mxfp8_matmul_handle_f32_128x256
// arg 0: tensor fp8_e4m3 (192, 400) scales (32, 1) = random(1)
// arg 1: tensor fp8_e4m3 (192, 600) scales (32, 1) = random(2)
// arg 2: tensor float (600, 400) = zeros
// grid: threadgroups 3 4 1
// threads: 256 1 1
// tolerance: abs 1e-3 rel 1e-5
// run: one large tile
// kernel: mxfp8_matmul_handle_f16_128x256
// arg 2: tensor half (90, 100) = zeros
// grid: threadgroups 1 1 1
// threads: 256 1 1
// tolerance: abs 1e-2 rel 2e-3

#include "../../kernels/mxfp8_matmul.metal"
