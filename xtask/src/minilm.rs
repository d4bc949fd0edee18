//! all-MiniLM-L6-v2 with a custom attention kernel: exported, run from the command line, compared with PyTorch.

use std::path::PathBuf;

use crate::python::{Environment, run};
use crate::steps::anymetal;

/// Exports the model, runs it on 50 sentences single and in padded batches, and compares.
pub fn check(environment: &Environment) -> Result<(), String> {
    let model = export(environment)?;
    let reference = environment.work_folder().join("minilm-reference");
    run(environment.script("minilm_reference.py").arg(&reference))?;
    let mut compare = environment.script("compare_minilm.py");
    compare
        .arg("--anymetal")
        .arg(anymetal())
        .arg("--model")
        .arg(&model)
        .arg("--reference")
        .arg(&reference);
    print!("{}", run(&mut compare)?);
    Ok(())
}

/// The folder with the exported assets and the tokenizer.
pub fn export(environment: &Environment) -> Result<PathBuf, String> {
    let folder = environment.work_folder().join("minilm");
    run(environment.script("export_minilm.py").arg(&folder))?;
    Ok(folder)
}
