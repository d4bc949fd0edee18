//! What kernels compute, by value.

mod common;

use common::{run_floats, run_ints, run_ints_with};

const HEAD: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

fn ints(declarations: &str, body: &str, input: &[i32], outputs: usize) -> Vec<i32> {
    let source = format!(
        "{HEAD}{declarations}\nkernel void k(device int *out [[buffer(0)]], device const int *in [[buffer(1)]]) {{\n{body}\n}}\n"
    );
    run_ints(&source, input, outputs)
}

fn floats(declarations: &str, body: &str, input: &[f32], outputs: usize) -> Vec<f32> {
    let source = format!(
        "{HEAD}{declarations}\nkernel void k(device float *out [[buffer(0)]], device const float *in [[buffer(1)]]) {{\n{body}\n}}\n"
    );
    run_floats(&source, input, outputs)
}

#[test]
fn arithmetic_and_conversions() {
    assert_eq!(
        ints(
            "",
            "out[0] = in[0] + in[1] * 3; out[1] = in[0] / in[1]; out[2] = in[0] % in[1];
             out[3] = (in[0] << 3) ^ 5; out[4] = -in[0] >> 1; out[5] = ~in[0];
             out[6] = int(uchar(in[0] * 100)); out[7] = in[0] > in[1] ? 1 : 2;
             out[8] = short(40000); out[9] = int(2.9f); out[10] = 7u > -1 ? 1 : 0;",
            &[17, 5],
            11
        ),
        [32, 3, 2, 141, -9, -18, 1700 & 255, 1, 40000 - 65536, 2, 0]
    );
}

#[test]
fn loops_break_continue_switch() {
    assert_eq!(
        ints(
            "int classify(int x) { switch (x) { case 0: return 10; case 1: case 2: x += 5; case 3: x += 100; break; default: x = -1; } return x; }",
            "int s = 0;
             for (int i = 0; i < 10; i++) { if (i == 3) continue; if (i == 7) break; s += i; }
             out[0] = s;
             int n = 0; while (true) { n++; if (n >= 5) break; } out[1] = n;
             int m = 0; do { m += 2; if (m == 4) continue; } while (m < 7); out[2] = m;
             for (int i = 0; i < 6; ++i) out[3 + i] = classify(in[i]);
             int t = 0;
             for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) { if (j > i) break; t += 10 * i + j; }
             out[9] = t;",
            &[0, 1, 2, 3, 4, 9],
            10
        ),
        [18, 5, 8, 10, 106, 107, 103, -1, -1, 10 + 11 + 20 + 21 + 22]
    );
}

#[test]
fn functions_references_defaults_overloads() {
    assert_eq!(
        ints(
            "void bump(thread int &x, int by = 7) { x += by; }
             int f(int x) { return 1; } int f(float x) { return 2; } int f(uint x) { return 3; }
             int early(int x) { if (x < 0) return -1; for (int i = 0; i < 10; i++) { if (i * i > x) return i; } return 99; }
             thread int &choose(thread int &a) { return a; }
             struct S { int a, b; };
             S make(int a) { S s; s.a = a; s.b = a * 2; return s; }",
            "int v = 1; bump(v); out[0] = v; bump(v, 2); out[1] = v;
             out[2] = f(1) * 100 + f(1.0f) * 10 + f(1u);
             out[3] = early(-5); out[4] = early(20); out[5] = early(1000);
             choose(v) = 5; out[6] = v; S s = make(4); out[7] = s.a + s.b; out[8] = make(5).b;
             S t = {3}; out[9] = t.a * 10 + t.b;",
            &[0],
            10
        ),
        [8, 10, 123, -1, 5, 99, 5, 12, 10, 30]
    );
}

#[test]
fn vectors() {
    assert_eq!(
        floats(
            "",
            "float4 v = float4(in[0], in[1], in[2], in[3]);
             v.xy = v.yx; v.w += 10; out[0] = v.x; out[1] = v.y; out[2] = v.w;
             float2 lo = v.lo, hi = v.hi; out[3] = lo.x * hi.y;
             float3 u = v.zyx * 2; out[4] = u.x; u[1] = 9; out[5] = u.y;
             int i = int(in[0]); out[6] = v[i]; v[i] = 50; out[7] = v.x + v.y + v.z + v.w;
             bool4 c = v > 10.0f; out[8] = any(c) ? 1 : 0; out[9] = c.x ? 1 : 0;
             packed_float3 p = packed_float3(1, 2, 3); out[10] = p.z + sizeof(packed_float3) + sizeof(float3);
             half4 h = half4(1.5h); out[11] = float(h.x) + float4(h).y; float4 z(1); out[12] = z.w;
             out[13] = dot(float3(1, 2, 3), float3(4, 5, 6));",
            &[1.0, 2.0, 3.0, 4.0],
            14
        ),
        [
            2.0, 1.0, 14.0, 28.0, 6.0, 9.0, 1.0, 69.0, 1.0, 0.0, 31.0, 3.0, 1.0, 32.0
        ]
    );
}

#[test]
fn pointers_arrays_structs() {
    assert_eq!(
        ints(
            "struct Block { short d; uchar q[6]; }; struct Pair { int a; int2 b; };
             constant int table[4] = {10, 20, 30, 40};
             int sum(thread const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
             int total(constant int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }",
            "int a[5]; for (int i = 0; i < 5; i++) a[i] = in[i] * in[i];
             out[0] = sum(a, 5); out[1] = sum(a + 2, 2); out[2] = table[in[1]]; out[3] = total(table, 3);
             int x = 3; thread int *p = &x; *p += 4; out[4] = x;
             device const uchar *bytes = (device const uchar *)in; out[5] = bytes[4];
             out[6] = sizeof(Block) + 100 * sizeof(Pair) + 10000 * alignof(Pair);
             device int *end = out + 9; out[7] = end - out; end[0] = 77; *(end + 1) = 78; out[8] = end == nullptr ? 1 : 0;
             int m[2][3] = {{1, 2, 3}, {4, 5, 6}}; out[11] = m[in[0]][in[1]]; out[12] = sizeof(m) / sizeof(m[0]);
             const int c[] = {5, 6, 7}; out[13] = c[1] + c[in[1]];
             Pair q = {1, {2, 3}}; Pair r = q; r.b.y = 9; out[14] = q.b.y * 10 + r.b.y;",
            &[1, 2, 3, 4, 5],
            15
        ),
        [55, 25, 30, 60, 7, 2, 81608, 9, 0, 77, 78, 6, 2, 13, 39]
    );
}

#[test]
fn short_circuit_and_conditional() {
    assert_eq!(
        ints(
            "int calls(thread int &n) { n++; return 1; }",
            "int n = 0; if (in[0] > 100 && calls(n)) out[9] = 1; out[0] = n;
             if (in[0] < 100 || calls(n)) out[1] = n; bool b = in[0] == 1 && calls(n) && in[1] == 2; out[2] = b; out[3] = n;
             out[4] = in[0] ? calls(n) + 10 : 0; out[5] = n; out[6] = in[2] ? in[100] : 4;",
            &[1, 2, 0],
            10
        ),
        [0, 0, 1, 1, 11, 2, 4, 0, 0, 0]
    );
}

#[test]
fn templates() {
    assert_eq!(
        ints(
            "template <typename T, int N> struct Arr { T v[N]; T get(int i) const { return v[i]; } void set(int i, T x) { v[i] = x; } static constexpr constant int size = N; };
             template <typename T> T add(T a, T b) { return a + b; }
             template <int N> int times(int x) { return N * x; }
             template <typename T> struct Traits { static constexpr constant int id = 0; };
             template <> struct Traits<float> { static constexpr constant int id = 1; };
             template <typename T> struct Traits<device T *> { static constexpr constant int id = 2 + Traits<T>::id; };
             template <typename T, int N> int count(thread const T (&a)[N]) { return N; }
             template <typename T> int space(device const T *p) { return sizeof(T); }
             template <typename T> int space(thread const T *p) { return 100 + sizeof(T); }
             template <int N> constexpr int fact() { if constexpr (N <= 1) return 1; else return N * fact<N - 1>(); }
             constexpr int loop_sum(int n) { int s = 0; for (int i = 1; i <= n; i++) s += i; return s; }
             template <typename T, typename U = int> struct Two { using type = U; };
             template <typename... Ts> int many(Ts... xs) { return (0 + ... + xs); }
             template <typename T> using Alias = Arr<T, 3>;",
            "Arr<int, 4> a; for (int i = 0; i < a.size; i++) a.set(i, in[i]); out[0] = a.get(2) + Arr<int, 4>::size;
             out[1] = add(3, 4) + add<int>(1, 1); out[2] = times<6>(7);
             out[3] = Traits<int>::id * 100 + Traits<float>::id * 10 + Traits<device float *>::id;
             int b[7]; out[4] = count(b); short c[2]; out[5] = space(in) + space(c);
             out[6] = fact<5>(); int d[loop_sum(3)]; out[7] = sizeof(d) / 4;
             typename Two<float>::type t = 5; out[8] = t; out[9] = many(1, 2, 3, 4) + many(1);
             Alias<int> e; e.set(1, 42); out[10] = e.get(1); static_assert(fact<4>() == 24, \"fact\");",
            &[1, 2, 3, 4],
            11
        ),
        [7, 9, 42, 13, 7, 106, 120, 6, 5, 11, 42]
    );
}

#[test]
fn classes_operators_lambdas() {
    assert_eq!(
        ints(
            "struct V { int x, y; V operator+(V o) const { return {x + o.x, y + o.y}; } thread V &operator+=(int k) { x += k; y += k; return *this; } int operator[](int i) const { return i == 0 ? x : y; } bool operator==(V o) const { return x == o.x && y == o.y; } };
             V operator*(V a, int k) { return V{a.x * k, a.y * k}; }
             struct Base { int b; int twice() const { return 2 * b; } }; struct Derived : Base { int c; int all() const { return twice() + c; } };
             class Counter { int n; public: Counter(int start) : n(start) {} void up() { ++n; } int get() const { return n; } operator int() const { return n; } };
             struct Apply { template <typename F> static int run(F f, int x) { return f(x) + f(x + 1); } };
             enum class Mode : uchar { A = 3, B }; enum Flags { F1 = 1, F2 = 2, F4 = 4 };
             namespace ns { struct T { int v; }; int peek(T t) { return t.v; } namespace inner { constant int deep = 77; } }
             struct Op { static int apply(int a, int b) { return a - b; } };
             template <typename O> int reduce(device const int *p, int n) { int r = p[0]; for (int i = 1; i < n; i++) r = O::apply(r, p[i]); return r; }",
            "V a = {1, 2}, b = {3, 4}; V c = (a + b) * 2; out[0] = c.x * 100 + c.y; c += 5; out[1] = c[0] * 100 + c[1]; out[2] = a == V{1, 2};
             Derived d; d.b = 4; d.c = 1; out[3] = d.all(); Counter k(5); k.up(); k.up(); out[4] = k.get() + k;
             int total = 0; auto acc = [&](int x) { total += x; return x * 10; }; out[5] = acc(3) + acc(4); out[6] = total;
             out[7] = Apply::run([](int x) { return x * x; }, 3); auto gen = [&](auto x, auto y) { return x + y; }; out[8] = gen(1, 2) + int(gen(0.5f, 0.25f) * 4);
             Mode m = Mode::B; out[9] = int(m) + (F1 | F4) + (m == Mode::B); ns::T t{9}; out[10] = peek(t) + ns::inner::deep;
             out[11] = reduce<Op>(in, 3); int copy = 1; auto by = [=]() { return copy + 1; }; copy = 50; out[12] = by();
             auto fixed = [n = in[0] * 2]() { return n; }; out[13] = fixed();",
            &[10, 3, 2],
            14
        ),
        [812, 1317, 1, 9, 14, 70, 7, 25, 6, 10, 86, 5, 2, 20]
    );
}

#[test]
fn function_constants() {
    use anymetal_msl::{ConstantValue, FunctionConstantValues};
    let source = format!(
        "{HEAD}constant bool flag [[function_constant(0)]];
         constant int width [[function_constant(1)]];
         constant int real_width = is_function_constant_defined(width) ? width : 3;
         kernel void k(device int *out [[buffer(0)]], device const int *in [[buffer(1)]], device int *extra [[buffer(2), function_constant(flag)]]) {{
           out[0] = flag ? 1 : 2; out[1] = real_width; int a[4]; for (int i = 0; i < real_width; i++) a[i] = i; out[2] = a[1];
           if (flag) extra[0] = 1;
         }}"
    );
    let none = FunctionConstantValues::default();
    assert_eq!(run_ints_with(&source, &[0], 3, &none), [2, 3, 1]);
    let mut set = FunctionConstantValues::default();
    set.by_index.insert(1, ConstantValue::Int(2));
    assert_eq!(run_ints_with(&source, &[0], 3, &set), [2, 2, 1]);
}
