// Sizes that are a multiple of nothing: tiles at the edges read zeros past the end and write nothing there. The guard elements around the
// result stay.
//
// kernel: product
// arg 0: buffer float (7, 67) = random(1)
// arg 1: buffer float (101, 7) = random(2)
// arg 2: buffer float (110, 67) = fill(5)
// arg 3: bytes = int 67, int 101, int 7, int 110
// grid: threadgroups 4 2 1
// threads: 128 1 1
// expect 2: formula "i % 110 >= 101 ? 5 : sum(k, 0, 7, a0[floor(i / 110) * 7 + k] * a1[k * 101 + i % 110])"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
kernel void product(device float* a [[buffer(0)]],
                    device float* b [[buffer(1)]],
                    device float* c [[buffer(2)]],
                    constant int4& sizes [[buffer(3)]],
                    uint2 tgid [[threadgroup_position_in_grid]])
{
    const int m = sizes.x, n = sizes.y, k = sizes.z;
    auto left = tensor(a, dextents<int, 2>(k, m));
    auto right = tensor(b, dextents<int, 2>(n, k));
    auto result = tensor(c, dextents<int, 2>(n, m), array<int, 2>({1, sizes.w}));
    constexpr auto descriptor = matmul2d_descriptor(64, 32, static_cast<int>(dynamic_extent));
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto left_tile = left.slice(0, tgid.y * 64);
    auto right_tile = right.slice(tgid.x * 32, 0);
    auto result_tile = result.slice(tgid.x * 32, tgid.y * 64);
    op.run(left_tile, right_tile, result_tile);
}
