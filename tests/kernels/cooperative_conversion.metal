// A product as the left input of the next one, twice in a row, with the query and the way through threadgroup memory.
//
// kernel: chain
// arg 0: tensor float (32, 16) = random(1)
// arg 1: tensor float (32, 32) = random(2)
// arg 2: tensor float (32, 32) = random(3)
// arg 3: tensor float (32, 16) = zeros
// threads: 64 1 1
// expect 3: formula "sum(j, 0, 32, sum(k, 0, 32, a0[floor(i / 32) * 32 + k] * a1[k * 32 + j]) * a2[j * 32 + i % 32])"
// tolerance: abs 1e-4 rel 1e-4
// run: converted
// run: through memory
// option: force-incompatible

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void chain(tensor<device float, dextents<int, 2>> a [[buffer(0)]],
                  tensor<device float, dextents<int, 2>> b [[buffer(1)]],
                  tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                  tensor<device float, dextents<int, 2>> d [[buffer(3)]],
                  uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup float memory[2][16 * 32];
    if (simdgroup != 1) {
        return;  // the second SIMD-group works alone
    }
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 32);
    matmul2d<descriptor, execution_simdgroup> op;
    auto first = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, first);

    using input_t = decltype(op.get_left_input_cooperative_tensor<float, float, float>());
    auto second = op.get_destination_cooperative_tensor<input_t, decltype(c), float>();
    if (op.is_compatible_as_left_input<float, float, float>(first)) {
        auto left = op.get_left_input_cooperative_tensor<float, float, float>(first);
        op.run(left, c, second);
    } else {
        tensor<threadgroup float, dextents<int, 2>, tensor_inline> tile(memory[simdgroup], dextents<int, 2>(32, 16));
        first.store(tile);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        auto left = op.get_left_input_cooperative_tensor<float, float, float>();
        left.load(tile);
        op.run(left, c, second);
    }
    second.store(d);
}
