// Row and column reductions of a product: sum, max and min; the identity takes part in the result.
//
// kernel: reductions
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (16) = zeros
// arg 3: tensor float (16) = zeros
// arg 4: tensor float (16) = zeros
// arg 5: tensor float (32) = zeros
// arg 6: tensor float (32) = zeros
// threads: 32 1 1
// expect 2: formula "10 + sum(j, 0, 32, sum(k, 0, 32, a0[i * 32 + k] * a1[k * 32 + j]))"
// expect 3: formula "maxof(j, 0, 32, sum(k, 0, 32, a0[i * 32 + k] * a1[k * 32 + j]))"
// expect 4: formula "minof(j, 0, 32, sum(k, 0, 32, a0[i * 32 + k] * a1[k * 32 + j]))"
// expect 5: formula "sum(r, 0, 16, sum(k, 0, 32, a0[r * 32 + k] * a1[k * 32 + i]))"
// expect 6: formula "max(1, maxof(r, 0, 16, sum(k, 0, 32, a0[r * 32 + k] * a1[k * 32 + i])))"
// tolerance: abs 1e-4 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using vector = tensor<device float, dextents<int, 1>>;

kernel void reductions(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                       tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                       vector row_sum [[buffer(2)]],
                       vector row_max [[buffer(3)]],
                       vector row_min [[buffer(4)]],
                       vector column_sum [[buffer(5)]],
                       vector column_max [[buffer(6)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto product = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, product);

    auto rows = op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    reduce_rows(product, rows, reduction_operation::sum, 10.0f);
    rows.store(row_sum);
    reduce_rows(product, rows, reduction_operation::max, -INFINITY);
    rows.store(row_max);
    reduce_rows(product, rows, reduction_operation::min, reduction_operation_identity<float>::min_identity);
    rows.store(row_min);

    auto columns = op.get_column_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    reduce_columns(product, columns);
    columns.store(column_sum);
    reduce_columns(product, columns, reduction_operation::max, 1.0f);
    columns.store(column_max);
}
