// A read past the end of a buffer ends the dispatch with an error that names the buffer; the process goes on.
//
// kernel: shifted
// arg 0: buffer float[100] = iota
// arg 1: buffer float[100] = zeros
// grid: threads 100 1 1
// threads: 32 1 1
// fault: byte offset 400 of device 'x', which has 400 bytes (index 100 of 100 elements)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void shifted(device const float* x [[buffer(0)]],
                    device float* y [[buffer(1)]],
                    uint id [[thread_position_in_grid]])
{
    y[id] = x[id + 1];
}
