// C = A · B (or A · Bᵀ) by 8 × 8 SIMD-group matrices from tiles in threadgroup memory, as older GEMMs do it: threads copy bytes
// in structs, count in short integers, and find the elements that they hold by coordinates of their own.
//
// kernel: staged
// grid: threadgroups 2 3 1
// threads: 64 1 1
// expect 2: matmul(0, 1)
//
// run: float
// flags: -D T=float -D TB=0
// arg 0: buffer float (48, 96) = random(1)
// arg 1: buffer float (64, 48) = random(2)
// arg 2: buffer float (64, 96) = zeros
//
// run: half
// flags: -D T=half -D TB=0
// arg 0: buffer half (48, 96) = random(3)
// arg 1: buffer half (64, 48) = random(4)
// arg 2: buffer float (64, 96) = zeros
//
// run: bfloat
// flags: -D T=bfloat -D TB=0
// arg 0: buffer bfloat (48, 96) = random(5)
// arg 1: buffer bfloat (64, 48) = random(6)
// arg 2: buffer float (64, 96) = zeros
//
// run: float, transposed
// flags: -D T=float -D TB=1
// arg 0: buffer float (48, 96) = random(7)
// arg 1: buffer float (48, 64) = random(8)
// arg 2: buffer float (64, 96) = zeros
// expect 2: matmul(0, 1, transpose_right)
//
// run: half, transposed
// flags: -D T=half -D TB=1
// arg 0: buffer half (48, 96) = random(9)
// arg 1: buffer half (48, 64) = random(10)
// arg 2: buffer float (64, 96) = zeros
// expect 2: matmul(0, 1, transpose_right)

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

#define UNROLL _Pragma("clang loop unroll(full)")

constant constexpr short BM = 32, BN = 32, BK = 16, PAD = 16 / sizeof(T);
constant constexpr int N = 64, K = 48;

struct alignas(4) sixteen_bytes {
    uchar bytes[16];
};

/// Copies a tile of ROWS × COLUMNS, sixteen bytes a thread at a time.
template <short ROWS, short COLUMNS>
void fetch(threadgroup T* to, const device T* from, int from_row, short thread_index)
{
    constexpr short EACH = 16 / sizeof(T);
    constexpr short ACROSS = COLUMNS / EACH;
    const short row = thread_index / ACROSS;
    const short column = (thread_index % ACROSS) * EACH;
    UNROLL for (short i = 0; i < ROWS; i += 64 / ACROSS) {
        *(threadgroup sixteen_bytes*)(to + (row + i) * (COLUMNS + PAD) + column) =
            *(const device sixteen_bytes*)(from + (row + i) * from_row + column);
    }
}

/// Rows of fragments that a SIMD-group holds.
template <short ROWS, short COLUMNS>
struct fragments {
    simdgroup_matrix<float, 8, 8> matrices[ROWS * COLUMNS];

    thread simdgroup_matrix<float, 8, 8>& at(short row, short column) { return matrices[row * COLUMNS + column]; }

    void fill(const threadgroup T* from, short across, short down, short2 place)
    {
        UNROLL for (short i = 0; i < ROWS; i++) {
            UNROLL for (short j = 0; j < COLUMNS; j++) {
                UNROLL for (short e = 0; e < 2; e++) {
                    at(i, j).thread_elements()[e] =
                        float(from[(8 * i + place.y) * down + (8 * j + place.x + e) * across]);
                }
            }
        }
    }
};

kernel void staged(const device T* a [[buffer(0)]],
                   const device T* b [[buffer(1)]],
                   device float* c [[buffer(2)]],
                   uint2 tile [[threadgroup_position_in_grid]],
                   ushort thread_index [[thread_index_in_threadgroup]],
                   ushort simdgroup [[simdgroup_index_in_threadgroup]],
                   ushort lane [[thread_index_in_simdgroup]])
{
    threadgroup T left_tile[BM * (BK + PAD)];
    threadgroup T right_tile[(BN + PAD) * BN];

    // The layout of a matrix over the lanes of a SIMD-group.
    const short quad = lane / 4;
    const short2 place((quad & 2) * 2 + (lane % 2) * 2, (quad & 4) + (lane / 2) % 4);

    fragments<2, 4> sums;
    UNROLL for (short i = 0; i < 8; i++) {
        sums.matrices[i] = simdgroup_matrix<float, 8, 8>(0);
    }
    const int row0 = tile.y * BM, column0 = tile.x * BN;
    for (short k0 = 0; k0 < K; k0 += BK) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        fetch<BM, BK>(left_tile, a + row0 * K + k0, K, thread_index);
#if TB
        fetch<BN, BK>(right_tile, b + column0 * K + k0, K, thread_index);
#else
        fetch<BK, BN>(right_tile, b + k0 * N + column0, N, thread_index);
#endif
        threadgroup_barrier(mem_flags::mem_threadgroup);
        UNROLL for (short k = 0; k < BK; k += 8) {
            fragments<2, 1> left;
            fragments<1, 4> right;
            left.fill(left_tile + simdgroup * 16 * (BK + PAD) + k, 1, BK + PAD, place);
#if TB
            right.fill(right_tile + k, BK + PAD, 1, place);
#else
            right.fill(right_tile + k * (BN + PAD), 1, BN + PAD, place);
#endif
            UNROLL for (short i = 0; i < 2; i++) {
                UNROLL for (short j = 0; j < 4; j++) {
                    simdgroup_multiply_accumulate(sums.at(i, j), left.at(i, 0), right.at(0, j), sums.at(i, j));
                }
            }
        }
    }
    UNROLL for (short i = 0; i < 2; i++) {
        UNROLL for (short j = 0; j < 4; j++) {
            UNROLL for (short e = 0; e < 2; e++) {
                c[(row0 + simdgroup * 16 + 8 * i + place.y) * N + column0 + 8 * j + place.x + e] =
                    sums.at(i, j).thread_elements()[e];
            }
        }
    }
}
