// Session listing at 10:27 as it was shown: the scope is the bare name of a class template.
//
// kernel: scores
// error: * execution_simdgroups<N>

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
    matmul2d<qk_descriptor, execution_simdgroups> qk_op;

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
