#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]], tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]], uint2 tile [[threadgroup_position_in_grid]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 16, 16);
    matmul2d<descriptor, execution_simdgroup> product;
    auto left = a.slice<16, 16>(0, tile.y * 16);
    auto right = b.slice<16, 16>(tile.x * 16, 0);
    auto out = c.slice<16, 16>(tile.x * 16, tile.y * 16);
    product.run(left, right, out);
}
