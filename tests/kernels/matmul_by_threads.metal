// matmul2d by single threads: small layers with rows of a thread's own, in device memory and in its arrays, in divergent control
// flow, with sizes that SIMD-groups do not take.
//
// arg 0: buffer half (17, 40) = random(1)
// arg 1: buffer half (3, 17) = random(2)
// arg 2: buffer float (3, 40) = fill(9)
// arg 3: buffer float (3, 40) = fill(9)
// threads: 40 1 1
// expect 2: formula "floor(i / 3) % 3 == 0 ? sum(k, 0, 17, a0[floor(i / 3) * 17 + k] * a1[k * 3 + i % 3]) : 9"
// expect 3: formula "1 + 2 * sum(k, 0, 17, a0[floor(i / 3) * 17 + k] * a1[k * 3 + i % 3])"
// tolerance: abs 1e-4 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void layers(device half* a [[buffer(0)]],
                   device half* b [[buffer(1)]],
                   device float* c [[buffer(2)]],
                   device float* d [[buffer(3)]],
                   uint id [[thread_position_in_grid]])
{
    constexpr matmul2d_descriptor plain(1, 3, dynamic_extent);
    constexpr matmul2d_descriptor adding(
        1, 3, dynamic_length_v<int>, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    tensor<device half, extents<int, 17, 1>, tensor_inline> row(a + 17 * id, extents<int, 17, 1>());
    tensor weights(b, dextents<int, 2>(3, 17));
    tensor out(c, dextents<int, 2>(3, 40));

    if (id % 3 == 0) {
        matmul2d<plain, execution_thread> op;
        auto mine = out.slice<3, 1>(0, id);
        op.run(row, weights, mine);
    }

    half own[17];
    float sums[3] = {1.0f, 1.0f, 1.0f};
    for (int k = 0; k < 17; ++k)
        own[k] = a[17 * id + k] * 2.0h;
    tensor<thread half, extents<int, 17, 1>, tensor_inline> left(own, extents<int, 17, 1>());
    tensor<thread float, dextents<int, 2>, tensor_inline> result(sums, dextents<int, 2>(3, 1));
    matmul2d<adding, execution_thread> op;
    op.run(left, weights, result);
    for (int n = 0; n < 3; ++n)
        d[3 * id + n] = sums[n];
}
