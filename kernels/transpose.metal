// Transpose of a matrix through threadgroup memory: y[column, row] = x[row, column].
//
//   kernel name   transpose_{f32,f16,bf16}
//   grid          threadgroups (ceil(columns / 32), ceil(rows / 32), 1): one tile of 32 × 32 each
//   threads       (32, 8, 1)
//   buffer 0, 1   x [rows, columns], y [columns, rows]; not the same buffer
//   buffer 2      transpose_sizes
//
// Both the reads and the writes of a SIMD-group are consecutive in memory. The tile in threadgroup memory has one element
// of padding in each row, so that its columns, too, lie in different banks.

#include <metal_stdlib>

using namespace metal;

/// Sizes of one dispatch.
struct transpose_sizes {
    int rows;
    int columns;
};

constant constexpr uint tile_size = 32;
constant constexpr uint rows_at_once = 8;

template <typename T>
[[kernel]] void transpose(device const T* x [[buffer(0)]],
                          device T* y [[buffer(1)]],
                          constant transpose_sizes& size [[buffer(2)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint3 thread_at [[thread_position_in_threadgroup]])
{
    threadgroup T tile[tile_size][tile_size + 1];
    const uint rows = uint(size.rows);
    const uint columns = uint(size.columns);
    const uint row0 = group.y * tile_size;
    const uint column0 = group.x * tile_size;

    for (uint r = thread_at.y; r < tile_size; r += rows_at_once) {
        const uint row = row0 + r;
        const uint column = column0 + thread_at.x;
        if (row < rows && column < columns) {
            tile[r][thread_at.x] = x[ulong(row) * columns + column];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint c = thread_at.y; c < tile_size; c += rows_at_once) {
        const uint row = row0 + thread_at.x;
        const uint column = column0 + c;
        if (row < rows && column < columns) {
            y[ulong(column) * rows + row] = tile[thread_at.x][c];
        }
    }
}

template [[host_name("transpose_f32")]] [[kernel]] decltype(transpose<float>) transpose<float>;
template [[host_name("transpose_f16")]] [[kernel]] decltype(transpose<half>) transpose<half>;
template [[host_name("transpose_bf16")]] [[kernel]] decltype(transpose<bfloat>) transpose<bfloat>;
