// Program-scope constant tables, one- and two-dimensional and of structs, indexed at run time; constexpr functions build sizes.
//
// kernel: tables
// arg 0: buffer int[12] = zeros
// grid: threads 12 1 1
// threads: 12 1 1
// expect 0: formula "10 * (i + 1) + 3 * floor(i / 4) + i % 4 + (i % 3 == 0 ? 100 : i % 3 == 1 ? 200 : 300)"

#include <metal_stdlib>
using namespace metal;

constexpr int total(int rows, int columns)
{
    int result = 0;
    for (int r = 0; r < rows; r++) {
        result += columns;
    }
    return result;
}

struct entry {
    int key;
    int value;
};

constant int steps[total(3, 4)] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
constant int grid[3][4] = {{0, 1, 2, 3}, {3, 4, 5, 6}, {6, 7, 8, 9}};
constant entry entries[] = {{0, 100}, {1, 200}, {2, 300}};

kernel void tables(device int* y [[buffer(0)]], uint id [[thread_position_in_grid]])
{
    y[id] = steps[id] + grid[id / 4][id % 4] + entries[id % 3].value;
}
