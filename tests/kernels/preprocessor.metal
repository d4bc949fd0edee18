// Object- and function-like macros, pasting and stringising, conditionals, __has_include, variadic macros, -D from the command line.
//
// kernel: macros
// flags: -D SCALE=3 -DFLAG
// arg 0: buffer int[8] = zeros
// threads: 1 1 1
// expect 0: [15, 42, 1, 410, 6, 1, 3, 9]

#include <metal_stdlib>
using namespace metal;

#define TIMES(a, b) ((a) * (b))
#define JOIN(a, b) a##b
#define JOINED(a, b) JOIN(a, b)
#define NAME value
#define ADD_ALL(first, ...) sum(first, __VA_ARGS__)
#define TEXT(x) #x

#if defined(FLAG) && SCALE > 2 && !defined(NOT_THERE)
#define SELECTED 1
#elif 1
#define SELECTED 2
#else
#error not reached
#endif

#ifdef __has_include
#if __has_include(<metal_stdlib>) && !__has_include(<no_such_header>)
#define HEADERS 1
#endif
#endif

static int sum(int a, int b, int c)
{
    return a + b + c;
}

kernel void macros(device int* y [[buffer(0)]])
{
    const int JOINED(NAME, 7) = 42;
    y[0] = TIMES(2 + 3, SCALE);
    y[1] = value7;
    y[2] = SELECTED;
    y[3] = __METAL_VERSION__;
    y[4] = ADD_ALL(1, 2, 3);
    y[5] = HEADERS;
    static_assert(SCALE == 3, TEXT(SCALE comes from the command line));
    y[6] = __LINE__ > 10 ? 3 : 0;
    y[7] = TIMES(SCALE, \
                 SCALE);
}
