// A product whose operands are filled slot by slot from memory and whose row sums come from lane shuffles, as kernels do
// that know the layout of the device and never ask for it: C = A·B (16 × 32) and the sums of its rows and columns.
//
// option: layout=device
// arg 0: buffer half (16, 16) = random(1)
// arg 1: buffer half (32, 16) = random(2)
// arg 2: buffer float (32, 16) = fill(9)
// arg 3: buffer float[16] = fill(9)
// arg 4: buffer float[32] = fill(9)
// expect 2: matmul(0, 1)
// expect 3: formula "sum(n, 0, 32, sum(k, 0, 16, a0[16 * i + k] * a1[32 * k + n]))"
// expect 4: formula "sum(m, 0, 16, sum(k, 0, 16, a0[16 * m + k] * a1[32 * k + i]))"

#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void direct(device const half* a [[buffer(0)]],
                   device const half* b [[buffer(1)]],
                   device float* c [[buffer(2)]],
                   device float* rows [[buffer(3)]],
                   device float* columns [[buffer(4)]],
                   ushort lane [[thread_index_in_simdgroup]])
{
    constexpr matmul2d_descriptor descriptor(16, 32, 16);
    matmul2d<descriptor, execution_simdgroup> op;
    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    auto right = op.get_right_input_cooperative_tensor<half, half, float>();
    auto product = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();

    const short row = ((lane >> 2) & 4) | ((lane >> 1) & 3);
    const short column = (((lane >> 2) & 2) | (lane & 1)) * 4;
    for (short i = 0; i < 8; ++i)
        left[i] = a[(row + 8 * (i >> 2)) * 16 + column + (i & 3)];
    for (short i = 0; i < 16; ++i)
        right[i] = b[(row + 8 * ((i >> 2) & 1)) * 32 + column + (i & 3) + 16 * (i >> 3)];
    op.run(left, right, product);

    for (short i = 0; i < 16; ++i)
        c[(row + 8 * ((i >> 2) & 1)) * 32 + column + (i & 3) + 16 * (i >> 3)] = product[i];

    // A row lies in four lanes, whose numbers differ in bits 0 and 3.
    for (short half_tile = 0; half_tile < 2; ++half_tile) {
        float sum = 0;
        for (short i = 0; i < 4; ++i)
            sum += product[4 * half_tile + i] + product[8 + 4 * half_tile + i];
        sum += simd_shuffle_xor(sum, 1);
        sum += simd_shuffle_xor(sum, 8);
        if ((lane & 9) == 0)
            rows[row + 8 * half_tile] = sum;
    }
    // A column lies in eight lanes, whose numbers differ in bits 1, 2 and 4.
    for (short i = 0; i < 8; ++i) {
        const short slot = (i & 3) + 8 * (i >> 2);
        float sum = product[slot] + product[slot + 4];
        sum += simd_shuffle_xor(sum, 2);
        sum += simd_shuffle_xor(sum, 4);
        sum += simd_shuffle_xor(sum, 16);
        if ((lane & 22) == 0)
            columns[column + (i & 3) + 16 * (i >> 2)] = sum;
    }
}
