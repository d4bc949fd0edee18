// A loop whose trip count differs by lane: SIMD-group functions see the lanes that are still in it.
//
// kernel: shrinking
// arg 0: buffer uint[32] = zeros
// threads: 32 1 1
// expect 0: formula "sum(k, 0, i + 1, 32 - k)"

#include <metal_stdlib>
using namespace metal;

kernel void shrinking(device uint* y [[buffer(0)]], uint lane [[thread_index_in_simdgroup]])
{
    uint total = 0;
    for (uint k = 0; k <= lane; k++) {
        total += simd_sum(1u);
    }
    y[lane] = total;
}
