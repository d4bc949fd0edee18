// A tile of 16 × 24: half of the second fragment of each lane holds no element.
//
// option: sanitize
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (24, 16) = random(2)
// arg 2: buffer float (24, 16) = zeros
// run: unchecked
// flags: -D ELEMENT(i)=ct[i]*=2
// finding: S0304 at 28: ask `is_valid_element(i)` first
// run: checked
// flags: -D ELEMENT(i)=if(ct.is_valid_element(i))ct[i]*=2
// expect 2: formula "2 * sum(k, 0, 16, a0[16 * floor(i / 24) + k] * a1[24 * k + i % 24])"
// run: get and set
// flags: -D ELEMENT(i)=ct.set(i,2*ct.get(i))
// expect 2: formula "2 * sum(k, 0, 16, a0[16 * floor(i / 24) + k] * a1[24 * k + i % 24])"
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;
kernel void product(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]])
{
    auto A = tensor(a, dextents<int, 2>(16, 16)); auto B = tensor(b, dextents<int, 2>(24, 16)); auto C = tensor(c, dextents<int, 2>(24, 16));
    constexpr auto d = matmul2d_descriptor(16, 24, 16);
    matmul2d<d, execution_simdgroup> op;
    auto ct = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
    op.run(A, B, ct);
    for (ushort i = 0; i < ct.get_capacity(); i++) {

        ELEMENT(i);
    }
    ct.store(C);
}
