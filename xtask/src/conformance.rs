//! Which public Metal files compile: `cargo xtask conformance` compiles every kernel file of checkouts named on the command line, as it is,
//! and writes `docs/conformance.md`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::steps;

/// A project that is measured.
struct Project {
    /// Its option on the command line.
    option: &'static str,
    /// Its name in the report.
    name: &'static str,
    /// The folder of its kernels in the checkout.
    folder: &'static str,
    /// Folders for `-I`, in the checkout.
    include: &'static [&'static str],
    /// Other flags.
    flags: &'static [&'static str],
    /// Files that are compiled a second time with another flag, as the project's build does.
    again: &'static [(&'static str, &'static str)],
}

const PROJECTS: &[Project] = &[
    Project {
        option: "--mlx",
        name: "MLX",
        folder: "mlx/backend/metal/kernels",
        include: &["."],
        flags: &["-std=metal4.0", "-fno-fast-math"],
        again: &[],
    },
    Project {
        option: "--llama",
        name: "llama.cpp",
        folder: "ggml/src/ggml-metal",
        include: &["ggml/src/ggml-metal", "ggml/src"],
        flags: &["-std=metal4.0"],
        again: &[
            ("mul_mm.metal", "-DGGML_METAL_HAS_TENSOR"),
            ("fa_f16.metal", "-DGGML_METAL_HAS_TENSOR"),
        ],
    },
    Project {
        option: "--candle",
        name: "candle",
        folder: "src/metal_src",
        include: &[],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--mistral",
        name: "mistral.rs, quantisation",
        folder: "mistralrs-quant/src/metal_kernels",
        include: &[],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--mistral-paged",
        name: "mistral.rs, paged attention",
        folder: "mistralrs-paged-attn/src/metal/kernels",
        include: &[],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--gpt-oss",
        name: "gpt-oss kernels",
        folder: "gpt-oss-metal-kernels/gptoss_kernels/source",
        include: &["gpt-oss-metal-kernels/gptoss_kernels/source/include"],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--mlx-native",
        name: "mlx-native",
        folder: "src/shaders",
        include: &[],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--pytorch",
        name: "PyTorch",
        folder: "aten/src/ATen/native/mps/kernels",
        include: &[".", "aten/src", "c10/metal"],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--tensorops",
        name: "MetalTensorOps",
        folder: "MetalTensorOp/Shaders",
        include: &[],
        flags: &["-std=metal4.0"],
        again: &[],
    },
    Project {
        option: "--matmul",
        name: "example_matmul_metal4",
        folder: "Sources",
        include: &[],
        flags: &["-std=metal4.0"],
        again: &[],
    },
];

/// A checkout given on the command line.
struct Checkout {
    project: &'static Project,
    path: PathBuf,
    revision: String,
}

/// Options of the command.
pub struct Options {
    checkouts: Vec<Checkout>,
    limit: Duration,
}

/// What one compilation came to.
struct Outcome {
    file: String,
    result: Result<usize, String>,
}

impl Options {
    /// Reads the words after `conformance`.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Options {
            checkouts: Vec::new(),
            limit: Duration::from_secs(300),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            if *word == "--limit" {
                let seconds = value
                    .parse()
                    .map_err(|_| format!("`--limit {value}`: seconds are needed"))?;
                options.limit = Duration::from_secs(seconds);
                continue;
            }
            let Some(project) = PROJECTS.iter().find(|p| p.option == *word) else {
                let known: Vec<&str> = PROJECTS.iter().map(|p| p.option).collect();
                return Err(format!(
                    "conformance has no option `{word}`: {} PATH[@REVISION], --limit SECONDS",
                    known.join(" PATH[@REVISION], ")
                ));
            };
            let (path, given) = match value.rsplit_once('@') {
                Some((path, revision)) => (path, Some(revision.to_string())),
                None => (*value, None),
            };
            let path = PathBuf::from(path);
            let revision = given.or_else(|| head(&path)).unwrap_or_else(|| "unknown".into());
            options.checkouts.push(Checkout {
                project,
                path,
                revision,
            });
        }
        if options.checkouts.is_empty() {
            return Err("conformance needs a checkout: --mlx PATH, --llama PATH, …".into());
        }
        Ok(options)
    }
}

/// The commit of a checkout.
fn head(path: &Path) -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(path)
        .output()
        .ok()?;
    let own = path.join(".git").exists();
    (own && output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Measures every checkout and writes the report.
pub fn run(options: &Options) -> Result<bool, String> {
    let built = steps::cargo(&["build", "--release", "-p", "anymetal-cli"])
        .status()
        .map_err(|error| format!("cannot build: {error}"))?;
    if !built.success() {
        return Ok(false);
    }
    let mut summary = String::new();
    let mut details = String::new();
    for checkout in &options.checkouts {
        measure(checkout, options.limit, &mut summary, &mut details)?;
    }
    let text = format!("{HEAD}{summary}{HOW}{details}");
    let path = steps::root().join("docs/conformance.md");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(true)
}

const HEAD: &str = "\
# Conformance: public Metal files that compile

Written by `cargo xtask conformance`; not edited by hand. A file counts as compiled if `anymetal check` takes it unmodified, with every kernel and every
explicit instantiation in it lowered and verified.

| Project | Revision | Files | Compiled | Share | Kernels in them |
|---|---|---|---|---|---|
";

const HOW: &str = "
How it is counted:

- Every `.metal` file of the project's kernel folder that no other `.metal` file of it includes; a file that the project's build compiles twice, with another
  macro, counts twice.
- Headers (`.h`) are counted with the files that include them. Kernels that a project puts together at run time from headers (MLX's JIT) have no
  file of their own and are not counted.
- Repositories, where a name does not say it: `EricLBuehler/mistral.rs`, `huggingface/kernels-community` (the gpt-oss kernels), `robertelee78/mlx-native`,
  `LuckyIYI/MetalTensorOps`, `liuliu/example_matmul_metal4`.
- `crates/runtime/tests/mlx.rs` runs three of MLX's kernels and compares them with f64.
";

fn measure(checkout: &Checkout, limit: Duration, summary: &mut String, details: &mut String) -> Result<(), String> {
    let project = checkout.project;
    let folder = checkout.path.join(project.folder);
    let mut files = Vec::new();
    collect(&folder, &mut files).map_err(|error| format!("{}: {error}", folder.display()))?;
    files.sort();
    let texts: Vec<String> = files
        .iter()
        .map(|f| fs::read_to_string(f).unwrap_or_default())
        .collect();
    let mut jobs: Vec<(PathBuf, Option<&str>)> = Vec::new();
    let mut included = 0;
    for file in &files {
        let name = file
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if texts.iter().any(|text| includes(text, &name)) {
            included += 1;
            continue;
        }
        jobs.push((file.clone(), None));
        for (again, flag) in project.again.iter().filter(|(again, _)| *again == name) {
            debug_assert!(!again.is_empty());
            jobs.push((file.clone(), Some(flag)));
        }
    }
    let mut outcomes = Vec::new();
    for (file, extra) in &jobs {
        let mut flags: Vec<String> = project.flags.iter().map(|f| (*f).to_string()).collect();
        for include in project.include {
            flags.push(format!("-I{}", checkout.path.join(include).display()));
        }
        flags.extend(extra.map(str::to_string));
        let shown = file.strip_prefix(&checkout.path).unwrap_or(file).display().to_string();
        let shown = extra.map_or(shown.clone(), |flag| format!("{shown} ({flag})"));
        let start = Instant::now();
        let result = check(file, &flags, limit, &checkout.path)?;
        let seconds = start.elapsed().as_secs_f64();
        match &result {
            Ok(kernels) => println!("{shown}: {kernels} kernels ({seconds:.1} s)"),
            Err(why) => println!("{shown}: {why} ({seconds:.1} s)"),
        }
        outcomes.push(Outcome { file: shown, result });
    }
    let compiled = outcomes.iter().filter(|o| o.result.is_ok()).count();
    let kernels: usize = outcomes.iter().filter_map(|o| o.result.as_ref().ok()).sum();
    let share = 100 * compiled / outcomes.len().max(1);
    // A commit is a word; anything else is prose.
    let revision = match checkout.revision.contains(' ') {
        true => checkout.revision.clone(),
        false => format!("`{}`", checkout.revision),
    };
    let _ = writeln!(
        summary,
        "| {} | {revision} | {} | {compiled} | {share}% | {kernels} |",
        project.name,
        outcomes.len()
    );
    let _ = write!(details, "\n## {}\n\n", project.name);
    let _ = writeln!(
        details,
        "`{}`, compiled with `{}`. {included} more file{} included by others.",
        project.folder,
        project.flags.join(" "),
        if included == 1 { " is" } else { "s are" }
    );
    if compiled < outcomes.len() {
        let _ = write!(details, "\n| File | First error |\n|---|---|\n");
        for outcome in &outcomes {
            if let Err(why) = &outcome.result {
                let _ = writeln!(details, "| `{}` | {} |", outcome.file, why.replace('|', "\\|"));
            }
        }
    }
    Ok(())
}

/// Does a source include a file of this name?
fn includes(text: &str, name: &str) -> bool {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("#include"))
        .filter_map(|rest| rest.split('"').nth(1))
        .any(|path| path.rsplit('/').next() == Some(name))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "metal") {
            files.push(path);
        }
    }
    Ok(())
}

/// Compiles a file; the number of its kernels, or its first error.
fn check(file: &Path, flags: &[String], limit: Duration, root: &Path) -> Result<Result<usize, String>, String> {
    let report = steps::target_dir().join("conformance.json");
    let out = File::create(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let mut child = Command::new(steps::anymetal())
        .arg("check")
        .arg(file)
        .arg("--json")
        .args(flags)
        .stdout(out)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", steps::anymetal().display()))?;
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if start.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Err(format!("not compiled within {} s", limit.as_secs())));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(format!("cannot wait for the compiler: {error}")),
        }
    }
    let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let Ok(json) = serde_json::from_str::<Value>(&text) else {
        return Ok(Err("the compiler ended without a report".into()));
    };
    let kernels = json["kernels"].as_array().map_or(&[][..], Vec::as_slice);
    if json["ok"] == true {
        return Ok(Ok(kernels.len()));
    }
    let failed = kernels.iter().find_map(|k| k["error"].as_str()).map(first_line);
    let first = json["diagnostics"]
        .as_array()
        .and_then(|list| list.iter().find(|d| d["severity"] == "error"));
    Ok(Err(match first {
        Some(d) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
            let place = text(&d["span"]["file"]);
            let place = Path::new(&place)
                .strip_prefix(root)
                .map_or(place.clone(), |p| p.display().to_string());
            let place = place.trim_start_matches("./");
            format!(
                "{}: {} ({place}:{})",
                text(&d["code"]),
                text(&d["message"]),
                d["span"]["line"]
            )
        }
        None => failed.unwrap_or_else(|| "unknown".into()),
    }))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let options = Options::parse(&["--mlx", "/m@abc", "--limit", "7"]).unwrap();
        assert_eq!(options.limit, Duration::from_secs(7));
        assert_eq!(options.checkouts[0].path, Path::new("/m"));
        assert_eq!(options.checkouts[0].revision, "abc");
        assert!(Options::parse(&["--limit", "7"]).is_err());
        assert!(Options::parse(&["--mlx"]).is_err());
        assert!(Options::parse(&["--torch", "/t"]).is_err());
    }

    #[test]
    fn inclusion() {
        assert!(includes("#include \"kernels/common.metal\"\n", "common.metal"));
        assert!(!includes(
            "// \"common.metal\"\n#include <metal_stdlib>\n",
            "common.metal"
        ));
    }
}
