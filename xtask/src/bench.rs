//! `cargo xtask bench`: our time beside PyTorch's, in one run, as a ratio.
//!
//! Method: for each group of measurements one process of ours and one of the peer run in turn (ours, peer, ours, peer), each
//! of which warms up and then repeats its work for about two seconds. The ratio is the peer's lowest median over ours, so
//! 1.0 is as fast as the peer and more is faster. Both sides use all cores.

use std::collections::BTreeMap;
use std::path::Path;
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

/// Groups of measurements: ours, and the peers' names for the same.
const GROUPS: [(&str, &str); 11] = [
    ("matmul", "matmul"),
    ("mxfp8", ""),
    ("linear", ""),
    ("custom", ""),
    ("attention", "attention"),
    ("gelu", "gelu"),
    ("rms_norm", "rms_norm"),
    ("softmax", "softmax"),
    ("transpose", "transpose"),
    ("minilm", "minilm,interpreter"),
    ("compile", ""),
];

/// Rounds of alternation between our process and the peer's.
const ROUNDS: usize = 2;
const SECONDS: &str = "2";

/// Runs the benchmarks; always true, since a slow machine is not a failure.
pub fn run(options: &Options) -> Result<bool, String> {
    let environment = Environment::open()?;
    run_command(&mut cargo(&["build", "--release", "--package", "anymetal-bench"]))?;
    let assets = minilm::export(&environment)?;
    for (ours, theirs) in GROUPS.iter().filter(|(name, _)| name.contains(&options.filter)) {
        let (mut our_times, mut their_times) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..ROUNDS {
            let mut command = Command::new(target_dir().join("release/anymetal-bench"));
            // Some peers are measured in our process: another kernel of ours, or the memory itself.
            let printed = measure(&mut command, ours, &assets)?;
            collect(&mut our_times, &printed, |peer| peer.is_empty())?;
            collect(&mut their_times, &printed, |peer| !peer.is_empty())?;
            if !theirs.is_empty() {
                collect(
                    &mut their_times,
                    &measure(&mut environment.script("bench_peers.py"), theirs, &assets)?,
                    |_| true,
                )?;
            }
        }
        for ((name, shape, _), time) in &our_times {
            let peers: Vec<_> = their_times
                .iter()
                .filter(|((n, s, _), _)| n == name && s == shape)
                .collect();
            for ((_, _, peer), their_time) in &peers {
                report(options, name, shape, *time, Some((peer, **their_time)));
            }
            if peers.is_empty() {
                report(options, name, shape, *time, None);
            }
        }
    }
    Ok(true)
}

fn measure(command: &mut Command, names: &str, assets: &Path) -> Result<String, String> {
    run_command(
        command
            .args(["--only", names, "--seconds", SECONDS, "--minilm"])
            .arg(assets)
            .current_dir(root()),
    )
}

/// Name, shape, and peer (empty for ours) of a measurement.
type Key = (String, String, String);

/// Keeps the lowest median of each measurement that a process printed, one JSON object a line, of the wanted peers.
fn collect(times: &mut BTreeMap<Key, f64>, printed: &str, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("not a measurement: {line}: {error}"))?;
        let text = |key: &str| value[key].as_str().unwrap_or("").to_string();
        let median = value["median"]
            .as_f64()
            .ok_or_else(|| format!("a measurement without a median: {line}"))?;
        if !wanted(&text("peer")) {
            continue;
        }
        let best = times
            .entry((text("name"), text("shape"), text("peer")))
            .or_insert(median);
        *best = best.min(median);
    }
    Ok(())
}

fn report(options: &Options, name: &str, shape: &str, ours: f64, theirs: Option<(&str, f64)>) {
    let ratio = theirs.map(|(_, time)| time / ours);
    if options.json {
        let (peer, time) = theirs.unzip();
        println!(
            "{}",
            json!({"name": name, "shape": shape, "ours": ours, "peer": peer, "theirs": time, "unit": "ms", "ratio": ratio})
        );
        return;
    }
    let other = theirs.map_or(String::new(), |(peer, time)| format!("{peer:<20} {time:>10.2} ms"));
    let ratio = ratio.map_or(String::new(), |ratio| format!("ratio {ratio:.2}"));
    println!("{name:<24} {shape:<20} ours {ours:>10.2} ms   {other}   {ratio}");
}
