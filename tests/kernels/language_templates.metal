// Specialised members of class templates, overloaded templates as template arguments, array parameters, logging.
//
// kernel: specialised
// arg 0: buffer float[32] = iota
// arg 1: buffer float[160] = zeros
// expect 1[0..32]: formula "2 * i"
// expect 1[32..64]: formula "(i - 32) + 100"
// expect 1[64..96]: formula "(i - 64) * 3 + 0.5"
// expect 1[96..128]: formula "(i - 96) + 4"
// expect 1[128..160]: formula "(i - 128) + 6"

#include <metal_stdlib>
#include <metal_logging>
using namespace metal;

constant metal::os_log logger("anymetal", "tests");

template <typename A, typename B, int N = 0>
struct transform {
    B value;
    B apply(A x) const thread;
    B other(A x) const thread { return B(x) * 2; }
};

template <typename A, typename B, int N>
B transform<A, B, N>::apply(A x) const thread
{
    return B(x) + value;
}

template <>
float transform<float, float>::other(float x) const thread
{
    return x + 100;
}

// Two templates of one name, told apart by the type of function that they take.
typedef float (one_t)(float);
typedef float (two_t)(float, float);

template <one_t f>
float call(float x)
{
    return f(x);
}

template <two_t f>
float call(float x)
{
    return f(x, 0.5f);
}

template <typename T>
T triple(T x)
{
    return x * 3;
}

template <typename T>
T add(T x, T y)
{
    return x * 3 + y;
}

template <float (*f)(float)>
float through(float x)
{
    return f(x);
}

// `U` comes from its default or from an array parameter.
template <typename T, int N>
struct loader {
    template <typename U = T>
    static void load(const device T* from, thread U to[N], const int offset = 0)
    {
        for (int i = 0; i < N; ++i) {
            to[i] = U(from[offset + i]);
        }
    }
};

template <uint kind>
bool chosen(int i);

template <>
bool chosen<3>(int i)
{
    return i < 2;
}

kernel void specialised(device const float* x [[buffer(0)]],
                        device float* y [[buffer(1)]],
                        uint lane [[thread_position_in_grid]])
{
    transform<int, float> a = {0};
    transform<float, float> b = {0};
    y[lane] = a.other(int(x[lane])) + a.apply(0);
    y[32 + lane] = b.other(x[lane]);
    y[64 + lane] = through<call<add<float>>>(x[lane]);
    float part[1];
    loader<float, 1>::load(x, part, int(lane));
    float exact[1];
    loader<float, 1>::load<float>(x, exact, int(lane));
    y[96 + lane] = part[0] + (chosen<3>(1) ? 4 : 0);
    y[128 + lane] = exact[0] + __builtin_ctz(8) + __builtin_popcount(7);
    logger.log_debug("lane %d of %d", lane, 32u);
    constexpr int shift = __builtin_ctz(64) + int(clz(1u)) + int(popcount(uchar(15)));
    static_assert(shift == 6 + 31 + 4, "bits of constants");
}
