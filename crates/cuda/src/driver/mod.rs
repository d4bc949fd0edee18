//! The CUDA driver: devices, memory, streams, events, graphs and kernels, without a toolkit.
//!
//! [`Driver`] opens libcuda at run time; a machine without it gets an error, never a failure to start. A device is a [`Context`]
//! with one stream, on which copies, kernels and graphs run in the order they were put there. Memory comes from a
//! stream-ordered pool that keeps what was freed. PTX is assembled by the driver and kept on the disk ([`Cache`]).
//!
//! All `unsafe` code that talks to the driver is in this folder. The types above it own what they hold: memory is freed,
//! modules are unloaded and graphs are destroyed when their last owner is dropped, in the order of the stream.

mod cache;
mod context;
mod dispatch;
mod error;
mod event;
mod fault;
mod graph;
mod images;
mod library;
mod memory;
mod module;
mod parameters;
mod sys;

pub use cache::{Cache, Key};
pub use context::{Context, Properties, devices};
pub use dispatch::{CudaError, CudaKernel, CudaOptions, FAULT_STRIDE, LaunchError, Prepared};
pub use error::DriverError;
pub use event::Event;
pub use graph::Graph;
pub use library::Driver;
pub use memory::DeviceMemory;
pub use module::{Function, LaunchShape};
pub use parameters::{BoundArgument, BoundTensor, Launch};
