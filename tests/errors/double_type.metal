// Metal has no double.
//
// error: * double

kernel void f(device float *y [[buffer(0)]])
{
    double x = y[0];
    y[0] = x;
}
