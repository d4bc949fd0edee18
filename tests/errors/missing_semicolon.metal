// A statement without its semicolon.
//
// error: E0301 expected ';'

kernel void f(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    float x = 1.0f
    y[i] = x;
}
