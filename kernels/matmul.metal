// Tiled matrix product C = A·B over strided buffers, batched along the grid's z.
//
//   kernel name   matmul_{f32,f16,bf16,f16_f32,bf16_f32,i8_i32}_{nn,nt}_{TM}x{TN}
//                 the second type, if any, is C's; nt: B is stored [N, K], nn: [K, N]
//   grid          threadgroups (ceil(N / TN), ceil(M / TM), batch)
//   threads       128: four SIMD-groups share a tile; 256, eight, where TM × TN is 128 × 256 (16-bit types only)
//
//   buffer 0..2   A [M, K], B, C [M, N], rows lda, ldb, ldc elements apart
//   buffer 3      matmul_sizes
//
// Tiles at the edges are cut by dynamic slices: nothing past an operand's end is read or written. Sums are in float (int for
// int8), a 16-bit C is rounded once.

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

/// Sizes and strides of one dispatch, in elements.
struct matmul_sizes {
    int m;
    int n;
    int k;
    int lda;
    int ldb;
    int ldc;
    long batch_a;
    long batch_b;
    long batch_c;
};

template <typename T, typename C, bool B_BY_ROWS_OF_K, int TM, int TN, int SIMDGROUPS>
[[kernel]] void matmul(device T* a [[buffer(0)]],
                       device T* b [[buffer(1)]],
                       device C* c [[buffer(2)]],
                       constant matmul_sizes& size [[buffer(3)]],
                       uint3 tgid [[threadgroup_position_in_grid]])
{
    using operand = tensor<device T, dextents<int, 2>, tensor_inline>;
    using result = tensor<device C, dextents<int, 2>, tensor_inline>;

    operand left(a + tgid.z * size.batch_a, dextents<int, 2>(size.k, size.m), array<int, 2>({1, size.lda}));
    result product(c + tgid.z * size.batch_c, dextents<int, 2>(size.n, size.m), array<int, 2>({1, size.ldc}));
    const int row0 = int(tgid.y) * TM;
    const int column0 = int(tgid.x) * TN;

    constexpr auto descriptor =
        matmul2d_descriptor(TM, TN, static_cast<int>(dynamic_extent), false, B_BY_ROWS_OF_K);
    matmul2d<descriptor, execution_simdgroups<SIMDGROUPS>> op;

    auto left_tile = left.slice(0, row0);
    auto product_tile = product.slice(column0, row0);
    if constexpr (B_BY_ROWS_OF_K) {
        operand right(b + tgid.z * size.batch_b, dextents<int, 2>(size.k, size.n), array<int, 2>({1, size.ldb}));
        auto right_tile = right.slice(0, column0);
        op.run(left_tile, right_tile, product_tile);
    } else {
        operand right(b + tgid.z * size.batch_b, dextents<int, 2>(size.n, size.k), array<int, 2>({1, size.ldb}));
        auto right_tile = right.slice(column0, 0);
        op.run(left_tile, right_tile, product_tile);
    }
}

#define INSTANTIATE(name, ...) \
    template [[host_name(name)]] [[kernel]] decltype(matmul<__VA_ARGS__>) matmul<__VA_ARGS__>;

#define MATMUL_OF_TILE(type_name, T, C, TM, TN, SIMDGROUPS)                                  \
    INSTANTIATE("matmul_" type_name "_nn_" #TM "x" #TN, T, C, false, TM, TN, SIMDGROUPS)     \
    INSTANTIATE("matmul_" type_name "_nt_" #TM "x" #TN, T, C, true, TM, TN, SIMDGROUPS)

#define MATMUL_OF_TYPE(type_name, T, C)             \
    MATMUL_OF_TILE(type_name, T, C, 16, 64, 4)      \
    MATMUL_OF_TILE(type_name, T, C, 64, 64, 4)      \
    MATMUL_OF_TILE(type_name, T, C, 128, 128, 4)

#define MATMUL_OF_16_BIT_TYPE(type_name, T, C)      \
    MATMUL_OF_TYPE(type_name, T, C)                 \
    MATMUL_OF_TILE(type_name, T, C, 128, 256, 8)

MATMUL_OF_TYPE("f32", float, float)
MATMUL_OF_16_BIT_TYPE("f16", half, half)
MATMUL_OF_16_BIT_TYPE("bf16", bfloat, bfloat)
MATMUL_OF_16_BIT_TYPE("f16_f32", half, float)
MATMUL_OF_16_BIT_TYPE("bf16_f32", bfloat, float)
MATMUL_OF_TYPE("i8_i32", int8_t, int)
