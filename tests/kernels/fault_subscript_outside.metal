// A subscript outside the tensor's extents.
//
// kernel: outside
// arg 0: tensor float (5, 4) = iota
// arg 1: buffer float[1] = zeros
// threads: 1 1 1
// fault: out-of-bounds read of tensor 'x' at [2, 4] with extents (5, 4)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void outside(tensor<device float, dextents<int, 2>> x [[buffer(0)]],
                    device float* y [[buffer(1)]])
{
    y[0] = x[2, 4];
}
