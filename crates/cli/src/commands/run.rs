//! `anymetal run`: a model on given inputs.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anymetal::ptx::Target;
use anymetal_coreai::{Array, Function, Model, ModelOptions, Placement};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Outcome, milliseconds, text};
use crate::inputs::{self, Inputs};
use crate::npy;
use crate::testing::assemble::{self, Wanted};

/// Options of `run`.
#[derive(clap::Args)]
pub struct Options {
    /// The model (a folder NAME.aimodel)
    model: PathBuf,
    /// `NAME=FILE.npy`, `NAME=1,2,3`, `NAME=2x3:1,2,3,4,5,6`, `NAME=text:SENTENCE`, `NAME=@FILE` (a sentence a line; both
    /// need --tokenizer, and a mask input that is not given is filled in), `NAME=image:FILE`
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// The tokenizer (tokenizer.json) of text inputs
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Sentences of a batch for `NAME=@FILE`; each batch is padded to its longest sentence
    #[arg(long, default_value = "16")]
    batch: NonZeroUsize,
    /// Save every output as DIR/NAME.npy
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The function; `main` or the only one by default
    #[arg(long)]
    function: Option<String>,
    /// Run this often and report the fastest time
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Where it runs: cpu, cuda, cuda:N
    #[arg(long, default_value = "cpu")]
    device: String,
    /// On a GPU: run the kernels inside the model without checking their accesses. They are faster, but one that goes wrong can read and
    /// write what else is on the GPU in this process
    #[arg(long)]
    trust: bool,
    /// After the run on the CPU, with every operation as a kernel, compile all those kernels to PTX for these chips
    #[arg(long, value_name = "ARCH", value_delimiter = ',')]
    ptx: Vec<Target>,
    /// Assemble that PTX with this program, and report what it says
    #[arg(long, value_name = "PROGRAM", requires = "ptx")]
    ptxas: Option<PathBuf>,
    /// Load the model although its hash is wrong
    #[arg(long)]
    allow_wrong_hash: bool,
    /// Print times and outputs as JSON
    #[arg(long)]
    json: bool,
}

/// Runs a model.
pub fn run(options: &Options) -> Outcome {
    let start = Instant::now();
    let model = ModelOptions::new()
        .allow_wrong_hash(options.allow_wrong_hash)
        .device(anymetal::Device::by_name(&options.device).map_err(text)?)
        .trust(options.trust)
        .placement(if options.ptx.is_empty() {
            Placement::Auto
        } else {
            Placement::Device
        })
        .load(&options.model)
        .map_err(text)?;
    let function = choose(&model, options.function.as_deref())?;
    let loaded = start.elapsed();
    let tokenizer = options.tokenizer.as_deref().map(inputs::load_tokenizer).transpose()?;
    let specs = function.inputs();
    let given = Inputs::parse(&options.inputs, &specs, tokenizer.as_ref())?;
    let batches = given.batches(options.batch.get(), &specs)?;
    let bar = progress(batches.len());
    let mut results: Vec<Vec<(String, Array)>> = Vec::new();
    let mut fastest = Duration::MAX;
    for round in 0..options.repeat.max(1) {
        let start = Instant::now();
        let mut outputs = Vec::new();
        for batch in &batches {
            let named: Vec<(&str, Array)> = batch
                .iter()
                .map(|(name, array)| (name.as_str(), array.clone()))
                .collect();
            outputs.push(function.run(&named).map_err(text)?);
            bar.inc(u64::from(round == 0));
        }
        fastest = fastest.min(start.elapsed());
        results = outputs;
    }
    bar.finish_and_clear();
    let outputs = join(results)?;
    if let Some(folder) = &options.output {
        save(folder, &outputs)?;
    }
    report(options, &function, loaded, fastest, &outputs)?;
    if options.ptx.is_empty() {
        return Ok(true);
    }
    let kernels: Vec<Wanted> = model
        .kernels()
        .iter()
        .map(|kernel| Wanted::of_model(kernel.ir()))
        .collect();
    let plan = assemble::Plan {
        targets: &options.ptx,
        ptxas: options.ptxas.as_deref(),
        no_spills: false,
        verbose: false,
    };
    assemble::check(&kernels, Vec::new(), &plan)
}

/// The function that is named, `main`, or the only one.
pub fn choose(model: &Model, name: Option<&str>) -> Result<Function, String> {
    let names = model.function_names();
    let name = match (name, names.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) if names.iter().any(|name| name == "main") => "main",
        _ => {
            return Err(format!(
                "the model has several functions; choose with --function: {}",
                names.join(", ")
            ));
        }
    };
    model.function(name).map_err(text)
}

fn progress(count: usize) -> ProgressBar {
    use std::io::IsTerminal;
    if count < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} batches, {eta} left");
    ProgressBar::new(count as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Joins the outputs of several batches along the outermost dimension.
fn join(mut results: Vec<Vec<(String, Array)>>) -> Result<Vec<(String, Array)>, String> {
    if results.len() == 1 {
        return Ok(results.remove(0));
    }
    let first = results.first().ok_or("no input, nothing to run")?;
    let mut out = Vec::new();
    for (at, (name, array)) in first.iter().enumerate() {
        let rest = array
            .shape()
            .get(1..)
            .ok_or_else(|| format!("output {name} has no batch dimension to join"))?;
        let (mut rows, mut bytes) = (0, Vec::new());
        for result in &results {
            let part = &result[at].1;
            if part.shape().get(1..) != Some(rest) {
                return Err(format!(
                    "output {name} has another shape in another batch; use a smaller --batch or .npy inputs"
                ));
            }
            rows += part.shape()[0];
            bytes.extend_from_slice(part.bytes());
        }
        let mut shape = vec![rows];
        shape.extend_from_slice(rest);
        out.push((
            name.clone(),
            Array::from_bytes(array.element(), &shape, &bytes).map_err(text)?,
        ));
    }
    Ok(out)
}

fn save(folder: &Path, outputs: &[(String, Array)]) -> Result<(), String> {
    if folder.exists() && !folder.is_dir() {
        return Err(format!(
            "{}: not a directory, and every output is a file of one",
            folder.display()
        ));
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // All outputs or none.
    let arrays = outputs
        .iter()
        .map(|(_, array)| inputs::to_npy(array))
        .collect::<Result<Vec<_>, _>>()?;
    for ((name, _), array) in outputs.iter().zip(arrays) {
        // An output's name comes from the model: it must not lead out of the folder.
        let safe: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "._-".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let path = folder.join(format!("{}.npy", safe.trim_start_matches('.')));
        npy::write(&path, &array).map_err(text)?;
    }
    Ok(())
}

fn report(
    options: &Options,
    function: &Function,
    loaded: Duration,
    fastest: Duration,
    outputs: &[(String, Array)],
) -> Result<(), String> {
    const SHOWN: usize = 6;
    if options.json {
        let list = outputs
            .iter()
            .map(|(name, array)| {
                let values = inputs::to_npy(array)?.values();
                Ok(serde_json::json!({
                    "name": name, "element": array.element().to_string(), "shape": array.shape(), "values": values,
                }))
            })
            .collect::<Result<Vec<_>, String>>()?;
        println!(
            "{}",
            serde_json::json!({
                "function": function.name(),
                "load_ms": loaded.as_secs_f64() * 1e3,
                "run_ms": fastest.as_secs_f64() * 1e3,
                "outputs": list,
            })
        );
        return Ok(());
    }
    println!(
        "{}: loaded in {}, ran in {}",
        function.name(),
        milliseconds(loaded),
        milliseconds(fastest)
    );
    for (name, array) in outputs {
        let values = inputs::to_npy(array)?.values();
        let shown: Vec<String> = values.iter().take(SHOWN).map(|value| format!("{value:.6}")).collect();
        let more = if values.len() > SHOWN { ", …" } else { "" };
        println!(
            "  {name} {}{:?} [{}{more}]",
            array.element(),
            array.shape(),
            shown.join(", ")
        );
    }
    if let Some(folder) = &options.output {
        println!("saved in {}", folder.display());
    }
    Ok(())
}
