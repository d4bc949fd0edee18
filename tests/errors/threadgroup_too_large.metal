// A threadgroup has 32 KiB of memory.
//
// error: E0495 'all' takes 4000000000 bytes of threadgroup memory: a threadgroup has 32768

kernel void f(device int *y [[buffer(0)]])
{
    threadgroup int all[1000000000];
    all[0] = y[0];
    y[1] = all[0];
}

kernel void two(device float *y [[buffer(0)]], uint i [[thread_position_in_threadgroup]])
{
    threadgroup float a[8000];
    threadgroup float b[200];
    a[i] = b[i] = y[i];
    y[i] = a[i] + b[i];
}
