// Never ends. Run with a budget (crates/cli/tests/sanitizer.rs).
#include <metal_stdlib>
using namespace metal;

kernel void endless(uint t [[thread_position_in_grid]])
{
    threadgroup int stop[1];
    stop[0] = 0;
    while (stop[0] == 0) {
    }
}
