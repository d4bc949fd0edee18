// A product of SIMD-group matrices that only a part of the SIMD-group reaches.
//
// kernel: divergent
// arg 0: buffer float[64] = iota
// threads: 32 1 1
//
// run: lanes missing
// fault: needs all 32 threads of its SIMD-group, only 20 are here
//
// run: a threadgroup that is no multiple of 32
// threads: 40 1 1
// flags: -D ALL
// fault: needs all 32 threads of its SIMD-group, only 8 are here

#include <metal_stdlib>
using namespace metal;

kernel void divergent(device float* x [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]])
{
    simdgroup_float8x8 a(1);
#if !defined(ALL)
    if (lane < 20)
#endif
    {
        simdgroup_multiply(a, a, a);
        x[lane] = a.thread_elements()[0];
    }
}
