// Blocks of five words, two halves and 32 nibbles, each read by one thread and multiplied with 32 numbers: by lanes that are partly off, whose
// blocks are not there; by several rows that share the numbers; with numbers that are read after the words, and words that are
// overwritten before they are used; whole bytes; and blocks past the end.
//
// arg 0: buffer uint[970] = formula "i % 5 == 0 ? 1006649344 : (i * 2654435761) % 4294967296"
// arg 1: buffer float[260] = random(3)
// arg 2: buffer float[582] = fill(-1)
// arg 3: bytes = uint 97
// grid: threads 150 1 1
// threads: 150 1 1
// tolerance: abs 1e-3 rel 1e-5
// run: lanes that are off
// kernel: guarded
// arg 0: buffer uint[485] = formula "i % 5 == 0 ? 1006649344 : (i * 2654435761) % 4294967296"
// expect 2[0..97]: formula "2 * sum(k, 0, 32, a1[i * 7 % 100 + k] * and(shr(a0[5 * i + 1 + floor(k / 8)], k % 8 * 4), 15)) + a1[i]"
// expect 2[97..582]: fill(-1)
// run: lanes that are off, precise
// kernel: guarded
// flags: -fno-fast-math
// arg 0: buffer uint[485] = formula "i % 5 == 0 ? 1006649344 : (i * 2654435761) % 4294967296"
// expect 2[0..97]: formula "2 * sum(k, 0, 32, a1[i * 7 % 100 + k] * and(shr(a0[5 * i + 1 + floor(k / 8)], k % 8 * 4), 15)) + a1[i]"
// expect 2[97..582]: fill(-1)
// run: a word too few
// kernel: guarded
// arg 0: buffer uint[484] = formula "i % 5 == 0 ? 1006649344 : (i * 2654435761) % 4294967296"
// fault: out-of-bounds read of 20 bytes at byte offset 1920 of device 'words', which has 1936 bytes
// run: rows
// kernel: rows
// expect 2[0..582]: formula "2 * sum(k, 0, 32, a1[k + 2 * (i % 97)] * and(shr(a0[5 * (i % 97 + 16 * floor(i / 97)) + 1 + floor(k / 8)], k % 8 * 4), 15)) + a1[i % 97]"
// run: large numbers
// kernel: rows
// arg 1: buffer float[260] = random(3, -2e34, 2e34)
// tolerance: abs 1e31 rel 1e-5
// expect 2[0..582]: formula "2 * sum(k, 0, 32, a1[k + 2 * (i % 97)] * and(shr(a0[5 * (i % 97 + 16 * floor(i / 97)) + 1 + floor(k / 8)], k % 8 * 4), 15)) + a1[i % 97]"
// run: large numbers by codes of zero, small ones by others
// kernel: rows
// arg 0: buffer uint[970] = formula "i % 5 == 0 ? 1006649344 : and((i * 2654435761) % 4294967296, 252645135)"
// arg 1: buffer float[260] = formula "i % 2 == 1 ? 1000000 : (i + 1) / 300"
// tolerance: abs 1e-4 rel 1e-5
// expect 2[0..485]: formula "2 * sum(k, 0, 16, a1[2 * k + 2 * (i % 97)] * and(shr(a0[5 * (i % 97 + 16 * floor(i / 97)) + 1 + floor(k / 4)], k % 4 * 8), 15)) + a1[i % 97]"
// run: rows past the end
// kernel: rows
// arg 0: buffer uint[884] = formula "i % 5 == 0 ? 1006649344 : (i * 2654435761) % 4294967296"
// fault: out-of-bounds read of 20 bytes at byte offset 3520 of device 'words', which has 3536 bytes
// run: numbers after words
// kernel: late
// expect 2[0..97]: formula "sum(k, 0, 32, a1[i + k] * and(shr(a0[5 * i + 1 + floor(k / 8)], k % 8 * 4), 15)) + a0[5 * i + 1] % 2"
// run: words overwritten
// kernel: overwritten
// expect 2[0..97]: formula "sum(k, 0, 16, a1[i + k] * and(shr(a0[5 * i + 1 + floor(k / 8)], k % 8 * 4), 15))"
// expect 0[1..3]: [7, 7]
// run: bytes
// kernel: bytes
// expect 2[0..97]: formula "sum(k, 0, 16, a1[i + k] * and(shr(a0[5 * i + 1 + floor(k / 4)], k % 4 * 8), 255))"

#include <metal_stdlib>
using namespace metal;

struct block {
    uint at[5];
};

static float product(block b, thread const float* x)
{
    float sum = 0.0f;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
#pragma unroll
        for (uint j = 0; j < 8; j++) {
            sum += x[8 * i + j] * float((b.at[1 + i] >> (4 * j)) & 15);
        }
    }
    return sum;
}

// Halves 2 and 1, the lower one first.
static float scaled(block b, thread const float* x, float extra)
{
    const half2 factors = as_type<half2>(b.at[0]);
    return float(factors.x) * product(b, x) + float(factors.y) * extra;
}

kernel void guarded(device const uint* words [[buffer(0)]],
                    device const float* x [[buffer(1)]],
                    device float* y [[buffer(2)]],
                    constant uint& count [[buffer(3)]],
                    uint id [[thread_position_in_grid]])
{
    if (id < count) {
        float numbers[32];
#pragma unroll
        for (uint k = 0; k < 32; k++) {
            numbers[k] = x[id * 7 % 100 + k];
        }
        y[id] = scaled(reinterpret_cast<device const block*>(words)[id], numbers, x[id]);
    }
}

kernel void rows(device const uint* words [[buffer(0)]],
                 device const float* x [[buffer(1)]],
                 device float* y [[buffer(2)]],
                 constant uint& count [[buffer(3)]],
                 uint id [[thread_position_in_grid]])
{
    float numbers[32];
    const uint at = min(id, count - 1);
#pragma unroll
    for (uint k = 0; k < 32; k++) {
        numbers[k] = x[2 * at + k];
    }
    const float extra = x[at];
#pragma unroll
    for (uint row = 0; row < 6; row++) {
        const float sum = scaled(reinterpret_cast<device const block*>(words)[at + 16 * row], numbers, extra);
        if (id < count) {
            y[row * count + id] = sum;
        }
    }
}

kernel void late(device const uint* words [[buffer(0)]],
                 device const float* x [[buffer(1)]],
                 device float* y [[buffer(2)]],
                 constant uint& count [[buffer(3)]],
                 uint id [[thread_position_in_grid]])
{
    const uint at = min(id, count - 1);
    const float base = x[at];
    const block b = reinterpret_cast<device const block*>(words)[at];
    float numbers[32];
#pragma unroll
    for (uint k = 0; k < 32; k++) {
        numbers[k] = k == 0 ? base : x[at + k];
    }
    const float sum = product(b, numbers) + float(b.at[1] % 2);
    if (id < count) {
        y[id] = sum;
    }
}

kernel void overwritten(device uint* words [[buffer(0)]],
                        device const float* x [[buffer(1)]],
                        device float* y [[buffer(2)]],
                        constant uint& count [[buffer(3)]],
                        uint id [[thread_position_in_grid]])
{
    if (id >= count) {
        return;
    }
    const uint at = id;
    const block b = reinterpret_cast<device const block*>(words)[at];
    float sum = 0.0f;
    const float first = x[at];
    words[5 * at + 1] = 7;
    words[5 * at + 2] = 7;
#pragma unroll
    for (uint k = 0; k < 16; k++) {
        sum += (k == 0 ? first : x[at + k]) * float((b.at[1 + k / 8] >> (4 * (k % 8))) & 15);
    }
    y[id] = sum;
}

kernel void bytes(device const uint* words [[buffer(0)]],
                  device const float* x [[buffer(1)]],
                  device float* y [[buffer(2)]],
                  constant uint& count [[buffer(3)]],
                  uint id [[thread_position_in_grid]])
{
    const uint at = min(id, count - 1);
    float numbers[16];
#pragma unroll
    for (uint k = 0; k < 16; k++) {
        numbers[k] = x[at + k];
    }
    const block b = reinterpret_cast<device const block*>(words)[at];
    float sum = 0.0f;
#pragma unroll
    for (uint k = 0; k < 16; k++) {
        sum += numbers[k] * float((b.at[1 + k / 4] >> (8 * (k % 4))) & 255);
    }
    if (id < count) {
        y[id] = sum;
    }
}
