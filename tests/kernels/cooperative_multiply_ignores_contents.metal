// In multiply mode the earlier contents of a cooperative destination, NaN included, do not count.
//
// kernel: product
// arg 0: tensor half (32, 32) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 32) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto sums = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    for (ushort i = 0; i < sums.get_capacity(); i++) {
        sums.set(i, NAN);
    }
    op.run(a, b, sums);
    sums.store(c);
}
