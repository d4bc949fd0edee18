// Loops over a tile with a number for each row, and the sums that follow: softmax of rows in its forms, on tiles whose rows are whole vectors,
// vectors and a rest, and by some of the SIMD-groups only. Some scores are far below the others, some rows have all scores equal.
//
// arg 0: buffer float (80, 64) = formula "i % 7 == 3 ? -3e38 : i % 11 == 5 ? -140 : floor(i / 80) % 5 == 2 ? 1.5 : sin(i * 12.9898) * 6"
// arg 1: buffer float[5120] = zeros
// grid: threadgroups 1 1 1
// threads: 128 1 1
// tolerance: abs 1e-7 rel 4e-6
//
// run: exp2 of a scaled element and a number of the row, 80 columns
// kernel: scaled_80
// expect 1: formula "exp2(0.7 * a0[i]) / sum(j, 0, 80, exp2(0.7 * a0[floor(i / 80) * 80 + j]))"
//
// run: exp2 of a scaled element and a number of the row, 64 columns
// kernel: scaled_64
// arg 0: buffer float (64, 64) = formula "i % 7 == 3 ? -3e38 : i % 11 == 5 ? -140 : floor(i / 64) % 5 == 2 ? 1.5 : sin(i * 12.9898) * 6"
// expect 1[0..4096]: formula "exp2(0.7 * a0[i]) / sum(j, 0, 64, exp2(0.7 * a0[floor(i / 64) * 64 + j]))"
//
// run: e to the difference, 48 columns
// kernel: shifted_48
// arg 0: buffer float (48, 64) = formula "i % 7 == 3 ? -3e38 : i % 11 == 5 ? -90 : floor(i / 48) % 5 == 2 ? 1.5 : sin(i * 12.9898) * 6"
// expect 1[0..3072]: formula "exp(a0[i]) / sum(j, 0, 48, exp(a0[floor(i / 48) * 48 + j]))"
//
// run: e to the difference, 24 columns, which are no vectors of every machine
// kernel: shifted_24
// arg 0: buffer float (24, 64) = formula "i % 7 == 3 ? -3e38 : i % 11 == 5 ? -90 : floor(i / 24) % 5 == 2 ? 1.5 : sin(i * 12.9898) * 6"
// expect 1[0..1536]: formula "exp(a0[i]) / sum(j, 0, 24, exp(a0[floor(i / 24) * 24 + j]))"
//
// run: three of four SIMD-groups
// kernel: some_80
// expect 1: formula "floor(i / 1280) == 1 ? 0 : exp2(0.7 * a0[i]) / sum(j, 0, 80, exp2(0.7 * a0[floor(i / 80) * 80 + j]))"
//
// run: factors of 1, 0 and infinity, and elements that are no numbers
// kernel: rescaled
// arg 0: buffer float (64, 64) = formula "i % 64 == 5 ? inf : i % 64 == 9 ? nan : i % 64 - 30"
// expect 1[0..4096]: formula "floor(i / 64) % 16 == 0 ? a0[i] : floor(i / 64) % 16 == 1 ? a0[i] * 0 : floor(i / 64) % 16 == 2 ? a0[i] * inf : a0[i] * (floor(i / 64) % 16 - 1)"

#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

using namespace metal;
using namespace mpp::tensor_ops;
using view = tensor<device float, dextents<int, 2>, tensor_inline>;

enum form : int { scaled, shifted };

template <int N, form FORM, int LEFT_OUT>
kernel void softmax_of_rows(device float* x [[buffer(0)]], device float* y [[buffer(1)]], uint sgid [[simdgroup_index_in_threadgroup]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, N, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    auto tile = op.template get_destination_cooperative_tensor<view, view, float>();
    auto highest = op.template get_row_reduction_destination_cooperative_tensor<view, view, float>();
    auto sums = op.template get_row_reduction_destination_cooperative_tensor<view, view, float>();
    view from(x + sgid * 16 * N, dextents<int, 2>(N, 16));
    view to(y + sgid * 16 * N, dextents<int, 2>(N, 16));
    if (int(sgid) == LEFT_OUT) {
        return;
    }
    tile.load(from);
    reduce_rows(tile, highest, reduction_operation::max, -INFINITY);
    if (FORM == scaled) {
        for (ushort i = 0; i < highest.get_capacity(); i++) {
            highest[i] = highest[i] * -0.7f;
        }
        for (auto it = tile.begin(); it != tile.end(); it++) {
            auto row_it = highest.map_iterator(it);
            *it = exp2(fma(*it, 0.7f, *row_it));
        }
    } else {
        for (auto it = tile.begin(); it != tile.end(); it++) {
            auto row_it = highest.map_iterator(it);
            *it = exp(*it - *row_it);
        }
    }
    reduce_rows(tile, sums, reduction_operation::sum, 0.0f);
    for (ushort i = 0; i < sums.get_capacity(); i++) {
        sums[i] = 1.0f / sums[i];
    }
    for (auto it = tile.begin(); it != tile.end(); it++) {
        auto row_it = sums.map_iterator(it);
        *it = *it * *row_it;
    }
    tile.store(to);
}

template [[host_name("scaled_80")]] [[kernel]] decltype(softmax_of_rows<80, scaled, -1>) softmax_of_rows<80, scaled, -1>;
template [[host_name("scaled_64")]] [[kernel]] decltype(softmax_of_rows<64, scaled, -1>) softmax_of_rows<64, scaled, -1>;
template [[host_name("shifted_48")]] [[kernel]] decltype(softmax_of_rows<48, shifted, -1>) softmax_of_rows<48, shifted, -1>;
template [[host_name("shifted_24")]] [[kernel]] decltype(softmax_of_rows<24, shifted, -1>) softmax_of_rows<24, shifted, -1>;
template [[host_name("some_80")]] [[kernel]] decltype(softmax_of_rows<80, scaled, 1>) softmax_of_rows<80, scaled, 1>;

kernel void rescaled(device float* x [[buffer(0)]], device float* y [[buffer(1)]], uint sgid [[simdgroup_index_in_threadgroup]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 64, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    auto tile = op.get_destination_cooperative_tensor<view, view, float>();
    auto factors = op.get_row_reduction_destination_cooperative_tensor<view, view, float>();
    view from(x + sgid * 16 * 64, dextents<int, 2>(64, 16));
    view to(y + sgid * 16 * 64, dextents<int, 2>(64, 16));
    for (ushort i = 0; i < factors.get_capacity(); i++) {
        const int row = int(factors.get_multidimensional_index(i)[0]);
        factors[i] = row == 0 ? 1.0f : row == 1 ? 0.0f : row == 2 ? INFINITY : float(row - 1);
    }
    tile.load(from);
    for (auto it = tile.begin(); it != tile.end(); it++) {
        auto row_it = factors.map_iterator(it);
        *it = *it * *row_it;
    }
    tile.store(to);
}
