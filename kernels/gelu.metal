// Element-wise GELU.
//
//   kernel name   gelu_{f32,f16,bf16}, gelu_tanh_{f32,f16,bf16}
//   grid          threads (count, 1, 1), any threadgroup size
//   buffer 0, 1   x, y

#include <metal_stdlib>

#include "anymetal/activations.h"

using namespace metal;

template <typename T>
[[kernel]] void gelu(device const T* x [[buffer(0)]],
                     device T* y [[buffer(1)]],
                     uint id [[thread_position_in_grid]])
{
    y[id] = T(anymetal::gelu(float(x[id])));
}

template <typename T>
[[kernel]] void gelu_tanh(device const T* x [[buffer(0)]],
                          device T* y [[buffer(1)]],
                          uint id [[thread_position_in_grid]])
{
    y[id] = T(anymetal::gelu_tanh(float(x[id])));
}

template [[host_name("gelu_f32")]] [[kernel]] decltype(gelu<float>) gelu<float>;
template [[host_name("gelu_f16")]] [[kernel]] decltype(gelu<half>) gelu<half>;
template [[host_name("gelu_bf16")]] [[kernel]] decltype(gelu<bfloat>) gelu<bfloat>;
template [[host_name("gelu_tanh_f32")]] [[kernel]] decltype(gelu_tanh<float>) gelu_tanh<float>;
template [[host_name("gelu_tanh_f16")]] [[kernel]] decltype(gelu_tanh<half>) gelu_tanh<half>;
template [[host_name("gelu_tanh_bf16")]] [[kernel]] decltype(gelu_tanh<bfloat>) gelu_tanh<bfloat>;
