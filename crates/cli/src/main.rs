//! The `anymetal` command: Metal tensor kernels and Core AI models on this machine.
//!
//! Exit codes: 0 all went well; 1 the input is wrong, a kernel faulted or a test failed (the message says which); 2 the
//! command line is wrong.

mod binding;
mod commands;
mod compile_flags;
mod inputs;
mod npy;
mod spec;
mod testing;

use std::path::Path;
use std::process::ExitCode;

use anymetal::CompileOptions;
use clap::{Parser, Subcommand};

/// Metal tensor kernels and Core AI models on any machine.
#[derive(Parser)]
#[command(
    name = "anymetal",
    version,
    after_help = "\
Compiler flags of `check` and `kernel run`, spelled as `xcrun metal` has them:
  -I DIR  -D NAME[=VALUE]  -U NAME  -std=metal4.1  -include FILE  -f[no-]fast-math

Exit codes: 0 success; 1 bad input, a fault, or a failed test; 2 a wrong command line.
Environment: ANYMETAL_CPU=portable|avx2|avx512|amx forces a tile path; ANYMETAL_THREADS=N limits the workers."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs what the repository ships: a quantised matmul, FlashAttention, and a model with a custom kernel
    Demo(commands::demo::Options),
    /// Runs a model
    Run(commands::run::Options),
    /// Shows what a model contains
    Inspect(commands::inspect::Options),
    /// Compiles a Metal file and reports what is wrong with it
    Check(commands::check::Options),
    /// Works with single kernels
    #[command(subcommand)]
    Kernel(Kernel),
    /// Runs annotated kernels (docs/test-format.md)
    Test(commands::test::Options),
    /// Lists devices and tile paths
    Devices(commands::devices::Options),
}

#[derive(Subcommand)]
enum Kernel {
    /// Runs one kernel on generated or given data
    Run(commands::kernel_run::Options),
}

fn main() -> ExitCode {
    let mut compile = CompileOptions::default();
    let words = match take_compiler_flags(std::env::args().collect(), &mut compile) {
        Ok(words) => words,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let outcome = match Cli::parse_from(words).command {
        Command::Demo(options) => commands::demo::run(&options),
        Command::Run(options) => commands::run::run(&options),
        Command::Inspect(options) => commands::inspect::run(&options),
        Command::Check(options) => commands::check::run(&options, compile),
        Command::Kernel(Kernel::Run(options)) => commands::kernel_run::run(&options, compile),
        Command::Test(options) => commands::test::run(&options),
        Command::Devices(options) => commands::devices::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let message = message.trim_end();
            // Diagnostics begin with their own severity.
            let prefix = if message.starts_with("error") || message.starts_with("warning") {
                ""
            } else {
                "error: "
            };
            eprintln!("{prefix}{message}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the compiler flags out of the command line: their spelling (`-std=…`) is not clap's. Only `check` and `kernel`
/// have them.
fn take_compiler_flags(
    words: Vec<String>,
    options: &mut CompileOptions,
) -> Result<Vec<String>, String> {
    if !matches!(words.get(1).map(String::as_str), Some("check" | "kernel")) {
        return Ok(words);
    }
    let is_flag = |word: &str| {
        [
            "-I",
            "-D",
            "-U",
            "-std=",
            "-include",
            "-ffast-math",
            "-fno-fast-math",
        ]
        .iter()
        .any(|flag| word.starts_with(flag))
    };
    let mut rest = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if is_flag(&word) {
            compile_flags::apply(options, &word, &mut words, Path::new(""))?;
        } else {
            rest.push(word);
        }
    }
    Ok(rest)
}
