// The name that Apple's header comments use for a static slice does not exist.
//
// error: * static_slice

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

kernel void part(tensor<device float, dextents<int, 2>> a [[buffer(0)]])
{
    auto tile = a.static_slice<16, 16>(0, 0);
    tile[0, 0] = 1.0f;
}
