// A product of a thread multiplies an array of its own that was set only in part.
//
// kernel: products
// arg 0: buffer half[680] = random(1)
// arg 1: buffer half[51] = random(2)
// arg 2: buffer float[120] = zeros
// threads: 40 1 1
// option: sanitize
// finding: S0302 at 32: `own`

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void products(device half* a [[buffer(0)]],
                     device half* b [[buffer(1)]],
                     device float* c [[buffer(2)]],
                     uint id [[thread_position_in_grid]])
{
    constexpr matmul2d_descriptor descriptor(
        1, 3, 17, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_thread> op;
    half own[17];
    float sums[3];
    for (int k = 0; k < 16; ++k)
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
