// A loop over K with a descriptor in the default mode: each step overwrites the last.
//
// option: sanitize
// arg 0: buffer half (64, 16) = random(1)
// arg 1: buffer half (16, 64) = random(2)
// arg 2: buffer float (16, 16) = zeros
// run: cooperative destination
// kernel: tile
// finding: S0404 at 26: matmul2d_descriptor::mode::multiply_accumulate
// run: destination in memory
// kernel: memory
// finding: S0404 at 35: only the last one is left
// run: accumulate
// kernel: right
// expect 2: matmul(0, 1)
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;
kernel void tile(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]]) {
    auto A = tensor(a, dextents<int, 2>(64, 16)); auto B = tensor(b, dextents<int, 2>(16, 64)); auto C = tensor(c, dextents<int, 2>(16, 16));
    constexpr auto d = matmul2d_descriptor(16, 16, 16);
    matmul2d<d, execution_simdgroup> op;
    auto ct = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
    for (int k = 0; k < 64; k += 16) {
        auto L = A.slice<16, 16>(k, 0); auto R = B.slice<16, 16>(0, k);
        op.run(L, R, ct);
    }
    ct.store(C);
}
kernel void memory(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]]) {
    auto A = tensor(a, dextents<int, 2>(64, 16)); auto B = tensor(b, dextents<int, 2>(16, 64)); auto C = tensor(c, dextents<int, 2>(16, 16));
    matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroup> op;
    for (int k = 0; k < 64; k += 16) {
        auto L = A.slice<16, 16>(k, 0); auto R = B.slice<16, 16>(0, k);
        op.run(L, R, C);
    }
}
kernel void right(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]]) {
    auto A = tensor(a, dextents<int, 2>(64, 16)); auto B = tensor(b, dextents<int, 2>(16, 64)); auto C = tensor(c, dextents<int, 2>(16, 16));
    constexpr auto d = matmul2d_descriptor(16, 16, 16, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<d, execution_simdgroup> op;
    for (int k = 0; k < 64; k += 16) {
        auto L = A.slice<16, 16>(k, 0); auto R = B.slice<16, 16>(0, k);
        op.run(L, R, C);
    }
}
