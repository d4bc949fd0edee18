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

#include "../../kernels/mxfp8_matmul.metal"
