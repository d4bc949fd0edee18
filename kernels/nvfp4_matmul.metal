// Y = X·Wᵀ with NVFP4 weights, decoded in the kernel: E2M1 elements in blocks of 16 along K, an E4M3 scale for each block, a
// float for all. X is [M, K] of T, Y is [M, N] of float. K is a multiple of 16.
//
//   kernel name   nvfp4_{tile,cooperative,vector}_{f32,f16,bf16}
//   tile          through threadgroup memory; grid threadgroups (ceil(N / 64), ceil(M / 32), 1), threads 128
//   cooperative   straight into a cooperative input; grid threadgroups (ceil(N / 128), ceil(M / 16), 1), threads 128
//   vector        one row of X at a time; grid threadgroups (ceil(N / 32), M, 1), threads 128 (or 32·S: ceil(N / 8·S));
//                 X begins at a multiple of 16 elements of memory, W at one of 8 bytes
//
//   buffer 0, 1   X, W's elements (K / 2 bytes to a row, the even element in the low nibble)
//   buffer 2, 3   W's scales (K / 16 to a row), Y
//   buffer 4      nvfp4_sizes

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

#include "anymetal/block_matmul.h"

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
                             uint simdgroups [[simdgroups_per_threadgroup]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]])
{
    constexpr int ROWS = 8;
    constant block_sizes& size = sizes.size;
    const int row0 = int(tgid.x * simdgroups + simdgroup) * ROWS;
    if (row0 >= size.n) {
        return;
    }
    const nvfp4::weights w = nvfp4::of(codes, scales, sizes.scale, size.k);
    x += long(tgid.y) * size.k;
    float sums[ROWS] = {};
    for (int run = int(lane); run < size.k / 16; run += 32) {
        const vec<float, 16> values(*reinterpret_cast<device const vec<T, 16>*>(x + 16 * run));
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            const int n = min(row0 + row, size.n - 1);
            device const uchar* bytes = w.codes + (long(n) * size.k + 16 * run) / 2;
            const nvfp4::elements packed(*reinterpret_cast<device const vec<uchar, 8>*>(bytes));
            const vec<float, 16> weights = unpack<float>(packed);
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                sum += values[i] * weights[i];
            }
            sums[row] += sum * nvfp4::scale_of(w, n, 16 * run);
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        const float sum = simd_sum(sums[row]);
        if (lane == 0 && row0 + row < size.n) {
            y[long(tgid.y) * size.n + row0 + row] = sum;
        }
    }
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
