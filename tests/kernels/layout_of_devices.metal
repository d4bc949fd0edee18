// Where known devices hold the elements of cooperative tensors: layout R for tensor-unit types, layout S for strict float.
// Each lane writes 1 if all its slots are where the kernel says, for ten tensors. Another legal layout gives 0.
//
// arg 0: buffer uint[320] = fill(7)
//
// run: device
// option: layout=device
// expect 0: fill(1)
//
// run: permuted
// option: layout=permuted
// expect 0: zeros

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

// Row and column of a slot of a tile of `Rows` rows: 16 × 16 fragments of 8 slots.
template <int Rows>
static ushort2 in_fragments(ushort lane, ushort slot)
{
    const ushort row = ((lane >> 2) & 4) | ((lane >> 1) & 3);
    const ushort column = (((lane >> 2) & 2) | (lane & 1)) * 4;
    const ushort block = slot >> 2;
    return ushort2(column + (slot & 3) + 16 * (block / (Rows / 8)), row + 8 * (block % (Rows / 8)));
}

// The same of a tile of `Columns` columns in 8 × 8 blocks of 2 slots.
template <int Columns>
static ushort2 in_blocks(ushort lane, ushort slot)
{
    const ushort column = 2 * (lane & 1) + 4 * ((lane >> 3) & 1);
    const ushort row = ((lane >> 1) & 3) | ((lane >> 2) & 4);
    const ushort at = slot >> 1;
    return ushort2(column + (slot & 1) + 8 * (at % (Columns / 8)), row + 8 * (at / (Columns / 8)));
}

template <bool Strict, int Rows, int Columns, typename Tile>
static uint agrees(thread Tile& tile, ushort lane)
{
    uint good = 0;
    for (ushort i = 0; i < Rows * Columns / 32; ++i) {
        const auto at = tile.get_multidimensional_index(i);
        ushort2 want;
        if constexpr (Strict)
            want = in_blocks<Columns>(lane, i);
        else
            want = in_fragments<Rows>(lane, i);
        good += tile.is_valid_element(i) && at[0] == want.x && at[1] == want.y;
    }
    return good == Rows * Columns / 32 && tile.get_capacity() == Rows * Columns / 32;
}

kernel void places(device uint* out [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]])
{
    constexpr matmul2d_descriptor plain(16, 32, 16);
    constexpr matmul2d_descriptor turned(16, 32, 16, true, true);
    constexpr matmul2d_descriptor square(32, 32, 32);
    constexpr matmul2d_descriptor relaxed(32, 32, 32, false, false, true);
    matmul2d<plain, execution_simdgroup> op;
    matmul2d<turned, execution_simdgroup> op_turned;
    matmul2d<square, execution_simdgroup> op_square;
    matmul2d<relaxed, execution_simdgroup> op_relaxed;

    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    auto right = op.get_right_input_cooperative_tensor<half, half, float>();
    auto left_turned = op_turned.get_left_input_cooperative_tensor<half, half, float>();
    auto right_turned = op_turned.get_right_input_cooperative_tensor<half, half, float>();
    auto product = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    auto wide_left = op_square.get_left_input_cooperative_tensor<bfloat, bfloat, float>();
    auto wide_right = op_square.get_right_input_cooperative_tensor<bfloat, bfloat, float>();
    auto wide = op_square.get_destination_cooperative_tensor<decltype(wide_left), decltype(wide_right), float>();
    auto strict_left = op_square.get_left_input_cooperative_tensor<float, float, float>();
    auto strict_right = op_square.get_right_input_cooperative_tensor<float, float, float>();
    auto strict = op_square.get_destination_cooperative_tensor<decltype(strict_left), decltype(strict_right), float>();
    auto relaxed_left = op_relaxed.get_left_input_cooperative_tensor<float, float, float>();
    auto relaxed_right = op_relaxed.get_right_input_cooperative_tensor<float, float, float>();
    auto truncated
        = op_relaxed.get_destination_cooperative_tensor<decltype(relaxed_left), decltype(relaxed_right), float>();

    out[lane] = agrees<false, 16, 16>(left, lane);
    out[32 + lane] = agrees<false, 16, 32>(right, lane);
    out[64 + lane] = agrees<false, 16, 16>(left_turned, lane);
    out[96 + lane] = agrees<false, 32, 16>(right_turned, lane);
    out[128 + lane] = agrees<false, 16, 32>(product, lane);
    out[160 + lane] = agrees<false, 32, 32>(wide, lane);
    out[192 + lane] = agrees<false, 32, 32>(truncated, lane);
    out[224 + lane] = agrees<true, 32, 32>(strict, lane);
    out[256 + lane] = agrees<true, 32, 32>(strict_left, lane);
    out[288 + lane] = agrees<false, 32, 32>(wide_right, lane);
}
