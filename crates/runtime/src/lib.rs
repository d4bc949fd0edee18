//! Metal tensor kernels on any machine.
//!
//! Metal's vocabulary, Rust's manners. A [`Device`] makes [`Buffer`]s and [`Tensor`]s and compiles Metal source into a
//! [`Library`]; a [`Pipeline`] is one of its kernels, ready to run; a [`Queue`] runs it. Nothing here is `unsafe` for
//! callers, nothing panics on bad input: every refusal is an [`Error`] that says what to do.
//!
//! ```
//! use anymetal::{CompileOptions, Device, ElementFormat, TensorDescriptor};
//!
//! let source = r#"
//!     #include <metal_stdlib>
//!     #include <metal_tensor>
//!     using namespace metal;
//!
//!     kernel void add(tensor<device half, dextents<int, 2>> x [[buffer(0)]],
//!                     constant float &amount [[buffer(1)]],
//!                     uint2 i [[thread_position_in_grid]])
//!     {
//!         x[i.x, i.y] = half(float(x[i.x, i.y]) + amount);
//!     }
//! "#;
//! let device = Device::system_default();
//! let pipeline = device.new_library(source, "add.metal", &CompileOptions::default())?.pipeline("add")?;
//!
//! // Dimension 0 is the innermost: 2 rows of 3 columns.
//! let x = device.new_tensor(&TensorDescriptor::new([3, 2], ElementFormat::F16))?;
//! x.write_f32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//!
//! let mut encoder = device.new_queue().encoder();
//! encoder.set_pipeline(&pipeline).set_tensor(0, &x).set_value(1, &0.5f32)?;
//! encoder.dispatch_threads([3, 2], [32, 1])?;
//! let report = encoder.run()?;
//!
//! assert_eq!(x.read_f32()?, [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]);
//! assert_eq!(report.dispatches[0].kernel, "add");
//! # Ok::<(), anymetal::Error>(())
//! ```
//!
//! # Memory
//!
//! Buffers are shared with the host. A GPU keeps a copy of those that it uses, and bytes move only when one side looks at what the
//! other has written. Host calls that read or write a buffer or tensor wait
//! for dispatches that use it. A tensor either owns its memory ([`Device::new_tensor`]) or views a buffer
//! ([`Buffer::new_tensor`], [`Device::new_tensor_with_attachments`]); the rules of both are Metal's, with Metal's error numbers.
//!
//! # Running
//!
//! Every dispatch is checked when it is encoded and runs when the encoder is committed. A kernel that goes wrong while it
//! runs (an access out of bounds, say) ends its dispatch with [`Error::Fault`]; the process goes on.

mod backend;
mod binding;
mod buffer;
pub mod config;
mod device;
mod error;
mod findings;
mod library;
mod pipeline;
pub mod ptx;
pub mod quantise;
mod queue;
mod tensor;
pub mod weights;
mod whole_file;

pub use anymetal_cpu::tile::TilePath;
pub use anymetal_cpu::{HostMemory, MemoryError, SanitizeOptions};
pub use anymetal_formats::{
    AuxiliaryPlaneDescriptor, AuxiliaryPlanes, DescriptorError, ElementFormat, Extents, PlaneLayout, PlaneType,
    QuantiseError, RankTooLarge, Saturation, StorageMode, Strides, TensorDescriptor, TensorLayout, TensorUsage,
};
pub use anymetal_ir as ir;
pub use anymetal_ir::{Finding, FindingCode};
pub use anymetal_msl::source::Span;
pub use anymetal_msl::{CompileOptions, Diagnostic, Diagnostics, FunctionConstantInfo, MetalStd, OsRelease, Severity};

pub use buffer::Buffer;
pub use device::{Device, DeviceLimits, GpuProperties};
pub use error::{BindingError, Error, GridError, NoSuchKernel, Result, SliceError};
pub use library::Library;
pub use pipeline::{Access, Argument, ArgumentType, ConstantValue, ExecutionOptions, FunctionConstants, Pipeline};
pub use queue::{CommandEncoder, CommandReport, DispatchReport, Graph, Queue, Size, Submission, Traffic};
pub use tensor::{Attachments, Tensor};
pub use whole_file::WholeFile;
