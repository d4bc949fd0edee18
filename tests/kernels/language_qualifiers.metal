// A name before `::` is a namespace or a type: variables and functions of the same name do not hide it.
//
// kernel: qualifiers
// arg 0: buffer int[4] = zeros
// threads: 4 1 1
// expect 0: formula "i + 7 + 20 + 5"

#include <metal_stdlib>
using namespace metal;

namespace a::b {
constexpr constant int seven = 7;
}

struct Limits {
    static constexpr constant int most = 20;
};

struct Holder {
    int a;
    int both(int Limits) const { return a + a::b::seven + Limits * ::Limits::most; }
};

kernel void qualifiers(device int* y [[buffer(0)]], uint id [[thread_position_in_grid]])
{
    int a = int(id);
    int Limits = 1;
    Holder h = {a};
    y[id] = h.both(Limits) + (Limits::most > 19 ? 5 : 0);
}
