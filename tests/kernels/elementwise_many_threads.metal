// Element-wise work on so many threads that a GPU may let each hardware thread run several: counts that are no multiple of anything, arrays
// that begin between the boundaries of vectors, a bound check, a return in the middle, threadgroups of two dimensions.
//
// arg 0: buffer half[1048589] = iota(-3, 0.0078125)
// arg 1: buffer half[1048589] = zeros
// arg 2: bytes = uint 1048583
// grid: threads 1048585 1 1
// threads: 256 1 1
//
// run: plain
// kernel: scaled
// expect 1[0..1048583]: formula "min(2 * a0[i], 60000)"
// expect 1[1048585..1048589]: zeros
// tolerance: exact
//
// run: shifted
// kernel: shifted
// expect 1[0..1]: zeros
// expect 1[1..1048584]: formula "min(2 * a0[i], 60000)"
// tolerance: exact
//
// run: returns
// kernel: returns
// expect 1[0..1048583]: formula "i % 3 == 1 ? 0 : min(2 * a0[i], 60000)"
// tolerance: exact
//
// run: plane
// kernel: plane
// arg 0: buffer half[1058840] = iota(-3, 0.0078125)
// arg 1: buffer half[1058840] = zeros
// arg 2: bytes = uint 1031
// grid: threads 1031 1027 1
// threads: 32 8 1
// expect 1[0..1058837]: formula "min(2 * a0[i], 60000)"
// expect 1[1058837..1058840]: zeros
// tolerance: exact

#include <metal_stdlib>

using namespace metal;

kernel void scaled(device const half* x [[buffer(0)]],
                   device half* y [[buffer(1)]],
                   constant uint& count [[buffer(2)]],
                   uint id [[thread_position_in_grid]])
{
    if (id >= count) {
        return;
    }
    y[id] = min(x[id] * 2.0h, 60000.0h);
}

kernel void shifted(device const half* x [[buffer(0)]],
                    device half* y [[buffer(1)]],
                    constant uint& count [[buffer(2)]],
                    uint id [[thread_position_in_grid]])
{
    device const half* from = x + 1;
    device half* to = y + 1;
    if (id < count) {
        to[id] = min(from[id] * 2.0h, 60000.0h);
    }
}

kernel void returns(device const half* x [[buffer(0)]],
                    device half* y [[buffer(1)]],
                    constant uint& count [[buffer(2)]],
                    uint id [[thread_position_in_grid]])
{
    if (id >= count || id % 3 == 1) {
        return;
    }
    y[id] = min(x[id] * 2.0h, 60000.0h);
}

kernel void plane(device const half* x [[buffer(0)]],
                  device half* y [[buffer(1)]],
                  constant uint& width [[buffer(2)]],
                  uint2 at [[thread_position_in_grid]])
{
    y[at.y * width + at.x] = min(x[at.y * width + at.x] * 2.0h, 60000.0h);
}
