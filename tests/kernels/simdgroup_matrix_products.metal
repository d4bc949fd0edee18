// Products of SIMD-group matrices of mixed element types, from threadgroup memory, by several SIMD-groups; the sum is made in float and
// rounded once.
//
// kernel: products
// grid: threadgroups 1 1 1
// threads: 128 1 1
//
// run: half, half, half
// flags: -D LEFT=half -D RIGHT=half -D SUM=half
// arg 0: buffer half (8, 32) = random(1)
// arg 1: buffer half (8, 8) = random(2)
// arg 2: buffer half (8, 32) = random(3)
// expect 2: matmul(0, 1) accumulate
//
// run: bfloat, bfloat, bfloat
// flags: -D LEFT=bfloat -D RIGHT=bfloat -D SUM=bfloat
// arg 0: buffer bfloat (8, 32) = random(1)
// arg 1: buffer bfloat (8, 8) = random(2)
// arg 2: buffer bfloat (8, 32) = random(3)
// expect 2: matmul(0, 1) accumulate
//
// run: half, float, float
// flags: -D LEFT=half -D RIGHT=float -D SUM=float
// arg 0: buffer half (8, 32) = random(1)
// arg 1: buffer float (8, 8) = random(2)
// arg 2: buffer float (8, 32) = random(3)
// expect 2: matmul(0, 1) accumulate
//
// run: bfloat, half, float
// flags: -D LEFT=bfloat -D RIGHT=half -D SUM=float
// arg 0: buffer bfloat (8, 32) = random(1)
// arg 1: buffer half (8, 8) = random(2)
// arg 2: buffer float (8, 32) = random(3)
// expect 2: matmul(0, 1) accumulate
//
// run: the operator, nothing added
// flags: -D LEFT=float -D RIGHT=float -D SUM=float -D OPERATOR
// arg 0: buffer float (8, 32) = random(1)
// arg 1: buffer float (8, 8) = random(2)
// arg 2: buffer float (8, 32) = random(3)
// expect 2: matmul(0, 1)
//
// run: simdgroup_multiply
// flags: -D LEFT=float -D RIGHT=half -D SUM=float -D MULTIPLY
// arg 0: buffer float (8, 32) = random(1)
// arg 1: buffer half (8, 8) = random(2)
// arg 2: buffer float (8, 32) = random(3)
// expect 2: matmul(0, 1)

#include <metal_stdlib>
using namespace metal;

kernel void products(const device LEFT* a [[buffer(0)]],
                     const device RIGHT* b [[buffer(1)]],
                     device SUM* d [[buffer(2)]],
                     ushort group [[simdgroup_index_in_threadgroup]],
                     ushort thread_index [[thread_index_in_threadgroup]])
{
    // A row of 12 elements, so that rows are not a multiple of 8 apart.
    threadgroup LEFT left[32][12];
    for (ushort i = thread_index; i < 256; i += 128)
        left[i / 8][i % 8] = a[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);

    simdgroup_matrix<LEFT, 8, 8> x;
    simdgroup_matrix<RIGHT, 8, 8> y;
    simdgroup_matrix<SUM, 8, 8> z;
    simdgroup_load(x, &left[8 * group][0], 12);
    simdgroup_load(y, b);
    simdgroup_load(z, d + 64 * group);
#if defined(OPERATOR)
    z = x * y;
#elif defined(MULTIPLY)
    simdgroup_multiply(z, x, y);
#else
    simdgroup_multiply_accumulate(z, x, y, z);
#endif
    simdgroup_store(z, d, 8, ulong2(0, 8 * group));
}
