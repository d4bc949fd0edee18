// Subnormals of bfloat and half count in full, as elements and as sums.
//
// arg 0: buffer bfloat (16, 16) = fill(1e-39)
// arg 1: buffer bfloat (16, 16) = fill(1)
// arg 2: buffer float (16, 16) = fill(9)
// arg 3: buffer bfloat (16, 16) = fill(9)
// arg 4: buffer half (16, 16) = fill(5.960464477539063e-08)
// arg 5: buffer half (16, 16) = fill(9)
// threads: 32 1 1
// tolerance: exact
// expect 2: formula "16 * a0[0]"
// expect 3: formula "16 * a0[0]"
// expect 5: formula "16 * a4[0]"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(device bfloat* a [[buffer(0)]],
                    device bfloat* b [[buffer(1)]],
                    device float* c [[buffer(2)]],
                    device bfloat* d [[buffer(3)]],
                    device half* e [[buffer(4)]],
                    device half* f [[buffer(5)]])
{
    constexpr matmul2d_descriptor descriptor(16, 16, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    const dextents<int, 2> sizes(16, 16);
    tensor left(a, sizes);
    tensor right(b, sizes);
    tensor out(c, sizes);
    tensor narrow(d, sizes);
    op.run(left, right, out);
    op.run(left, right, narrow);
    tensor small(e, sizes);
    tensor small_out(f, sizes);
    op.run(small, right, small_out);
}
