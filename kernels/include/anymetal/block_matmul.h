// Y = X·Wᵀ with weights that are decoded in the kernel (block_formats.h). X is [M, K] of T, W [N, K], Y [M, N] of float.
//
// Both functions take any M and N; K is a multiple of the format's block (GGUF's rows are whole blocks).

#pragma once

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

#include "block_formats.h"

namespace anymetal {

/// Sizes of one dispatch.
struct block_sizes {
    int m;
    int n;
    int k;
};

/// Through threadgroup memory: the threadgroup decodes TILE_N × TILE_K weights, then multiplies.
///
/// `tile` has TILE_N · TILE_K elements; 128 threads, four SIMD-groups, share TILE_M × TILE_N of Y.
template <typename F, typename T, int TILE_M, int TILE_N, int TILE_K>
inline void block_matmul_tile(device T* x, typename F::weights w, device float* y, constant block_sizes& size,
                              threadgroup T* tile, uint2 tgid, uint thread_index)
{
    using namespace metal;
    using namespace mpp::tensor_ops;

    using left_matrix = tensor<device T, dextents<int, 2>, tensor_inline>;
    using right_matrix = tensor<threadgroup T, dextents<int, 2>, tensor_inline>;

    constexpr auto descriptor = matmul2d_descriptor(TILE_M, TILE_N, dynamic_length_v<int>, false, true, false,
                                                    matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto sums = op.template get_destination_cooperative_tensor<left_matrix, right_matrix, float>();
    for (auto it = sums.begin(); it != sums.end(); it++) {
        *it = 0.0f;
    }

    const int row0 = int(tgid.y) * TILE_M;
    const int column0 = int(tgid.x) * TILE_N;
    for (int k0 = 0; k0 < size.k; k0 += TILE_K) {
        // The last step may be shorter: K of the product comes from the operands.
        const int depth = min(TILE_K, size.k - k0);

        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int group = int(thread_index); group < TILE_N * (TILE_K / 16); group += 128) {
            const int n = group / (TILE_K / 16);
            const int k = group % (TILE_K / 16) * 16;
            if (k < depth) {
                const bool inside = column0 + n < size.n;
                const vec<float, 16> values = inside ? F::run(w, column0 + n, k0 + k) : vec<float, 16>(0.0f);
                *reinterpret_cast<threadgroup vec<T, 16>*>(tile + n * TILE_K + k) = vec<T, 16>(values);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        left_matrix left(x + long(row0) * size.k + k0, dextents<int, 2>(depth, size.m - row0), array<int, 2>({1, size.k}));
        right_matrix right(tile, dextents<int, 2>(depth, TILE_N), array<int, 2>({1, TILE_K}));
        op.run(left, right, sums);
    }

    tensor<device float, dextents<int, 2>, tensor_inline> result(y, dextents<int, 2>(size.n, size.m));
    sums.store(result.slice(column0, row0));
}

/// Straight into a cooperative input: each SIMD-group decodes the weights that its threads hold as the right operand.
///
/// One SIMD-group has TILE_M × TILE_N of Y; TILE_K divides the format's block, or is a multiple of it that divides K.
template <typename F, typename T, int TILE_M, int TILE_N, int TILE_K>
inline void block_matmul_cooperative(device T* x, typename F::weights w, device float* y, constant block_sizes& size,
                                     int row0, int column0)
{
    using namespace metal;
    using namespace mpp::tensor_ops;

    using matrix = tensor<device T, dextents<int, 2>, tensor_inline>;

    constexpr auto descriptor = matmul2d_descriptor(TILE_M, TILE_N, TILE_K, false, true, false,
                                                    matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    auto right = op.template get_right_input_cooperative_tensor<T, T, float>();
    auto sums = op.template get_destination_cooperative_tensor<matrix, decltype(right), float>();
    for (auto it = sums.begin(); it != sums.end(); it++) {
        *it = 0.0f;
    }

    matrix left(x, dextents<int, 2>(size.k, size.m));
    for (int k0 = 0; k0 < size.k; k0 += TILE_K) {
        for (ushort i = 0; i < right.get_capacity(); i++) {
            // The right operand is stored transposed: dimension 0 is K.
            const auto at = right.get_multidimensional_index(i);
            const int n = column0 + int(at[1]);
            if (right.is_valid_element(i)) {
                right[i] = n < size.n ? T(F::one(w, n, k0 + int(at[0]))) : T(0);
            }
        }
        auto rows = left.slice(k0, row0);
        op.run(rows, right, sums);
    }

    tensor<device float, dextents<int, 2>, tensor_inline> result(y, dextents<int, 2>(size.n, size.m));
    sums.store(result.slice(column0, row0));
}

}  // namespace anymetal
