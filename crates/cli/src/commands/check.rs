//! `anymetal check`: compile only.

use std::path::PathBuf;

use anymetal::{CompileOptions, Device, Error, FunctionConstants, Library, OsRelease, ptx};

use super::{Outcome, colour, count_findings, text};

/// Options of `check`.
#[derive(clap::Args)]
pub struct Options {
    /// The Metal source
    file: PathBuf,
    /// Print the kernel IR of every kernel
    #[arg(long)]
    ir: bool,
    /// Print diagnostics and kernels as JSON
    #[arg(long)]
    json: bool,
    /// Look for mistakes that need no run to be found (docs/sanitizer.md; `kernel run --sanitize` finds the others)
    #[arg(long)]
    sanitize: bool,
    /// Warn of every line that would not compile on this release of macOS: 26.0, 26.1, 26.4, 27.0, …
    #[arg(long, value_name = "RELEASE")]
    os: Option<OsRelease>,
    /// Also compile every kernel for a GPU (an H100 if this machine has none): cuda
    #[arg(long, default_value = "cpu", value_parser = ["cpu", "cuda"])]
    device: String,
    /// Turn refusals that have a meaning here into warnings
    #[arg(long)]
    lenient: bool,
}

/// Compiles a file and every kernel in it.
pub fn run(options: &Options, mut compile: CompileOptions) -> Outcome {
    compile.lenient |= options.lenient;
    if let Some(os) = options.os {
        compile.for_release(os);
    }
    let device = Device::system_default();
    let library = match device.new_library_from_file(&options.file, &compile) {
        Ok(library) => library,
        Err(Error::Compile(diagnostics)) => {
            if options.json {
                println!(
                    "{{\"ok\":false,\"kernels\":[],\"diagnostics\":{}}}",
                    diagnostics.to_json()
                );
            } else {
                eprint!("{}", diagnostics.render_with(colour()));
                let errors = diagnostics
                    .list
                    .iter()
                    .filter(|diagnostic| diagnostic.is_error())
                    .count();
                eprintln!(
                    "\n{}: {errors} error{}",
                    options.file.display(),
                    if errors == 1 { "" } else { "s" }
                );
            }
            return Ok(false);
        }
        Err(other) => return Err(text(other)),
    };
    let mut warnings = library.warnings();
    let lacking = warnings.list.iter().filter(|warning| warning.code == "W0990").count();
    let mut found = Vec::new();
    if options.sanitize {
        for name in library.kernel_names() {
            // A kernel that does not compile is reported below.
            found.extend(library.check(&name, &FunctionConstants::new()).unwrap_or_default());
        }
        warnings.list.extend(library.diagnostics(&found).list);
    }
    if options.json {
        let kernels = library
            .kernel_names()
            .iter()
            .map(|name| kernel_json(&library, name))
            .collect::<Vec<_>>();
        let ok = kernels.iter().all(|kernel| kernel["error"].is_null()) && found.is_empty() && lacking == 0;
        let kernels = serde_json::Value::Array(kernels);
        println!(
            "{{\"ok\":{ok},\"kernels\":{kernels},\"diagnostics\":{}}}",
            warnings.to_json()
        );
        return Ok(ok);
    }
    if !warnings.list.is_empty() {
        eprint!("{}", warnings.render_with(colour()));
    }
    let names = library.kernel_names();
    let mut failed = 0;
    for name in &names {
        let kernel = library.kernel(name, &FunctionConstants::new());
        let kernel = kernel.and_then(|kernel| match options.device.as_str() {
            "cuda" => ptx::compile(&kernel, &gpu_options()).map(|_| kernel),
            _ => Ok(kernel),
        });
        match kernel {
            Ok(kernel) => {
                let arguments: Vec<String> = kernel.arguments.iter().map(argument).collect();
                println!("kernel {name}({})", arguments.join(", "));
                if options.ir {
                    println!("{}", anymetal::ir::print::print(&kernel));
                }
            }
            Err(error) => {
                failed += 1;
                eprintln!("{}", text(error).trim_end());
            }
        }
    }
    let compiled = names.len() - failed;
    println!(
        "{}: {compiled} kernel{} compile{}",
        options.file.display(),
        if compiled == 1 { "" } else { "s" },
        if compiled == 1 { "s" } else { "" }
    );
    if failed > 0 {
        eprintln!("{failed} of {} kernels do not compile", names.len());
    }
    if options.sanitize {
        println!("{}", count_findings(found.len()));
    }
    if let Some(os) = options.os {
        println!(
            "macOS {os}: {}",
            match lacking {
                0 => "everything compiles".to_string(),
                1 => "1 place would not compile".to_string(),
                _ => format!("{lacking} places would not compile"),
            }
        );
    }
    Ok(failed == 0 && found.is_empty() && lacking == 0)
}

/// For the GPU of this machine, or for Hopper.
fn gpu_options() -> ptx::PtxOptions {
    let target = Device::cuda(0).ok().and_then(|device| {
        let sm = device.gpu()?.sm;
        Some(ptx::Target::of_capability(sm / 10, sm % 10))
    });
    ptx::PtxOptions {
        target: target.unwrap_or(ptx::Target::SM_90A),
        ..ptx::PtxOptions::default()
    }
}

fn argument(argument: &anymetal::ir::Argument) -> String {
    use anymetal::ir::ArgumentKind;
    match &argument.kind {
        ArgumentKind::Buffer {
            space,
            type_name,
            reference,
            ..
        } => {
            let mark = if *reference { "&" } else { "*" };
            format!(
                "{space} {type_name}{mark} {} [[buffer({})]]",
                argument.name, argument.index
            )
        }
        ArgumentKind::Tensor(spec) => {
            let extents: Vec<String> = spec
                .extents
                .iter()
                .map(|extent| extent.map_or("?".to_string(), |n| n.to_string()))
                .collect();
            let scales = if spec.scale_block.is_some() { ", scales" } else { "" };
            format!(
                "tensor<{} {}, ({}){scales}> {} [[buffer({})]]",
                spec.space,
                spec.format.msl_name(),
                extents.join(", "),
                argument.name,
                argument.index
            )
        }
        ArgumentKind::Threadgroup { .. } => {
            format!("threadgroup* {} [[threadgroup({})]]", argument.name, argument.index)
        }
    }
}

fn kernel_json(library: &Library, name: &str) -> serde_json::Value {
    match library.kernel(name, &FunctionConstants::new()) {
        Ok(kernel) => {
            let arguments: Vec<String> = kernel.arguments.iter().map(argument).collect();
            serde_json::json!({"name": name, "arguments": arguments})
        }
        Err(error) => serde_json::json!({"name": name, "arguments": [], "error": text(error)}),
    }
}
