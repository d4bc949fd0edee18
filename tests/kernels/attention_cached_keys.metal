// FlashAttention: queries and keys of different lengths. The causal offset aligns the last query with the last key.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=1 -D ATTENTION_DIMS=2 -D ATTENTION_FORMS=3
// threads: 128 1 1
// tolerance: abs 1e-5 rel 1e-5
//
// run: d64 1x100 heads 1/1 causal 99
// kernel: flash_attention_f32_d64_causal
// arg 0: buffer float (64, 1, 1, 1) = random(1)
// arg 1: buffer float (64, 100, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 100, 1, 1) = random(3)
// arg 3: buffer float (64, 1, 1, 1) = fill(9)
// arg 4: bytes = int 1, int 100, int 1, int 1, int 99, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=99)
//
// run: d64 16x80 heads 1/1 causal 64
// kernel: flash_attention_f32_d64_causal
// arg 0: buffer float (64, 16, 1, 1) = random(1)
// arg 1: buffer float (64, 80, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 80, 1, 1) = random(3)
// arg 3: buffer float (64, 16, 1, 1) = fill(9)
// arg 4: bytes = int 16, int 80, int 1, int 1, int 64, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=64)
//
// run: d64 70x131 heads 1/1 causal 61
// kernel: flash_attention_f32_d64_causal
// arg 0: buffer float (64, 70, 1, 1) = random(1)
// arg 1: buffer float (64, 131, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 131, 1, 1) = random(3)
// arg 3: buffer float (64, 70, 1, 1) = fill(9)
// arg 4: bytes = int 70, int 131, int 1, int 1, int 61, float 0.125, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=61)
//
// run: d64 50x20 heads 1/1
// kernel: flash_attention_f32_d64
// arg 0: buffer float (64, 50, 1, 1) = random(1)
// arg 1: buffer float (64, 20, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 20, 1, 1) = random(3)
// arg 3: buffer float (64, 50, 1, 1) = fill(9)
// arg 4: bytes = int 50, int 20, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d64 100x30 heads 1/1 causal 0
// kernel: flash_attention_f32_d64_causal
// arg 0: buffer float (64, 100, 1, 1) = random(1)
// arg 1: buffer float (64, 30, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 30, 1, 1) = random(3)
// arg 3: buffer float (64, 100, 1, 1) = fill(9)
// arg 4: bytes = int 100, int 30, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=0)

#include "../../kernels/flash_attention.metal"
