// C = A · B by 8 × 8 SIMD-group matrices: device loads, accumulation over K, store.
//
// kernel: gemm
// grid: threadgroups 3 5 1
// threads: 32 1 1
// expect 2: matmul(0, 1)
//
// run: float
// flags: -D IN=float -D OUT=float
// arg 0: buffer float (72, 40) = random(1)
// arg 1: buffer float (24, 72) = random(2)
// arg 2: buffer float (24, 40) = zeros
//
// run: half into float
// flags: -D IN=half -D OUT=float
// arg 0: buffer half (72, 40) = random(3)
// arg 1: buffer half (24, 72) = random(4)
// arg 2: buffer float (24, 40) = zeros
//
// run: bfloat into float
// flags: -D IN=bfloat -D OUT=float
// arg 0: buffer bfloat (72, 40) = random(5)
// arg 1: buffer bfloat (24, 72) = random(6)
// arg 2: buffer float (24, 40) = zeros

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

constant constexpr int K = 72, N = 24;

kernel void gemm(const device IN* a [[buffer(0)]],
                 const device IN* b [[buffer(1)]],
                 device OUT* c [[buffer(2)]],
                 uint2 tile [[threadgroup_position_in_grid]])
{
    simdgroup_matrix<OUT, 8, 8> sum(0);
    for (int k = 0; k < K; k += 8) {
        simdgroup_matrix<IN, 8, 8> left, right;
        simdgroup_load(left, a, K, ulong2(k, 8 * tile.y));
        simdgroup_load(right, b + k * N + 8 * tile.x, N);
        simdgroup_multiply_accumulate(sum, left, right, sum);
    }
    simdgroup_store(sum, c, N, ulong2(8 * tile.x, 8 * tile.y));
}
