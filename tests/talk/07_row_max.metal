// Session listing at 11:18: a row reduction of the scores into a cooperative tensor of one value a row.
//
// kernel: row_maxima
// arg 0: tensor half (64, 32) = random(21)
// arg 1: tensor half (64, 32) = random(22)
// arg 2: tensor float (32) = zeros
// threads: 64 1 1
// expect 2: formula "maxof(k, 0, 32, sum(d, 0, 64, a0[i * 64 + d] * a1[k * 64 + d]))"

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int D = 64;
constant constexpr int ROWS = 16;
constant constexpr int BK = 32;

kernel void row_maxima(tensor<device half, dextents<int, 2>> queries [[buffer(0)]],
                       tensor<device half, dextents<int, 2>> keys [[buffer(1)]],
                       tensor<device float, dextents<int, 1>> out [[buffer(2)]],
                       uint sgid [[simdgroup_index_in_threadgroup]])
{
    constexpr auto qk_descriptor = matmul2d_descriptor(ROWS, BK, D, false, true);
    matmul2d<qk_descriptor, execution_simdgroup> qk_op;

    auto q_tile = queries.slice<D, ROWS>(0, sgid * ROWS);
    auto k_tile = keys.slice<D, BK>(0, 0);
    auto score_tile = qk_op.get_destination_cooperative_tensor<decltype(q_tile), decltype(k_tile), float>();
    qk_op.run(q_tile, k_tile, score_tile);

    auto tile_row_max =
        qk_op.get_row_reduction_destination_cooperative_tensor<decltype(q_tile), decltype(k_tile), float>();
    reduce_rows(score_tile, tile_row_max, reduction_operation::max, -INFINITY);
    tile_row_max.store(out.slice(int(sgid * ROWS)));
}
