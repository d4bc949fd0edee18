// A threadgroup has 32 KiB of memory. (Up to 256 KiB the source compiles with a warning, and no pipeline can be made.)
//
// error: E0495 'all' takes 4000000000 bytes of threadgroup memory: a threadgroup has 32768

kernel void f(device int *y [[buffer(0)]])
{
    threadgroup int all[1000000000];
    all[0] = y[0];
    y[1] = all[0];
}
