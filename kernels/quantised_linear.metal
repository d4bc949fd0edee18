// Y = X·Wᵀ with quantised weights and few rows of half activations: the products of a language model that writes one token, or a
// few, at a time.
//
//   kernel name   quantised_linear_{int4,mxint4,mxfp4,mxfp8,mxfp8_e5m2}_{f16,f32}{,_64,_32,_128x256}
//                 the second type is Y's; _64 and _32 have tiles of so many columns, which keep a GPU's cores busy where N is not large
//                 (_64 for more than 8 rows by 8-bit weights, _32 otherwise); _128x256 has tiles for many rows, as a prompt has them
//   grid          threadgroups (ceil(N / 128), ceil(M / 16), 1), (ceil(N / 64), …), (ceil(N / 32), …), or (ceil(N / 256), ceil(M / 128), 1)
//   threads       128: four SIMD-groups share a tile; 512, sixteen, with _64; 256, eight, with _32 and _128x256
//
//   buffer 0      X [M, K], half
//   buffer 1      W [N, K]: packed elements, each row without gaps (K is a multiple of 32)
//   buffer 2      W's ue8m0 scales [N, K / 32], one for each 32 elements along K; unused by int4
//   buffer 3      Y [M, N]
//   buffer 4      linear_sizes
//
// K is dimension 0 of X and of W, so W is the transposed right operand. Sums are in float; a half Y is rounded once. Rows and
// columns past M and N are cut by dynamic slices.

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

/// Sizes of one dispatch.
struct linear_sizes {
    int m;
    int n;
    int k;
};

using block_scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

template <int TILE_M, int TILE_N, int GROUPS, typename Left, typename Right, typename Product>
inline void multiply_tile(thread Left& left, thread Right& right, thread Product& product, uint2 tgid)
{
    auto left_tile = left.slice(0, tgid.y * TILE_M);
    auto right_tile = right.slice(0, tgid.x * TILE_N);
    auto product_tile = product.slice(tgid.x * TILE_N, tgid.y * TILE_M);

    constexpr auto descriptor = matmul2d_descriptor(TILE_M, TILE_N, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroups<GROUPS>> op;
    op.run(left_tile, right_tile, product_tile);
}

template <typename W, typename Y, bool SCALED, int TILE_M, int TILE_N, int GROUPS>
[[kernel]] void quantised_linear(device half* x [[buffer(0)]],
                                 device uchar* w [[buffer(1)]],
                                 device uchar* scales [[buffer(2)]],
                                 device Y* y [[buffer(3)]],
                                 constant linear_sizes& size [[buffer(4)]],
                                 uint2 tgid [[threadgroup_position_in_grid]])
{
    tensor<device half, dextents<int, 2>, tensor_inline> left(x, dextents<int, 2>(size.k, size.m));
    tensor<device Y, dextents<int, 2>, tensor_inline> product(y, dextents<int, 2>(size.n, size.m));
    const array<int, 2> strides({1, size.k});
    if constexpr (SCALED) {
        tensor<device W, dextents<int, 2>, tensor_inline, block_scales> right(
            w, dextents<int, 2>(size.k, size.n), strides, block_scales(scales));
        multiply_tile<TILE_M, TILE_N, GROUPS>(left, right, product, tgid);
    } else {
        tensor<device W, dextents<int, 2>, tensor_inline> right(w, dextents<int, 2>(size.k, size.n), strides);
        multiply_tile<TILE_M, TILE_N, GROUPS>(left, right, product, tgid);
    }
}

#define INSTANTIATE(name, ...) \
    template [[host_name(name)]] [[kernel]] decltype(quantised_linear<__VA_ARGS__>) quantised_linear<__VA_ARGS__>;

#define QUANTISED_LINEAR(name, W, SCALED)                                               \
    INSTANTIATE("quantised_linear_" name "_f16", W, half, SCALED, 16, 128, 4)            \
    INSTANTIATE("quantised_linear_" name "_f32", W, float, SCALED, 16, 128, 4)           \
    INSTANTIATE("quantised_linear_" name "_f16_64", W, half, SCALED, 16, 64, 16)         \
    INSTANTIATE("quantised_linear_" name "_f32_64", W, float, SCALED, 16, 64, 16)        \
    INSTANTIATE("quantised_linear_" name "_f16_32", W, half, SCALED, 16, 32, 8)          \
    INSTANTIATE("quantised_linear_" name "_f32_32", W, float, SCALED, 16, 32, 8)         \
    INSTANTIATE("quantised_linear_" name "_f16_128x256", W, half, SCALED, 128, 256, 8)   \
    INSTANTIATE("quantised_linear_" name "_f32_128x256", W, float, SCALED, 128, 256, 8)

QUANTISED_LINEAR("int4", int4b_format, false)
QUANTISED_LINEAR("mxint4", int4b_format, true)
QUANTISED_LINEAR("mxfp4", metal_fp4_e2m1_format, true)
QUANTISED_LINEAR("mxfp8", metal_fp8_e4m3_format, true)
QUANTISED_LINEAR("mxfp8_e5m2", metal_fp8_e5m2_format, true)
