//! What kernels compute that lean on the C++ side of the language.

mod common;

use common::{lower, run_floats, run_ints};

const HEAD: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

fn ints(declarations: &str, body: &str, input: &[i32], outputs: usize) -> Vec<i32> {
    let source = format!(
        "{HEAD}{declarations}\nkernel void k(device int *out [[buffer(0)]], device const int *in [[buffer(1)]]) {{\n{body}\n}}\n"
    );
    run_ints(&source, input, outputs)
}

#[test]
fn function_pointers_as_template_arguments() {
    let source = format!(
        "{HEAD}
struct block {{ float d; uchar q[4]; }};
template <typename T4x4> void dequantize(device const block *b, short il, thread T4x4 &reg) {{
  float4x4 r;
  for (int i = 0; i < 16; i++) r[i / 4][i % 4] = b->d * b->q[i % 4] + il + i;
  reg = (T4x4)r;
}}
template <typename B, short nl, void (*dequantize_func)(device const B *, short, thread float4x4 &)>
kernel void mul(device float *out [[buffer(0)]], device const B *in [[buffer(1)]]) {{
  float4x4 m; dequantize_func(in, nl, m);
  for (short i = 0; i < 16; i++) out[i] = m[i / 4][i % 4];
}}
typedef decltype(mul<block, 2, dequantize>) mul_t;
template [[host_name(\"k\")]] kernel mul_t mul<block, 2, dequantize>;
"
    );
    let mut input = vec![2.0f32];
    input.push(f32::from_le_bytes([1, 2, 3, 4]));
    let got = run_floats(&source, &input, 16);
    let want: Vec<f32> = (0..16).map(|i| 2.0 * (i % 4 + 1) as f32 + 2.0 + i as f32).collect();
    assert_eq!(got, want);
}

#[test]
fn unions_bits_and_packing() {
    assert_eq!(
        ints(
            "union Bits { float f; uint u; uchar b[4]; };
             struct Half2 { half x; half y; };
             struct alignas(16) Wide { int a; };
             float from_bits(uint x) { uint bits; if (x == 0) { bits = 0x00400000; } else { bits = x << 23; } return as_type<float>(bits); }",
            "Bits v; v.f = 1.0f; out[0] = v.u >> 23; out[1] = v.b[3]; Bits w = {2.0f}; out[2] = w.u == 0x40000000u;
             out[3] = int(from_bits(130)); uint qh = 0x04030201; thread const uchar *p = (thread const uchar *)&qh; out[4] = p[in[0]];
             out[5] = as_type<int>(1.5f) >> 20; out[6] = sizeof(Wide) + alignof(Wide); half2 h = as_type<half2>(0x3C004000u); out[7] = int(h.x * 10 + h.y);
             uchar4 c = as_type<uchar4>(0x01020304); out[8] = c.x * 10 + c.w; out[9] = int4(c).z;",
            &[2],
            10
        ),
        [127, 63, 1, 8, 3, 1020, 32, 21, 41, 2]
    );
}

#[test]
fn integral_constants_and_generic_lambdas() {
    assert_eq!(
        ints(
            "template <int V> using Int = integral_constant<int, V>;
             template <typename T, T a, typename U, U b> constexpr auto operator+(integral_constant<T, a>, integral_constant<U, b>) { constexpr auto r = a + b; return integral_constant<decltype(r), r>{}; }
             template <int I, int N, typename F> void const_for(F f) { if constexpr (I < N) { f(Int<I>{}); const_for<I + 1, N>(f); } }
             template <typename F> void dispatch(bool v, F f) { if (v) { f(true_type{}); } else { f(false_type{}); } }
             template <int N> struct Tile { int v[N]; template <int I> thread int &at() { return v[I]; } static constexpr constant int count = N; };",
            "Tile<4> t; const_for<0, 4>([&](auto i) { t.template at<i>() = in[0] * 10 + i; });
             int s = 0; const_for<0, Tile<4>::count>([&](auto i) { constexpr int k = i.value * 2; s += t.v[i] + k; }); out[0] = s;
             dispatch(in[0] > 1, [&](auto flag) { if constexpr (flag.value) out[1] = 7; else out[1] = 8; });
             auto sum = Int<3>{} + Int<4>{}; out[2] = sum; static_assert(sum.value == 7); out[3] = decltype(sum)::value;
             auto tl = [&]<typename T>(T x) { return sizeof(T) + int(x); }; out[4] = tl(short(5));
             auto nested = [&](int a) { auto inner = [&](int b) { return a * b + s; }; return inner(2); }; out[5] = nested(3) - s;",
            &[3],
            6
        ),
        [30 + 31 + 32 + 33 + 12, 7, 7, 7, 7, 6]
    );
}

#[test]
fn overloads_and_traits() {
    assert_eq!(
        ints(
            "template <typename T> enable_if_t<is_floating_point_v<T>, int> kind(T) { return 1; }
             template <typename T> enable_if_t<is_integral_v<T>, int> kind(T) { return 2; }
             template <typename T> int rank(T) { return 1; } template <typename T> int rank(thread T *) { return 2; } template <typename T> int rank(thread vec<T, 4> *) { return 3; } int rank(float) { return 4; }
             template <typename T> struct Limits { static constexpr constant T low = T(-1); }; template <> struct Limits<uchar> { static constexpr constant uchar low = 9; };
             template <typename T, typename Enable = void> struct Size { static constexpr constant int v = 0; };
             template <typename T> struct Size<T, enable_if_t<sizeof(T) == 2>> { static constexpr constant int v = 2; };
             template <typename T, int N> struct Vec { T d[N]; Vec() = default; Vec(T x) { for (int i = 0; i < N; i++) d[i] = x; } T total() const; };
             template <typename T, int N> T Vec<T, N>::total() const { T s = 0; for (int i = 0; i < N; i++) s += d[i]; return s; }
             struct Left { static int apply(int a, int b) { return a; } }; struct Right { static int apply(int a, int b) { return b; } };
             template <template <typename> class C, typename T> int through(T x) { return C<T>::low; }
             int by_value(array<int, 3> a) { a[0] = 100; return a[0] + a[2]; }
             template <typename T> struct Chain { using type = conditional_t<is_same_v<T, float>, half, T>; };",
            "out[0] = kind(1.0f) * 10 + kind(3u); int x; int4 y; out[1] = rank(1) * 1000 + rank(&x) * 100 + rank(&y) * 10 + rank(1.0f);
             out[2] = Limits<int>::low * 10 + Limits<uchar>::low; out[3] = Size<half>::v * 10 + Size<int>::v; Vec<int, 3> v(5); out[4] = v.total();
             using Pick = conditional_t<(sizeof(int) > 2), Left, Right>; out[5] = Pick::apply(3, 4); out[6] = through<Limits>(uchar(1)); out[7] = sizeof(typename Chain<float>::type) * 10 + sizeof(Chain<int>::type);
             array<int, 3> a = {1, 2, 3}; a[1] = 20; out[8] = a[0] + a[1] + a[2] + a.size(); constexpr array<int, 2> c = {4, 5}; out[9] = c[in[0]]; out[10] = by_value(a) + a[0]; array<int, 3> b; b = a; b[0] = 50; out[11] = b[0] + a[0];",
            &[1],
            12
        ),
        [12, 1234, -1, 20, 15, 3, 9, 24, 27, 5, 104, 51]
    );
}

#[test]
fn references_to_variables_in_registers() {
    assert_eq!(
        ints(
            "void spread(thread int4 &v) { thread int *p = (thread int *)&v; for (int i = 0; i < 4; i++) p[i] += i; }
             void swap_in(thread int &a, thread int &b) { int t = a; a = b; b = t; }
             struct Acc { int n; thread Acc &add(int k) { n += k; return *this; } };
             int early(thread int &n) { n += 1; if (n > 3) return n; n += 10; return -n; }",
            "int4 v = int4(1); spread(v); out[0] = v.x + v.y * 10 + v.z * 100 + v.w * 1000; int a = 1, b = 2; swap_in(a, b); out[1] = a * 10 + b; swap_in(v.x, v.w); out[2] = v.x * 10 + v.w;
             Acc acc = {0}; acc.add(3).add(4); out[3] = acc.n; int n = 3; out[4] = early(n) + n; n = 0; out[5] = early(n) + n; thread int &r = v.y; r = 50; out[6] = v.y;",
            &[0],
            7
        ),
        [4321, 21, 41, 7, 8, 0, 50]
    );
}

#[test]
fn constexpr_tables_and_evaluation() {
    assert_eq!(
        ints(
            "constexpr int gcd(int a, int b) { while (b != 0) { int t = a % b; a = b; b = t; } return a; }
             struct Config { int m, n; bool t; constexpr Config(int m_, int n_ = 8, bool t_ = false) : m(m_), n(n_), t(t_) {} constexpr int area() const { return m * n; } };
             template <Config C> struct Op { static constexpr constant int size = C.area(); int run() { return C.t ? C.m : C.n; } };
             constant constexpr int powers[] = {1, 2, 4, 8};",
            "int a[gcd(12, 18)]; out[0] = sizeof(a) / sizeof(int); constexpr Config c(4, 3); out[1] = Op<c>::size + Op<Config(2)>::size; Op<Config(5, 6, true)> op; out[2] = op.run();
             constexpr int local[3] = {7, 8, 9}; out[3] = local[in[0]] + powers[in[0] + 1]; static_assert(powers[3] == 8 && gcd(7, 3) == 1); switch (in[0]) { case gcd(4, 2) - 1: out[4] = 3; break; default: out[4] = 4; }",
            &[1],
            5
        ),
        [6, 28, 5, 12, 3]
    );
}

#[test]
fn structs_of_arguments() {
    let source = format!(
        "{HEAD}
struct Params {{ int n; float scale; int2 origin; int table[3]; }};
struct Inner {{ device float *data; }};
kernel void k(device float *out [[buffer(0)]], constant Params &p [[buffer(1)]]) {{
  Params local = p;
  local.n += 1;
  out[0] = local.n + p.scale; out[1] = p.origin.y + p.table[p.n]; out[2] = sizeof(Params) + sizeof(Inner);
}}"
    );
    let kernel = lower(&source, "k");
    let mut machine = common::Machine::new(&kernel);
    machine.buffers.push(vec![0; 12]);
    let mut bytes = Vec::new();
    bytes.extend(1i32.to_le_bytes());
    bytes.extend(0.5f32.to_le_bytes());
    for x in [3i32, 4, 10, 20, 30, 0] {
        bytes.extend(x.to_le_bytes());
    }
    machine.buffers.push(bytes);
    machine.run();
    let got: Vec<f32> = machine.buffers[0]
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(got, [2.5, 24.0, 40.0]);
}

#[test]
fn typename_in_sizeof_and_casts() {
    let source = "#include <metal_stdlib>
using namespace metal;
struct Block { int a[3]; }; struct Quant { using block = Block; using scalar = short; };
template <typename Q> int bytes() { return sizeof(typename Q::block) + alignof(typename Q::block); }
template <typename Q> int narrow(int x) { return (typename Q::scalar)(x); }
kernel void k(device int *o, device const int *in) { o[0] = bytes<Quant>(); o[1] = narrow<Quant>(in[0]); }";
    assert_eq!(run_ints(source, &[65537 + 4], 2), [16, 5]);
}
