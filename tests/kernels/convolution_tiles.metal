// What is done around a convolution: accumulation onto a bias, tiles of output channels, threadgroup operands, and work on the elements of
// the cooperative destination.
//
// kernel: tiles
// grid: threadgroups 2 3 1
// threads: 64 1 1
// arg 0: buffer half (9, 8, 6, 1) = random(1)
// arg 1: buffer half (40, 9, 3, 3) = random(2)
// arg 2: buffer float (40, 8, 6, 1) = random(3)
// arg 3: buffer float[40] = random(4)
//
// run: added to what is there
// flags: -D WHAT=0
// expect 2: conv2d(0, 1) accumulate
//
// run: a bias through a view with strides of zero
// flags: -D WHAT=1
// expect 2: conv2d(0, 1) bias 3
//
// run: a bias loaded from a vector
// flags: -D WHAT=2
// expect 2: conv2d(0, 1) bias 3
//
// run: elements by slot
// flags: -D WHAT=3
// expect 2: formula "(i % 40) + 100 * floor(i / 40) % 800 + 10000 * floor(i / 320)"
//
// run: operands in threadgroup memory
// flags: -D WHAT=4
// expect 2: conv2d(0, 1)
//
// run: loaded, doubled by iterators, stored
// flags: -D WHAT=5
// expect 2: formula "2 * a2[i]"

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

using shape = dextents<int, 4>;
constant constexpr int CIN = 9, COUT = 40, W = 8, H = 6, PART = 24, ROWS = 2;

kernel void tiles(device half* x [[buffer(0)]],
                  device half* w [[buffer(1)]],
                  device float* y [[buffer(2)]],
                  device float* bias [[buffer(3)]],
                  uint2 tile [[threadgroup_position_in_grid]],
                  uint thread_index [[thread_index_in_threadgroup]])
{
    auto activation = tensor<device half, shape, tensor_inline>(x, shape(CIN, W, H, 1));
    auto all_weights = tensor<device half, shape, tensor_inline>(w, shape(COUT, CIN, 3, 3));
    auto all = tensor<device float, shape, tensor_inline>(y, shape(COUT, W, H, 1));
    // A part of the output channels, and two rows.
    auto weights = all_weights.slice(int(tile.x) * PART, 0, 0, 0);
    auto out = all.slice(int(tile.x) * PART, 0, int(tile.y) * ROWS, 0);

    constexpr auto plain = convolution2d_descriptor(int4(PART, W, ROWS, 1), int4(CIN, W, H, 1), int2(3, 3));
    constexpr auto adding = convolution2d_descriptor(
        int4(PART, W, ROWS, 1), int4(CIN, W, H, 1), int2(3, 3), convolution2d_activation_layout::nhwc,
        convolution2d_weights_layout::hwio, int2(1, 1), int2(1, 1), 1, false,
        convolution2d_descriptor::mode::multiply_accumulate);
    using multiply = convolution2d<plain, execution_simdgroups<2>>;
    using add = convolution2d<adding, execution_simdgroups<2>>;
    const int2 offsets(0, tile.y * ROWS);

#if WHAT == 0
    add op;
    op.set_offsets(offsets);
    op.run(activation, weights, out);
#elif WHAT == 1 || WHAT == 2
    add op;
    op.set_offsets(offsets);
    auto result = op.get_destination_cooperative_tensor<decltype(activation), decltype(weights), float>();
#if WHAT == 1
    auto view = tensor<device float, shape, tensor_inline>(bias, shape(COUT, W, H, 1), array<int, 4>({1, 0, 0, 0}));
    result.load(view.slice(int(tile.x) * PART, 0, 0, 0));
#else
    auto view = tensor<device float, dextents<int, 1>, tensor_inline>(bias, dextents<int, 1>(COUT));
    result.load(view.slice(int(tile.x) * PART));
#endif
    op.run(activation, weights, result);
    result.store(out);
#elif WHAT == 3
    multiply op;
    auto result = op.get_destination_cooperative_tensor<decltype(activation), decltype(weights), float>();
    static_assert(result.get_rank() == 4, "channels, x, y, batch");
    #pragma unroll
    for (uint16_t i = 0; i < result.get_capacity(); ++i) {
        if (result.is_valid_element(i)) {
            auto at = result.get_multidimensional_index(i);
            result[i] = tile.x * PART + at[0] + 100 * (at[1]) + 10000 * (at[2] + tile.y * ROWS) + 1000000 * at[3];
        }
    }
    result.store(out);
#elif WHAT == 4
    threadgroup half source[CIN * W * H];
    threadgroup half kernels[PART * CIN * 9];
    for (int i = thread_index; i < CIN * W * H; i += 64)
        source[i] = x[i];
    for (int i = thread_index; i < PART * CIN * 9; i += 64)
        kernels[i] = i % PART + tile.x * PART < COUT ? w[i % PART + tile.x * PART + i / PART * COUT] : 0.0h;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    auto near = tensor<threadgroup half, shape, tensor_inline>(source, shape(CIN, W, H, 1));
    auto near_weights = tensor<threadgroup half, extents<int, PART, CIN, 3, 3>, tensor_inline>(
        kernels, extents<int, PART, CIN, 3, 3>());
    multiply op;
    op.set_offsets(offsets);
    op.run(near, near_weights, out);
#else
    multiply op;
    auto result = op.get_destination_cooperative_tensor<decltype(activation), decltype(weights), float>();
    result.load(out);
    for (auto it = result.begin(); it != result.end(); ++it)
        if (it.is_valid_element())
            *it = 2.0f * *it;
    result.store(out);
#endif
}
