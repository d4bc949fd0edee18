//! all-MiniLM-L6-v2 with a custom attention kernel: exported, run from the command line, compared with PyTorch.

use std::process::Command;

use crate::python::{Environment, run};
use crate::steps::anymetal;

/// Exports the model (once), runs it on 50 sentences single and in padded batches, and compares.
pub fn check(environment: &Environment) -> Result<(), String> {
    let work = environment.work_folder().join("minilm");
    let exported = export(environment)?;
    let mut reference = environment.script("minilm_reference.py");
    run(reference.arg("--output").arg(&work))?;
    let mut compare = environment.script("compare_minilm.py");
    let report = run(compare
        .arg("--anymetal")
        .arg(anymetal())
        .arg("--model")
        .arg(&exported)
        .arg("--reference")
        .arg(&work))?;
    print!("{report}");
    Ok(())
}

/// The exported asset, made once for each state of the exporter and the kernels.
pub fn export(environment: &Environment) -> Result<std::path::PathBuf, String> {
    let asset = environment.work_folder().join("minilm.aimodel");
    let mut export: Command = environment.script("export_minilm.py");
    run(export.arg("--output").arg(&asset))?;
    Ok(asset)
}
