// One, two, four and eight SIMD-groups on one tile give the same result.
//
// arg 0: tensor bfloat (70, 61) = random(4)
// arg 1: tensor bfloat (59, 70) = random(5)
// arg 2: tensor float (59, 61) = zeros
// expect 2: matmul(0, 1)
// tolerance: abs 1e-4 rel 1e-5
// run: one
// kernel: product_1
// threads: 32 1 1
// run: two
// kernel: product_2
// threads: 64 1 1
// run: four
// kernel: product_4
// threads: 128 1 1
// run: eight
// kernel: product_8
// threads: 32 8 1

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
template <int N>
kernel void product(tensor<device bfloat, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device bfloat, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(64, 64);
    matmul2d<descriptor, execution_simdgroups<N>> op;
    op.run(a, b, c);
}

template [[host_name("product_1")]] [[kernel]] decltype(product<1>) product<1>;
template [[host_name("product_2")]] [[kernel]] decltype(product<2>) product<2>;
template [[host_name("product_4")]] [[kernel]] decltype(product<4>) product<4>;
template [[host_name("product_8")]] [[kernel]] decltype(product<8>) product<8>;
