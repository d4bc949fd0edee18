// A destination becomes the left input of a second product. Whether the layouts suit is a question to the device.
//
// option: sanitize
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (16, 16) = random(2)
// arg 2: buffer float (32, 16) = zeros
// arg 3: buffer half (32, 16) = random(3)
// run: unchecked
// finding: S0401 at 34: is_compatible_as_left_input
// run: checked
// flags: -D CHECKED
// expect 2[0..0]: [0]
// run: fallback
// flags: -D CHECKED
// option: force-incompatible
// expect 2[0..0]: [0]
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal; using namespace mpp::tensor_ops;
kernel void chain(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]], device half* v [[buffer(3)]])
{
    auto A = tensor(a, dextents<int, 2>(16, 16)); auto B = tensor(b, dextents<int, 2>(16, 16)); auto V = tensor(v, dextents<int, 2>(32, 16)); auto C = tensor(c, dextents<int, 2>(32, 16));
    constexpr auto d1 = matmul2d_descriptor(16, 16, 16);
    constexpr auto d2 = matmul2d_descriptor(16, 32, 16);
    matmul2d<d1, execution_simdgroup> first;
    matmul2d<d2, execution_simdgroup> second;
    auto s = first.get_destination_cooperative_tensor<decltype(A), decltype(B), half>();
    first.run(A, B, s);
#ifdef CHECKED
    bool fits = second.is_compatible_as_left_input<half, half, float>(s);
    if (!fits) return;
#endif
    { // the reuse
        auto left = second.get_left_input_cooperative_tensor<half, half, float>(s);
        second.run(left, V, C);
    }
}
