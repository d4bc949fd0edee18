// map_iterator: the row's and the column's reduction of each element; the rows of another operation with as many rows too.
//
// kernel: normalised
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (32, 16) = zeros
// arg 3: tensor float (64, 16) = zeros
// arg 4: tensor half (64, 32) = random(3)
// threads: 32 1 1
// expect 2: formula "sum(k, 0, 32, a0[floor(i / 32) * 32 + k] * a1[k * 32 + i % 32])
//     - maxof(j, 0, 32, sum(k, 0, 32, a0[floor(i / 32) * 32 + k] * a1[k * 32 + j]))
//     + sum(r, 0, 16, sum(k, 0, 32, a0[r * 32 + k] * a1[k * 32 + i % 32]))"
// expect 3: formula "sum(k, 0, 32, a0[floor(i / 64) * 32 + k] * a4[k * 64 + i % 64])
//     * maxof(j, 0, 32, sum(k, 0, 32, a0[floor(i / 64) * 32 + k] * a1[k * 32 + j]))"
// tolerance: abs 1e-3 rel 1e-4

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using matrix = tensor<device half, dextents<int, 2>>;

kernel void normalised(matrix a [[buffer(0)]],
                       matrix b [[buffer(1)]],
                       tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                       tensor<device float, dextents<int, 2>> d [[buffer(3)]],
                       matrix wide [[buffer(4)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto product = op.get_destination_cooperative_tensor<matrix, matrix, float>();
    op.run(a, b, product);
    auto rows = op.get_row_reduction_destination_cooperative_tensor<matrix, matrix, float>();
    auto columns = op.get_column_reduction_destination_cooperative_tensor<matrix, matrix, float>();
    reduce_rows(product, rows, reduction_operation::max, -INFINITY);
    reduce_columns(product, columns, reduction_operation::sum, 0.0f);

    for (auto it = product.begin(); it != product.end(); it++) {
        auto row_it = rows.map_iterator(it);
        auto column_it = columns.map_iterator(it);
        *it = *it - *row_it + *column_it;
    }
    product.store(c);

    constexpr auto wide_descriptor = matmul2d_descriptor(16, 64, 32);
    matmul2d<wide_descriptor, execution_simdgroup> wide_op;
    auto wide_product = wide_op.get_destination_cooperative_tensor<matrix, matrix, float>();
    wide_op.run(a, wide, wide_product);
    for (auto it = wide_product.begin(); it != wide_product.end(); it++) {
        auto row_it = rows.map_iterator(it);
        *it = *it * *row_it;
    }
    wide_product.store(d);
}
