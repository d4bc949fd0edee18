// Products of fp8 e4m3 matrices: C = A·Bᵀ. Scales of whole matrices are the caller's.
//
//   kernel name   fp8_matmul_{f16,f32}_{128x192,64x64}
//                 the type is C's
//   grid          threadgroups (ceil(N / TN), ceil(M / TM), 1)
//   threads       256 for tiles of 128 × 192: eight SIMD-groups share a tile; 128 for 64 × 64
//
//   buffer 0..2   A [M, K], B [N, K], C [M, N], rows without gaps
//   buffer 3      fp8_sizes
//
// relaxed_precision lets a device multiply fp8 as it is, with sums of 128 products that it keeps less exactly than in float (docs/cuda.md).

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

/// Sizes of one dispatch.
struct fp8_sizes {
    int m;
    int n;
    int k;
};

template <typename C, int TM, int TN, int SIMDGROUPS>
[[kernel]] void fp8_matmul(device uchar* a [[buffer(0)]],
                           device uchar* b [[buffer(1)]],
                           device C* c [[buffer(2)]],
                           constant fp8_sizes& size [[buffer(3)]],
                           uint2 tgid [[threadgroup_position_in_grid]])
{
    using operand = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_inline>;
    operand left(a, dextents<int, 2>(size.k, size.m));
    operand right(b, dextents<int, 2>(size.k, size.n));
    tensor<device C, dextents<int, 2>, tensor_inline> product(c, dextents<int, 2>(size.n, size.m));

    auto left_tile = left.slice(0, tgid.y * TM);
    auto right_tile = right.slice(0, tgid.x * TN);
    auto product_tile = product.slice(tgid.x * TN, tgid.y * TM);

    constexpr auto descriptor = matmul2d_descriptor(TM, TN, dynamic_length_v<int>, false, true, true);
    matmul2d<descriptor, execution_simdgroups<SIMDGROUPS>> op;
    op.run(left_tile, right_tile, product_tile);
}

#define INSTANTIATE(name, ...) \
    template [[host_name(name)]] [[kernel]] decltype(fp8_matmul<__VA_ARGS__>) fp8_matmul<__VA_ARGS__>;

INSTANTIATE("fp8_matmul_f16_128x192", half, 128, 192, 8)
INSTANTIATE("fp8_matmul_f32_128x192", float, 128, 192, 8)
INSTANTIATE("fp8_matmul_f16_64x64", half, 64, 64, 4)
INSTANTIATE("fp8_matmul_f32_64x64", float, 64, 64, 4)
