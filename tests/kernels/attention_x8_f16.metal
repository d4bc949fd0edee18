// FlashAttention in half by eight SIMD-groups that walk the keys together.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=2 -D ATTENTION_DIMS=10 -D ATTENTION_FORMS=192
// threads: 256 1 1
// tolerance: abs 1e-2 rel 1e-2
//
// run: d64 128x256 heads 1/1
// kernel: flash_attention_f16_d64_x8
// arg 0: buffer half (64, 128, 1, 1) = random(1)
// arg 1: buffer half (64, 256, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 256, 1, 1) = random(3)
// arg 3: buffer half (64, 128, 1, 1) = fill(9)
// arg 4: bytes = int 128, int 256, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d128 140x129 heads 2/1
// kernel: flash_attention_f16_d128_x8
// arg 0: buffer half (128, 140, 2, 1) = random(1)
// arg 1: buffer half (128, 129, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (128, 129, 1, 1) = random(3)
// arg 3: buffer half (128, 140, 2, 1) = fill(9)
// arg 4: bytes = int 140, int 129, int 2, int 1, int 0, float 0.08838834764831843, int 0, int 0, int 0
// grid: threadgroups 2 2 1
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831843)
//
// run: d64 1x1000 heads 1/1 causal 999
// kernel: flash_attention_f16_d64_causal_x8
// arg 0: buffer half (64, 1, 1, 1) = random(1)
// arg 1: buffer half (64, 1000, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (64, 1000, 1, 1) = random(3)
// arg 3: buffer half (64, 1, 1, 1) = fill(9)
// arg 4: bytes = int 1, int 1000, int 1, int 1, int 999, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=999)
//
// run: d128 257x257 heads 1/1 causal 0
// kernel: flash_attention_f16_d128_causal_x8
// arg 0: buffer half (128, 257, 1, 1) = random(1)
// arg 1: buffer half (128, 257, 1, 1) = random(2, -3, 3)
// arg 2: buffer half (128, 257, 1, 1) = random(3)
// arg 3: buffer half (128, 257, 1, 1) = fill(9)
// arg 4: bytes = int 257, int 257, int 1, int 1, int 0, float 0.08838834764831843, int 0, int 0, int 0
// grid: threadgroups 3 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831843, causal=0)

#include "../../kernels/flash_attention.metal"
