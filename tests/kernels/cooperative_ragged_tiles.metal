// Tiles whose sides are no multiples of a fragment, over tensors that are smaller still: what is outside the tensor loads as zero and is not
// stored; padding takes no part in loops over elements and in reductions.
//
// kernel: ragged
// threads: 32 1 1
// option: lenient
//
// expect 1: formula "i % 21 < 19 && i < 21 * 11 ? 2 * a0[i % 21 + 19 * floor(i / 21)] + 1 : 1"
// expect 2: formula "i < 17 * 11 ? 2 * a0[i % 17 + 19 * floor(i / 17)] + 1 : 1"
// expect 3: formula "i < 13 ? (i < 11 ? maxof(x, 0, 19, 2 * a0[x + 19 * i] + 1) : 1) : 9"
// expect 4: formula "i < 21 ? 3 + (i < 19 ? sum(y, 0, 11, 2 * a0[i + 19 * y] + 1) + 2 : 13) : 9"
// expect 5: formula "100 * floor(i / 21) + i % 21"
//
// run: float
// flags: -D ELEMENT=float -D OPERAND=half
// arg 0: tensor float (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor float (21, 13) = fill(9)
// arg 2: tensor float (17, 12) = fill(9)
// arg 3: buffer float[16] = fill(9)
// arg 4: buffer float[24] = fill(9)
// arg 5: tensor float (21, 13) = fill(9)
// run: float, by slot
// flags: -D ELEMENT=float -D OPERAND=half -D SLOTS
// arg 0: tensor float (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor float (21, 13) = fill(9)
// arg 2: tensor float (17, 12) = fill(9)
// arg 3: buffer float[16] = fill(9)
// arg 4: buffer float[24] = fill(9)
// arg 5: tensor float (21, 13) = fill(9)
// run: strict float
// flags: -D ELEMENT=float -D OPERAND=float
// arg 0: tensor float (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor float (21, 13) = fill(9)
// arg 2: tensor float (17, 12) = fill(9)
// arg 3: buffer float[16] = fill(9)
// arg 4: buffer float[24] = fill(9)
// arg 5: tensor float (21, 13) = fill(9)
// run: strict float, by slot
// flags: -D ELEMENT=float -D OPERAND=float -D SLOTS
// arg 0: tensor float (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor float (21, 13) = fill(9)
// arg 2: tensor float (17, 12) = fill(9)
// arg 3: buffer float[16] = fill(9)
// arg 4: buffer float[24] = fill(9)
// arg 5: tensor float (21, 13) = fill(9)
// run: half
// flags: -D ELEMENT=half -D OPERAND=half
// arg 0: tensor half (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor half (21, 13) = fill(9)
// arg 2: tensor half (17, 12) = fill(9)
// arg 3: buffer half[16] = fill(9)
// arg 4: buffer half[24] = fill(9)
// arg 5: tensor half (21, 13) = fill(9)
// run: half, by slot
// flags: -D ELEMENT=half -D OPERAND=half -D SLOTS
// arg 0: tensor half (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor half (21, 13) = fill(9)
// arg 2: tensor half (17, 12) = fill(9)
// arg 3: buffer half[16] = fill(9)
// arg 4: buffer half[24] = fill(9)
// arg 5: tensor half (21, 13) = fill(9)
// run: int
// flags: -D ELEMENT=int -D OPERAND=char
// arg 0: tensor int (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor int (21, 13) = fill(9)
// arg 2: tensor int (17, 12) = fill(9)
// arg 3: buffer int[16] = fill(9)
// arg 4: buffer int[24] = fill(9)
// arg 5: tensor int (21, 13) = fill(9)
// run: int, by slot
// flags: -D ELEMENT=int -D OPERAND=char -D SLOTS
// arg 0: tensor int (19, 11) = formula "(i * 7) % 23 - 9"
// arg 1: tensor int (21, 13) = fill(9)
// arg 2: tensor int (17, 12) = fill(9)
// arg 3: buffer int[16] = fill(9)
// arg 4: buffer int[24] = fill(9)
// arg 5: tensor int (21, 13) = fill(9)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

using plane = tensor<device ELEMENT, dextents<int, 2>>;
using vector = tensor<device ELEMENT, dextents<int, 1>, tensor_inline>;

kernel void ragged(plane x [[buffer(0)]],
                   plane whole [[buffer(1)]],
                   plane part [[buffer(2)]],
                   device ELEMENT* maxima [[buffer(3)]],
                   device ELEMENT* sums [[buffer(4)]],
                   plane places [[buffer(5)]])
{
    using operand = tensor<device OPERAND, dextents<int, 2>, tensor_inline>;
    constexpr matmul2d_descriptor descriptor(13, 21, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    auto tile = op.get_destination_cooperative_tensor<operand, operand, ELEMENT>();
    auto rows = op.get_row_reduction_destination_cooperative_tensor<operand, operand, ELEMENT>();
    auto columns = op.get_column_reduction_destination_cooperative_tensor<operand, operand, ELEMENT>();
    tile.load(x);
#ifdef SLOTS
    // The order of slots takes part, so these are no loops over elements.
    ushort before = 0;
    for (ushort i = 0; i < tile.get_capacity(); ++i) {
        if (tile.is_valid_element(i)) {
            tile[i] = tile[i] * ELEMENT(2) + ELEMENT(1 + before - i);
        }
        before = i + 1;
    }
#else
    for (ushort i = 0; i < tile.get_capacity(); ++i) {
        if (tile.is_valid_element(i)) {
            tile[i] = tile[i] * ELEMENT(2) + ELEMENT(1);
        }
    }
#endif
    tile.store(whole);
    tile.store(part);
    reduce_rows(tile, rows, reduction_operation::max, ELEMENT(-1000));
    rows.store(vector(maxima, dextents<int, 1>(16)));
    reduce_columns(tile, columns, reduction_operation::sum, ELEMENT(3));
    columns.store(vector(sums, dextents<int, 1>(24)));
#ifdef SLOTS
    before = 0;
    for (ushort i = 0; i < tile.get_capacity(); ++i) {
        const auto at = tile.get_multidimensional_index(i);
        if (tile.is_valid_element(i)) {
            tile[i] = ELEMENT(100 * at[1] + at[0] + before - i);
        }
        before = i + 1;
    }
#else
    for (ushort i = 0; i < tile.get_capacity(); ++i) {
        const auto at = tile.get_multidimensional_index(i);
        if (tile.is_valid_element(i)) {
            tile[i] = ELEMENT(100 * at[1] + at[0]);
        }
    }
#endif
    tile.store(places);
}
