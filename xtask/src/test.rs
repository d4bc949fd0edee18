//! `cargo xtask test`: everything that this machine can check, with each skip named.

use std::process::Command;

use crate::python::{self, Environment};
use crate::steps::{Tally, anymetal, cargo, root};
use crate::{block_weights, minilm, ptx};

/// Flags of `cargo xtask test`.
pub struct Options {
    require_python: bool,
    python: bool,
}

impl Options {
    /// Reads the flags.
    pub fn parse(flags: &[&str]) -> Result<Self, String> {
        let mut options = Options {
            require_python: false,
            python: true,
        };
        for &flag in flags {
            match flag {
                "--require-python" => options.require_python = true,
                "--no-python" => options.python = false,
                other => return Err(format!("`cargo xtask test` has no flag `{other}`")),
            }
        }
        Ok(options)
    }
}

/// The steps that need the Python environment, with what they check.
pub const PYTHON_STEPS: [&str; 3] = [
    "MiniLM against PyTorch (real weights, custom attention kernel)",
    "SmolLM2's Q4_1 weights decoded in kernels against NumPy",
    "PTX of all kernels assembled for sm_80, sm_90a, sm_100a and sm_120a",
];

/// Runs all tests; true if they passed.
pub fn run(options: &Options) -> Result<bool, String> {
    let mut tally = Tally::default();
    tally.command(
        "build",
        &mut cargo(&["build", "--release", "--package", "anymetal-cli"]),
    );
    tally.command(
        "Rust tests",
        &mut cargo(&["test", "--release", "--workspace", "--quiet"]),
    );
    for path in tile_paths()? {
        for folder in ["tests/kernels", "tests/talk"] {
            let mut command = Command::new(anymetal());
            command
                .args(["test", folder])
                .current_dir(root())
                .env("ANYMETAL_CPU", &path);
            tally.command(&format!("{folder} on the {path} path"), &mut command);
        }
    }
    tally.command(
        "tests/errors",
        Command::new(anymetal())
            .args(["test", "tests/errors"])
            .current_dir(root()),
    );
    // Kernels that ask where their elements are give the same with another layout; the files say which do not ask.
    tally.command(
        "kernels with another layout of cooperative tensors",
        Command::new(anymetal())
            .args(["test", "--option", "layout=permuted", "tests/kernels", "tests/talk"])
            .current_dir(root()),
    );
    tally.command("demo", Command::new(anymetal()).arg("demo").current_dir(root()));
    if options.python {
        match Environment::open() {
            Ok(environment) => {
                tally.step(PYTHON_STEPS[0], || minilm::check(&environment));
                tally.step(PYTHON_STEPS[1], || block_weights::check(&environment));
                tally.step(PYTHON_STEPS[2], || ptx::check(&environment));
            }
            Err(why) => PYTHON_STEPS.iter().for_each(|step| tally.skip(step, &why)),
        }
    } else {
        PYTHON_STEPS.iter().for_each(|step| tally.skip(step, "--no-python"));
    }
    Ok(tally.finish(options.require_python))
}

/// The tile paths that this machine has, from `anymetal devices --json`.
fn tile_paths() -> Result<Vec<String>, String> {
    let text = python::run(Command::new(anymetal()).args(["devices", "--json"]).current_dir(root()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("`anymetal devices --json` printed no JSON: {error}"))?;
    let paths = value["devices"][0]["tile_paths"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names: Vec<String> = paths
        .iter()
        .filter_map(|path| path.as_str().map(str::to_string))
        .collect();
    if names.is_empty() {
        return Err("`anymetal devices --json` names no tile path".to_string());
    }
    Ok(names)
}
