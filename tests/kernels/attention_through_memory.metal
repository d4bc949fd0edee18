// FlashAttention when the scores cannot be reused in registers: every block goes through threadgroup memory.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=1 -D ATTENTION_DIMS=7 -D ATTENTION_FORMS=3
// threads: 128 1 1
// tolerance: abs 1e-5 rel 1e-5
//
// run: d64 130x130 heads 1/1 incompatible
// kernel: flash_attention_f32_d64
// arg 0: buffer float (64, 130, 1, 1) = random(1)
// arg 1: buffer float (64, 130, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 130, 1, 1) = random(3)
// arg 3: buffer float (64, 130, 1, 1) = fill(9)
// arg 4: bytes = int 130, int 130, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 3 1 1
// option: force-incompatible
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d80 50x200 heads 1/1 incompatible
// kernel: flash_attention_f32_d80
// arg 0: buffer float (80, 50, 1, 1) = random(1)
// arg 1: buffer float (80, 200, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (80, 200, 1, 1) = random(3)
// arg 3: buffer float (80, 50, 1, 1) = fill(9)
// arg 4: bytes = int 50, int 200, int 1, int 1, int 0, float 0.11180339887498948, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// option: force-incompatible
// expect 3: attention(q=0, k=1, v=2, scale=0.11180339887498948)
//
// run: d32 130x130 heads 1/1 causal 0 incompatible
// kernel: flash_attention_f32_d32_causal
// arg 0: buffer float (32, 130, 1, 1) = random(1)
// arg 1: buffer float (32, 130, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (32, 130, 1, 1) = random(3)
// arg 3: buffer float (32, 130, 1, 1) = fill(9)
// arg 4: bytes = int 130, int 130, int 1, int 1, int 0, float 0.1767766952966369, int 0, int 0, int 0
// grid: threadgroups 3 1 1
// option: force-incompatible
// expect 3: attention(q=0, k=1, v=2, scale=0.1767766952966369, causal=0)

#include "../../kernels/flash_attention.metal"
