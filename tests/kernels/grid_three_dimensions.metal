// A grid of three dimensions with partial threadgroups in two of them; the linear index in a threadgroup counts x first.
//
// kernel: three_dimensions
// arg 0: buffer uint (7, 5, 3) = zeros
// arg 1: buffer uint (7, 5, 3) = zeros
// grid: threads 7 5 3
// threads: 4 2 2
// expect 0: formula "i"
// expect 1: formula "(i % 7) % 4 + min(4, 7 - 4 * floor((i % 7) / 4)) * ((floor(i / 7) % 5) % 2 + min(2, 5 - 2 * floor((floor(i / 7) % 5) / 2)) * (floor(i / 35) % 2))"

#include <metal_stdlib>
using namespace metal;

kernel void three_dimensions(device uint* y [[buffer(0)]],
                             device uint* indices [[buffer(1)]],
                             uint3 position [[thread_position_in_grid]],
                             uint index [[thread_index_in_threadgroup]],
                             uint3 size [[threads_per_grid]])
{
    const uint at = position.x + size.x * (position.y + size.y * position.z);
    y[at] = at;
    indices[at] = index;
}
