//! Each rule of the verifier: the smallest kernel that breaks it, and the message.

use anymetal_ir::{parse, verify};

const HEAD: &str = r#"kernel "k" {
  argument arg0 "a" buffer 0 device "float" size 4 align 4 element 4 access read_write
  argument arg1 "t" tensor 1 {f16 device i32 [?, 64]} access read
  argument arg2 "c" buffer 2 constant "float" size 4 align 4 element 4 access read
  local $0 "x" i32
  cooperative coop0 "c" destination f32 rows 16 columns 32 simdgroups 1 layout R matmul {16 32 16}
  cooperative coop1 "r" row_reduction f32 rows 16 columns 1 simdgroups 1 layout R matmul {16 32 16}
  cooperative coop2 "l" left f32 rows 16 columns 16 simdgroups 1 layout R matmul {16 32 16}
  cooperative coop3 "h" destination f16 rows 16 columns 32 simdgroups 4 layout R matmul {16 32 16}
  file 1 "a.metal"
  loc !1 1 7 3
  body {
    %0: i32 = const i32 1
    %1: f32 = const f32 1.0
    %2: bool = const bool true
    %3: ptr<device> = argument arg0
    %4: i64 = const i64 4
    %5: u64 = handle arg1
    %6: ptr<constant> = argument arg2
"#;

fn check(body: &str) -> Result<(), String> {
    let text = format!("{HEAD}{body}\n  }}\n}}\n");
    let kernel = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&kernel).map_err(|error| error.to_string())
}

#[track_caller]
fn wrong(body: &str, expected: &str) {
    assert_eq!(check(body), Err(expected.to_string()), "{body}");
}

#[track_caller]
fn right(body: &str) {
    assert_eq!(check(body), Ok(()), "{body}");
}

#[test]
fn values() {
    wrong(
        "if %2 { %9: i32 = add %0, %0 }\n%10: i32 = neg %9 !1",
        "a.metal:7:3: `%10: i32 = neg %9 !1`: %9 is used where it is not visible",
    );
    wrong(
        "loop { %9: i32 = add %0, %0 break 0 } latch { %10: i32 = neg %9 }",
        "<unknown>:0:0: `%10: i32 = neg %9`: %9 is used where it is not visible",
    );
    right("%9: i32 = add %0, %0 if %2 { loop { %10: i32 = neg %9 break 0 } }");
}

#[test]
fn types() {
    wrong(
        "%9: i32 = add %0, %1",
        "<unknown>:0:0: `%9: i32 = add %0, %1`: %1 has type f32, expected i32",
    );
    wrong(
        "%9: f32 = add %0, %0",
        "<unknown>:0:0: `%9: f32 = add %0, %0`: result %9 has type f32, expected i32",
    );
    wrong(
        "%9: i32 = exp %0",
        "<unknown>:0:0: `%9: i32 = exp %0`: %0 has type i32, expected a type that `exp` takes",
    );
    wrong(
        "%9: f32 = shl %1, %1",
        "<unknown>:0:0: `%9: f32 = shl %1, %1`: %1 has type f32, expected a type that `shl` takes",
    );
    wrong(
        "%9: i32 = isnan %1",
        "<unknown>:0:0: `%9: i32 = isnan %1`: result %9 has type i32, expected bool",
    );
    right("%9: f32 = ldexp %1, %0 %10: i32 = ilogb %1 %11: f32, %12: i32 = frexp %1");
    wrong(
        "%9: i32 = select %0, %0, %0",
        "<unknown>:0:0: `%9: i32 = select %0, %0, %0`: %0 has type i32, expected bool",
    );
    wrong(
        "%9: i64 = bitcast %0 to i64",
        "<unknown>:0:0: `%9: i64 = bitcast %0 to i64`: %0 has type i32, expected a type that has the size of i64",
    );
    right("%9: f32 = bitcast %0 to f32 %10: u64 = bitcast %3 to u64 %11: ptr<thread> = bitcast %10 to ptr<thread>");
    wrong(
        "%9: f32, %10: f32 = neg %1",
        "<unknown>:0:0: `%9..%10: f32 = neg %1`: 2 results, expected 1",
    );
    wrong(
        "set $0, %1",
        "<unknown>:0:0: `set $0, %1`: %1 has type f32, expected i32",
    );
}

#[test]
fn memory() {
    wrong(
        "%9: f32 = load %3 f32 x1 align 3",
        "<unknown>:0:0: `%9: f32 = load %3 f32 x1 align 3`: an alignment must be a power of two, found 3",
    );
    wrong(
        "store %6, [%1] align 4",
        "<unknown>:0:0: `store %6, [%1] align 4`: constant memory cannot be written",
    );
    wrong(
        "store %3, [%1, %0] align 4",
        "<unknown>:0:0: `store %3, [%1, %0] align 4`: %0 has type i32, expected f32",
    );
    wrong(
        "%9: ptr<device> = offset %3, %0",
        "<unknown>:0:0: `%9: ptr<device> = offset %3, %0`: %0 has type i32, expected i64",
    );
    wrong(
        "%9: f32 = atomic.or %3 f32, [%1]",
        "<unknown>:0:0: `%9: f32 = atomic.or %3 f32, [%1]`: no such atomic operation on this type",
    );
    right(
        "%9: i32 = atomic.add %3 i32, [%0] %10: i32, %11: bool = atomic.compare_exchange_weak %3 i32, [%0, %0] atomic.store %3 i32, [%0]",
    );
    wrong(
        "%9: ptr<device> = argument arg1",
        "<unknown>:0:0: `%9: ptr<device> = argument arg1`: a tensor argument has a handle, not a pointer",
    );
}

#[test]
fn branches() {
    wrong(
        "break 0",
        "<unknown>:0:0: `break 0`: there is no enclosing loop or scope 0",
    );
    wrong(
        "scope { loop { break 2 } }",
        "<unknown>:0:0: `break 2`: there is no enclosing loop or scope 2",
    );
    wrong(
        "loop { scope { continue 0 } break 0 }",
        "<unknown>:0:0: `continue 0`: `continue` must name a loop around it, neither a scope nor the loop of its own latch",
    );
    right("loop { scope { continue 1 } break 0 } latch { if %2 { break 0 } }");
    wrong(
        "loop { break 0 } latch { continue 0 }",
        "<unknown>:0:0: `continue 0`: `continue` must name a loop around it, neither a scope nor the loop of its own latch",
    );
    let deep = format!("{}{}", "if %2 { ".repeat(150), "}".repeat(150));
    right(&deep);
}

#[test]
fn tensors() {
    let view = "{%3 device f32 base [%4, %4] strides [%4, %4] origin [%4, %4] extents [rest, 16]}";
    right(&format!("%9: f32 = tensor.load {view} [%4, %4] clip"));
    wrong(
        &format!("%9: f32 = tensor.load {view} [%4] clip"),
        &format!(
            "<unknown>:0:0: `%9: f32 = tensor.load {view} [%4] clip`: the tensor's index has 1 entries, its rank is 2"
        ),
    );
    let bad = "{%3 device f32 base [%4, %4] strides [%4] origin [%4, %4] extents [rest, 16]}";
    wrong(
        &format!("%9: f32 = tensor.load {bad} [%4, %4] fault"),
        &format!(
            "<unknown>:0:0: `%9: f32 = tensor.load {bad} [%4, %4] fault`: the tensor's strides has 1 entries, its rank is 2"
        ),
    );
    let packed = "{%3 device uint4 base [%4] strides [%4] origin [%4] extents [rest]}";
    right(&format!("%9: u8 = tensor.load {packed} [%4] fault"));
    wrong(
        &format!("%9: ptr<device> = tensor.pointer {packed} [%4]"),
        &format!(
            "<unknown>:0:0: `%9: ptr<device> = tensor.pointer {packed} [%4]`: an element of a sub-byte format has no address"
        ),
    );
    right("%9: i64 = query %5 {f16 device i32 [?, 64]} extent 1");
    wrong(
        "%9: i64 = query %5 {f16 device i32 [?, 64]} extent 2",
        "<unknown>:0:0: `%9: i64 = query %5 {f16 device i32 [?, 64]} extent 2`: the tensor has no such part",
    );
}

#[test]
fn cooperative_tensors() {
    wrong(
        "coop.copy coop0, coop2",
        "<unknown>:0:0: `coop.copy coop0, coop2`: coop0: a copy needs the same role, shape, layout and element type",
    );
    wrong(
        "coop.reduce coop1, coop0 columns max %1",
        "<unknown>:0:0: `coop.reduce coop1, coop0 columns max %1`: coop1: it is no reduction tensor of the tile that is reduced",
    );
    right("coop.reduce coop1, coop0 rows max %1");
    wrong(
        "coop.convert coop0, coop2",
        "<unknown>:0:0: `coop.convert coop0, coop2`: coop0: a destination is converted into an input",
    );
    wrong(
        "%9: f32 = coop.element coop0",
        "<unknown>:0:0: `%9: f32 = coop.element coop0`: only allowed inside a map",
    );
    wrong(
        "coop.map coop0 { barrier simdgroup threadgroup }",
        "<unknown>:0:0: `barrier simdgroup threadgroup`: not allowed inside a map",
    );
    wrong(
        "loop { coop.map coop0 { break 0 } break 0 }",
        "<unknown>:0:0: `break 0`: there is no enclosing loop or scope 0",
    );
    wrong(
        "coop.map coop0 { %9: f32 = coop.element coop2 }",
        "<unknown>:0:0: `%9: f32 = coop.element coop2`: coop2: its shape or layout is not that of the map",
    );
    wrong(
        "coop.map coop0 { coop.element_set coop1, %1 }",
        "<unknown>:0:0: `coop.element_set coop1, %1`: coop1: its shape or layout is not that of the map",
    );
    right(
        "coop.map coop0 { %9: f32 = coop.element coop1 coop.element_set coop0, %9 %10: i32, %11: i32 = coop.element_index }",
    );
    right("coop.map coop1 { %9: i32 = coop.element_index }");
    wrong(
        "matmul {16 32 16} simdgroups 1 left coop2 right coop2 destination coop0",
        "<unknown>:0:0: `matmul {16 32 16} simdgroups 1 left coop2 right coop2 destination coop0`: coop2: its role does not fit the operand",
    );
    let view = "{%3 device f32 base [%4, %4] strides [%4, %4] origin [%4, %4] extents [rest, 16]}";
    right(&format!(
        "matmul {{16 32 16 accumulate}} simdgroups 1 left coop2 right {view} destination coop0"
    ));
    wrong(
        &format!("matmul {{16 32 8}} simdgroups 1 left coop2 right {view} destination coop0"),
        &format!(
            "<unknown>:0:0: `matmul {{16 32 8}} simdgroups 1 left coop2 right {view} destination coop0`: coop2: its shape does not fit the product"
        ),
    );
    wrong(
        &format!("matmul {{16 32 ?}} simdgroups 1 left {view} right {view} destination coop3"),
        &format!(
            "<unknown>:0:0: `matmul {{16 32 ?}} simdgroups 1 left {view} right {view} destination coop3`: coop3: its scope is not that of the product"
        ),
    );
}
