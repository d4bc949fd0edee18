// A static assertion fails in an instantiation: the chain leads to the kernel.
//
// error: * the tile must be a multiple of 8

template <int N>
struct tile {
    static_assert(N % 8 == 0, "the tile must be a multiple of 8");
    float data[N];
};

template <int N>
float first()
{
    tile<N> t;
    t.data[0] = 1.0f;
    return t.data[0];
}

kernel void f(device float *y [[buffer(0)]])
{
    y[0] = first<16>() + first<12>();
}
