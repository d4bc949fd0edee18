// kernels/transpose.metal: whole tiles, and edges on both sides.
//
// kernel: transpose_f32
// threads: 64 4 1
// expect 1: formula "a0[len(a0) / 70 * (i % 70) + floor(i / 70)]"
// tolerance: exact
// run: tiles
// arg 0: buffer float (192, 128) = random(1)
// arg 1: buffer float (128, 192) = zeros
// arg 2: bytes = int 128, int 192
// grid: threadgroups 3 2 1
// expect 1: formula "a0[192 * (i % 128) + floor(i / 128)]"
// run: tiles and edges
// arg 0: buffer float (145, 70) = random(1)
// arg 1: buffer float (70, 145) = zeros
// arg 2: bytes = int 70, int 145
// grid: threadgroups 3 2 1
// run: edges
// arg 0: buffer float (45, 70) = random(1)
// arg 1: buffer float (70, 45) = zeros
// arg 2: bytes = int 70, int 45
// grid: threadgroups 1 2 1
// run: one_row
// arg 0: buffer float (100, 1) = random(2)
// arg 1: buffer float (1, 100) = zeros
// arg 2: bytes = int 1, int 100
// grid: threadgroups 2 1 1
// expect 1: formula "a0[i]"
// run: half
// kernel: transpose_f16
// arg 0: buffer half (145, 70) = random(3)
// arg 1: buffer half (70, 145) = zeros
// arg 2: bytes = int 70, int 145
// grid: threadgroups 3 2 1
// run: bfloat
// kernel: transpose_bf16
// arg 0: buffer bfloat (145, 70) = random(3)
// arg 1: buffer bfloat (70, 145) = zeros
// arg 2: bytes = int 70, int 145
// grid: threadgroups 3 2 1

#include "../../kernels/transpose.metal"
