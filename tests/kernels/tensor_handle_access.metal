// A handle tensor: extents, strides, rank, subscripts by indices and by an array; dimension 0 is the innermost.
//
// kernel: access
// arg 0: tensor float (5, 4) strides (1, 8) = iota
// arg 1: tensor float (4, 5) = zeros
// arg 2: buffer int[8] = zeros
// threads: 32 1 1
// expect 1: formula "a0[floor(i / 4) + 5 * (i % 4)] + a0[0]"
// expect 2: [5, 4, 1, 8, 2, 4, 5, 4]

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void access(tensor<device float, dextents<int, 2>> x [[buffer(0)]],
                   tensor<device float, dextents<int, 2>, tensor_handle> y [[buffer(1)]],
                   device int* facts [[buffer(2)]],
                   uint tid [[thread_index_in_threadgroup]])
{
    if (tid < 20) {
        const int column = int(tid) % 5;
        const int row = int(tid) / 5;
        y[row, column] = x[array<int, 2>({column, row})] + x[0, 0];
    }
    if (tid == 0) {
        facts[0] = x.get_extent(0);
        facts[1] = x.get_extent(1);
        facts[2] = x.get_stride(0);
        facts[3] = x.get_stride(1);
        facts[4] = int(x.get_rank());
        facts[5] = y.get_extent(0);
        facts[6] = y.get_extent(1);
        facts[7] = y.get_stride(1);
    }
}
