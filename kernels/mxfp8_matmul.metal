// MXFP8 × MXFP8: both operands are fp8 e4m3 with one ue8m0 scale for each 32 elements along K.
//
//   kernel name   mxfp8_matmul_{handle,inline}_{f16,f32}[_128x256]
//   grid          threadgroups (ceil(N / 64), ceil(M / 64), 1); (ceil(N / 256), ceil(M / 128), 1) for the names with a tile
//   threads       128: four SIMD-groups share a tile; 256, eight, for the names with a tile
//
// A is [M, K], B is [N, K]: K is dimension 0 of both, since blocks run along dimension 0. B is therefore the transposed right
// operand. K is a multiple of 32.
//
//   handle        buffer 0 A, buffer 1 B: tensors with a scale plane; buffer 2 C (N, M): a tensor
//   inline        buffer 0 A's elements, 1 A's scales (K/32 to a row), 2 B's elements, 3 B's scales, 4 C, 5 mx_sizes

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

using mx_scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;
using mx_handle = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, mx_scales>;
using mx_inline = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_inline, mx_scales>;

/// Sizes of one dispatch.
struct mx_sizes {
    int m;
    int n;
    int k;
};

template <int TILE_M, int TILE_N, int SIMDGROUPS, typename Left, typename Right, typename Product>
inline void multiply_tile(thread Left& left, thread Right& right, thread Product& product, uint2 tgid)
{
    auto left_tile = left.slice(0, tgid.y * TILE_M);
    auto right_tile = right.slice(0, tgid.x * TILE_N);
    auto product_tile = product.slice(tgid.x * TILE_N, tgid.y * TILE_M);

    constexpr auto descriptor = matmul2d_descriptor(TILE_M, TILE_N, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroups<SIMDGROUPS>> op;
    op.run(left_tile, right_tile, product_tile);
}

template <typename C, int TILE_M, int TILE_N, int SIMDGROUPS>
[[kernel]] void mxfp8_matmul_handle(mx_handle a [[buffer(0)]],
                                    mx_handle b [[buffer(1)]],
                                    tensor<device C, dextents<int, 2>> c [[buffer(2)]],
                                    uint2 tgid [[threadgroup_position_in_grid]])
{
    multiply_tile<TILE_M, TILE_N, SIMDGROUPS>(a, b, c, tgid);
}

template <typename C, int TILE_M, int TILE_N, int SIMDGROUPS>
[[kernel]] void mxfp8_matmul_inline(device uchar* a_elements [[buffer(0)]],
                                    device uchar* a_scales [[buffer(1)]],
                                    device uchar* b_elements [[buffer(2)]],
                                    device uchar* b_scales [[buffer(3)]],
                                    device C* c_elements [[buffer(4)]],
                                    constant mx_sizes& size [[buffer(5)]],
                                    uint2 tgid [[threadgroup_position_in_grid]])
{
    mx_inline a(a_elements, dextents<int, 2>(size.k, size.m), array<int, 2>({1, size.k}), mx_scales(a_scales));
    mx_inline b(b_elements, dextents<int, 2>(size.k, size.n), array<int, 2>({1, size.k}), mx_scales(b_scales));
    tensor<device C, dextents<int, 2>, tensor_inline> c(c_elements, dextents<int, 2>(size.n, size.m));
    multiply_tile<TILE_M, TILE_N, SIMDGROUPS>(a, b, c, tgid);
}

#define INSTANTIATE(name, ...) \
    template [[host_name(name)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;

#define MXFP8_MATMUL(name, C)                                                                   \
    INSTANTIATE("mxfp8_matmul_handle_" name, mxfp8_matmul_handle<C, 64, 64, 4>)                 \
    INSTANTIATE("mxfp8_matmul_handle_" name "_128x256", mxfp8_matmul_handle<C, 128, 256, 8>)    \
    INSTANTIATE("mxfp8_matmul_inline_" name, mxfp8_matmul_inline<C, 64, 64, 4>)                 \
    INSTANTIATE("mxfp8_matmul_inline_" name "_128x256", mxfp8_matmul_inline<C, 128, 256, 8>)

MXFP8_MATMUL("f16", half)
MXFP8_MATMUL("f32", float)
