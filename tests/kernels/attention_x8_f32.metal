// FlashAttention in float by eight SIMD-groups that walk the keys together: whole and partial blocks of rows and keys, grouped heads, causal.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=1 -D ATTENTION_DIMS=10 -D ATTENTION_FORMS=192
// threads: 256 1 1
// tolerance: abs 1e-5 rel 1e-5
//
// run: d64 128x128 heads 1/1
// kernel: flash_attention_f32_d64_x8
// arg 0: buffer float (64, 128, 1, 1) = random(1)
// arg 1: buffer float (64, 128, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 128, 1, 1) = random(3)
// arg 3: buffer float (64, 128, 1, 1) = fill(9)
// arg 4: bytes = int 128, int 128, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d64 300x333 heads 2/1
// kernel: flash_attention_f32_d64_x8
// arg 0: buffer float (64, 300, 2, 1) = random(1)
// arg 1: buffer float (64, 333, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 333, 1, 1) = random(3)
// arg 3: buffer float (64, 300, 2, 1) = fill(9)
// arg 4: bytes = int 300, int 333, int 2, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 3 2 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125)
//
// run: d128 17x400 heads 2/2
// kernel: flash_attention_f32_d128_x8
// arg 0: buffer float (128, 17, 2, 1) = random(1)
// arg 1: buffer float (128, 400, 2, 1) = random(2, -3, 3)
// arg 2: buffer float (128, 400, 2, 1) = random(3)
// arg 3: buffer float (128, 17, 2, 1) = fill(9)
// arg 4: bytes = int 17, int 400, int 2, int 2, int 0, float 0.08838834764831843, int 0, int 0, int 0
// grid: threadgroups 1 2 1
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831843)
//
// run: d128 256x512 heads 1/1
// kernel: flash_attention_f32_d128_x8
// arg 0: buffer float (128, 256, 1, 2) = random(1)
// arg 1: buffer float (128, 512, 1, 2) = random(2, -3, 3)
// arg 2: buffer float (128, 512, 1, 2) = random(3)
// arg 3: buffer float (128, 256, 1, 2) = fill(9)
// arg 4: bytes = int 256, int 512, int 1, int 1, int 0, float 0.08838834764831843, int 0, int 0, int 0
// grid: threadgroups 2 1 2
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831843)
//
// run: d64 200x200 heads 1/1 causal 0
// kernel: flash_attention_f32_d64_causal_x8
// arg 0: buffer float (64, 200, 1, 1) = random(1)
// arg 1: buffer float (64, 200, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 200, 1, 1) = random(3)
// arg 3: buffer float (64, 200, 1, 1) = fill(9)
// arg 4: bytes = int 200, int 200, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=0)
//
// run: d128 130x257 heads 4/2 causal 127
// kernel: flash_attention_f32_d128_causal_x8
// arg 0: buffer float (128, 130, 4, 1) = random(1)
// arg 1: buffer float (128, 257, 2, 1) = random(2, -3, 3)
// arg 2: buffer float (128, 257, 2, 1) = random(3)
// arg 3: buffer float (128, 130, 4, 1) = fill(9)
// arg 4: bytes = int 130, int 257, int 4, int 2, int 127, float 0.08838834764831843, int 0, int 0, int 0
// grid: threadgroups 2 4 1
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831843, causal=127)
//
// run: d128 384x384 heads 1/1 causal 0
// kernel: flash_attention_f32_d128_causal_x8
// arg 0: buffer float (128, 384, 1, 1) = random(1)
// arg 1: buffer float (128, 384, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (128, 384, 1, 1) = random(3)
// arg 3: buffer float (128, 384, 1, 1) = fill(9)
// arg 4: bytes = int 384, int 384, int 1, int 1, int 0, float 0.08838834764831843, int 0, int 0, int 0
// grid: threadgroups 3 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.08838834764831843, causal=0)

#include "../../kernels/flash_attention.metal"
