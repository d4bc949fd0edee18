// FlashAttention: several query heads share a key head, in two batches; a single key head serves all.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=1 -D ATTENTION_DIMS=1 -D ATTENTION_FORMS=3
// threads: 128 1 1
// tolerance: abs 1e-5 rel 1e-5
//
// run: d32 40x90 heads 6/2
// kernel: flash_attention_f32_d32
// arg 0: buffer float (32, 40, 6, 2) = random(1)
// arg 1: buffer float (32, 90, 2, 2) = random(2, -3, 3)
// arg 2: buffer float (32, 90, 2, 2) = random(3)
// arg 3: buffer float (32, 40, 6, 2) = fill(9)
// arg 4: bytes = int 40, int 90, int 6, int 2, int 0, float 0.1767766952966369, int 0, int 0, int 0
// grid: threadgroups 1 6 2
// expect 3: attention(q=0, k=1, v=2, scale=0.1767766952966369)
//
// run: d32 40x90 heads 4/1 causal 50
// kernel: flash_attention_f32_d32_causal
// arg 0: buffer float (32, 40, 4, 2) = random(1)
// arg 1: buffer float (32, 90, 1, 2) = random(2, -3, 3)
// arg 2: buffer float (32, 90, 1, 2) = random(3)
// arg 3: buffer float (32, 40, 4, 2) = fill(9)
// arg 4: bytes = int 40, int 90, int 4, int 1, int 50, float 0.1767766952966369, int 0, int 0, int 0
// grid: threadgroups 1 4 2
// expect 3: attention(q=0, k=1, v=2, scale=0.1767766952966369, causal=50)

#include "../../kernels/flash_attention.metal"
