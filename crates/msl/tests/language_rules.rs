//! Rules of the language that a plain reading gets wrong: constants without a value, copies of arrays, address spaces of
//! member functions, `volatile`.

mod common;

use anymetal_msl::{CompileOptions, ConstantValue, Diagnostic, FunctionConstantValues, Library, Specialization};
use common::{errors, lower, run_ints, run_ints_with};

const HEAD: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

/// The names of the function constants that a pipeline lacks, one error each; empty if it can be made.
fn lacking(source: &str, values: &FunctionConstantValues) -> Vec<String> {
    let library = Library::compile(source, "test.metal", &CompileOptions::default()).expect("the source compiles");
    // Checking takes whatever is missing for zero.
    library.specialize("k", values).expect("it lowers without values");
    let how = Specialization {
        complete: true,
        ..library.specialization()
    };
    let Err(refused) = library.specialize_with("k", values, &how) else {
        return Vec::new();
    };
    let named = |d: &Diagnostic| d.message.split('\'').nth(1).unwrap_or_default().to_string();
    assert!(refused.list.iter().all(|d| d.code == "E0775"), "{}", refused.render());
    refused.list.iter().map(named).collect()
}

fn values(list: &[(u32, i64)]) -> FunctionConstantValues {
    let mut values = FunctionConstantValues::default();
    values
        .by_index
        .extend(list.iter().map(|&(i, v)| (i, ConstantValue::Int(v))));
    values
}

#[test]
fn a_pipeline_needs_the_function_constants_that_it_reads() {
    let source = format!(
        "{HEAD}constant int plain [[function_constant(3)]]; constant int guarded [[function_constant(4)]];
constant bool has_more [[function_constant(5)]]; constant int twice = plain * 2; constant int unused [[function_constant(6)]];
constant int chosen = is_function_constant_defined(guarded) ? guarded : 70;
kernel void k(device int *o [[buffer(0)]], device const int *more [[buffer(1), function_constant(has_more)]]) {{
  o[0] = twice; o[1] = chosen;
  if (is_function_constant_defined(guarded)) {{ o[1] += guarded; }}
  if (is_function_constant_defined(guarded) && guarded > 2) {{ o[0] += 1; }}
}}"
    );
    assert_eq!(run_ints_with(&source, &[], 2, &values(&[(3, 5), (5, 0)])), [10, 70]);
    assert_eq!(run_ints_with(&source, &[], 2, &values(&[(3, 5), (4, 3)])), [11, 6]);
    assert_eq!(lacking(&source, &values(&[(3, 5), (5, 0)])), Vec::<String>::new());
    assert_eq!(lacking(&source, &values(&[(4, 1)])), ["has_more", "plain"]);
}

#[test]
fn code_that_other_constants_remove_needs_no_function_constant() {
    let source = format!(
        "{HEAD}constant bool on [[function_constant(0)]]; constant int deep [[function_constant(1)]];
constant int mode [[function_constant(2)]]; constant int from_deep = deep + 1;
int read() {{ return from_deep; }}
template <typename T> T chosen(T x) {{ if (on) return x + read(); return x; }}
kernel void k(device int *o, device const int *in) {{
  if (on) {{ o[0] = deep; }} else o[0] = 1;
  o[1] = on ? read() : 2;
  if (on && deep > 1) o[1] = 3;
  switch (mode) {{ case 1: o[2] = deep; break; case 2: o[2] = chosen(int(in[0])); break; default: o[2] = 4; }}
  o[3] = sizeof(decltype(deep));
  if (mode == 2) return;
  o[3] = deep;
}}"
    );
    let nothing = Vec::<String>::new();
    assert_eq!(lacking(&source, &values(&[(0, 0), (2, 2)])), nothing);
    assert_eq!(
        run_ints_with(&source, &[9], 4, &values(&[(0, 0), (2, 2)])),
        [1, 2, 9, 4]
    );
    // Dead code that came first does not hide what live code reads through the same declaration.
    assert_eq!(lacking(&source, &values(&[(0, 0), (2, 1)])), ["deep"]);
    assert_eq!(lacking(&source, &values(&[(0, 1), (2, 2)])), ["deep"]);
    assert_eq!(lacking(&source, &values(&[(1, 4)])), ["on", "mode"]);
    assert_eq!(lacking(&source, &values(&[(0, 1), (1, 4), (2, 0)])), nothing);
}

#[test]
fn arrays_are_copied() {
    let source = format!(
        "{HEAD}struct P {{ array<int, 3> v; int n; }};
template <typename T> int changed(T x) {{ x[0] = 50; return x[0]; }}
kernel void k(device int *o, device const int *in) {{
  array<int, 3> a = {{1, 2, 3}};
  auto b = a; b[0] = 9; a[1] = 7;
  o[0] = a[0]; o[1] = b[0]; o[2] = b[1];
  P p; p.v = a; p.n = 1; auto r = p.v; r[0] = 4; o[3] = p.v[0]; o[4] = r[0];
  o[5] = changed(a); o[6] = a[0];
  auto f = [c = a]() mutable {{ c[0] = 60; return c[0]; }}; o[7] = f(); o[8] = a[0];
  auto z = a; z[in[0]] = 12; o[9] = a[2]; o[10] = z[2];
  const array<int, 3> fixed = {{1, 2, 3}}; auto free = fixed; free[0] = 4; o[11] = fixed[0] * 10 + free[0];
  auto &same = a; same[0] = 77; o[12] = a[0];
  int plain[2] = {{1, 2}}; auto first = plain; first[0] = 5; o[13] = plain[0];
}}"
    );
    assert_eq!(
        run_ints(&source, &[2], 14),
        [1, 9, 2, 1, 4, 50, 1, 60, 1, 3, 12, 14, 77, 5]
    );
}

#[test]
fn member_functions_have_the_address_space_of_their_object() {
    let object = |qualifier: &str| {
        format!(
            "{HEAD}struct S {{ int a; int get() const {qualifier} {{ return a; }} }};
kernel void k(device int *o [[buffer(0)]], device S *s [[buffer(1)]]) {{ o[0] = s->get(); }}"
        )
    };
    lower(&object("device"), "k");
    for wrong in ["", "thread", "threadgroup", "constant"] {
        let text = errors(&object(wrong));
        assert!(
            text.contains("E0482") && text.contains("cannot be called on an object of the type 'device S'"),
            "'{wrong}': {text}"
        );
    }
    let both = format!(
        "{HEAD}struct S {{ int a; int get() const {{ return a; }} int get() const device {{ return a + 100; }} }};
kernel void k(device int *o, device const int *in) {{
  S s = {{in[0]}}; o[0] = s.get(); device const S *p = (device const S *)in; o[1] = p->get(); S t = *p; o[2] = t.get();
}}"
    );
    assert_eq!(run_ints(&both, &[5], 3), [5, 105, 5]);
}

#[test]
fn volatile_is_accepted() {
    let source = format!(
        "{HEAD}struct S {{ volatile int a; int get() volatile {{ return a; }} int more() const volatile {{ return a + 1; }} }};
typedef volatile int vint;
int read(volatile device const int *p) {{ return *p; }}
template <typename T> T through(const volatile device T &p) {{ return p; }}
int doubled(volatile int x) {{ return x * 2; }}
kernel void k(volatile device int *o, device const volatile int *in) {{
  volatile int x = 1; int volatile y = 2; volatile const int z = 3; vint w = 4;
  x += y; x++; x = x * 2 + w;
  for (volatile int i = 0; i < 3; ++i) x += i;
  volatile S s; s.a = 5; volatile int list[2] = {{6, 7}}; list[1] = x;
  const device int *volatile p = (const device int *)in;
  thread volatile int *q = &y; *q = 8; volatile int &r = y; r += 1;
  o[0] = x; o[1] = y + z; o[2] = s.get() + s.more(); o[3] = list[0] + list[1]; o[4] = read(in) + through(in[1]); o[5] = doubled(w) + p[1];
  volatile auto u = x; o[6] = max(u, 3) + (volatile int)z + static_cast<volatile int>(w);
}}"
    );
    assert_eq!(run_ints(&source, &[20, 30], 7), [15, 12, 11, 21, 50, 38, 22]);
}

#[test]
fn braces_of_arrays_and_aggregates() {
    let source = format!(
        "{HEAD}struct P {{ array<int, 3> v; int n; }}; struct Q {{ int a[2]; int b; }}; struct R {{ Q q; P p; }};
kernel void k(device int *o, device const int *in) {{
  array<int, 3> a = {{{{1, 2, 3}}}}, b = {{{{4, 5}}}}, c{{{{6}}}};
  o[0] = a[0] * 100 + a[1] * 10 + a[2]; o[1] = b[0] * 100 + b[1] * 10 + b[2]; o[2] = c[0] * 100 + c[1] * 10 + c[2];
  auto d = array<int, 2>{{{{7, in[0]}}}}; o[3] = d[0] * 10 + d[1];
  P p = {{{{{{1, 2, 3}}}}, 4}}, q = {{{{1, 2, 3}}, 4}}, r = {{1, 2, 3, 4}};
  o[4] = p.v[2] * 10 + p.n; o[5] = q.v[2] * 10 + q.n; o[6] = r.v[2] * 10 + r.n;
  array<array<int, 2>, 2> m = {{{{{{1, 2}}, {{3, 4}}}}}}, n = {{1, 2, 3, 4}}, l = {{{{1, 2, 3, 4}}}}, e = {{{{1, 2}}, {{3, 4}}}};
  o[7] = m[1][0] * 10 + m[1][1]; o[8] = n[1][0] * 10 + n[1][1]; o[9] = l[1][0] * 10 + l[1][1]; o[10] = e[1][0] * 10 + e[1][1];
  R x = {{1, 2, 3, 4, 5, 6, 7}}, y = {{{{{{1, 2}}, 3}}, {{{{{{4, 5, 6}}}}, 7}}}};
  o[11] = x.q.a[1] * 100 + x.p.v[0] * 10 + x.p.n; o[12] = y.q.a[1] * 100 + y.p.v[0] * 10 + y.p.n;
  array<float2, 2> f = {{{{float2(1, 2), float2(3, 4)}}}}, g = {{{{1, 2}}, {{3, 4}}}};
  o[13] = int(f[1].x) * 10 + int(f[1].y); o[14] = int(g[1].x) * 10 + int(g[1].y);
  array<Q, 2> h = {{{{{{{{1, 2}}, 3}}, {{{{4, 5}}, 6}}}}}}; o[15] = h[1].a[1] * 10 + h[1].b;
}}"
    );
    let expected = [123, 450, 600, 79, 34, 34, 34, 34, 34, 34, 34, 247, 247, 34, 34, 56];
    assert_eq!(run_ints(&source, &[9], 16), expected);
    for (list, message) in [
        ("array<int, 3> a = {{1, 2, 3, 4}};", "too many initialisers for"),
        ("array<int, 3> a = {{1, 2}, 3};", "too many initialisers for 'int'"),
        ("int a[3] = {{1, 2, 3}};", "too many initialisers for 'int'"),
    ] {
        let text = errors(&format!("{HEAD}kernel void k(device int *o) {{ {list} o[0] = a[0]; }}"));
        assert!(text.contains("E0470") && text.contains(message), "{list}: {text}");
    }
}

/// The codes of the errors of a kernel with these declarations and this body.
fn refused(declarations: &str, body: &str) -> String {
    errors(&format!(
        "{HEAD}{declarations}\nkernel void k(device int *o, device const int *in) {{ {body} }}"
    ))
}

#[test]
fn overloads_follow_the_rules_of_cpp() {
    let source = format!(
        "{HEAD}int f(int, float) {{ return 1; }} int f(int, int) {{ return 2; }} int f(float, float) {{ return 3; }}
int g(float) {{ return 1; }} int g(half) {{ return 2; }} template <typename T> int g(T) {{ return 3; }}
template <typename T> int h(T) {{ return 1; }} template <typename T> int h(const device T *) {{ return 2; }}
template <typename T> int h(device T *) {{ return 3; }} template <typename T, int N> int h(vec<T, N>) {{ return 4; }}
template <typename T> int h(vec<T, 4>) {{ return 5; }} int h(float4) {{ return 6; }}
template <typename T, typename U> int p(T, U) {{ return 1; }} template <typename T> int p(T, T) {{ return 2; }}
template <typename T> int p(T, int) {{ return 3; }}
template <typename... A> int v(A...) {{ return 1; }} template <typename T, typename... A> int v(T, A...) {{ return 2; }}
template <typename T> int v(T) {{ return 3; }}
int r(thread int &) {{ return 1; }} int r(const thread int &) {{ return 2; }}
template <typename T> struct Box {{ T x; }}; template <typename T> int b(Box<T>) {{ return 1; }} template <typename T> int b(T) {{ return 2; }}
int later(uint x); int later(unsigned int x) {{ return x; }} template <typename T> int late(T x); template <typename U> int late(U x) {{ return x; }}
struct N {{ int x; N(int x) : x(x) {{}} int operator+(N o) const thread {{ return 1; }} }}; int operator+(N a, float b) {{ return 2; }}
kernel void k(device int *o, device const int *in) {{
  int i = in[0]; const int c = 3; short s = 4;
  o[0] = f(i, 1.0f); o[1] = f(s, s); o[2] = f(1.0f, 1.0f); o[3] = g(1.0h); o[4] = g(i); o[5] = g(1.0f);
  o[6] = h(i); o[7] = h(in); o[8] = h(o); o[9] = h(int2(1)); o[10] = h(half4(1)); o[11] = h(float4(1));
  o[12] = p(i, 1.0f); o[13] = p(1.0f, 1.0f); o[14] = p(1.0f, 1); o[15] = v(); o[16] = v(i); o[17] = v(i, i);
  o[18] = r(i); o[19] = r(c); o[20] = b(Box<int>{{1}}); o[21] = b(i); o[22] = later(i) + late(i);
  N n(1); o[23] = (n + n) * 10 + (n + 1.0f);
}}"
    );
    let expected = [1, 2, 3, 2, 3, 1, 1, 2, 3, 4, 5, 6, 1, 2, 3, 1, 3, 2, 1, 2, 1, 2, 10, 12];
    assert_eq!(run_ints(&source, &[5], 24), expected);
}

#[test]
fn ambiguous_calls_are_refused() {
    for (declarations, body) in [
        (
            "int f(int, float) { return 1; } int f(float, int) { return 2; }",
            "o[0] = f(1, 1);",
        ),
        ("int f(float) { return 1; } int f(half) { return 2; }", "o[0] = f(1);"),
        (
            "int f(int) { return 1; } int f(int, int = 0) { return 2; }",
            "o[0] = f(1);",
        ),
        (
            "int f(int x) { return 1; } int f(const thread int &x) { return 2; }",
            "o[0] = f(1);",
        ),
        (
            "template <typename T> int f(T, device int *) { return 1; } template <typename T> int f(device int *, T) { return 2; }",
            "o[0] = f(o, o);",
        ),
        (
            "template <typename T, typename U> int f(device T *, U) { return 1; } template <typename T, typename U> int f(T, device U *) { return 2; }",
            "o[0] = f(o, o);",
        ),
        (
            "struct A { int x; A(int x) : x(x) {} }; struct B { int x; B(int x) : x(x) {} }; int f(A a) { return 1; } int f(B b) { return 2; }",
            "o[0] = f(in[0]);",
        ),
        (
            "struct A { int x; }; int operator+(A a, float b) { return 1; } int operator+(A a, half b) { return 2; }",
            "o[0] = A{1} + 1;",
        ),
    ] {
        let text = refused(declarations, body);
        assert!(
            text.contains("error[E0493]") && text.contains("is ambiguous: 2 functions take them"),
            "{body}: {text}"
        );
        assert_eq!(text.matches("candidate").count(), 2, "{text}");
    }
}

#[test]
fn a_member_function_of_another_address_space_names_the_qualifier() {
    let object = "struct S { int a; int get() const { return a; } int operator+(int b) const { return a + b; } thread S &operator=(int b) { a = b; return *this; } };";
    for (body, help) in [
        (
            "device const S *s = (device const S *)in; o[0] = s->get();",
            "write 'const device' after the parameters of 'get'",
        ),
        (
            "threadgroup S s; s.a = 1; o[0] = s.get();",
            "write 'const threadgroup' after the parameters of 'get'",
        ),
        (
            "device const S *s = (device const S *)in; o[0] = *s + 1;",
            "write 'const device' after the parameters of 'operator+'",
        ),
        (
            "device S *s = (device S *)o; *s = 1;",
            "write 'device' after the parameters of 'operator='",
        ),
    ] {
        let text = refused(object, body);
        assert!(text.contains("error[E0482]") && text.contains(help), "{body}: {text}");
        assert!(
            text.contains("which is what a function without an address space takes"),
            "{text}"
        );
    }
    // Constants that are known hold no place in memory, copies are in `thread` memory.
    let source = format!(
        "{HEAD}{object}\nconstant S fixed = {{4}}; constexpr constant S known = {{5}};
kernel void k(device int *o, device const int *in) {{
  S s = *(device const S *)in; s = 7; o[0] = s.get() + 1; o[1] = fixed.get(); o[2] = known.get() + S(*(device const S *)in).get();
}}"
    );
    assert_eq!(run_ints(&source, &[30], 3), [8, 4, 35]);
}

#[test]
fn threadgroup_variables_are_counted() {
    let source = |first: u32, second: u32| {
        format!(
            "{HEAD}template <int N> float part(uint i) {{ threadgroup float t[N]; t[i] = i; return t[i + 1]; }}
kernel void k(device float *o, uint i [[thread_position_in_threadgroup]]) {{
  threadgroup float a[{first}]; a[i] = 1; if (is_same_v<int, float>) {{ threadgroup float dead[8000]; dead[i] = 1; }}
  o[0] = a[1] + part<{second}>(i) + part<{second}>(i + 1);
}}"
        )
    };
    let warnings = |source: &str| {
        let library = Library::compile(source, "test.metal", &CompileOptions::default()).expect("the source compiles");
        library.warnings().render()
    };
    assert_eq!(warnings(&source(4096, 4096)), "");
    let text = warnings(&source(4096, 4097));
    assert!(
        text.contains("W0405") && text.contains("'t' takes 16388 bytes"),
        "{text}"
    );
    assert!(text.contains("take 16384: a threadgroup has 32768"), "{text}");
    let text = errors(&source(65537, 1));
    assert!(
        text.contains("E0495") && text.contains("'a' takes 262148 bytes"),
        "{text}"
    );
}

#[test]
fn arrays_that_no_memory_holds_are_refused() {
    for (declaration, code) in [
        ("constant int g[3][] = {{0, 1}, {2, 3}, {4, 5}};", "E0458"),
        ("typedef int A[]; constant A g[2] = {{1}, {2}};", "E0458"),
        ("constant int g[3000000000] = {1};", "E0495"),
        ("constant int g[2][3000000000] = {{1}, {2}};", "E0495"),
    ] {
        let text = errors(&format!(
            "{declaration}\nkernel void k(device int* y [[buffer(0)]]) {{ auto x = g[1]; y[0] = 1; }}"
        ));
        assert!(text.contains(code), "{declaration}: {text}");
    }
}

#[test]
fn a_constexpr_pointer_into_a_constant_array_is_followed_at_run_time() {
    let source = format!(
        "{HEAD}constant int table[4] = {{ 3, 5, 7, 11 }};
int find(int i) {{ constexpr constant int *p = table; return p[i]; }}
kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {{
  constexpr constant int *middle = table + 1;
  static constexpr constant int *last = &table[3];
  o[0] = find(in[0]); o[1] = middle[in[0]]; o[2] = *last; o[3] = middle[-1];
}}"
    );
    assert_eq!(run_ints(&source, &[2], 4), [7, 11, 11, 3]);
}

#[test]
fn thread_beside_another_address_space_says_nothing() {
    let source = format!(
        "{HEAD}kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {{
  thread const device int *rows[2];
  device thread int *out[1] = {{ o }};
  for (int r = 0; r < 2; ++r) {{ rows[r] = in + r; }}
  out[0][0] = rows[1][0] * 10 + rows[0][0];
}}"
    );
    assert_eq!(run_ints(&source, &[4, 9], 1), [94]);
    let refused = errors(&format!("{HEAD}void f(device thread threadgroup int *p) {{}}"));
    assert!(
        refused.contains("'device' and 'threadgroup' exclude each other"),
        "{refused}"
    );
}

#[test]
fn names_that_sources_take_from_inside_of_the_headers() {
    let source = format!(
        "{HEAD}constant int columns = 8;
float never(float x) {{ return __metal_simd_xor(x); }}
kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {{
  threadgroup _atomic<uint> sum[2];
  assert(columns % 4 == 0);
  o[0] = __metal_get_simdgroup_size(ushort());
}}"
    );
    lower(&source, "k");
    let own = format!(
        "{HEAD}int assert(int x) {{ return x + 1; }}
kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {{ o[0] = assert(in[0]); }}"
    );
    assert_eq!(run_ints(&own, &[4], 1), [5]);
}

#[test]
fn an_address_inside_of_a_constant_reaches_what_lies_beside() {
    let source = format!(
        "{HEAD}constant int table[4] = {{ 3, 5, 7, 11 }};
struct S {{ int a; int b[3]; }};
constant S list[2] = {{ {{ 1, {{ 2, 3, 4 }} }}, {{ 5, {{ 6, 7, 8 }} }} }};
constant int one = 1;
struct T {{ static constant int held[2]; }};
constant int T::held[2] = {{ 20, 21 }};
int at(constant int *p, int i) {{ return p[i]; }}
kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {{
  constant int *p = &table[1];
  constant S *s = &list[1];
  constant int *b = &(list[0].b)[1];
  o[0] = p[in[0]]; o[1] = at(&table[2], -in[0]);
  o[2] = s->b[in[0]]; o[3] = s[-in[0]].b[2];
  o[4] = b[in[0]]; o[5] = at(&one, 0);
  o[6] = at(&T::held[0], in[0]); o[7] = *&table[3];
}}"
    );
    assert_eq!(run_ints(&source, &[1], 8), [7, 5, 7, 4, 4, 1, 21, 11]);
    let local = format!(
        "{HEAD}int at(const thread int *p) {{ return *p; }}
kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {{
  constexpr int three = 3; const int n = in[0];
  o[0] = at(&three) + at(&n);
}}"
    );
    assert_eq!(run_ints(&local, &[4], 1), [7]);
}

#[test]
fn functions_are_found_in_the_namespaces_of_their_arguments() {
    let source = "#include <metal_stdlib>
namespace n {
struct V { int x; };
enum class E { A = 4 };
int f(V v) { return v.x; }
int first(const thread V *v) { return v->x; }
int number(E e) { return int(e); }
}
kernel void k(device int *o [[buffer(0)]], device const int *in [[buffer(1)]]) {
  n::V v{in[0]};
  o[0] = f(v); o[1] = first(&v); o[2] = number(n::E::A);
}
kernel void library(device metal::atomic_uint *count [[buffer(0)]], device float *x [[buffer(1)]]) {
  metal::simdgroup_float8x8 a, b;
  simdgroup_load(a, x, 8);
  simdgroup_multiply(b, a, a);
  threadgroup_barrier(metal::mem_flags::mem_device);
  simdgroup_store(b, x, 8);
  atomic_fetch_max_explicit(count, 3u, metal::memory_order_relaxed);
}";
    assert_eq!(run_ints(source, &[9], 3), [9, 9, 4]);
    lower(source, "library");
    let refused =
        errors("#include <metal_stdlib>\nkernel void k(device float *x [[buffer(0)]]) { x[0] = exp2(x[0]); }");
    assert!(refused.contains("write 'metal::exp2'"), "{refused}");
}
