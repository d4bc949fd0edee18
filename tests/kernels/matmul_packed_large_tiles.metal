// Large tiles of packed operands: where threadgroups share them a GPU widens each once for all, else on the way into the product.
//
// threads: 256 1 1
// tolerance: abs 1e-3 rel 1e-5
// run: int4, shared
// kernel: bf16_int4
// arg 0: tensor bfloat (352, 300) = random(1)
// arg 1: tensor int4 (352, 700) = random(2)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: int4, one row of tiles
// kernel: bf16_int4
// arg 0: tensor bfloat (352, 100) = random(1)
// arg 1: tensor int4 (352, 300) = random(2)
// arg 2: tensor float (300, 100) = zeros
// grid: threadgroups 2 1 1
// expect 2: matmul(0, 1, transpose_right)
// run: int4 into half
// kernel: half_int4
// arg 0: tensor half (352, 300) = random(3)
// arg 1: tensor int4 (352, 700) = random(4)
// arg 2: tensor half (700, 300) = zeros
// grid: threadgroups 3 3 1
// tolerance: abs 5e-2 rel 2e-3
// expect 2: matmul(0, 1, transpose_right)
// run: uint4
// kernel: half_uint4
// arg 0: tensor half (352, 300) = random(5)
// arg 1: tensor uint4 (352, 700) = random(6)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: uint4 of bfloat, accumulated
// kernel: bf16_uint4_more
// arg 0: tensor bfloat (320, 300) = random(5)
// arg 1: tensor uint4 (320, 700) = random(6)
// arg 2: tensor float (700, 300) = random(7)
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right, accumulate)
// run: int4 from element 32 on
// kernel: int4_from_32
// arg 0: tensor bfloat (352, 300) = random(1)
// arg 1: tensor int4 (352, 700) = formula "i % 352 == 16 || i % 352 == 17 || i % 352 == 33 || i % 352 == 351 ? (floor(i / 352) + 3) % 8 - 4 : 0"
// arg 2: tensor float (512, 256) = zeros
// grid: threadgroups 2 4 1
// expect 2: formula "(i % 8 - 4) * (a0[(floor(i / 512) + 3) * 352 + 33] + a0[(floor(i / 512) + 3) * 352 + 351])"
// run: int4 from an element inside a byte on
// kernel: int4_from_17
// arg 0: tensor bfloat (352, 300) = random(1)
// arg 1: tensor int4 (352, 700) = formula "i % 352 == 16 || i % 352 == 17 || i % 352 == 33 || i % 352 == 351 ? (floor(i / 352) + 3) % 8 - 4 : 0"
// arg 2: tensor float (512, 256) = zeros
// grid: threadgroups 2 4 1
// expect 2: formula "(i % 8 - 4) * (a0[(floor(i / 512) + 3) * 352 + 33] + a0[(floor(i / 512) + 3) * 352 + 351] + a0[(floor(i / 512) + 3) * 352 + 17])"
// run: scaled int4
// kernel: bf16_mxint4
// arg 0: tensor bfloat (352, 300) = random(8)
// arg 1: tensor int4 (352, 700) scales (32, 1) = random(9)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: fp4
// kernel: fp4_fp4
// arg 0: tensor fp4_e2m1 (288, 300) = random(10, -6, 6)
// arg 1: tensor fp4_e2m1 (288, 700) = random(11, -6, 6)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: scaled fp4
// kernel: mxfp4_mxfp4
// arg 0: tensor fp4_e2m1 (288, 300) scales (32, 1) = random(12, -6, 6)
// arg 1: tensor fp4_e2m1 (288, 700) scales (32, 1) = random(13, -6, 6) scales [127, 100, 1, 0, 128]
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: scaled fp4, not a number
// kernel: mxfp4_mxfp4
// arg 0: tensor fp4_e2m1 (288, 300) scales (32, 1) = fill(1)
// arg 1: tensor fp4_e2m1 (288, 700) scales (32, 1) = fill(1) scales [127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 255, 127, 127, 127, 127, 127, 127]
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: formula "i % 2 == 1 ? 0 / 0 : 288"
// run: half by scaled fp4
// kernel: half_mxfp4
// arg 0: tensor half (352, 300) = random(18)
// arg 1: tensor fp4_e2m1 (352, 700) scales (32, 1) = random(19, -6, 6)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: half by scaled fp4, scales at the ends of their range
// kernel: half_mxfp4
// arg 0: tensor half (256, 300) = random(18)
// arg 1: tensor fp4_e2m1 (256, 700) scales (32, 1) = random(19, -6, 6) scales [0]
// arg 2: tensor float (700, 300) = fill(1)
// grid: threadgroups 3 3 1
// tolerance: abs 1e-41 rel 0
// expect 2: matmul(0, 1, transpose_right)
// run: half by scaled fp4, scales far apart in some rows and not a number in others
// kernel: half_mxfp4
// arg 0: tensor half (256, 300) = fill(1)
// arg 1: tensor fp4_e2m1 (256, 700) scales (32, 1) = fill(1) scales [127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 254, 127, 127, 127, 100, 100, 127, 136, 127, 120, 120, 100, 127, 127, 127, 127, 127, 127, 127, 255]
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// tolerance: abs 0 rel 1e-6
// expect 2: formula "i % 4 == 0 ? 256 : i % 4 == 1 ? 32 * (exp2(127) + 7) : i % 4 == 2 ? 32 * (3 * exp2(-27) + 2 * exp2(-7) + 512 + 2) : 0 / 0"
// run: half by scaled fp8 into half
// kernel: half_mxfp8
// arg 0: tensor half (352, 300) = random(20)
// arg 1: tensor fp8_e4m3 (352, 700) scales (32, 1) = random(21)
// arg 2: tensor half (700, 300) = zeros
// grid: threadgroups 3 3 1
// tolerance: abs 5e-2 rel 2e-3
// expect 2: matmul(0, 1, transpose_right)
// run: half by scaled fp8 e5m2
// kernel: half_mxfp8_e5m2
// arg 0: tensor half (352, 300) = random(22)
// arg 1: tensor fp8_e5m2 (352, 700) scales (32, 1) = random(23) scales [127, 121, 125, 124, 127, 120, 127]
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: half by scaled int4
// kernel: half_mxint4
// arg 0: tensor half (352, 300) = random(24)
// arg 1: tensor int4 (352, 700) scales (32, 1) = random(25)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: half by scaled fp4, accumulated
// kernel: half_mxfp4_more
// arg 0: tensor half (96, 300) = random(26)
// arg 1: tensor fp4_e2m1 (96, 700) scales (32, 1) = random(27, -6, 6)
// arg 2: tensor float (700, 300) = random(28)
// grid: threadgroups 3 3 1
// expect 2: matmul(0, 1, transpose_right, accumulate)
// run: half by scaled fp4, into a cooperative tensor
// kernel: half_mxfp4_tile
// arg 0: tensor half (352, 300) = random(29)
// arg 1: tensor fp4_e2m1 (352, 700) scales (32, 1) = random(30, -6, 6)
// arg 2: tensor float (700, 300) = zeros
// grid: threadgroups 6 3 1
// expect 2: matmul(0, 1, transpose_right)
// run: long rows of fp8, each of them a piece
// kernel: mxfp8_mxfp8
// arg 0: tensor fp8_e4m3 (4128, 140) scales (32, 1) = random(14)
// arg 1: tensor fp8_e4m3 (4128, 300) scales (32, 1) = random(15)
// arg 2: tensor float (300, 140) = zeros
// grid: threadgroups 2 4 1
// tolerance: abs 1e-2 rel 1e-5
// expect 2: matmul(0, 1, transpose_right)
// run: few of many rows
// kernel: mxfp8_mxfp8
// arg 0: tensor fp8_e4m3 (288, 1301) scales (32, 1) = random(16)
// arg 1: tensor fp8_e4m3 (288, 512) scales (32, 1) = random(17)
// arg 2: tensor float (512, 1301) = zeros
// grid: threadgroups 2 4 1
// expect 2[0..262144]: matmul(0, 1, transpose_right)

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;

using block_scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;
template <typename T>
using plain = tensor<device T, dextents<int, 2>>;
template <typename T>
using scaled = tensor<device T, dextents<int, 2>, tensor_handle, block_scales>;

template <matmul2d_descriptor::mode MODE = matmul2d_descriptor::mode::multiply, typename A, typename B, typename C>
inline void multiply(thread A& a, thread B& b, thread C& c, int2 a_origin, int2 b_origin, uint2 tgid)
{
    auto left = a.slice(a_origin.x, a_origin.y + int(tgid.y) * 128);
    auto right = b.slice(b_origin.x, b_origin.y + int(tgid.x) * 256);
    auto result = c.slice(tgid.x * 256, tgid.y * 128);
    constexpr auto descriptor = matmul2d_descriptor(128, 256, dynamic_length_v<int>, false, true, false, MODE);
    matmul2d<descriptor, execution_simdgroups<8>> op;
    op.run(left, right, result);
}

#define PRODUCT(name, A, B, C)                                                                                       \
    kernel void name(A a [[buffer(0)]], B b [[buffer(1)]], C c [[buffer(2)]], uint2 tgid [[threadgroup_position_in_grid]]) \
    {                                                                                                                \
        multiply(a, b, c, int2(0, 0), int2(0, 0), tgid);                                                             \
    }

PRODUCT(bf16_int4, plain<bfloat>, plain<int4b_format>, plain<float>)
PRODUCT(half_int4, plain<half>, plain<int4b_format>, plain<half>)
PRODUCT(half_uint4, plain<half>, plain<uint4b_format>, plain<float>)
PRODUCT(bf16_mxint4, plain<bfloat>, scaled<int4b_format>, plain<float>)
PRODUCT(fp4_fp4, plain<metal_fp4_e2m1_format>, plain<metal_fp4_e2m1_format>, plain<float>)
PRODUCT(mxfp4_mxfp4, scaled<metal_fp4_e2m1_format>, scaled<metal_fp4_e2m1_format>, plain<float>)
PRODUCT(half_mxfp4, plain<half>, scaled<metal_fp4_e2m1_format>, plain<float>)
PRODUCT(half_mxfp8, plain<half>, scaled<metal_fp8_e4m3_format>, plain<half>)
PRODUCT(half_mxfp8_e5m2, plain<half>, scaled<metal_fp8_e5m2_format>, plain<float>)
PRODUCT(half_mxint4, plain<half>, scaled<int4b_format>, plain<float>)
PRODUCT(mxfp8_mxfp8, scaled<metal_fp8_e4m3_format>, scaled<metal_fp8_e4m3_format>, plain<float>)

kernel void bf16_uint4_more(plain<bfloat> a [[buffer(0)]],
                            plain<uint4b_format> b [[buffer(1)]],
                            plain<float> c [[buffer(2)]],
                            uint2 tgid [[threadgroup_position_in_grid]])
{
    multiply<matmul2d_descriptor::mode::multiply_accumulate>(a, b, c, int2(0, 0), int2(0, 0), tgid);
}

template <int ORIGIN>
inline void from(plain<bfloat> a, plain<int4b_format> b, plain<float> c, uint2 tgid)
{
    multiply(a, b, c, int2(ORIGIN, 3), int2(ORIGIN, 5), tgid);
}

kernel void int4_from_32(plain<bfloat> a [[buffer(0)]],
                         plain<int4b_format> b [[buffer(1)]],
                         plain<float> c [[buffer(2)]],
                         uint2 tgid [[threadgroup_position_in_grid]])
{
    from<32>(a, b, c, tgid);
}

kernel void int4_from_17(plain<bfloat> a [[buffer(0)]],
                         plain<int4b_format> b [[buffer(1)]],
                         plain<float> c [[buffer(2)]],
                         uint2 tgid [[threadgroup_position_in_grid]])
{
    from<17>(a, b, c, tgid);
}

kernel void half_mxfp4_more(plain<half> a [[buffer(0)]],
                            scaled<metal_fp4_e2m1_format> b [[buffer(1)]],
                            plain<float> c [[buffer(2)]],
                            uint2 tgid [[threadgroup_position_in_grid]])
{
    multiply<matmul2d_descriptor::mode::multiply_accumulate>(a, b, c, int2(0, 0), int2(0, 0), tgid);
}

kernel void half_mxfp4_tile(plain<half> a [[buffer(0)]],
                            scaled<metal_fp4_e2m1_format> b [[buffer(1)]],
                            plain<float> c [[buffer(2)]],
                            uint2 tgid [[threadgroup_position_in_grid]])
{
    auto left = a.slice(0, tgid.y * 128);
    auto right = b.slice(0, tgid.x * 128);
    auto result = c.slice(tgid.x * 128, tgid.y * 128);
    constexpr auto descriptor = matmul2d_descriptor(128, 128, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroups<8>> op;
    auto tile = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    op.run(left, right, tile);
    tile.store(result);
}
