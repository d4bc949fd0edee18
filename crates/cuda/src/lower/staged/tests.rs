use crate::{PtxModule, PtxOptions, Target, compile};

/// A product of three buffers by so many SIMD-groups, with rows of `k`, `n` and `n` elements, as PTX.
fn product(types: [&str; 3], tile: [u32; 2], simdgroups: u32, more: &str, options: PtxOptions) -> PtxModule {
    let [m, n] = tile;
    let scales = |at: u32| match more.contains("scaled") {
        true => format!(" scales {{%{at} device fp8_ue8m0 block [32, 1] strides [%9, %10]}}"),
        false => String::new(),
    };
    let left_scales = if more.contains("right") {
        String::new()
    } else {
        scales(3)
    };
    let flags = more.replace("scaled", "").replace("right", "");
    let text = format!(
        r#"kernel "product" {{
  required_simdgroups {simdgroups} !1
  argument arg0 "a" buffer 0 device "uchar" size 1 align 1 element 1 access read
  argument arg1 "b" buffer 1 device "uchar" size 1 align 1 element 1 access read
  argument arg2 "c" buffer 2 device "uchar" size 1 align 1 element 1 access write
  argument arg3 "s" buffer 3 device "uchar" size 1 align 1 element 1 access read
  file 1 "product.metal"
  loc !1 1 1 1
  body {{
    %0: ptr<device> = argument arg0 !1
    %1: ptr<device> = argument arg1 !1
    %2: ptr<device> = argument arg2 !1
    %3: ptr<device> = argument arg3 !1
    %4: i64 = const i64 512 !1
    %5: i64 = const i64 1024 !1
    %6: u32 = builtin threadgroup_position_in_grid.y !1
    %7: i64 = convert %6 to i64 !1
    %8: i64 = const i64 0 !1
    %9: i64 = const i64 1 !1
    %10: i64 = const i64 16 !1
    matmul {{{m} {n} ? transpose_right {flags}}} simdgroups {simdgroups} left {{%0 device {} base [%4, %5] strides [%9, %4] origin [%8, %7] extents [rest, rest]{}}} right {{%1 device {} base [%4, %5] strides [%9, %4] origin [%8, %8] extents [rest, rest]{}}} destination {{%2 device {} base [%5, %5] strides [%9, %5] origin [%8, %7] extents [rest, rest]}} !1
  }}
}}
"#,
        types[0],
        left_scales,
        types[1],
        scales(3),
        types[2]
    );
    let kernel = anymetal_ir::parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    compile(&kernel, &options).unwrap()
}

fn on(sm: u32) -> PtxOptions {
    PtxOptions {
        target: Target {
            sm,
            arch_specific: sm >= 90,
        },
        ..PtxOptions::default()
    }
}

#[test]
fn large_tiles_go_by_bulk_copies_into_wgmma() {
    let module = product(["bf16", "bf16", "bf16"], [128, 256], 8, "", on(90));
    let count = |what: &str| module.text.matches(what).count();
    // Two of four stages before the loop and one in it, each with a copy for each operand; four instructions a stage.
    assert_eq!(count("cp.async.bulk.tensor.2d"), 2 * (2 + 1));
    assert_eq!(count("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"), 4);
    assert_eq!(module.workspace_bytes, 256);
    assert_eq!(module.max_threads, 256);
    assert!(module.images.is_empty());
    assert!(module.shared_bytes > 4 * 48 * 1024 && module.shared_bytes <= 227 * 1024);
}

#[test]
fn chips_without_wgmma_copy_asynchronously() {
    for sm in [80, 100, 120] {
        let module = product(["f16", "f16", "f32"], [128, 128], 4, "", on(sm));
        assert!(module.text.contains("cp.async.cg.shared.global"), "sm_{sm}");
        assert!(module.text.contains("ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
        assert!(!module.text.contains("wgmma") && !module.text.contains("cp.async.bulk"));
        assert_eq!(module.workspace_bytes, 0);
    }
}

#[test]
fn relaxed_fp8_is_multiplied_as_it_is() {
    let native = "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3";
    let relaxed = product(
        ["fp8_e4m3", "fp8_e4m3", "f16"],
        [128, 192],
        8,
        "relaxed_precision",
        on(90),
    );
    assert!(relaxed.text.contains(native));
    let strict = product(["fp8_e4m3", "fp8_e4m3", "f16"], [128, 192], 8, "", on(90));
    assert!(!strict.text.contains(native));
    assert!(
        strict
            .text
            .contains("wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16")
    );
}

#[test]
fn scaled_operands_ask_for_images_unless_arguments_overlap() {
    let scaled = |options| product(["fp8_e4m3", "fp8_e4m3", "f32"], [128, 256], 8, "scaled", options);
    let module = scaled(on(90));
    assert_eq!(
        module.images.iter().map(|image| image.growth).collect::<Vec<_>>(),
        [2, 2]
    );
    assert_eq!(module.parameters.images.len(), 2);
    assert_eq!(module.parameters.size, module.parameters.images[1] + 16);
    assert!(module.text.contains("m64n256k16.f32.bf16.bf16"));
    let overlapping = PtxOptions {
        unaliased: false,
        ..on(90)
    };
    assert!(scaled(overlapping).images.is_empty());
}

#[test]
fn floats_are_split_in_two() {
    let strict = product(["f32", "f32", "f32"], [64, 64], 4, "", on(80));
    let relaxed = product(["f32", "f32", "f32"], [64, 64], 4, "relaxed_precision", on(80));
    let products = |module: &PtxModule| module.text.matches("mma.sync.aligned.m16n8k8.row.col.f32.tf32").count();
    // Warps of 32 × 32: two by four blocks, four steps of K in a stage. The general product has none of its own for strict `float`.
    assert_eq!(products(&strict), 3 * 2 * 4 * 4);
    assert!(products(&relaxed) >= 2 * 4 * 4);
    assert!(relaxed.text.contains("cvt.rna.tf32.f32") && !strict.text.contains("cvt.rna.tf32.f32"));
}

#[test]
fn checked_kernels_take_the_general_product() {
    let checked = PtxOptions {
        checked: true,
        ..on(90)
    };
    let module = product(["bf16", "bf16", "bf16"], [128, 256], 8, "", checked);
    assert!(!module.text.contains("wgmma"));
}

#[test]
fn weights_of_four_bits_have_images_in_large_tiles() {
    let module = product(["bf16", "int4", "f32"], [128, 256], 8, "", on(90));
    let growth: Vec<u32> = module.images.iter().map(|image| image.growth).collect();
    assert_eq!(growth, [4]);
    assert!(module.text.contains("m64n256k16.f32.bf16.bf16"));
    let few = product(["f16", "int4", "f32"], [16, 128], 4, "", on(90));
    assert!(few.images.is_empty() && !few.text.contains("wgmma"));
}

#[test]
fn scaled_weights_beside_half_have_levels() {
    let module = product(["f16", "fp4_e2m1", "f16"], [128, 256], 8, "scaled right", on(90));
    assert!(module.images[0].levels && module.images[0].growth == 4);
    assert!(module.text.contains("m64n256k16.f32.f16.f16") && module.text.contains("redux.sync.max.u32"));
    // What is accumulated begins as the destination's elements, which have no level.
    let more = product(
        ["f16", "fp4_e2m1", "f32"],
        [128, 256],
        8,
        "scaled right accumulate",
        on(90),
    );
    assert!(more.images.is_empty() && !more.text.contains("wgmma"));
}
