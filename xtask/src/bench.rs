//! `cargo xtask bench`: our time beside PyTorch's, in one run, as a ratio.
//!
//! Method: each measurement is one process of ours and one of the peer, run in turn (ours, peer, ours, peer, …), each of
//! which warms up and then repeats its work for about a second and reports the fastest and the median repetition.
//! The ratio is their median over ours, so 1.0 is as fast as the peer and more is faster. Both sides use all cores.

use std::process::Command;

use serde_json::{Value, json};

use crate::minilm;
use crate::python::{Environment, run as run_command};
use crate::steps::{cargo, root, target_dir};

/// Flags of `cargo xtask bench`.
pub struct Options {
    json: bool,
    filter: String,
}

impl Options {
    /// Reads the flags.
    pub fn parse(flags: &[&str]) -> Result<Self, String> {
        let mut options = Options {
            json: false,
            filter: String::new(),
        };
        for &flag in flags {
            match flag {
                "--json" => options.json = true,
                other if other.starts_with('-') => {
                    return Err(format!("`cargo xtask bench` has no flag `{other}`"));
                }
                filter => options.filter = filter.to_string(),
            }
        }
        Ok(options)
    }
}

/// The rounds of alternation between our process and the peer's.
const ROUNDS: usize = 3;

/// Runs the benchmarks; always true, since a slow machine is not a failure.
pub fn run(options: &Options) -> Result<bool, String> {
    let environment = Environment::open()?;
    run_command(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "anymetal-bench",
    ]))?;
    let asset = minilm::export(&environment)?;
    let ours = target_dir().join("release/anymetal-bench");
    let names = run_command(Command::new(&ours).arg("list").current_dir(root()))?;
    for name in names.lines().filter(|name| name.contains(&options.filter)) {
        let (mut best_ours, mut best_theirs): (Option<Value>, Option<Value>) = (None, None);
        for _ in 0..ROUNDS {
            let line = run_command(
                Command::new(&ours)
                    .args(["run", name])
                    .arg(&asset)
                    .current_dir(root()),
            )?;
            keep_faster(&mut best_ours, &line)?;
            let line = run_command(
                environment
                    .script("bench_peers.py")
                    .args(["--only", name, "--minilm"])
                    .arg(&asset),
            )?;
            if !line.trim().is_empty() {
                keep_faster(&mut best_theirs, &line)?;
            }
        }
        report(options, name, best_ours.as_ref(), best_theirs.as_ref());
    }
    Ok(true)
}

/// Keeps the measurement with the lower median of those that a process printed, one JSON object a line.
fn keep_faster(best: &mut Option<Value>, printed: &str) -> Result<(), String> {
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| format!("not a measurement: {line}: {error}"))?;
        let median = |value: &Value| value["median_ms"].as_f64().unwrap_or(f64::INFINITY);
        if best
            .as_ref()
            .is_none_or(|best| median(&value) < median(best))
        {
            *best = Some(value);
        }
    }
    Ok(())
}

fn report(options: &Options, name: &str, ours: Option<&Value>, theirs: Option<&Value>) {
    let number = |value: Option<&Value>| value.and_then(|value| value["median_ms"].as_f64());
    let (our_ms, their_ms) = (number(ours), number(theirs));
    let ratio = our_ms.zip(their_ms).map(|(ours, theirs)| theirs / ours);
    let text = |key: &str, value: Option<&Value>| {
        value
            .and_then(|v| v[key].as_str())
            .unwrap_or("")
            .to_string()
    };
    if options.json {
        println!(
            "{}",
            json!({"name": name, "shape": text("shape", ours), "ours": our_ms, "peer": text("peer", theirs),
                   "theirs": their_ms, "unit": "ms", "ratio": ratio})
        );
    } else {
        let show = |value: Option<f64>| value.map_or("-".to_string(), |ms| format!("{ms:.2} ms"));
        println!(
            "{name:<28} {:<22} ours {:>12}   {:<24} {:>12}   ratio {}",
            text("shape", ours),
            show(our_ms),
            text("peer", theirs),
            show(their_ms),
            ratio.map_or("-".to_string(), |ratio| format!("{ratio:.2}"))
        );
    }
}
