// The four storage orders of the operands; the descriptor's flags say how each is stored.
//
// arg 2: tensor float (48, 40) = zeros
// threads: 32 1 1
// run: plain
// kernel: product_nn
// arg 0: tensor float (33, 40) = random(1)
// arg 1: tensor float (48, 33) = random(2)
// expect 2: matmul(0, 1)
// run: right transposed
// kernel: product_nt
// arg 0: tensor float (33, 40) = random(1)
// arg 1: tensor float (33, 48) = random(2)
// expect 2: matmul(0, 1, transpose_right)
// run: left transposed
// kernel: product_tn
// arg 0: tensor float (40, 33) = random(1)
// arg 1: tensor float (48, 33) = random(2)
// expect 2: matmul(0, 1, transpose_left)
// run: both transposed
// kernel: product_tt
// arg 0: tensor float (40, 33) = random(1)
// arg 1: tensor float (33, 48) = random(2)
// expect 2: matmul(0, 1, transpose_left, transpose_right)

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using matrix = tensor<device float, dextents<int, 2>>;

template <bool LEFT, bool RIGHT>
kernel void product(matrix a [[buffer(0)]], matrix b [[buffer(1)]], matrix c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(64, 64, dynamic_length_v<int>, LEFT, RIGHT);
    matmul2d<descriptor, execution_simdgroup> op;
    op.run(a, b, c);
}

template [[host_name("product_nn")]] [[kernel]] decltype(product<false, false>) product<false, false>;
template [[host_name("product_nt")]] [[kernel]] decltype(product<false, true>) product<false, true>;
template [[host_name("product_tn")]] [[kernel]] decltype(product<true, false>) product<true, false>;
template [[host_name("product_tt")]] [[kernel]] decltype(product<true, true>) product<true, true>;
