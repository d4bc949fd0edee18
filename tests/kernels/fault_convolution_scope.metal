// A convolution is run by all SIMD-groups of the threadgroup.
//
// kernel: scope
// arg 0: tensor float (4, 4, 4, 1) = zeros
// arg 1: tensor float (8, 4, 1, 1) = zeros
// arg 2: tensor float (8, 4, 4, 1) = zeros
//
// run: too many threads for one SIMD-group
// flags: -D COUNT=1
// threads: 64 1 1
// fault: needs threadgroups of exactly 1 SIMD-groups (32 threads)
//
// run: too few threads for four
// flags: -D COUNT=4
// threads: 64 1 1
// fault: needs threadgroups of exactly 4 SIMD-groups (128 threads)

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void scope(tensor<device float, dextents<int, 4>> activation [[buffer(0)]],
                  tensor<device float, dextents<int, 4>> weights [[buffer(1)]],
                  tensor<device float, dextents<int, 4>> destination [[buffer(2)]])
{
    constexpr auto descriptor = convolution2d_descriptor(int4(8, 4, 4, 1), int4(4, 4, 4, 1), int2(1, 1));
    convolution2d<descriptor, execution_simdgroups<COUNT>> op;
    op.run(activation, weights, destination);
}
