// A product becomes the right operand of the next one: converted where the layouts agree, through threadgroup memory otherwise.
// D = C · (A · B) with A·B of 16 × 32 as K × N.
//
// arg 0: tensor half (32, 16) = random(1)
// arg 1: tensor half (32, 32) = random(2)
// arg 2: tensor float (16, 16) = random(3)
// arg 3: tensor float (32, 16) = zeros
// threads: 32 1 1
// expect 3: formula "sum(j, 0, 16, a2[floor(i / 32) * 16 + j] * sum(k, 0, 32, a0[j * 32 + k] * a1[k * 32 + i % 32]))"
// tolerance: abs 1e-3 rel 1e-4
//
// run: converted
// run: through memory
// option: force-incompatible
// run: another layout
// option: layout=permuted

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void chain(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                  tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                  tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                  tensor<device float, dextents<int, 2>> d [[buffer(3)]])
{
    constexpr matmul2d_descriptor first(16, 32, 32);
    constexpr matmul2d_descriptor second(16, 32, 16);
    matmul2d<first, execution_simdgroup> op;
    matmul2d<second, execution_simdgroup> next;
    threadgroup float memory[16 * 32];
    auto inner = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, inner);

    auto left = next.get_left_input_cooperative_tensor<float, float, float>();
    left.load(c);
    auto right = next.get_right_input_cooperative_tensor<float, float, float>();
    auto out = next.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    if (next.is_compatible_as_right_input<float, float, float>(inner)) {
        auto converted = next.get_right_input_cooperative_tensor<float, float, float>(inner);
        next.run(left, converted, out);
    } else {
        tensor through(memory, dextents<int, 2>(32, 16));
        inner.store(through);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        right.load(through);
        next.run(left, right, out);
    }
    out.store(d);
}
