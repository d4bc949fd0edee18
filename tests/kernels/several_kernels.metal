// Several kernels in a file, chosen by name, sharing functions in namespaces.
//
// arg 0: buffer float[20] = iota
// arg 1: buffer float[20] = zeros
// grid: threads 20 1 1
// threads: 20 1 1
// run: first
// kernel: plus_one
// expect 1: formula "i + 1"
// run: second
// kernel: times_two
// expect 1: formula "2 * i"

#include <metal_stdlib>

namespace helpers {
namespace inner {
inline float twice(float x) { return x + x; }
}
using namespace inner;
inline float next(float x) { return x + 1.0f; }
}

kernel void plus_one(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                     uint id [[thread_position_in_grid]])
{
    y[id] = helpers::next(x[id]);
}

kernel void times_two(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                      uint id [[thread_position_in_grid]])
{
    namespace h = helpers;
    y[id] = h::twice(x[id]);
}
