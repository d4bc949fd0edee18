// The order and rounding of the tensor unit: rows of A meet columns of 4096 in B, so that 4096 stands for 2^24 and 2^-12 for 1.
//   row 0: elements 0 and 1 are added first, where the 1 is lost
//   row 1: elements 0 and 8 cancel before element 2 comes
//   row 2: elements 0 and 4 meet only after element 2 was lost
//   row 3: element 15 belongs to the chunk before element 16, and is lost before that cancels
//   row 4: NaN
//   row 5: what is accumulated into comes last, to the sum of two ones
//
// arg 0: buffer half (32, 16) = formula "4096 * ((i < 96 && i % 32 == 0) - (i == 8 || i == 40 || i == 68 || i == 112)) * (i != 96) + 4096 * (i == 96) + (i == 1 || i == 34 || i == 66 || i == 111 || i == 160 || i == 162) / 4096 + (i == 130 ? inf - inf : 0)"
// arg 1: buffer half (16, 32) = fill(4096)
// arg 2: buffer float (16, 16) = formula "floor(i / 16) == 5 ? 16777216 : 0"
// threads: 32 1 1
// option: numerics=tensor-unit
// tolerance: exact
// expect 2: formula "floor(i / 16) == 1 ? 1 : floor(i / 16) == 4 ? inf - inf : floor(i / 16) == 5 ? 16777218 : 0"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]])
{
    constexpr matmul2d_descriptor descriptor(
        16, 16, 32, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<descriptor, execution_simdgroup> op;
    tensor left(a, dextents<int, 2>(32, 16));
    tensor right(b, dextents<int, 2>(16, 32));
    tensor out(c, dextents<int, 2>(16, 16));
    op.run(left, right, out);
}
