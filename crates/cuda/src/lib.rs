//! Kernel IR to PTX, and its execution on NVIDIA GPUs.
//!
//! [`compile`] turns a kernel into a [`PtxModule`]: PTX text with one entry, and what a launch has to know about it (the
//! [parameter block](abi), shared memory). No CUDA toolkit takes part: the driver assembles the text.

pub mod abi;
pub mod driver;
mod error;
mod lower;
mod options;
mod prepare;
pub mod ptx;

pub use error::CompileError;
pub use options::{ImageRequest, PtxModule, PtxOptions, THREAD_CLASSES, Target};

use anymetal_ir::Kernel;

/// Compiles a kernel that the verifier accepts to PTX.
///
/// # Errors
/// What this backend cannot run, with the source line.
pub fn compile(kernel: &Kernel, options: &PtxOptions) -> Result<PtxModule, CompileError> {
    let prepared = prepare::prepare(kernel, options);
    lower::lower(&prepared.kernel, options, prepared.kept)
}

/// The kernel as [`compile`] lowers it: with what this backend does to the IR first. Any backend runs it in the threadgroups that the options name.
pub fn prepared(kernel: &Kernel, options: &PtxOptions) -> Kernel {
    prepare::prepare(kernel, options).kernel
}
