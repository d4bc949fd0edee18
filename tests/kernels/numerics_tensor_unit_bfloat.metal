// A bfloat destination is rounded once, at the end, and has no subnormals; half overflows to infinity from 65520 on.
//
// arg 0: buffer bfloat (16, 16) = formula "i % 16 == 0 ? (i < 128 ? 1e-39 : 1) : i >= 128 && i % 16 == 1 ? 0.00390625 : 0"
// arg 1: buffer bfloat (16, 16) = fill(1)
// arg 2: buffer bfloat (16, 16) = fill(9)
// arg 3: buffer half (16, 16) = fill(255.875)
// arg 4: buffer half (16, 16) = fill(16)
// arg 5: buffer half (16, 16) = fill(9)
// threads: 32 1 1
// option: numerics=tensor-unit
// tolerance: exact
// expect 2: formula "i < 128 ? 0 : 1"
// expect 5: fill(65504)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(device bfloat* a [[buffer(0)]],
                    device bfloat* b [[buffer(1)]],
                    device bfloat* c [[buffer(2)]],
                    device half* d [[buffer(3)]],
                    device half* e [[buffer(4)]],
                    device half* f [[buffer(5)]])
{
    constexpr matmul2d_descriptor descriptor(16, 16, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    const dextents<int, 2> sizes(16, 16);
    tensor left(a, sizes);
    tensor right(b, sizes);
    tensor out(c, sizes);
    op.run(left, right, out);
    tensor half_left(d, sizes);
    tensor half_right(e, sizes);
    tensor half_out(f, sizes);
    op.run(half_left, half_right, half_out);
}
