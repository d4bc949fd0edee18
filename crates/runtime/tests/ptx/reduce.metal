#include <metal_stdlib>
using namespace metal;

kernel void reduce(device const half *x [[buffer(0)]], device float *sum [[buffer(1)]], constant uint &count [[buffer(2)]],
                   uint i [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]])
{
    threadgroup float parts[32];
    float own = 0;
    for (uint at = i; at < count; at += threads) {
        own += float(x[at]);
    }
    own = simd_sum(own);
    if (lane == 0) {
        parts[group] = own;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (group == 0) {
        own = simd_sum(lane < threads / 32 ? parts[lane] : 0.0f);
        if (lane == 0) {
            *sum = own;
        }
    }
}
