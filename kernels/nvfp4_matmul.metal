// Y = X·Wᵀ with NVFP4 weights, decoded in the kernel: E2M1 elements in blocks of 16 along K, an E4M3 scale for each block, a
// float for all. X is [M, K] of T, Y is [M, N] of float. K is a multiple of 16.
//
//   kernel name   nvfp4_{tile,cooperative,vector}_{f32,f16,bf16}
//   tile          through threadgroup memory; grid threadgroups (ceil(N / 64), ceil(M / 32), 1), threads 128
//   cooperative   straight into a cooperative input; grid threadgroups (ceil(N / 128), ceil(M / 16), 1), threads 128
//   vector        one row of X at a time; grid threadgroups (ceil(N / 32), M, 1), threads 128 (or another multiple of 32);
//                 X begins at a multiple of 16 elements of memory, W at one of 8 bytes
//
//   buffer 0, 1   X, W's elements (K / 2 bytes to a row, the even element in the low nibble)
//   buffer 2, 3   W's scales (K / 16 to a row), Y
//   buffer 4      nvfp4_sizes

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

#include "anymetal/block_matmul.h"
#include "anymetal/gguf_vector.h"

using namespace metal;
using namespace anymetal;

/// Sizes of one dispatch, and the factor of all weights.
struct nvfp4_sizes {
    block_sizes size;
    float scale;
};

template <typename T>
[[kernel]] void nvfp4_tile(device T* x [[buffer(0)]],
                           device const uchar* codes [[buffer(1)]],
                           device const uchar* scales [[buffer(2)]],
                           device float* y [[buffer(3)]],
                           constant nvfp4_sizes& sizes [[buffer(4)]],
                           uint2 tgid [[threadgroup_position_in_grid]],
                           uint thread_index [[thread_index_in_threadgroup]])
{
    alignas(64) threadgroup T tile[64 * 64];
    const nvfp4::weights w = nvfp4::of(codes, scales, sizes.scale, sizes.size.k);
    block_matmul_tile<nvfp4, T, 32, 64, 64>(x, w, y, sizes.size, tile, tgid, thread_index);
}

template <typename T>
[[kernel]] void nvfp4_cooperative(device T* x [[buffer(0)]],
                                  device const uchar* codes [[buffer(1)]],
                                  device const uchar* scales [[buffer(2)]],
                                  device float* y [[buffer(3)]],
                                  constant nvfp4_sizes& sizes [[buffer(4)]],
                                  uint2 tgid [[threadgroup_position_in_grid]],
                                  uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const int column0 = int(tgid.x * 4 + simdgroup) * 32;
    if (column0 < sizes.size.n) {
        const nvfp4::weights w = nvfp4::of(codes, scales, sizes.scale, sizes.size.k);
        block_matmul_cooperative<nvfp4, T, 16, 32, 16>(x, w, y, sizes.size, int(tgid.y) * 16, column0);
    }
}

template <typename T>
[[kernel]] void nvfp4_vector(device const T* x [[buffer(0)]],
                             device const uchar* codes [[buffer(1)]],
                             device const uchar* scales [[buffer(2)]],
                             device float* y [[buffer(3)]],
                             constant nvfp4_sizes& sizes [[buffer(4)]],
                             uint2 tgid [[threadgroup_position_in_grid]],
                             uint thread_index [[thread_index_in_threadgroup]],
                             uint threads [[threads_per_threadgroup]])
{
    constexpr int ROWS = 32;
    threadgroup float partial[1024];
    constant block_sizes& size = sizes.size;
    const int n = int(tgid.x) * ROWS;
    const int runs = size.k / 16;
    const int last = size.n - 1 - n;
    x += long(tgid.y) * size.k;
    // Where rows begin, in runs of 16 elements: 8 bytes of codes and a scale each.
    codes += long(n) * runs * 8;
    scales += long(n) * runs;
    int rows[ROWS];
    float sums[ROWS];
    int at = 0;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        // Past the last row the last one is read again, and its sum is not stored.
        rows[row] = at;
        at += row < last ? runs : 0;
        sums[row] = 0.0f;
    }
    for (int run = int(thread_index); run < runs; run += int(threads)) {
        const vec<float, 16> values(reinterpret_cast<device const vec<T, 16>*>(x)[run]);
        device const vec<uchar, 8>* code_run = reinterpret_cast<device const vec<uchar, 8>*>(codes) + run;
        device const uchar* scale_run = scales + run;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            const float scale = unpack<float>(nvfp4::scale_pair(uchar2(scale_run[rows[row]], 0))).x;
            const nvfp4::elements packed(code_run[rows[row]]);
            const vec<float, 16> weights = unpack<float>(packed);
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                sum += values[i] * weights[i];
            }
            sums[row] += sum * scale;
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        sums[row] *= sizes.scale;
    }
    store_rows<ROWS>(sums, y + long(tgid.y) * size.n, n, size.n, partial, thread_index, threads);
}

#define INSTANTIATE(name, function, ...) \
    template [[host_name(name)]] [[kernel]] decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;

#define NVFP4_OF_TYPE(type_name, T)                                    \
    INSTANTIATE("nvfp4_tile_" type_name, nvfp4_tile, T)                \
    INSTANTIATE("nvfp4_cooperative_" type_name, nvfp4_cooperative, T)  \
    INSTANTIATE("nvfp4_vector_" type_name, nvfp4_vector, T)

NVFP4_OF_TYPE("f32", float)
NVFP4_OF_TYPE("f16", half)
NVFP4_OF_TYPE("bf16", bfloat)
