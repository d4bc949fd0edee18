//! Every Metal source of the repository compiles, verifies and optimises; the refused ones say why.

use std::path::{Path, PathBuf};

use anymetal_msl::{CompileOptions, Library};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(root().join(folder))
        .expect("the folder is part of the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "metal"))
        .collect();
    out.sort();
    out
}

/// The flags of each run of a file: the common ones, and its own after them.
fn flags_of_runs(source: &str) -> Vec<Vec<&str>> {
    let mut common = Vec::new();
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for line in source.lines().take_while(|line| line.starts_with("//")) {
        if line.starts_with("// run:") {
            runs.push(common.clone());
        } else if let Some(flags) = line.strip_prefix("// flags:") {
            runs.last_mut().unwrap_or(&mut common).push(flags);
        }
    }
    if runs.is_empty() {
        runs.push(common);
    }
    runs.dedup();
    runs
}

/// Compiles a file and every kernel in it, with the flags of each run; the error is what a user would see.
fn compile(path: &Path) -> Result<(), String> {
    let source = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    flags_of_runs(&source)
        .iter()
        .try_for_each(|flags| compile_with(path, &source, flags))
}

fn compile_with(path: &Path, source: &str, flags: &[&str]) -> Result<(), String> {
    let mut options = CompileOptions {
        include_dirs: vec![root().join("kernels/include")],
        lenient: source.contains("// option: lenient"),
        ..CompileOptions::default()
    };
    for line in flags {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2).filter(|pair| pair[0] == "-D") {
            let (name, value) = pair[1].split_once('=').unwrap_or((pair[1], "1"));
            options.defines.push((name.to_string(), Some(value.to_string())));
        }
    }
    let name = path.display().to_string();
    let library = Library::compile(source, &name, &options).map_err(|error| error.render())?;
    if library.kernels().is_empty() {
        return Err("no kernel".to_string());
    }
    for kernel in library.kernels() {
        let mut lowered = library
            .specialize(&kernel.name, &Default::default())
            .map_err(|error| format!("{}: {}", kernel.name, error.render()))?;
        anymetal_ir::verify::verify(&lowered).map_err(|error| format!("{}: {error}", kernel.name))?;
        anymetal_ir::passes::optimize(&mut lowered);
        anymetal_ir::verify::verify(&lowered).map_err(|error| format!("{} after optimize: {error}", kernel.name))?;
    }
    Ok(())
}

fn check(folder: &str) {
    let mut failures = Vec::new();
    for path in sources(folder) {
        let source = std::fs::read_to_string(&path).expect("readable");
        let refused = source.lines().any(|line| line.starts_with("// error:"));
        let several = source.lines().any(|line| line.starts_with("// run:"));
        if refused && several {
            continue;
        }
        match (compile(&path), refused) {
            (Ok(()), false) | (Err(_), true) => {}
            (Ok(()), true) => failures.push(format!("{}: compiles, but should be refused", path.display())),
            (Err(error), false) => failures.push(format!("{}:\n{error}", path.display())),
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[test]
fn kernels_compile() {
    check("kernels");
}

#[test]
fn talk_compiles() {
    check("tests/talk");
}

#[test]
fn test_kernels_compile() {
    check("tests/kernels");
}
