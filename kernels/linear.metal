// A linear layer: Y = activation(X·Wᵀ + bias), fused. X is [M, K], W is [N, K] as PyTorch stores it, Y is [M, N], all packed.
//
//   kernel name   linear_{f32,f16,bf16}[_bias][_gelu|_gelu_tanh|_silu|_relu]_{TM}x{TN}   (TM x TN: 16x64, 64x64)
//   grid          threadgroups (ceil(N / TN), ceil(M / TM), 1)
//   threads       128: four SIMD-groups share a tile
//
//   buffer 0..2   X, W, Y
//   buffer 3      linear_sizes
//   buffer 4      bias [N], for the names with one
//
// The product stays in a cooperative tensor until bias and activation are applied; an element's column comes from its
// multidimensional index.

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

#include "anymetal/activations.h"

using namespace metal;
using namespace mpp::tensor_ops;

/// Sizes of one dispatch.
struct linear_sizes {
    int m;
    int n;
    int k;
};

template <typename T, bool BIAS, int ACTIVATION, int TM, int TN>
inline void linear_tile(device T* x, device T* w, device T* y, device T* bias, constant linear_sizes& size, uint2 tgid)
{
    using matrix = tensor<device T, dextents<int, 2>, tensor_inline>;
    matrix left(x, dextents<int, 2>(size.k, size.m));
    matrix right(w, dextents<int, 2>(size.k, size.n));
    const int row0 = int(tgid.y) * TM;
    const int column0 = int(tgid.x) * TN;

    constexpr auto descriptor = matmul2d_descriptor(TM, TN, static_cast<int>(dynamic_extent), false, true);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left_tile = left.slice(0, row0);
    auto right_tile = right.slice(0, column0);
    auto sums = op.template get_destination_cooperative_tensor<decltype(left_tile), decltype(right_tile), float>();
    op.run(left_tile, right_tile, sums);

    if constexpr (BIAS || ACTIVATION != anymetal::activation_none) {
        for (auto it = sums.begin(); it != sums.end(); it++) {
            float value = *it;
            if constexpr (BIAS) {
                const auto at = sums.get_multidimensional_index(it);
                value += float(bias[min(column0 + int(at[0]), size.n - 1)]);
            }
            *it = anymetal::activate<ACTIVATION>(value);
        }
    }

    if constexpr (is_same_v<T, float>) {
        matrix result(y, dextents<int, 2>(size.n, size.m));
        auto result_tile = result.slice(column0, row0);
        sums.store(result_tile);
    } else {
        for (auto it = sums.begin(); it != sums.end(); it++) {
            const auto at = sums.get_multidimensional_index(it);
            const int column = column0 + int(at[0]);
            const int row = row0 + int(at[1]);
            if (it.is_valid_element() && row < size.m && column < size.n) {
                y[long(row) * size.n + column] = T(*it);
            }
        }
    }
}

template <typename T, int ACTIVATION, int TM, int TN>
[[kernel]] void linear(device T* x [[buffer(0)]],
                       device T* w [[buffer(1)]],
                       device T* y [[buffer(2)]],
                       constant linear_sizes& size [[buffer(3)]],
                       uint2 tgid [[threadgroup_position_in_grid]])
{
    linear_tile<T, false, ACTIVATION, TM, TN>(x, w, y, x, size, tgid);
}

template <typename T, int ACTIVATION, int TM, int TN>
[[kernel]] void linear_bias(device T* x [[buffer(0)]],
                            device T* w [[buffer(1)]],
                            device T* y [[buffer(2)]],
                            constant linear_sizes& size [[buffer(3)]],
                            device T* bias [[buffer(4)]],
                            uint2 tgid [[threadgroup_position_in_grid]])
{
    linear_tile<T, true, ACTIVATION, TM, TN>(x, w, y, bias, size, tgid);
}

#define INSTANTIATE(name, function, ...) \
    template [[host_name(name)]] [[kernel]] decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;

#define LINEAR_OF_TILE(type_name, suffix, T, ACTIVATION, TM, TN)                                                  \
    INSTANTIATE("linear_" type_name suffix "_" #TM "x" #TN, linear, T, anymetal::ACTIVATION, TM, TN)              \
    INSTANTIATE("linear_" type_name "_bias" suffix "_" #TM "x" #TN, linear_bias, T, anymetal::ACTIVATION, TM, TN)

#define LINEAR_OF_ACTIVATION(type_name, suffix, T, ACTIVATION)         \
    LINEAR_OF_TILE(type_name, suffix, T, ACTIVATION, 16, 64)           \
    LINEAR_OF_TILE(type_name, suffix, T, ACTIVATION, 64, 64)

#define LINEAR_OF_TYPE(type_name, T)                                           \
    LINEAR_OF_ACTIVATION(type_name, "", T, activation_none)                    \
    LINEAR_OF_ACTIVATION(type_name, "_gelu", T, activation_gelu)               \
    LINEAR_OF_ACTIVATION(type_name, "_gelu_tanh", T, activation_gelu_tanh)     \
    LINEAR_OF_ACTIVATION(type_name, "_silu", T, activation_silu)               \
    LINEAR_OF_ACTIVATION(type_name, "_relu", T, activation_relu)

LINEAR_OF_TYPE("f32", float)
LINEAR_OF_TYPE("f16", half)
LINEAR_OF_TYPE("bf16", bfloat)
