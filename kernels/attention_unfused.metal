// Attention without fusion, in three kernels that pass the whole score matrix through device memory. It exists to be
// compared with flash_attention.metal: same result, more traffic.
//
//   1. attention_scores_{f32,f16,bf16}   S = Q·Kᵀ·scale, float [heads, Tq, Tk]
//      grid threadgroups (ceil(Tk / 64), ceil(Tq / 64), heads), threads 128; buffers Q, K, S, sizes
//   2. softmax_f32 of softmax.metal      over the heads·Tq rows of S, in place
//   3. attention_values_{f32,f16,bf16}   O = P·V
//      grid threadgroups (ceil(D / 64), ceil(Tq / 64), heads), threads 128; buffers P, V, O, sizes
//
// Q, K, V and O are packed [heads, T, D].

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int TILE = 64;

/// Sizes of one dispatch.
struct unfused_sizes {
    int q_len;
    int kv_len;
    int dim;
    float scale;
};

template <typename T>
[[kernel]] void attention_scores(device T* q [[buffer(0)]],
                                 device T* k [[buffer(1)]],
                                 device float* s [[buffer(2)]],
                                 constant unfused_sizes& size [[buffer(3)]],
                                 uint3 tgid [[threadgroup_position_in_grid]])
{
    const long head = long(tgid.z);
    using operand = tensor<device T, dextents<int, 2>, tensor_inline>;
    operand left(q + head * size.q_len * size.dim, dextents<int, 2>(size.dim, size.q_len));
    operand right(k + head * size.kv_len * size.dim, dextents<int, 2>(size.dim, size.kv_len));
    tensor<device float, dextents<int, 2>, tensor_inline> scores(s + head * size.q_len * size.kv_len,
                                                                dextents<int, 2>(size.kv_len, size.q_len));
    const int key0 = int(tgid.x) * TILE;
    const int row0 = int(tgid.y) * TILE;

    constexpr auto descriptor = matmul2d_descriptor(TILE, TILE, static_cast<int>(dynamic_extent), false, true);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left_tile = left.slice(0, row0);
    auto right_tile = right.slice(0, key0);
    auto sums = op.template get_destination_cooperative_tensor<decltype(left_tile), decltype(right_tile), float>();
    op.run(left_tile, right_tile, sums);
    for (auto it = sums.begin(); it != sums.end(); it++) {
        *it = *it * size.scale;
    }
    auto score_tile = scores.slice(key0, row0);
    sums.store(score_tile);
}

template <typename T>
[[kernel]] void attention_values(device float* p [[buffer(0)]],
                                 device T* v [[buffer(1)]],
                                 device T* o [[buffer(2)]],
                                 constant unfused_sizes& size [[buffer(3)]],
                                 uint3 tgid [[threadgroup_position_in_grid]])
{
    const long head = long(tgid.z);
    using operand = tensor<device T, dextents<int, 2>, tensor_inline>;
    tensor<device float, dextents<int, 2>, tensor_inline> left(p + head * size.q_len * size.kv_len,
                                                              dextents<int, 2>(size.kv_len, size.q_len));
    operand right(v + head * size.kv_len * size.dim, dextents<int, 2>(size.dim, size.kv_len));
    const int column0 = int(tgid.x) * TILE;
    const int row0 = int(tgid.y) * TILE;

    constexpr auto descriptor = matmul2d_descriptor(TILE, TILE, static_cast<int>(dynamic_extent));
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left_tile = left.slice(0, row0);
    auto right_tile = right.slice(column0, 0);
    auto sums = op.template get_destination_cooperative_tensor<decltype(left_tile), decltype(right_tile), float>();
    op.run(left_tile, right_tile, sums);

    // The product of float and a 16-bit type is a float: the result is rounded element by element.
    device T* head_out = o + head * size.q_len * size.dim;
    for (auto it = sums.begin(); it != sums.end(); it++) {
        const auto at = sums.get_multidimensional_index(it);
        const int column = column0 + int(at[0]);
        const int row = row0 + int(at[1]);
        if (it.is_valid_element() && row < size.q_len && column < size.dim) {
            head_out[row * size.dim + column] = T(*it);
        }
    }
}

template [[host_name("attention_scores_f32")]] [[kernel]] decltype(attention_scores<float>) attention_scores<float>;
template [[host_name("attention_scores_f16")]] [[kernel]] decltype(attention_scores<half>) attention_scores<half>;
template [[host_name("attention_scores_bf16")]] [[kernel]] decltype(attention_scores<bfloat>) attention_scores<bfloat>;
template [[host_name("attention_values_f32")]] [[kernel]] decltype(attention_values<float>) attention_values<float>;
template [[host_name("attention_values_f16")]] [[kernel]] decltype(attention_values<half>) attention_values<half>;
template [[host_name("attention_values_bf16")]] [[kernel]] decltype(attention_values<bfloat>) attention_values<bfloat>;
