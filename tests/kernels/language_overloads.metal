// Overloads by C++'s rules (the better argument, then the function before the template, then the more specialised template), member
// functions by address space, braces of metal::array, and arrays that are copied.
//
// kernel: overloads
// arg 0: buffer float[32] = iota
// arg 1: buffer float[128] = zeros
// grid: threads 32 1 1
// threads: 32 1 1
// expect 1: formula "i < 32 ? 11 + i : i < 64 ? 23 + (i - 32) : i < 96 ? (i - 64) * 10 + 1 : 123 + 456 * (i - 96)"

#include <metal_stdlib>
using namespace metal;

struct Cell {
    float value;
    float get() const { return value + 1; }
    float get() const device { return value + 10; }
};

template <typename T>
float kind(T)
{
    return 1;
}

template <typename T>
float kind(const device T*)
{
    return 2;
}

template <typename T, int N>
float kind(vec<T, N>)
{
    return 3;
}

float kind(float, int)
{
    return 4;
}

float kind(float, float)
{
    return 5;
}

struct Triple {
    array<int, 3> digits;
    int scale;
};

float number(thread const array<int, 3>& a)
{
    return a[0] * 100 + a[1] * 10 + a[2];
}

kernel void overloads(device const float* x [[buffer(0)]],
                      device float* y [[buffer(1)]],
                      uint lane [[thread_position_in_grid]])
{
    device const Cell* cells = reinterpret_cast<device const Cell*>(x);
    Cell copy = cells[lane];
    y[lane] = cells[lane].get() + copy.get() - x[lane];
    y[32 + lane] = kind(x) * 10 + kind(float2(1)) + x[lane] * (kind(1.0f, 2.0h) - kind(1.0f, short(2)));
    array<int, 3> a = {{0, 0, 1}};
    auto b = a;
    b[2] = 7;
    y[64 + lane] = number(a) + 10 * x[lane] * (b[2] - 6);
    Triple t = {{{1, 2, 3}}, 4};
    Triple u = {4, 5, 6, int(lane)};
    y[96 + lane] = number(t.digits) + number(u.digits) * u.scale;
}
