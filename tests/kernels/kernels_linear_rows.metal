// kernels/linear_rows.metal: three layers of one input, edges in rows and columns, K that is no multiple of a SIMD-group's loads.
//
// flags: -I ../../kernels/include
// threads: 64 1 1
// grid: threadgroups 3 2 3
// arg 0: buffer float (44, 19) = random(1)
// arg 1: bytes = int 19, int 21, int 44
// arg 2: buffer float (44, 21) = random(2)
// arg 3: buffer float (21, 19) = zeros
// arg 5: buffer float (44, 21) = random(3)
// arg 6: buffer float (21, 19) = zeros
// arg 8: buffer float (44, 21) = random(4)
// arg 9: buffer float (21, 19) = zeros
// tolerance: abs 2e-5 rel 1e-5
// run: three layers
// kernel: linear_rows
// expect 3: formula "sum(k, 0, 44, a0[floor(i / 21) * 44 + k] * a2[(i % 21) * 44 + k])"
// expect 6: formula "sum(k, 0, 44, a0[floor(i / 21) * 44 + k] * a5[(i % 21) * 44 + k])"
// expect 9: formula "sum(k, 0, 44, a0[floor(i / 21) * 44 + k] * a8[(i % 21) * 44 + k])"
// run: with a bias and relu
// kernel: linear_rows_bias_relu
// arg 4: buffer float[21] = random(5)
// arg 7: buffer float[21] = random(6)
// arg 10: buffer float[21] = random(7)
// expect 3: formula "max(0, a4[i % 21] + sum(k, 0, 44, a0[floor(i / 21) * 44 + k] * a2[(i % 21) * 44 + k]))"
// expect 9: formula "max(0, a10[i % 21] + sum(k, 0, 44, a0[floor(i / 21) * 44 + k] * a8[(i % 21) * 44 + k]))"

#include "../../kernels/linear_rows.metal"
