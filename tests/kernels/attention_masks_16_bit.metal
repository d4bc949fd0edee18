// FlashAttention in half with masks.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=2 -D ATTENTION_DIMS=3 -D ATTENTION_FORMS=44
// threads: 128 1 1
// tolerance: abs 1e-3 rel 2e-3
//
// run: d64 70x90 heads 2/2 additive
// kernel: flash_attention_f16_d64_additive
// arg 0: buffer half (64, 70, 2, 1) = random(1)
// arg 1: buffer half (64, 90, 2, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 90, 2, 1) = random(3)
// arg 3: buffer half (64, 70, 2, 1) = fill(9)
// arg 5: buffer half (90, 70, 2, 1) = random(8, -2, 2)
// arg 4: bytes = int 70, int 90, int 2, int 2, int 0, float 0.125, int 90, int 6300, int 0
// grid: threadgroups 2 2 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: d64 70x90 heads 2/1 boolean
// kernel: flash_attention_f16_d64_boolean
// arg 0: buffer half (64, 70, 2, 2) = random(1)
// arg 1: buffer half (64, 90, 1, 2) = random(2, -3, 3)
// arg 2: buffer half (64, 90, 1, 2) = random(3)
// arg 3: buffer half (64, 70, 2, 2) = fill(9)
// arg 5: buffer bool (90, 70, 1, 2) = random(9)
// arg 4: bytes = int 70, int 90, int 2, int 1, int 0, float 0.125, int 90, int 0, int 6300
// grid: threadgroups 2 2 2
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: d32 70x70 heads 1/1 causal 0 boolean
// kernel: flash_attention_f16_d32_causal_boolean
// arg 0: buffer half (32, 70, 1, 1) = random(1)
// arg 1: buffer half (32, 70, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (32, 70, 1, 1) = random(3)
// arg 3: buffer half (32, 70, 1, 1) = fill(9)
// arg 5: buffer bool (70, 70, 1, 1) = random(10)
// arg 4: bytes = int 70, int 70, int 1, int 1, int 0, float 0.1767766952966369, int 70, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.1767766952966369, causal=0, mask=5)

#include "../../kernels/flash_attention.metal"
