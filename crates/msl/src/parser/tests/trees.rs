//! What the parser makes of the ambiguous and unusual parts of the language.

use super::{body, decls};

#[test]
fn less_than_or_template() {
    assert_eq!(body("a < b; a < b > (c);"), "(a < b); ((a < b) > c);");
    assert_eq!(
        body("if (a < b && c > (d)) return;"),
        "if (((a < b) && (c > d))) return;"
    );
    assert_eq!(
        body("tf<T>(a); tf<(a < b)>(c); a < N - 1;"),
        "tf<T>(a); tf<(a < b)>(c); (a < (N - 1));"
    );
}

#[test]
fn members_with_and_without_the_keyword() {
    assert_eq!(
        body("s.get<3>(); s.template get<N>(); s.a < b; s.x < a, b > (c);"),
        "s.get<3>(); s.get<N>(); (s.a < b); ((s.x < a) , (b > c));"
    );
    assert_eq!(
        body("auto t = q.slice<16, 32>(0, a); q.unknown<T>(a); q.other < a;"),
        "let t: auto = q.slice<16, 32>(0, a); q.unknown<T>(a); (q.other < a);"
    );
    assert_eq!(
        body("op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();"),
        "op.get_destination_cooperative_tensor<type decltype(a), type decltype(b), type float>();"
    );
}

#[test]
fn closing_angles() {
    assert_eq!(
        body("tensor<device half, dextents<int, 2>> t; array<array<array<int, 2>, 2>, 2> x;"),
        "let t: tensor<type device half, dextents<type int, 2>>; \
         let x: array<array<array<type int, 2>, 2>, 2>;"
    );
    assert_eq!(
        body("vec<T, (a >> 1)> v; vec<T, (N > 2)> w; a >> b;"),
        "let v: vec<T, (a >> 1)>; let w: vec<T, (N > 2)>; (a >> b);"
    );
}

#[test]
fn casts_and_parentheses() {
    assert_eq!(
        body("a = (float)b; a = (T)b + (b) + c; a = (a) - b; a = (T)-b;"),
        "(a = cast<float>(b)); (a = ((cast<T>(b) + b) + c)); (a = (a - b)); (a = cast<T>((-b)));"
    );
    assert_eq!(
        body("p = (device const uchar *)q + 1; p = (device T *const thread *)q; (void)a;"),
        "(p = (cast<ptr<device const uchar>>(q) + 1)); (p = cast<ptr<thread const ptr<device T>>>(q)); cast<void>(a);"
    );
    assert_eq!(
        body("a = (a * b); a = (a & b) * c; a = (tf)(b);"),
        "(a = (a * b)); (a = ((a & b) * c)); (a = tf(b));"
    );
    assert_eq!(
        body("a = (float4){1, 2, 3, 4}.x; a = (half)tf<T>(b)[0];"),
        "(a = new float4 {1, 2, 3, 4}.x); (a = cast<half>(tf<T>(b)[0]));"
    );
    assert_eq!(
        body("a = static_cast<int>(b) > c; p = reinterpret_cast<const device T*>(&q[0]);"),
        "(a = (static_cast<int>(b) > c)); (p = reinterpret_cast<ptr<device const T>>((&q[0])));"
    );
}

#[test]
fn declarations_or_expressions() {
    assert_eq!(
        body("T *p = q; T &r = a; a * b; a & b; Q *u; Q v; N * a;"),
        "let p: ptr<T> = q; let r: ref<T> = a; (a * b); (a & b); let u: ptr<Q>; let v: Q; (N * a);"
    );
    assert_eq!(
        body("S s1(a, b); S s2(float4(a)); S s3{1}; S s4 = {.a = 1}; float x(2), *y = &x;"),
        "let s1: S(a, b); let s2: S(float4(a)); let s3: S{1}; let s4: S = {.a = 1}; let x: float(2), y: ptr<float> = (&x);"
    );
    assert_eq!(
        body("float(a); float4(a); typename T::type z; typename T::type(a); decltype(a) w = b; decltype(a)(b);"),
        "new float(a); float4(a); let z: T::type; new T::type(a); let w: decltype(a) = b; new decltype(a)(b);"
    );
    assert_eq!(
        body("T::f(a); T::template g<N>(a); metal::max(a, b); uint x = 1, y;"),
        "T::f(a); T::g<N>(a); metal::max(a, b); let x: uint = 1, y: uint;"
    );
    assert_eq!(
        body("float (*fp)(int, float) = g; threadgroup float (&r)[4][2] = q;"),
        "let fp: ptr<fn(_: int, _: float) -> float> = g; let r: ref<array<array<threadgroup float, 2>, 4>> = q;"
    );
}

#[test]
fn address_spaces_in_any_place() {
    assert_eq!(
        body("const device float *p; device const float *q; float device *r; float const device *const s = p;"),
        "let p: ptr<device const float>; let q: ptr<device const float>; let r: ptr<device float>; \
         let s: const ptr<device const float> = p;"
    );
    assert_eq!(
        body(
            "threadgroup float *thread *p; const thread auto &x = a; device coherent float *c; coherent(device) device int *d;"
        ),
        "let p: ptr<thread ptr<threadgroup float>>; let x: ref<thread const auto> = a; \
         let c: ptr<device coherent float>; let d: ptr<device coherent int>;"
    );
    assert_eq!(
        decls("struct A { int f() const device; int g() thread; A operator+(A o) const constant; };"),
        "Struct A { f() device const -> int; g() thread -> int; operator+(o: A) constant const -> A }"
    );
}

#[test]
fn subscripts_and_literals() {
    assert_eq!(
        body("t[a, b] = 0.5h; t[array<int, 2>{a, b}]; a = 0x1Fu + 0b11 + 1'000ul + 1.0bf + 'a';"),
        "(t[a, b] = 0.5h); t[new array<type int, 2> {a, b}]; (a = ((((31u + 3) + 1000ul) + 1.0bf) + '97'));"
    );
}

#[test]
fn statements() {
    assert_eq!(
        body("for (int i = 0, j = 1; i < N; ++i, j *= 2) continue; for (;;) { break; }"),
        "for (let i: int = 0, j: int = 1; (i < N); ((++i) , (j *= 2))) continue; for (; ; ) { break; }"
    );
    assert_eq!(
        body("if constexpr (N > 2) a = 1; else if (auto q = tf(a); q) { } while (a--) ; do { } while (b);"),
        "if constexpr ((N > 2)) (a = 1); else if (let q: auto = tf(a); q) {  } while ((a--)) ; do {  } while (b);"
    );
    assert_eq!(
        body("switch (a) { case 1: case N + 2: b = 1; break; default: return; } [[fallthrough]];"),
        "switch (a) { case 1: case (N + 2): (b = 1); break; default: return; } ;"
    );
    assert_eq!(
        body("a ? b = 1 : c = 2; a = b ? c : d ? 1 : 2; a += b -= c; a = b, c = d;"),
        "(a ? (b = 1) : (c = 2)); (a = (b ? c : (d ? 1 : 2))); (a += (b -= c)); ((a = b) , (c = d));"
    );
    assert_eq!(
        body(
            "using V = vec<T, 4>; typedef float F4 __attribute__((ext_vector_type(4))); V v; struct L { int q; } l; { V v; }"
        ),
        "let alias V = vec<T, 4>; let alias F4 = ::metal::vec<type float, 4>; let v: V; let Struct L { q: int }, l: L; { let v: V; }"
    );
}

#[test]
fn unroll_pragmas() {
    assert_eq!(
        body(
            "\n#pragma unroll\nfor (;;) ;\n#pragma clang loop unroll_count(2 * N)\nwhile (a) ;\n_Pragma(\"nounroll\") do ; while (a);\n"
        ),
        "unroll(Full) for (; ; ) ; unroll((2 * N)) while (a) ; unroll(Disable) do ; while (a);"
    );
    assert_eq!(
        body("\n#pragma METAL fp math_mode(safe)\na = b;"),
        "pragma MathSafe; (a = b);"
    );
}

#[test]
fn lambdas_and_packs() {
    assert_eq!(
        body("auto f = [&](auto i, thread auto& x) mutable -> float { return i; }; [=, &a, b] { }(); f([](int) { });"),
        "let f: auto = [&](i: auto, x: ref<thread auto>) -> float { return i; }; [=, &a, b]() {  }(); f([](_: int) {  });"
    );
    assert_eq!(
        decls(
            "template <typename... Ts, int... Ns> auto f(thread Ts&... ts) { g(ts...); (g(ts), ...); \
                      return (ts + ...) + (... && ts) + (0 + ... + Ns) + (Ns * ... * 1) + sizeof...(Ts); }"
        ),
        "template<type... Ts, int... Ns> f(ts: ref<thread Ts>...) -> auto { g(ts...); foldr(,, g(ts)); \
         return ((((foldr(+, ts) + foldl(&&, ts)) + foldl(+, Ns, 0)) + foldr(*, Ns, 1)) + sizeof...(Ts)); }"
    );
}

#[test]
fn templates() {
    assert_eq!(
        decls(
            "template <matmul2d_descriptor D, class S = float, template <class> class C, typename T::type V, auto W, class... R> struct X;"
        ),
        "template<matmul2d_descriptor D, type S = float, template C, T::type V, auto W, type... R> Struct X"
    );
    assert_eq!(
        decls("template <void (*fn)(device const uchar *, thread float4 &), bool B = (1 > 2)> void f();"),
        "template<ptr<fn(_: ptr<device const uchar>, _: ref<thread float4>) -> void> fn, bool B = (1 > 2)> f() -> void"
    );
    assert_eq!(
        decls(
            "template <class T> struct A { }; template <class T> struct A<device T *> { using type = T; }; template <> struct A<float> : B<int>, private C { };"
        ),
        "template<type T> Struct A {  }\ntemplate<type T> Struct A<type ptr<device T>> { alias type = T }\n\
         template<> Struct A<type float> : B<type int>, C {  }"
    );
    assert_eq!(
        decls("template <class T> constexpr constant T pi = T(3); template <> constexpr constant int pi<int> = 3;"),
        "template<type T> constexpr pi: constant T = T(3)\ntemplate<> constexpr pi<type int>: constant int = 3"
    );
    assert_eq!(
        decls(
            "template <class T> T f(T); template <> float f<float>(float x) { return x; } template <class T> auto g(T x) -> decltype(x + 1);"
        ),
        "template<type T> f(_: T) -> T\ntemplate<> f<type float>(x: float) -> float { return x; }\n\
         template<type T> g(x: T) -> decltype((x + 1))"
    );
}

#[test]
fn explicit_instantiations() {
    assert_eq!(
        decls(
            "template <class T> kernel void f(device T *p [[buffer(0)]]) { }\n\
                      template [[host_name(\"f_\" \"a\")]] kernel void f<float>(device float *);\n\
                      template [[host_name(\"f_b\")]] [[kernel]] decltype(f<half>) f<half>;\n\
                      typedef decltype(f<half>) f_t; template [[host_name(\"f_c\")]] kernel f_t f<int>;\n\
                      template struct A<float>;"
        ),
        "template<type T> kernel f(p: ptr<device T> [[buffer(0)]]) -> void {  }\n\
         instantiate [[host_name(\"f_a\")]] kernel f<type float>(_: ptr<device float>) -> void\n\
         instantiate [[host_name(\"f_b\")]] [[kernel]] kernel f<half> as decltype(f<half>)\n\
         alias f_t = decltype(f<half>)\ninstantiate [[host_name(\"f_c\")]] kernel f<type int> as f_t\n\
         instantiate record A<type float>"
    );
}

#[test]
fn records() {
    assert_eq!(
        decls(
            "class A { int x = 1; public: A(int a, float b = 2) : x(a), y{b} { use(x < y, later > 1); } A() = default; ~A() { } \
                      operator float() const { return y; } static constexpr constant int N = 4; float y; int later; int bits : 3; int operator[](int i) const; \
                      friend class B; struct I { int z; } inner; union { int u; float f; }; enum K { K0, K1 = N }; template <class T> void m(T); };"
        ),
        "Class A { x: int = 1; ctor A(a: int, b: float = 2) -> void :x(a) :y{b} { use((x < y), (later > 1)); }; ctor A() -> void = default; \
         dtor ~A() -> void {  }; conversion float operator T() const -> void { return y; }; static constexpr N: constant int = 4; y: float; \
         later: int; bits: int : 3; operator[](i: int) const -> int; Struct I { z: int }; inner: I; _: Union _ { u: int; f: float }; \
         enum K {K0, K1 = N}; template<type T> m(_: T) -> void }"
    );
    assert_eq!(
        decls(
            "template <class T> struct A { A(T); template <int N> int g(T); static int s; struct I { }; };\n\
                      template <class T> A<T>::A(T t) { } template <class T> template <int N> int A<T>::g(T t) { I i; return N; } template <class T> int A<T>::s = 1;"
        ),
        "template<type T> Struct A { ctor A(_: T) -> void; template<int N> g(_: T) -> int; static s: int; Struct I {  } }\n\
         template<type T> ctor A<T>::A(t: T) -> void {  }\n\
         template<type T> template<int N> A<T>::g(t: T) -> int { let i: I; return N; }\n\
         template<type T> A<T>::s: int = 1"
    );
}

#[test]
fn namespaces_and_aliases() {
    assert_eq!(
        decls(
            "namespace a::b { inline namespace c { struct X { }; } using c::X; } namespace d = a::b; using d::X; using namespace a; X x; namespace { int hidden; }"
        ),
        "namespace a { namespace b { inline namespace c { Struct X {  } }; using c::X } }\nnamespace d = a::b\nusing d::X\n\
         using namespace a\nx: X\nnamespace _ { hidden: int }"
    );
    assert_eq!(
        decls(
            "template <class T> using P = device T *; using Q = float[4]; typedef int I, *J; typedef void (F1)(int); typedef float F2(float x); typedef void (*F3)(); typedef struct { int a; } T1; constant int table[2][2] = {{1, 2}, {3}};"
        ),
        "template<type T> alias P = ptr<device T>\nalias Q = array<float, 4>\nalias I = int\nalias J = ptr<int>\n\
         alias F1 = fn(_: int) -> void\nalias F2 = fn(x: float) -> float\nalias F3 = ptr<fn() -> void>\nalias T1 = Struct _ { a: int }\n\
         table: array<array<constant int, 2>, 2> = {{1, 2}, {3}}"
    );
}

#[test]
fn attributes() {
    assert_eq!(
        decls(
            "[[kernel, max_total_threads_per_threadgroup(32 * 4)]] void f(threadgroup float *s [[threadgroup(0)]], \
                      uint3 i [[thread_position_in_grid]]) { } constant int c [[function_constant(0)]]; struct alignas(16) V { int a; };"
        ),
        "kernel f(s: ptr<threadgroup float> [[threadgroup(0)]], i: uint3 [[thread_position_in_grid]]) -> void {  }\n\
         c: constant int [[function_constant(0)]]\nStruct V { a: int }"
    );
}

#[test]
fn macros_in_odd_places() {
    assert_eq!(
        decls(
            "#define MEMBER(n) int n;\nstruct A { MEMBER(a) MEMBER(b) };\n#define DEF(T) template <> struct Tr<T> { };\ntemplate <class T> struct Tr; DEF(float) DEF(int)"
        ),
        "Struct A { a: int; b: int }\ntemplate<type T> Struct Tr\ntemplate<> Struct Tr<type float> {  }\ntemplate<> Struct Tr<type int> {  }"
    );
}
