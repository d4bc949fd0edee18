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
    assert_eq!(run_ints_with(&source, &[9], 4, &values(&[(0, 0), (2, 2)])), [1, 2, 9, 4]);
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
fn member_functions_have_address_spaces() {
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
            text.contains("E0482") && text.contains("address space"),
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
