// A struct of tensor handles and an array of handles, bound as one constant buffer each.
//
// kernel: table
// arg 0: handles 10, 11
// arg 1: handles 11, 12, 10
// arg 2: buffer float[6] = zeros
// arg 10: tensor float (6) = iota
// arg 11: tensor float (6) = iota(10, 2)
// arg 12: tensor float (6) = fill(0.5)
// threads: 32 1 1
// expect 2: formula "a10[i] * a11[i] + a11[i] + 2 * a12[i] + 3 * a10[i]"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using line = tensor<device float, dextents<int, 1>>;

struct pair_of_lines {
    line first;
    line second;
};

struct list_of_lines {
    line items[3];
};

kernel void table(constant pair_of_lines& pair [[buffer(0)]],
                  constant list_of_lines& list [[buffer(1)]],
                  device float* y [[buffer(2)]],
                  uint tid [[thread_index_in_threadgroup]])
{
    if (tid >= 6) {
        return;
    }
    const int i = int(tid);
    line first = pair.first;
    line second = pair.second;
    float sum = first[i] * second[i];
    for (int k = 0; k < 3; k++) {
        line item = list.items[k];
        sum += float(k + 1) * item[i];
    }
    y[tid] = sum;
}
