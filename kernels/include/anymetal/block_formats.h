// Weights that are quantised in blocks, as files hold them, and how their elements are decoded.
//
// A format is a struct with
//   BLOCK              elements of a block, along K
//   row(k)             bytes of a row of k elements
//   weights<P>         the arguments that hold a matrix [N, K], rows one after another
//   run(w, n, k)       16 consecutive elements of row n from k on, k a multiple of 16
//   one(w, n, k)       one element
//
// Elements are decoded in float; the caller rounds them to the type that it multiplies in.

#pragma once

#include <metal_stdlib>
#include <metal_packed_numeric>

namespace anymetal {

using float16 = metal::vec<float, 16>;

/// The low (shift 0) or high (shift 4) nibbles of 16 bytes, which begin at a multiple of four.
inline float16 nibbles_of_half(device const uchar* bytes, uint shift)
{
    const metal::packed_uint4 words = *reinterpret_cast<device const metal::packed_uint4*>(bytes);
    float16 values;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint word = words[i] >> shift;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            values[4 * i + j] = float((word >> (8 * j)) & 0x0f);
        }
    }
    return values;
}

/// GGUF's Q4_1: 32 elements d·q + m. Element i is the low nibble of byte i, element 16 + i the high one.
struct q4_1 {
    struct block {
        half d;
        half m;
        uchar qs[16];
    };
    static_assert(sizeof(block) == 20, "a block of Q4_1 is 20 bytes");

    static constexpr constant int BLOCK = 32;

    /// The blocks of a matrix with K columns.
    struct weights {
        device const block* blocks;
        int per_row;
    };

    static weights of(device const uchar* bytes, int k)
    {
        weights w;
        w.blocks = reinterpret_cast<device const block*>(bytes);
        w.per_row = k / BLOCK;
        return w;
    }

    static float16 run(weights w, int n, int k)
    {
        device const block& b = w.blocks[long(n) * w.per_row + k / BLOCK];
        return float(b.d) * nibbles_of_half(b.qs, uint(k & 16) / 4) + float(b.m);
    }

    static float one(weights w, int n, int k)
    {
        device const block& b = w.blocks[long(n) * w.per_row + k / BLOCK];
        const uchar byte = b.qs[k % 16];
        return float(b.d) * float((byte >> ((k & 16) / 4)) & 0x0f) + float(b.m);
    }
};

/// GGUF's Q4_K: 256 elements in eight groups of 32, each d·scale·q − dmin·min with 6-bit scales and mins. Groups 2i and
/// 2i + 1 are the low and high nibbles of bytes 32i to 32i + 31.
struct q4_k {
    struct block {
        half d;
        half dmin;
        uchar scales[12];
        uchar qs[128];
    };
    static_assert(sizeof(block) == 144, "a block of Q4_K is 144 bytes");

    static constexpr constant int BLOCK = 256;

    struct weights {
        device const block* blocks;
        int per_row;
    };

    static weights of(device const uchar* bytes, int k)
    {
        weights w;
        w.blocks = reinterpret_cast<device const block*>(bytes);
        w.per_row = k / BLOCK;
        return w;
    }

    /// Scale and min of a group. The first four are the low six bits of bytes j and j + 4; the last four have their low nibbles
    /// in byte j + 4 and their upper two bits at the top of bytes j − 4 and j. Bytes j, j + 4 and j + 8 are the same byte of three words.
    static float2 scale_and_min(device const block& b, int group)
    {
        const metal::packed_uint4 head = *reinterpret_cast<device const metal::packed_uint4*>(&b.d);
        const half2 factors = as_type<half2>(head[0]);
        const uint shift = uint(group % 4) * 8;
        const uint low = head[1] >> shift;
        const uint middle = head[2] >> shift;
        const uint high = head[3] >> shift;
        const bool first = group < 4;
        const uint scale = first ? low & 63 : (high & 15) | (low >> 2 & 48);
        const uint minimum = first ? middle & 63 : (high >> 4 & 15) | (middle >> 2 & 48);
        return float2(float(factors.x) * float(scale), float(factors.y) * float(minimum));
    }

    /// What groups 2i and 2i + 1 are decoded with.
    struct pair {
        float d;
        float dmin;
        float2 scales;
        float2 minima;
    };

    /// Scales of groups 2i and 2i + 1, and their minima: all four are in the same two bytes of the three words, by the rules above.
    static pair pair_of_scales(device const block& b, int index)
    {
        const metal::packed_uint4 head = *reinterpret_cast<device const metal::packed_uint4*>(&b.d);
        const half2 factors = as_type<half2>(head[0]);
        const uint shift = uint(index % 2) * 16;
        const uint low = head[1] >> shift;
        const uint middle = head[2] >> shift;
        const uint high = head[3] >> shift;
        // Which bits count, of two bytes.
        const bool first = index < 2;
        const uint six = first ? 0x3f3f : 0;
        const uint four = first ? 0 : 0x0f0f;
        const uint two = first ? 0 : 0x3030;
        const uint scales = (low & six) | (high & four) | (low >> 2 & two);
        const uint minima = (middle & six) | (high >> 4 & four) | (middle >> 2 & two);
        pair result;
        result.d = float(factors.x);
        result.dmin = float(factors.y);
        result.scales = float2(float(scales & 63), float(scales >> 8));
        result.minima = float2(float(minima & 63), float(minima >> 8));
        return result;
    }

    static float16 run(weights w, int n, int k)
    {
        device const block& b = w.blocks[long(n) * w.per_row + k / BLOCK];
        const int group = k % BLOCK / 32;
        const float2 factors = scale_and_min(b, group);
        device const uchar* bytes = b.qs + group / 2 * 32 + (k & 16);
        return factors.x * nibbles_of_half(bytes, uint(group % 2 * 4)) - factors.y;
    }

    static float one(weights w, int n, int k)
    {
        device const block& b = w.blocks[long(n) * w.per_row + k / BLOCK];
        const int group = k % BLOCK / 32;
        const float2 factors = scale_and_min(b, group);
        const uchar byte = b.qs[group / 2 * 32 + k % 32];
        return factors.x * float((byte >> (group % 2 * 4)) & 0x0f) - factors.y;
    }
};

/// NVFP4: 16 elements of E2M1 share a scale of E4M3, and all of them a float. Elements and scales lie in planes of their own.
struct nvfp4 {
    using scale_pair = metal::packed_numeric_type<metal_fp8_e4m3_format, 2>;
    using element_pair = metal::packed_numeric_type<metal_fp4_e2m1_format, 2>;
    using elements = metal::packed_numeric_type<metal_fp4_e2m1_format, 16>;

    static constexpr constant int BLOCK = 16;

    struct weights {
        device const uchar* codes;
        device const uchar* scales;
        float scale;
        int k;
    };

    static weights of(device const uchar* codes, device const uchar* scales, float scale, int k)
    {
        weights w;
        w.codes = codes;
        w.scales = scales;
        w.scale = scale;
        w.k = k;
        return w;
    }

    static float scale_of(weights w, int n, int k)
    {
        const uchar code = w.scales[long(n) * (w.k / BLOCK) + k / BLOCK];
        return metal::unpack<float>(scale_pair(uchar2(code, 0))).x * w.scale;
    }

    static float16 run(weights w, int n, int k)
    {
        device const uchar* bytes = w.codes + (long(n) * w.k + k) / 2;
        const elements packed(*reinterpret_cast<device const metal::vec<uchar, 8>*>(bytes));
        return scale_of(w, n, k) * metal::unpack<float>(packed);
    }

    static float one(weights w, int n, int k)
    {
        const uchar byte = w.codes[(long(n) * w.k + k) / 2];
        const float2 pair = metal::unpack<float>(element_pair(byte));
        return scale_of(w, n, k) * (k % 2 == 0 ? pair.x : pair.y);
    }
};

}  // namespace anymetal
