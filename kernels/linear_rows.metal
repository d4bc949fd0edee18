// A linear layer of few rows: Y = activation(X·Wᵀ + bias) in float, a SIMD-group for 16 rows and 4 columns. X is [M, K], W is [N, K],
// Y is [M, N], all packed, their buffers at a multiple of 16 bytes; K is a multiple of 4.
//
//   kernel name   linear_rows[_bias][_gelu|_gelu_tanh|_silu|_relu]
//   grid          threadgroups (ceil(N / 8), ceil(M / 16), sets)
//   threads       64: two SIMD-groups with columns of their own
//
//   buffer 0      X
//   buffer 1      linear_rows_sizes
//   buffer 2..4   W, Y and bias of set 0; 5..7 and 8..10 those of sets 1 and 2. Names without a bias have none.
//
// Lanes run along K, so every load of a SIMD-group is one run of memory, and no data goes through threadgroup memory. The sets are
// layers of the same X and the same sizes (query, key and value, say); a dispatch with fewer binds set 0 to the others.

#include <metal_stdlib>

#include "anymetal/activations.h"

using namespace metal;

/// Sizes of one dispatch.
struct linear_rows_sizes {
    int m;
    int n;
    int k;
};

constant constexpr int ROWS = 16;
constant constexpr int COLUMNS = 4;
constant constexpr int SIMDGROUPS = 2;

/// Lanes whose numbers differ in `mask` join 2·HALF sums, each lane one half of them.
template <int HALF>
inline void halve(thread float (&sums)[ROWS * COLUMNS], uint lane, ushort mask)
{
    const bool upper = (lane & mask) != 0;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        const float mine = upper ? sums[i + HALF] : sums[i];
        const float other = upper ? sums[i] : sums[i + HALF];
        sums[i] = mine + simd_shuffle_xor(other, mask);
    }
}

template <bool BIAS, int ACTIVATION>
inline void linear_rows_tile(device const float* x, device const float* w, device float* y, device const float* bias,
                             constant linear_rows_sizes& size, uint2 tgid, uint simdgroup, uint lane)
{
    const int row0 = int(tgid.y) * ROWS;
    const int column0 = (int(tgid.x) * SIMDGROUPS + int(simdgroup)) * COLUMNS;
    if (column0 >= size.n) {
        return;
    }
    // Past the edges the last row and column are read again; what comes of them is not stored.
    device const float4* left[ROWS];
    device const float4* right[COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        left[r] = reinterpret_cast<device const float4*>(x + long(min(row0 + r, size.m - 1)) * size.k);
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        right[c] = reinterpret_cast<device const float4*>(w + long(min(column0 + c, size.n - 1)) * size.k);
    }
    float sums[ROWS * COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        sums[i] = 0.0f;
    }
    for (int i = int(lane); i < size.k / 4; i += 32) {
        float4 b[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            b[c] = right[c][i];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4 a = left[r][i];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                float sum = sums[r * COLUMNS + c];
                sum = fma(a.x, b[c].x, sum);
                sum = fma(a.y, b[c].y, sum);
                sum = fma(a.z, b[c].z, sum);
                sums[r * COLUMNS + c] = fma(a.w, b[c].w, sum);
            }
        }
    }
    // The sums of 64 elements over 32 lanes: each round halves the elements that a lane holds. In the end lane l has elements 2·l
    // and 2·l + 1.
    halve<32>(sums, lane, 16);
    halve<16>(sums, lane, 8);
    halve<8>(sums, lane, 4);
    halve<4>(sums, lane, 2);
    halve<2>(sums, lane, 1);
    const int row = row0 + int(lane) / 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int column = column0 + 2 * (int(lane) % 2) + i;
        if (row < size.m && column < size.n) {
            float value = sums[i];
            if constexpr (BIAS) {
                value += bias[column];
            }
            y[long(row) * size.n + column] = anymetal::activate<ACTIVATION>(value);
        }
    }
}

template <int ACTIVATION>
[[kernel, max_total_threads_per_threadgroup(64)]] void linear_rows(device const float* x [[buffer(0)]],
                            constant linear_rows_sizes& size [[buffer(1)]],
                            device const float* w0 [[buffer(2)]],
                            device float* y0 [[buffer(3)]],
                            device const float* w1 [[buffer(5)]],
                            device float* y1 [[buffer(6)]],
                            device const float* w2 [[buffer(8)]],
                            device float* y2 [[buffer(9)]],
                            uint3 tgid [[threadgroup_position_in_grid]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]])
{
    device const float* w = tgid.z == 0 ? w0 : tgid.z == 1 ? w1 : w2;
    device float* y = tgid.z == 0 ? y0 : tgid.z == 1 ? y1 : y2;
    linear_rows_tile<false, ACTIVATION>(x, w, y, x, size, tgid.xy, simdgroup, lane);
}

template <int ACTIVATION>
[[kernel, max_total_threads_per_threadgroup(64)]] void linear_rows_bias(device const float* x [[buffer(0)]],
                                 constant linear_rows_sizes& size [[buffer(1)]],
                                 device const float* w0 [[buffer(2)]],
                                 device float* y0 [[buffer(3)]],
                                 device const float* bias0 [[buffer(4)]],
                                 device const float* w1 [[buffer(5)]],
                                 device float* y1 [[buffer(6)]],
                                 device const float* bias1 [[buffer(7)]],
                                 device const float* w2 [[buffer(8)]],
                                 device float* y2 [[buffer(9)]],
                                 device const float* bias2 [[buffer(10)]],
                                 uint3 tgid [[threadgroup_position_in_grid]],
                                 uint simdgroup [[simdgroup_index_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]])
{
    device const float* w = tgid.z == 0 ? w0 : tgid.z == 1 ? w1 : w2;
    device float* y = tgid.z == 0 ? y0 : tgid.z == 1 ? y1 : y2;
    device const float* bias = tgid.z == 0 ? bias0 : tgid.z == 1 ? bias1 : bias2;
    linear_rows_tile<true, ACTIVATION>(x, w, y, bias, size, tgid.xy, simdgroup, lane);
}

#define INSTANTIATE(name, function, ...) \
    template [[host_name(name)]] [[kernel]] decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;

#define LINEAR_ROWS(suffix, ACTIVATION)                                                    \
    INSTANTIATE("linear_rows" suffix, linear_rows, anymetal::ACTIVATION)                   \
    INSTANTIATE("linear_rows_bias" suffix, linear_rows_bias, anymetal::ACTIVATION)

LINEAR_ROWS("", activation_none)
LINEAR_ROWS("_gelu", activation_gelu)
LINEAR_ROWS("_gelu_tanh", activation_gelu_tanh)
LINEAR_ROWS("_silu", activation_silu)
LINEAR_ROWS("_relu", activation_relu)
