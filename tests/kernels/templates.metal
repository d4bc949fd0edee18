// Function and class templates: type, value and class-type parameters, deduction, default arguments, specialisation, if constexpr, alias
// templates, and explicit instantiation with host names.
//
// arg 0: buffer float[40] = random(4, 0, 10)
// arg 1: buffer float[40] = zeros
// grid: threads 40 1 1
// threads: 40 1 1
// run: square
// kernel: powers_2
// expect 1: formula "pow(a0[i], 2) + 100"
// run: cube
// kernel: powers_3
// expect 1: formula "pow(a0[i], 3) + 200"
// tolerance: abs 1e-3 rel 1e-5
// run: identity
// kernel: powers_1
// expect 1: formula "a0[i] + 300"

#include <metal_stdlib>
using namespace metal;

struct offsets {
    int low;
    int high;
};

template <int N>
struct power {
    static float of(float x) { return x * power<N - 1>::of(x); }
};

template <>
struct power<1> {
    static float of(float x) { return x; }
};

template <typename T, size_t N>
struct small_array {
    T items[N];
    static constexpr constant size_t count = N;
    thread T& operator[](size_t i) { return items[i]; }
};

template <typename T>
using pair_of = small_array<T, 2>;

template <typename T, typename U = T>
U plus(T a, U b)
{
    return U(a) + b;
}

template <offsets O, typename T>
T shifted(T x)
{
    if constexpr (is_same_v<T, float>) {
        return x + float(O.low + O.high);
    } else {
        return x;
    }
}

template <int N, offsets O>
kernel void powers(device const float* x [[buffer(0)]],
                   device float* y [[buffer(1)]],
                   uint id [[thread_position_in_grid]])
{
    pair_of<float> values;
    static_assert(pair_of<float>::count == 2, "a pair has two");
    values[0] = power<N>::of(x[id]);
    values[1] = shifted<O>(0.0f);
    y[id] = plus(values[0], values[1]);
}

template [[host_name("powers_1")]] kernel void powers<1, offsets{100, 200}>(device const float*, device float*, uint);
template [[host_name("powers_2")]] kernel void powers<2, offsets{40, 60}>(device const float*, device float*, uint);
template [[host_name("powers_3")]] [[kernel]] decltype(powers<3, offsets{0, 200}>) powers<3, offsets{0, 200}>;
