//! Loops over cooperative elements that become maps, and loops that must not.

use anymetal_ir::passes::coop_map;
use anymetal_ir::{Kernel, Op, parse, verify};

/// A kernel with a 16×32 tile `coop0`, a second one `coop1`, its row reduction `coop2` and column reduction `coop3`, and a
/// left input `coop4` of another shape. `%0` is 0, `%1` the lane, `%2` a device pointer, `%3` a uniform float.
fn kernel(locals: &str, body: &str) -> Kernel {
    let d = "matmul {16 32 16}";
    let text = format!(
        r#"kernel "k" {{
  argument arg0 "a" buffer 0 device "float" size 4 align 4 element 4 access read_write
  local $0 "i" i32
  local $1 "j" u16
  local $2 "x" f32
  {locals}
  cooperative coop0 "c" destination f32 rows 16 columns 32 simdgroups 1 layout R {d}
  cooperative coop1 "d" destination f32 rows 16 columns 32 simdgroups 1 layout R {d}
  cooperative coop2 "r" row_reduction f32 rows 16 columns 1 simdgroups 1 layout R {d}
  cooperative coop3 "s" column_reduction f32 rows 1 columns 32 simdgroups 1 layout R {d}
  cooperative coop4 "l" left f32 rows 16 columns 16 simdgroups 1 layout R {d}
  body {{
    %0: i32 = const i32 0
    %1: u32 = builtin thread_index_in_simdgroup
    %2: ptr<device> = argument arg0
    %3: f32 = const f32 2.0
    coop.init coop0
{body}
  }}
}}"#
    );
    let kernel = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&kernel).unwrap_or_else(|error| panic!("{error}\n{text}"));
    kernel
}

/// The canonical loop over `capacity` slots; the slot is `%13`.
fn looped(capacity: u32, body: &str) -> String {
    format!(
        "set $0, %0
loop {{
  %10: i32 = get $0
  %11: i32 = const i32 {capacity}
  %12: bool = cmp.ge %10, %11
  if %12 {{
    break 0
  }}
  %13: i32 = get $0
{body}
}} latch {{
  %90: i32 = get $0
  %91: i32 = const i32 1
  %92: i32 = add %90, %91
  set $0, %92
}}
"
    )
}

fn formed(mut kernel: Kernel) -> Option<String> {
    let n = coop_map::form(&mut kernel);
    verify(&kernel).unwrap_or_else(|error| panic!("{error}\n{kernel}"));
    let text = kernel.to_string();
    assert_eq!(parse(&text).as_ref(), Ok(&kernel));
    (n > 0).then_some(text)
}

#[track_caller]
fn maps(locals: &str, body: &str) -> String {
    formed(kernel(locals, body)).expect("the loop becomes a map")
}

#[track_caller]
fn stays(locals: &str, body: &str) {
    let before = kernel(locals, body);
    let mut after = before.clone();
    assert_eq!(coop_map::form(&mut after), 0, "{after}");
    assert_eq!(after, before);
}

#[test]
fn scaling_becomes_a_map() {
    let text = maps(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             %21: f32 = mul %20, %3 fast
             coop.set coop0 %13, %21",
        ),
    );
    let expected = "    coop.map coop0 {
      %11: i32 = const i32 16
      %20: f32 = coop.element coop0
      %21: f32 = mul %20, %3 fast
      coop.element_set coop0, %21
    }
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn capacity_must_match() {
    for capacity in [15, 17, 8] {
        stays("", &looped(capacity, "coop.set coop0 %13, %3"));
    }
    // The left input holds 8 slots a lane.
    maps("", &looped(8, "coop.set coop4 %13, %3"));
    // Row reductions hold 2, column reductions 8.
    maps("", &looped(2, "coop.set coop2 %13, %3"));
    maps("", &looped(8, "coop.set coop3 %13, %3"));
}

#[test]
fn validity_index_and_mapped_reductions() {
    let text = maps(
        "local $3 \"m\" i32",
        &looped(
            16,
            "%20: bool = coop.valid coop0 %13
             if %20 {
               %21: i32, %22: i32 = coop.index coop0 %13
               %23: i32 = coop.map_slot coop2, coop0 %13
               set $3, %23
               %24: i32 = get $3
               %25: f32 = coop.get coop2 %24
               %26: i32 = coop.index coop2 %24
               %27: bool = cmp.eq %26, %22
               %28: f32 = select %27, %25, %3
               coop.set coop1 %13, %28
             }",
        ),
    );
    let expected = "      %20: bool = const bool true
      if %20 {
        %21..%22: i32 = coop.element_index
        %25: f32 = coop.element coop2
        %94..%95: i32 = coop.element_index
        %27: bool = cmp.eq %95, %22
        %28: f32 = select %27, %25, %3
        coop.element_set coop1, %28
      }
";
    // Numbers of the values that the pass adds depend on the kernel.
    let text = text
        .replace("%93..%94: i32 = coop", "%94..%95: i32 = coop")
        .replace("cmp.eq %94, %22", "cmp.eq %95, %22");
    assert!(text.contains(expected), "{text}");
}

#[test]
fn tiles_of_other_shapes_do_not_share_slots() {
    stays(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             coop.set coop4 %13, %20",
        ),
    );
    stays(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop2 %13
             coop.set coop0 %13, %20",
        ),
    );
}

#[test]
fn reductions_are_not_written_through_the_mapping() {
    stays(
        "",
        &looped(
            16,
            "%20: i32 = coop.map_slot coop2, coop0 %13
             coop.set coop2 %20, %3",
        ),
    );
}

#[test]
fn slot_numbers_must_not_show() {
    stays(
        "",
        &looped(
            16,
            "%20: i32 = const i32 4
             %21: bool = cmp.lt %13, %20
             if %21 { coop.set coop0 %13, %3 }",
        ),
    );
    stays(
        "",
        &looped(
            16,
            "%20: f32 = convert %13 to f32
             coop.set coop0 %13, %20",
        ),
    );
    stays(
        "",
        &looped(
            16,
            "%20: i32 = const i32 3
             %21: f32 = coop.get coop0 %20
             coop.set coop0 %13, %21",
        ),
    );
}

#[test]
fn lane_dependent_values_stay_out() {
    stays(
        "",
        &looped(
            16,
            "%20: f32 = convert %1 to f32
             coop.set coop0 %13, %20",
        ),
    );
    stays(
        "",
        &looped(
            16,
            "%20: u32 = builtin thread_index_in_simdgroup
             %21: f32 = convert %20 to f32
             coop.set coop0 %13, %21",
        ),
    );
    // A SIMD-group index is the same in all lanes of the scope.
    maps(
        "",
        &looped(
            16,
            "%20: u32 = builtin simdgroup_index_in_threadgroup
             %21: f32 = convert %20 to f32
             coop.set coop0 %13, %21",
        ),
    );
}

#[test]
fn divergent_control_stays_out() {
    let inner = looped(16, "coop.set coop0 %13, %3");
    stays(
        "",
        &format!(
            "%5: u32 = const u32 3
             %6: bool = cmp.lt %1, %5
             if %6 {{ {inner} }}"
        ),
    );
    maps(
        "",
        &format!(
            "%4: u32 = builtin simdgroup_index_in_threadgroup
             %5: u32 = const u32 3
             %6: bool = cmp.lt %4, %5
             if %6 {{ {inner} }}"
        ),
    );
    // Lanes that returned are missing.
    stays(
        "",
        &format!(
            "%5: u32 = const u32 3
             %6: bool = cmp.lt %1, %5
             if %6 {{ return }}
             {inner}"
        ),
    );
}

#[test]
fn carried_locals_stay_out() {
    // A running sum over slots shows their order, and is read afterwards.
    stays(
        "",
        &format!(
            "set $2, %3
             {}",
            looped(
                16,
                "%20: f32 = coop.get coop0 %13
                 %21: f32 = get $2
                 %22: f32 = add %20, %21
                 set $2, %22"
            )
        ),
    );
    // Set in each iteration before it is read: private.
    maps(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             set $2, %20
             %21: f32 = get $2
             coop.set coop1 %13, %21",
        ),
    );
    // Set on one path only.
    stays(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             %19: bool = cmp.lt %20, %3
             if %19 { set $2, %20 }
             %21: f32 = get $2
             coop.set coop1 %13, %21",
        ),
    );
    // Set on all paths.
    maps(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             %19: bool = cmp.lt %20, %3
             if %19 { set $2, %20 } else { set $2, %3 }
             %21: f32 = get $2
             coop.set coop1 %13, %21",
        ),
    );
    // Read after the loop.
    stays(
        "",
        &format!(
            "{}%30: f32 = get $2
             coop.load coop0 {{%2 device f32 base [] strides [] origin [] extents []}}",
            looped(
                16,
                "%20: f32 = coop.get coop0 %13
                 set $2, %20"
            )
        )
        .replace(
            "coop.load coop0 {%2 device f32 base [] strides [] origin [] extents []}",
            "store %2, [%30] align 4",
        ),
    );
}

#[test]
fn uniform_locals_from_outside_are_read_in_front() {
    let text = maps(
        "",
        &format!(
            "set $2, %3
             {}",
            looped(
                16,
                "%20: f32 = get $2
                 coop.set coop0 %13, %20"
            )
        ),
    );
    let expected = "    %20: f32 = get $2
    coop.map coop0 {
";
    assert!(text.contains(expected), "{text}");
    stays(
        "",
        &format!(
            "%5: f32 = convert %1 to f32
             set $2, %5
             {}",
            looped(
                16,
                "%20: f32 = get $2
                 coop.set coop0 %13, %20"
            )
        ),
    );
}

#[test]
fn memory_is_read_and_written_element_by_element() {
    let address = "%20: i32, %21: i32 = coop.index coop0 %13
             %22: i64 = convert %20 to i64
             %23: ptr<device> = offset %2, %22";
    maps(
        "",
        &looped(
            16,
            &format!(
                "{address}
             %24: f32 = load %23 f32 x1 align 4
             coop.set coop0 %13, %24"
            ),
        ),
    );
    let text = maps(
        "",
        &looped(
            16,
            &format!(
                "{address}
             %24: f32 = coop.get coop0 %13
             %25: bool = cmp.lt %24, %3
             if %25 {{ store %23, [%24] align 4 }}"
            ),
        ),
    );
    assert!(text.contains("        store %23, [%24] align 4\n"), "{text}");
    // Which element is last at one place depends on the order.
    stays(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             store %2, [%20] align 4",
        ),
    );
    // A store may change what the next element reads.
    stays(
        "",
        &looped(
            16,
            &format!(
                "{address}
             %24: f32 = load %23 f32 x1 align 4
             store %23, [%24] align 4
             coop.set coop0 %13, %24"
            ),
        ),
    );
    // Two stores may meet.
    stays(
        "",
        &looped(
            16,
            &format!(
                "{address}
             %24: f32 = coop.get coop0 %13
             store %23, [%24] align 4
             store %23, [%3] align 4"
            ),
        ),
    );
    stays(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             %21: f32 = group.sum simd %20
             coop.set coop0 %13, %21",
        ),
    );
}

#[test]
fn continue_becomes_a_break_of_a_scope() {
    let text = maps(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             %21: bool = cmp.lt %20, %3
             if %21 { continue 0 }
             coop.set coop0 %13, %3",
        ),
    );
    let expected = "      scope {
        %11: i32 = const i32 16
        %20: f32 = coop.element coop0
        %21: bool = cmp.lt %20, %3
        if %21 {
          break 0
        }
        coop.element_set coop0, %3
      }
";
    assert!(text.contains(expected), "{text}");
    // Another way out is no element-wise loop.
    stays(
        "",
        &looped(
            16,
            "%20: f32 = coop.get coop0 %13
             %21: bool = cmp.lt %20, %3
             if %21 { break 0 }
             coop.set coop0 %13, %3",
        ),
    );
}

#[test]
fn two_counters_and_other_test_shapes() {
    let text = maps(
        "",
        "%4: u16 = const u16 0
set $0, %0
set $1, %4
loop unroll full {
  %10: u16 = get $1
  %11: i32 = convert %10 to i32
  %12: i32 = const i32 16
  %13: bool = cmp.ne %11, %12
  %14: bool = not %13
  if %14 {
    break 0
  }
  %15: i32 = get $0
  %20: f32 = coop.get coop0 %15
  %21: u16 = get $1
  %22: i32 = convert %21 to i32
  coop.set coop1 %22, %20
} latch {
  %30: i32 = get $0
  %31: i32 = const i32 1
  %32: i32 = add %31, %30
  set $0, %32
  %33: u16 = get $1
  %34: i32 = convert %33 to i32
  %35: i32 = add %34, %31
  %36: u16 = convert %35 to u16
  set $1, %36
}
%40: i32 = get $0
%41: f32 = convert %40 to f32
store %2, [%41] align 4",
    );
    // The counter that is read afterwards has its final value.
    assert!(text.contains("const i32 16\n    set $0, "), "{text}");
    assert!(!text.contains("set $1, %42"), "{text}");
    // A counter that starts elsewhere does not count slots.
    stays(
        "",
        &looped(16, "coop.set coop0 %13, %3").replace("set $0, %0\n", "%5: i32 = const i32 2\nset $0, %5\n"),
    );
}

#[test]
fn maps_form_inside_other_loops() {
    let inner = looped(16, "coop.set coop0 %13, %3");
    let mut kernel = kernel(
        "local $3 \"t\" i32",
        &format!(
            "set $3, %0
             loop {{
               %50: i32 = get $3
               %51: i32 = const i32 5
               %52: bool = cmp.ge %50, %51
               if %52 {{ break 0 }}
               {inner}
             }} latch {{
               %60: i32 = get $3
               %61: i32 = const i32 1
               %62: i32 = add %60, %61
               set $3, %62
             }}"
        ),
    );
    assert_eq!(coop_map::form(&mut kernel), 1);
    verify(&kernel).unwrap();
    let mut found = 0;
    kernel.body.for_each_inst(&mut |inst| {
        found += u32::from(matches!(inst.op, Op::CoopMap { .. }));
    });
    assert_eq!(found, 1);
}
