// A function whose last act is a call of itself is a loop: MLX walks strides so.
//
// kernel: tails
// arg 0: buffer int[32] = iota
// arg 1: buffer int[96] = fill(-1)
// expect 1[0..32]: formula "floor(i / 5) + (i % 5) * 100"
// expect 1[32..64]: formula "(i - 32) * (i - 31) / 2 + 7"
// expect 1[64..96]: formula "(i - 64) % 4 == 0 ? 1 : (i - 64) % 2 == 0 ? 2 : 3"

#include <metal_stdlib>
using namespace metal;

struct walker {
    int index;
    int carry;

    void step(int n) thread
    {
        if (n == 0) {
            return;
        }
        index += 1;
        if (index == 5) {
            index = 0;
            carry += 1;
            if (n > 1) {
                step(n - 1);
            }
            return;
        }
        step(n - 1);
    }
};

// The result of the last call is the result.
int triangle(int n, int sum)
{
    if (n == 0) {
        return sum + 7;
    }
    return triangle(n - 1, sum + n);
}

// Arguments are all evaluated before the first parameter changes.
template <typename T>
T common_divisor(const T a, const T b)
{
    if (b == 0) {
        return a;
    }
    return common_divisor<T>(b, a % b);
}

kernel void tails(device const int* x [[buffer(0)]],
                  device int* y [[buffer(1)]],
                  uint lane [[thread_position_in_grid]])
{
    const int n = x[lane];
    walker w = {0, 0};
    w.step(n);
    y[lane] = w.carry + w.index * 100;
    y[32 + lane] = triangle(n, 0);
    const int d = common_divisor(n, 4);
    y[64 + lane] = d == 4 || n == 0 ? 1 : d == 2 ? 2 : 3;
}
