//! Kernels as PTX, without a device: for reading, and for checking on machines that have no GPU.
//!
//! ```
//! use anymetal::{CompileOptions, Device, FunctionConstants, ptx};
//!
//! let source = "kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }";
//! let library = Device::cpu().new_library(source, "twice.metal", &CompileOptions::default())?;
//! let kernel = library.kernel("twice", &FunctionConstants::new())?;
//! let options = ptx::PtxOptions { target: "sm_80".parse().unwrap(), ..Default::default() };
//! let module = ptx::compile(&kernel, &options)?;
//! assert!(module.text.contains(".target sm_80"));
//! # Ok::<(), anymetal::Error>(())
//! ```

pub use anymetal_cuda::{PtxModule, PtxOptions, Target};
use anymetal_ir::Kernel;

use crate::error::{Error, Result};

/// Compiles a kernel to PTX.
///
/// # Errors
/// [`Error::Unsupported`] for what CUDA devices do not run.
pub fn compile(kernel: &Kernel, options: &PtxOptions) -> Result<PtxModule> {
    anymetal_cuda::compile(kernel, options).map_err(|error| Error::Unsupported {
        kernel: kernel.name.clone(),
        reason: error.to_string(),
    })
}
