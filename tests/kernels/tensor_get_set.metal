// get and set check bounds: a load past the end gives the default value, a store past the end is dropped; an extent of 1 broadcasts.
//
// kernel: checked
// arg 0: tensor int (6, 3) = formula "i + 1"
// arg 1: tensor int (6, 1) = formula "100 * (i + 1)"
// arg 2: tensor int (8, 4) = fill(-1)
// threads: 32 1 1
// expect 2: formula "(i % 8 < 6 && floor(i / 8) < 3 ? a0[i % 8 + 6 * floor(i / 8)] : 0) + (i % 8 < 6 ? a1[i % 8] : 0)"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void checked(tensor<device int, dextents<int, 2>> x [[buffer(0)]],
                    tensor<device int, dextents<int, 2>> row [[buffer(1)]],
                    tensor<device int, dextents<int, 2>> y [[buffer(2)]],
                    uint tid [[thread_index_in_threadgroup]])
{
    const int column = int(tid) % 8;
    const int line = int(tid) / 8;
    y.set(x.get(column, line) + row.get(column, line), column, line);
    y.set(12345, column + 8, line);
}
