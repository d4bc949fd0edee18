//! Executes kernel IR on this machine's cores.
//!
//! A kernel is compiled once ([`CpuKernel::compile`]) into a *lane program*: the IR's structured control flow with each
//! operation bound to a wide loop for this machine's instruction set. A dispatch ([`CpuKernel::dispatch`]) runs it strip by strip: a strip is up to
//! 256 lanes (a whole threadgroup where lanes meet), all at the same instruction, under an execution mask where they part.

pub mod fault;
pub mod launch;
pub mod memory;
pub mod mirror;
pub mod tile;

mod compile;
mod dispatch;
mod exec;
mod lanes;
mod limits;
mod math;
mod pool;
mod sanitize;

pub use dispatch::{CpuKernel, MAX_THREADS_PER_THREADGROUP};
pub use fault::{
    AccessKind, CompileError, DispatchError, Fault, FaultKind, LaunchError, TensorMismatch, ThreadPosition,
};
pub use launch::{
    BoundArgument, CpuOptions, DispatchOptions, DispatchReport, Grid, Launch, NoTensors, ScaleBinding, TensorBinding,
    TensorTable, Traffic,
};
pub use memory::{DispatchLock, FrozenMemory, HostMemory, MemoryError};
pub use mirror::{Mirror, Mirrored};
pub use pool::THREADS_VARIABLE;
pub use sanitize::SanitizeOptions;
