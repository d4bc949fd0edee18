// Memory in the constant address space cannot be written.
//
// error: E0533 cannot be written

kernel void f(constant float *x [[buffer(0)]], device float *y [[buffer(1)]])
{
    x[0] = y[0];
}
