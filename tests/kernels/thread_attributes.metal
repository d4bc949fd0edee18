// Built-in thread attributes, with a partial last threadgroup: 70 threads in groups of 32.
//
// kernel: attributes
// arg 0: buffer uint (70, 10) = fill(999)
// grid: threads 70 1 1
// threads: 32 1 1
// expect 0[0..70]: formula "i"
// expect 0[70..140]: formula "(i - 70) % 32"
// expect 0[140..210]: formula "floor((i - 140) / 32)"
// expect 0[210..280]: formula "(i - 210) % 32"
// expect 0[280..350]: fill(0)
// expect 0[350..420]: formula "i < 414 ? 32 : 6"
// expect 0[420..490]: fill(3)
// expect 0[490..560]: fill(32)
// expect 0[560..630]: fill(70)
// expect 0[630..700]: formula "(i - 630) % 32"

#include <metal_stdlib>
using namespace metal;

kernel void attributes(device uint* y [[buffer(0)]],
                       uint position [[thread_position_in_grid]],
                       uint3 in_group [[thread_position_in_threadgroup]],
                       uint group [[threadgroup_position_in_grid]],
                       ushort lane [[thread_index_in_simdgroup]],
                       ushort simdgroup [[simdgroup_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]],
                       uint groups [[threadgroups_per_grid]],
                       uint width [[threads_per_simdgroup]],
                       uint count [[threads_per_grid]],
                       uint index [[thread_index_in_threadgroup]])
{
    y[position] = position;
    y[70 + position] = in_group.x + in_group.y;
    y[140 + position] = group;
    y[210 + position] = lane;
    y[280 + position] = simdgroup;
    y[350 + position] = threads.x;
    y[420 + position] = groups;
    y[490 + position] = width;
    y[560 + position] = count;
    y[630 + position] = index;
}
