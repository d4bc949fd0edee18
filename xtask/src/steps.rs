//! Running commands and counting what passed, failed and was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The root of the workspace.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The release build of the `anymetal` command.
pub fn anymetal() -> PathBuf {
    target_dir()
        .join("release")
        .join(format!("anymetal{}", std::env::consts::EXE_SUFFIX))
}

/// The folder that cargo builds into.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command in the workspace's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Writes the tables of the documentation that come from the code: the test that compares them writes them when asked to.
pub fn tables() -> Result<bool, String> {
    let mut command = cargo(&["test", "--release", "--quiet", "-p", "anymetal-msl", "--test", "tables"]);
    let status = command.env("ANYMETAL_WRITE_TABLES", "1").status();
    status
        .map(|status| status.success())
        .map_err(|error| format!("cannot start cargo: {error}"))
}

/// What a run of steps came to.
#[derive(Default)]
pub struct Tally {
    passed: Vec<String>,
    failed: Vec<String>,
    skipped: Vec<(String, String)>,
}

impl Tally {
    /// Runs a step that is a command; it passes if the command exits with 0.
    pub fn command(&mut self, name: &str, command: &mut Command) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{status}")),
            Err(error) => Err(format!("cannot start {:?}: {error}", command.get_program())),
        };
        self.record(name, result, start);
    }

    /// Runs a step that is a function.
    pub fn step(&mut self, name: &str, run: impl FnOnce() -> Result<(), String>) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = run();
        self.record(name, result, start);
    }

    fn record(&mut self, name: &str, result: Result<(), String>, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("   {name}: passed ({seconds:.1} s)");
                self.passed.push(name.to_string());
            }
            Err(why) => {
                println!("   {name}: FAILED ({seconds:.1} s): {why}");
                self.failed.push(format!("{name}: {why}"));
            }
        }
    }

    /// Notes a step that was not run.
    pub fn skip(&mut self, name: &str, why: &str) {
        println!("\n== {name}\n   skipped: {why}");
        self.skipped.push((name.to_string(), why.to_string()));
    }

    /// Prints the summary; true if nothing failed and, where skips count as failures, nothing was skipped.
    pub fn finish(self, skips_fail: bool) -> bool {
        println!("\n== Summary");
        for (name, why) in &self.skipped {
            println!("   skipped: {name}: {why}");
        }
        for failure in &self.failed {
            println!("   failed: {failure}");
        }
        let ok = self.failed.is_empty() && (!skips_fail || self.skipped.is_empty());
        if self.failed.is_empty() && !ok {
            println!("   skips count as failures here (--require-python)");
        }
        println!(
            "{} passed, {} failed, {} skipped",
            self.passed.len(),
            self.failed.len(),
            self.skipped.len()
        );
        ok
    }
}

/// Formatting and lints; documentation warnings count too.
pub fn lint() -> Result<bool, String> {
    let mut tally = Tally::default();
    tally.command("formatting", &mut cargo(&["fmt", "--all", "--check"]));
    tally.command(
        "lints",
        &mut cargo(&[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    );
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--lib"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    tally.command("documentation", &mut doc);
    Ok(tally.finish(true))
}
