// Session listing at 6:07: type aliases for a multi-plane tensor handle. The aliases name an fp8 tensor with one ue8m0
// scale for each block of 32 elements along K; both operands are bound as one object each. The body, which
// the session elides, multiplies one tile.
//
// kernel: scaled_product
// arg 0: tensor fp8_e4m3 (96, 16) scales (32, 1) = random(1)
// arg 1: tensor fp8_e4m3 (96, 32) scales (32, 1) = random(2)
// arg 2: tensor half (32, 16) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1, transpose_right)

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

using block_scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

using mx_tensor = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, block_scales>;

kernel void scaled_product(mx_tensor left [[buffer(0)]],
                           mx_tensor right [[buffer(1)]],
                           tensor<device half, dextents<int, 2>> product [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(left, right, product);
}
