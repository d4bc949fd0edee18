// Session listings at 11:18 and 11:56 as they were shown: the reduction writes one name, the loop reads another.
//
// kernel: exponentials
// error: * row_max
// error: * tile_row_max

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int D = 64;
constant constexpr int ROWS = 16;
constant constexpr int BK = 32;

kernel void exponentials(tensor<device half, dextents<int, 2>> queries [[buffer(0)]],
                         tensor<device half, dextents<int, 2>> keys [[buffer(1)]],
                         tensor<device float, dextents<int, 2>> out [[buffer(2)]],
                         uint sgid [[simdgroup_index_in_threadgroup]])
{
    constexpr auto qk_descriptor = matmul2d_descriptor(ROWS, BK, D, false, true);
    matmul2d<qk_descriptor, execution_simdgroup> qk_op;

    auto q_tile = queries.slice<D, ROWS>(0, sgid * ROWS);
    auto k_tile = keys.slice<D, BK>(0, 0);
    auto score_tile = qk_op.get_destination_cooperative_tensor<decltype(q_tile), decltype(k_tile), float>();
    qk_op.run(q_tile, k_tile, score_tile);

    // 11:18: the largest score of each row.
    auto tile_row_max =
        qk_op.get_row_reduction_destination_cooperative_tensor<decltype(q_tile), decltype(k_tile), float>();
    reduce_rows(score_tile, tile_row_max, reduction_operation::max, -INFINITY);

    // 11:56: each element minus its row's maximum, exponentiated.
    #pragma clang loop unroll(full)
    for (auto it = score_tile.begin(); it != score_tile.end(); it++) {
        auto row_it = row_max.map_iterator(it);
        *it = exp(*it - *row_it);
    }
    score_tile.store(out.slice(0, int(sgid * ROWS)));
}
