// Loops over arrays, and braced lists that number their elements or are shorter than what they initialise.
//
// kernel: arrays
// arg 0: buffer float[32] = iota
// arg 1: buffer float[256] = fill(-1)
// expect 1[0..24]: [0, 0, 7, 3, 3, 3, 9, 0, 6, 5, 0, 0, 36, 1234, 12, 21, 3, 5, 6, 11, 10, 3, 13, 0]
// expect 1[32..64]: formula "2 * a0[i - 32] + 6"

#include <metal_stdlib>
using namespace metal;

constant uint digits[2][2] = {{1, 2}, {3, 4}};

struct with_defaults {
    int a;
    int b = a + 1;
    int c{a + b};
};

// Constructors that are only defaulted leave an aggregate.
template <typename T>
struct counted {
    T count;
    T sum;
    constexpr counted() = default;
    constexpr counted<T>() threadgroup = default;
};

constexpr int sum_of(thread const int* p)
{
    int s = 0;
    for (int i = 0; i < 3; ++i) {
        s += p[i];
    }
    return s;
}

constexpr int constant_sum()
{
    int s = 0;
    const int list[] = {3, 7, 2};
    for (int x : list) {
        if (x == 7) continue;
        s += x;
    }
    int tail = 0;
    for (auto x : list) {
        tail = tail * 10 + x;
        if (x == 7) break;
    }
    return s + tail;
}
static_assert(constant_sum() == 5 + 37, "loops over arrays in constant expressions");

kernel void arrays(device const float* x [[buffer(0)]],
                   device float* y [[buffer(1)]],
                   uint lane [[thread_index_in_simdgroup]])
{
    constexpr int last = 5;
    float a[8] = {[2] = 7.0f, [3 ... last] = 3.0f, 9.0f};
    uint4 v = {6u, 5u};
    if (lane == 0) {
        for (int i = 0; i < 8; ++i) {
            y[i] = a[i];
        }
        for (int i = 0; i < 4; ++i) {
            y[8 + i] = v[i];
        }
        int list[] = {[1] = 2, [4] = 34};
        static_assert(sizeof(list) == 5 * sizeof(int), "the highest number counts");
        int total = 0;
        for (int item : list) {
            total += item;
        }
        y[12] = total;

        uint number = 0;
        for (constant auto& row : digits) {
            for (uint digit : row) {
                number = number * 10 + digit;
            }
        }
        y[13] = number;

        int3 doubled[2] = {int3(1), int3(2)};
        for (thread int3& item : doubled) {
            item += item;
        }
        y[14] = doubled[0].x + doubled[1].x + doubled[0].y + doubled[1].z;

        int copies[3] = {1, 2, 3};
        int product = 0;
        for (int item : copies) {
            item *= 2;
            product += item;
        }
        y[15] = product + 9;
        y[16] = copies[2];

        with_defaults d = {5};
        y[17] = d.a;
        y[18] = d.b;
        y[19] = d.c;

        counted<float> c = {10, 3};
        counted<float> zero = {};
        y[20] = c.count;
        y[21] = c.sum;
        y[22] = c.count + c.sum;
        y[23] = zero.count + zero.sum;
    }
    int three[3] = {1, 2, 3};
    y[32 + lane] = 2 * x[lane] + sum_of(three);
}
