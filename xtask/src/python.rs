//! The Python environment of the tests and benchmarks: PyTorch and the exporter, kept outside the checkout.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::root;

/// Disk that the environment needs at most while it is being made, in GB.
const NEEDED_GB: u64 = 10;

/// A ready environment.
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Opens the environment, making it first if it is not there. An error says what is missing on this machine.
    pub fn open() -> Result<Self, String> {
        let requirements = std::fs::read_to_string(root().join("tools/requirements.txt"))
            .map_err(|error| format!("cannot read tools/requirements.txt: {error}"))?;
        let base = system_python()?;
        let mut hasher = DefaultHasher::new();
        (&requirements, &base.1).hash(&mut hasher);
        let folder = cache_folder()?.join(format!("python-{:016x}", hasher.finish()));
        let environment = Environment { folder };
        if environment.folder.join("complete").exists() {
            return Ok(environment);
        }
        environment.install(&base.0, &requirements)?;
        Ok(environment)
    }

    /// The environment's interpreter.
    pub fn interpreter(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// A command that runs a script of `tools/` in the workspace's root.
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.interpreter());
        command.arg(root().join("tools").join(name)).current_dir(root());
        command
            .env("HF_HUB_OFFLINE", "1")
            .env("TRANSFORMERS_OFFLINE", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// A folder for files made by the scripts, kept between runs.
    pub fn work_folder(&self) -> PathBuf {
        self.folder.join("work")
    }

    fn install(&self, python: &Path, requirements: &str) -> Result<(), String> {
        let cache = cache_folder()?;
        std::fs::create_dir_all(&cache).map_err(|error| format!("cannot create {}: {error}", cache.display()))?;
        let free = free_gb(&cache).unwrap_or(NEEDED_GB);
        if free < NEEDED_GB {
            return Err(format!(
                "{} has {free} GB free, the Python part needs {NEEDED_GB} GB",
                cache.display()
            ));
        }
        println!(
            "Setting up the Python part (PyTorch, the Core AI exporter, MiniLM's weights) in\n  {}\n\
             It downloads 2.4 GB, keeps 4.6 GB on disk (needs {NEEDED_GB} GB free) and takes 3 to 10 minutes, once.",
            self.folder.display()
        );
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)
                .map_err(|error| format!("cannot clear {}: {error}", self.folder.display()))?;
        }
        run(Command::new(python).args(["-m", "venv"]).arg(&self.folder))?;
        // A requirement line may start with `--no-deps`: PyTorch's CPU use needs none of its GPU packages.
        for (no_deps, lines) in split(requirements) {
            if lines.is_empty() {
                continue;
            }
            let mut pip = Command::new(self.interpreter());
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--only-binary=:all:",
            ]);
            if no_deps {
                pip.arg("--no-deps");
            }
            run(pip.args(lines))?;
        }
        std::fs::create_dir_all(self.work_folder()).map_err(|error| error.to_string())?;
        std::fs::write(self.folder.join("complete"), requirements).map_err(|error| error.to_string())
    }
}

/// The plain requirements, and those to be installed without their dependencies.
fn split(requirements: &str) -> [(bool, Vec<&str>); 2] {
    let lines = requirements
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (bare, full): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("--no-deps "));
    let bare = bare
        .into_iter()
        .map(|line| line.trim_start_matches("--no-deps ").trim())
        .collect();
    [(true, bare), (false, full)]
}

fn cache_folder() -> Result<PathBuf, String> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from("ANYMETAL_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|folder| folder.join("anymetal")))
        .or_else(|| from("HOME").map(|folder| folder.join(".cache/anymetal")))
        .ok_or_else(|| "no cache folder: set ANYMETAL_CACHE or HOME".to_string())
}

/// A Python of 3.11 or later with `venv`, and its version line.
fn system_python() -> Result<(PathBuf, String), String> {
    let probe = "import sys, venv, ensurepip; print(sys.version) if sys.version_info >= (3, 11) else sys.exit(3)";
    for name in ["python3", "python3.13", "python3.12", "python3.11", "python"] {
        if let Ok(output) = Command::new(name).args(["-c", probe]).output()
            && output.status.success()
        {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
            return Ok((PathBuf::from(name), version));
        }
    }
    Err("no Python of 3.11 or later with its venv module on the PATH".to_string())
}

fn free_gb(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let kilobytes: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kilobytes / 1_000_000)
}

/// Runs a command and turns a failure into an error with the end of what it printed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let all = stdout + &String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = all.lines().collect();
    let tail = lines[lines.len().saturating_sub(15)..].join("\n");
    Err(format!(
        "{:?} ended with {}:\n{tail}",
        command.get_program(),
        output.status
    ))
}
