// FlashAttention with scores so large that only the running maximum keeps the exponentials finite.
//
// flags: -I ../../kernels/include -D ATTENTION_TYPES=1 -D ATTENTION_DIMS=2 -D ATTENTION_FORMS=3
// threads: 128 1 1
// tolerance: abs 2e-3 rel 1e-3
//
// run: d64 48x150 heads 1/1
// kernel: flash_attention_f32_d64
// arg 0: buffer float (64, 48, 1, 1) = random(1)
// arg 1: buffer float (64, 150, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 150, 1, 1) = random(3)
// arg 3: buffer float (64, 48, 1, 1) = fill(9)
// arg 4: bytes = int 48, int 150, int 1, int 1, int 0, float 20.0, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=20.0)
//
// run: d64 48x48 heads 1/1 causal 0
// kernel: flash_attention_f32_d64_causal
// arg 0: buffer float (64, 48, 1, 1) = random(1)
// arg 1: buffer float (64, 48, 1, 1) = random(2, -3, 3)
// arg 2: buffer float (64, 48, 1, 1) = random(3)
// arg 3: buffer float (64, 48, 1, 1) = fill(9)
// arg 4: bytes = int 48, int 48, int 1, int 1, int 0, float 20.0, int 0, int 0, int 0
// grid: threadgroups 1 1 1
// expect 3: attention(q=0, k=1, v=2, scale=20.0, causal=0)

#include "../../kernels/flash_attention.metal"
