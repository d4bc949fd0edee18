//! Which instructions products become, by the types of their operands.

use anymetal_cuda::{PtxOptions, compile};

/// A product of one SIMD-group: `left` [M, K] and `right` [K, N] into `destination`.
fn product(left: &str, right: &str, destination: &str, flags: &str, options: &PtxOptions) -> String {
    product_of(1, left, right, destination, flags, options)
}

fn product_of(
    simdgroups: u32,
    left: &str,
    right: &str,
    destination: &str,
    flags: &str,
    options: &PtxOptions,
) -> String {
    let argument = |i: u32, format: &str, access: &str| {
        format!("  argument arg{i} \"t{i}\" tensor {i} {{{format} device i32 [?, ?]}} access {access}\n")
    };
    let query = |i: u32, format: &str| {
        let base = 3 + 5 * i;
        let spec = format!("{{{format} device i32 [?, ?]}}");
        format!(
            "    %{}: ptr<device> = query %{i} {spec} pointer\n    %{}: i64 = query %{i} {spec} extent 0\n    %{}: i64 = query %{i} {spec} extent 1\n    \
             %{}: i64 = query %{i} {spec} stride 0\n    %{}: i64 = query %{i} {spec} stride 1\n",
            base,
            base + 1,
            base + 2,
            base + 3,
            base + 4
        )
    };
    let view = |i: u32, format: &str| {
        let b = 3 + 5 * i;
        format!(
            "{{%{b} device {format} base [%{}, %{}] strides [%{}, %{}] origin [%18, %18] extents [%{}, %{}]}}",
            b + 1,
            b + 2,
            b + 3,
            b + 4,
            b + 1,
            b + 2
        )
    };
    let text = format!(
        "kernel \"product\" {{\n  required_simdgroups {simdgroups} !1\n{}{}{}  file 1 \"product.metal\"\n  loc !1 1 1 1\n  body {{\n    %0: u64 = handle arg0\n    %1: u64 = handle arg1\n    %2: u64 = handle arg2\n{}{}{}    \
         %18: i64 = const i64 0\n    matmul {{16 32 ?{flags}}} simdgroups {simdgroups} left {} right {} destination {}\n  }}\n}}\n",
        argument(0, left, "read"),
        argument(1, right, "read"),
        argument(2, destination, "write"),
        query(0, left),
        query(1, right),
        query(2, destination),
        view(0, left),
        view(1, right),
        view(2, destination),
    );
    let kernel = anymetal_ir::parse::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    compile(&kernel, options).unwrap_or_else(|error| panic!("{error}")).text
}

#[test]
fn the_instruction_follows_the_types() {
    let options = PtxOptions::default();
    for (left, right, destination, flags, wanted) in [
        (
            "f16",
            "f16",
            "f32",
            "",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        ),
        (
            "bf16",
            "bf16",
            "bf16",
            "",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        ),
        (
            "f16",
            "fp8_e4m3",
            "f16",
            "",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        ),
        (
            "bf16",
            "int4",
            "f32",
            "",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        ),
        (
            "f16",
            "bf16",
            "f32",
            "",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        ),
        (
            "i8",
            "int4",
            "i32",
            "",
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        ),
        (
            "u8",
            "uint2",
            "i32",
            "",
            "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32",
        ),
    ] {
        let text = product(left, right, destination, flags, &options);
        assert!(text.contains(wanted), "{left} × {right}: no {wanted} in\n{text}");
        assert!(!text.contains("fma.rn.f32"), "{left} × {right}");
    }
}

#[test]
fn strict_floats_are_multiplied_by_fused_multiply_adds() {
    let options = PtxOptions::default();
    for (left, right) in [("f32", "f32"), ("f32", "f16"), ("bf16", "f32"), ("i8", "f32")] {
        let text = product(left, right, "f32", "", &options);
        assert!(
            text.contains("fma.rn.f32") && !text.contains("mma.sync"),
            "{left} × {right}"
        );
    }
}

#[test]
fn whole_windows_are_read_by_wide_loads() {
    let options = PtxOptions::default();
    for (left, right) in [("f16", "f16"), ("i8", "i8"), ("fp8_e5m2", "fp8_e5m2")] {
        let destination = if left == "i8" { "i32" } else { "f32" };
        let text = product(left, right, destination, "", &options);
        assert!(text.contains("ld.global.v4.b32"), "{left} × {right}");
    }
}

#[test]
fn few_rows_by_quantised_columns_go_through_rings() {
    let options = PtxOptions::default();
    let checked = PtxOptions {
        checked: true,
        ..PtxOptions::default()
    };
    let few = |left: &str, right: &str, options: &PtxOptions| {
        product_of(4, left, right, "f32", " transpose_right", options).contains("cp.async.cg.shared.global.L2::128B")
    };
    assert!(few("f16", "int4", &options) && few("bf16", "uint4", &options) && few("f16", "fp8_e4m3", &options));
    // Checked products and those of other types go the general way.
    assert!(!few("f16", "int4", &checked) && !few("f16", "f32", &options));
}

#[test]
fn fp8_is_converted_by_instructions_where_there_are_some() {
    let convert = "cvt.rn.f16x2.e4m3x2";
    let with = PtxOptions::default();
    let without = PtxOptions {
        target: anymetal_cuda::Target::SM_80,
        ..PtxOptions::default()
    };
    assert!(product("fp8_e4m3", "fp8_e4m3", "f32", "", &with).contains(convert));
    assert!(!product("fp8_e4m3", "fp8_e4m3", "f32", "", &without).contains(convert));
}

#[test]
fn only_weights_are_copied_before_the_launch_in_front_has_ended() {
    let first = |text: &str, what: &str| text.find(what).unwrap_or(usize::MAX);
    let (wait, copy, load) = ("griddepcontrol.wait", "cp.async.cg", "ld.global");
    let few = product_of(4, "f16", "int4", "f32", " transpose_right", &PtxOptions::default());
    assert!(first(&few, copy) < first(&few, wait) && first(&few, wait) < first(&few, load));
    // Every way waits: one row block, two, and the general way.
    assert_eq!(few.matches(wait).count(), 3);
    // Everything else waits at its entry.
    let general = product("f16", "f16", "f32", "", &PtxOptions::default());
    assert!(first(&general, wait) < first(&general, load) && general.matches(wait).count() == 1);
    let before = PtxOptions {
        target: anymetal_cuda::Target::SM_80,
        ..PtxOptions::default()
    };
    assert!(!product("f16", "f16", "f32", "", &before).contains(wait));
}

#[test]
fn small_constants_are_read_where_the_launch_has_them() {
    let text = "kernel \"scale\" {\n  argument arg0 \"x\" buffer 0 device \"float\" size 4 align 4 element 4 access read_write\n  \
                argument arg1 \"by\" buffer 1 constant \"float\" size 4 align 4 element 4 reference access read\n  body {\n    \
                %0: ptr<device> = argument arg0\n    %1: ptr<constant> = argument arg1\n    %2: f32 = load %1 f32 x1 align 4\n    \
                store %0, [%2] align 4\n  }\n}\n";
    let kernel = anymetal_ir::parse::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let of = |values| {
        let options = PtxOptions {
            values,
            ..PtxOptions::default()
        };
        compile(&kernel, &options)
            .unwrap_or_else(|error| panic!("{error}"))
            .text
    };
    assert!(!of(true).contains("ld.global") && of(false).contains("ld.global"));
}
