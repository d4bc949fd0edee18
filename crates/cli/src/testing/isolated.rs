//! Runs annotated kernels in processes of their own.
//!
//! A kernel that goes wrong on a GPU can take the device from its process, or never end. So the tests of a GPU run in workers: a
//! worker gets one file at a time on its standard input and prints one line of JSON for each run. One that stops or does not answer is
//! replaced, and the file goes on behind the run that did it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anymetal::{Device, ExecutionOptions};
use serde_json::{Value, json};

use super::junit::{Case, Outcome};
use super::runner;

/// The line that ends a file.
const END: &str = "end";

/// How long a worker may take to end when there is nothing more to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Exit code of a worker whose device is lost.
pub const LOST: u8 = 3;

/// Runs files as the lines of standard input ask for them; true if the device is lost.
pub fn work(device: &Device, execution: &ExecutionOptions) -> Result<bool, String> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let (from, path) = line.split_once(' ').ok_or("a worker got no number and path")?;
        let from = from.parse().map_err(|_| format!("`{from}` is no number"))?;
        let mut lost = false;
        runner::run_file(device, Path::new(path), execution, from, &mut |mut case| {
            if let Err(error) = device.synchronize() {
                lost = true;
                if matches!(case.outcome, Outcome::Passed) {
                    case.outcome = Outcome::Failed(error.to_string());
                }
            }
            say(&to_json(&case).to_string());
            !lost
        });
        if lost {
            return Ok(true);
        }
        say(END);
    }
    Ok(false)
}

fn say(line: &str) {
    println!("{line}");
    // Nobody left to read it: the next line on standard input will not come either.
    let _ = std::io::stdout().flush();
}

fn to_json(case: &Case) -> Value {
    let (outcome, why) = match &case.outcome {
        Outcome::Passed => ("passed", ""),
        Outcome::Failed(why) => ("failed", why.as_str()),
        Outcome::Skipped(why) => ("skipped", why.as_str()),
    };
    json!({"name": case.name, "seconds": case.seconds, "outcome": outcome, "why": why})
}

fn from_json(file: &str, line: &str) -> Option<Case> {
    let value: Value = serde_json::from_str(line).ok()?;
    let why = value["why"].as_str()?.to_string();
    Some(Case {
        file: file.to_string(),
        name: value["name"].as_str()?.to_string(),
        seconds: value["seconds"].as_f64()?,
        outcome: match value["outcome"].as_str()? {
            "passed" => Outcome::Passed,
            "failed" => Outcome::Failed(why),
            _ => Outcome::Skipped(why),
        },
    })
}

/// How the workers are run.
pub struct Workers {
    /// How many at a time.
    pub count: usize,
    /// Arguments that make this program one.
    pub arguments: Vec<String>,
    /// How long a run may take.
    pub limit: Duration,
}

impl Workers {
    /// Runs files, and hands over each case as it comes; files in any order, the runs of one in theirs.
    pub fn run(&self, files: &[PathBuf], report: &mut (dyn FnMut(Case) + Send)) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        let report = Mutex::new(report);
        let problem: Mutex<Option<String>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.count.clamp(1, files.len().max(1)) {
                scope.spawn(|| {
                    let mut worker = None;
                    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = self.file(&mut worker, file, &report) {
                            *problem.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                            return;
                        }
                    }
                });
            }
        });
        match problem.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// All runs of a file, with as many workers as it takes.
    fn file(
        &self,
        worker: &mut Option<Worker>,
        file: &Path,
        report: &Mutex<&mut (dyn FnMut(Case) + Send)>,
    ) -> Result<(), String> {
        let name = file.display().to_string();
        let tell = |case: Case| (*report.lock().unwrap_or_else(|e| e.into_inner()))(case);
        let mut done = 0;
        loop {
            let mut current = match worker.take() {
                Some(current) => current,
                None => Worker::start(&self.arguments)?,
            };
            if current.ask(done, &name).is_err() {
                // It stopped after its last answer.
                continue;
            }
            let before = done;
            let stopped = loop {
                match current.lines.recv_timeout(self.limit) {
                    Ok(line) if line == END => {
                        *worker = Some(current);
                        return Ok(());
                    }
                    Ok(line) => match from_json(&name, &line) {
                        Some(case) => {
                            done += 1;
                            tell(case);
                        }
                        None => break format!("a worker said: {line}"),
                    },
                    Err(RecvTimeoutError::Timeout) => {
                        current.stuck = true;
                        break format!("no end within {} s", self.limit.as_secs());
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        let code = current.child.wait().ok().and_then(|status| status.code());
                        if code == Some(LOST.into()) && done > before {
                            // The run that lost the device has been told of.
                            break String::new();
                        }
                        break format!("the process that ran it ended with {code:?}{}", current.last_words());
                    }
                }
            };
            drop(current);
            if !stopped.is_empty() {
                let label = run_label(file, done);
                let Some(label) = label else {
                    return Ok(());
                };
                done += 1;
                tell(Case {
                    file: name.clone(),
                    name: label,
                    seconds: 0.0,
                    outcome: Outcome::Failed(stopped),
                });
            }
            if run_label(file, done).is_none() {
                return Ok(());
            }
        }
    }
}

/// The name of a run of a file, if there is one of that number.
fn run_label(file: &Path, number: usize) -> Option<String> {
    let source = std::fs::read_to_string(file).ok()?;
    let parsed = super::header::TestFile::parse(&source).ok()??;
    parsed.runs.get(number).map(runner::label)
}

struct Worker {
    child: Child,
    /// Closed at the end, which ends it.
    input: Option<ChildStdin>,
    /// It will not end by itself.
    stuck: bool,
    lines: Receiver<String>,
    errors: std::sync::Arc<Mutex<String>>,
}

impl Worker {
    fn start(arguments: &[String]) -> Result<Worker, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a worker: {error}"))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("a worker has no standard streams".to_string());
        };
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let words = std::sync::Arc::new(Mutex::new(String::new()));
        let kept = words.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(|e| e.into_inner());
                kept.push('\n');
                kept.push_str(&line);
            }
        });
        Ok(Worker {
            child,
            input: Some(input),
            stuck: false,
            lines,
            errors: words,
        })
    }

    fn ask(&mut self, from: usize, path: &str) -> std::io::Result<()> {
        let Some(input) = &mut self.input else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        writeln!(input, "{from} {path}")?;
        input.flush()
    }

    /// What it wrote to standard error, shortened.
    fn last_words(&self) -> String {
        // The thread that reads it may be a moment behind the end of the process.
        std::thread::sleep(Duration::from_millis(20));
        let words = self.errors.lock().unwrap_or_else(|e| e.into_inner());
        words.chars().take(2000).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends by itself when its input does, and tools that watch it see the end. One that hangs does not.
        self.input = None;
        let end = Instant::now() + PATIENCE;
        while !self.stuck && Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_travel_as_lines() {
        for outcome in [
            Outcome::Passed,
            Outcome::Failed("line 1\nline 2".into()),
            Outcome::Skipped("cpu only".into()),
        ] {
            let case = Case {
                file: "a.metal".into(),
                name: "run".into(),
                seconds: 0.25,
                outcome,
            };
            let line = to_json(&case).to_string();
            assert!(!line.contains('\n'));
            let back = from_json("a.metal", &line).unwrap();
            assert_eq!(to_json(&back), to_json(&case));
            assert_eq!((back.file, back.seconds), ("a.metal".to_string(), 0.25));
        }
        assert!(from_json("a.metal", "no json").is_none());
    }
}
