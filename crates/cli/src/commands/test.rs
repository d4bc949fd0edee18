//! `anymetal test`: annotated kernels.

use std::path::PathBuf;
use std::time::Duration;

use anymetal::ptx::Target;
use anymetal::{Device, ExecutionOptions, WholeFile};

use super::{Outcome, text};
use crate::binding::execution_option;
use crate::testing::isolated::{self, Workers};
use crate::testing::junit::{self, Case, Outcome as Result};
use crate::testing::{assemble, runner};

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
    /// Where they run: cpu, cuda, cuda:N
    #[arg(long, default_value = "cpu")]
    device: String,
    /// On a GPU: check every access
    #[arg(long)]
    checked: bool,
    /// Run the tests in processes of their own, as on a GPU, so that one that never ends or takes the process down is a failure of its own
    #[arg(long)]
    isolated: bool,
    /// Such processes at the same time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Seconds that a run may take in one
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Instead of running them, compile the kernels of all runs to PTX for these chips: sm_80,sm_90a,sm_100a,sm_120a
    #[arg(long, value_name = "ARCH", value_delimiter = ',')]
    ptx: Vec<Target>,
    /// Assemble that PTX with this program, and report what it says
    #[arg(long, value_name = "PROGRAM", requires = "ptx")]
    ptxas: Option<PathBuf>,
    /// Fail where it says that registers are spilled, that there is a stack, or that tensor products wait for each other
    #[arg(long, requires = "ptxas")]
    no_spills: bool,
    /// A process that runs the files on its standard input
    #[arg(long, hide = true)]
    worker: bool,
}

/// Runs the tests.
pub fn run(options: &Options) -> Outcome {
    let mut execution = ExecutionOptions::default().with_checked(options.checked);
    for word in &options.options {
        execution = execution_option(execution, word).ok_or_else(|| format!("`{word}` is no execution option"))?;
    }
    if options.worker {
        let device = Device::by_name(&options.device).map_err(text)?;
        if isolated::work(&device, &execution)? {
            std::process::exit(isolated::LOST.into());
        }
        return Ok(true);
    }
    let mut files = Vec::new();
    for path in &options.paths {
        files.extend(runner::find(path)?);
    }
    files.retain(|file| {
        let wanted = options.filter.as_ref();
        wanted.is_none_or(|text| file.display().to_string().contains(text.as_str()))
    });
    if !options.ptx.is_empty() {
        return assemble::run(
            &files,
            &assemble::Plan {
                targets: &options.ptx,
                ptxas: options.ptxas.as_deref(),
                no_spills: options.no_spills,
                verbose: options.verbose,
            },
            &execution,
        );
    }
    let device = Device::by_name(&options.device).map_err(text)?;
    let mut cases: Vec<Case> = Vec::new();
    let mut keep = |case: Case| {
        show(&case, options.verbose);
        cases.push(case);
    };
    if options.isolated || device.gpu().is_some() {
        let workers = Workers {
            count: options.jobs,
            arguments: worker_arguments(options),
            limit: Duration::from_secs(options.limit.max(1)),
        };
        workers.run(&files, &mut keep)?;
    } else {
        for file in &files {
            runner::run_file(&device, file, &execution, 0, &mut |case| {
                keep(case);
                true
            });
        }
    }
    if let Some(path) = &options.junit {
        WholeFile::write_all_to(path, junit::render(&cases).as_bytes())
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if cases.is_empty() {
        return Err("no annotated kernel found; docs/test-format.md says what a test looks like".to_string());
    }
    let count = |wanted: fn(&Result) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Result::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Result::Skipped(_)));
    let place = match device.gpu() {
        None => "tile path ".to_string(),
        Some(gpu) => format!("{}, ", gpu.name),
    };
    println!(
        "{place}{}: {} passed, {failed} failed, {skipped} skipped",
        device.tile_path(),
        cases.len() - failed - skipped
    );
    Ok(failed == 0)
}

/// The command line of a worker with the same options.
fn worker_arguments(options: &Options) -> Vec<String> {
    let mut words = vec![
        "test".to_string(),
        "--worker".into(),
        "--device".into(),
        options.device.clone(),
    ];
    if options.checked {
        words.push("--checked".into());
    }
    for option in &options.options {
        words.extend(["--option".into(), option.clone()]);
    }
    // It takes its files from its input; one path is wanted all the same.
    words.push(".".into());
    words
}

fn show(case: &Case, verbose: bool) {
    match &case.outcome {
        Result::Passed if verbose => {
            println!("ok      {} [{}] ({:.0} ms)", case.file, case.name, case.seconds * 1e3);
        }
        Result::Passed => {}
        Result::Skipped(why) => println!("skipped {} [{}]: {why}", case.file, case.name),
        Result::Failed(why) => println!("FAILED  {} [{}]\n{}", case.file, case.name, indent(why)),
    }
}

fn indent(text: &str) -> String {
    text.trim_end()
        .lines()
        .map(|line| format!("        {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
