// The product under kernels/quantised_linear.metal with tensor handles, so that the weights have a format to be compared in: 1 to 17
// rows, columns and K that are no multiples of anything but the block.
//
// kernel: linear_mxfp8_f32
// threads: 128 1 1
// grid: threadgroups 2 1 1
// arg 0: tensor half (352, 1) = random(1)
// arg 2: tensor float (150, 1) = zeros
// expect 2: matmul(0, 1, transpose_right)
// tolerance: abs 2e-3 rel 1e-5
// run: mxfp8, 1 row
// arg 1: tensor fp8_e4m3 (352, 150) scales (32, 1) = random(2)
// run: mxfp8, 3 rows
// arg 0: tensor half (352, 3) = random(1)
// arg 1: tensor fp8_e4m3 (352, 150) scales (32, 1) = random(2)
// arg 2: tensor float (150, 3) = zeros
// run: mxfp8, 17 rows
// grid: threadgroups 2 2 1
// arg 0: tensor half (352, 17) = random(1)
// arg 1: tensor fp8_e4m3 (352, 150) scales (32, 1) = random(2)
// arg 2: tensor float (150, 17) = zeros
// run: mxfp8, extreme scales
// arg 1: tensor fp8_e4m3 (352, 150) scales (32, 1) = random(2) scales [127, 0, 1, 20, 128]
// run: mxfp8 e5m2, 2 rows
// kernel: linear_mxfp8_e5m2_f32
// arg 0: tensor half (352, 2) = random(3)
// arg 1: tensor fp8_e5m2 (352, 150) scales (32, 1) = random(4)
// arg 2: tensor float (150, 2) = zeros
// run: mxfp4, 1 row
// kernel: linear_mxfp4_f32
// arg 1: tensor fp4_e2m1 (352, 150) scales (32, 1) = random(5, -6, 6)
// run: mxfp4, 16 rows
// kernel: linear_mxfp4_f32
// arg 0: tensor half (352, 16) = random(6)
// arg 1: tensor fp4_e2m1 (352, 150) scales (32, 1) = random(7, -6, 6)
// arg 2: tensor float (150, 16) = zeros
// run: mxfp4 into half, 5 rows
// kernel: linear_mxfp4_f16
// arg 0: tensor half (352, 5) = random(6)
// arg 1: tensor fp4_e2m1 (352, 150) scales (32, 1) = random(7, -6, 6)
// arg 2: tensor half (150, 5) = zeros
// tolerance: abs 5e-2 rel 2e-3
// run: int4, 1 row
// kernel: linear_int4_f32
// arg 1: tensor int4 (352, 150) = random(8)
// run: int4, 7 rows
// kernel: linear_int4_f32
// arg 0: tensor half (352, 7) = random(9)
// arg 1: tensor int4 (352, 150) = random(8)
// arg 2: tensor float (150, 7) = zeros

#include "../../kernels/quantised_linear.metal"

template <typename Left, typename Right, typename Y>
[[kernel]] void linear(tensor<device half, dextents<int, 2>> x [[buffer(0)]],
                       Right w [[buffer(1)]],
                       tensor<device Y, dextents<int, 2>> y [[buffer(2)]],
                       uint2 tgid [[threadgroup_position_in_grid]])
{
    multiply_tile<16, 128, 4>(x, w, y, tgid);
}

template <typename W>
using scaled = tensor<device W, dextents<int, 2>, tensor_handle, block_scales>;
template <typename W>
using plain = tensor<device W, dextents<int, 2>, tensor_handle>;

#define LINEAR(name, W, Y) \
    template [[host_name(name)]] [[kernel]] decltype(linear<half, W, Y>) linear<half, W, Y>;

LINEAR("linear_mxfp8_f32", scaled<metal_fp8_e4m3_format>, float)
LINEAR("linear_mxfp8_e5m2_f32", scaled<metal_fp8_e5m2_format>, float)
LINEAR("linear_mxfp4_f32", scaled<metal_fp4_e2m1_format>, float)
LINEAR("linear_mxfp4_f16", scaled<metal_fp4_e2m1_format>, half)
LINEAR("linear_int4_f32", plain<int4b_format>, float)
