//! Each source in `tests/errors` is refused with exactly the text that stands beside it, in `NAME.expected`.
//!
//! After an intended change of a text run the test with `UPDATE_EXPECTED=1` and review the difference.

use std::path::{Path, PathBuf};

use anymetal_msl::{CompileOptions, Library};

/// The compiler flags in the first comment lines: `// flags: -std=metal3.2`.
fn options(source: &str) -> CompileOptions {
    let mut options = CompileOptions {
        allow_files: false,
        ..Default::default()
    };
    for line in source.lines().take_while(|l| l.starts_with("//")) {
        let Some(flags) = line.strip_prefix("// flags:") else {
            continue;
        };
        for flag in flags.split_whitespace() {
            match flag.strip_prefix("-std=") {
                Some(std) => options.std = std.parse().unwrap(),
                None if flag == "--lenient" => options.lenient = true,
                None => panic!("unknown flag {flag}"),
            }
        }
    }
    options
}

#[test]
fn texts_are_exact() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/errors");
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "metal"))
        .collect();
    files.sort();
    assert!(files.len() >= 20, "the sources are missing");
    let mut failures = Vec::new();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let source = std::fs::read_to_string(&path).unwrap();
        let actual = match Library::compile(&source, name, &options(&source)) {
            Ok(_) => "it compiles\n".to_string(),
            Err(d) => d.render(),
        };
        let beside = path.with_extension("expected");
        if update {
            std::fs::write(&beside, &actual).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if actual != expected || actual == "it compiles\n" {
            failures.push(format!("{name}: expected\n{expected}actual\n{actual}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
