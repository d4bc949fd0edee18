//! `anymetal config`: what a model's tensors are, and whether kernel and weights agree (docs/quantize.md).

use std::path::{Path, PathBuf};

use anymetal::config::{Config, Findings};
use anymetal::weights::WeightsFile;
use anymetal::{CompileOptions, Device, ExecutionOptions};

use super::{Outcome, text};
use crate::binding::function_constants;
use crate::commands::kernel_run::constants;

/// Options of `config check`.
#[derive(clap::Args)]
pub struct CheckOptions {
    /// The config (TOML)
    config: PathBuf,
    /// Compare with the arguments of a kernel
    #[arg(long, value_name = "FILE.metal:NAME")]
    kernel: Option<String>,
    /// A function constant of the kernel: `ID=TYPE VALUE`
    #[arg(long = "constant", value_name = "ID=TYPE VALUE")]
    constants: Vec<String>,
    /// Compare with a weights file
    #[arg(long, value_name = "FILE.safetensors")]
    weights: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `config show`.
#[derive(clap::Args)]
pub struct ShowOptions {
    /// The weights (a safetensors file), or a config to be printed in its standard form
    file: PathBuf,
}

/// Compares a config with a kernel and a weights file.
pub fn check(options: &CheckOptions, compile: CompileOptions) -> Outcome {
    let config = read(&options.config)?;
    let mut parts: Vec<(String, Findings)> = Vec::new();
    if let Some(kernel) = &options.kernel {
        parts.push((
            kernel.clone(),
            check_kernel(&config, kernel, &options.constants, &compile)?,
        ));
    }
    if let Some(path) = &options.weights {
        let file = WeightsFile::open(path).map_err(text)?;
        parts.push((path.display().to_string(), config.check_weights(&file)));
    }
    let mismatches: usize = parts.iter().map(|(_, findings)| findings.mismatches.len()).sum();
    if options.json {
        println!("{}", json(&config, &parts));
        return Ok(mismatches == 0);
    }
    for (_, findings) in &parts {
        for note in &findings.notes {
            eprintln!("note: {note}");
        }
        for mismatch in &findings.mismatches {
            eprintln!("error: {mismatch}");
        }
    }
    let tensors = config.tensors.len();
    if parts.is_empty() {
        println!(
            "{}: {tensors} tensor{}, all allowed by Metal's rules; --kernel and --weights compare further",
            options.config.display(),
            plural(tensors)
        );
    }
    for (place, findings) in &parts {
        let wrong = findings.mismatches.len();
        println!(
            "{place}: {} of {tensors} tensor{} compared, {wrong} mismatch{}",
            findings.compared,
            plural(tensors),
            if wrong == 1 { "" } else { "es" }
        );
    }
    Ok(mismatches == 0)
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn read(path: &Path) -> Result<Config, String> {
    let source = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Config::from_toml(&source).map_err(|error| format!("{}: {error}", path.display()))
}

fn check_kernel(config: &Config, kernel: &str, words: &[String], compile: &CompileOptions) -> Result<Findings, String> {
    let (file, name) = kernel
        .rsplit_once(':')
        .filter(|(file, name)| !file.is_empty() && !name.is_empty())
        .ok_or_else(|| format!("--kernel {kernel}: write FILE.metal:NAME"))?;
    let library = Device::system_default()
        .new_library_from_file(file, compile)
        .map_err(text)?;
    let constants = function_constants(&constants(words)?)?;
    let pipeline = library
        .pipeline_with(name, &constants, &ExecutionOptions::default())
        .map_err(text)?;
    Ok(config.check_kernel(name, pipeline.arguments()))
}

fn json(config: &Config, parts: &[(String, Findings)]) -> serde_json::Value {
    let places: Vec<serde_json::Value> = parts
        .iter()
        .map(|(place, findings)| {
            let mismatches: Vec<serde_json::Value> = findings
                .mismatches
                .iter()
                .map(|m| serde_json::json!({"tensor": m.tensor, "place": m.place, "message": m.message}))
                .collect();
            serde_json::json!({
                "place": place, "compared": findings.compared, "mismatches": mismatches, "notes": findings.notes,
            })
        })
        .collect();
    let ok = parts.iter().all(|(_, findings)| findings.mismatches.is_empty());
    serde_json::json!({"ok": ok, "tensors": config.tensors.len(), "places": places})
}

/// Writes the config of a weights file.
pub fn show(options: &ShowOptions) -> Outcome {
    if options.file.extension().is_some_and(|extension| extension == "toml") {
        print!("{}", read(&options.file)?.to_toml());
        return Ok(true);
    }
    let file = WeightsFile::open(&options.file).map_err(text)?;
    let (config, left_out) = Config::from_weights(&file);
    print!("{}", config.to_toml());
    if !left_out.is_empty() {
        println!("\n# not tensors that Metal can hold as they are:");
        for line in left_out {
            // A name may hold anything; a comment is one line.
            println!("#   {}", line.escape_debug().to_string().replace("\\\"", "\""));
        }
    }
    Ok(true)
}
