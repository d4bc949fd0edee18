// A literal with a suffix that does not exist.
//
// error: E0203 invalid number '1.0q'

kernel void f(device float *y [[buffer(0)]])
{
    y[0] = 1.0q;
}
