// Pointers and references in device, constant, threadgroup and thread memory; pointer arithmetic, casts, arrays in thread memory
// indexed at run time; functions overloaded by address space.
//
// kernel: pointers
// arg 0: buffer float[32] = iota
// arg 1: buffer float[32] = zeros
// arg 2: bytes = float 1, float 2, float 4, float 8
// arg 3: buffer int[4] = zeros
// threads: 32 1 1
// expect 1: formula "(31 - i) * pow(2, i % 4) + (i % 4 + 1)"
// expect 3: [1, 2, 3, 4]

#include <metal_stdlib>
using namespace metal;

static int space(device float*) { return 1; }
static int space(constant float*) { return 2; }
static int space(threadgroup float*) { return 3; }
static int space(thread float*) { return 4; }

static void add_to(device float& target, float value)
{
    target += value;
}

kernel void pointers(device float* x [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     constant float* factors [[buffer(2)]],
                     device int* spaces [[buffer(3)]],
                     uint tid [[thread_index_in_threadgroup]])
{
    threadgroup float reversed[32];
    reversed[31 - tid] = x[tid];
    threadgroup_barrier(mem_flags::mem_threadgroup);

    float local[4];
    for (int k = 0; k < 4; k++) {
        local[k] = float(k + 1);
    }
    thread float* cursor = local + tid % 4;
    device char* bytes = reinterpret_cast<device char*>(y);
    device float* target = (device float*)(bytes + 4 * tid);
    *target = *(reversed + tid) * factors[tid % 4];
    add_to(*target, *cursor);
    if (tid == 0) {
        spaces[0] = space(y);
        spaces[1] = space(factors);
        spaces[2] = space(reversed);
        spaces[3] = space(local);
    }
}
