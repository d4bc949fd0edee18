// FlashAttention with masks: additive (−INFINITY masks) and boolean (true attends); whole, repeated over rows, heads or batches; with rows that see no key, which give zeros.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=1 -D ATTENTION_DIMS=2 -D ATTENTION_FORMS=62
// threads: 128 1 1
// tolerance: abs 1e-5 rel 1e-5
//
// run: d64 70x90 heads 2/2 additive
// kernel: flash_attention_f32_d64_additive
// arg 0: buffer float (64, 70, 2, 2) = random(1)
// arg 1: buffer float (64, 90, 2, 2) = random(2, -3, 3)
// arg 2: buffer float (64, 90, 2, 2) = random(3)
// arg 3: buffer float (64, 70, 2, 2) = fill(9)
// arg 5: buffer float (90, 70, 2, 2) = random(8, -2, 2)
// arg 4: bytes = int 70, int 90, int 2, int 2, int 0, float 0.125, int 90, int 6300, int 12600
// grid: threadgroups 2 2 2
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: additive by key and batch
// kernel: flash_attention_f32_d64_additive
// arg 0: buffer float (64, 70, 2, 2) = random(1)
// arg 1: buffer float (64, 90, 2, 2) = random(2, -3, 3)
// arg 2: buffer float (64, 90, 2, 2) = random(3)
// arg 3: buffer float (64, 70, 2, 2) = fill(9)
// arg 5: buffer float (90, 1, 1, 2) = formula "floor(i / 7) % 3 == 0 ? -inf : 0.1 * (i % 11)"
// arg 4: bytes = int 70, int 90, int 2, int 2, int 0, float 0.125, int 0, int 0, int 90
// grid: threadgroups 2 2 2
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: additive, masked rows
// kernel: flash_attention_f32_d64_additive
// arg 0: buffer float (64, 70, 2, 1) = random(1)
// arg 1: buffer float (64, 90, 2, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 90, 2, 1) = random(3)
// arg 3: buffer float (64, 70, 2, 1) = fill(9)
// arg 5: buffer float (90, 70, 1, 1) = formula "floor(i / 90) % 5 == 2 ? -inf : 0"
// arg 4: bytes = int 70, int 90, int 2, int 2, int 0, float 0.125, int 90, int 0, int 0
// grid: threadgroups 2 2 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: d64 70x90 heads 2/1 boolean
// kernel: flash_attention_f32_d64_boolean
// arg 0: buffer float (64, 70, 2, 2) = random(1)
// arg 1: buffer float (64, 90, 1, 2) = random(2, -3, 3)
// arg 2: buffer float (64, 90, 1, 2) = random(3)
// arg 3: buffer float (64, 70, 2, 2) = fill(9)
// arg 5: buffer bool (90, 70, 1, 2) = random(9)
// arg 4: bytes = int 70, int 90, int 2, int 1, int 0, float 0.125, int 90, int 0, int 6300
// grid: threadgroups 2 2 2
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: boolean, masked rows
// kernel: flash_attention_f32_d64_boolean
// arg 0: buffer float (64, 70, 1, 1) = random(1)
// arg 1: buffer float (64, 90, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 90, 1, 1) = random(3)
// arg 3: buffer float (64, 70, 1, 1) = fill(9)
// arg 5: buffer bool (90, 70, 1, 1) = formula "floor(i / 90) % 4 == 1 ? 0 : i % 3 == 0"
// arg 4: bytes = int 70, int 90, int 1, int 1, int 0, float 0.125, int 90, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: boolean, nothing to see
// kernel: flash_attention_f32_d64_boolean
// arg 0: buffer float (64, 70, 1, 1) = random(1)
// arg 1: buffer float (64, 90, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 90, 1, 1) = random(3)
// arg 3: buffer float (64, 70, 1, 1) = fill(9)
// arg 5: buffer bool (90, 1, 1, 1) = zeros
// arg 4: bytes = int 70, int 90, int 1, int 1, int 0, float 0.125, int 0, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, mask=5)
//
// run: d64 70x70 heads 1/1 causal 0 boolean
// kernel: flash_attention_f32_d64_causal_boolean
// arg 0: buffer float (64, 70, 1, 1) = random(1)
// arg 1: buffer float (64, 70, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 70, 1, 1) = random(3)
// arg 3: buffer float (64, 70, 1, 1) = fill(9)
// arg 5: buffer bool (70, 70, 1, 1) = random(10)
// arg 4: bytes = int 70, int 70, int 1, int 1, int 0, float 0.125, int 70, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=0, mask=5)
//
// run: d64 70x70 heads 1/1 causal 0 additive
// kernel: flash_attention_f32_d64_causal_additive
// arg 0: buffer float (64, 70, 1, 1) = random(1)
// arg 1: buffer float (64, 70, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 70, 1, 1) = random(3)
// arg 3: buffer float (64, 70, 1, 1) = fill(9)
// arg 5: buffer float (70, 70, 1, 1) = random(11)
// arg 4: bytes = int 70, int 70, int 1, int 1, int 0, float 0.125, int 70, int 0, int 0
// grid: threadgroups 2 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=0, mask=5)
//
// run: causal, first rows see nothing
// kernel: flash_attention_f32_d64_causal
// arg 0: buffer float (64, 40, 1, 1) = random(1)
// arg 1: buffer float (64, 40, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 40, 1, 1) = random(3)
// arg 3: buffer float (64, 40, 1, 1) = fill(9)
// arg 4: bytes = int 40, int 40, int 1, int 1, int -5, float 0.125, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=0.125, causal=-5)

#include "../../kernels/flash_attention.metal"
