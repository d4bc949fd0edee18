// Structs with constructors, const methods, static members, operators and default member values; passed by value and by reference.
//
// kernel: complex_powers
// arg 0: buffer float[32] = random(9)
// arg 1: buffer float[48] = zeros
// grid: threads 16 1 1
// threads: 16 1 1
// expect 1[0..16]: formula "a0[2 * i] * a0[2 * i] * a0[2 * i] - 3 * a0[2 * i] * a0[2 * i + 1] * a0[2 * i + 1] + 1"
// expect 1[16..32]: formula "3 * a0[2 * (i - 16)] * a0[2 * (i - 16)] * a0[2 * (i - 16) + 1] - pow(a0[2 * (i - 16) + 1], 3)"
// expect 1[32..48]: formula "i - 32 + 7"

#include <metal_stdlib>
using namespace metal;

struct complex {
    float re;
    float im;

    complex(float r, float i = 0.0f) : re(r), im(i) {}

    complex operator*(thread const complex& other) const
    {
        return complex(re * other.re - im * other.im, re * other.im + im * other.re);
    }
    thread complex& operator+=(complex other)
    {
        re += other.re;
        im += other.im;
        return *this;
    }
    static complex one() { return complex(1.0f); }
};

struct counter {
    int value = 7;
    void add(int n) { value += n; }
    int get() const { return value; }
};

static void cube(thread complex& z)
{
    z = z * z * z;
}

kernel void complex_powers(device const float2* x [[buffer(0)]],
                           device float* y [[buffer(1)]],
                           uint id [[thread_position_in_grid]])
{
    complex z(x[id].x, x[id].y);
    cube(z);
    z += complex::one();
    y[id] = z.re;
    y[16 + id] = z.im;
    counter c;
    c.add(int(id));
    y[32 + id] = float(c.get());
}
