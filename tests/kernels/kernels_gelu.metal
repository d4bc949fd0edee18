// kernels/gelu.metal: both forms, three types.
//
// flags: -I ../../kernels/include
// grid: threads 1000 1 1
// threads: 256 1 1
// run: f32
// kernel: gelu_f32
// arg 0: buffer float[1000] = random(1, -8, 8)
// arg 1: buffer float[1000] = zeros
// expect 1: formula "0.5 * a0[i] * (1 + erf(a0[i] / sqrt(2)))"
// tolerance: abs 5e-6 rel 1e-5
// run: f32, far from zero
// kernel: gelu_f32
// arg 0: buffer float[1000] = random(1, -3000, 3000)
// arg 1: buffer float[1000] = zeros
// expect 1: formula "0.5 * a0[i] * (1 + erf(a0[i] / sqrt(2)))"
// tolerance: abs 5e-6 rel 1e-5
// run: f16
// kernel: gelu_f16
// arg 0: buffer half[1000] = random(1, -8, 8)
// arg 1: buffer half[1000] = zeros
// expect 1: formula "0.5 * a0[i] * (1 + erf(a0[i] / sqrt(2)))"
// run: bf16
// kernel: gelu_bf16
// arg 0: buffer bfloat[1000] = random(1, -8, 8)
// arg 1: buffer bfloat[1000] = zeros
// expect 1: formula "0.5 * a0[i] * (1 + erf(a0[i] / sqrt(2)))"
// run: tanh f32
// kernel: gelu_tanh_f32
// arg 0: buffer float[1000] = random(1, -8, 8)
// arg 1: buffer float[1000] = zeros
// expect 1: formula "0.5 * a0[i] * (1 + tanh(sqrt(2 / pi) * (a0[i] + 0.044715 * pow(a0[i], 3))))"
// tolerance: abs 5e-6 rel 1e-5

#include "../../kernels/gelu.metal"
