// Pasting has to give one token.
//
// error: E0108 pasting '+' and 'x'

#define JOIN(a, b) a##b

kernel void f(device float *y [[buffer(0)]])
{
    y[0] = JOIN(+, x);
}
