//! Compiles the kernels of annotated runs to PTX and assembles it: what can be checked of a GPU without having one.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anymetal::ir::Kernel;
use anymetal::ptx::{self, PtxOptions, Target};
use anymetal::{CompileOptions, Device, ExecutionOptions, FunctionConstants};

use super::header::{Run, TestFile};
use super::runner;
use crate::binding::{choose_kernel, execution_option, function_constants};
use crate::compile_flags;

/// A piece of PTX and who needs it.
struct Piece {
    target: Target,
    text: String,
    users: Vec<String>,
}

/// What the assembler said of a piece.
#[derive(Default)]
struct Assembled {
    error: Option<String>,
    /// `C7508` and the like: the assembler gave up on overlapping tensor products.
    advisories: Vec<String>,
    stack: u32,
    spills: u32,
    registers: u32,
}

impl Assembled {
    /// It keeps in memory what it has no registers for, or waits where products could overlap.
    fn is_short_of_registers(&self) -> bool {
        self.stack > 0 || self.spills > 0 || !self.advisories.is_empty()
    }
}

/// A kernel to compile: what messages call it, and how it is compiled but for the chip.
pub struct Wanted {
    name: String,
    kernel: Arc<Kernel>,
    options: PtxOptions,
}

impl Wanted {
    /// A kernel of a model, for threadgroups as its source states them.
    pub fn of_model(kernel: &Arc<Kernel>) -> Self {
        Wanted {
            name: format!("`{}`", kernel.name),
            kernel: kernel.clone(),
            options: PtxOptions::of_kernel(kernel),
        }
    }
}

/// What is done with the PTX.
pub struct Plan<'a> {
    /// The chips that it is made for.
    pub targets: &'a [Target],
    /// The assembler.
    pub ptxas: Option<&'a Path>,
    /// Spilled registers, a stack and advisories are failures.
    pub no_spills: bool,
    /// Print registers, stack and spills of each.
    pub verbose: bool,
}

/// Compiles and assembles the kernels of files; false if something failed.
pub fn run(files: &[PathBuf], plan: &Plan<'_>, execution: &ExecutionOptions) -> Result<bool, String> {
    let (mut wanted, mut failures, mut skipped) = (Vec::new(), Vec::new(), BTreeMap::<String, usize>::new());
    for file in files {
        for (label, outcome) in kernels(file, execution)? {
            let name = format!("{} [{label}]", file.display());
            match outcome {
                Found::Kernel(kernel, options) => wanted.push(Wanted {
                    name,
                    kernel: Arc::new(*kernel),
                    options,
                }),
                Found::Skipped(why) => *skipped.entry(why).or_default() += 1,
                Found::Failed(why) => failures.push(format!("{name}: {why}")),
            }
        }
    }
    if wanted.is_empty() && failures.is_empty() {
        return Err("there is no kernel to compile".to_string());
    }
    for (why, count) in &skipped {
        println!("skipped {count}: {why}");
    }
    check(&wanted, failures, plan)
}

/// Compiles kernels for every chip, assembles each different text once, and says what failed, after what failed before.
pub fn check(wanted: &[Wanted], mut failures: Vec<String>, plan: &Plan<'_>) -> Result<bool, String> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut compiled = 0usize;
    for Wanted { name, kernel, options } in wanted {
        for &target in plan.targets {
            let options = PtxOptions {
                target,
                ..options.clone()
            };
            match ptx::compile(kernel, &options) {
                Ok(module) => {
                    compiled += 1;
                    // The kernel's name changes nothing that can fail.
                    let key = module.text.replace(&module.entry, "entry");
                    let at = *known.entry(key).or_insert(pieces.len());
                    if at == pieces.len() {
                        pieces.push(Piece {
                            target,
                            text: module.text,
                            users: Vec::new(),
                        });
                    }
                    pieces[at].users.push(name.clone());
                }
                Err(error) => failures.push(format!("{name} {target}: {error}")),
            }
        }
    }
    let mut words = format!("PTX: {compiled} kernels compiled, {} of them different", pieces.len());
    if let Some(program) = plan.ptxas {
        let results = assemble_all(program, &pieces)?;
        for (piece, result) in pieces.iter().zip(&results) {
            let user = piece.users.first().map_or("", String::as_str);
            if let Some(error) = &result.error {
                failures.push(format!("{user} {}: {error}", piece.target));
                continue;
            }
            if plan.no_spills && result.is_short_of_registers() {
                failures.push(format!(
                    "{user} {}: {} bytes of stack, {} bytes spilled {}",
                    piece.target,
                    result.stack,
                    result.spills,
                    result.advisories.join(" ")
                ));
            }
            if plan.verbose {
                println!(
                    "{user} {}: {} registers, {} bytes of stack, {} bytes spilled {}",
                    piece.target,
                    result.registers,
                    result.stack,
                    result.spills,
                    result.advisories.join(" ")
                );
            }
        }
        let count = |wanted: fn(&Assembled) -> bool| results.iter().filter(|result| wanted(result)).count();
        words += &format!(
            "; {} assembled, {} with spills, {} with a stack, {} with advisories",
            count(|result| result.error.is_none()),
            count(|result| result.spills > 0),
            count(|result| result.stack > 0),
            count(|result| !result.advisories.is_empty())
        );
    }
    for failure in &failures {
        println!("FAILED  {failure}");
    }
    println!("{words}; {} failed", failures.len());
    Ok(failures.is_empty())
}

enum Found {
    Kernel(Box<Kernel>, PtxOptions),
    Skipped(String),
    Failed(String),
}

/// The kernels of a file's runs; those of a file without annotations are all that it has.
fn kernels(path: &Path, execution: &ExecutionOptions) -> Result<Vec<(String, Found)>, String> {
    let source = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("."));
    let device = Device::cpu();
    let parsed = match TestFile::parse(&source) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(vec![("header".to_string(), Found::Failed(error))]),
    };
    let Some(parsed) = parsed else {
        // As the headers beside `kernels/` are found by those who use them.
        let compile = CompileOptions {
            include_dirs: vec![folder.join("include")],
            ..CompileOptions::default()
        };
        let library = match device.new_library(&source, &name, &compile) {
            Ok(library) => library,
            Err(error) => {
                return Ok(vec![(
                    "compile".to_string(),
                    Found::Failed(first_line(&error.to_string())),
                )]);
            }
        };
        let mut all = Vec::new();
        for name in library.kernel_names() {
            match library.kernel(&name, &FunctionConstants::new()) {
                Ok(kernel) => {
                    let options = PtxOptions::of_kernel(&kernel);
                    // As whole threadgroups of what it states would run it, if that is something else.
                    let threads = PtxOptions::stated_threads(&kernel).map(|threads| [threads, 1, 1]);
                    let whole = threads.map(|threads| PtxOptions::of_launch(&kernel, threads, threads));
                    if let Some(whole) = whole.filter(|options| options.whole) {
                        let kernel = Box::new(kernel.clone());
                        all.push((format!("{name}, whole threadgroups"), Found::Kernel(kernel, whole)));
                    }
                    all.push((name, Found::Kernel(Box::new(kernel), options)));
                }
                Err(error) => all.push((name, Found::Failed(first_line(&error.to_string())))),
            }
        }
        return Ok(all);
    };
    let each = parsed.runs.iter().map(|run| {
        let found = of_run(&device, run, (&source, &name, folder), execution).unwrap_or_else(Found::Failed);
        (runner::label(run), found)
    });
    Ok(each.collect())
}

fn of_run(
    device: &Device,
    run: &Run,
    (source, name, folder): (&str, &str, &Path),
    execution: &ExecutionOptions,
) -> Result<Found, String> {
    if !run.errors.is_empty() {
        return Ok(Found::Skipped("must be refused by the compiler".to_string()));
    }
    if !run.only.is_empty() && !run.only.iter().any(|only| only == "cuda") {
        return Ok(Found::Skipped(format!("only for {}", run.only.join(", "))));
    }
    if let Some(why) = runner::cpu_only(run, execution) {
        return Ok(Found::Skipped(why));
    }
    let mut compile = CompileOptions::default();
    if let Some(std) = &run.std {
        compile.std = std.parse().map_err(|error| format!("{error}"))?;
    }
    compile_flags::apply_all(&mut compile, &run.flags, folder)?;
    let mut execution = execution.clone();
    for option in &run.options {
        match option.as_str() {
            "lenient" => compile.lenient = true,
            _ => execution = execution_option(execution, option).ok_or_else(|| format!("`{option}` is no option"))?,
        }
    }
    let text = |error: anymetal::Error| first_line(&error.to_string());
    let library = device.new_library(source, name, &compile).map_err(text)?;
    let kernel = choose_kernel(&library, run.kernel.as_deref())?;
    let kernel = library
        .kernel(&kernel, &function_constants(&run.constants)?)
        .map_err(text)?;
    let threadgroup = run.threads.unwrap_or([32, 1, 1]);
    let (grid, exact) = run.grid.unwrap_or(([1; 3], false));
    let threads = [0, 1, 2].map(|d| {
        if exact {
            grid[d]
        } else {
            grid[d].saturating_mul(threadgroup[d])
        }
    });
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let options = PtxOptions {
        checked: execution.checked || run.fault.is_some(),
        force_incompatible: execution.force_incompatible,
        static_overhang_zero: execution.static_overhang_zero,
        ..PtxOptions::of_launch(&kernel, threads.map(number), threadgroup.map(number))
    };
    Ok(Found::Kernel(Box::new(kernel), options))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("").to_string()
}

/// Runs the assembler over all pieces, as many at a time as there are cores.
fn assemble_all(program: &Path, pieces: &[Piece]) -> Result<Vec<Assembled>, String> {
    let folder = std::env::temp_dir().join(format!("anymetal-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let results: Mutex<Vec<Assembled>> = Mutex::new(pieces.iter().map(|_| Assembled::default()).collect());
    let problem: Mutex<Option<String>> = Mutex::new(None);
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(pieces.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(piece) = pieces.get(at) else { return };
                    match assemble(program, &folder.join(format!("{at}.ptx")), piece) {
                        Ok(result) => results.lock().unwrap_or_else(|e| e.into_inner())[at] = result,
                        Err(error) => {
                            *problem.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    // Left-overs in the folder for temporary files do no harm.
    let _ = std::fs::remove_dir_all(&folder);
    match problem.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error),
        None => Ok(results.into_inner().unwrap_or_else(|e| e.into_inner())),
    }
}

fn assemble(program: &Path, file: &Path, piece: &Piece) -> Result<Assembled, String> {
    std::fs::write(file, &piece.text).map_err(|error| format!("{}: {error}", file.display()))?;
    let output = Command::new(program)
        .arg(format!("-arch={}", piece.target))
        .arg("-v")
        .arg(file)
        .arg("-o")
        .arg(file.with_extension("cubin"))
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    for name in [file.to_path_buf(), file.with_extension("cubin")] {
        // The folder goes at the end anyway.
        let _ = std::fs::remove_file(name);
    }
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said += &String::from_utf8_lossy(&output.stderr);
    let mut result = read_report(&said);
    if !output.status.success() {
        let error = said.lines().find(|line| line.contains("error")).unwrap_or(&said);
        result.error = Some(error.replace(&file.display().to_string(), "line").trim().to_string());
    }
    Ok(result)
}

/// Reads what `ptxas -v` says.
fn read_report(said: &str) -> Assembled {
    let mut result = Assembled::default();
    for line in said.lines() {
        let number_before = |words: &str| -> u32 {
            let before = line.split(words).next().filter(|before| before.len() < line.len());
            let digits = before.and_then(|before| before.split([' ', ',']).rfind(|word| !word.is_empty()));
            digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        result.stack = result.stack.max(number_before(" bytes stack frame"));
        result.spills = result.spills.max(number_before(" bytes spill stores"));
        if line.contains("Used ") {
            result.registers = result.registers.max(number_before(" registers"));
        }
        if let Some(code) = line.split(['(', ')']).find(|word| word.starts_with("C75")) {
            result.advisories.push(code.to_string());
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let said = "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
                    ptxas info    : Function properties for k\n    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n\
                    ptxas info    : Used 32 registers, used 1 barriers, 16 bytes cumulative stack size\n\
                    ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to …\n";
        let report = read_report(said);
        assert_eq!((report.stack, report.spills, report.registers), (16, 8, 32));
        assert_eq!(report.advisories, ["C7510"]);
    }
}
