// Few rows by quantised weights with K a multiple of 128 (GPUs have a way of their own for it), in tiles of 64 columns and of 128; the last
// tile overhangs.
//
// threads: 512 1 1
// grid: threadgroups 3 1 1
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 4e-3 rel 1e-5
// run: mxfp8, 1 row
// kernel: linear_mxfp8_f32_64
// arg 0: tensor half (1152, 1) = random(1)
// arg 1: tensor fp8_e4m3 (1152, 150) scales (32, 1) = random(2)
// arg 2: tensor float (150, 1) = zeros
// run: mxfp8, 11 rows
// kernel: linear_mxfp8_f32_64
// arg 0: tensor half (1152, 11) = random(1)
// arg 1: tensor fp8_e4m3 (1152, 150) scales (32, 1) = random(2)
// arg 2: tensor float (150, 11) = fill(9)
// run: mxfp8, extreme scales
// kernel: linear_mxfp8_f32_64
// arg 0: tensor half (1152, 2) = random(1)
// arg 1: tensor fp8_e4m3 (1152, 150) scales (32, 1) = random(2) scales [127, 0, 1, 20, 128]
// arg 2: tensor float (150, 2) = fill(9)
// run: mxfp4, 1 row
// kernel: linear_mxfp4_f32_64
// arg 0: tensor half (1152, 1) = random(5)
// arg 1: tensor fp4_e2m1 (1152, 150) scales (32, 1) = random(5, -6, 6)
// arg 2: tensor float (150, 1) = zeros
// tolerance: abs 4e-2 rel 1e-5
// run: mxfp4, 16 rows
// kernel: linear_mxfp4_f32_64
// arg 0: tensor half (1152, 16) = random(6)
// arg 1: tensor fp4_e2m1 (1152, 150) scales (32, 1) = random(7, -6, 6)
// arg 2: tensor float (150, 16) = zeros
// tolerance: abs 4e-2 rel 1e-5
// run: mxfp4, tiles of 128
// kernel: linear_mxfp4_f32_128
// threads: 128 1 1
// grid: threadgroups 2 1 1
// arg 0: tensor half (1152, 9) = random(6)
// arg 1: tensor fp4_e2m1 (1152, 150) scales (32, 1) = random(7, -6, 6)
// arg 2: tensor float (150, 9) = zeros
// tolerance: abs 4e-2 rel 1e-5
// run: mxint4, 3 rows
// kernel: linear_mxint4_f32_64
// arg 0: tensor half (1152, 3) = random(9)
// arg 1: tensor int4 (1152, 150) scales (32, 1) = random(8)
// arg 2: tensor float (150, 3) = zeros
// tolerance: abs 1e-1 rel 1e-5
// run: int4, 8 rows
// kernel: linear_int4_f32_64
// arg 0: tensor half (1152, 8) = random(9)
// arg 1: tensor int4 (1152, 150) = random(8)
// arg 2: tensor float (150, 8) = zeros
// tolerance: abs 1e-2 rel 1e-5
// run: int4, 16 rows, tiles of 128
// kernel: linear_int4_f32_128
// threads: 128 1 1
// grid: threadgroups 2 1 1
// arg 0: tensor half (1152, 16) = random(9)
// arg 1: tensor int4 (1152, 150) = random(8)
// arg 2: tensor float (150, 16) = zeros
// tolerance: abs 1e-2 rel 1e-5
// run: uint4 beside bfloat
// kernel: linear_uint4_bf16_64
// arg 0: tensor bfloat (1152, 5) = random(9)
// arg 1: tensor uint4 (1152, 150) = random(8)
// arg 2: tensor float (150, 5) = zeros
// tolerance: abs 1e-2 rel 1e-5
// run: char, 4 rows
// kernel: linear_char_f32_64
// arg 0: tensor half (1152, 4) = random(9)
// arg 1: tensor char (1152, 150) = random(8, -128, 127)
// arg 2: tensor float (150, 4) = zeros
// tolerance: abs 1e-1 rel 1e-5
// run: char, 12 rows, 8 SIMD-groups
// kernel: linear_char_f32_64x8
// threads: 256 1 1
// arg 0: tensor half (1152, 12) = random(9)
// arg 1: tensor char (1152, 150) = random(8, -128, 127)
// arg 2: tensor float (150, 12) = zeros
// tolerance: abs 1e-1 rel 1e-5

#include "../../kernels/quantised_linear.metal"

template <typename X, typename Right, typename Y, int TILE_N, int GROUPS>
[[kernel]] void linear(tensor<device X, dextents<int, 2>> x [[buffer(0)]],
                       Right w [[buffer(1)]],
                       tensor<device Y, dextents<int, 2>> y [[buffer(2)]],
                       uint2 tgid [[threadgroup_position_in_grid]])
{
    multiply_tile<16, TILE_N, GROUPS>(x, w, y, tgid);
}

template <typename W>
using scaled = tensor<device W, dextents<int, 2>, tensor_handle, block_scales>;
template <typename W>
using plain = tensor<device W, dextents<int, 2>, tensor_handle>;

#define LINEAR(name, ...) \
    template [[host_name(name)]] [[kernel]] decltype(linear<__VA_ARGS__>) linear<__VA_ARGS__>;

LINEAR("linear_mxfp8_f32_64", half, scaled<metal_fp8_e4m3_format>, float, 64, 16)
LINEAR("linear_mxfp4_f32_64", half, scaled<metal_fp4_e2m1_format>, float, 64, 16)
LINEAR("linear_mxfp4_f32_128", half, scaled<metal_fp4_e2m1_format>, float, 128, 4)
LINEAR("linear_mxint4_f32_64", half, scaled<int4b_format>, float, 64, 16)
LINEAR("linear_int4_f32_64", half, plain<int4b_format>, float, 64, 16)
LINEAR("linear_int4_f32_128", half, plain<int4b_format>, float, 128, 4)
LINEAR("linear_uint4_bf16_64", bfloat, plain<uint4b_format>, float, 64, 16)
LINEAR("linear_char_f32_64", half, plain<char>, float, 64, 16)
LINEAR("linear_char_f32_64x8", half, plain<char>, float, 64, 8)
