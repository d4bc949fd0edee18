// Slices: dynamic (the rest of each dimension), static, mixed with dynamic_extent, of slices, of inline tensors; they share memory.
//
// kernel: slices
// arg 0: tensor int (10, 8) = iota
// arg 1: buffer int[20] = zeros
// threads: 1 1 1
// expect 0: formula "i == 34 ? -1 : i"
// expect 1: [7, 5, 33, 4, 2, 33, 10, 4, 6, 44, 4, 3, 55, 3, 56, 1, 4, 2, 66, 34]

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void slices(tensor<device int, dextents<int, 2>> x [[buffer(0)]],
                   device int* y [[buffer(1)]])
{
    auto rest = x.slice(3, 3);
    y[0] = rest.get_extent(0);
    y[1] = rest.get_extent(1);
    y[2] = rest[0, 0];
    auto fixed = x.slice<4, 2>(3, 3);
    y[3] = fixed.get_extent(0);
    y[4] = fixed.get_extent(1);
    y[5] = fixed[0, 0];
    y[6] = fixed.get_stride(1);
    auto mixed = x.slice<4, dynamic_extent>(4, 2);
    y[7] = mixed.get_extent(0);
    y[8] = mixed.get_extent(1);
    auto inner = mixed.slice<dynamic_extent, 3>(0, 2);
    y[9] = inner[0, 0];
    y[10] = inner.get_extent(0);
    y[11] = inner.get_extent(1);
    tensor<device int, dextents<int, 2>, tensor_inline> view(&x[0, 4], dextents<int, 2>(10, 4));
    auto part = view.slice<3, 2>(5, 1);
    y[12] = part[0, 0];
    y[13] = part.get_extent(0);
    auto part_of_part = part.slice(1, 0);
    y[14] = part_of_part[0, 0];
    y[15] = decltype(part)::has_static_extent(0) ? 1 : 0;
    y[16] = int(decltype(fixed)::get_static_extent(0));
    y[17] = int(decltype(fixed)::get_static_extent(1));
    y[18] = part[1, 1];
    y[19] = x[4, 3];
    fixed[1, 0] = -1;
}
