#include <metal_stdlib>
using namespace metal;

kernel void add(device const float4 *x [[buffer(0)]], device float4 *y [[buffer(1)]], constant float &by [[buffer(2)]],
                uint i [[thread_position_in_grid]])
{
    y[i] = x[i] + by;
}
