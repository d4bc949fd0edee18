// vec<T, 8> and vec<T, 16>: through pointers and structs, constructors of parts, swizzles, conversions, operators, select,
// any and all, functions, as_type, arguments and results.
//
// kernel: everywhere
// arg 0: buffer float[64] = random(11)
// arg 1: buffer uchar[64] = random(12, 0, 256)
// arg 2: buffer float[256] = zeros
// grid: threads 4 1 1
// threads: 4 1 1
// expect 2[0..64]: formula "a0[i] * 2 + a1[i]"
// expect 2[64..96]: formula "a0[16 * floor((i - 64) / 8) + (i - 64) % 8] < 0 ? -1 : a1[16 * floor((i - 64) / 8) + (i - 64) % 8]"
// expect 2[96..128]: formula "max(a0[16 * floor((i - 96) / 8) + 8 + (i - 96) % 8], a0[16 * floor((i - 96) / 8) + (i - 96) % 8])"
// expect 2[128..144]: formula "a1[16 * floor((i - 128) / 4) + (i - 128) % 4] + 256 * a1[16 * floor((i - 128) / 4) + (i - 128) % 4 + 4]"
// expect 2[144..148]: formula "prod(k, 0, 16, a0[16 * (i - 144) + k] > -0.9 ? 1 : 0) * 2 + (sum(k, 0, 16, a0[16 * (i - 144) + k] > 0.8 ? 1 : 0) > 0 ? 1 : 0)"
// expect 2[148..152]: formula "sum(k, 0, 8, a0[16 * (i - 148) + 2 * k] * a0[16 * (i - 148) + 2 * k + 1])"
// expect 2[152..156]: formula "4 * (1 + 2 + 3 + 4 + 5 * 4)"
// expect 2[156..160]: formula "sum(k, 0, 4, a0[16 * (i - 156) + k] + a0[16 * (i - 156) + 12 + k])"

#include <metal_stdlib>
using namespace metal;

struct block {
    vec<uchar, 16> bytes;
};

template <typename T, int N>
vec<T, N> twice(vec<T, N> v)
{
    v += v;
    return v;
}

kernel void everywhere(device const vec<float, 16>* x [[buffer(0)]],
                       device const block* blocks [[buffer(1)]],
                       device float* y [[buffer(2)]],
                       uint id [[thread_position_in_grid]])
{
    const vec<float, 16> a = x[id];
    const vec<uchar, 16> b = blocks[id].bytes;

    device vec<float, 16>* wide = (device vec<float, 16>*)y;
    wide[id] = twice(a) + vec<float, 16>(b);

    const vec<float, 8> low = a.lo;
    const vec<float, 8> high = a.hi;
    const vec<float, 8> chosen = select(vec<float, 8>(b.lo), vec<float, 8>(-1.0f), low < 0.0f);
    const vec<float, 8> larger = max(low, high);
    for (int k = 0; k < 8; k++) {
        y[64 + 8 * id + k] = chosen[k];
        y[96 + 8 * id + k] = larger[k];
    }

    // Little-endian: byte 0 is the lowest of the first word.
    const uint4 words = as_type<uint4>(b);
    for (uint k = 0; k < 4; k++) {
        const uint low_byte = words[0] >> (8 * k) & 0xff;
        const uint other = words[1] >> (8 * k) & 0xff;
        y[128 + 4 * id + k] = float(low_byte + 256 * other);
    }

    y[144 + id] = float(all(a > -0.9f)) * 2.0f + float(any(a > 0.8f));
    y[148 + id] = dot(a.even, a.odd);

    threadgroup vec<half, 8> shared[4];
    shared[id] = vec<half, 8>(half4(1, 2, 3, 4), half4(5));
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const vec<half, 8> back = shared[3 - id] * half(4);
    half sum = 0.0h;
    for (int k = 0; k < 8; k++) {
        sum += back[k];
    }
    y[152 + id] = float(sum);

    const float4 first = a.s0123;
    vec<float, 16> c = a;
    c.s0123 = a.scdef;
    y[156 + id] = dot(first + c.s0123, float4(1.0f));
}
