//! PTX of four small kernels, compared with what was reviewed. After a change that is meant, look at the difference that
//! `ANYMETAL_WRITE_SNAPSHOTS=1 cargo test -p anymetal --test ptx` leaves in `tests/ptx/`.

use std::path::{Path, PathBuf};

use anymetal::{CompileOptions, Device, FunctionConstants, ptx};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptx")
}

fn compiled(name: &str, options: &ptx::PtxOptions) -> String {
    let source = std::fs::read_to_string(folder().join(format!("{name}.metal"))).unwrap();
    let library = Device::cpu().new_library(&source, &format!("{name}.metal"), &CompileOptions::default());
    let kernel = library.unwrap().kernel(name, &FunctionConstants::new()).unwrap();
    ptx::compile(&kernel, options).unwrap().text
}

fn compare(name: &str, checked: bool) {
    let options = ptx::PtxOptions {
        target: "sm_80".parse().unwrap(),
        checked,
        threads: 256,
        ..ptx::PtxOptions::default()
    };
    let got = compiled(name, &options);
    let path = folder().join(format!("{name}{}.ptx", if checked { ".checked" } else { "" }));
    if std::env::var_os("ANYMETAL_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &got).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (got, want))) = got
        .lines()
        .zip(want.lines())
        .enumerate()
        .find(|(_, (got, want))| got != want)
    {
        panic!("{}:{}: `{got}`, reviewed was `{want}`", path.display(), line + 1);
    }
    assert_eq!(got.lines().count(), want.lines().count(), "{}", path.display());
}

#[test]
fn element_wise() {
    compare("add", false);
}

#[test]
fn element_wise_with_checks() {
    compare("add", true);
}

#[test]
fn barriers_and_simdgroups() {
    compare("reduce", false);
}

#[test]
fn loops_and_branches() {
    compare("control", false);
}

#[test]
fn a_matrix_product() {
    compare("product", false);
}

/// Every chip gets a target and a version of its own.
#[test]
fn targets() {
    for (target, version) in [("sm_80", "7.8"), ("sm_90a", "8."), ("sm_100a", "8."), ("sm_120a", "8.")] {
        let options = ptx::PtxOptions {
            target: target.parse().unwrap(),
            ..ptx::PtxOptions::default()
        };
        let text = compiled("add", &options);
        assert!(
            text.starts_with(&format!(".version {version}")),
            "{target}: {}",
            &text[..20]
        );
        assert!(text.contains(&format!(".target {target}\n")));
    }
}

fn text_of(source: &str, name: &str, options: &ptx::PtxOptions) -> String {
    let library = Device::cpu().new_library(source, "k.metal", &CompileOptions::default());
    let kernel = library.unwrap().kernel(name, &FunctionConstants::new()).unwrap();
    ptx::compile(&kernel, options).unwrap().text
}

#[test]
fn saturation_is_a_part_of_a_fused_sum() {
    let source = "kernel void k(device float *x, uint i [[thread_position_in_grid]]) {
        x[i] = metal::saturate(metal::fma(x[i], 0.5f, 1.0f / x[i]));
    }";
    let text = text_of(source, "k", &ptx::PtxOptions::default());
    assert!(text.contains("fma.rn.sat.f32"), "{text}");
    assert!(!text.contains("add.sat.f32") && !text.contains("div.approx"), "{text}");
}

/// An element-wise kernel reads its launch's sizes only where its threadgroups have more than one dimension, and positions in threadgroups of
/// known size need no division.
#[test]
fn positions_are_cheap() {
    let source = "kernel void flat(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }
        kernel void square(device float *x, uint2 at [[thread_position_in_threadgroup]]) { x[at.y * 32 + at.x] = at.x; }";
    let flat = text_of(source, "flat", &ptx::PtxOptions::default());
    let (skip, load) = (flat.find("bra.uni").unwrap(), flat.find("ld.global").unwrap());
    assert!(skip < flat.find("div.u32").unwrap() && skip < load, "{flat}");
    let options = ptx::PtxOptions {
        shape: Some([32, 8, 1]),
        ..ptx::PtxOptions::default()
    };
    assert!(!text_of(source, "square", &options).contains("div.u32"));
    assert!(text_of(source, "square", &ptx::PtxOptions::default()).contains("div.u32"));
}
