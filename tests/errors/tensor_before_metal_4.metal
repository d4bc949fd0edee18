// Tensors came with Metal 4.
//
// flags: -std=metal3.2
// error: E0312 needs Metal 4

#include <metal_stdlib>
#include <metal_tensor>
using namespace metal;

kernel void f(tensor<device float, dextents<int, 2>> a [[buffer(0)]])
{
    a[0, 0] = 1.0f;
}
