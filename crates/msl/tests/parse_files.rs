//! Every Metal source of the repository parses: the listings of the talk, the kernels, the annotated tests.

use std::path::{Path, PathBuf};

use anymetal_msl::{CompileOptions, parse};

fn metal_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            metal_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "metal") {
            out.push(path);
        }
    }
}

#[test]
fn all_sources_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for dir in ["kernels", "tests/talk", "tests/kernels"] {
        metal_files(&root.join(dir), &mut files);
    }
    files.sort();
    assert!(files.len() > 20, "the sources are missing");
    let options = CompileOptions {
        include_dirs: vec![root.join("kernels/include")],
        ..Default::default()
    };
    let mut failures = String::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        if let Err(d) = parse(&source, &file.display().to_string(), &options) {
            failures.push_str(&d.render());
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
