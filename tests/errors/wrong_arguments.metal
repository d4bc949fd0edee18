// No overload takes these arguments.
//
// error: * scale

float scale(float x, float by)
{
    return x * by;
}

kernel void f(device float *y [[buffer(0)]])
{
    y[0] = scale(y[1]);
}
