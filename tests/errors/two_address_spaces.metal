// A pointer has one address space.
//
// error: E0304 address spaces 'device' and 'threadgroup' exclude each other

kernel void f(device float *y [[buffer(0)]])
{
    device threadgroup float *p = y;
    p[0] = 0.0f;
}
