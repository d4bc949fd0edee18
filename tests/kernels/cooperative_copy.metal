// Copies of a cooperative tensor hold their own values.
//
// kernel: copies
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 16) = zeros
// arg 3: tensor float (32, 16) = zeros
// threads: 32 1 1
// expect 2: matmul(0, 1)
// expect 3: formula "3 * sum(k, 0, 32, a0[floor(i / 32) * 32 + k] * a1[k * 32 + i % 32])"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void copies(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                   tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                   tensor<device float, dextents<int, 2>> once [[buffer(2)]],
                   tensor<device float, dextents<int, 2>> thrice [[buffer(3)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto sums = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, sums);
    auto other = sums;
    for (ushort i = 0; i < other.get_capacity(); i++) {
        other[i] *= 3.0f;
    }
    sums.store(once);
    other.store(thrice);
}
