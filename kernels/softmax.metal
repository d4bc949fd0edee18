// Softmax of rows: y = exp(x − max) / sum.
//
//   kernel name   softmax_{f32,f16,bf16}
//   grid          threadgroups (rows, 1, 1), one row each; threads: a multiple of 32, at most 1024
//   buffer 0, 1   x [rows, columns], y; the same buffer may serve as both
//   buffer 2      columns, an int

#include <metal_stdlib>

#include "anymetal/threadgroup_reduce.h"

using namespace metal;

template <typename T>
[[kernel]] void softmax(device const T* x [[buffer(0)]],
                        device T* y [[buffer(1)]],
                        constant int& columns [[buffer(2)]],
                        uint row [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint threads [[threads_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup float partial[32];
    const uint count = uint(columns);
    device const T* from = x + ulong(row) * count;
    device T* to = y + ulong(row) * count;

    float highest = -3.0e38f;
    for (uint i = tid; i < count; i += threads) {
        highest = max(highest, float(from[i]));
    }
    highest = anymetal::threadgroup_max(highest, partial, lane, simdgroup, simdgroups);

    float sum = 0.0f;
    for (uint i = tid; i < count; i += threads) {
        sum += exp(float(from[i]) - highest);
    }
    const float factor = 1.0f / anymetal::threadgroup_sum(sum, partial, lane, simdgroup, simdgroups);
    for (uint i = tid; i < count; i += threads) {
        to[i] = T(exp(float(from[i]) - highest) * factor);
    }
}

template [[host_name("softmax_f32")]] [[kernel]] decltype(softmax<float>) softmax<float>;
template [[host_name("softmax_f16")]] [[kernel]] decltype(softmax<half>) softmax<half>;
template [[host_name("softmax_bf16")]] [[kernel]] decltype(softmax<bfloat>) softmax<bfloat>;
