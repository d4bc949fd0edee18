// A member that the record does not have.
//
// error: * stride

struct Params {
    uint rows;
    uint columns;
};

kernel void f(device float *y [[buffer(0)]], constant Params &params [[buffer(1)]])
{
    y[params.rows * params.stride] = 0.0f;
}
