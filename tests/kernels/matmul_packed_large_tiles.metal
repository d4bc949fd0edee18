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
// arg 1: tensor int4 (352, 700) = random(2)
// arg 2: tensor float (512, 256) = zeros
// grid: threadgroups 2 4 1
// expect 2: formula "sum(k, 32, 352, a0[(floor(i / 512) + 3) * 352 + k] * a1[(i % 512 + 5) * 352 + k])"
// run: int4 from an element inside a byte on
// kernel: int4_from_17
// arg 0: tensor bfloat (352, 300) = random(1)
// arg 1: tensor int4 (352, 700) = random(2)
// arg 2: tensor float (512, 256) = zeros
// grid: threadgroups 2 4 1
// expect 2: formula "sum(k, 17, 352, a0[(floor(i / 512) + 3) * 352 + k] * a1[(i % 512 + 5) * 352 + k])"
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
// run: long rows of fp8, each of them a piece
// kernel: mxfp8_mxfp8
// arg 0: tensor fp8_e4m3 (4256, 300) scales (32, 1) = random(14)
// arg 1: tensor fp8_e4m3 (4256, 520) scales (32, 1) = random(15)
// arg 2: tensor float (520, 300) = zeros
// grid: threadgroups 3 3 1
// tolerance: abs 1e-2 rel 1e-5
// expect 2: matmul(0, 1, transpose_right)
// run: three of many matrices
// kernel: mxfp8_of_a_stack
// arg 0: tensor fp8_e4m3 (288, 1100) scales (32, 1) = random(16)
// arg 1: tensor fp8_e4m3 (288, 9001) scales (32, 1) = random(17)
// arg 2: tensor float (512, 512) = zeros
// grid: threadgroups 2 4 1
// expect 2: formula "sum(k, 0, 288, a0[(floor(i / 512) + 515) * 288 + k] * a1[(i % 512 + 7001) * 288 + k])"

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

kernel void mxfp8_of_a_stack(scaled<metal_fp8_e4m3_format> a [[buffer(0)]],
                             scaled<metal_fp8_e4m3_format> b [[buffer(1)]],
                             plain<float> c [[buffer(2)]],
                             uint2 tgid [[threadgroup_position_in_grid]])
{
    multiply(a, b, c, int2(0, 515), int2(0, 7001), tgid);
}
