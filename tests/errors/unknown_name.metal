// A name that is not declared.
//
// error: * unknown name

kernel void f(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    y[i] = scale * 2.0f;
}
