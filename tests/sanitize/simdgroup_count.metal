// An operation of four SIMD-groups, dispatched with two.
//
// option: sanitize
// arg 0: buffer half (32, 32) = random(1)
// arg 1: buffer half (32, 32) = random(2)
// arg 2: buffer float (32, 32) = zeros
// threads: 64 1 1
// finding: S0203 at 19: dispatch 128 threads a threadgroup

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]])
{
    auto A = tensor(a, dextents<int, 2>(32, 32)); auto B = tensor(b, dextents<int, 2>(32, 32));
    auto C = tensor(c, dextents<int, 2>(32, 32));
    matmul2d<matmul2d_descriptor(32, 32, 32), execution_simdgroups<4>>{}.run(A, B, C);
}
