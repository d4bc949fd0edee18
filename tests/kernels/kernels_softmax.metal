// kernels/softmax.metal: rows shorter and longer than the threadgroup.
//
// flags: -I ../../kernels/include
// kernel: softmax_f32
// grid: threadgroups 3 1 1
// threads: 64 1 1
// expect 1: formula "exp(a0[i]) / sum(k, 0, len(a0) / 3, exp(a0[len(a0) / 3 * floor(i / (len(a0) / 3)) + k]))"
// run: short
// arg 0: buffer float (7, 3) = random(1, -5, 5)
// arg 1: buffer float (7, 3) = zeros
// arg 2: bytes = int 7
// run: long
// arg 0: buffer float (1000, 3) = random(1, -5, 5)
// arg 1: buffer float (1000, 3) = zeros
// arg 2: bytes = int 1000
// run: half
// kernel: softmax_f16
// arg 0: buffer half (77, 3) = random(1, -5, 5)
// arg 1: buffer half (77, 3) = zeros
// arg 2: bytes = int 77
// run: half, rows that begin where vectors do
// kernel: softmax_f16
// arg 0: buffer half (1048, 3) = random(1, -5, 5)
// arg 1: buffer half (1048, 3) = zeros
// arg 2: bytes = int 1048
// run: bfloat, rows that begin between
// kernel: softmax_bf16
// arg 0: buffer bfloat (1049, 3) = random(1, -5, 5)
// arg 1: buffer bfloat (1049, 3) = zeros
// arg 2: bytes = int 1049
// run: one vector for each thread
// threads: 256 1 1
// arg 0: buffer float (1000, 3) = random(1, -5, 5)
// arg 1: buffer float (1000, 3) = zeros
// arg 2: bytes = int 1000
// run: bfloat, rows longer than threads keep
// kernel: softmax_bf16
// arg 0: buffer bfloat (1048, 3) = random(1, -5, 5)
// arg 1: buffer bfloat (1048, 3) = zeros
// arg 2: bytes = int 1048
// threads: 32 1 1

#include "../../kernels/softmax.metal"
