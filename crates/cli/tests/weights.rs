//! `quantize`, `dequantize` and `config` from the command line: what they print, and every mismatch by its text.

use std::path::PathBuf;
use std::process::{Command, Output};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("anymetal-cli-weights-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_anymetal"))
            .args(words)
            .current_dir(&self.0)
            .env("NO_COLOR", "1")
            .output()
            .expect("the command starts")
    }

    /// Standard output of a command that must succeed.
    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that must end with `code`.
    fn fails(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        error.trim_end().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A weights file: matrices `up` (6 × 64, F32) and `down` (2 × 45, F16), and a vector.
fn weights(folder: &Folder) {
    let header = r#"{"bias":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},
        "down":{"dtype":"F16","shape":[2,45],"data_offsets":[24,204]},
        "up":{"dtype":"F32","shape":[6,64],"data_offsets":[204,1740]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 24]);
    // Halves of 1 + i/1024, and floats that E2M1 holds.
    bytes.extend((0..90u16).flat_map(|i| (0x3c00 + i).to_le_bytes()));
    let codes = [0.0f32, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    bytes.extend((0..384).flat_map(|i| codes[i % 8].to_le_bytes()));
    std::fs::write(folder.0.join("w.safetensors"), bytes).unwrap();
}

#[test]
fn quantize_reports_and_goes_back() {
    let folder = Folder::new("quantize");
    weights(&folder);
    let words = ["quantize", "w.safetensors", "-o", "q.safetensors", "--format", "mxfp4"];
    let text = folder.succeeds(&words);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "tensor  shape            type                     SQNR   rms error   max error"
    );
    assert!(
        lines[1].starts_with("down    [2, 45]          f16 to fp4_e2m1 "),
        "{text}"
    );
    assert_eq!(
        lines[2],
        "up      [6, 64]          f32 to fp4_e2m1         exact     0.000e0     0.000e0"
    );
    assert!(lines[3].starts_with("all "), "{text}");
    assert!(lines[4].starts_with("2 tensors converted, 1 copied; "), "{text}");
    let json = folder.succeeds(&[&words[..], &["--report", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["tensors"][1]["name"], "up");
    assert_eq!(json["tensors"][1]["bytes_after"], 6 * 32 + 6 * 2);
    assert_eq!(json["tensors"][1]["metrics"]["sqnr_db"], serde_json::Value::Null);
    // 1 + i/1024 for i < 90 rounds to 1, so the errors are i/1024.
    let errors = (0..90).map(|i| (f64::from(i) / 1024.0).powi(2)).sum::<f64>() / 90.0;
    let rms = json["tensors"][0]["metrics"]["rms_error"].as_f64().unwrap();
    assert!((rms - errors.sqrt()).abs() < 1e-6 * rms, "{rms}");
    assert_eq!(json["tensors"][0]["metrics"]["max_error"].as_f64(), Some(89.0 / 1024.0));
    assert_eq!(json["copied"], 1);
    let back = folder.succeeds(&["dequantize", "q.safetensors", "-o", "b.safetensors"]);
    assert!(back.contains("down    [2, 45]          fp4_e2m1 to f16\n"), "{back}");
    let shown = folder.succeeds(&["config", "show", "b.safetensors"]);
    let wanted = "version = 1\n\n[tensors.bias]\ndtype = \"f32\"\ndimensions = [6]\nalignment = 128\n\n[tensors.down]\ndtype = \"f16\"\n\
                  dimensions = [45, 2]\n\n[tensors.up]\ndtype = \"f32\"\ndimensions = [64, 6]\nalignment = 128\n";
    assert_eq!(shown, wanted);
    let rest = ["--include", "up", "--report", "none"];
    assert_eq!(folder.succeeds(&[&words[..], &rest].concat()), "");
    let mut names: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["b.safetensors", "q.safetensors", "w.safetensors"]);
}

#[test]
fn quantize_refuses_with_reasons() {
    let folder = Folder::new("refuse");
    weights(&folder);
    fn quantize<'a>(rest: &[&'a str]) -> Vec<&'a str> {
        [&["quantize", "w.safetensors", "-o", "q.safetensors"], rest].concat()
    }
    assert_eq!(
        folder.fails(1, &quantize(&["--format", "int4", "--include", "nothing*"])),
        "error: w.safetensors: no tensor is left to quantise: of 3 tensors 2 are matrices of F32, F16 or BF16, but --include \
         [\"nothing*\"] and --exclude [] leave none of them"
    );
    let wrong = folder.fails(2, &quantize(&["--format", "uint4"]));
    assert!(
        wrong.contains("use mxfp4, mxfp8, mxfp8_e5m2, int8, int4 or int2 (unsigned integers need a zero point"),
        "{wrong}"
    );
    assert!(
        folder
            .fails(2, &quantize(&["--format", "int4", "--block", "64"]))
            .contains("64")
    );
    assert!(folder.fails(2, &quantize(&[])).contains("--format"));
    assert_eq!(
        folder.fails(1, &["dequantize", "w.safetensors", "-o", "b.safetensors"]),
        "error: w.safetensors: it has no quantised tensors (elements NAME with scales NAME.scales)"
    );
    folder.write("text.safetensors", "this is no safetensors file");
    assert_eq!(
        folder.fails(
            1,
            &[
                "quantize",
                "text.safetensors",
                "-o",
                "q.safetensors",
                "--format",
                "int8"
            ]
        ),
        "error: text.safetensors: not a usable safetensors file: its header would be longer than 100 MB; this is no safetensors file"
    );
    assert_eq!(
        folder.fails(1, &["config", "show", "no.safetensors"]),
        "error: no.safetensors: No such file or directory (os error 2)"
    );
    assert!(!folder.0.join("q.safetensors").exists());
}

const KERNEL: &str = "
#include <metal_stdlib>
#include <metal_tensor>
using namespace metal;

using scales_tag = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

kernel void product(tensor<device metal_fp4_e2m1_format, dextents<int, 2>, tensor_handle, scales_tag> up [[buffer(0)]],
                    tensor<device half, extents<int, 45, dynamic_extent>> x [[buffer(1)]],
                    device const float *bias [[buffer(2)]],
                    tensor<device float, dextents<short, 2>> out [[buffer(3)]],
                    uint2 i [[thread_position_in_grid]])
{
    out[i.x, i.y] = float(x[i.x, i.y]) + bias[i.y];
}
";

const CONFIG: &str = "
version = 1

[tensors.up]
dtype = \"fp4_e2m1\"
dimensions = [64, 6]
planes = { scales = { block_factors = [32, 1] } }

[tensors.bias]
dtype = \"float\"
dimensions = [6]

[tensors.activations]
dtype = \"half\"
dimensions = [45, 2]
argument = \"x\"
stored = false
";

#[test]
fn configs_that_agree() {
    let folder = Folder::new("agree");
    weights(&folder);
    folder.write("k.metal", KERNEL);
    folder.write("c.toml", CONFIG);
    folder.succeeds(&[
        "quantize",
        "w.safetensors",
        "-o",
        "q.safetensors",
        "--format",
        "mxfp4",
        "--include",
        "up",
    ]);
    let output = folder.run(&[
        "config",
        "check",
        "c.toml",
        "--kernel",
        "k.metal:product",
        "--weights",
        "q.safetensors",
    ]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "note: argument `out` of kernel `product` at buffer(3), a tensor of float (rank 2), is not in the config\n\
         note: q.safetensors: `down` not in the config\n"
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "k.metal:product: 3 of 3 tensors compared, 0 mismatches\nq.safetensors: 2 of 3 tensors compared, 0 mismatches\n"
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        folder.succeeds(&["config", "check", "c.toml"]),
        "c.toml: 3 tensors, all allowed by Metal's rules; --kernel and --weights compare further\n"
    );
    // A config that `show` wrote agrees with its file.
    let shown = folder.succeeds(&["config", "show", "q.safetensors"]);
    assert!(
        shown.contains("planes = { scales = { dtype = \"fp8_ue8m0\", block_factors = [32, 1] } }"),
        "{shown}"
    );
    folder.write("shown.toml", &shown);
    folder.succeeds(&["config", "check", "shown.toml", "--weights", "q.safetensors"]);
    assert_eq!(folder.succeeds(&["config", "show", "shown.toml"]), shown);
}

/// The mismatches of `CONFIG` with a replacement made.
fn mismatches(folder: &Folder, from: &str, to: &str, words: &[&str]) -> String {
    assert!(CONFIG.contains(from));
    folder.write("c.toml", &CONFIG.replacen(from, to, 1));
    let text = folder.fails(1, &[&["config", "check", "c.toml"], words].concat());
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    lines.join("\n")
}

#[test]
fn mismatches_with_a_kernel() {
    let folder = Folder::new("kernel");
    folder.write("k.metal", KERNEL);
    let found = |from: &str, to: &str| mismatches(&folder, from, to, &["--kernel", "k.metal:product"]);
    let up = "error: tensor `up`: kernel `product`, argument `up` at buffer(0): ";
    let x = "error: tensor `activations`: kernel `product`, argument `x` at buffer(1): ";
    for (from, to, wanted) in [
        (
            "\"fp4_e2m1\"",
            "\"fp8_e4m3\"",
            format!(
                "{up}the kernel's elements are metal_fp4_e2m1_format (fp4_e2m1), the config's fp8_e4m3; set dtype = \"fp4_e2m1\" and \
                 convert the weights, or use a kernel for metal_fp8_e4m3_format"
            ),
        ),
        (
            "planes = { scales = { block_factors = [32, 1] } }",
            "",
            format!(
                "{up}the kernel wants a scales plane with blocks [32, 1], the config has none; add planes = {{ scales = {{ block_factors = \
                 [32, 1] }} }} and quantise the weights with scales"
            ),
        ),
        (
            "dimensions = [64, 6]",
            "dimensions = [64, 3, 2]",
            format!(
                "{up}the kernel's tensor has rank 2, the config's rank 3 (dimensions [64, 3, 2], innermost first); give 2 dimensions"
            ),
        ),
        (
            "[45, 2]",
            "[2, 45]",
            format!(
                "{x}the kernel has the static extent 45 in dimension 0, the config 2 (dimensions [2, 45], innermost first); the order is \
                 innermost first: swap the two dimensions?"
            ),
        ),
        (
            "[45, 2]",
            "[44, 2]",
            format!("{x}the kernel has the static extent 45 in dimension 0, the config 44 (dimensions [44, 2], innermost first)"),
        ),
        (
            "argument = \"x\"",
            "argument = \"input\"",
            "error: tensor `activations`: kernel `product`: it has no argument `input` (it has: up, x, bias, out)".to_owned(),
        ),
        (
            "argument = \"x\"",
            "argument = \"up_\"",
            "error: tensor `activations`: kernel `product`: it has no argument `up_`; did you mean `up`? (it has: up, x, bias, out)"
                .to_owned(),
        ),
        (
            "\"float\"",
            "\"half\"",
            "error: tensor `bias`: kernel `product`, argument `bias` at buffer(2): the kernel reads float (f32) through a pointer, the \
             config's elements are f16; set dtype = \"f32\" and convert the weights, or use another kernel"
                .to_owned(),
        ),
        (
            "stored = false",
            "usage = [\"render\"]\nstored = false",
            format!("{x}the config's usage lacks \"compute\", which every kernel needs; add it"),
        ),
        (
            "[tensors.activations]\ndtype = \"half\"\ndimensions = [45, 2]\nargument = \"x\"",
            "[tensors.out]\ndtype = \"float\"\ndimensions = [32768, 2]",
            "error: tensor `out`: kernel `product`, argument `out` at buffer(3): dimension 0 is 32768, more than the kernel's index type \
             short holds; use a kernel with a wider one"
                .to_owned(),
        ),
    ] {
        assert_eq!(found(from, to), wanted);
    }
    folder.write("c.toml", CONFIG);
    assert_eq!(
        folder.fails(1, &["config", "check", "c.toml", "--kernel", "k.metal"]),
        "error: --kernel k.metal: write FILE.metal:NAME"
    );
    assert_eq!(
        folder.fails(1, &["config", "check", "c.toml", "--kernel", "k.metal:produkt"]),
        "error: k.metal has no kernel `produkt`; did you mean `product`? (it has: product)"
    );
    folder.write(
        "c.toml",
        "version = 1\n[tensors.z]\ndtype = \"f32\"\ndimensions = [1]\n",
    );
    let none = folder.fails(1, &["config", "check", "c.toml", "--kernel", "k.metal:product"]);
    assert!(none.ends_with(
        "error: tensor `*`: kernel `product`: no tensor of the config belongs to an argument (the kernel has: up, x, bias, out); add \
         `argument = \"NAME\"`"
    ));
}

#[test]
fn mismatches_with_a_weights_file() {
    let folder = Folder::new("file");
    weights(&folder);
    folder.succeeds(&[
        "quantize",
        "w.safetensors",
        "-o",
        "q.safetensors",
        "--format",
        "mxfp4",
        "--include",
        "up",
    ]);
    let found = |from: &str, to: &str, file: &str| mismatches(&folder, from, to, &["--weights", file]);
    let up = "error: tensor `up`: q.safetensors: ";
    for (from, to, wanted) in [
        (
            "\"fp4_e2m1\"",
            "\"int4\"",
            format!("{up}the file has fp4_e2m1, the config int4; set dtype = \"fp4_e2m1\", or convert the weights"),
        ),
        (
            "dimensions = [64, 6]",
            "dimensions = [64, 7]",
            format!("{up}the file has dimensions [64, 6] (shape [6, 64]), the config [64, 7] (innermost first)"),
        ),
        (
            "planes = { scales = { block_factors = [32, 1] } }",
            "",
            format!("{up}the file has scales, the config no scales plane; add planes = {{ scales = {{ block_factors = [32] }} }}"),
        ),
        (
            "[tensors.up]",
            "[tensors.upp]",
            "error: tensor `upp`: q.safetensors: it has no such tensor (of its 3); did you mean `up`?".to_owned(),
        ),
        (
            "[tensors.bias]",
            "[tensors.something]",
            "error: tensor `something`: q.safetensors: it has no such tensor (of its 3); write `stored = false` if it does not come from \
             this file"
                .to_owned(),
        ),
    ] {
        assert_eq!(found(from, to, "q.safetensors"), wanted);
    }
    let plain = found("version = 1", "version = 1 ", "w.safetensors");
    assert_eq!(
        plain,
        "error: tensor `up`: w.safetensors: the file has f32, the config fp4_e2m1; quantise it: anymetal quantize … --format fp4_e2m1 \
         --include 'up'\n\
         error: tensor `up`: w.safetensors: the config has a scales plane, the file has no fitting `up.scales` (F8_E8M0, one for 32 \
         elements of the last dimension); quantise with anymetal quantize, or remove the plane"
    );
    folder.write(
        "c.toml",
        "version = 1\n[tensors.down]\ndtype = \"f16\"\ndimensions = [2, 45]\nalignment = 16\n",
    );
    let text = folder.fails(
        1,
        &["config", "check", "c.toml", "--weights", "w.safetensors", "--json"],
    );
    assert_eq!(text, "");
    let output = folder.run(&["config", "check", "c.toml", "--weights", "w.safetensors", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["ok"], false);
    assert_eq!(
        json["places"][0]["mismatches"][0]["message"],
        "the file has dimensions [45, 2] (shape [2, 45]), the config [2, 45] (innermost first); the config's order is innermost first, \
         the reverse of the file's shape: turn it around"
    );
    let aligned = json["places"][0]["mismatches"][1]["message"].as_str().unwrap();
    assert!(
        aligned.starts_with("the data plane starts at byte ") && aligned.contains("which is no multiple of 16"),
        "{aligned}"
    );
}

#[test]
fn configs_that_mean_nothing() {
    let folder = Folder::new("config");
    let check = |text: &str| {
        folder.write("c.toml", text);
        folder.fails(1, &["config", "check", "c.toml"])
    };
    let tensor = |rest: &str| check(&format!("version = 1\n[tensors.a]\n{rest}"));
    assert_eq!(
        check("version = 2"),
        "error: c.toml: version = 2; this program reads version 1"
    );
    assert!(check("tensors = 3").starts_with("error: c.toml: TOML parse error at line 1, column 1"));
    assert!(check("version = 1\n[tensors.a]\ndtype = ").contains("at line 3, column 9"));
    assert!(tensor("dtype = \"f32\"\ndimensions = [1]\nstride = [1]").contains("unknown field `stride`"));
    assert!(tensor("dtype = \"f32\"\ndimensions = [-1]").contains("line 4"));
    for (rest, wanted) in [
        (
            "dtype = \"f64\"\ndimensions = [1]",
            "tensor `a`: dtype: `f64` is not an element format; known names are f32, f16, bf16, i8…i64, u8…u64, bool, int4, uint4, int2, \
             uint2, fp4_e2m1, fp8_e4m3, fp8_e5m2, fp8_ue8m0 and their Metal spellings",
        ),
        (
            "dtype = \"f32\"\ndimensions = [4, 0]",
            "tensor `a`: dimension 1 of the tensor is 0; every dimension must be greater than 0 (MTLTensorDomain code 2)",
        ),
        (
            "dtype = \"f32\"\ndimensions = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
            "tensor `a`: dimensions: a tensor has at most 16 dimensions, 17 were given",
        ),
        (
            "dtype = \"f32\"\ndimensions = [4]\nusage = [\"Compute\"]",
            "tensor `a`: usage: `Compute` is unknown; use \"compute\", \"render\" or \"machine-learning\"",
        ),
        (
            "dtype = \"f32\"\ndimensions = [4]\nalignment = 12",
            "tensor `a`: alignment: 12 is not a power of two",
        ),
        (
            "dtype = \"fp8_e4m3\"\ndimensions = [32]\nplanes = { scales = { block_factors = [16] } }",
            "tensor `a`: block factor 0 of the scales plane is 16; it must be 32 (MTLTensorDomain code 2)",
        ),
        (
            "dtype = \"int4\"\ndimensions = [64, 3]\nstrides = [1, 64]",
            "tensor `a`: strides[1] is 64 elements of int4; it must be a multiple of 128 bytes (256 elements) (MTLTensorDomain code 2)",
        ),
    ] {
        assert_eq!(tensor(rest), format!("error: c.toml: {wanted}"));
    }
}
