// Names and members of nested instances double with each level: both are cut before they fill the memory.
//
// error: E0495 this class is too large

#include <metal_stdlib>
using namespace metal;

template <typename A, typename B>
struct Pair {
    A a;
    B b;
};

template <int N>
struct Tower {
    typedef Pair<typename Tower<N - 1>::type, typename Tower<N - 1>::type> type;
};

template <>
struct Tower<0> {
    typedef int type;
};

kernel void size(device int* y [[buffer(0)]])
{
    Tower<60>::type tower;
    y[0] = sizeof(tower);
}
