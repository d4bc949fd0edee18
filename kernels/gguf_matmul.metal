// Y = X·Wᵀ with GGUF's Q4_1 and Q4_K weights, decoded in the kernel. X is [M, K] of T, W [N, K] as in the file (rows of whole
// blocks, one after another), Y is [M, N] of float.
//
//   kernel name   {q4_1,q4_k}_{tile,cooperative,vector}_{f32,f16,bf16}
//   tile          through threadgroup memory; grid threadgroups (ceil(N / 64), ceil(M / 32), 1), threads 128
//   cooperative   straight into a cooperative input; grid threadgroups (ceil(N / 128), ceil(M / 16), 1), threads 128
//   vector        one row of X at a time; grid threadgroups (ceil(N / 32), M, 1), threads 128 (or another multiple of 32)
//
//   buffer 0..2   X, W (bytes), Y
//   buffer 3      anymetal::block_sizes

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

#include "anymetal/block_matmul.h"
#include "anymetal/gguf_vector.h"

using namespace metal;
using namespace anymetal;

template <typename F, typename T>
[[kernel]] void gguf_tile(device T* x [[buffer(0)]],
                          device const uchar* w [[buffer(1)]],
                          device float* y [[buffer(2)]],
                          constant block_sizes& size [[buffer(3)]],
                          uint2 tgid [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]])
{
    alignas(64) threadgroup T tile[64 * 64];
    block_matmul_tile<F, T, 32, 64, 64>(x, F::of(w, size.k), y, size, tile, tgid, thread_index);
}

template <typename F, typename T>
[[kernel]] void gguf_cooperative(device T* x [[buffer(0)]],
                                 device const uchar* w [[buffer(1)]],
                                 device float* y [[buffer(2)]],
                                 constant block_sizes& size [[buffer(3)]],
                                 uint2 tgid [[threadgroup_position_in_grid]],
                                 uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const int column0 = int(tgid.x * 4 + simdgroup) * 32;
    if (column0 < size.n) {
        block_matmul_cooperative<F, T, 16, 32, 32>(x, F::of(w, size.k), y, size, int(tgid.y) * 16, column0);
    }
}

template <typename F, typename Run, typename T>
[[kernel]] void gguf_vector(device T* x [[buffer(0)]],
                            device const uchar* w [[buffer(1)]],
                            device float* y [[buffer(2)]],
                            constant block_sizes& size [[buffer(3)]],
                            uint2 tgid [[threadgroup_position_in_grid]],
                            uint thread_index [[thread_index_in_threadgroup]],
                            uint threads [[threads_per_threadgroup]])
{
    constexpr int ROWS = 32;
    threadgroup float partial[1024];
    const long row_bytes = long(size.k / F::BLOCK) * sizeof(typename F::block);
    vector_rows<Run, T, ROWS>(x + long(tgid.y) * size.k, w, row_bytes, y + long(tgid.y) * size.n, size,
                              int(tgid.x) * ROWS, partial, thread_index, threads);
}

#define INSTANTIATE(name, function, ...) \
    template [[host_name(name)]] [[kernel]] decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;

#define GGUF_OF_TYPE(format, type_name, T)                                          \
    INSTANTIATE(#format "_tile_" type_name, gguf_tile, format, T)                   \
    INSTANTIATE(#format "_cooperative_" type_name, gguf_cooperative, format, T)     \
    INSTANTIATE(#format "_vector_" type_name, gguf_vector, format, format##_run<T>, T)

#define GGUF_OF_FORMAT(format)              \
    GGUF_OF_TYPE(format, "f32", float)      \
    GGUF_OF_TYPE(format, "f16", half)       \
    GGUF_OF_TYPE(format, "bf16", bfloat)

GGUF_OF_FORMAT(q4_1)
GGUF_OF_FORMAT(q4_k)
