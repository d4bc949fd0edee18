// Each statement with a mistake is reported by itself.
//
// error: E0301 expected an expression
// error: E0301 expected an expression
// error: E0306 'else' without 'if'

kernel void f(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    float x = ;
    y[i] = x;
    x = (x + ) * 2.0f;
    else { x = 1.0f; }
    y[i] = x;
}
