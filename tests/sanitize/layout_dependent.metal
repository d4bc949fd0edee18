// The row of an element from its lane and slot, as one device has them, instead of from `get_multidimensional_index`.
//
// option: sanitize
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (32, 16) = random(2)
// arg 2: buffer float (32, 16) = zeros
// run: from lane and slot
// flags: -D ROW=((lane>>2)&4|(lane>>1)&3)+8*((i>>2)&1)
// finding: S0402 at 30: get_multidimensional_index
// run: asked
// flags: -D ROW=ct.get_multidimensional_index(i)[1]
// expect 2[0..0]: [0]

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void weighted(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]],
                     ushort lane [[thread_index_in_simdgroup]])
{
    auto A = tensor(a, dextents<int, 2>(16, 16));
    auto B = tensor(b, dextents<int, 2>(32, 16));
    auto C = tensor(c, dextents<int, 2>(32, 16));
    constexpr auto descriptor = matmul2d_descriptor(16, 32, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    auto ct = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
    op.run(A, B, ct);
    for (ushort i = 0; i < ct.get_capacity(); i++)
        ct[i] *= float(ROW);
    ct.store(C);
}
