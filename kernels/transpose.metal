// Transpose of a matrix through threadgroup memory: y[column, row] = x[row, column].
//
//   kernel name   transpose_{f32,f16,bf16}
//   grid          threadgroups (ceil(columns / 64), ceil(rows / 64), 1): one tile of 64 × 64 each
//   threads       (64, 4, 1)
//   buffer 0, 1   x [rows, columns], y [columns, rows]; not the same buffer
//   buffer 2      transpose_sizes
//
// Both the reads and the writes of a SIMD-group are consecutive in memory. The tile in threadgroup memory has four bytes of padding
// in each row, so that its columns, too, lie in different banks. One branch tells whole tiles from those at the edges.

#include <metal_stdlib>

using namespace metal;

/// Sizes of one dispatch.
struct transpose_sizes {
    int rows;
    int columns;
};

constant constexpr uint tile_size = 64;
constant constexpr uint rows_at_once = 4;

template <typename T>
[[kernel]] void transpose(device const T* x [[buffer(0)]],
                          device T* y [[buffer(1)]],
                          constant transpose_sizes& size [[buffer(2)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint3 thread_at [[thread_position_in_threadgroup]])
{
    threadgroup T tile[tile_size][tile_size + 4 / sizeof(T)];
    const uint rows = uint(size.rows);
    const uint columns = uint(size.columns);
    const uint row0 = group.y * tile_size;
    const uint column0 = group.x * tile_size;
    const uint across = thread_at.x;
    const uint down = thread_at.y;
    device const T* from = x + (ulong(row0 + down) * columns + (column0 + across));
    device T* to = y + (ulong(column0 + down) * rows + (row0 + across));

    if (row0 + tile_size <= rows && column0 + tile_size <= columns) {
#pragma unroll
        for (uint r = 0; r < tile_size; r += rows_at_once) {
            tile[down + r][across] = from[ulong(r) * columns];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint c = 0; c < tile_size; c += rows_at_once) {
            to[ulong(c) * rows] = tile[across][down + c];
        }
        return;
    }
    for (uint r = 0; r < tile_size; r += rows_at_once) {
        if (row0 + down + r < rows && column0 + across < columns) {
            tile[down + r][across] = from[ulong(r) * columns];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint c = 0; c < tile_size; c += rows_at_once) {
        if (row0 + across < rows && column0 + down + c < columns) {
            to[ulong(c) * rows] = tile[across][down + c];
        }
    }
}

template [[host_name("transpose_f32")]] [[kernel]] decltype(transpose<float>) transpose<float>;
template [[host_name("transpose_f16")]] [[kernel]] decltype(transpose<half>) transpose<half>;
template [[host_name("transpose_bf16")]] [[kernel]] decltype(transpose<bfloat>) transpose<bfloat>;
