// FlashAttention in bfloat: head dimensions 32, 64, 80 and 128.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=4 -D ATTENTION_DIMS=15 -D ATTENTION_FORMS=3
// threads: 128 1 1
// tolerance: abs 1e-2 rel 1e-2
//
// run: d32 75x75 heads 1/1
// kernel: flash_attention_bf16_d32
// arg 0: buffer bfloat (32, 75, 1, 1) = random(1)
// arg 1: buffer bfloat (32, 75, 1, 1) = random(2, -3, 3)
// arg 2: buffer bfloat (32, 75, 1, 1) = random(3)
// arg 3: buffer bfloat (32, 75, 1, 1) = fill(9)
// arg 4: bytes = int 75, int 75, int 1, int 1, int 0, float 0.1767766952966369, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.1767766952966369)
//
// run: d64 75x75 heads 1/1
// kernel: flash_attention_bf16_d64
// arg 0: buffer bfloat (64, 75, 1, 1) = random(1)
// arg 1: buffer bfloat (64, 75, 1, 1) = random(2, -3, 3)
// arg 2: buffer bfloat (64, 75, 1, 1) = random(3)
// arg 3: buffer bfloat (64, 75, 1, 1) = fill(9)
// arg 4: bytes = int 75, int 75, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d80 75x75 heads 1/1
// kernel: flash_attention_bf16_d80
// arg 0: buffer bfloat (80, 75, 1, 1) = random(1)
// arg 1: buffer bfloat (80, 75, 1, 1) = random(2, -3, 3)
// arg 2: buffer bfloat (80, 75, 1, 1) = random(3)
// arg 3: buffer bfloat (80, 75, 1, 1) = fill(9)
// arg 4: bytes = int 75, int 75, int 1, int 1, int 0, float 0.11180339887498948, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.11180339887498948)
//
// run: d128 75x75 heads 1/1
// kernel: flash_attention_bf16_d128
// arg 0: buffer bfloat (128, 75, 1, 1) = random(1)
// arg 1: buffer bfloat (128, 75, 1, 1) = random(2, -3, 3)
// arg 2: buffer bfloat (128, 75, 1, 1) = random(3)
// arg 3: buffer bfloat (128, 75, 1, 1) = fill(9)
// arg 4: bytes = int 75, int 75, int 1, int 1, int 0, float 0.08838834764831845, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831845)
//
// run: d80 33x33 heads 1/1 causal 0
// kernel: flash_attention_bf16_d80_causal
// arg 0: buffer bfloat (80, 33, 1, 1) = random(1)
// arg 1: buffer bfloat (80, 33, 1, 1) = random(2, -3, 3)
// arg 2: buffer bfloat (80, 33, 1, 1) = random(3)
// arg 3: buffer bfloat (80, 33, 1, 1) = fill(9)
// arg 4: bytes = int 33, int 33, int 1, int 1, int 0, float 0.11180339887498948, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.11180339887498948, causal=0)

#include "../../kernels/flash_attention.metal"
