// The maximum of each row without an identity starts from 0 (reference 6): rows of negative elements give 0.
//
// option: sanitize
// arg 0: tensor half (32, 16) = fill(-1)
// arg 1: tensor half (32, 32) = fill(1)
// arg 2: tensor float (16) = fill(5)
// run: default
// flags: -D IDENTITY=
// finding: S0403 at 28: numeric_limits<T>::lowest()
// expect 2: fill(0)
// run: given
// flags: -D IDENTITY=,-INFINITY
// expect 2: fill(-32)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void row_max(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 1>> out [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto product = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, product);
    auto rows = op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    reduce_rows(product, rows, reduction_operation::max IDENTITY);
    rows.store(out);
}
