// Two functions that take a call equally well are refused, as C++ does, with both.
//
// error: E0493 the call of 'blend' with the arguments (device float, half) is ambiguous

#include <metal_stdlib>
using namespace metal;

template <typename T>
T blend(float a, T b)
{
    return T(a) + b;
}

template <typename T>
T blend(T a, half b)
{
    return a - T(b);
}

kernel void f(device float *y [[buffer(0)]])
{
    y[0] = blend(y[1], half(y[2]));
}
