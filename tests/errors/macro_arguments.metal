// A macro is called with too few arguments.
//
// error: E0109 macro 'LOAD' takes 3 arguments, got 2

#define LOAD(type, pointer, index) static_cast<type>(pointer[index])

kernel void f(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]])
{
    y[i] = LOAD(float, y);
}
