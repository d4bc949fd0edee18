// kernels/gguf_matmul.metal, Q4_1: blocks and products made by tools/block_weights.py. K is three blocks (not a whole tile), N and
// M are no multiples of a tile.
//
// flags: -I ../../kernels/include
// arg 1: buffer uchar[2700] = data/q4_1_weights.npy
// expect 2: data/q4_1_product.npy
// run: tile, float
// kernel: q4_1_tile_f32
// arg 0: buffer float[3552] = random(1)
// arg 2: buffer float (45, 37) = zeros
// arg 3: bytes = int 37, int 45, int 96
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 1e-4 rel 1e-5
// run: tile, half
// kernel: q4_1_tile_f16
// arg 0: buffer half[3552] = random(1)
// arg 2: buffer float (45, 37) = zeros
// arg 3: bytes = int 37, int 45, int 96
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 2e-2 rel 1e-3
// run: tile, bfloat
// kernel: q4_1_tile_bf16
// arg 0: buffer bfloat[3552] = random(1)
// arg 2: buffer float (45, 37) = zeros
// arg 3: bytes = int 37, int 45, int 96
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 1.5e-1 rel 1e-2
// run: cooperative, float
// kernel: q4_1_cooperative_f32
// arg 0: buffer float[3552] = random(1)
// arg 2: buffer float (45, 37) = zeros
// arg 3: bytes = int 37, int 45, int 96
// grid: threadgroups 1 3 1
// threads: 128 1 1
// tolerance: abs 1e-4 rel 1e-5
// run: cooperative, half
// kernel: q4_1_cooperative_f16
// arg 0: buffer half[3552] = random(1)
// arg 2: buffer float (45, 37) = zeros
// arg 3: bytes = int 37, int 45, int 96
// grid: threadgroups 1 3 1
// threads: 128 1 1
// tolerance: abs 2e-2 rel 1e-3
// run: vector, float
// kernel: q4_1_vector_f32
// arg 0: buffer float[3552] = random(1)
// arg 2: buffer float (45, 37) = zeros
// arg 3: bytes = int 37, int 45, int 96
// grid: threadgroups 2 37 1
// threads: 128 1 1
// tolerance: abs 1e-4 rel 1e-5

#include "../../kernels/gguf_matmul.metal"
