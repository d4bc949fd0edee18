// `run` in a branch that a part of the SIMD-group takes, and in a threadgroup whose last SIMD-group is not whole.
//
// option: sanitize
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (16, 16) = random(2)
// arg 2: buffer float (16, 16) = zeros
// run: branch
// finding: S0202 at 26: only 16 of the 32 threads of its scope run it
// run: partial SIMD-group
// flags: -D ALL
// threads: 40 1 1
// finding: S0203 at 26: dispatch whole SIMD-groups
// finding: S0102 at 26: give each SIMD-group a tile of its own
// run: whole
// flags: -D ALL
// expect 2: matmul(0, 1)
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;
kernel void product(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]], uint t [[thread_index_in_threadgroup]], uint s [[simdgroup_index_in_threadgroup]])
{
    auto A = tensor(a, dextents<int, 2>(16, 16)); auto B = tensor(b, dextents<int, 2>(16, 16)); auto C = tensor(c, dextents<int, 2>(16, 16));
#ifndef ALL
    if (t < 16)
#endif
    matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroup>{}.run(A, B, C);
}
