// Function constants choose code when the pipeline is made; one that is not given is asked for with is_function_constant_defined.
//
// kernel: configured
// arg 0: buffer float[8] = iota
// arg 1: buffer float[8] = zeros
// grid: threads 8 1 1
// threads: 8 1 1
// run: all given
// constant 0: bool true
// constant 1: int 3
// constant 2: float 0.5
// expect 1: formula "-(i * 3) + 0.5"
// run: defaults
// constant 0: bool false
// constant 1: int -2
// expect 1: formula "i * -2 + 8"

#include <metal_stdlib>
using namespace metal;

constant bool negate [[function_constant(0)]];
constant int factor [[function_constant(1)]];
constant float offset_value [[function_constant(2)]];
constant float offset = is_function_constant_defined(offset_value) ? offset_value : 8.0f;

kernel void configured(device const float* x [[buffer(0)]],
                       device float* y [[buffer(1)]],
                       uint id [[thread_position_in_grid]])
{
    float value = x[id] * float(factor);
    if (negate) {
        value = -value;
    }
    y[id] = value + offset;
}
