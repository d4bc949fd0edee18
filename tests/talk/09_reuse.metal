// Session listing at 12:33: the scores become the left input of the second product, in registers if the layout allows it, else
// through threadgroup memory. Both ways must give the same. The destination is cleared first, since the second product
// accumulates; the session elides that.
//
// kernel: weighted_values
// arg 0: tensor half (64, 32) = random(31)
// arg 1: tensor half (64, 32) = random(32)
// arg 2: tensor half (64, 32) = random(33)
// arg 3: tensor float (64, 32) = zeros
// threads: 64 1 1
// expect 3: formula "sum(k, 0, 32, sum(d, 0, 64, a0[floor(i / 64) * 64 + d] * a1[k * 64 + d]) * a2[k * 64 + i % 64])"
// tolerance: abs 1e-4 rel 1e-4
// run: converted
// run: through memory
// option: force-incompatible

#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

constant constexpr int D = 64;
constant constexpr int ROWS = 16;
constant constexpr int BK = 32;

kernel void weighted_values(tensor<device half, dextents<int, 2>> queries [[buffer(0)]],
                            tensor<device half, dextents<int, 2>> keys [[buffer(1)]],
                            tensor<device half, dextents<int, 2>> values [[buffer(2)]],
                            tensor<device float, dextents<int, 2>> out [[buffer(3)]],
                            uint sgid [[simdgroup_index_in_threadgroup]])
{
    threadgroup float scratch[2 * ROWS * BK];
    tensor<threadgroup float, dextents<int, 2>, tensor_inline> tile_memory(scratch + sgid * ROWS * BK,
                                                                           dextents<int, 2>(BK, ROWS));

    constexpr auto qk_descriptor = matmul2d_descriptor(ROWS, BK, D, false, true);
    matmul2d<qk_descriptor, execution_simdgroup> qk_op;

    auto q_tile = queries.slice<D, ROWS>(0, sgid * ROWS);
    auto k_tile = keys.slice<D, BK>(0, 0);
    auto v_tile = values.slice<D, BK>(0, 0);
    auto score_tile = qk_op.get_destination_cooperative_tensor<decltype(q_tile), decltype(k_tile), float>();
    qk_op.run(q_tile, k_tile, score_tile);

    constexpr auto sv_descriptor = matmul2d_descriptor(
        ROWS, D, BK, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<sv_descriptor, metal::execution_simdgroup> sv_op;

    using input_t = decltype(sv_op.get_left_input_cooperative_tensor<float, half, float>());
    auto sums = sv_op.get_destination_cooperative_tensor<input_t, decltype(v_tile), float>();
    for (auto it = sums.begin(); it != sums.end(); it++) {
        *it = 0.0f;
    }

    if (sv_op.is_compatible_as_left_input<float, half, float>(score_tile)) {
        auto score_input = sv_op.get_left_input_cooperative_tensor<float, half, float>(score_tile);
        sv_op.run(score_input, v_tile, sums);
    } else {
        score_tile.store(tile_memory);
        simdgroup_barrier(mem_flags::mem_threadgroup);

        auto score_input = sv_op.get_left_input_cooperative_tensor<float, half, float>();
        score_input.load(tile_memory);
        sv_op.run(score_input, v_tile, sums);
    }
    sums.store(out.slice(0, int(sgid * ROWS)));
}
