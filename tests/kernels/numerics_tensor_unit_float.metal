// Strict float is a chain of fused multiply-adds along K; relaxed float loses the low 13 bits of its significands first.
//
// arg 0: buffer float (16, 16) = fill(1.00048828125)
// arg 1: buffer float (16, 16) = fill(1)
// arg 2: buffer float (16, 16) = fill(9)
// arg 3: buffer float (16, 16) = fill(9)
// threads: 32 1 1
// option: numerics=tensor-unit
// tolerance: exact
// expect 2: fill(16.0078125)
// expect 3: fill(16)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(device float* a [[buffer(0)]],
                    device float* b [[buffer(1)]],
                    device float* c [[buffer(2)]],
                    device float* d [[buffer(3)]])
{
    constexpr matmul2d_descriptor strict(16, 16, 16);
    constexpr matmul2d_descriptor relaxed(16, 16, 16, false, false, true);
    matmul2d<strict, execution_simdgroup> exact;
    matmul2d<relaxed, execution_simdgroup> truncated;
    tensor left(a, dextents<int, 2>(16, 16));
    tensor right(b, dextents<int, 2>(16, 16));
    tensor first(c, dextents<int, 2>(16, 16));
    auto second = truncated.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    exact.run(left, right, first);
    truncated.run(left, right, second);
    tensor out(d, dextents<int, 2>(16, 16));
    second.store(out);
}
