// Every row of operand types of convolution2d (reference 7.3), with a destination in memory and with a cooperative one. Sizes are multiples of
// nothing, tiles overhang, the kernel is 3 × 3 with "same" borders.
//
// kernel: types
// grid: threadgroups 3 2 2
// threads: 64 1 1
// expect 2: conv2d(0, 1)
//
// run: half, half, half
// flags: -D ACT=half -D WEI=half -D DST=half
// arg 0: tensor half (5, 10, 7, 2) = random(1)
// arg 1: tensor half (13, 5, 3, 3) = random(2)
// arg 2: tensor half (13, 10, 7, 2) = fill(9)
//
// run: half, half, float
// flags: -D ACT=half -D WEI=half -D DST=float
// arg 0: tensor half (5, 10, 7, 2) = random(1)
// arg 1: tensor half (13, 5, 3, 3) = random(2)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: float, float, float
// flags: -D ACT=float -D WEI=float -D DST=float
// arg 0: tensor float (5, 10, 7, 2) = random(1)
// arg 1: tensor float (13, 5, 3, 3) = random(2)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: bfloat, bfloat, bfloat
// flags: -D ACT=bfloat -D WEI=bfloat -D DST=bfloat
// arg 0: tensor bfloat (5, 10, 7, 2) = random(1)
// arg 1: tensor bfloat (13, 5, 3, 3) = random(2)
// arg 2: tensor bfloat (13, 10, 7, 2) = fill(9)
//
// run: bfloat, bfloat, float
// flags: -D ACT=bfloat -D WEI=bfloat -D DST=float
// arg 0: tensor bfloat (5, 10, 7, 2) = random(1)
// arg 1: tensor bfloat (13, 5, 3, 3) = random(2)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: int8, int8, half
// flags: -D ACT=char -D WEI=char -D DST=half
// arg 0: tensor char (5, 10, 7, 2) = random(1)
// arg 1: tensor char (13, 5, 3, 3) = random(2)
// arg 2: tensor half (13, 10, 7, 2) = fill(9)
//
// run: int8, int8, float
// flags: -D ACT=char -D WEI=char -D DST=float
// arg 0: tensor char (5, 10, 7, 2) = random(1, -128, 128)
// arg 1: tensor char (13, 5, 3, 3) = random(2, -128, 128)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: int8, int8, int
// flags: -D ACT=char -D WEI=char -D DST=int
// arg 0: tensor char (5, 10, 7, 2) = random(1, -128, 128)
// arg 1: tensor char (13, 5, 3, 3) = random(2, -128, 128)
// arg 2: tensor int (13, 10, 7, 2) = fill(9)
//
// run: int8, uint8, int
// flags: -D ACT=char -D WEI=uchar -D DST=int
// arg 0: tensor char (5, 10, 7, 2) = random(1, -128, 128)
// arg 1: tensor uchar (13, 5, 3, 3) = random(2, 0, 256)
// arg 2: tensor int (13, 10, 7, 2) = fill(9)
//
// run: int8, uint8, float
// flags: -D ACT=char -D WEI=uchar -D DST=float
// arg 0: tensor char (5, 10, 7, 2) = random(1, -128, 128)
// arg 1: tensor uchar (13, 5, 3, 3) = random(2, 0, 256)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: int8, uint8, half
// flags: -D ACT=char -D WEI=uchar -D DST=half
// arg 0: tensor char (5, 10, 7, 2) = random(1)
// arg 1: tensor uchar (13, 5, 3, 3) = random(2)
// arg 2: tensor half (13, 10, 7, 2) = fill(9)
//
// run: uint8, int8, int
// flags: -D ACT=uchar -D WEI=char -D DST=int
// arg 0: tensor uchar (5, 10, 7, 2) = random(1, 0, 256)
// arg 1: tensor char (13, 5, 3, 3) = random(2, -128, 128)
// arg 2: tensor int (13, 10, 7, 2) = fill(9)
//
// run: uint8, int8, float
// flags: -D ACT=uchar -D WEI=char -D DST=float
// arg 0: tensor uchar (5, 10, 7, 2) = random(1, 0, 256)
// arg 1: tensor char (13, 5, 3, 3) = random(2, -128, 128)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: uint8, int8, half
// flags: -D ACT=uchar -D WEI=char -D DST=half
// arg 0: tensor uchar (5, 10, 7, 2) = random(1)
// arg 1: tensor char (13, 5, 3, 3) = random(2)
// arg 2: tensor half (13, 10, 7, 2) = fill(9)
//
// run: uint8, uint8, int
// flags: -D ACT=uchar -D WEI=uchar -D DST=int
// arg 0: tensor uchar (5, 10, 7, 2) = random(1, 0, 256)
// arg 1: tensor uchar (13, 5, 3, 3) = random(2, 0, 256)
// arg 2: tensor int (13, 10, 7, 2) = fill(9)
//
// run: uint8, uint8, float
// flags: -D ACT=uchar -D WEI=uchar -D DST=float
// arg 0: tensor uchar (5, 10, 7, 2) = random(1, 0, 256)
// arg 1: tensor uchar (13, 5, 3, 3) = random(2, 0, 256)
// arg 2: tensor float (13, 10, 7, 2) = fill(9)
//
// run: uint8, uint8, half
// flags: -D ACT=uchar -D WEI=uchar -D DST=half
// arg 0: tensor uchar (5, 10, 7, 2) = random(1)
// arg 1: tensor uchar (13, 5, 3, 3) = random(2)
// arg 2: tensor half (13, 10, 7, 2) = fill(9)

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int TILE = 4;

kernel void types(tensor<device ACT, dextents<int, 4>> activation [[buffer(0)]],
                  tensor<device WEI, dextents<int, 4>> weights [[buffer(1)]],
                  tensor<device DST, dextents<int, 4>> destination [[buffer(2)]],
                  uint3 tile [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = convolution2d_descriptor(int4(13, TILE, TILE, 1), int4(5, 10, 7, 1), int2(3, 3));
    convolution2d<descriptor, execution_simdgroups<2>> op;
    op.set_offsets(int2(tile.x, tile.y) * TILE);
    auto source = activation.slice(0, 0, 0, int(tile.z));
    auto out = destination.slice(0, int(tile.x) * TILE, int(tile.y) * TILE, int(tile.z));
    // Every other threadgroup goes through a cooperative tensor.
    if (tile.x % 2 == 0) {
        op.run(source, weights, out);
    } else {
        auto result = op.get_destination_cooperative_tensor<decltype(source), decltype(weights), DST>();
        op.run(source, weights, result);
        result.store(out);
    }
}
