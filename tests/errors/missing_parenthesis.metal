// A condition that is not closed.
//
// error: E0301 expected ')'

kernel void f(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    if (i > 3 {
        y[i] = 0.0f;
    }
}
