// A freshly obtained destination is not promised to be zero (reference 4.6).
//
// option: sanitize
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (16, 16) = random(2)
// arg 2: buffer float (16, 16) = zeros
// run: accumulate
// flags: -D MODE=matmul2d_descriptor::mode::multiply_accumulate
// finding: S0303 at 29: `run` accumulates into cooperative tensor `ct`
// run: accumulate into zeros
// flags: -D MODE=matmul2d_descriptor::mode::multiply_accumulate -D ZERO
// expect 2: matmul(0, 1)
// run: read
// flags: -D MODE=matmul2d_descriptor::mode::multiply -D SCALE
// finding: S0303 at 27: this reads cooperative tensor `ct`
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;
kernel void product(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]])
{
    auto A = tensor(a, dextents<int, 2>(16, 16)); auto B = tensor(b, dextents<int, 2>(16, 16)); auto C = tensor(c, dextents<int, 2>(16, 16));
    constexpr auto d = matmul2d_descriptor(16, 16, 16, false, false, false, MODE); matmul2d<d, execution_simdgroup> op;
    auto ct = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
#if defined(ZERO)
    for (ushort i = 0; i < ct.get_capacity(); i++) ct[i] = 0;
#elif defined(SCALE)
    for (ushort i = 0; i < ct.get_capacity(); i++) ct[i] *= 0.5f;
#endif
    op.run(A, B, ct);
    ct.store(C);
}
