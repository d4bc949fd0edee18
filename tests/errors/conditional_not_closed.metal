// An '#if' without '#endif'.
//
// error: E0106 unterminated conditional directive

#if __METAL_VERSION__ >= 400
kernel void f(device float *y [[buffer(0)]])
{
    y[0] = 0.0f;
}
