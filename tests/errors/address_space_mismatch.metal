// A threadgroup pointer does not convert to a device pointer.
//
// error: E0482 does not convert

void fill(device float *p)
{
    p[0] = 0.0f;
}

kernel void f(device float *y [[buffer(0)]])
{
    threadgroup float tile[32];
    fill(tile);
    y[0] = tile[0];
}
