// is_null_tensor tells a missing tensor.
//
// kernel: optional
// arg 0: tensor float (4) = iota
// arg 1: null
// arg 2: buffer float[4] = zeros
// threads: 4 1 1
// run: missing
// expect 2: formula "i"
// run: there
// arg 1: tensor float (4) = fill(3)
// expect 2: formula "i + 3"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void optional(tensor<device float, dextents<int, 1>> x [[buffer(0)]],
                     tensor<device float, dextents<int, 1>> bias [[buffer(1)]],
                     device float* y [[buffer(2)]],
                     uint tid [[thread_index_in_threadgroup]])
{
    float value = x[int(tid)];
    if (!is_null_tensor(bias)) {
        value += bias[int(tid)];
    }
    y[tid] = value;
}
