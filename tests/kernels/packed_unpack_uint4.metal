// `unpack` of every code, and `pack` of what comes out, against ml_dtypes. Made by tools/packed_tests.py.
//
// kernel: codes
// arg 0: buffer uchar[256] = iota
// arg 2: buffer uchar[256] = zeros
// grid: threads 128 1 1
// threads: 32 1 1
// tolerance: exact
// run: uint4b_format to float2
// flags: -D FORMAT=uint4b_format -D T=float -D N=2
// arg 1: buffer float[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to float4
// flags: -D FORMAT=uint4b_format -D T=float -D N=4
// arg 1: buffer float[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to float8
// flags: -D FORMAT=uint4b_format -D T=float -D N=8
// arg 1: buffer float[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to float16
// flags: -D FORMAT=uint4b_format -D T=float -D N=16
// arg 1: buffer float[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to half8
// flags: -D FORMAT=uint4b_format -D T=half -D N=8
// arg 1: buffer half[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to half16
// flags: -D FORMAT=uint4b_format -D T=half -D N=16
// arg 1: buffer half[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to bfloat2
// flags: -D FORMAT=uint4b_format -D T=bfloat -D N=2
// arg 1: buffer bfloat[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"
// run: uint4b_format to bfloat8
// flags: -D FORMAT=uint4b_format -D T=bfloat -D N=8
// arg 1: buffer bfloat[512] = zeros
// arg 3: buffer float[16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// expect 1: formula "a3[i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)]"
// expect 2: formula "i"

#include <metal_stdlib>
#include <metal_packed_numeric>
using namespace metal;

using packed = packed_numeric_type<FORMAT, N>;

kernel void codes(device const uchar* bytes [[buffer(0)]],
                  device T* numbers [[buffer(1)]],
                  device uchar* again [[buffer(2)]],
                  constant float* [[maybe_unused]] table [[buffer(3)]],
                  uint id [[thread_position_in_grid]])
{
    // A storage of a single byte is `uchar`, a longer one a vector of bytes.
    constexpr uint SIZE = sizeof(packed);
    const uint groups = 256 / SIZE;
    for (uint group = id; group < groups; group += 128) {
        using storage = typename packed::storage_type;
        const packed codes(*reinterpret_cast<device const storage*>(bytes + group * SIZE));
        const vec<T, N> values = unpack<T>(codes);
        for (int i = 0; i < N; i++) {
            numbers[group * N + i] = values[i];
        }
        const auto back = pack<FORMAT>(values);
        static_assert(is_same_v<decltype(back), const packed>, "the type of pack");
        *reinterpret_cast<device storage*>(again + group * SIZE) = back.as_storage_type();
    }
}
