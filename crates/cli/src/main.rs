//! The `anymetal` command: Metal tensor kernels and Core AI models on this machine.
//!
//! Exit codes: 0 all went well; 1 the input is wrong, a kernel faulted or a test failed (the message says which); 2 the
//! command line is wrong.

/// As the standard macro, but a reader that has gone away (`anymetal … | head`) ends the command quietly instead of with
/// a panic.
macro_rules! print {
    ($($words:tt)*) => { crate::write_out(format_args!($($words)*)) };
}
/// As the standard macro, with [`print!`]'s care.
macro_rules! println {
    () => { crate::write_out(format_args!("\n")) };
    ($($words:tt)*) => { crate::write_out(format_args!("{}\n", format_args!($($words)*))) };
}

mod binding;
mod commands;
mod compile_flags;
mod inputs;
mod layouts;
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
Compiler flags of `check`, `kernel run` and `config check`, spelled as `xcrun metal` has them:
  -I DIR  -D NAME[=VALUE]  -U NAME  -std=metal4.1  -include FILE  -f[no-]fast-math

Exit codes: 0 success; 1 bad input, a fault, or a failed test; 2 a wrong command line.
Environment: ANYMETAL_CPU=portable|avx2|avx512|amx forces a tile path; ANYMETAL_THREADS=N limits the workers; ANYMETAL_CACHE=DIR holds
  kernels assembled for GPUs (empty: none are kept)."
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
    Kernel(Box<Kernel>),
    /// Runs annotated kernels (docs/test-format.md)
    Test(commands::test::Options),
    /// Quantises the matrices of a safetensors file to blocks with scales (docs/quantize.md)
    Quantize(commands::quantize::Options),
    /// Turns a quantised safetensors file back
    Dequantize(commands::quantize::BackOptions),
    /// Compares what a model's tensors are with a kernel and a weights file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Lists devices and tile paths
    Devices(commands::devices::Options),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Checks a config, and compares it with a kernel's signature and a weights file
    Check(commands::config::CheckOptions),
    /// Writes a config from a weights file
    Show(commands::config::ShowOptions),
}

// There is one of them in a process.
#[allow(clippy::large_enum_variant)]
#[derive(Subcommand)]
enum Kernel {
    /// Runs one kernel on generated or given data
    Run(commands::kernel_run::Options),
    /// Prints one kernel as PTX, the text that goes to the driver of a GPU
    Ptx(commands::kernel_ptx::Options),
}

/// Writes to standard output; ends the process if nobody reads it any more.
fn write_out(words: std::fmt::Arguments) {
    use std::io::Write;
    if let Err(error) = std::io::stdout().write_fmt(words) {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("error: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

/// The words of the command line; all flags and arguments are Unicode text.
fn command_line() -> Result<Vec<String>, String> {
    std::env::args_os()
        .map(|word| {
            word.into_string()
                .map_err(|word| format!("`{}` is not UTF-8 text", word.to_string_lossy()))
        })
        .collect()
}

fn main() -> ExitCode {
    let mut compile = CompileOptions::default();
    let words = match command_line().and_then(|words| take_compiler_flags(words, &mut compile)) {
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
        Command::Kernel(kernel) => match *kernel {
            Kernel::Run(options) => commands::kernel_run::run(&options, compile),
            Kernel::Ptx(options) => commands::kernel_ptx::run(&options, compile),
        },
        Command::Test(options) => commands::test::run(&options),
        Command::Quantize(options) => commands::quantize::run(&options),
        Command::Dequantize(options) => commands::quantize::run_back(&options),
        Command::Config(ConfigCommand::Check(options)) => commands::config::check(&options, compile),
        Command::Config(ConfigCommand::Show(options)) => commands::config::show(&options),
        Command::Devices(options) => commands::devices::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let message = message.trim_end();
            // Diagnostics begin with their own severity.
            let starts = ["error:", "error[", "warning:", "warning["];
            let prefix = if starts.iter().any(|start| message.starts_with(start)) {
                ""
            } else {
                "error: "
            };
            eprintln!("{prefix}{message}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the compiler flags out of the command line: their spelling (`-std=…`) is not clap's. Only `check`, `kernel` and
/// `config` have them.
fn take_compiler_flags(words: Vec<String>, options: &mut CompileOptions) -> Result<Vec<String>, String> {
    if !matches!(words.get(1).map(String::as_str), Some("check" | "kernel" | "config")) {
        return Ok(words);
    }
    let is_flag = |word: &str| {
        ["-I", "-D", "-U", "-std=", "-include", "-ffast-math", "-fno-fast-math"]
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
