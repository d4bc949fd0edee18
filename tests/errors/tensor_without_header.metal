// Tensors need their header.
//
// error: * metal_tensor

#include <metal_stdlib>
using namespace metal;

kernel void f(tensor<device float, dextents<int, 2>> a [[buffer(0)]])
{
    a[0, 0] = 1.0f;
}
