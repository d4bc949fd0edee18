//! `check --os`: what a release of macOS does not have, line by line.

use std::path::Path;
use std::process::Command;

/// Codes and lines that `check --os RELEASE` names in a source text, and whether it is content.
fn check(os: &str, source: &str) -> (Vec<(String, u64, String)>, bool) {
    let folder = std::env::temp_dir().join(format!(
        "anymetal-releases-{}-{os}-{}",
        std::process::id(),
        source.len()
    ));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("k.metal"), source).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_anymetal"))
        .args(["check", "k.metal", "--os", os, "--json"])
        .current_dir(&folder)
        .output()
        .expect("the command starts");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = report["diagnostics"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|d| {
            (
                d["code"].as_str().unwrap_or("").to_string(),
                d["span"]["line"].as_u64().unwrap_or(0),
                d["message"].as_str().unwrap_or("").to_string(),
            )
        })
        .collect();
    (list, output.status.success())
}

fn product(left: &str, right: &str, k: u32) -> String {
    format!(
        "#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void k(tensor<device {left}, dextents<int, 2>> a [[buffer(0)]],
              tensor<device {right}, dextents<int, 2>> b [[buffer(1)]],
              tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{{
    matmul2d<matmul2d_descriptor(16, 16, {k}), execution_simdgroup> op;
    op.run(a, b, c);
}}
"
    )
}

fn lines(found: &[(String, u64, String)]) -> Vec<(&str, u64)> {
    found.iter().map(|(code, line, _)| (code.as_str(), *line)).collect()
}

#[test]
fn rows_of_element_types() {
    let bfloat = product("bfloat", "bfloat", 16);
    let (found, fine) = check("26.0", &bfloat);
    assert_eq!(
        found,
        [(
            "W0990".to_string(),
            10,
            "a product of 'bfloat' and 'bfloat' into 'float' needs macOS 26.1; this does not compile on macOS 26.0"
                .to_string()
        )]
    );
    assert!(!fine);
    assert_eq!(check("26.1", &bfloat), (vec![], true));
    let bytes = product("half", "uchar", 16);
    assert_eq!(lines(&check("26.3", &bytes).0), [("W0990", 10)]);
    assert!(check("26.4", &bytes).1);
    let fp8 = product("half", "metal_fp8_e4m3_format", 16);
    assert_eq!(lines(&check("26.6", &fp8).0), [("W0990", 6), ("W0990", 10)]);
    assert!(check("27.0", &fp8).1);
    assert!(check("26.0", &product("half", "half", 16)).1);
}

#[test]
fn restrictions_begin_with_their_release() {
    let short = product("half", "half", 8);
    assert!(check("26.4", &short).1);
    let (found, fine) = check("26.6", &short);
    assert_eq!(found[0].0, "E0879");
    assert!(!fine);
}

#[test]
fn cooperative_inputs_and_scales() {
    let source = "#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void k(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
              tensor<device half, dextents<int, 2>> b [[buffer(1)]],
              tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroup> op;
    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    left.load(a);
    op.run(left, b, c);
}
kernel void scaled(tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle,
                          tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>> a [[buffer(0)]],
                   tensor<device metal_fp8_e4m3_format, dextents<int, 2>> b [[buffer(1)]],
                   tensor<device float, dextents<int, 2>> c [[buffer(2)]])
{
    matmul2d<matmul2d_descriptor(16, 16, 32), execution_simdgroup> op;
    op.run(a, b, c);
}
";
    let (found, fine) = check("26.1", source);
    assert!(!fine);
    let mut places = lines(&found);
    places.sort_unstable();
    places.dedup();
    assert_eq!(
        places,
        [
            ("W0990", 10),
            ("W0990", 12),
            ("W0990", 14),
            ("W0990", 15),
            ("W0990", 16),
            ("W0990", 20)
        ]
    );
    assert!(
        found
            .iter()
            .any(|(_, line, text)| *line == 20 && text.starts_with("an operand with scales needs macOS 27.0"))
    );
    let (found, _) = check("26.4", source);
    assert!(found.iter().all(|(_, line, _)| *line >= 14), "{found:?}");
    assert!(check("27.0", source).1);
}

#[test]
fn a_release_that_is_none_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_anymetal"))
        .args(["check", "k.metal", "--os", "15.1"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("'15.1' is no release of macOS with tensors"), "{error}");
}
