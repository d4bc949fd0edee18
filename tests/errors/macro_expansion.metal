// An error inside a macro is shown where the macro is used, with the place of its definition.
//
// error: E0301 expected an expression

#define SQUARE(x) ((x) * )
#define SUM(a, b) (SQUARE(a) + SQUARE(b))

kernel void f(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    y[i] = SUM(1.0f, 2.0f);
}
