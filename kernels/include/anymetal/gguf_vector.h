// One row of X times GGUF weights: a threadgroup takes ROWS rows of W, its threads runs of 32 elements in turn.
//
// A run's codes are summed as they are; scales and minima are applied once: Σ x·(d·q + m) = d·Σ x·q + m·Σ x. What belongs to
// the run's place alone, its elements of x and where they meet the codes, is made once for all rows.

#pragma once

#include <metal_stdlib>

#include "block_formats.h"
#include "block_matmul.h"

namespace anymetal {

/// Runs of Q4_1: a block each.
template <typename T>
struct q4_1_run {
    using run_half = metal::vec<T, 16>;

    static constexpr constant int TOTALS = 1;

    /// Byte of a row where the run begins.
    static long place(int run) { return long(run) * sizeof(q4_1::block); }

    /// The run's elements of x in the order of the nibbles, low ones first, and their sum.
    static void load(device const T* x, int run, thread float* values, thread float* totals)
    {
        device const run_half* from = reinterpret_cast<device const run_half*>(x) + 2 * run;
        const float16 low(from[0]);
        const float16 high(from[1]);
        totals[0] = 0.0f;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            values[i] = low[i];
            values[16 + i] = high[i];
            totals[0] += low[i] + high[i];
        }
    }

    static float dot(device const uchar* from, int, thread const float* x, thread const float* totals)
    {
        // A block is five words: d and m, then the codes.
        struct words {
            uint at[5];
        };
        const words b = *reinterpret_cast<device const words*>(from);
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
        return float(factors.x) * sum + float(factors.y) * totals[0];
    }
};

/// Runs of Q4_K: sixteen bytes of a block, whose low nibbles are half of one group, and whose high nibbles are that half of the next. Every
/// byte is read once.
template <typename T>
struct q4_k_run {
    using run_half = metal::vec<T, 16>;

    /// Sums of x, negated: minima are taken away.
    static constexpr constant int TOTALS = 2;

    static long place(int run) { return long(run / 8) * sizeof(q4_k::block); }

    static void load(device const T* x, int run, thread float* values, thread float* totals)
    {
        // Groups have two halves each.
        device const run_half* from = reinterpret_cast<device const run_half*>(x) + run / 2 * 4 + run % 2;
        const float16 low(from[0]);
        const float16 high(from[2]);
        totals[0] = 0.0f;
        totals[1] = 0.0f;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            values[i] = low[i];
            values[16 + i] = high[i];
            totals[0] -= low[i];
            totals[1] -= high[i];
        }
    }

    static float dot(device const uchar* from, int run, thread const float* x, thread const float* totals)
    {
        const int part = run % 8;
        device const q4_k::block& b = *reinterpret_cast<device const q4_k::block*>(from);
        const q4_k::pair pair = q4_k::pair_of_scales(b, part / 2);
        const float offset = pair.dmin * (pair.minima.x * totals[0] + pair.minima.y * totals[1]);
        const metal::packed_uint4 words = *reinterpret_cast<device const metal::packed_uint4*>(b.qs + part * 16);
        float low = 0.0f;
        float high = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint word = words[i];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                low += x[4 * i + j] * float((word >> (8 * j)) & 0x0f);
                high += x[16 + 4 * i + j] * float((word >> (8 * j + 4)) & 0x0f);
            }
        }
        return pair.d * (low * pair.scales.x + high * pair.scales.y) + offset;
    }
};

/// Adds up what the threads of a threadgroup have of each of ROWS rows, and stores rows n to n + ROWS of y that are below `end`.
/// `partial` has a float for each thread, whose number is a multiple of 32.
template <int ROWS>
inline void store_rows(thread const float* sums, device float* y, int n, int end, threadgroup float* partial,
                       uint thread_index, uint threads)
{
    static_assert(ROWS <= 32, "a SIMD-group's lanes keep a row each");
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
    // All SIMD-groups do the same, so that none waits for a part of its lanes.
    float sum = 0.0f;
    for (uint at = lane; at < threads; at += 32) {
        sum += partial[at];
    }
    const int row = int(thread_index);
    if (row < ROWS && n + row < end) {
        y[n + row] = sum;
    }
}

/// Rows n to n + ROWS of Y = X·Wᵀ for one row of X, by a whole threadgroup: thread t takes runs t, t + threads, …, so that
/// its threads read the blocks of a row one after another. Rows from N on are left out.
template <typename Run, typename T, int ROWS>
inline void vector_rows(device const T* x, device const uchar* w, long row_bytes, device float* y,
                        constant block_sizes& size, int n, threadgroup float* partial, uint thread_index, uint threads)
{
    device const uchar* rows[ROWS];
    float sums[ROWS];
    device const uchar* at = w + n * row_bytes;
    const int last = size.n - 1 - n;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        // Past the last row the last one is read again, and its sum is not stored.
        rows[row] = at;
        at += row < last ? row_bytes : 0;
        sums[row] = 0.0f;
    }
    for (int run = int(thread_index); run < size.k / 32; run += int(threads)) {
        float values[32];
        float totals[Run::TOTALS];
        Run::load(x, run, values, totals);
        const long place = Run::place(run);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            sums[row] += Run::dot(rows[row] + place, run, values, totals);
        }
    }
    store_rows<ROWS>(sums, y, n, size.n, partial, thread_index, threads);
}

}  // namespace anymetal
