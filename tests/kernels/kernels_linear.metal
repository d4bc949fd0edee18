// kernels/linear.metal: bias and activation fused into the product.
//
// flags: -I ../../kernels/include
// threads: 128 1 1
// arg 0: buffer float (48, 37) = random(1)
// arg 1: buffer float (48, 75) = random(2)
// arg 2: buffer float (75, 37) = zeros
// arg 3: bytes = int 37, int 75, int 48
// arg 4: buffer float[75] = random(3)
// tolerance: abs 2e-5 rel 1e-5
// run: bias
// kernel: linear_f32_bias_16x64
// grid: threadgroups 2 3 1
// expect 2: formula "a4[i % 75] + sum(k, 0, 48, a0[floor(i / 75) * 48 + k] * a1[(i % 75) * 48 + k])"
// run: no bias, relu
// kernel: linear_f32_relu_64x64
// grid: threadgroups 2 1 1
// expect 2: formula "max(0, sum(k, 0, 48, a0[floor(i / 75) * 48 + k] * a1[(i % 75) * 48 + k]))"
// run: half, bias
// kernel: linear_f16_bias_64x64
// grid: threadgroups 2 1 1
// arg 0: buffer half (48, 37) = random(1)
// arg 1: buffer half (48, 75) = random(2)
// arg 2: buffer half (75, 37) = zeros
// arg 4: buffer half[75] = random(3)
// expect 2: formula "a4[i % 75] + sum(k, 0, 48, a0[floor(i / 75) * 48 + k] * a1[(i % 75) * 48 + k])"
// tolerance: abs 4e-3 rel 2e-3
// run: bias, silu
// kernel: linear_f32_bias_silu_64x64
// grid: threadgroups 2 1 1
// expect 2: formula "(a4[i % 75] + sum(k, 0, 48, a0[floor(i / 75) * 48 + k] * a1[(i % 75) * 48 + k])) /
//     (1 + exp(-a4[i % 75] - sum(k, 0, 48, a0[floor(i / 75) * 48 + k] * a1[(i % 75) * 48 + k])))"

#include "../../kernels/linear.metal"
