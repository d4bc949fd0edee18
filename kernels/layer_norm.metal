// LayerNorm of rows: y = (x − mean) / sqrt(variance + epsilon) · weight + bias, with an optional residual: x + r is normalised.
//
//   kernel name   layer_norm_{f32,f16,bf16}, add_layer_norm_{f32,f16,bf16}
//   grid          threadgroups (rows, 1, 1), one row each; threads: a multiple of 32, at most 1024
//   buffer 0..3   x [rows, columns], weight [columns], bias [columns], y
//   buffer 4      norm_sizes
//   buffer 5      r [rows, columns], for add_layer_norm

#include <metal_stdlib>

#include "anymetal/threadgroup_reduce.h"

using namespace metal;

/// Sizes of one dispatch.
struct norm_sizes {
    int columns;
    float epsilon;
};

template <typename T, bool RESIDUAL>
inline float element(device const T* x, device const T* r, uint i)
{
    if constexpr (RESIDUAL) {
        return float(x[i]) + float(r[i]);
    } else {
        return float(x[i]);
    }
}

template <typename T, bool RESIDUAL>
inline void layer_norm_row(device const T* x, device const T* r, device const T* weight, device const T* bias, device T* y,
                           uint columns, float epsilon, threadgroup float* partial,
                           uint tid, uint threads, uint lane, uint simdgroup, uint simdgroups)
{
    float sum = 0.0f;
    for (uint i = tid; i < columns; i += threads) {
        sum += element<T, RESIDUAL>(x, r, i);
    }
    const float mean = anymetal::threadgroup_sum(sum, partial, lane, simdgroup, simdgroups) / float(columns);

    // The second pass over the row keeps the variance exact where the mean is large.
    float squares = 0.0f;
    for (uint i = tid; i < columns; i += threads) {
        const float distance = element<T, RESIDUAL>(x, r, i) - mean;
        squares += distance * distance;
    }
    squares = anymetal::threadgroup_sum(squares, partial, lane, simdgroup, simdgroups);
    const float factor = rsqrt(squares / float(columns) + epsilon);
    for (uint i = tid; i < columns; i += threads) {
        y[i] = T((element<T, RESIDUAL>(x, r, i) - mean) * factor * float(weight[i]) + float(bias[i]));
    }
}

template <typename T>
[[kernel]] void layer_norm(device const T* x [[buffer(0)]],
                           device const T* weight [[buffer(1)]],
                           device const T* bias [[buffer(2)]],
                           device T* y [[buffer(3)]],
                           constant norm_sizes& size [[buffer(4)]],
                           uint row [[threadgroup_position_in_grid]],
                           uint tid [[thread_index_in_threadgroup]],
                           uint threads [[threads_per_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]],
                           uint simdgroup [[simdgroup_index_in_threadgroup]],
                           uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup float partial[32];
    const uint columns = uint(size.columns);
    const ulong start = ulong(row) * columns;
    layer_norm_row<T, false>(x + start, x + start, weight, bias, y + start, columns, size.epsilon, partial,
                             tid, threads, lane, simdgroup, simdgroups);
}

template <typename T>
[[kernel]] void add_layer_norm(device const T* x [[buffer(0)]],
                               device const T* weight [[buffer(1)]],
                               device const T* bias [[buffer(2)]],
                               device T* y [[buffer(3)]],
                               constant norm_sizes& size [[buffer(4)]],
                               device const T* r [[buffer(5)]],
                               uint row [[threadgroup_position_in_grid]],
                               uint tid [[thread_index_in_threadgroup]],
                               uint threads [[threads_per_threadgroup]],
                               uint lane [[thread_index_in_simdgroup]],
                               uint simdgroup [[simdgroup_index_in_threadgroup]],
                               uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup float partial[32];
    const uint columns = uint(size.columns);
    const ulong start = ulong(row) * columns;
    layer_norm_row<T, true>(x + start, r + start, weight, bias, y + start, columns, size.epsilon, partial,
                            tid, threads, lane, simdgroup, simdgroups);
}

template [[host_name("layer_norm_f32")]] [[kernel]] decltype(layer_norm<float>) layer_norm<float>;
template [[host_name("layer_norm_f16")]] [[kernel]] decltype(layer_norm<half>) layer_norm<half>;
template [[host_name("layer_norm_bf16")]] [[kernel]] decltype(layer_norm<bfloat>) layer_norm<bfloat>;
template [[host_name("add_layer_norm_f32")]] [[kernel]] decltype(add_layer_norm<float>) add_layer_norm<float>;
template [[host_name("add_layer_norm_f16")]] [[kernel]] decltype(add_layer_norm<half>) add_layer_norm<half>;
template [[host_name("add_layer_norm_bf16")]] [[kernel]] decltype(add_layer_norm<bfloat>) add_layer_norm<bfloat>;
