//! What the effects analysis finds, and the access that it sets.

use anymetal_ir::passes::effects::{Effects, Root, set_access};
use anymetal_ir::{Access, ArgumentId, Kernel, parse, verify};

fn kernel(body: &str) -> Kernel {
    let text = format!(
        r#"kernel "k" {{
  argument arg0 "a" buffer 0 device "float" size 4 align 4 element 4 access read_write
  argument arg1 "b" buffer 1 device "float" size 4 align 4 element 4 access read_write
  argument arg2 "t" tensor 2 {{f32 device i32 [?, 64]}} access read_write
  argument arg3 "c" buffer 3 constant "float" size 4 align 4 element 4 access read
  local $0 "p" ptr<device>
  body {{
    %0: ptr<device> = argument arg0
    %1: ptr<device> = argument arg1
    %2: u64 = handle arg2
    %3: ptr<device> = query %2 {{f32 device i32 [?, 64]}} pointer
    %4: ptr<constant> = argument arg3
    %5: i64 = const i64 4
    %6: bool = const bool true
{body}
  }}
}}"#
    );
    let kernel = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&kernel).unwrap_or_else(|error| panic!("{error}\n{text}"));
    kernel
}

#[track_caller]
fn access(body: &str, expected: [Access; 4]) {
    let mut kernel = kernel(body);
    set_access(&mut kernel);
    let found: Vec<Access> = kernel.arguments.iter().map(|a| a.access).collect();
    assert_eq!(found, expected, "{body}");
}

#[test]
fn access_by_argument() {
    use Access::{ReadOnly, ReadWrite, Unused, WriteOnly};
    // Asking a tensor for its address counts as a use.
    access("", [Unused, Unused, ReadOnly, Unused]);
    access(
        "%9: f32 = load %4 f32 x1 align 4 store %3, [%9] align 4",
        [Unused, Unused, WriteOnly, ReadOnly],
    );
    access(
        "%9: ptr<device> = offset %0, %5 %10: u32 = load %9 u32 x1 align 4 %11: u32 = atomic.add %1 u32, [%10]",
        [ReadOnly, ReadWrite, ReadOnly, Unused],
    );
    let view = "{%3 device f32 base [%5, %5] strides [%5, %5] origin [%5, %5] extents [rest, rest]}";
    access(
        &format!("%9: f32 = tensor.load {view} [%5, %5] clip tensor.store {view} [%5, %5] clip, %9"),
        [Unused, Unused, ReadWrite, Unused],
    );
    let out = "{%0 device f32 base [%5, %5] strides [%5, %5] origin [%5, %5] extents [rest, rest]}";
    access(
        &format!("matmul {{16 16 16}} simdgroups 1 left {view} right {view} destination {out}"),
        [WriteOnly, Unused, ReadOnly, Unused],
    );
    access(
        &format!("matmul {{16 16 16 accumulate}} simdgroups 1 left {view} right {view} destination {out}"),
        [ReadWrite, Unused, ReadOnly, Unused],
    );
}

#[test]
fn pointers_through_locals_and_selects_are_followed() {
    use Access::{ReadOnly, Unused, WriteOnly};
    access(
        "%9: ptr<device> = select %6, %0, %1 %10: f32 = load %9 f32 x1 align 4",
        [ReadOnly, ReadOnly, ReadOnly, Unused],
    );
    // The store in the first iteration goes to arg0, in later ones to arg1.
    access(
        "set $0, %0
         loop { %9: ptr<device> = get $0 %10: f32 = const f32 1.0 store %9, [%10] align 4 if %6 { break 0 } }
         latch { set $0, %1 }",
        [WriteOnly, WriteOnly, ReadOnly, Unused],
    );
}

#[test]
fn unknown_pointers_spoil_what_is_known() {
    let kernel =
        kernel("%9: ptr<device> = load %0 ptr<device> x1 align 8 %10: f32 = const f32 1.0 store %9, [%10] align 4");
    let effects = Effects::of(&kernel);
    for argument in 0..3 {
        assert!(!effects.never_written(&kernel, Root::Argument(ArgumentId(argument))));
    }
    assert!(effects.never_written(&kernel, Root::Argument(ArgumentId(3))));
}
