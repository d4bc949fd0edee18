// kernels/gguf_matmul.metal, Q4_K: blocks and products made by tools/block_weights.py. K is two blocks, N and
// M are no multiples of a tile.
//
// flags: -I ../../kernels/include
// arg 1: buffer uchar[10656] = data/q4_k_weights.npy
// expect 2: data/q4_k_product.npy
// run: tile, float
// kernel: q4_k_tile_f32
// arg 0: buffer float[18944] = random(1)
// arg 2: buffer float (37, 37) = zeros
// arg 3: bytes = int 37, int 37, int 512
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 5e-4 rel 1e-5
// run: tile, half
// kernel: q4_k_tile_f16
// arg 0: buffer half[18944] = random(1)
// arg 2: buffer float (37, 37) = zeros
// arg 3: bytes = int 37, int 37, int 512
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 1e-1 rel 1e-3
// run: tile, bfloat
// kernel: q4_k_tile_bf16
// arg 0: buffer bfloat[18944] = random(1)
// arg 2: buffer float (37, 37) = zeros
// arg 3: bytes = int 37, int 37, int 512
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 6e-1 rel 1e-2
// run: cooperative, float
// kernel: q4_k_cooperative_f32
// arg 0: buffer float[18944] = random(1)
// arg 2: buffer float (37, 37) = zeros
// arg 3: bytes = int 37, int 37, int 512
// grid: threadgroups 1 3 1
// threads: 128 1 1
// tolerance: abs 5e-4 rel 1e-5
// run: cooperative, half
// kernel: q4_k_cooperative_f16
// arg 0: buffer half[18944] = random(1)
// arg 2: buffer float (37, 37) = zeros
// arg 3: bytes = int 37, int 37, int 512
// grid: threadgroups 1 3 1
// threads: 128 1 1
// tolerance: abs 1e-1 rel 1e-3
// run: vector, float
// kernel: q4_k_vector_f32
// arg 0: buffer float[18944] = random(1)
// arg 2: buffer float (37, 37) = zeros
// arg 3: bytes = int 37, int 37, int 512
// grid: threadgroups 2 37 1
// threads: 128 1 1
// tolerance: abs 5e-4 rel 1e-5

#include "../../kernels/gguf_matmul.metal"
