// Metal has no 'goto'.
//
// error: E0310 'goto' is not supported

kernel void f(device float *y [[buffer(0)]])
{
    if (y[0] > 1.0f) {
        goto done;
    }
    y[0] = 1.0f;
}
