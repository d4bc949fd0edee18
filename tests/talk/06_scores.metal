// Session listing at 10:27: each SIMD-group multiplies its own rows of Q by a block of keys into a cooperative tensor.
// The descriptor's arguments, elided in the session, need a transposed right operand: K is stored with its rows along D.
//
// kernel: scores
// arg 0: tensor half (64, 32) = random(1)
// arg 1: tensor half (64, 96) = random(2)
// arg 2: tensor half (64, 96) = random(3)
// arg 3: tensor float (96, 32) = zeros
// grid: threadgroups 3 1 1
// threads: 64 1 1
// expect 3: formula "sum(d, 0, 64, a0[floor(i / 96) * 64 + d] * a1[(i % 96) * 64 + d]) + a2[(i % 96) * 64]"

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int D = 64;
constant constexpr int ROWS = 16;
constant constexpr int BK = 32;

kernel void scores(tensor<device half, dextents<int, 2>> queries [[buffer(0)]],
                   tensor<device half, dextents<int, 2>> keys [[buffer(1)]],
                   tensor<device half, dextents<int, 2>> values [[buffer(2)]],
                   tensor<device float, dextents<int, 2>> out [[buffer(3)]],
                   uint2 tgid [[threadgroup_position_in_grid]],
                   uint sgid [[simdgroup_index_in_threadgroup]])
{
    const int key0 = tgid.x * BK;

    constexpr auto qk_descriptor = matmul2d_descriptor(ROWS, BK, D, false, true);
    matmul2d<qk_descriptor, execution_simdgroup> qk_op;

    auto q_tile = queries.slice<D, ROWS>(0, sgid * ROWS);
    auto k_tile = keys.slice<D, BK>(0, key0);
    auto v_tile = values.slice<D, BK>(0, key0);

    auto score_tile = qk_op.get_destination_cooperative_tensor<decltype(q_tile), decltype(k_tile), float>();
    qk_op.run(q_tile, k_tile, score_tile);

    // What the session does with the tile comes in the later listings; here it is written out, V's first column added.
    for (auto it = score_tile.begin(); it != score_tile.end(); it++) {
        auto at = score_tile.get_multidimensional_index(it);
        *it = *it + float(v_tile[0, at[0]]);
    }
    score_tile.store(out.slice(key0, int(sgid * ROWS)));
}
