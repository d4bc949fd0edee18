// int8 products in a cooperative int32 destination, scaled to float by row and column factors: a quantised linear layer.
//
// kernel: quantised_linear
// arg 0: tensor char (64, 20) = random(1, -127, 128)
// arg 1: tensor char (64, 40) = random(2, -127, 128)
// arg 2: buffer float[20] = random(3, 0.001, 0.01)
// arg 3: buffer float[40] = random(4, 0.001, 0.01)
// arg 4: buffer float (40, 20) = zeros
// grid: threadgroups 2 2 1
// threads: 32 1 1
// expect 4: formula "a2[floor(i / 40)] * a3[i % 40] * sum(k, 0, 64, a0[floor(i / 40) * 64 + k] * a1[(i % 40) * 64 + k])"
// tolerance: abs 1e-5 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using operand = tensor<device int8_t, dextents<int, 2>>;

kernel void quantised_linear(operand x [[buffer(0)]],
                             operand w [[buffer(1)]],
                             device const float* row_scale [[buffer(2)]],
                             device const float* column_scale [[buffer(3)]],
                             device float* y [[buffer(4)]],
                             uint2 tgid [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, static_cast<int>(dynamic_extent), false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = x.slice(0, tgid.y * 16);
    auto right = w.slice(0, tgid.x * 32);
    auto sums = op.get_destination_cooperative_tensor<decltype(left), decltype(right), int32_t>();
    op.run(left, right, sums);
    for (ushort i = 0; i < sums.get_capacity(); i++) {
        auto at = sums.get_multidimensional_index(i);
        const int row = int(tgid.y) * 16 + at[1];
        const int column = int(tgid.x) * 32 + at[0];
        if (sums.is_valid_element(i) && row < 20 && column < 40) {
            y[row * 40 + column] = float(sums[i]) * row_scale[row] * column_scale[column];
        }
    }
}
