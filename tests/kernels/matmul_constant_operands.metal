// Both operands in constant memory, one of them as bytes of packed codes.
//
// arg 0: buffer half (32, 16) = random(1)
// arg 1: buffer uchar[256] = formula "(i * 37 + 11) % 256"
// arg 2: buffer float (16, 16) = fill(9)
// threads: 32 1 1
// expect 2: formula "sum(k, 0, 32, a0[floor(i / 16) * 32 + k] * (floor(a1[(i % 16) * 16 + floor(k / 2)] / (k % 2 == 0 ? 1 : 16)) % 16))"
// tolerance: abs 1e-3 rel 1e-5

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(constant half* a [[buffer(0)]], constant uchar* b [[buffer(1)]], device float* c [[buffer(2)]])
{
    constexpr matmul2d_descriptor descriptor(16, 16, 32, false, true);
    matmul2d<descriptor, execution_simdgroup> op;
    tensor<constant half, dextents<int, 2>, tensor_inline> left(a, dextents<int, 2>(32, 16));
    tensor<constant uint4b_format, dextents<int, 2>, tensor_inline> right(b, dextents<int, 2>(32, 16));
    tensor out(c, dextents<int, 2>(16, 16));
    op.run(left, right, out);
}
