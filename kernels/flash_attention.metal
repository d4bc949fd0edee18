// FlashAttention over packed buffers: Q and O are [B, Hq, Tq, D], K and V are [B, Hk, Tk, D], each head's rows one after another.
//
//   kernel name   flash_attention_{f32,f16,bf16}_d{32,64,80,128}[_causal][_additive|_boolean]
//   grid          threadgroups (ceil(Tq / 64), Hq, B)
//   threads       128: four SIMD-groups of 16 rows each
//
//   kernel name   flash_attention_{f32,f16,bf16}_d{64,128}[_causal]_x8
//   grid          threadgroups (ceil(Tq / 128), Hq, B)
//   threads       256: eight SIMD-groups of 16 rows each, which walk the same keys together
//   needs         at least 128 keys and a positive scale
//
//   buffer 0..3   Q, K, V, O
//   buffer 4      attention_sizes
//   buffer 5      the mask, for the names with one: elements of O's type (additive) or bool (boolean: true attends)
//
// All names are made unless -D ATTENTION_TYPES, ATTENTION_DIMS or ATTENTION_FORMS asks for fewer (see the end of the file).
//
// The method and what happens at the edges stand in the header.

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

#include "anymetal/flash_attention.h"

using namespace metal;

/// Sizes and strides of one dispatch. Mask strides are in elements; 0 repeats the mask along that axis, keys are packed.
struct attention_sizes {
    int q_len;
    int kv_len;
    int q_heads;
    int kv_heads;
    int causal_offset;
    float scale;
    int mask_row_stride;
    int mask_head_stride;
    int mask_batch_stride;
};

constant constexpr int simdgroups = 4;

template <typename T, int D, bool CAUSAL, int MASK, typename M>
void attention_of_threadgroup(device T* q, device T* k, device T* v, device T* o, device M* mask,
                              constant attention_sizes& size, uint3 tgid, uint sgid, threadgroup float* scratch)
{
    const int row0 = int(tgid.x * simdgroups + sgid) * anymetal::attention_rows;
    if (row0 >= size.q_len) {
        return;
    }
    const int head = int(tgid.y);
    const int batch = int(tgid.z);
    const int kv_head = head * size.kv_heads / size.q_heads;
    const long q_start = long(batch * size.q_heads + head) * size.q_len * D;
    const long kv_start = long(batch * size.kv_heads + kv_head) * size.kv_len * D;

    anymetal::attention_head<T> q_head = {q + q_start, size.q_len, D};
    anymetal::attention_head<T> k_head = {k + kv_start, size.kv_len, D};
    anymetal::attention_head<T> v_head = {v + kv_start, size.kv_len, D};
    anymetal::attention_head<T> o_head = {o + q_start, size.q_len, D};
    anymetal::attention_mask<M> head_mask = {mask, size.mask_row_stride, 1};
    if constexpr (MASK != anymetal::attention_mask_none) {
        head_mask.base = mask + (long(batch) * size.mask_batch_stride + long(head) * size.mask_head_stride);
    }

    // P is a float; with 16-bit values the tensor units may round it to their precision.
    constexpr bool relaxed = !is_same_v<T, float>;
    anymetal::flash_attention_rows<T, D, CAUSAL, MASK, relaxed, anymetal::attention_rows, anymetal::attention_keys>(
        q_head, k_head, v_head, o_head, head_mask, size.scale, size.causal_offset, row0,
        scratch + sgid * anymetal::attention_scratch_floats<D>());
}

template <typename T, int D, bool CAUSAL>
[[kernel]] void flash_attention(device T* q [[buffer(0)]],
                                device T* k [[buffer(1)]],
                                device T* v [[buffer(2)]],
                                device T* o [[buffer(3)]],
                                constant attention_sizes& size [[buffer(4)]],
                                uint3 tgid [[threadgroup_position_in_grid]],
                                uint sgid [[simdgroup_index_in_threadgroup]])
{
    threadgroup float scratch[simdgroups * anymetal::attention_scratch_floats<D>()];
    attention_of_threadgroup<T, D, CAUSAL, anymetal::attention_mask_none>(q, k, v, o, q, size, tgid, sgid, scratch);
}

template <typename T, int D, bool CAUSAL, int MASK, typename M>
[[kernel]] void flash_attention_masked(device T* q [[buffer(0)]],
                                       device T* k [[buffer(1)]],
                                       device T* v [[buffer(2)]],
                                       device T* o [[buffer(3)]],
                                       constant attention_sizes& size [[buffer(4)]],
                                       device M* mask [[buffer(5)]],
                                       uint3 tgid [[threadgroup_position_in_grid]],
                                       uint sgid [[simdgroup_index_in_threadgroup]])
{
    threadgroup float scratch[simdgroups * anymetal::attention_scratch_floats<D>()];
    attention_of_threadgroup<T, D, CAUSAL, MASK>(q, k, v, o, mask, size, tgid, sgid, scratch);
}

/// Rows by 8 SIMD-groups of 16 that walk the keys together.
constant constexpr int block_simdgroups = 8;

template <typename T, int D, bool CAUSAL>
[[kernel, max_total_threads_per_threadgroup(32 * block_simdgroups)]]
void flash_attention_x8(device T* q [[buffer(0)]],
                        device T* k [[buffer(1)]],
                        device T* v [[buffer(2)]],
                        device T* o [[buffer(3)]],
                        constant attention_sizes& size [[buffer(4)]],
                        uint3 tgid [[threadgroup_position_in_grid]],
                        uint3 tgs [[threadgroups_per_grid]],
                        uint sgid [[simdgroup_index_in_threadgroup]])
{
    // Narrow heads leave room for a second threadgroup beside this one; wide ones of float fill the registers.
    constexpr int keys = D <= 64 || sizeof(T) > 2 ? 64 : 128;
    // Half of the SIMD-groups at a time use it.
    threadgroup float scratch[block_simdgroups / 2 * anymetal::attention_rows * keys];
    // Later rows see more keys: they go first.
    const int group = CAUSAL ? int(tgs.x - 1 - tgid.x) : int(tgid.x);
    const int row0 = group * block_simdgroups * anymetal::attention_rows;
    const int head = int(tgid.y);
    const int batch = int(tgid.z);
    const int kv_head = head * size.kv_heads / size.q_heads;
    const long q_start = long(batch * size.q_heads + head) * size.q_len * D;
    const long kv_start = long(batch * size.kv_heads + kv_head) * size.kv_len * D;
    anymetal::attention_head<T> q_head = {q + q_start, size.q_len, D};
    anymetal::attention_head<T> k_head = {k + kv_start, size.kv_len, D};
    anymetal::attention_head<T> v_head = {v + kv_start, size.kv_len, D};
    anymetal::attention_head<T> o_head = {o + q_start, size.q_len, D};
    anymetal::flash_attention_blocks<T, D, CAUSAL, block_simdgroups, keys>(
        q_head, k_head, v_head, o_head, size.scale, size.causal_offset, row0, int(sgid),
        scratch);
}

#define INSTANTIATE(name, function, ...)                                       \
    template [[host_name(name)]] [[kernel]] decltype(function<__VA_ARGS__>)    \
        function<__VA_ARGS__>;

// A compilation may ask for a part: the bits of ATTENTION_TYPES are f32, f16, bf16; of ATTENTION_DIMS 32, 64, 80, 128;
// of ATTENTION_FORMS plain, causal, additive, boolean, causal additive, causal boolean.
#ifndef ATTENTION_TYPES
#define ATTENTION_TYPES 7
#endif
#ifndef ATTENTION_DIMS
#define ATTENTION_DIMS 15
#endif
#ifndef ATTENTION_FORMS
#define ATTENTION_FORMS 255
#endif

#if ATTENTION_FORMS & 1
#define ATTENTION_PLAIN(type_name, T, D) INSTANTIATE("flash_attention_" type_name "_d" #D, flash_attention, T, D, false)
#else
#define ATTENTION_PLAIN(type_name, T, D)
#endif
#if ATTENTION_FORMS & 2
#define ATTENTION_CAUSAL(type_name, T, D) \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_causal", flash_attention, T, D, true)
#else
#define ATTENTION_CAUSAL(type_name, T, D)
#endif
#if ATTENTION_FORMS & 4
#define ATTENTION_ADDITIVE(type_name, T, D)                                                                \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_additive", flash_attention_masked, T, D, false,     \
                anymetal::attention_mask_additive, T)
#else
#define ATTENTION_ADDITIVE(type_name, T, D)
#endif
#if ATTENTION_FORMS & 8
#define ATTENTION_BOOLEAN(type_name, T, D)                                                                 \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_boolean", flash_attention_masked, T, D, false,      \
                anymetal::attention_mask_boolean, bool)
#else
#define ATTENTION_BOOLEAN(type_name, T, D)
#endif
#if ATTENTION_FORMS & 16
#define ATTENTION_CAUSAL_ADDITIVE(type_name, T, D)                                                         \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_causal_additive", flash_attention_masked, T, D,     \
                true, anymetal::attention_mask_additive, T)
#else
#define ATTENTION_CAUSAL_ADDITIVE(type_name, T, D)
#endif
#if ATTENTION_FORMS & 32
#define ATTENTION_CAUSAL_BOOLEAN(type_name, T, D)                                                          \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_causal_boolean", flash_attention_masked, T, D,      \
                true, anymetal::attention_mask_boolean, bool)
#else
#define ATTENTION_CAUSAL_BOOLEAN(type_name, T, D)
#endif

#if ATTENTION_FORMS & 64
#define ATTENTION_X8(type_name, T, D) \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_x8", flash_attention_x8, T, D, false)
#else
#define ATTENTION_X8(type_name, T, D)
#endif
#if ATTENTION_FORMS & 128
#define ATTENTION_CAUSAL_X8(type_name, T, D) \
    INSTANTIATE("flash_attention_" type_name "_d" #D "_causal_x8", flash_attention_x8, T, D, true)
#else
#define ATTENTION_CAUSAL_X8(type_name, T, D)
#endif

#define ATTENTION_OF_DIM(type_name, T, D)         \
    ATTENTION_PLAIN(type_name, T, D)              \
    ATTENTION_CAUSAL(type_name, T, D)             \
    ATTENTION_ADDITIVE(type_name, T, D)           \
    ATTENTION_BOOLEAN(type_name, T, D)            \
    ATTENTION_CAUSAL_ADDITIVE(type_name, T, D)    \
    ATTENTION_CAUSAL_BOOLEAN(type_name, T, D)

#if ATTENTION_DIMS & 1
#define ATTENTION_32(type_name, T) ATTENTION_OF_DIM(type_name, T, 32)
#else
#define ATTENTION_32(type_name, T)
#endif
#if ATTENTION_DIMS & 2
#define ATTENTION_64(type_name, T) ATTENTION_OF_DIM(type_name, T, 64)
#else
#define ATTENTION_64(type_name, T)
#endif
#if ATTENTION_DIMS & 4
#define ATTENTION_80(type_name, T) ATTENTION_OF_DIM(type_name, T, 80)
#else
#define ATTENTION_80(type_name, T)
#endif
#if ATTENTION_DIMS & 8
#define ATTENTION_128(type_name, T) ATTENTION_OF_DIM(type_name, T, 128)
#else
#define ATTENTION_128(type_name, T)
#endif

#define ATTENTION_OF_TYPE(type_name, T)    \
    ATTENTION_32(type_name, T)             \
    ATTENTION_64(type_name, T)             \
    ATTENTION_80(type_name, T)             \
    ATTENTION_128(type_name, T)

#if ATTENTION_TYPES & 1
ATTENTION_OF_TYPE("f32", float)
#endif
#if ATTENTION_TYPES & 2
ATTENTION_OF_TYPE("f16", half)
#endif
#if ATTENTION_TYPES & 4
ATTENTION_OF_TYPE("bf16", bfloat)
#endif

#if ATTENTION_TYPES & 1 && ATTENTION_DIMS & 2
ATTENTION_X8("f32", float, 64)
ATTENTION_CAUSAL_X8("f32", float, 64)
#endif
#if ATTENTION_TYPES & 1 && ATTENTION_DIMS & 8
ATTENTION_X8("f32", float, 128)
ATTENTION_CAUSAL_X8("f32", float, 128)
#endif
#if ATTENTION_TYPES & 2 && ATTENTION_DIMS & 2
ATTENTION_X8("f16", half, 64)
ATTENTION_CAUSAL_X8("f16", half, 64)
#endif
#if ATTENTION_TYPES & 2 && ATTENTION_DIMS & 8
ATTENTION_X8("f16", half, 128)
ATTENTION_CAUSAL_X8("f16", half, 128)
#endif
#if ATTENTION_TYPES & 4 && ATTENTION_DIMS & 2
ATTENTION_X8("bf16", bfloat, 64)
ATTENTION_CAUSAL_X8("bf16", bfloat, 64)
#endif
#if ATTENTION_TYPES & 4 && ATTENTION_DIMS & 8
ATTENTION_X8("bf16", bfloat, 128)
ATTENTION_CAUSAL_X8("bf16", bfloat, 128)
#endif
