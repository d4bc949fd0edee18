// A convolution without borders by tiles: each tile slices its part of the activation; at the edge the slice is moved back inside, and the
// offsets take the difference.
//
// kernel: edge
// grid: threadgroups 3 2 1
// threads: 128 1 1
// arg 0: buffer half (7, 12, 9, 1) = random(1)
// arg 1: buffer half (11, 7, 3, 3) = random(2)
// arg 2: buffer half (11, 10, 7, 1) = fill(9)
// expect 2: conv2d(0, 1) offsets (1, 1)

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

using shape = dextents<int, 4>;
constant constexpr int CIN = 7, COUT = 11, W = 10, H = 7, TILE = 4, SOURCE = TILE + 2;

kernel void edge(device half* x [[buffer(0)]],
                 device half* w [[buffer(1)]],
                 device half* y [[buffer(2)]],
                 uint2 tile [[threadgroup_position_in_grid]])
{
    auto activation = tensor<device half, shape, tensor_inline>(x, shape(CIN, W + 2, H + 2, 1));
    auto weights = tensor<device half, shape, tensor_inline>(w, shape(COUT, CIN, 3, 3));
    auto destination = tensor<device half, shape, tensor_inline>(y, shape(COUT, W, H, 1));
    constexpr auto descriptor = convolution2d_descriptor(int4(COUT, TILE, TILE, 1), int4(CIN, SOURCE, SOURCE, 1), int2(3, 3));
    convolution2d<descriptor, execution_simdgroups<4>> op;

    const int2 origin = int2(tile) * TILE;
    const int2 from = max(int2(0), min(origin, int2(W + 2 - SOURCE, H + 2 - SOURCE)));
    op.set_offsets(int2(1, 1) + origin - from);
    auto source = activation.slice<CIN, SOURCE, SOURCE, 1>(0, from.x, from.y, 0);
    auto result = op.get_destination_cooperative_tensor<decltype(source), decltype(weights), half>();
    op.run(source, weights, result);
    auto out = destination.slice(0, origin.x, origin.y, 0);
    result.store(out);
}
