// FlashAttention in half: sequences of 1, 17, 128 and 1000.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=2 -D ATTENTION_DIMS=2 -D ATTENTION_FORMS=3
// threads: 128 1 1
// tolerance: abs 1e-3 rel 2e-3
//
// run: d64 1x1 heads 1/1
// kernel: flash_attention_f16_d64
// arg 0: buffer half (64, 1, 1, 1) = random(1)
// arg 1: buffer half (64, 1, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 1, 1, 1) = random(3)
// arg 3: buffer half (64, 1, 1, 1) = fill(9)
// arg 4: bytes = int 1, int 1, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d64 17x17 heads 1/1
// kernel: flash_attention_f16_d64
// arg 0: buffer half (64, 17, 1, 1) = random(1)
// arg 1: buffer half (64, 17, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 17, 1, 1) = random(3)
// arg 3: buffer half (64, 17, 1, 1) = fill(9)
// arg 4: bytes = int 17, int 17, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d64 128x128 heads 1/1
// kernel: flash_attention_f16_d64
// arg 0: buffer half (64, 128, 1, 1) = random(1)
// arg 1: buffer half (64, 128, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 128, 1, 1) = random(3)
// arg 3: buffer half (64, 128, 1, 1) = fill(9)
// arg 4: bytes = int 128, int 128, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d64 1000x1000 heads 1/1
// kernel: flash_attention_f16_d64
// arg 0: buffer half (64, 1000, 1, 1) = random(1)
// arg 1: buffer half (64, 1000, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 1000, 1, 1) = random(3)
// arg 3: buffer half (64, 1000, 1, 1) = fill(9)
// arg 4: bytes = int 1000, int 1000, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 16 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d64 17x17 heads 1/1 causal 0
// kernel: flash_attention_f16_d64_causal
// arg 0: buffer half (64, 17, 1, 1) = random(1)
// arg 1: buffer half (64, 17, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 17, 1, 1) = random(3)
// arg 3: buffer half (64, 17, 1, 1) = fill(9)
// arg 4: bytes = int 17, int 17, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=0)
//
// run: d64 200x200 heads 1/1 causal 0
// kernel: flash_attention_f16_d64_causal
// arg 0: buffer half (64, 200, 1, 1) = random(1)
// arg 1: buffer half (64, 200, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 200, 1, 1) = random(3)
// arg 3: buffer half (64, 200, 1, 1) = fill(9)
// arg 4: bytes = int 200, int 200, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 4 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=0)

#include "../../kernels/flash_attention.metal"
