// FlashAttention for Metal tensors: softmax(Q·Kᵀ·scale + mask)·V in one pass over the keys.
//
// The scores of one tile never leave the SIMD-group that computed them. A SIMD-group owns ROWS complete
// rows of the score matrix, so the softmax needs no exchange between SIMD-groups:
//
//   S = Q·Kᵀ             matmul2d into a destination cooperative tensor, scope execution_simdgroup
//   m, l                 running row maximum and row sum, row-reduction cooperative tensors (reduce_rows)
//   P = exp2(S − m)      element loop; map_iterator finds the row of an element
//   O = O·exp2(m₀ − m) + P·V
//                        P becomes the left input of the second matmul2d: converted in registers where
//                        is_compatible_as_left_input says so, else through threadgroup memory
//
// Scores are kept in units of log2, because exp2 is the cheaper function: scale and additive masks are
// multiplied by log2(e) once.
//
// Edges. Rows past `q_len` and keys past `kv_len` may be anything: tiles are cut by dynamic slices, so the
// products read no element past the end, keys past the end are masked by their index, and rows past the
// end are not written. The last, partial block of keys cannot use the fixed inner dimension that a
// cooperative left input asks for; it goes through threadgroup memory and a matmul2d of dynamic K.
//
// Masked rows. A row whose keys are all masked gives zeros (PyTorch gives NaN there). A score at or below
// −1e38 counts as masked, so additive masks may use −INFINITY or the lowest float.
//
// The header is self-contained: it is included by kernels, and it is pasted as helper source into the
// custom kernels of Core AI assets.

#ifndef ANYMETAL_FLASH_ATTENTION_H
#define ANYMETAL_FLASH_ATTENTION_H

#include <metal_stdlib>
#include <metal_tensor>
#include <metal_cooperative_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

namespace anymetal {

/// Rows of the score matrix that one SIMD-group owns.
constant constexpr int attention_rows = 16;

/// Keys of one block: the inner dimension of the second product.
constant constexpr int attention_keys = 64;

/// The score of a masked key, in log2 units: far below any real score, yet finite, so that fast maths
/// may assume that there are no infinities.
constant constexpr float attention_masked = -3.0e38f;

/// A row maximum below this means that no key of the row was seen.
constant constexpr float attention_masked_below = -1.0e38f;

/// log2(e).
constant constexpr float attention_log2e = 1.44269504088896340736f;

/// What a mask does to a score.
enum attention_mask_kind : int {
    attention_mask_none = 0,      // no mask is read
    attention_mask_additive = 1,  // the mask's value is added to the scaled score
    attention_mask_boolean = 2,   // true: attend, false: masked
};

/// Floats of threadgroup memory that one SIMD-group needs: one tile of P, or one tile of O.
template <int D, int ROWS = attention_rows, int BK = attention_keys>
constexpr int attention_scratch_floats()
{
    return ROWS * (D > BK ? D : BK);
}

/// One head of Q, K, V or O: `length` rows of D elements, `stride` elements from row to row.
template <typename T>
struct attention_head {
    device T* base;
    int length;
    int stride;
};

/// One head's mask: element (row, key) at `base[row * row_stride + key * key_stride]`. A stride of 0
/// repeats the mask along that axis.
template <typename M>
struct attention_mask {
    device M* base;
    int row_stride;
    int key_stride;
};

/// Computes rows [row0, row0 + ROWS) of one head. Called by all threads of a SIMD-group.
///
/// T       element type of Q, K, V and O: float, half or bfloat; all sums are in float
/// D       head dimension, a multiple of 16
/// CAUSAL  key j takes part in row i only if j <= i + causal_offset
/// MASK    what `mask` means; ignored for attention_mask_none
/// RELAXED lets the second product truncate P to the precision of the tensor units (reduces a float's
///         mantissa to 10 bits)
/// scale   factor of Q·Kᵀ, before the mask is added
/// scratch attention_scratch_floats<D, ROWS, BK>() floats, for this SIMD-group alone
template <typename T, int D, bool CAUSAL, int MASK, bool RELAXED, int ROWS, int BK, typename M>
inline void flash_attention_rows(attention_head<T> q_head,
                                 attention_head<T> k_head,
                                 attention_head<T> v_head,
                                 attention_head<T> o_head,
                                 attention_mask<M> mask,
                                 float scale,
                                 int causal_offset,
                                 int row0,
                                 threadgroup float* scratch)
{
    using namespace metal;
    using namespace mpp::tensor_ops;

    static_assert(D % 16 == 0, "the head dimension must be a multiple of 16");
    static_assert(BK % 16 == 0, "the block of keys must be a multiple of 16");
    static_assert(ROWS % 16 == 0, "the rows of a SIMD-group must be a multiple of 16");

    using head_view = tensor<device T, dextents<int, 2>, tensor_inline>;
    using scratch_view = tensor<threadgroup float, dextents<int, 2>, tensor_inline>;

    head_view q(q_head.base, dextents<int, 2>(D, q_head.length), array<int, 2>({1, q_head.stride}));
    head_view k(k_head.base, dextents<int, 2>(D, k_head.length), array<int, 2>({1, k_head.stride}));
    head_view v(v_head.base, dextents<int, 2>(D, v_head.length), array<int, 2>({1, v_head.stride}));
    head_view o(o_head.base, dextents<int, 2>(D, o_head.length), array<int, 2>({1, o_head.stride}));

    // S (ROWS × BK) = Q (ROWS × D) · Kᵀ: K is stored with its rows along D, so it is the transposed operand.
    constexpr auto qk_descriptor = matmul2d_descriptor(ROWS, BK, D, false, true, false);
    // O (ROWS × D) += P (ROWS × BK) · V (BK × D).
    constexpr auto pv_descriptor = matmul2d_descriptor(
        ROWS, D, BK, false, false, RELAXED, matmul2d_descriptor::mode::multiply_accumulate);
    // The last block has fewer keys than BK: the inner dimension comes from the operands.
    constexpr auto tail_descriptor = matmul2d_descriptor(
        ROWS, D, static_cast<int>(dynamic_extent), false, false, RELAXED);

    matmul2d<qk_descriptor, execution_simdgroup> qk_op;
    matmul2d<pv_descriptor, execution_simdgroup> pv_op;
    matmul2d<tail_descriptor, execution_simdgroup> tail_op;

    auto q_tile = q.template slice<D, dynamic_extent>(0, row0);
    auto k_first = k.template slice<D, dynamic_extent>(0, 0);
    auto v_first = v.template slice<D, dynamic_extent>(0, 0);
    using q_tile_t = remove_addrspace_t<decltype(q_tile)>;
    using k_tile_t = remove_addrspace_t<decltype(k_first)>;
    using v_tile_t = remove_addrspace_t<decltype(v_first)>;
    using p_input_t =
        remove_addrspace_t<decltype(pv_op.template get_left_input_cooperative_tensor<float, T, float>())>;

    auto out = pv_op.template get_destination_cooperative_tensor<p_input_t, v_tile_t, float>();
    for (auto it = out.begin(); it != out.end(); it++) {
        *it = 0.0f;
    }

    auto row_max = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto row_sum = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto block_max = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto block_sum = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto rescale = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    for (ushort i = 0; i < row_max.get_capacity(); i++) {
        row_max[i] = attention_masked;
        row_sum[i] = 0.0f;
    }

    // Keys past `kv_end` are masked for every row of this SIMD-group.
    int kv_end = k_head.length;
    if (CAUSAL) {
        kv_end = min(kv_end, row0 + ROWS + causal_offset);
    }
    const float scale_log2 = scale * attention_log2e;

    for (int key0 = 0; key0 < kv_end; key0 += BK) {
        auto k_tile = k.template slice<D, dynamic_extent>(0, key0);
        auto v_tile = v.template slice<D, dynamic_extent>(0, key0);

        auto scores = qk_op.template get_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
        qk_op.run(q_tile, k_tile, scores);

        const bool whole = key0 + BK <= k_head.length &&
                           (!CAUSAL || key0 + BK <= row0 + causal_offset + 1);
        if (MASK == attention_mask_none && whole) {
            for (auto it = scores.begin(); it != scores.end(); it++) {
                *it = *it * scale_log2;
            }
        } else {
            for (auto it = scores.begin(); it != scores.end(); it++) {
                const auto at = scores.get_multidimensional_index(it);
                const int key = key0 + int(at[0]);
                const int row = row0 + int(at[1]);
                bool keep = key < k_head.length;
                if constexpr (CAUSAL) {
                    keep = keep && key <= row + causal_offset;
                }
                float score = *it * scale_log2;
                if constexpr (MASK != attention_mask_none) {
                    // Clamped, so that elements of the tile past the edges read inside the mask.
                    const int mask_row = min(row, q_head.length - 1);
                    const int mask_key = min(key, k_head.length - 1);
                    const M entry = mask.base[mask_row * mask.row_stride + mask_key * mask.key_stride];
                    if constexpr (MASK == attention_mask_boolean) {
                        keep = keep && bool(entry);
                    } else {
                        score += float(entry) * attention_log2e;
                    }
                }
                *it = keep ? max(score, attention_masked) : attention_masked;
            }
        }

        reduce_rows(scores, block_max, reduction_operation::max, -INFINITY);
        for (ushort i = 0; i < row_max.get_capacity(); i++) {
            const float highest = max(row_max[i], block_max[i]);
            // A row without a key so far is shifted by 0, so that its masked scores become exp2(−3e38) = 0.
            const float shift = highest > attention_masked_below ? highest : 0.0f;
            rescale[i] = exp2(row_max[i] - shift);
            row_max[i] = highest;
            block_max[i] = shift;
        }

        for (auto it = scores.begin(); it != scores.end(); it++) {
            auto row_it = block_max.map_iterator(it);
            *it = exp2(*it - *row_it);
        }

        reduce_rows(scores, block_sum, reduction_operation::sum, 0.0f);
        for (ushort i = 0; i < row_sum.get_capacity(); i++) {
            row_sum[i] = row_sum[i] * rescale[i] + block_sum[i];
        }
        for (auto it = out.begin(); it != out.end(); it++) {
            auto row_it = rescale.map_iterator(it);
            *it = *it * *row_it;
        }

        const int keys_left = k_head.length - key0;
        if (keys_left >= BK) {
            if (pv_op.template is_compatible_as_left_input<float, T, float>(scores)) {
                auto p = pv_op.template get_left_input_cooperative_tensor<float, T, float>(scores);
                pv_op.run(p, v_tile, out);
            } else {
                scratch_view p_memory(scratch, dextents<int, 2>(BK, ROWS));
                simdgroup_barrier(mem_flags::mem_threadgroup);  // earlier reads of the scratch are done
                scores.store(p_memory);
                simdgroup_barrier(mem_flags::mem_threadgroup);

                auto p = pv_op.template get_left_input_cooperative_tensor<float, T, float>();
                p.load(p_memory);
                pv_op.run(p, v_tile, out);
            }
        } else {
            scratch_view p_memory(scratch, dextents<int, 2>(BK, ROWS));
            simdgroup_barrier(mem_flags::mem_threadgroup);
            scores.store(p_memory);
            simdgroup_barrier(mem_flags::mem_threadgroup);

            scratch_view p_tail(scratch, dextents<int, 2>(keys_left, ROWS), array<int, 2>({1, BK}));
            auto tail = tail_op.template get_destination_cooperative_tensor<scratch_view, v_tile_t, float>();
            tail_op.run(p_tail, v_tile, tail);

            // The layouts of two operations need not agree: the sum is formed after a trip through memory.
            scratch_view o_memory(scratch, dextents<int, 2>(D, ROWS));
            simdgroup_barrier(mem_flags::mem_threadgroup);
            tail.store(o_memory);
            simdgroup_barrier(mem_flags::mem_threadgroup);
            auto part = pv_op.template get_destination_cooperative_tensor<p_input_t, v_tile_t, float>();
            part.load(o_memory);
            for (ushort i = 0; i < out.get_capacity(); i++) {
                out[i] += part[i];
            }
        }
    }

    // O / l; a row without a key stays zero.
    for (ushort i = 0; i < row_sum.get_capacity(); i++) {
        rescale[i] = row_sum[i] > 0.0f ? 1.0f / row_sum[i] : 0.0f;
    }
    for (auto it = out.begin(); it != out.end(); it++) {
        auto row_it = rescale.map_iterator(it);
        *it = *it * *row_it;
    }

    if constexpr (is_same_v<T, float>) {
        auto o_tile = o.template slice<D, dynamic_extent>(0, row0);
        out.store(o_tile);
    } else {
        // store() does not convert: 16-bit results are written element by element.
        for (auto it = out.begin(); it != out.end(); it++) {
            const auto at = out.get_multidimensional_index(it);
            const int row = row0 + int(at[1]);
            if (row < o_head.length) {
                o_head.base[row * o_head.stride + int(at[0])] = T(*it);
            }
        }
    }
}

/// Computes rows [group_row0, group_row0 + 16 · SIMDGROUPS) of one head: attention without a mask, by a whole threadgroup.
///
/// Called by all threads of a threadgroup of SIMDGROUPS SIMD-groups, each of which owns 16 rows as in `flash_attention_rows`. All of them walk the
/// same blocks of keys to the same end, so that a device may fetch each block once for the threadgroup and fetch the next one meanwhile: bounds
/// are those of the whole threadgroup, nobody leaves early, and rows past the end are cut off by the extents of Q and O. The last block of
/// keys begins so early that it is whole, too; the keys that the block before it had are masked.
///
/// T       element type of Q, K, V and O: float, half or bfloat
/// BK      keys of a block; the head has at least as many
/// scale   factor of Q·Kᵀ, positive
/// scratch 16 · BK floats, for this SIMD-group alone; only used where a destination cannot become an input
template <typename T, int D, bool CAUSAL, int SIMDGROUPS, int BK>
inline void flash_attention_blocks(attention_head<T> q_head,
                                   attention_head<T> k_head,
                                   attention_head<T> v_head,
                                   attention_head<T> o_head,
                                   float scale,
                                   int causal_offset,
                                   int group_row0,
                                   int simdgroup,
                                   threadgroup float* scratch)
{
    using namespace metal;
    using namespace mpp::tensor_ops;

    constexpr int ROWS = attention_rows;
    static_assert(D % 16 == 0, "the head dimension must be a multiple of 16");
    static_assert(BK % 16 == 0, "the block of keys must be a multiple of 16");
    using head_view = tensor<device T, dextents<int, 2>, tensor_inline>;
    using scratch_view = tensor<threadgroup float, dextents<int, 2>, tensor_inline>;

    head_view q(q_head.base, dextents<int, 2>(D, q_head.length), array<int, 2>({1, q_head.stride}));
    head_view k(k_head.base, dextents<int, 2>(D, k_head.length), array<int, 2>({1, k_head.stride}));
    head_view v(v_head.base, dextents<int, 2>(D, v_head.length), array<int, 2>({1, v_head.stride}));

    constexpr auto qk_descriptor = matmul2d_descriptor(ROWS, BK, D, false, true, false);
    // Beside 16-bit values P may be rounded to their precision.
    constexpr auto pv_descriptor = matmul2d_descriptor(
        ROWS, D, BK, false, false, sizeof(T) == 2, matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<qk_descriptor, execution_simdgroup> qk_op;
    matmul2d<pv_descriptor, execution_simdgroup> pv_op;

    const int row0 = group_row0 + simdgroup * ROWS;
    auto q_tile = q.template slice<D, dynamic_extent>(0, row0);
    auto k_first = k.template slice<D, dynamic_extent>(0, 0);
    auto v_first = v.template slice<D, dynamic_extent>(0, 0);
    using q_tile_t = remove_addrspace_t<decltype(q_tile)>;
    using k_tile_t = remove_addrspace_t<decltype(k_first)>;
    using v_tile_t = remove_addrspace_t<decltype(v_first)>;
    using p_input_t =
        remove_addrspace_t<decltype(pv_op.template get_left_input_cooperative_tensor<float, T, float>())>;

    auto out = pv_op.template get_destination_cooperative_tensor<p_input_t, v_tile_t, float>();
    for (auto it = out.begin(); it != out.end(); it++) {
        *it = 0.0f;
    }
    auto row_max = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto row_sum = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto block_max = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto block_sum = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    auto rescale = qk_op.template get_row_reduction_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
    for (ushort i = 0; i < row_max.get_capacity(); i++) {
        row_max[i] = attention_masked;
        row_sum[i] = 0.0f;
    }

    // Keys past `kv_end` are masked for every row of the threadgroup.
    int kv_end = k_head.length;
    if (CAUSAL) {
        kv_end = min(kv_end, group_row0 + SIMDGROUPS * ROWS + causal_offset);
    }
    const int last_block = max(k_head.length - BK, 0);
    const float scale_log2 = scale * attention_log2e;

    for (int key0 = 0; key0 < kv_end; key0 += BK) {
        const int first_key = min(key0, last_block);
        auto k_tile = k.template slice<D, dynamic_extent>(0, first_key);
        auto v_tile = v.template slice<D, dynamic_extent>(0, first_key);

        // Scores are scaled where they become exponents: their maximum does not mind.
        auto scores = qk_op.template get_destination_cooperative_tensor<q_tile_t, k_tile_t, float>();
        qk_op.run(q_tile, k_tile, scores);

        if (key0 > k_head.length - BK || (CAUSAL && key0 + BK > group_row0 + causal_offset + 1)) {
            for (auto it = scores.begin(); it != scores.end(); it++) {
                const auto at = scores.get_multidimensional_index(it);
                const int key = first_key + int(at[0]);
                const bool keep = key >= key0 && key < k_head.length &&
                                  (!CAUSAL || key <= row0 + int(at[1]) + causal_offset);
                *it = keep ? max(*it, attention_masked) : attention_masked;
            }
        }

        reduce_rows(scores, block_max, reduction_operation::max, -INFINITY);
        for (ushort i = 0; i < row_max.get_capacity(); i++) {
            const float highest = max(row_max[i], block_max[i]);
            // A row without a key so far is shifted by 0, so that its masked scores become exp2(−3e38 · scale) = 0.
            const float shift = highest > attention_masked_below ? highest * scale_log2 : 0.0f;
            rescale[i] = exp2(row_max[i] * scale_log2 - shift);
            row_max[i] = highest;
            block_max[i] = -shift;
        }

        for (auto it = scores.begin(); it != scores.end(); it++) {
            auto row_it = block_max.map_iterator(it);
            *it = exp2(fma(*it, scale_log2, *row_it));
        }

        reduce_rows(scores, block_sum, reduction_operation::sum, 0.0f);
        for (ushort i = 0; i < row_sum.get_capacity(); i++) {
            row_sum[i] = row_sum[i] * rescale[i] + block_sum[i];
        }
        for (auto it = out.begin(); it != out.end(); it++) {
            auto row_it = rescale.map_iterator(it);
            *it = *it * *row_it;
        }

        if (pv_op.template is_compatible_as_left_input<float, T, float>(scores)) {
            auto p = pv_op.template get_left_input_cooperative_tensor<float, T, float>(scores);
            pv_op.run(p, v_tile, out);
        } else {
            // Through memory, which is enough for half of the SIMD-groups.
            constexpr int half_of_all = SIMDGROUPS / 2;
            scratch_view p_memory(scratch + simdgroup % half_of_all * ROWS * BK, dextents<int, 2>(BK, ROWS));
            auto p = pv_op.template get_left_input_cooperative_tensor<float, T, float>();
            for (int turn = 0; turn < 2; turn++) {
                threadgroup_barrier(mem_flags::mem_threadgroup);
                if (simdgroup / half_of_all == turn) {
                    scores.store(p_memory);
                    simdgroup_barrier(mem_flags::mem_threadgroup);
                    p.load(p_memory);
                }
            }
            pv_op.run(p, v_tile, out);
        }
    }

    // O / l; a row without a key stays zero.
    for (ushort i = 0; i < row_sum.get_capacity(); i++) {
        rescale[i] = row_sum[i] > 0.0f ? 1.0f / row_sum[i] : 0.0f;
    }
    for (auto it = out.begin(); it != out.end(); it++) {
        auto row_it = rescale.map_iterator(it);
        const auto at = out.get_multidimensional_index(it);
        const int row = row0 + int(at[1]);
        if (row < o_head.length) {
            o_head.base[row * o_head.stride + int(at[0])] = T(*it * *row_it);
        }
    }
}

/// Attention of one head for a custom kernel of a Core AI asset: Q, K, V and O are handle tensors of rank 4
/// with extents (D, T, H, B) if HEADS_OUTER (the framework's [B, H, T, D]), else (D, H, T, B)
/// ([B, T, H, D]). K and V may have fewer heads than Q: query head h uses key head h·Hk/Hq.
///
/// Called by all threads of a SIMD-group for rows [row0, row0 + ROWS) of head `head` of batch `batch`.
template <int D, bool CAUSAL, int MASK, bool RELAXED, bool HEADS_OUTER, int ROWS, int BK,
          typename Q, typename K, typename V, typename O, typename M>
inline void flash_attention_handles(thread Q& q, thread K& k, thread V& v, thread O& o,
                                    attention_mask<M> mask, float scale, int causal_offset,
                                    int batch, int head, int row0, threadgroup float* scratch)
{
    using T = typename O::value_type;
    constexpr int rows_axis = HEADS_OUTER ? 1 : 2;
    constexpr int heads_axis = HEADS_OUTER ? 2 : 1;

    const int kv_head = head * int(k.get_extent(heads_axis)) / int(q.get_extent(heads_axis));
    const int q_at = HEADS_OUTER ? 0 : head;
    const int q_out = HEADS_OUTER ? head : 0;
    const int k_at = HEADS_OUTER ? 0 : kv_head;
    const int k_out = HEADS_OUTER ? kv_head : 0;

    if (row0 >= int(q.get_extent(rows_axis))) {
        return;
    }
    attention_head<T> q_head = {&q[0, q_at, q_out, batch], int(q.get_extent(rows_axis)), int(q.get_stride(rows_axis))};
    attention_head<T> k_head = {&k[0, k_at, k_out, batch], int(k.get_extent(rows_axis)), int(k.get_stride(rows_axis))};
    attention_head<T> v_head = {&v[0, k_at, k_out, batch], int(v.get_extent(rows_axis)), int(v.get_stride(rows_axis))};
    attention_head<T> o_head = {&o[0, q_at, q_out, batch], int(o.get_extent(rows_axis)), int(o.get_stride(rows_axis))};
    flash_attention_rows<T, D, CAUSAL, MASK, RELAXED, ROWS, BK>(
        q_head, k_head, v_head, o_head, mask, scale, causal_offset, row0, scratch);
}

/// The mask of one head from a handle tensor of rank 4 with extents (Tk, Tq, H, B); an extent of 1 is
/// repeated along that axis.
template <typename M, typename Mask>
inline attention_mask<M> attention_mask_from_handle(thread Mask& mask, int batch, int head)
{
    const int b = mask.get_extent(3) > 1 ? batch : 0;
    const int h = mask.get_extent(2) > 1 ? head : 0;
    attention_mask<M> result = {&mask[0, 0, h, b],
                                mask.get_extent(1) > 1 ? int(mask.get_stride(1)) : 0,
                                mask.get_extent(0) > 1 ? 1 : 0};
    return result;
}

}  // namespace anymetal

#endif  // ANYMETAL_FLASH_ATTENTION_H
