#include <metal_stdlib>
using namespace metal;

kernel void control(device uint *x [[buffer(0)]], device atomic_uint *most [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    uint n = x[i], steps = 0;
    while (n != 1 && steps < 1000) {
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
        ++steps;
    }
    if (steps == 1000) {
        return;
    }
    x[i] = steps;
    atomic_fetch_max_explicit(most, steps, memory_order_relaxed);
}
