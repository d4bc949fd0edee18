// Ballots and votes, in full and in divergent control flow: only active lanes take part.
//
// kernel: votes
// arg 0: buffer uint[192] = zeros
// threads: 32 1 1
// expect 0[0..32]: fill(2863311530)
// expect 0[32..64]: fill(6)
// expect 0[64..96]: fill(5)
// expect 0[96..128]: formula "i - 96 < 10 ? 45 : 451"
// expect 0[128..160]: formula "i - 128 < 10 ? 1 : 0"
// expect 0[160..192]: formula "i - 160 < 10 ? 0 : 10"

#include <metal_stdlib>
using namespace metal;

kernel void votes(device uint* y [[buffer(0)]], uint lane [[thread_index_in_simdgroup]])
{
    y[lane] = uint(ulong(simd_ballot(lane % 2 == 1)));
    y[32 + lane] = (simd_any(lane == 3) ? 2u : 0u) + (simd_all(lane < 32) ? 4u : 0u) + (simd_all(lane < 31) ? 8u : 0u);
    y[64 + lane] = (simd_any(lane == 40) ? 2u : 0u) + (simd_is_first() || lane != 0 ? 5u : 0u);
    if (lane < 10) {
        y[96 + lane] = simd_sum(lane);
        y[128 + lane] = simd_all(lane < 10) ? 1u : 0u;
        y[160 + lane] = simd_broadcast_first(lane);
    } else {
        y[96 + lane] = simd_sum(lane);
        y[128 + lane] = simd_any(lane < 10) ? 1u : 0u;
        y[160 + lane] = simd_broadcast_first(lane);
    }
}
