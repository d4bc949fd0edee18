// A vector needs its own alignment, not that of its components; a packed vector does not.
//
// kernel: shifted
// arg 0: buffer int[16] = iota
// arg 1: buffer int[1] = zeros
// threads: 1 1 1
// run: vector
// constant 0: bool false
// fault: misaligned read at byte offset 4 of 'x': its type needs a multiple of 16
// run: packed
// constant 0: bool true
// expect 1: [10]

#include <metal_stdlib>
using namespace metal;

constant bool is_packed [[function_constant(0)]];

kernel void shifted(device const int* x [[buffer(0)]], device int* y [[buffer(1)]])
{
    if (is_packed) {
        int4 v = *reinterpret_cast<device const packed_int4*>(x + 1);
        y[0] = v.x + v.y + v.z + v.w;
    } else {
        int4 v = *reinterpret_cast<device const int4*>(x + 1);
        y[0] = v.x + v.y + v.z + v.w;
    }
}
