//! `anymetal test`: annotated kernels.

use std::path::PathBuf;

use anymetal::{Device, ExecutionOptions};

use super::Outcome;
use crate::binding::execution_option;
use crate::testing::junit::{self, Outcome as Result};
use crate::testing::runner;

/// Options of `test`.
#[derive(clap::Args)]
pub struct Options {
    /// Files or folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Run only files whose path contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Runs every file with this option of docs/test-format.md; what the file says comes after it
    #[arg(long = "option", value_name = "OPTION")]
    options: Vec<String>,
    /// Name every run, not only failures
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the tests.
pub fn run(options: &Options) -> Outcome {
    let device = Device::system_default();
    let mut execution = ExecutionOptions::default();
    for word in &options.options {
        execution = execution_option(execution, word).ok_or_else(|| format!("`{word}` is no execution option"))?;
    }
    let mut cases = Vec::new();
    for path in &options.paths {
        for file in runner::find(path)? {
            let wanted = options
                .filter
                .as_ref()
                .is_none_or(|text| file.display().to_string().contains(text.as_str()));
            if !wanted {
                continue;
            }
            for case in runner::run_file(&device, &file, &execution) {
                match &case.outcome {
                    Result::Passed if options.verbose => {
                        println!("ok      {} [{}] ({:.0} ms)", case.file, case.name, case.seconds * 1e3);
                    }
                    Result::Passed => {}
                    Result::Skipped(why) => {
                        println!("skipped {} [{}]: {why}", case.file, case.name)
                    }
                    Result::Failed(why) => {
                        println!("FAILED  {} [{}]\n{}", case.file, case.name, indent(why))
                    }
                }
                cases.push(case);
            }
        }
    }
    if let Some(path) = &options.junit {
        std::fs::write(path, junit::render(&cases)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if cases.is_empty() {
        return Err("no annotated kernel found; docs/test-format.md says what a test looks like".to_string());
    }
    let failed = cases
        .iter()
        .filter(|case| matches!(case.outcome, Result::Failed(_)))
        .count();
    let skipped = cases
        .iter()
        .filter(|case| matches!(case.outcome, Result::Skipped(_)))
        .count();
    println!(
        "tile path {}: {} passed, {failed} failed, {skipped} skipped",
        device.tile_path(),
        cases.len() - failed - skipped
    );
    Ok(failed == 0)
}

fn indent(text: &str) -> String {
    text.trim_end()
        .lines()
        .map(|line| format!("        {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
