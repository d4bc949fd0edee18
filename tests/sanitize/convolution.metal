// A convolution reads and writes memory for its whole scope, and its destination is not promised to be zero.
//
// option: sanitize
// arg 0: buffer float (16, 4, 4, 1) = random(1)
// arg 1: buffer float (16, 16, 1, 1) = random(2)
// arg 2: buffer float (16, 4, 4, 1) = zeros
// run: destination
// finding: S0303 at 28: accumulates into cooperative tensor `result`
// run: memory
// flags: -D STAGED
// finding: S0101 at 33, 32: SIMD-group 0 reads

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void pointwise(device float* x [[buffer(0)]], device float* w [[buffer(1)]], device float* y [[buffer(2)]],
                      uint t [[thread_index_in_threadgroup]])
{
    auto X = tensor(x, dextents<int, 4>(16, 4, 4, 1)), Y = tensor(y, dextents<int, 4>(16, 4, 4, 1));
    auto W = tensor(w, dextents<int, 4>(16, 16, 1, 1));
#ifndef STAGED
    constexpr auto d = convolution2d_descriptor(int4(16, 4, 4, 1), int4(16, 4, 4, 1), int2(1, 1), convolution2d_activation_layout::nhwc,
        convolution2d_weights_layout::hwio, int2(1, 1), int2(1, 1), 1, false, convolution2d_descriptor::mode::multiply_accumulate);
    convolution2d<d, execution_simdgroups<1>> op;
    auto result = op.get_destination_cooperative_tensor<decltype(X), decltype(W), float>();
    op.run(X, W, result); result.store(Y);
#else
    threadgroup float staged[256];
    auto S = tensor(staged, dextents<int, 4>(16, 4, 4, 1));
    for (uint i = t; i < 256; i += 32) staged[i] = x[i];
    convolution2d<convolution2d_descriptor(int4(16, 4, 4, 1), int4(16, 4, 4, 1), int2(1, 1)), execution_simdgroups<1>>{}.run(S, W, Y);
#endif
}
