// Reductions work within one SIMD-group.
//
// error: * reduce_rows requires a single SIMD group

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, 32);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto product = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, product);
    auto rows = op.get_row_reduction_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    reduce_rows(product, rows, reduction_operation::sum, 0.0f);
}
