// Tensors of every element format in a kernel: subscripts, get and set, slices, handles and inline tensors. An element is
// copied as its code; elements of less than a byte are merged into it. One thread a row: bytes are not shared between threads.
//
// kernel: elements
// grid: threads 5 1 1
// threads: 5 1 1
// tolerance: exact
// expect 1: formula "i % 64 < 37 && i < 320 - 64 ? a0[i + 64 + 3] : i % 64 == 40 ? 1 : i % 64 == 41 ? a0[i] : 0"
// expect 2: formula "i % 64 < 63 ? a0[i + 1] : 0"
// expect 3: formula "a0[i]"
// run: E4M3
// flags: -D FORMAT=metal_fp8_e4m3_format -D BITS=8
// arg 0: tensor fp8_e4m3 (64, 5) = random(1)
// arg 1: tensor fp8_e4m3 (64, 5) = zeros
// arg 2: tensor fp8_e4m3 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: E5M2
// flags: -D FORMAT=metal_fp8_e5m2_format -D BITS=8
// arg 0: tensor fp8_e5m2 (64, 5) = random(2)
// arg 1: tensor fp8_e5m2 (64, 5) = zeros
// arg 2: tensor fp8_e5m2 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: E2M1
// flags: -D FORMAT=metal_fp4_e2m1_format -D BITS=4
// arg 0: tensor fp4_e2m1 (64, 5) = random(3, -6, 6)
// arg 1: tensor fp4_e2m1 (64, 5) = zeros
// arg 2: tensor fp4_e2m1 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: int4
// flags: -D FORMAT=int4b_format -D BITS=4
// arg 0: tensor int4 (64, 5) = random(4)
// arg 1: tensor int4 (64, 5) = zeros
// arg 2: tensor int4 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: uint4
// flags: -D FORMAT=uint4b_format -D BITS=4
// arg 0: tensor uint4 (64, 5) = random(5)
// arg 1: tensor uint4 (64, 5) = zeros
// arg 2: tensor uint4 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: int2
// flags: -D FORMAT=int2b_format -D BITS=2
// arg 0: tensor int2 (64, 5) = random(6, -2, 2)
// arg 1: tensor int2 (64, 5) = zeros
// arg 2: tensor int2 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: uint2
// flags: -D FORMAT=uint2b_format -D BITS=2
// arg 0: tensor uint2 (64, 5) = random(7, 0, 4)
// arg 1: tensor uint2 (64, 5) = zeros
// arg 2: tensor uint2 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: UE8M0
// flags: -D FORMAT=metal_fp8_ue8m0_format -D BITS=8
// arg 0: tensor fp8_ue8m0 (64, 5) = random(10, 0.01, 100)
// arg 1: tensor fp8_ue8m0 (64, 5) = zeros
// arg 2: tensor fp8_ue8m0 (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: char
// flags: -D FORMAT=char -D BITS=8
// arg 0: tensor char (64, 5) = random(8)
// arg 1: tensor char (64, 5) = zeros
// arg 2: tensor char (64, 5) = zeros
// arg 3: buffer float[320] = zeros
// run: uint8b_format
// flags: -D FORMAT=uint8b_format -D BITS=8
// arg 0: tensor uchar (64, 5) = random(9)
// arg 1: tensor uchar (64, 5) = zeros
// arg 2: tensor uchar (64, 5) = zeros
// arg 3: buffer float[320] = zeros

#include <metal_stdlib>
#include <metal_tensor>
using namespace metal;

using matrix = tensor<device FORMAT, dextents<int, 2>>;
using inline_matrix = tensor<threadgroup FORMAT, extents<int, 64, 5>, tensor_inline>;

kernel void elements(matrix from [[buffer(0)]],
                     matrix to [[buffer(1)]],
                     matrix by_subscript [[buffer(2)]],
                     device float* numbers [[buffer(3)]],
                     uint id [[thread_position_in_grid]])
{
    threadgroup uchar bytes[64 * 5];
    using handle = typename inline_matrix::data_handle_type;
    inline_matrix copy((handle)bytes, extents<int, 64, 5>());
    const int row = int(id);

    // A slice of a slice: element (0, 0) of `part` is element (3, 1) of `from`. Past the end `get` gives the default value.
    auto rest = from.slice(2, 1);
    auto part = rest.slice(1, 0);
    for (int column = 0; column < 37; column++) {
        to.set(part.get(column, row), column, row);
    }
    to.set(part.get(1, 100), 38, row);
    to.set(FORMAT(1.0f), 40, row);
    to[41, row] = from[41, row];
    to.set(FORMAT(1.0f), 64, row);
    to.set(FORMAT(1.0f), -1, row);

    for (int column = 0; column < 64; column++) {
        copy[column, row] = from[column, row];
    }
    const auto none = from.get(64, row);
    for (int column = 0; column < 64; column++) {
        by_subscript[column, row] = column < 63 ? copy[column + 1, row] : none;
        numbers[64 * row + column] = float(copy.get(column, row));
    }

    static_assert(is_same_v<typename matrix::value_type, FORMAT>, "value_type");
    if (from.get_stride_bytes(1) != 64 * BITS / 8 || copy.get_stride_bytes(1) != 64 * BITS / 8) {
        numbers[0] = -1.0f;
    }
}
