// What a SIMD-group matrix can do besides products: construction, copies, arrays, members of structs, references, templates, and
// thread_elements() with the places of the elements (reference 5.6).
//
// kernel: members
// arg 0: buffer float (8, 8) = iota
// arg 1: buffer float[64] = zeros
// grid: threadgroups 1 1 1
// threads: 32 1 1
//
// run: diagonal
// flags: -D WHAT=0
// expect 1: formula "(i % 9 == 0) * 3"
//
// run: filled
// flags: -D WHAT=1
// expect 1: fill(2.5)
//
// run: places of the elements
// flags: -D WHAT=2
// expect 1: iota
//
// run: transposed load
// flags: -D WHAT=3
// expect 1: formula "floor(i / 8) + 8 * (i % 8)"
//
// run: transposed store
// flags: -D WHAT=4
// expect 1: formula "floor(i / 8) + 8 * (i % 8)"
//
// run: an array in a struct, by reference
// flags: -D WHAT=5
// expect 1: formula "2 * i + 1"
//
// run: copies are values
// flags: -D WHAT=6
// expect 1: iota
//
// run: reinterpreted elements
// flags: -D WHAT=7
// expect 1: formula "10 * i"
//
// run: a transposition that is known at run time only
// flags: -D WHAT=8
// expect 1: formula "floor(i / 8) + 8 * (i % 8)"
//
// run: an index that is known at run time only
// flags: -D WHAT=9
// expect 1: formula "3 * i"

#include <metal_stdlib>
using namespace metal;

template <typename T, int ROWS>
struct Block {
    simdgroup_matrix<T, 8, 8> part[ROWS];

    void scale(T by)
    {
        for (int i = 0; i < ROWS; ++i)
            part[i].thread_elements() *= by;
    }
};

template <typename T, int C, int R>
void increment(thread simdgroup_matrix<T, C, R>& matrix, T by)
{
    matrix.thread_elements()[0] += by;
    matrix.thread_elements()[1] += by;
}

kernel void members(const device float* x [[buffer(0)]],
                    device float* y [[buffer(1)]],
                    ushort lane [[thread_index_in_simdgroup]])
{
    simdgroup_float8x8 result;
    if (WHAT == 0) {
        result = simdgroup_float8x8(3);
    } else if (WHAT == 1) {
        result = make_filled_simdgroup_matrix<float, 8, 8>(2.5f);
    } else if (WHAT == 2) {
        const short quad = lane / 4;
        const short row = (quad & 4) + (lane / 2) % 4;
        const short column = (quad & 2) * 2 + (lane % 2) * 2;
        result.thread_elements()[0] = 8 * row + column;
        result.thread_elements()[1] = 8 * row + column + 1;
    } else if (WHAT == 3) {
        simdgroup_load(result, x, 8, 0, true);
    } else if (WHAT == 4) {
        simdgroup_load(result, x);
        simdgroup_store(result, y, 8, ulong2(0, 0), true);
        return;
    } else if (WHAT == 5) {
        Block<float, 2> block;
        for (int i = 0; i < 2; ++i)
            simdgroup_load(block.part[i], x);
        block.scale(2.0f);
        increment(block.part[1], 1.0f);
        result = block.part[1];
    } else if (WHAT == 6) {
        simdgroup_load(result, x);
        auto other = result;
        increment(other, 5.0f);
    } else if (WHAT == 7) {
        simdgroup_load(result, x);
        reinterpret_cast<thread float2&>(result.thread_elements()) *= 10.0f;
    } else if (WHAT == 8) {
        simdgroup_load(result, x, 8, ulong2(0), x[1] == 1.0f);
    } else {
        simdgroup_float8x8 parts[3];
        for (int i = 0; i < 3; ++i)
            simdgroup_load(parts[i], x);
        const int at = int(x[2]);
        parts[at].thread_elements() = parts[at].thread_elements() * 3.0f;
        result = parts[at];
    }
    simdgroup_store(result, y);
}
