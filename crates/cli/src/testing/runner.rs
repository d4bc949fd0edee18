//! Runs annotated kernels.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anymetal::{CommandReport, CompileOptions, Device, Diagnostics, Error, ExecutionOptions, Pipeline, Severity};

use super::compare::compare;
use super::findings;
use super::header::{Run, TestFile, Tolerance};
use super::junit::{Case, Outcome};
use crate::binding::{Bound, choose_kernel, execution_option, function_constants};
use crate::compile_flags;
use crate::layouts::compare_layouts;

/// All `.metal` files of a file or folder, in order.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut out = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "metal") {
                out.push(entry);
            }
        }
    }
    out.sort();
    Ok(out)
}

/// What a run is called in reports.
pub fn label(run: &Run) -> String {
    match (run.label.as_str(), &run.kernel) {
        ("", Some(kernel)) => kernel.clone(),
        ("", None) => "default".to_string(),
        (label, _) => label.to_string(),
    }
}

/// Runs the tests of a file from a number on, with options that its own come after, and hands over each case until that
/// answers false. A file without annotations has none.
pub fn run_file(
    device: &Device,
    path: &Path,
    execution: &ExecutionOptions,
    from: usize,
    report: &mut dyn FnMut(Case) -> bool,
) {
    let file = path.display().to_string();
    let case = |name: &str, seconds, outcome| Case {
        file: file.clone(),
        name: name.to_string(),
        seconds,
        outcome,
    };
    let source = match std::fs::read_to_string(path) {
        Ok(source) => source,
        Err(error) => {
            report(case("read", 0.0, Outcome::Failed(error.to_string())));
            return;
        }
    };
    let parsed = match TestFile::parse(&source) {
        Ok(None) => return,
        Ok(Some(parsed)) => parsed,
        Err(error) => {
            report(case("header", 0.0, Outcome::Failed(error)));
            return;
        }
    };
    for run in parsed.runs.iter().skip(from) {
        let start = Instant::now();
        let outcome = match skipped(device, run, execution) {
            Some(why) => Outcome::Skipped(why),
            None => match run_one(device, path, &source, run, execution) {
                Ok(()) => Outcome::Passed,
                Err(why) => Outcome::Failed(why),
            },
        };
        if !report(case(&label(run), start.elapsed().as_secs_f64(), outcome)) {
            return;
        }
    }
}

/// Why a run is not for a device.
fn skipped(device: &Device, run: &Run, execution: &ExecutionOptions) -> Option<String> {
    let gpu = device.gpu().is_some();
    let backend = if gpu { "cuda" } else { "cpu" };
    if !run.only.is_empty() && !run.only.iter().any(|only| only == backend) {
        return Some(format!("only for {}", run.only.join(", ")));
    }
    // A kernel that is to be refused needs no device.
    if !gpu || (!run.errors.is_empty() && run.options.iter().all(|option| option == "lenient")) {
        return None;
    }
    cpu_only(run, execution)
}

/// What a run needs that only the CPU has.
pub fn cpu_only(run: &Run, execution: &ExecutionOptions) -> Option<String> {
    let cpu_only = ["sanitize", "deterministic", "numerics=tensor-unit", "layout=permuted"];
    if let Some(option) = run.options.iter().find(|option| cpu_only.contains(&option.as_str())) {
        return Some(format!("`{option}` is an option of the CPU"));
    }
    if execution.sanitize.is_some() || execution.permuted_layout || execution.tensor_unit || execution.deterministic {
        return Some("an option that only the CPU has".to_string());
    }
    None
}

fn run_one(device: &Device, path: &Path, source: &str, run: &Run, execution: &ExecutionOptions) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut compile = CompileOptions::default();
    if let Some(std) = &run.std {
        compile.std = std.parse().map_err(|error| format!("{error}"))?;
    }
    compile_flags::apply_all(&mut compile, &run.flags, folder)?;
    let mut execution = execution.clone();
    if device.gpu().is_none() {
        execution = execution.with_instruction_budget(20_000_000_000);
    }
    // A fault can only be seen where accesses are checked.
    execution.checked |= run.fault.is_some();
    for option in &run.options {
        if option == "lenient" {
            compile.lenient = true;
        } else {
            execution = execution_option(execution, option).ok_or_else(|| format!("`{option}` is no option"))?;
        }
    }
    let sanitized = execution.sanitize.is_some();
    let name = path.display().to_string();
    let outcome = dispatch(device, &name, source, folder, run, &compile, execution);
    match outcome {
        Err(Failure::Compile(error)) if !run.errors.is_empty() => check_errors(&error, run),
        Err(Failure::Other(error)) if run.fault.is_some() => {
            let (wanted, message) = (run.fault.as_deref().unwrap_or(""), error.to_string());
            if message.contains(wanted) {
                Ok(())
            } else {
                Err(format!("the error does not contain `{wanted}`:\n{message}"))
            }
        }
        Err(Failure::Other(error)) if !run.errors.is_empty() => {
            let message = error.to_string();
            match run.errors.iter().find(|(_, text)| !message.contains(text.as_str())) {
                None => Ok(()),
                Some((_, text)) => Err(format!("the error does not contain `{text}`:\n{message}")),
            }
        }
        Err(Failure::Compile(error)) => Err(format!("does not compile:\n{error}")),
        Err(Failure::Other(error)) => Err(error.to_string()),
        Err(Failure::Test(error)) => Err(error),
        Ok(ran) if sanitized => {
            let expected_fault = run
                .fault
                .as_deref()
                .or(run.errors.first().map(|(_, text)| text.as_str()));
            findings::check(&ran.findings, &run.findings, expected_fault)?;
            if run.expects.is_empty() && (run.fault.is_some() || !run.errors.is_empty() || !run.findings.is_empty()) {
                return Ok(());
            }
            check_results(&ran.bound, run, folder)
        }
        Ok(_) if !run.errors.is_empty() => Err("an error was expected, but it compiled and ran".to_string()),
        Ok(_) if run.fault.is_some() => Err("a fault was expected, but the kernel ran to its end".to_string()),
        Ok(ran) => check_results(&ran.bound, run, folder),
    }
}

/// What a run leaves.
struct Ran {
    bound: Bound,
    /// Findings of the sanitizer, static ones included.
    findings: Diagnostics,
}

enum Failure {
    Compile(Error),
    Other(Error),
    Test(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Compile(_) => Failure::Compile(error),
            other => Failure::Other(other),
        }
    }
}

impl From<String> for Failure {
    fn from(error: String) -> Self {
        Failure::Test(error)
    }
}

fn dispatch(
    device: &Device,
    name: &str,
    source: &str,
    folder: &Path,
    run: &Run,
    compile: &CompileOptions,
    execution: ExecutionOptions,
) -> Result<Ran, Failure> {
    let library = device.new_library(source, name, compile)?;
    let kernel = choose_kernel(&library, run.kernel.as_deref())?;
    let constants = function_constants(&run.constants)?;
    let pipeline = library.pipeline_with(&kernel, &constants, &execution)?;
    let mut found = match &execution.sanitize {
        Some(_) => library.check(&kernel, &constants)?,
        None => Vec::new(),
    };
    let (bound, report) = run_pipeline(device, &pipeline, folder, run)?;
    found.extend(report.dispatches.into_iter().flat_map(|dispatch| dispatch.findings));
    if execution.sanitize.is_some() && !run.options.iter().any(|option| option.starts_with("layout=")) {
        let plain = |pipeline: &Pipeline| {
            let outcome = run_pipeline(device, pipeline, folder, run);
            outcome.map(|(bound, _)| bound).map_err(|failure| match failure {
                Failure::Compile(error) | Failure::Other(error) => error.to_string(),
                Failure::Test(error) => error,
            })
        };
        found.extend(compare_layouts(&library, (&kernel, &constants), &execution, &plain)?);
    }
    let findings = library.diagnostics(&found);
    Ok(Ran { bound, findings })
}

/// Binds the arguments of a run anew and dispatches a pipeline.
fn run_pipeline(
    device: &Device,
    pipeline: &Pipeline,
    folder: &Path,
    run: &Run,
) -> Result<(Bound, CommandReport), Failure> {
    let bound = Bound::new(device, &run.arguments, folder)?;
    let mut encoder = device.new_queue().encoder();
    encoder.set_pipeline(pipeline);
    bound.set(&mut encoder, pipeline)?;
    for (&index, &bytes) in &run.threadgroup {
        encoder.set_threadgroup_memory_length(index as u32, bytes);
    }
    let threads = run.threads.unwrap_or([32, 1, 1]);
    match run.grid.unwrap_or(([1; 3], false)) {
        (grid, true) => encoder.dispatch_threads(grid, threads)?,
        (grid, false) => encoder.dispatch_threadgroups(grid, threads)?,
    };
    let report = encoder.run()?;
    Ok((bound, report))
}

/// Every expected diagnostic must be there, and no other error.
fn check_errors(error: &Error, run: &Run) -> Result<(), String> {
    let Error::Compile(diagnostics) = error else {
        return Err(error.to_string());
    };
    let matches = |diagnostic: &anymetal::Diagnostic, (code, text): &(String, String)| {
        let place = |words: &str| words.contains(text.as_str());
        (code == "*" || code == diagnostic.code)
            && (place(&diagnostic.message)
                || diagnostic.notes.iter().any(|note| place(note))
                || diagnostic.help.as_deref().is_some_and(place))
    };
    for expected in &run.errors {
        if !diagnostics.list.iter().any(|diagnostic| matches(diagnostic, expected)) {
            return Err(format!(
                "no diagnostic is `{} {}`:\n{}",
                expected.0,
                expected.1,
                diagnostics.render()
            ));
        }
    }
    let stray = diagnostics.list.iter().find(|diagnostic| {
        diagnostic.severity == Severity::Error && !run.errors.iter().any(|expected| matches(diagnostic, expected))
    });
    match stray {
        Some(diagnostic) => Err(format!(
            "an unexpected error, {}:\n{}",
            diagnostic.code,
            diagnostics.render()
        )),
        None => Ok(()),
    }
}

fn check_results(bound: &Bound, run: &Run, folder: &Path) -> Result<(), String> {
    if run.expects.is_empty() {
        return Err("the test expects nothing: it needs an `expect`, `error` or `fault` line".to_string());
    }
    for expect in &run.expects {
        let place = |error: String| format!("expect {}: {error}", expect.argument);
        let want = expect
            .rule
            .values(expect.argument, &bound.initial, expect.range.clone(), folder)
            .map_err(place)?;
        let got = bound
            .read(expect.argument)
            .ok_or_else(|| place("the argument has no elements to compare".to_string()))?;
        let tolerance = run.tolerance.unwrap_or(Tolerance::of(got.format));
        let range = expect.range.clone().unwrap_or(0..got.elements.len());
        let difference = compare(&got.elements[range.clone()], &want, got.format, tolerance);
        if difference.wrong > 0 {
            let shifted = difference.first.map(|(index, g, w)| (index + range.start, g, w));
            return Err(place(
                super::compare::Difference {
                    first: shifted,
                    ..difference
                }
                .describe(),
            ));
        }
    }
    Ok(())
}
