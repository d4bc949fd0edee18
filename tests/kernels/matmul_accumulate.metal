// multiply overwrites the destination, multiply_accumulate adds to it; a loop over static tiles of K in accumulate mode equals the whole product.
//
// arg 0: tensor half (96, 32) = random(1)
// arg 1: tensor half (32, 96) = random(2)
// arg 2: tensor float (32, 32) = random(3)
// threads: 32 1 1
// run: overwrite
// kernel: overwrite
// expect 2: matmul(0, 1)
// run: accumulate
// kernel: accumulate
// expect 2: matmul(0, 1, accumulate)
// run: loop over K
// kernel: by_tiles
// expect 2: matmul(0, 1, accumulate)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using operand = tensor<device half, dextents<int, 2>>;
using result = tensor<device float, dextents<int, 2>>;

constant constexpr auto adding = matmul2d_descriptor::mode::multiply_accumulate;

kernel void overwrite(operand a [[buffer(0)]], operand b [[buffer(1)]], result c [[buffer(2)]])
{
    constexpr matmul2d_descriptor descriptor(32, 32, static_cast<int>(dynamic_extent));
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}

kernel void accumulate(operand a [[buffer(0)]], operand b [[buffer(1)]], result c [[buffer(2)]])
{
    constexpr matmul2d_descriptor descriptor(32, 32, static_cast<int>(dynamic_extent), false, false, false, adding);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}

kernel void by_tiles(operand a [[buffer(0)]], operand b [[buffer(1)]], result c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 16, false, false, false, adding);
    for (int k = 0; k < 96; k += 16) {
        auto left = a.slice<16, 32>(k, 0);
        auto right = b.slice<32, 16>(0, k);
        matmul2d<descriptor, execution_simdgroup>{}.run(left, right, c);
    }
}
