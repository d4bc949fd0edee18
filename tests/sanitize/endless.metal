// Never ends. Run with a budget (crates/cli/tests/sanitizer.rs).
#include <metal_stdlib>
using namespace metal;

kernel void endless()
{
    for (;;) {
    }
}
