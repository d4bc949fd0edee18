//! Everything that can go wrong between a caller and a device.

use std::fmt;

use anymetal_cpu::MemoryError;
use anymetal_formats::{DescriptorError, ElementFormat, PlaneType, RankTooLarge, StorageMode};
use anymetal_msl::Diagnostics;

use crate::pipeline::ArgumentType;

/// The result of nearly every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do.
///
/// The variants are grouped by the call that returns them: memory and tensors, compiling, binding, running. Large
/// details are boxed so that results stay small.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Memory that cannot be had or reached.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A tensor descriptor that Metal refuses; [`DescriptorError::code`] is Metal's error number.
    #[error("invalid tensor descriptor (MTLTensorDomain code {code}): {0}", code = .0.code())]
    Descriptor(#[from] DescriptorError),
    /// More than sixteen dimensions.
    #[error(transparent)]
    Rank(#[from] RankTooLarge),
    /// A copy in or out of a tensor that does not fit it.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// Values that cannot be quantised into a tensor.
    #[error(transparent)]
    Quantise(Box<anymetal_formats::QuantiseError>),
    /// A weights file that cannot be used.
    #[error(transparent)]
    Weights(Box<crate::weights::WeightsError>),
    /// A typed read whose length is not a whole number of elements, or whose range is not inside the buffer.
    #[error(
        "{count} elements of {element_bytes} bytes from byte {offset} on do not lie inside the buffer of {length} bytes"
    )]
    BufferRange {
        /// First byte.
        offset: usize,
        /// Elements asked for.
        count: usize,
        /// Bytes of one element.
        element_bytes: usize,
        /// The buffer's size.
        length: usize,
    },
    /// A source file that cannot be read.
    #[error("cannot read {path}: {source}")]
    ReadSource {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The source does not compile; the diagnostics say where and why.
    #[error("{0}")]
    Compile(Box<Diagnostics>),
    /// No kernel of this name.
    #[error(transparent)]
    NoSuchKernel(Box<NoSuchKernel>),
    /// The arguments do not fit the kernel.
    #[error(transparent)]
    Binding(Box<BindingError>),
    /// The grid or threadgroup does not fit the kernel or the device.
    #[error(transparent)]
    Grid(Box<GridError>),
    /// The device cannot run this kernel.
    #[error("kernel `{kernel}`: {reason}")]
    Unsupported {
        /// The kernel.
        kernel: String,
        /// What is missing, and what to do.
        reason: String,
    },
    /// A device that is not there or stopped, or that has no memory left.
    #[error("{0}")]
    Device(String),
    /// The executor refused the dispatch before it started.
    #[error("{0}")]
    Launch(String),
    /// The kernel did something wrong while it ran; the message names kernel, source line, buffer, index and thread.
    #[error("{message}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// The whole report.
        message: String,
    },
}

impl Error {
    /// The number of Metal's error domain `MTLTensorDomain` for a tensor that could not be made: 2
    /// (`MTLTensorErrorInvalidDescriptor`) for a descriptor or its extents, 1 (`MTLTensorErrorInternalError`) for memory that cannot
    /// be had, `None` for everything else.
    pub fn tensor_domain_code(&self) -> Option<u32> {
        match self {
            Error::Descriptor(error) => Some(error.code()),
            Error::Rank(_) => Some(2),
            Error::Memory(MemoryError::OutOfMemory { .. }) => Some(1),
            _ => None,
        }
    }
}

impl From<BindingError> for Error {
    fn from(error: BindingError) -> Self {
        Error::Binding(Box::new(error))
    }
}

impl From<GridError> for Error {
    fn from(error: GridError) -> Self {
        Error::Grid(Box::new(error))
    }
}

impl From<Diagnostics> for Error {
    fn from(error: Diagnostics) -> Self {
        Error::Compile(Box::new(error))
    }
}

/// A kernel that the library does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoSuchKernel {
    /// What was asked for.
    pub name: String,
    /// The library (its file name).
    pub library: String,
    /// What there is.
    pub available: Vec<String>,
    /// The most similar name, if one is similar.
    pub nearest: Option<String>,
}

impl NoSuchKernel {
    pub(crate) fn new(name: &str, library: &str, available: Vec<String>) -> Self {
        let nearest = nearest(name, &available).cloned();
        Self {
            name: name.to_owned(),
            library: library.to_owned(),
            available,
            nearest,
        }
    }
}

impl fmt::Display for NoSuchKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no kernel `{}`", self.library, self.name)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        match self.available.as_slice() {
            [] => write!(f, " (it has no kernels at all)"),
            names => write!(f, " (it has: {})", names.join(", ")),
        }
    }
}

impl std::error::Error for NoSuchKernel {}

/// The name that takes the fewest edits to reach, if that is at most a third of its letters.
pub(crate) fn nearest<'a>(name: &str, candidates: &'a [String]) -> Option<&'a String> {
    let best = candidates
        .iter()
        .map(|c| (edit_distance(name, c), c))
        .min_by_key(|(d, _)| *d)?;
    let allowed = name.chars().count().max(best.1.chars().count()).div_ceil(3);
    (best.0 <= allowed).then_some(best.1)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A copy between host bytes and a part of a tensor that does not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// No such plane.
    #[error("the tensor has no {plane} plane")]
    NoSuchPlane {
        /// The plane.
        plane: PlaneType,
    },
    /// Origin, size or strides of another rank than the tensor's.
    #[error("the tensor has {rank} dimensions, but the slice's {what} has {given}")]
    Rank {
        /// The tensor's rank.
        rank: usize,
        /// `origin`, `dimensions` or `strides`.
        what: &'static str,
        /// The rank given.
        given: usize,
    },
    /// The slice leaves the plane.
    #[error("the slice reaches from {origin} to {} in dimension {dimension} of the {plane} plane, which has {size} elements there", origin.saturating_add(*length))]
    OutOfBounds {
        /// The plane.
        plane: PlaneType,
        /// Which dimension.
        dimension: usize,
        /// Where the slice starts.
        origin: usize,
        /// How many elements it has.
        length: usize,
        /// How many the plane has.
        size: usize,
    },
    /// A slice of sub-byte elements that starts or ends inside a byte.
    #[error(
        "the slice's {what} in dimension 0 is {value}; with elements of {format} it must be a multiple of {multiple}"
    )]
    InsideByte {
        /// `origin` or `size`.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The element format.
        format: ElementFormat,
        /// Elements in a byte.
        multiple: usize,
    },
    /// A copy between the host and memory that only the device reaches.
    #[error(
        "the tensor's storage mode is {mode}; only shared tensors can be read or written by the host, so use a kernel or make it shared"
    )]
    NotShared {
        /// The tensor's mode.
        mode: StorageMode,
    },
    /// Host strides that overlap.
    #[error("strides[{dimension}] of the host bytes is {stride}; it must be at least strides[{0}] times dimensions[{0}], {least}", dimension.saturating_sub(1))]
    HostStrides {
        /// Which stride.
        dimension: usize,
        /// Its value in elements.
        stride: usize,
        /// The least that it may be.
        least: usize,
    },
    /// Host strides that are not whole bytes.
    #[error(
        "strides[{dimension}] of the host bytes is {stride} elements of {format}, which is not a whole number of bytes"
    )]
    HostStrideBits {
        /// Which stride.
        dimension: usize,
        /// Its value in elements.
        stride: usize,
        /// The element format.
        format: ElementFormat,
    },
    /// Too few or too many host bytes.
    #[error("the slice covers {needed} bytes of host memory, {given} were given")]
    HostBytes {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// Values of a type that the plane does not hold.
    #[error("the {plane} plane holds {format}, not elements of {given} bytes")]
    ElementSize {
        /// The plane.
        plane: PlaneType,
        /// Its format.
        format: ElementFormat,
        /// Bytes of the type that was given.
        given: usize,
    },
}

/// Arguments that do not fit a kernel. Every message names the kernel, the argument and its binding.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// No pipeline yet.
    #[error("no pipeline is set; call `set_pipeline` before the dispatch")]
    NoPipeline,
    /// Wrong argument count: something is missing.
    #[error(
        "kernel `{kernel}` takes {expected} arguments, {given} bound: `{name}` at {binding} ({argument}) is missing"
    )]
    Missing {
        /// The kernel.
        kernel: String,
        /// How many arguments the kernel has.
        expected: usize,
        /// How many of them are bound.
        given: usize,
        /// The missing one's name.
        name: String,
        /// Where it goes: `buffer(2)` or `threadgroup(0)`.
        binding: String,
        /// What it is.
        argument: Box<ArgumentType>,
    },
    /// Wrong argument count: something is too many.
    #[error("kernel `{kernel}` takes {expected} arguments and has none at {binding}, but something is bound there")]
    Unexpected {
        /// The kernel.
        kernel: String,
        /// How many arguments the kernel has.
        expected: usize,
        /// Where something is bound.
        binding: String,
    },
    /// A buffer where a tensor goes, or the other way round.
    #[error("argument `{name}` of kernel `{kernel}` at {binding} is {argument}, but {given} is bound there")]
    Kind {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// What it is.
        argument: Box<ArgumentType>,
        /// What is bound: `a buffer`, `a tensor`, `inline bytes`.
        given: &'static str,
    },
    /// A tensor of another element format.
    #[error("argument `{name}` of kernel `{kernel}` at {binding} is a tensor of {expected} ({}), the bound tensor has {given} ({})", expected.msl_name(), given.msl_name())]
    Format {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// The kernel's element format.
        expected: ElementFormat,
        /// The tensor's.
        given: ElementFormat,
    },
    /// A tensor of another rank.
    #[error(
        "argument `{name}` of kernel `{kernel}` at {binding} is a tensor of rank {expected}, the bound tensor has rank {given} (dimensions {dimensions}, innermost first)"
    )]
    Rank {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// The kernel's rank.
        expected: usize,
        /// The tensor's.
        given: usize,
        /// The tensor's dimensions.
        dimensions: String,
    },
    /// A tensor whose dimension differs from the kernel's static extent.
    #[error(
        "argument `{name}` of kernel `{kernel}` at {binding} has the static extent {expected} in dimension {dimension}, the bound tensor has {given} there (dimensions {dimensions}, innermost first)"
    )]
    StaticExtent {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// Which dimension.
        dimension: usize,
        /// The kernel's extent.
        expected: u64,
        /// The tensor's.
        given: usize,
        /// The tensor's dimensions.
        dimensions: String,
    },
    /// A dimension or stride that the kernel's index type cannot hold.
    #[error(
        "dimension {dimension} of the tensor bound to argument `{name}` of kernel `{kernel}` at {binding} is {given}, more than the kernel's index type {index_type} holds"
    )]
    IndexType {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// Which dimension.
        dimension: usize,
        /// Its size.
        given: usize,
        /// The index type's name.
        index_type: &'static str,
    },
    /// Scale planes that do not match.
    #[error("argument `{name}` of kernel `{kernel}` at {binding} {expected}, but the bound tensor {given}")]
    Planes {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// What the kernel's type says: `has a scales plane with blocks [32, 1]`, `has no scales plane`.
        expected: String,
        /// What the tensor has.
        given: String,
    },
    /// An offset at which the argument's type cannot lie.
    #[error(
        "argument `{name}` of kernel `{kernel}` at {binding} is bound at byte {offset}, but `{type_name}` must be aligned to {alignment} bytes"
    )]
    Alignment {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// The byte offset of the binding.
        offset: usize,
        /// The pointee's type.
        type_name: String,
        /// Its alignment.
        alignment: usize,
    },
    /// An offset past the end of a buffer.
    #[error(
        "argument `{name}` of kernel `{kernel}` at {binding} is bound at byte {offset} of a buffer of {length} bytes"
    )]
    Offset {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// The byte offset of the binding.
        offset: usize,
        /// The buffer's size.
        length: usize,
    },
    /// Fewer bytes than a referenced object has.
    #[error(
        "argument `{name}` of kernel `{kernel}` at {binding} is a `{type_name}` of {needed} bytes, but only {given} bytes are bound"
    )]
    TooSmall {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
        /// The object's type.
        type_name: String,
        /// Its size.
        needed: usize,
        /// Bytes bound.
        given: usize,
    },
    /// Memory that must not be written, bound where the kernel writes.
    #[error("argument `{name}` of kernel `{kernel}` at {binding} is written, but the memory bound there is read-only")]
    ReadOnly {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Where it goes.
        binding: String,
    },
    /// A function constant that the kernel lacks, needs or has in another type.
    #[error("kernel `{kernel}`: {reason}")]
    FunctionConstant {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
}

/// A grid or threadgroup that cannot be launched.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// Nothing to do in some dimension.
    #[error("kernel `{kernel}`: the {what} size is {size}; every dimension must be at least 1")]
    Empty {
        /// The kernel.
        kernel: String,
        /// `grid` or `threadgroup`.
        what: &'static str,
        /// As given.
        size: String,
    },
    /// More threads in a threadgroup than allowed.
    #[error("kernel `{kernel}`: a threadgroup of {size} has {threads} threads, but {limit_of} allows {limit}")]
    TooManyThreads {
        /// The kernel.
        kernel: String,
        /// As given.
        size: String,
        /// Their product.
        threads: usize,
        /// Who limits it: `the device` or `max_total_threads_per_threadgroup`.
        limit_of: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An operation of scope `execution_simdgroups<N>` in a threadgroup of another size.
    #[error("kernel `{kernel}`: an operation of scope execution_simdgroups<{required}>{place} needs threadgroups of exactly {required} SIMD-groups ({} threads), but the threadgroup size {size} makes {given}", required * 32)]
    SimdgroupCount {
        /// The kernel.
        kernel: String,
        /// The N of the scope.
        required: u32,
        /// ` at FILE:LINE:COLUMN`, or nothing.
        place: String,
        /// As given.
        size: String,
        /// `1 SIMD-group`, `3 SIMD-groups`.
        given: String,
    },
    /// More threadgroup memory than the device has.
    #[error(
        "kernel `{kernel}` uses {needed} bytes of threadgroup memory ({fixed} declared, {dynamic} set by the dispatch), the device has {limit}"
    )]
    ThreadgroupMemory {
        /// The kernel.
        kernel: String,
        /// The sum.
        needed: u64,
        /// Declared in the source.
        fixed: u64,
        /// Set by `set_threadgroup_memory_length`.
        dynamic: u64,
        /// The device's limit.
        limit: u64,
    },
    /// More threads than can be counted.
    #[error("kernel `{kernel}`: the grid {size} is too large; positions in the grid have 32 bits")]
    TooLarge {
        /// The kernel.
        kernel: String,
        /// As given.
        size: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_kernel_is_named() {
        let names: Vec<String> = ["flash_attention", "matmul_f16", "add"].map(String::from).into();
        let error = NoSuchKernel::new("flash_atention", "k.metal", names.clone());
        assert_eq!(
            error.to_string(),
            "k.metal has no kernel `flash_atention`; did you mean `flash_attention`? (it has: flash_attention, matmul_f16, add)"
        );
        let error = NoSuchKernel::new("softmax", "k.metal", names);
        assert_eq!(
            error.to_string(),
            "k.metal has no kernel `softmax` (it has: flash_attention, matmul_f16, add)"
        );
        let error = NoSuchKernel::new("x", "k.metal", Vec::new());
        assert_eq!(
            error.to_string(),
            "k.metal has no kernel `x` (it has no kernels at all)"
        );
    }
}
