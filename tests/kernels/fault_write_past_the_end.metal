// A write past the end of a buffer.
//
// kernel: shifted_by_nothing
// arg 0: buffer float[100] = iota
// arg 1: buffer float[100] = zeros
// grid: threadgroups 4 1 1
// threads: 32 1 1
// fault: shifted_by_nothing

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void shifted_by_nothing(device const float* x [[buffer(0)]],
                               device float* y [[buffer(1)]],
                               uint id [[thread_position_in_grid]])
{
    y[id] = x[min(id, 99u)];
}
