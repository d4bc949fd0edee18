//! What this backend does to the IR before it lowers it: work that no other backend wants, because it is about having many bytes of
//! memory traffic in flight in each thread.

mod copy;
mod growth;
mod resident;
mod rows;
mod shape;
mod strided;

use anymetal_ir::Kernel;

use crate::PtxOptions;

pub(crate) use growth::growth;
pub(crate) use shape::asks_for_sizes;

/// A kernel as it is lowered.
pub(crate) struct Prepared {
    pub kernel: Kernel,
    /// Bytes that threads keep of a row in registers, if they do.
    pub kept: Option<u32>,
}

/// The kernel as it is lowered. Arguments, memory objects and locations keep their ids.
pub(crate) fn prepare(kernel: &Kernel, options: &PtxOptions) -> Prepared {
    let mut kernel = kernel.clone();
    if let Some(size) = options.shape {
        shape::run(&mut kernel, size);
    }
    // Checked code is slow for other reasons, and its order of accesses is the source's.
    let mut kept = None;
    if !options.checked {
        kept = strided::run(&mut kernel, options);
    }
    debug_assert_eq!(anymetal_ir::verify(&kernel), Ok(()));
    Prepared { kernel, kept }
}
