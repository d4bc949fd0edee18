// One row of X times GGUF weights: a threadgroup takes ROWS rows of W, its threads runs of 32 elements in turn.
//
// A run's codes are summed as they are; scale and minimum are applied once: Σ x·(d·q + m) = d·Σ x·q + m·Σ x.

#pragma once

#include <metal_stdlib>

#include "block_formats.h"
#include "block_matmul.h"

namespace anymetal {

/// The product of a run of a row with a lane's 32 elements of x, whose sum is `total`.
inline float dot_run(device const q4_1::block* row, int run, thread const float* x, float total)
{
    // A block is five words: d and m, then the codes.
    struct words {
        uint at[5];
    };
    const words b = *reinterpret_cast<device const words*>(row + run);
    const half2 factors = as_type<half2>(b.at[0]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint word = b.at[1 + i];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            sum += x[4 * i + j] * float((word >> (8 * j)) & 0x0f);
            sum += x[16 + 4 * i + j] * float((word >> (8 * j + 4)) & 0x0f);
        }
    }
    return float(factors.x) * sum + float(factors.y) * total;
}

inline float dot_run(device const q4_k::block* row, int run, thread const float* x, float total)
{
    device const q4_k::block& b = row[run / 8];
    const int group = run % 8;
    const float2 factors = q4_k::scale_and_min(b, group);
    device const metal::packed_uint4* words = reinterpret_cast<device const metal::packed_uint4*>(b.qs + group / 2 * 32);
    const uint shift = uint(group % 2 * 4);
    float sum = 0.0f;
#pragma unroll
    for (int half_run = 0; half_run < 2; half_run++) {
        const metal::packed_uint4 four = words[half_run];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint word = four[i] >> shift;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                sum += x[16 * half_run + 4 * i + j] * float((word >> (8 * j)) & 0x0f);
            }
        }
    }
    return factors.x * sum - factors.y * total;
}

/// Rows n to n + ROWS of Y = X·Wᵀ for one row of X, by a whole threadgroup: thread t takes runs t, t + threads, …, so that
/// its threads read the blocks of a row one after another. Rows from N on are left out. `partial` has a float for each
/// thread.
template <typename F, typename T, int ROWS>
inline void vector_rows(device const T* x, typename F::weights w, device float* y, constant block_sizes& size, int n,
                        threadgroup float* partial, uint thread_index, uint threads)
{
    static_assert(ROWS <= 32, "a SIMD-group's lanes keep a row each");
    using run_half = metal::vec<T, 16>;

    device const typename F::block* first = w.blocks + long(n) * w.per_row;
    const int last = size.n - 1 - n;
    device const typename F::block* rows[ROWS];
    float sums[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        // Past the last row the last one is read again, and its sum is not stored.
        rows[row] = first + metal::min(row, last) * w.per_row;
        sums[row] = 0.0f;
    }
    for (int run = int(thread_index); run < size.k / 32; run += int(threads)) {
        device const run_half* from = reinterpret_cast<device const run_half*>(x) + 2 * run;
        const float16 low(from[0]);
        const float16 high(from[1]);
        float values[32];
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            values[i] = low[i];
            values[16 + i] = high[i];
            total += low[i] + high[i];
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            sums[row] += dot_run(rows[row], run, values, total);
        }
    }
    // Lane r of a SIMD-group keeps row r's sum.
    const uint lane = thread_index % 32;
    float mine = 0.0f;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        const float sum = metal::simd_sum(sums[row]);
        mine = lane == uint(row) ? sum : mine;
    }
    partial[thread_index] = mine;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    const int row = int(thread_index);
    if (row < ROWS && n + row < size.n) {
        float sum = 0.0f;
        for (uint at = thread_index; at < threads; at += 32) {
            sum += partial[at];
        }
        y[n + row] = sum;
    }
}

}  // namespace anymetal
