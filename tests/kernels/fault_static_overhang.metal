// A static slice past the tensor's end is undefined on a Mac; here it is a fault, or read as zeros when asked for.
//
// kernel: overhang
// arg 0: tensor half (32, 20) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 20) = zeros
// threads: 32 1 1
// run: fault
// fault: static
// run: zeros
// option: static-overhang=zero
// expect 2: matmul(0, 1)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void overhang(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                     tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                     tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = a.slice<32, 32>(0, 0);
    op.run(left, b, c);
}
