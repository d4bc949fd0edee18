//! Test, bench and regeneration commands of the workspace: `cargo xtask help` lists them.

mod bench;
mod block_weights;
mod conformance;
mod minilm;
mod ptx;
mod python;
mod steps;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  test [--require-python] [--no-python]   all tests: Rust tests, kernel tests on every tile path of this machine,
                                          command-line tests, and models checked against PyTorch
  lint                                    formatting and lints, as CI runs them
  bench [--json] [FILTER]                 speed as ratios to PyTorch, in one run
  tables                                  writes the tables of docs/tensorops.md from the compiler's rules
  conformance --PROJECT PATH[@REVISION]…  which kernel files of checkouts compile, into docs/conformance.md;
                                          PROJECT: mlx, llama, candle, pytorch, tensorops, matmul; --limit SECONDS a file
  python                                  only sets up the Python environment and prints its interpreter
  help                                    this text

Environment:
  ANYMETAL_CACHE   folder of the Python environment (default: $XDG_CACHE_HOME/anymetal or ~/.cache/anymetal)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.split_first() {
        Some((&"test", flags)) => test::Options::parse(flags).and_then(|options| test::run(&options)),
        Some((&"lint", [])) => steps::lint(),
        Some((&"tables", [])) => steps::tables(),
        Some((&"bench", flags)) => bench::Options::parse(flags).and_then(|options| bench::run(&options)),
        Some((&"conformance", words)) => {
            conformance::Options::parse(words).and_then(|options| conformance::run(&options))
        }
        Some((&"python", [])) => python::Environment::open().map(|environment| {
            println!("{}", environment.interpreter().display());
            true
        }),
        None | Some((&"help" | &"--help" | &"-h", _)) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some((other, _)) => Err(format!("xtask has no command `{other}`; `cargo xtask help` lists them")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}
