// A member function without an address space takes objects in thread memory only.
//
// error: E0482 'last' cannot be called on an object of the type 'device const Row'

#include <metal_stdlib>
using namespace metal;

struct Row {
    float values[4];
    float last() const { return values[3]; }
};

kernel void f(device const Row *rows [[buffer(0)]], device float *y [[buffer(1)]])
{
    y[0] = rows[0].last();
}
