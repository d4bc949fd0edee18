// Textures are outside compute on buffers and tensors.
//
// error: E0310 textures are not supported

#include <metal_stdlib>
using namespace metal;

kernel void f(texture2d<float, access::read> image [[texture(0)]], device float4 *y [[buffer(0)]])
{
    y[0] = image.read(uint2(0, 0));
}
