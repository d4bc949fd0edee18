//! `anymetal inspect`: what a model contains.

use std::path::PathBuf;

use anymetal_coreai::{Asset, FunctionSummary, OpenOptions, PortSummary, Program, Summary};

use super::{Outcome, bytes, text};

/// Options of `inspect`.
#[derive(clap::Args)]
pub struct Options {
    /// The model (a folder NAME.aimodel)
    model: PathBuf,
    /// Print the Metal source of the kernel with this name (or name's beginning); `all` for every kernel
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Print every operation of the program
    #[arg(long)]
    ops: bool,
    /// Read the model although its hash is wrong
    #[arg(long)]
    allow_wrong_hash: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows a model.
pub fn run(options: &Options) -> Outcome {
    let asset: Asset = OpenOptions::new()
        .allow_wrong_hash(options.allow_wrong_hash)
        .open(&options.model)
        .map_err(text)?;
    let metadata = asset.metadata().clone();
    let program = Program::new(asset.into_module()).map_err(text)?;
    let summary = program.summary();
    if let Some(wanted) = &options.source {
        return print_source(&summary, wanted);
    }
    if options.ops {
        print!("{}", anymetal_coreai::print(program.module(), 64).map_err(text)?);
        return Ok(true);
    }
    if options.json {
        println!("{}", json(&summary));
        return Ok(true);
    }
    println!("{}", options.model.display());
    for (name, value) in [
        ("producer", Some(metadata.producer.as_str())),
        ("author", metadata.author.as_deref()),
        ("license", metadata.license.as_deref()),
        ("description", metadata.description.as_deref()),
    ] {
        if let Some(value) = value {
            println!("  {name:<12} {value}");
        }
    }
    for function in &summary.functions {
        print_function(function);
    }
    println!("operations");
    for (name, count) in &summary.operations {
        println!("  {count:>5} {name}");
    }
    for (name, count) in &summary.composites {
        println!("  {count:>5} composite {name}");
    }
    println!("weights");
    for weight in &summary.weights {
        println!(
            "  {:<12} {:>5} constants {:>12} elements {:>10}",
            weight.element,
            weight.tensors,
            weight.elements,
            bytes(weight.bytes)
        );
    }
    if !summary.kernels.is_empty() {
        println!("kernels (their source: --source NAME)");
        for kernel in &summary.kernels {
            let lines = kernel.source.lines().count();
            println!(
                "  {} ({} call{}, {lines} lines)",
                kernel.name,
                kernel.calls,
                if kernel.calls == 1 { "" } else { "s" }
            );
        }
    }
    if !summary.unsupported.is_empty() {
        println!("not supported here");
        for (name, count) in &summary.unsupported {
            println!("  {count:>5} {name}");
        }
    }
    Ok(true)
}

fn port(port: &PortSummary) -> String {
    let shape: Vec<String> = port
        .shape
        .iter()
        .map(|extent| extent.map_or("?".to_string(), |n| n.to_string()))
        .collect();
    format!("{} {}[{}]", port.name, port.element, shape.join(", "))
}

fn print_function(function: &FunctionSummary) {
    println!("function {}", function.name);
    for (kind, ports) in [
        ("input", &function.inputs),
        ("state", &function.states),
        ("output", &function.outputs),
    ] {
        for entry in ports {
            println!("  {kind:<7} {}", port(entry));
        }
    }
}

fn print_source(summary: &Summary, wanted: &str) -> Outcome {
    let chosen: Vec<_> = summary
        .kernels
        .iter()
        .filter(|kernel| wanted == "all" || kernel.name.starts_with(wanted))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = summary.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        return Err(format!(
            "the model has no kernel `{wanted}` (it has: {})",
            names.join(", ")
        ));
    }
    for kernel in chosen {
        println!("// {}", kernel.name);
        println!("{}", kernel.source.trim());
    }
    Ok(true)
}

fn json(summary: &Summary) -> serde_json::Value {
    let ports = |ports: &[PortSummary]| -> Vec<serde_json::Value> {
        ports
            .iter()
            .map(|port| serde_json::json!({"name": port.name, "element": port.element, "shape": port.shape}))
            .collect()
    };
    let functions: Vec<_> = summary
        .functions
        .iter()
        .map(|f| {
            serde_json::json!({
                "name": f.name, "inputs": ports(&f.inputs), "states": ports(&f.states), "outputs": ports(&f.outputs),
            })
        })
        .collect();
    let counts = |list: &[(String, usize)]| -> serde_json::Map<String, serde_json::Value> {
        list.iter()
            .map(|(name, count)| (name.clone(), (*count).into()))
            .collect()
    };
    let weights: Vec<_> = summary
        .weights
        .iter()
        .map(|w| {
            serde_json::json!({"element": w.element, "constants": w.tensors, "elements": w.elements, "bytes": w.bytes})
        })
        .collect();
    let kernels: Vec<_> = summary
        .kernels
        .iter()
        .map(|k| serde_json::json!({"name": k.name, "calls": k.calls, "source": k.source}))
        .collect();
    serde_json::json!({
        "functions": functions,
        "operations": counts(&summary.operations),
        "composites": counts(&summary.composites),
        "weights": weights,
        "kernels": kernels,
        "unsupported": counts(&summary.unsupported),
    })
}
