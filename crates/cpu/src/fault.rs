//! What can go wrong while a kernel is compiled for this machine or launched. What a running kernel can do wrong is the same on
//! all devices: see [`anymetal_ir::fault`].

pub use anymetal_ir::fault::{AccessKind, Fault, FaultKind, TensorMismatch, ThreadPosition};

use crate::memory::MemoryError;

/// Why a kernel cannot be compiled for the CPU.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The kernel uses something that this executor does not run.
    #[error("{location}: {what} is not supported on the CPU")]
    Unsupported {
        /// What, in the kernel author's words.
        what: String,
        /// `file:line:column`.
        location: String,
    },
    /// The IR breaks a rule that the verifier checks; the front end should never produce it.
    #[error("{location}: malformed kernel: {what}")]
    Malformed {
        /// Which rule.
        what: String,
        /// `file:line:column`.
        location: String,
    },
}

/// Why a dispatch cannot start. Nothing has been written when one of these is returned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Another number of arguments than the kernel has.
    #[error("kernel takes {expected} arguments, {given} were bound")]
    ArgumentCount {
        /// How many the kernel has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// An argument that the kernel uses was left unbound.
    #[error("argument '{name}' at index {index} is not bound")]
    Unbound {
        /// Parameter name.
        name: String,
        /// `n` of `[[buffer(n)]]` or `[[threadgroup(n)]]`.
        index: u32,
    },
    /// A tensor where a buffer is wanted, or the like.
    #[error("argument '{name}' at index {index} is {expected}, but {given} was bound")]
    WrongKind {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
        /// What the kernel declares.
        expected: &'static str,
        /// What was bound.
        given: &'static str,
    },
    /// The bound range is outside its memory.
    #[error(
        "argument '{name}' at index {index}: bytes {offset} to {end} lie outside the bound memory of {length} bytes"
    )]
    BindingOutOfRange {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
        /// First byte.
        offset: usize,
        /// One past the last byte.
        end: usize,
        /// Size of the memory.
        length: usize,
    },
    /// The binding's offset is not a multiple of the pointee's alignment.
    #[error(
        "argument '{name}' at index {index}: offset {offset} is not a multiple of {align}, the alignment of {type_name}"
    )]
    BindingMisaligned {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
        /// Byte offset bound.
        offset: usize,
        /// Alignment wanted.
        align: u32,
        /// The pointee's type.
        type_name: String,
    },
    /// A `T&` argument with less than one `T` bound.
    #[error("argument '{name}' at index {index}: {type_name} has {size} bytes, only {given} are bound")]
    BindingTooSmall {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
        /// The pointee's type.
        type_name: String,
        /// Its size in bytes.
        size: u32,
        /// Bytes bound.
        given: usize,
    },
    /// Memory that cannot be written is bound to an argument that the kernel writes.
    #[error("argument '{name}' at index {index} is written by the kernel, but the bound memory is read-only")]
    ReadOnlyMemory {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
    },
    /// A threadgroup with too many threads.
    #[error("{threads} threads in a threadgroup; at most {limit} are allowed")]
    TooManyThreads {
        /// Threads asked for.
        threads: u64,
        /// 1024, or the kernel's `max_total_threads_per_threadgroup`.
        limit: u32,
    },
    /// A size of zero in the threadgroup or in the grid.
    #[error("{what} has a size of zero: ({}, {}, {})", size[0], size[1], size[2])]
    EmptySize {
        /// "threadgroup" or "grid".
        what: &'static str,
        /// As given.
        size: [u32; 3],
    },
    /// The grid has more threads in a dimension than 32 bits count.
    #[error("the grid has {threads} threads in dimension {dimension}; at most 4294967295 are allowed")]
    GridTooLarge {
        /// Dimension, 0 is x.
        dimension: usize,
        /// Threads.
        threads: u64,
    },
    /// The grid has more threads than 63 bits count.
    #[error("a grid of ({}, {}, {}) has 2^63 threads or more; dispatch it in parts", grid[0], grid[1], grid[2])]
    TooManyInAll {
        /// Threads in each dimension.
        grid: [u32; 3],
    },
    /// The threadgroup does not have the SIMD-groups that an `execution_simdgroups<N>` operation wants.
    #[error(
        "{location}: the operation runs on execution_simdgroups<{required}>, but the threadgroup has {given} SIMD-groups \
         ({threads} threads); dispatch {} threads a threadgroup", required * 32
    )]
    SimdgroupCount {
        /// N.
        required: u32,
        /// SIMD-groups of the launch.
        given: u32,
        /// Threads of a threadgroup in the launch.
        threads: u32,
        /// Where the operation is.
        location: String,
    },
    /// Static and dynamic threadgroup memory together exceed the limit.
    #[error(
        "{bytes} bytes of threadgroup memory ({fixed} static, {dynamic} from the dispatch); at most {limit} are allowed"
    )]
    ThreadgroupMemory {
        /// All of it.
        bytes: u64,
        /// Declared in the kernel.
        fixed: u64,
        /// Set by the dispatch.
        dynamic: u64,
        /// The limit.
        limit: u64,
    },
    /// A bound tensor does not fit what the kernel declares.
    #[error("argument '{name}' at index {index}: {mismatch}")]
    Tensor {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
        /// How.
        mismatch: TensorMismatch,
    },
    /// A bound memory cannot be reached.
    #[error(transparent)]
    Memory(MemoryError),
    /// The system has no memory for the executor's own state.
    #[error("cannot allocate {bytes} bytes for the executor")]
    OutOfMemory {
        /// How many.
        bytes: usize,
    },
}

/// Why a dispatch failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum DispatchError {
    /// It did not start.
    #[error("cannot launch kernel '{kernel}': {error}")]
    Launch {
        /// Host name of the kernel.
        kernel: String,
        /// Why.
        error: LaunchError,
    },
    /// It was ended by a fault.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}
