// An access to a tensor that is not there.
//
// kernel: missing
// arg 0: null
// arg 1: buffer float[1] = zeros
// threads: 1 1 1
// fault: null

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void missing(tensor<device float, dextents<int, 1>> x [[buffer(0)]],
                    device float* y [[buffer(1)]])
{
    y[0] = x[0];
}
