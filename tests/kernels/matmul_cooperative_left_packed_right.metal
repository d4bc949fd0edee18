// A cooperative int8 operand beside packed int4 weights in device memory, summed in a cooperative int over a loop along K.
//
// arg 0: tensor char (96, 16) = random(1)
// arg 1: tensor int4 (96, 32) = random(2)
// arg 2: tensor int (32, 16) = fill(9)
// threads: 32 1 1
// expect 2: matmul(0, 1, transpose_right)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device int8_t, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device int4b_format, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device int, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr matmul2d_descriptor descriptor(
        16, 32, 32, false, true, true, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = op.get_left_input_cooperative_tensor<int8_t, int4b_format, int>();
    auto sums = op.get_destination_cooperative_tensor<decltype(left), decltype(b), int>();
    for (ushort i = 0; i < sums.get_capacity(); ++i)
        if (sums.is_valid_element(i))
            sums[i] = 0;
    for (int k = 0; k < a.get_extent(0); k += 32) {
        left.load(a.slice(k, 0));
        auto right = b.slice(k, 0);
        op.run(left, right, sums);
    }
    sums.store(c);
}
