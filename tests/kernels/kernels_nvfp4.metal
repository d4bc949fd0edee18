// kernels/nvfp4_matmul.metal: blocks and products made by tools/block_weights.py. K is seven blocks (not a whole tile), N and
// M are no multiples of a tile.
//
// flags: -I ../../kernels/include
// arg 1: buffer uchar[2520] = data/nvfp4_weights.npy
// arg 2: buffer uchar[315] = data/nvfp4_scales.npy
// expect 3: data/nvfp4_product.npy
// run: tile, float
// kernel: nvfp4_tile_f32
// arg 0: buffer float[4144] = random(1)
// arg 3: buffer float (45, 37) = zeros
// arg 4: bytes = int 37, int 45, int 112, float 0.0046890173107385635
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 1e-4 rel 1e-5
// run: tile, half
// kernel: nvfp4_tile_f16
// arg 0: buffer half[4144] = random(1)
// arg 3: buffer float (45, 37) = zeros
// arg 4: bytes = int 37, int 45, int 112, float 0.0046890173107385635
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 2e-2 rel 1e-3
// run: tile, bfloat
// kernel: nvfp4_tile_bf16
// arg 0: buffer bfloat[4144] = random(1)
// arg 3: buffer float (45, 37) = zeros
// arg 4: bytes = int 37, int 45, int 112, float 0.0046890173107385635
// grid: threadgroups 1 2 1
// threads: 128 1 1
// tolerance: abs 1.5e-1 rel 1e-2
// run: cooperative, float
// kernel: nvfp4_cooperative_f32
// arg 0: buffer float[4144] = random(1)
// arg 3: buffer float (45, 37) = zeros
// arg 4: bytes = int 37, int 45, int 112, float 0.0046890173107385635
// grid: threadgroups 1 3 1
// threads: 128 1 1
// tolerance: abs 1e-4 rel 1e-5
// run: cooperative, half
// kernel: nvfp4_cooperative_f16
// arg 0: buffer half[4144] = random(1)
// arg 3: buffer float (45, 37) = zeros
// arg 4: bytes = int 37, int 45, int 112, float 0.0046890173107385635
// grid: threadgroups 1 3 1
// threads: 128 1 1
// tolerance: abs 2e-2 rel 1e-3
// run: vector, float
// kernel: nvfp4_vector_f32
// arg 0: buffer float[4144] = random(1)
// arg 3: buffer float (45, 37) = zeros
// arg 4: bytes = int 37, int 45, int 112, float 0.0046890173107385635
// grid: threadgroups 2 37 1
// threads: 128 1 1
// tolerance: abs 1e-4 rel 1e-5

#include "../../kernels/nvfp4_matmul.metal"
