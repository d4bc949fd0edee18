// Loads of a vector into a tile of 32 columns and 16 rows: along the columns, or along the rows where its length is their number
// and not that of the columns; extents of 1 are repeated; what is past a dynamic extent is zero.
//
// arg 0: buffer float[64] = iota(1, 1)
// arg 1: buffer float (32, 16) = fill(9)
// arg 2: buffer float (32, 16) = fill(9)
// arg 3: buffer float (32, 16) = fill(9)
// arg 4: buffer float (32, 16) = fill(9)
// arg 5: buffer float (32, 16) = fill(9)
// arg 6: buffer float (16, 16) = fill(9)
// expect 1: formula "1 + i % 32"
// expect 2: formula "1 + floor(i / 32)"
// expect 3: fill(1)
// expect 4: formula "1 + floor(i / 32)"
// expect 5: formula "i % 32 < 7 ? 1 + i % 32 : 0"
// expect 6: formula "1 + i % 16"
//
// run: device
// run: permuted
// option: layout=permuted

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
using halves = tensor<device half, dextents<int, 2>, tensor_inline>;
using floats = tensor<device float, dextents<int, 2>, tensor_inline>;
using vector = tensor<device float, dextents<int, 1>, tensor_inline>;

kernel void loads(device float* x [[buffer(0)]],
                  device float* columns [[buffer(1)]],
                  device float* rows [[buffer(2)]],
                  device float* one [[buffer(3)]],
                  device float* repeated [[buffer(4)]],
                  device float* some [[buffer(5)]],
                  device float* square [[buffer(6)]])
{
    constexpr matmul2d_descriptor wide(16, 32, 16);
    constexpr matmul2d_descriptor even(16, 16, 16);
    matmul2d<wide, execution_simdgroup> op;
    matmul2d<even, execution_simdgroup> op_even;
    auto tile = op.get_destination_cooperative_tensor<halves, halves, float>();
    tile.load(vector(x, dextents<int, 1>(32)));
    tile.store(floats(columns, dextents<int, 2>(32, 16)));
    tile.load(vector(x, dextents<int, 1>(16)));
    tile.store(floats(rows, dextents<int, 2>(32, 16)));
    tile.load(floats(x, dextents<int, 2>(1, 1)));
    tile.store(floats(one, dextents<int, 2>(32, 16)));
    tile.load(floats(x, dextents<int, 2>(1, 16)));
    tile.store(floats(repeated, dextents<int, 2>(32, 16)));
    tile.load(vector(x, dextents<int, 1>(7)));
    tile.store(floats(some, dextents<int, 2>(32, 16)));
    auto square_tile = op_even.get_destination_cooperative_tensor<halves, halves, float>();
    square_tile.load(vector(x, dextents<int, 1>(16)));
    square_tile.store(floats(square, dextents<int, 2>(16, 16)));
}
