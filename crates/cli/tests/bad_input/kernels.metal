#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void add(device const float* x [[buffer(0)]],
                device float* y [[buffer(1)]],
                constant uint& n [[buffer(2)]],
                uint id [[thread_position_in_grid]])
{
    if (id < n)
        y[id] = x[id] + 1.0f;
}

kernel void element(tensor<device half, dextents<int, 2>> x [[buffer(0)]], device float* y [[buffer(1)]])
{
    y[0] = x[0, 0];
}

kernel void fixed(tensor<device half, extents<int, 32, 16>> x [[buffer(0)]], device float* y [[buffer(1)]])
{
    y[0] = x[0, 0];
}

kernel void misaligned(device char* x [[buffer(0)]], device float* y [[buffer(1)]])
{
    y[0] = *reinterpret_cast<device float*>(x + 1);
}

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    constexpr auto descriptor = matmul2d_descriptor(32, 32, dynamic_extent);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    op.run(a, b, c);
}

kernel void endless(device int* x [[buffer(0)]])
{
    while (true)
        x[0] += 1;
}

kernel void shared(device float* y [[buffer(0)]],
                   threadgroup float* s [[threadgroup(0)]],
                   uint id [[thread_position_in_threadgroup]])
{
    s[id] = id;
    y[id] = s[id];
}

kernel void half_barrier(device float* y [[buffer(0)]], uint id [[thread_position_in_threadgroup]])
{
    if (id < 16)
        threadgroup_barrier(mem_flags::mem_threadgroup);
    y[id] = 1.0f;
}
