//! The sanitizer from the outside: exact messages, exit codes, JSON, the page of codes, and no finding on clean kernels.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn anymetal(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anymetal"))
        .args(words)
        .current_dir(repository())
        .env("NO_COLOR", "1")
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("messages are text")
}

const RACE: [&str; 9] = [
    "kernel",
    "run",
    "tests/sanitize/race_threadgroup.metal",
    "--arg",
    "0: buffer float[64] = iota",
    "--arg",
    "1: buffer float[64] = zeros",
    "--threads",
    "64",
];

#[test]
fn a_race_names_both_lines_and_what_to_do() {
    let output = anymetal(&[&RACE[..], &["--sanitize"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let expected = "\
error[S0101]: data race on threadgroup memory `tile[63]`: nothing orders two accesses and one of them writes it (kernel `reverse`)
  --> tests/sanitize/race_threadgroup.metal:22:12
   |
21 |     tile[t] = x[t];
   |     - thread 63 writes it here
22 |     y[t] = tile[63 - t];
   |            ^ thread 0 reads `tile[63]` here
   = note: they are in different SIMD-groups (here: threadgroup (0, 0, 0))
   = note: seen 64 times at these lines
   = help: put `threadgroup_barrier(mem_flags::mem_threadgroup)` between the two lines
";
    assert_eq!(text(&output.stderr), expected);
    assert!(text(&output.stdout).ends_with("sanitizer: 1 finding\n"));
    // Without the sanitizer nothing is wrong.
    assert_eq!(anymetal(&RACE).status.code(), Some(0));
}

#[test]
fn findings_in_json() {
    let output = anymetal(&[&RACE[..], &["--sanitize", "--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let finding = &report["findings"][0];
    assert_eq!(finding["code"], "S0101");
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["span"]["line"], 22);
    assert_eq!(finding["secondary"][0]["line"], 21);
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1));
}

#[test]
fn static_findings_need_no_run() {
    let output = anymetal(&["check", "--sanitize", "--json", "tests/sanitize/loop_overwrites.metal"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let codes: Vec<(&str, u64)> = report["diagnostics"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|d| {
            (
                d["code"].as_str().unwrap_or(""),
                d["span"]["line"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(codes, [("S0404", 26), ("S0404", 35)]);
    let output = anymetal(&["check", "--sanitize", "kernels/matmul.metal"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("sanitizer: no findings\n"));
}

#[test]
fn an_endless_loop_is_named() {
    let words = [
        "kernel",
        "run",
        "tests/sanitize/endless.metal",
        "--sanitize",
        "--budget",
        "1000",
    ];
    let output = anymetal(&words);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.starts_with("error[S0604]: the kernel ran past its budget"),
        "{error}"
    );
    assert!(
        error.contains("= help: look for a loop whose condition never becomes false"),
        "{error}"
    );
}

#[test]
fn planted_bugs_are_found() {
    let output = anymetal(&["test", "tests/sanitize"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn clean_kernels_have_no_findings() {
    let output = anymetal(&["test", "--option", "sanitize", "tests/kernels", "tests/talk"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn the_page_lists_every_code_and_a_test_plants_it() {
    let page = std::fs::read_to_string(repository().join("docs/sanitizer.md")).expect("the page");
    let listed: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| S"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let known: Vec<&str> = anymetal::FindingCode::ALL
        .iter()
        .map(|code| &code.as_str()[1..])
        .collect();
    assert_eq!(listed, known);
    let mut planted = String::new();
    for entry in std::fs::read_dir(repository().join("tests/sanitize")).expect("the folder") {
        planted += &std::fs::read_to_string(entry.expect("an entry").path()).expect("a file");
    }
    let missing: Vec<&str> = anymetal::FindingCode::ALL
        .iter()
        .map(|code| code.as_str())
        // A budget is no property of a file; see `an_endless_loop_is_named`.
        .filter(|&code| code != "S0604" && !planted.contains(&format!("// finding: {code} ")))
        .collect();
    assert!(missing.is_empty(), "no planted bug for {missing:?}");
}
