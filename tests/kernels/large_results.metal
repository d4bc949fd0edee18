// Results of more than 32 MiB that the kernel does not read: whole lines of them may go past the caches. Rows of an odd width begin
// anywhere in a line.
//
// kernel: large_results
// arg 0: buffer uint[8400007] = zeros
// grid: threads 8400007 1 1
// threads: 256 1 1
// expect 0: formula "i * 3 + 1"

#include <metal_stdlib>
using namespace metal;

kernel void large_results(device uint* y [[buffer(0)]], uint at [[thread_position_in_grid]])
{
    y[at] = 3 * at + 1;
}
