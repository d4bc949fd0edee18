//! The PTX of every test kernel and of our own kernels, assembled for the chips that the CUDA backend supports. No GPU takes part.

use std::path::PathBuf;
use std::process::Command;

use crate::python::{Environment, run};
use crate::steps::{anymetal, root};

/// The package that has NVIDIA's assembler, about 40 MB.
const PACKAGE: &str = "nvidia-cuda-nvcc==13.5.37";

/// The chip that our own kernels are assembled for: without a spilled register, a stack, or an advisory.
const OURS: &str = "sm_90a";
/// Chips that the test kernels are assembled for; the others differ from sm_90a in few instructions.
const TESTS: &str = "sm_80,sm_90a,sm_100a,sm_120a";

/// Compiles and assembles.
pub fn check(environment: &Environment) -> Result<(), String> {
    let assembler = assembler(environment)?;
    for (chips, folders, more) in [
        (OURS, &["kernels"][..], &["--no-spills"][..]),
        (TESTS, &["tests/kernels", "tests/talk"][..], &[][..]),
    ] {
        let mut command = Command::new(anymetal());
        command.arg("test").args(folders).args(["--ptx", chips]);
        command.args(more).arg("--ptxas").arg(&assembler);
        print!("{}", run(command.current_dir(root()))?);
    }
    // The kernels of a model: the asset's own, ours, and those that are generated for it.
    let mut model = Command::new(anymetal());
    model
        .args(["run", "models/demo.aimodel", "--input", "ids=models/demo_ids.npy"])
        .args(["--ptx", "sm_80,sm_90a,sm_100a,sm_120a", "--ptxas"]);
    print!("{}", run(model.arg(&assembler).current_dir(root()))?);
    Ok(())
}

/// The assembler, fetched once and kept with the environment.
fn assembler(environment: &Environment) -> Result<PathBuf, String> {
    let folder = environment.work_folder().join("nvcc-13.5.37");
    let program = folder.join("nvidia/cu13/bin/ptxas");
    if program.exists() {
        return Ok(program);
    }
    println!("   fetching {PACKAGE} (once)");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    // Only the assembler is wanted, none of what the package depends on.
    let mut pip = Command::new(environment.interpreter());
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--only-binary=:all:", "--no-deps", "--target"]);
    run(pip.arg(&folder).arg(PACKAGE))?;
    if program.exists() {
        return Ok(program);
    }
    Err(format!("{PACKAGE} has no nvidia/cu13/bin/ptxas"))
}
