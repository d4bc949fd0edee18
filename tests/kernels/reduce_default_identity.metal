// The default identity is the sum's, whatever the operation: a maximum of negative values gives 0.
//
// kernel: clamped
// arg 0: tensor half (32, 16) = fill(-1)
// arg 1: tensor half (32, 32) = fill(1)
// arg 2: tensor float (16) = fill(5)
// threads: 32 1 1
// finding: S0403 at 25: the default identity is that of the sum
// expect 2: fill(0)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void clamped(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 1>> out [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto product = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, product);
    auto rows = op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    reduce_rows(product, rows, reduction_operation::max);
    rows.store(out);
}
