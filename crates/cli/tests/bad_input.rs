//! Wrong input to the command: exit code and exact text of every refusal, and no panic, no wait, nothing left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn anymetal(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anymetal"))
        .args(words)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command starts")
}

/// Standard error of a command that must end with `code`, and print nothing else.
fn refused(folder: &Path, code: i32, words: &[&str]) -> String {
    let output = anymetal(folder, words);
    let error = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
    assert_eq!(output.stdout, b"", "{words:?}");
    error.trim_end().to_string()
}

/// `kernel run` of a kernel in `bad_input/kernels.metal`, which must fail.
fn kernel(name: &str, rest: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_input");
    let words = [&["kernel", "run", "kernels.metal", "--kernel", name], rest].concat();
    refused(&folder, 1, &words)
}

/// `kernel ptx` of the kernel `add` for threadgroups of a size.
fn ptx(threadgroup: &str) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_input");
    let words = [
        "kernel",
        "ptx",
        "kernels.metal",
        "--kernel",
        "add",
        "--arch",
        "sm_90a",
        "--threadgroup",
    ];
    anymetal(&folder, &[&words[..], &[threadgroup]].concat())
}

#[test]
fn ptx_for_a_threadgroup() {
    let text = |size| String::from_utf8(ptx(size).stdout).expect("PTX is text");
    assert!(text("64,2").contains(".visible .entry"));
    assert_ne!(text("64,2"), text("32,4"), "the size is a part of the code");
    for (size, error) in [
        ("64,4,0", "--threadgroup 64,4,0: a threadgroup has 1 to 1024 threads"),
        (
            "4000,4000,4000",
            "--threadgroup 4000,4000,4000: a threadgroup has 1 to 1024 threads",
        ),
        ("1,1,1,1", "--threadgroup takes up to three numbers"),
    ] {
        let output = ptx(size);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{size}");
        let message = String::from_utf8(output.stderr).expect("messages are text");
        assert_eq!(message.trim_end(), format!("error: {error}"));
    }
}

const FLOATS: [&str; 4] = ["--arg", "0: buffer float[4] = iota", "--arg", "1: buffer float[4]"];

fn add(rest: &[&str]) -> String {
    kernel("add", &[&FLOATS, rest].concat())
}

#[test]
fn arguments_that_do_not_fit_the_kernel() {
    assert_eq!(
        kernel("add", &[]),
        "error: kernel `add` takes 3 arguments, 0 bound: `x` at buffer(0) (a buffer (`device float*`)) is missing"
    );
    assert_eq!(
        add(&[]),
        "error: kernel `add` takes 3 arguments, 2 bound: `n` at buffer(2) (a buffer (`constant uint&`)) is missing"
    );
    assert_eq!(
        add(&["--arg", "2: bytes = uint 4", "--arg", "9: buffer float[4]"]),
        "error: kernel `add` has no buffer(9); it takes [0, 1, 2]"
    );
    assert_eq!(
        add(&["--arg", "0: buffer float[2]"]),
        "error: argument 0 is given twice"
    );
    assert_eq!(
        kernel("add", &["--arg", "4294967296: buffer float[4]"]),
        "error: `4294967296: buffer float[4]`: write --arg \"N: buffer float[8] = iota\""
    );
    let half_tensor = |extents: &str| {
        kernel(
            "element",
            &["--arg", &format!("0: {extents}"), "--arg", "1: buffer float[1]"],
        )
    };
    assert_eq!(
        half_tensor("tensor half (4)"),
        "error: argument `x` of kernel `element` at buffer(0) is a tensor of rank 2, the bound tensor has rank 1 \
         (dimensions [4], innermost first)"
    );
    assert_eq!(
        half_tensor("tensor float (4, 4)"),
        "error: argument `x` of kernel `element` at buffer(0) is a tensor of f16 (half), the bound tensor has f32 (float)"
    );
    assert_eq!(
        half_tensor("buffer half[16]"),
        "error: argument `x` of kernel `element` at buffer(0) is a tensor of half (rank 2), but a buffer is bound there"
    );
    assert_eq!(
        kernel(
            "fixed",
            &["--arg", "0: tensor half (32, 17)", "--arg", "1: buffer float[1]"]
        ),
        "error: argument `x` of kernel `fixed` at buffer(0) has the static extent 16 in dimension 1, the bound tensor has \
         17 there (dimensions [32, 17], innermost first)"
    );
    assert_eq!(
        add(&["--arg", "2: bytes = uchar 4"]),
        "error: argument `n` of kernel `add` at buffer(2) is a `uint` of 4 bytes, but only 1 bytes are bound"
    );
    assert_eq!(
        kernel("ad", &FLOATS),
        "error: kernels.metal has no kernel `ad`; did you mean `add`? (it has: add, element, fixed, misaligned, product, \
         endless, shared, half_barrier)"
    );
}

#[test]
fn kernels_that_do_wrong() {
    assert_eq!(
        add(&["--arg", "2: bytes = uint 5"]),
        "error: out-of-bounds read of 4 bytes at byte offset 16 of device 'x', which has 16 bytes (index 4 of 4 elements)\n  \
         --> kernels.metal:13:17 in kernel 'add'\n  \
         thread (4, 0, 0) of the grid, index 4 in threadgroup (0, 0, 0)"
    );
    assert_eq!(
        kernel(
            "misaligned",
            &["--arg", "0: buffer char[64]", "--arg", "1: buffer float[1]"]
        ),
        "error: misaligned read at byte offset 1 of 'x': its type needs a multiple of 4\n  \
         --> kernels.metal:28:12 in kernel 'misaligned'\n  \
         thread (0, 0, 0) of the grid, index 0 in threadgroup (0, 0, 0)"
    );
    assert_eq!(
        kernel(
            "product",
            &[
                "--arg",
                "0: tensor half (32, 32)",
                "--arg",
                "1: tensor half (32, 32)",
                "--arg",
                "2: tensor float (32, 32)",
            ]
        ),
        "error: kernel `product`: an operation of scope execution_simdgroups<4> at kernels.metal:37:5 needs threadgroups of \
         exactly 4 SIMD-groups (128 threads), but the threadgroup size (32, 1, 1) makes 1 SIMD-group"
    );
    assert_eq!(
        kernel("endless", &["--arg", "0: buffer int[1]", "--budget", "100000"]),
        "error: the kernel ran past its budget of 100000 instructions (an endless loop?)\n  \
         --> kernels.metal:42:5 in kernel 'endless'\n  \
         thread (0, 0, 0) of the grid, index 0 in threadgroup (0, 0, 0)"
    );
    assert_eq!(
        kernel("shared", &["--arg", "0: buffer float[32]", "--threadgroup", "0=64"]),
        "error: out-of-bounds write of 4 bytes at byte offset 64 of threadgroup 's', which has 64 bytes (index 16 of 16 elements)\n  \
         --> kernels.metal:50:5 in kernel 'shared'\n  \
         thread (16, 0, 0) of the grid, index 16 in threadgroup (0, 0, 0)"
    );
    assert_eq!(
        kernel("half_barrier", &["--arg", "0: buffer float[32]"]),
        "error: only 16 of 32 threads reached the barrier: barriers must be in uniform control flow\n  \
         --> kernels.metal:57:9 in kernel 'half_barrier'\n  \
         thread (0, 0, 0) of the grid, index 0 in threadgroup (0, 0, 0)"
    );
    assert_eq!(
        refused(
            &repository(),
            1,
            &[
                "kernel",
                "run",
                "tests/kernels/fault_static_overhang.metal",
                "--arg",
                "0: tensor half (32, 20)",
                "--arg",
                "1: tensor half (32, 32)",
                "--arg",
                "2: tensor float (32, 20)",
            ]
        ),
        "error: a static extent of 32 from 0 in dimension 1 goes past the end of tensor 'a' with extents (32, 20) (innermost \
         first); in framework order dimension 0 of shape (20, 32). This is undefined on a Mac: take a dynamic slice at the \
         edge, or allow it with static-overhang zero\n  \
         --> tests/kernels/fault_static_overhang.metal:26:5 in kernel 'overhang'\n  \
         thread (0, 0, 0) of the grid, index 0 in threadgroup (0, 0, 0)"
    );
}

#[test]
fn sizes_that_no_device_has() {
    let n = ["--arg", "2: bytes = uint 4"];
    for (rest, error) in [
        (
            ["--grid", "threads 0"],
            "the grid size is (0, 1, 1); every dimension must be at least 1",
        ),
        (
            ["--grid", "threads 18446744073709551615"],
            "the grid (18446744073709551615, 1, 1) is too large; positions in the grid have 32 bits",
        ),
        (
            ["--threads", "0"],
            "the threadgroup size is (0, 1, 1); every dimension must be at least 1",
        ),
        (
            ["--threads", "32 32 2"],
            "a threadgroup of (32, 32, 2) has 2048 threads, but the device allows 1024",
        ),
    ] {
        assert_eq!(add(&[&n[..], &rest].concat()), format!("error: kernel `add`: {error}"));
    }
    assert_eq!(
        kernel("add", &["--arg", "0: buffer float[8589934592]"]),
        "error: argument 0: too many elements; all arguments together can have 268435456"
    );
    assert_eq!(
        kernel("add", &["--arg", "0: tensor half (4294967296, 4294967296)"]),
        "error: argument 0: too many elements; all arguments together can have 268435456"
    );
    assert_eq!(
        kernel(
            "shared",
            &["--arg", "0: buffer float[32]", "--threadgroup", "0=99999999999999"]
        ),
        "error: kernel `shared` uses 99999999999999 bytes of threadgroup memory (0 declared, 99999999999999 set by the \
         dispatch), the device has 32768"
    );
}

#[test]
fn results_that_cannot_be_given() {
    let n = ["--arg", "2: bytes = uint 4"];
    for (rest, error) in [
        (["--print", "2"], "argument 2 has no elements to print"),
        (["--save", "2=x.npy"], "argument 2 has no elements to save"),
        (
            ["--save", "1=no/such/folder/x.npy"],
            "no/such/folder/x.npy: No such file or directory (os error 2)",
        ),
        (
            ["--expect", "1: matmul(7, 8)"],
            "the reference reads argument 7, which has no values",
        ),
    ] {
        assert_eq!(add(&[&n[..], &rest].concat()), format!("error: {error}"), "{rest:?}");
    }
}

/// A copy of the shipped model in a folder of its own.
fn model(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("anymetal-bad-input-{test}-{}", std::process::id()));
    let copy = folder.join("m.aimodel");
    std::fs::create_dir_all(&copy).expect("a temporary folder");
    for entry in std::fs::read_dir(repository().join("models/demo.aimodel")).expect("the model") {
        let from = entry.expect("the model").path();
        std::fs::copy(&from, copy.join(from.file_name().expect("a file"))).expect("a copy");
    }
    folder
}

#[test]
fn inputs_that_the_model_does_not_take() {
    let run = |rest: &[&str]| refused(&repository(), 1, &[&["run", "models/demo.aimodel"], rest].concat());
    assert_eq!(
        run(&[]),
        "error: input \"ids\" is missing; the function takes ids: int32[1, ?]"
    );
    for (word, error) in [
        ("idz=1", "the function has no input `idz`; it has ids int32[1, ?]"),
        ("ids", "`ids`: write NAME=VALUE; the inputs are ids int32[1, ?]"),
        (
            "ids=2x3:1,2,3,4,5,6",
            "\"ids\" has an invalid shape: [2, 3], expected: [1, ?]",
        ),
        (
            "ids=3x12297829382473034411:1",
            "input ids: 1 numbers are given for the shape [3, 12297829382473034411]",
        ),
        (
            "ids=1,x",
            "input ids: `x` is no number (numbers are separated by commas; files end in .npy; text begins with text:)",
        ),
        (
            "ids=no.npy",
            "input ids: no.npy: No such file or directory (os error 2)",
        ),
        ("ids=text:hello", "a text input needs --tokenizer tokenizer.json"),
        (
            "ids=1,999999",
            "primitive.gather_nd_v1: index 999999 is out of bounds for a dimension of 256",
        ),
    ] {
        assert_eq!(run(&["--input", word]), format!("error: {error}"));
    }
    assert_eq!(
        run(&["--input", "ids=1", "--input", "ids=2"]),
        "error: input ids is given twice"
    );
    assert_eq!(
        run(&["--input", "ids=1", "--function", "predict"]),
        "error: no function named \"predict\"; the model has main"
    );
}

#[test]
fn arrays_of_another_type_or_damaged() {
    let folder = model("npy");
    for (header, data, error) in [
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }",
            12,
            "a.npy holds f32, the model takes int32",
        ),
        (
            "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 3), }",
            8,
            "a.npy: not a usable .npy file: 12 bytes of data are needed, 8 are there",
        ),
        (
            "{'descr': '<i4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }",
            8,
            "a.npy: not a usable .npy file: the shape is too large",
        ),
        (
            "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 3), }",
            12,
            "a.npy: not a usable .npy file: Fortran order; save it with numpy.ascontiguousarray",
        ),
        ("", 0, "a.npy: not a usable .npy file: the header has no 'descr'"),
    ] {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend_from_slice(&(header.len() as u16).to_le_bytes());
        file.extend_from_slice(header.as_bytes());
        file.resize(file.len() + data, 0);
        std::fs::write(folder.join("a.npy"), &file).expect("a file");
        assert_eq!(
            refused(&folder, 1, &["run", "m.aimodel", "--input", "ids=a.npy"]),
            format!("error: input ids: {error}")
        );
    }
    std::fs::remove_dir_all(folder).expect("cleaning up");
}

#[test]
fn assets_that_are_damaged() {
    let folder = model("asset");
    let program = folder.join("m.aimodel/main.mlirb");
    let good = std::fs::read(&program).expect("the program");
    let hash: String = std::fs::read(folder.join("m.aimodel/main.hash"))
        .expect("the hash")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let output = folder.join("out");
    let run = |rest: &[&str]| {
        let words = [&["run", "m.aimodel", "--input", "ids=1,2", "--output", "out"], rest].concat();
        let error = refused(&folder, 1, &words);
        assert!(!output.exists(), "a refused model leaves no output");
        error
    };
    let mut flipped = good.clone();
    flipped[5000] ^= 1;
    for damaged in [&good[..1000], &flipped[..], &[]] {
        std::fs::write(&program, damaged).expect("a file");
        let error = run(&[]);
        let start =
            format!("error: m.aimodel/main.mlirb: the file does not match main.hash (expected SHA-256 {hash}, found ");
        assert!(error.starts_with(&start), "{error}");
        assert!(
            error.ends_with("); it is damaged or was changed: copy or export it again, or allow a wrong hash"),
            "{error}"
        );
    }
    std::fs::write(&program, &good[..1000]).expect("a file");
    let error = run(&["--allow-wrong-hash"]);
    assert!(
        error.ends_with("the asset is truncated or damaged: copy or export it again"),
        "{error}"
    );
    std::fs::write(&program, &good).expect("a file");
    std::fs::write(folder.join("m.aimodel/metadata.json"), "{\"assetVersion\": \"99.0\"}").expect("a file");
    assert_eq!(
        run(&[]),
        "error: m.aimodel/metadata.json: asset version \"99.0\" is not supported (this reader knows version 2); export the \
         model with coreai-core 1.0"
    );
    std::fs::remove_dir_all(folder).expect("cleaning up");
}

#[test]
fn a_kernel_in_an_asset_that_does_not_compile() {
    assert_eq!(
        refused(
            &repository().join("crates/coreai/tests/assets"),
            1,
            &[
                "run",
                "kernel_broken.aimodel",
                "--input",
                "x=kernel_broken.x.npy",
                "--input",
                "y=kernel_broken.y.npy",
            ]
        ),
        "error: kernel_broken.aimodel: kernel \"broken_lcrlqqhb\" in the asset does not compile:\n\
         error[E0433]: unknown name 'undefined_name'\n \
         --> broken_lcrlqqhb.metal:7:244\n  \
         |\n\
         7 | …fer(1)]], uint id [[thread_position_in_grid]]) { y[id] = x[id] + undefined_name; }\n  \
         |                                                                   ^^^^^^^^^^^^^^"
    );
}

#[test]
fn command_lines_that_are_wrong() {
    let here = repository();
    assert_eq!(
        refused(&here, 2, &["check", "-std=metal9", "x.metal"]),
        "error: unknown language version 'metal9': use metal3.0, metal3.1, metal3.2, metal4.0 or metal4.1"
    );
    assert_eq!(
        refused(&here, 2, &["check", "x.metal", "-I"]),
        "error: `-I` needs a value"
    );
    for words in [
        &["quantise"][..],
        &["kernel"],
        &["kernel", "run"],
        &["run", "m.aimodel", "--batch", "many"],
    ] {
        refused(&here, 2, words);
    }
    for (words, error) in [
        (
            &["check", "no.metal"][..],
            "error: cannot read no.metal: No such file or directory (os error 2)",
        ),
        (
            &["check", "docs"],
            "error: cannot read docs: Is a directory (os error 21)",
        ),
        (
            &["inspect", "docs"],
            "error: docs: not a Core AI asset; an .aimodel is a directory that holds main.mlirb, main.hash and metadata.json",
        ),
        (
            &["test", "docs"],
            "error: no annotated kernel found; docs/test-format.md says what a test looks like",
        ),
    ] {
        assert_eq!(refused(&here, 1, words), error);
    }
}
