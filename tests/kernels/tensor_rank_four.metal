// A tensor of rank 4, reordered: y[h, d, t, b] = x[d, t, h, b]; a pointer to an element starts an inline view of one matrix.
//
// kernel: reorder
// arg 0: tensor half (3, 5, 2, 2) = iota
// arg 1: tensor half (2, 3, 5, 2) = zeros
// arg 2: buffer float[4] = zeros
// grid: threads 60 1 1
// threads: 32 1 1
// expect 1: formula "a0[floor(i / 2) % 3 + 3 * (floor(i / 6) % 5) + 15 * (i % 2) + 30 * floor(i / 30)]"
// expect 2: formula "sum(k, 0, 15, a0[k + 15 * i])"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void reorder(tensor<device half, dextents<int, 4>> x [[buffer(0)]],
                    tensor<device half, dextents<int, 4>> y [[buffer(1)]],
                    device float* sums [[buffer(2)]],
                    uint id [[thread_position_in_grid]])
{
    const int d = int(id) % 3;
    const int t = int(id) / 3 % 5;
    const int h = int(id) / 15 % 2;
    const int b = int(id) / 30;
    y[h, d, t, b] = x[d, t, h, b];
    if (id < 4) {
        const int head = int(id) % 2;
        const int batch = int(id) / 2;
        tensor<device half, dextents<int, 2>, tensor_inline> matrix(&x[0, 0, head, batch],
                                                                  dextents<int, 2>(x.get_extent(0), x.get_extent(1)),
                                                                  array<int, 2>({1, x.get_stride(1)}));
        float sum = 0.0f;
        for (int row = 0; row < matrix.get_extent(1); row++) {
            for (int column = 0; column < matrix.get_extent(0); column++) {
                sum += float(matrix[column, row]);
            }
        }
        sums[id] = sum;
    }
}
