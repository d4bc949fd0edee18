// precise:: keeps infinities and NaN, with fast maths on by default.
//
// kernel: specials
// arg 0: buffer float[6] = [0, -1, 1, inf, -inf, nan]
// arg 1: buffer float[18] = zeros
// flags: -fno-fast-math
// grid: threads 6 1 1
// threads: 6 1 1
// expect 1[0..6]: [-inf, nan, 0, inf, nan, nan]
// expect 1[6..12]: [1, 0.36787944117, 2.71828182846, inf, 0, nan]
// expect 1[12..18]: [0, 0, 0, 1, 1, 2]

#include <metal_stdlib>
using namespace metal;

kernel void specials(device const float* x [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     uint id [[thread_position_in_grid]])
{
    y[id] = precise::log(x[id]);
    y[6 + id] = precise::exp(x[id]);
    y[12 + id] = isnan(x[id]) ? 2.0f : isinf(x[id]) ? 1.0f : 0.0f;
}
