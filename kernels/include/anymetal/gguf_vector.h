// One row of X times GGUF weights: each SIMD-group takes ROWS rows of W, each lane every 32nd run of 32 elements.
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

/// Rows n to n + ROWS of Y = X·Wᵀ for one row of X; those from N on are left out.
template <typename F, typename T, int ROWS>
inline void vector_rows(device const T* x, typename F::weights w, device float* y, constant block_sizes& size, int n,
                        uint lane)
{
    using run_half = metal::vec<T, 16>;

    device const typename F::block* rows[ROWS];
    float sums[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        // Past the last row the last one is read again, and its sum is not stored.
        rows[row] = w.blocks + long(metal::min(n + row, size.n - 1)) * w.per_row;
        sums[row] = 0.0f;
    }
    for (int run = int(lane); run < size.k / 32; run += 32) {
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
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        const float sum = metal::simd_sum(sums[row]);
        if (lane == 0 && n + row < size.n) {
            y[n + row] = sum;
        }
    }
}

}  // namespace anymetal
