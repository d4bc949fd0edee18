//! `anymetal kernel ptx`: a kernel as it goes to a GPU's driver.

use std::path::PathBuf;

use anymetal::ptx::{self, PtxOptions, Target};
use anymetal::{CompileOptions, Device, WholeFile};

use super::{Outcome, text};
use crate::binding::{choose_kernel, function_constants};
use crate::commands::kernel_run::constants;

/// Options of `kernel ptx`.
#[derive(clap::Args)]
pub struct Options {
    /// The Metal source
    file: PathBuf,
    /// The kernel; may be left out if the file has one
    #[arg(long, short)]
    kernel: Option<String>,
    /// A function constant: `ID=TYPE VALUE`
    #[arg(long = "constant", value_name = "ID=TYPE VALUE")]
    constants: Vec<String>,
    /// The chip: sm_80, sm_90a, sm_100a, sm_120a
    #[arg(long, default_value = "sm_90a")]
    arch: Target,
    /// With every access checked
    #[arg(long)]
    checked: bool,
    /// Layout compatibility queries answer false
    #[arg(long)]
    force_incompatible: bool,
    /// Threads of the threadgroups that it is for: fewer leave more registers for each. Else those of `--threadgroup`, or what the kernel states, or 256
    #[arg(long)]
    threads: Option<u32>,
    /// Every threadgroup of the launch is whole
    #[arg(long)]
    whole: bool,
    /// Every threadgroup of the launch has this size: `X,Y,Z`, what is left out is 1
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',')]
    threadgroup: Vec<u32>,
    /// For arguments whose memory overlaps
    #[arg(long)]
    aliased: bool,
    /// Turn refusals that have a meaning here into warnings
    #[arg(long)]
    lenient: bool,
    /// Write it to a file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Compiles a kernel to PTX.
pub fn run(options: &Options, mut compile: CompileOptions) -> Outcome {
    compile.lenient |= options.lenient;
    let library = Device::cpu()
        .new_library_from_file(&options.file, &compile)
        .map_err(text)?;
    let name = choose_kernel(&library, options.kernel.as_deref())?;
    let constants = function_constants(&constants(&options.constants)?)?;
    let kernel = library.kernel(&name, &constants).map_err(text)?;
    let shape = match options.threadgroup[..] {
        [] => None,
        [x] => Some([x, 1, 1]),
        [x, y] => Some([x, y, 1]),
        [x, y, z] => Some([x, y, z]),
        _ => return Err("--threadgroup takes up to three numbers".into()),
    };
    if let Some(shape) = shape {
        let threads = shape.iter().try_fold(1u32, |all, &n| all.checked_mul(n));
        if !threads.is_some_and(|threads| (1..=1024).contains(&threads)) {
            let [x, y, z] = shape;
            return Err(format!(
                "--threadgroup {x},{y},{z}: a threadgroup has 1 to 1024 threads"
            ));
        }
    }
    let of_shape = shape.map(|shape| shape.iter().product());
    let threads = options.threads.or(of_shape).or(PtxOptions::stated_threads(&kernel));
    let threads = threads.unwrap_or(PtxOptions::thread_class(0));
    let ptx_options = PtxOptions {
        target: options.arch,
        checked: options.checked,
        force_incompatible: options.force_incompatible,
        unaliased: !options.aliased,
        threads: if options.whole {
            threads
        } else {
            PtxOptions::thread_class(threads)
        },
        whole: options.whole,
        shape,
        ..PtxOptions::default()
    };
    let module = ptx::compile(&kernel, &ptx_options).map_err(text)?;
    match &options.output {
        None => print!("{}", module.text),
        Some(path) => {
            WholeFile::write_all_to(path, module.text.as_bytes())
                .map_err(|error| format!("{}: {error}", path.display()))?;
            println!(
                "{}: kernel {} for {}, {} bytes of shared memory, {} threads at most",
                path.display(),
                module.entry,
                options.arch,
                module.shared_bytes,
                module.max_threads
            );
        }
    }
    Ok(true)
}
