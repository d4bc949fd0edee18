// Session listing at 6:51: the same tensors made on the stack, from the pointers of the elements and of the scales.
//
// kernel: scaled_product_inline
// arg 0: buffer uchar[1536] = formula "i % 120"
// arg 1: buffer uchar[48] = formula "124 + i % 7"
// arg 2: buffer uchar[3072] = formula "(7 * i + 3) % 120"
// arg 3: buffer uchar[96] = formula "125 + i % 5"
// arg 4: buffer float (32, 16) = zeros
// arg 5: bytes = uint 16, uint 32, uint 96
// threads: 32 1 1
// expect 4: formula "sum(k, 0, 96, (a0[floor(i / 32) * 96 + k] < 8 ? a0[floor(i / 32) * 96 + k] * pow(2, -9) :
//     (8 + a0[floor(i / 32) * 96 + k] % 8) * pow(2, floor(a0[floor(i / 32) * 96 + k] / 8) - 10)) *
//     pow(2, a1[floor(i / 32) * 3 + floor(k / 32)] - 127) *
//     (a2[(i % 32) * 96 + k] < 8 ? a2[(i % 32) * 96 + k] * pow(2, -9) :
//     (8 + a2[(i % 32) * 96 + k] % 8) * pow(2, floor(a2[(i % 32) * 96 + k] / 8) - 10)) *
//     pow(2, a3[(i % 32) * 3 + floor(k / 32)] - 127))"
// tolerance: abs 1e-3 rel 1e-5

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

using block_scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

using mx_tensor_inline = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_inline, block_scales>;

struct sizes {
    uint m;
    uint n;
    uint k;
};

kernel void scaled_product_inline(device uchar* left_elements [[buffer(0)]],
                                  device uchar* left_scales [[buffer(1)]],
                                  device uchar* right_elements [[buffer(2)]],
                                  device uchar* right_scales [[buffer(3)]],
                                  device float* product_elements [[buffer(4)]],
                                  constant sizes& size [[buffer(5)]])
{
    const int M = int(size.m);
    const int N = int(size.n);
    const int K = int(size.k);

    mx_tensor_inline left(left_elements,
                          dextents<int, 2>(K, M),
                          array<int, 2>({1, K}),
                          block_scales(left_scales));
    mx_tensor_inline right(right_elements,
                           dextents<int, 2>(K, N),
                           array<int, 2>({1, K}),
                           block_scales(right_scales));
    tensor<device float, dextents<int, 2>, tensor_inline> product(product_elements, dextents<int, 2>(N, M));

    constexpr auto descriptor = matmul2d_descriptor(16, 32, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(left, right, product);
}
