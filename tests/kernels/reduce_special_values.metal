// Reductions of every element type over values that are hard: NaN is ignored by max and min, a row of −∞ keeps the identity, the identity takes
// part; sums of integers are exact, sums of half and bfloat are rounded once.
//
// kernel: special
// threads: 32 1 1
//
// run: float
// flags: -D ELEMENT=float -D OPERAND=float
// arg 0: buffer float (32, 32) = [1, -2, nan, 3, -4, inf, 2, 0.5, -0.25, 7, 11]
// arg 1: buffer float[32] = zeros
// arg 2: buffer float[32] = zeros
// arg 3: buffer float[32] = zeros
// arg 4: buffer float[32] = zeros
// expect 1: formula "maxof(j, 0, 32, a0[32 * i + j] == a0[32 * i + j] ? a0[32 * i + j] : -inf)"
// expect 2: formula "minof(j, 0, 32, a0[32 * i + j] == a0[32 * i + j] ? a0[32 * i + j] : inf)"
// expect 3: formula "maxof(j, 0, 32, a0[32 * j + i] == a0[32 * j + i] ? a0[32 * j + i] : -inf)"
// expect 4: formula "minof(j, 0, 32, a0[32 * j + i] == a0[32 * j + i] ? a0[32 * j + i] : inf)"
//
// run: float, all −∞ or NaN
// flags: -D ELEMENT=float -D OPERAND=float
// arg 0: buffer float (32, 32) = [-inf, -inf, nan, -inf]
// arg 1: buffer float[32] = zeros
// arg 2: buffer float[32] = zeros
// arg 3: buffer float[32] = zeros
// arg 4: buffer float[32] = zeros
// expect 1: fill(-3.4028234663852886e38)
// expect 2: fill(-inf)
// expect 3: fill(-3.4028234663852886e38)
// expect 4: [-inf, -inf, 3.4028234663852886e38, -inf]
//
// run: half
// flags: -D ELEMENT=half -D OPERAND=half
// arg 0: buffer half (32, 32) = [nan, -inf]
// arg 1: buffer half[32] = zeros
// arg 2: buffer half[32] = zeros
// arg 3: buffer half[32] = zeros
// arg 4: buffer half[32] = zeros
// expect 1: fill(-65504)
// expect 2: fill(-inf)
// expect 3: fill(-65504)
// expect 4: [65504, -inf]
//
// run: bfloat
// flags: -D ELEMENT=bfloat -D OPERAND=bfloat
// arg 0: buffer bfloat (32, 32) = [nan, 3, -5, 7, -11]
// arg 1: buffer bfloat[32] = zeros
// arg 2: buffer bfloat[32] = zeros
// arg 3: buffer bfloat[32] = zeros
// arg 4: buffer bfloat[32] = zeros
// expect 1: fill(7)
// expect 2: fill(-11)
// expect 3: fill(7)
// expect 4: fill(-11)
//
// run: int
// flags: -D ELEMENT=int -D OPERAND=char
// arg 0: buffer int (32, 32) = random(1, -2000000000, 2000000000)
// arg 1: buffer int[32] = zeros
// arg 2: buffer int[32] = zeros
// arg 3: buffer int[32] = zeros
// arg 4: buffer int[32] = zeros
// expect 1: formula "maxof(j, 0, 32, a0[32 * i + j])"
// expect 2: formula "minof(j, 0, 32, a0[32 * i + j])"
// expect 3: formula "maxof(j, 0, 32, a0[32 * j + i])"
// expect 4: formula "minof(j, 0, 32, a0[32 * j + i])"
//
// run: sums of int
// flags: -D ELEMENT=int -D OPERAND=char -D SUMS
// arg 0: buffer int (32, 32) = random(1, -60000000, 60000000)
// arg 1: buffer int[32] = zeros
// arg 2: buffer int[32] = zeros
// arg 3: buffer int[32] = zeros
// arg 4: buffer int[32] = zeros
// expect 1: formula "sum(j, 0, 32, a0[32 * i + j])"
// expect 2: formula "5 + sum(j, 0, 32, a0[32 * j + i])"
//
// run: sums of half
// flags: -D ELEMENT=half -D OPERAND=half -D SUMS
// arg 0: buffer half (32, 32) = random(1)
// arg 1: buffer half[32] = zeros
// arg 2: buffer half[32] = zeros
// arg 3: buffer half[32] = zeros
// arg 4: buffer half[32] = zeros
// expect 1: formula "sum(j, 0, 32, a0[32 * i + j])"
// expect 2: formula "5 + sum(j, 0, 32, a0[32 * j + i])"
//
// run: sums of bfloat
// flags: -D ELEMENT=bfloat -D OPERAND=bfloat -D SUMS
// arg 0: buffer bfloat (32, 32) = random(1)
// arg 1: buffer bfloat[32] = zeros
// arg 2: buffer bfloat[32] = zeros
// arg 3: buffer bfloat[32] = zeros
// arg 4: buffer bfloat[32] = zeros
// expect 1: formula "sum(j, 0, 32, a0[32 * i + j])"
// expect 2: formula "5 + sum(j, 0, 32, a0[32 * j + i])"

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

using vector = tensor<device ELEMENT, dextents<int, 1>, tensor_inline>;

kernel void special(device ELEMENT* x [[buffer(0)]],
                    device ELEMENT* a [[buffer(1)]],
                    device ELEMENT* b [[buffer(2)]],
                    device ELEMENT* c [[buffer(3)]],
                    device ELEMENT* d [[buffer(4)]])
{
    using operand = tensor<device OPERAND, dextents<int, 2>, tensor_inline>;
    using identity = reduction_operation_identity<ELEMENT>;
    constexpr auto descriptor = matmul2d_descriptor(32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto tile = op.get_destination_cooperative_tensor<operand, operand, ELEMENT>();
    auto rows = op.get_row_reduction_destination_cooperative_tensor<operand, operand, ELEMENT>();
    auto columns = op.get_column_reduction_destination_cooperative_tensor<operand, operand, ELEMENT>();
    tensor<device ELEMENT, dextents<int, 2>, tensor_inline> all(x, dextents<int, 2>(32, 32));
    vector to_a(a, dextents<int, 1>(32)), to_b(b, dextents<int, 1>(32));
    tile.load(all);
#if defined(SUMS)
    reduce_rows(tile, rows);
    rows.store(to_a);
    reduce_columns(tile, columns, reduction_operation::sum, ELEMENT(5));
    columns.store(to_b);
#else
    vector to_c(c, dextents<int, 1>(32)), to_d(d, dextents<int, 1>(32));
    reduce_rows(tile, rows, reduction_operation::max, identity::max_identity);
    rows.store(to_a);
    reduce_rows(tile, rows, reduction_operation::min, identity::min_identity);
    rows.store(to_b);
    reduce_columns(tile, columns, reduction_operation::max, identity::max_identity);
    columns.store(to_c);
    reduce_columns(tile, columns, reduction_operation::min, identity::min_identity);
    columns.store(to_d);
#endif
}
