// RMSNorm of rows: y = x / sqrt(mean(x²) + epsilon) · weight.
//
//   kernel name   rms_norm_{f32,f16,bf16}
//   grid          threadgroups (rows, 1, 1), one row each; threads: a multiple of 32, at most 1024
//   buffer 0..2   x [rows, columns], weight [columns], y
//   buffer 3      norm_sizes

#include <metal_stdlib>

#include "anymetal/threadgroup_reduce.h"

using namespace metal;

/// Sizes of one dispatch.
struct norm_sizes {
    int columns;
    float epsilon;
};

template <typename T>
[[kernel]] void rms_norm(device const T* x [[buffer(0)]],
                         device const T* weight [[buffer(1)]],
                         device T* y [[buffer(2)]],
                         constant norm_sizes& size [[buffer(3)]],
                         uint row [[threadgroup_position_in_grid]],
                         uint tid [[thread_index_in_threadgroup]],
                         uint threads [[threads_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simdgroup [[simdgroup_index_in_threadgroup]],
                         uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup float partial[32];
    const uint columns = uint(size.columns);
    device const T* from = x + ulong(row) * columns;
    device T* to = y + ulong(row) * columns;

    float squares = 0.0f;
    for (uint i = tid; i < columns; i += threads) {
        const float value = float(from[i]);
        squares += value * value;
    }
    squares = anymetal::threadgroup_sum(squares, partial, lane, simdgroup, simdgroups);
    const float factor = rsqrt(squares / float(columns) + size.epsilon);
    for (uint i = tid; i < columns; i += threads) {
        to[i] = T(float(from[i]) * factor * float(weight[i]));
    }
}

template [[host_name("rms_norm_f32")]] [[kernel]] decltype(rms_norm<float>) rms_norm<float>;
template [[host_name("rms_norm_f16")]] [[kernel]] decltype(rms_norm<half>) rms_norm<half>;
template [[host_name("rms_norm_bf16")]] [[kernel]] decltype(rms_norm<bfloat>) rms_norm<bfloat>;
