// What ends a dispatch has a code too.
//
// option: sanitize
// arg 0: buffer float[64] = iota
// arg 1: buffer float[64] = zeros
// threads: 64 1 1
// run: outside
// kernel: outside
// finding: S0601 at 27: threads past the end have to be masked off
// run: misaligned
// kernel: misaligned
// finding: S0603 at 31: index that keeps the alignment
// run: static extent past the end
// kernel: overhang
// threads: 32
// finding: S0602 at 38: take a slice with dynamic extents
// run: tensor of another format
// kernel: unfit
// arg 2: handles 10
// arg 10: tensor float (4, 4) = iota
// finding: S0605 at 43: element type
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;

kernel void outside(device float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_position_in_grid]]) {
    y[t] = x[t + 1];
}
kernel void misaligned(device float* x [[buffer(0)]], device float* y [[buffer(1)]])
{
    y[0] = (*reinterpret_cast<device float2*>(x + 1)).x;
}
kernel void overhang(device float* x [[buffer(0)]], device float* y [[buffer(1)]])
{
    auto X = tensor(x, dextents<int, 2>(8, 8));
    auto S = X.slice<16, 16>(0, 0);
    auto Y = tensor(y, dextents<int, 2>(16, 16));
    matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroup>{}.run(S, S, Y);
}
struct table { tensor<device half, dextents<int, 2>> t; };
kernel void unfit(constant table& tensors [[buffer(2)]], device float* y [[buffer(1)]])
{
    y[0] = tensors.t[0, 0];
}
