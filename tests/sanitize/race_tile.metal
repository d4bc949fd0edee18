// Tile operations read and write memory for their whole scope: what single threads wrote before needs a barrier, and so
// does what a tile was stored to before others read it.
//
// option: sanitize
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (16, 16) = random(2)
// arg 2: buffer float (16, 16) = zeros
// run: operand
// kernel: operand
// finding: S0101 at 26, 24: SIMD-group 0 reads
// run: store
// kernel: stored
// finding: S0101 at 39, 38: SIMD-group 0 writes it here
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;

kernel void operand(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]], uint t [[thread_index_in_threadgroup]])
{
    threadgroup half tile[256];
    auto A = tensor(tile, dextents<int, 2>(16, 16)); auto B = tensor(b, dextents<int, 2>(16, 16)); auto C = tensor(c, dextents<int, 2>(16, 16));
    for (uint i = t; i < 256; i += 32)
        tile[i] = a[i];
    matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroup> op;
    op.run(A, B, C);
}
kernel void stored(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]], uint t [[thread_index_in_threadgroup]])
{
    threadgroup float tile[256];
    auto A = tensor(a, dextents<int, 2>(16, 16));
    auto B = tensor(b, dextents<int, 2>(16, 16));
    auto S = tensor(tile, dextents<int, 2>(16, 16));
    constexpr auto d = matmul2d_descriptor(16, 16, 16);
    matmul2d<d, execution_simdgroup> op;
    auto ct = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
    op.run(A, B, ct);
    ct.store(S);
    for (uint i = t; i < 256; i += 32) c[i] = tile[i];
}
