//! The text of errors, word for word.

mod common;

use common::errors;

const HEAD: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

fn check(source: &str, expected: &str) {
    let got = errors(&format!("{HEAD}{source}"));
    let got: Vec<&str> = got.lines().map(str::trim_end).collect();
    let expected: Vec<&str> = expected.trim_start_matches('\n').lines().map(str::trim_end).collect();
    assert_eq!(got, expected, "\n{}", got.join("\n"));
}

#[test]
fn unknown_name() {
    let got = errors("kernel void k(device float *x [[buffer(0)]]) { x[0] = max(x[1], x[2]); }");
    assert_eq!(
        got,
        "\
error[E0433]: unknown name 'max'
 --> test.metal:1:55
  |
1 | kernel void k(device float *x [[buffer(0)]]) { x[0] = max(x[1], x[2]); }
  |                                                       ^^^
  = help: write 'metal::max' or add 'using namespace metal;'
"
    );
}

#[test]
fn spaces_do_not_mix() {
    check(
        "kernel void k(device float *x [[buffer(0)]], constant float *c [[buffer(1)]]) { device float *p = c; }",
        "
error[E0464]: a pointer into 'constant' memory cannot become a pointer into 'device' memory
 --> test.metal:3:99
  |
3 | kernel void k(device float *x [[buffer(0)]], constant float *c [[buffer(1)]]) { device float *p = c; }
  |                                                                                                   ^
  = help: address spaces are disjoint: pass the pointer with its own space
",
    );
}

#[test]
fn recursion() {
    check(
        "int f(int n) { return n < 2 ? 1 : n * f(n - 1); }
kernel void k(device int *x [[buffer(0)]]) { x[0] = f(x[1]); }",
        "
error[E0486]: 'f' calls itself: recursion is not supported in Metal
 --> test.metal:3:39
  |
3 | int f(int n) { return n < 2 ? 1 : n * f(n - 1); }
  |                                       ^^^^^^^^
  = note: in instantiation of 'f' requested at test.metal:4:53
",
    );
}

#[test]
fn static_assert_in_an_instance() {
    check(
        "template <int N> struct S { static_assert(N > 2, \"too few\"); int v; };
template <int N> int g() { S<N> s; return s.v; }
kernel void k(device int *x [[buffer(0)]]) { x[0] = g<1>(); }",
        "
error[E0553]: static assertion failed: too few
 --> test.metal:3:43
  |
3 | template <int N> struct S { static_assert(N > 2, \"too few\"); int v; };
  |                                           ^^^^^
  = note: in instantiation of 'S<1>' requested at test.metal:4:28
  = note: in instantiation of 'g<1>' requested at test.metal:5:53
",
    );
}

#[test]
fn no_overload() {
    check(
        "int area(int w, int h) { return w * h; }
kernel void k(device int *x [[buffer(0)]]) { x[0] = area(1); x[1] = area(x, 2); }",
        "
error[E0482]: no 'area' takes the arguments (int)
 --> test.metal:4:53
  |
3 | int area(int w, int h) { return w * h; }
  | ---------------------- declared here
4 | kernel void k(device int *x [[buffer(0)]]) { x[0] = area(1); x[1] = area(x, 2); }
  |                                                     ^^^^^^^
  = note: it takes 2 arguments, not 1

error[E0482]: no 'area' takes the arguments (device int *, int)
 --> test.metal:4:69
  |
3 | int area(int w, int h) { return w * h; }
  | ---------------------- declared here
4 | kernel void k(device int *x [[buffer(0)]]) { x[0] = area(1); x[1] = area(x, 2); }
  |                                                                     ^^^^^^^^^^
  = note: argument 1 does not convert to 'int'
",
    );
}

#[test]
fn writing_what_is_constant() {
    check(
        "kernel void k(device int *x [[buffer(0)]], constant int &c [[buffer(1)]]) { const int n = x[0]; n = 1; c = 2; }",
        "
error[E0534]: this object is 'const' and cannot be written
 --> test.metal:3:97
  |
3 | kernel void k(device int *x [[buffer(0)]], constant int &c [[buffer(1)]]) { const int n = x[0]; n = 1; c = 2; }
  |                                                                                                 ^^^^^

error[E0533]: 'constant' memory cannot be written
 --> test.metal:3:104
  |
3 | kernel void k(device int *x [[buffer(0)]], constant int &c [[buffer(1)]]) { const int n = x[0]; n = 1; c = 2; }
  |                                                                                                        ^^^^^
",
    );
}

#[test]
fn vectors_of_different_types() {
    check(
        "kernel void k(device float4 *x [[buffer(0)]]) { half4 h = half4(1); x[0] = x[1] * h; }",
        "
error[E0531]: '*' is not defined for 'float4' and 'half4'
 --> test.metal:3:76
  |
3 | kernel void k(device float4 *x [[buffer(0)]]) { half4 h = half4(1); x[0] = x[1] * h; }
  |                                                                            ^^^^^^^^
  = note: vectors of different component types do not mix
  = help: convert one: 'float4(…)'
",
    );
}

#[test]
fn not_a_constant() {
    check(
        "kernel void k(device int *x [[buffer(0)]]) { int n = x[0]; int a[n]; }",
        "
error[E0420]: this is not a constant expression: its value is known at run time only
 --> test.metal:3:66
  |
3 | kernel void k(device int *x [[buffer(0)]]) { int n = x[0]; int a[n]; }
  |                                                                  ^
",
    );
}

#[test]
fn kernel_arguments() {
    check(
        "kernel void k(float x, device int *a [[buffer(0)]], device int *b [[buffer(0)]]) {}",
        "
error[E0766]: 'buffer(0)' is used twice
 --> test.metal:3:69
  |
3 | kernel void k(float x, device int *a [[buffer(0)]], device int *b [[buffer(0)]]) {}
  |                                                                     ^^^^^^^^^
",
    );
    check(
        "kernel void k(float x, int *a [[buffer(0)]], float i [[thread_position_in_grid]]) {}",
        "
error[E0772]: a 'float' cannot be passed to a kernel by value
 --> test.metal:3:15
  |
3 | kernel void k(float x, int *a [[buffer(0)]], float i [[thread_position_in_grid]]) {}
  |               ^^^^^^^
  = help: pass it as 'constant T &', or give the parameter a built-in attribute

error[E0770]: the pointer argument 'a' needs an address space
 --> test.metal:3:24
  |
3 | kernel void k(float x, int *a [[buffer(0)]], float i [[thread_position_in_grid]]) {}
  |                        ^^^^^^^^^^^^^^^^^^^^
  = help: write 'device', 'constant' or 'threadgroup' before its type

error[E0774]: 'thread_position_in_grid' cannot be a 'float'
 --> test.metal:3:46
  |
3 | kernel void k(float x, int *a [[buffer(0)]], float i [[thread_position_in_grid]]) {}
  |                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: use 'uint', 'uint2', 'uint3' or their 'ushort' forms
",
    );
}
