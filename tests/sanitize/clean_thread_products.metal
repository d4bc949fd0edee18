// Products of single threads set the arrays that they write to: reading those afterwards is no finding, also in divergent control flow.
//
// kernel: products
// arg 0: buffer half[680] = random(1)
// arg 1: buffer half[51] = random(2)
// arg 2: buffer float[120] = zeros
// threads: 40 1 1
// option: sanitize
// expect 2: formula "floor(i / 3) % 2 ? sum(k, 0, 17, a0[floor(i / 3) * 17 + k] * a1[k * 3 + i % 3]) : 0"
// tolerance: abs 1e-3 rel 1e-3

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void products(device half* a [[buffer(0)]],
                     device half* b [[buffer(1)]],
                     device float* c [[buffer(2)]],
                     uint id [[thread_position_in_grid]])
{
    constexpr matmul2d_descriptor descriptor(1, 3, 17);
    matmul2d<descriptor, execution_thread> op;
    half own[17];
    float sums[3];
    for (int k = 0; k < 17; ++k)
        own[k] = a[17 * id + k];
    if (id % 2) {
        tensor<thread half, extents<int, 17, 1>, tensor_inline> left(own, extents<int, 17, 1>());
        tensor right(b, dextents<int, 2>(3, 17));
        tensor<thread float, extents<int, 3, 1>, tensor_inline> result(sums, extents<int, 3, 1>());
        op.run(left, right, result);
        for (int n = 0; n < 3; ++n)
            c[3 * id + n] = sums[n];
    }
}
