// Index arithmetic that leaves its type.
//
// option: sanitize
// arg 0: buffer float[64] = iota
// arg 1: buffer float[64] = zeros
// arg 2: bytes = int 70000
// threads: 64 1 1
// run: signed
// kernel: signed_product
// finding: S0501 at 22: 70000 * 70000 is 4900000000
// run: unsigned
// kernel: left_neighbour
// finding: S0502 at 27: 0 - 1 wraps to 4294967295
// finding: S0601 at 27: bound the index
#include <metal_stdlib>
using namespace metal;

kernel void signed_product(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant int& n [[buffer(2)]],
                           uint t [[thread_index_in_threadgroup]])
{
    int pitch = n;
    int at = pitch * n;
    y[t] = x[at & 63];
}
kernel void left_neighbour(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint t [[thread_index_in_threadgroup]])
{
    y[t] = x[t - 1];
}
