// Sums and maxima over a threadgroup: SIMD-group functions first, then one partial result a SIMD-group through
// threadgroup memory.
//
// Called by all threads of the threadgroup. `partial` holds 32 floats, one for each possible SIMD-group; the barrier before it is
// written lets the same memory serve several reductions.

#ifndef ANYMETAL_THREADGROUP_REDUCE_H
#define ANYMETAL_THREADGROUP_REDUCE_H

#include <metal_stdlib>

namespace anymetal {

/// The sum of `value` over the threadgroup, in every thread.
inline float threadgroup_sum(float value, threadgroup float* partial, uint lane, uint simdgroup, uint simdgroups)
{
    value = metal::simd_sum(value);
    if (simdgroups == 1) {
        return value;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (lane == 0) {
        partial[simdgroup] = value;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return metal::simd_sum(lane < simdgroups ? partial[lane] : 0.0f);
}

/// The maximum of `value` over the threadgroup, in every thread.
inline float threadgroup_max(float value, threadgroup float* partial, uint lane, uint simdgroup, uint simdgroups)
{
    value = metal::simd_max(value);
    if (simdgroups == 1) {
        return value;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (lane == 0) {
        partial[simdgroup] = value;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return metal::simd_max(lane < simdgroups ? partial[lane] : partial[0]);
}

}  // namespace anymetal

#endif  // ANYMETAL_THREADGROUP_REDUCE_H
