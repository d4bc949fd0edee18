// Slices along K start in the middle of the scale plane: elements and scales move together.
//
// kernel: product
// arg 0: tensor fp8_e4m3 (128, 16) scales (32, 1) = random(1)
// arg 1: tensor fp8_e4m3 (128, 32) scales (32, 1) = random(2)
// arg 2: tensor float (32, 16) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;
using operand = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, scales>;

kernel void product(operand a [[buffer(0)]],
                    operand b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32, false, true, false,
                                                    matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    for (int k = 0; k < 128; k += 32) {
        auto left = a.slice<32, 16>(k, 0);
        auto right = b.slice<32, 32>(k, 0);
        op.run(left, right, c);
    }
}
