//! What a running kernel can do wrong, and how it is told: the same words on every device.

use std::fmt;

use anymetal_formats::ElementFormat;

use crate::types::AddressSpace;

/// How a bound tensor differs from the type that the kernel declares. Extents are in Metal's order, innermost first.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMismatch {
    /// Another element format.
    #[error("the kernel expects elements of {}, the tensor has {}", expected.msl_name(), given.msl_name())]
    Format {
        /// In the kernel.
        expected: ElementFormat,
        /// Bound.
        given: ElementFormat,
    },
    /// Another rank.
    #[error(
        "the kernel expects rank {expected}, the tensor has rank {given} with extents {}",
        list(extents)
    )]
    Rank {
        /// In the kernel.
        expected: usize,
        /// Bound.
        given: usize,
        /// Of the tensor.
        extents: Vec<u64>,
    },
    /// A static extent that the tensor does not have.
    #[error(
        "the kernel expects extent {expected} in dimension {dimension}, the tensor has {given} (extents {}, innermost first)",
        list(extents)
    )]
    Extent {
        /// Which dimension, 0 is the innermost.
        dimension: usize,
        /// In the kernel.
        expected: u64,
        /// Bound.
        given: u64,
        /// Of the tensor.
        extents: Vec<u64>,
    },
    /// The kernel's type has a scale plane and the tensor has none, or its blocks differ.
    #[error("the kernel expects a scale plane with blocks of {}, the tensor has {}", list(expected), given.as_ref().map_or("none".to_string(), |b| list(b)))]
    Scales {
        /// Block factors in the kernel.
        expected: Vec<u32>,
        /// Block factors bound.
        given: Option<Vec<u32>>,
    },
}

/// `(a, b, c)`.
fn list<T: fmt::Display>(values: &[T]) -> String {
    let mut out = String::from("(");
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&value.to_string());
    }
    out.push(')');
    out
}

/// Whether an access reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum AccessKind {
    Read,
    Write,
    Atomic,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Atomic => "atomic operation",
        })
    }
}

/// What a running kernel did wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum FaultKind {
    /// An access outside a buffer, a threadgroup or thread array, or a constant table.
    OutOfBounds {
        access: AccessKind,
        /// Name of the parameter or variable.
        object: String,
        space: AddressSpace,
        /// Bytes from the object's start; may be negative.
        offset: i64,
        /// Bytes of the access.
        bytes: u64,
        /// Size of one element of the object in bytes, 1 if unknown.
        element_size: u32,
        /// Bytes of the object.
        length: u64,
    },
    /// A write to constant or otherwise read-only memory.
    ReadOnly { object: String },
    /// An access through a null pointer, or one that belongs to no object.
    NullPointer { access: AccessKind },
    /// An access at an address that is not a multiple of what its type needs.
    Misaligned {
        access: AccessKind,
        object: String,
        offset: i64,
        align: u32,
    },
    /// `T[x, y]` outside the view.
    TensorIndex {
        access: AccessKind,
        tensor: String,
        /// Innermost first.
        coordinates: Vec<i64>,
        /// Innermost first.
        extents: Vec<i64>,
    },
    /// A tile operation whose static extent goes past the end of the tensor.
    StaticOverhang {
        tensor: String,
        /// Which dimension, 0 is the innermost.
        dimension: u32,
        /// Where the view starts in the tensor.
        origin: i64,
        /// The static extent.
        extent: i64,
        /// The tensor's extents, innermost first.
        tensor_extents: Vec<i64>,
    },
    /// A tensor handle that names no tensor of this dispatch.
    UnknownTensor { handle: u64 },
    /// A tensor reached by handle does not fit the kernel's type.
    Tensor { mismatch: TensorMismatch },
    /// A tile operation with operands that do not fit together or are not supported.
    TileOperation { reason: String },
    /// A barrier that not all threads of its scope reach together.
    DivergentBarrier { arrived: u32, expected: u32 },
    /// The instruction budget of the dispatch is used up.
    Budget { budget: u64 },
    /// Another worker's fault ended this one; never returned to the caller.
    Stopped,
}

/// Where in the launch a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadPosition {
    /// `thread_position_in_grid`.
    pub grid: [u32; 3],
    /// `threadgroup_position_in_grid`.
    pub threadgroup: [u32; 3],
    /// `thread_index_in_threadgroup`.
    pub index: u32,
}

/// The fault that ended a dispatch. Other threads may have written part of their results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Host name of the kernel.
    pub kernel: String,
    /// `file:line:column`, and the call sites it was inlined at, innermost first.
    pub locations: Vec<String>,
    /// What happened.
    pub kind: FaultKind,
    /// In which thread.
    pub thread: ThreadPosition,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (i, location) in self.locations.iter().enumerate() {
            if i == 0 {
                write!(f, "\n  --> {location} in kernel '{}'", self.kernel)?;
            } else {
                write!(f, "\n      called from {location}")?;
            }
        }
        let p = &self.thread;
        write!(
            f,
            "\n  thread ({}, {}, {}) of the grid, index {} in threadgroup ({}, {}, {})",
            p.grid[0], p.grid[1], p.grid[2], p.index, p.threadgroup[0], p.threadgroup[1], p.threadgroup[2]
        )
    }
}

fn reversed(values: &[i64]) -> String {
    let values: Vec<i64> = values.iter().rev().copied().collect();
    list(&values)
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds {
                access,
                object,
                space,
                offset,
                bytes,
                element_size,
                length,
            } => {
                write!(
                    f,
                    "out-of-bounds {access} of {bytes} bytes at byte offset {offset} of {space} '{object}', which has {length} bytes"
                )?;
                let size = i64::from((*element_size).max(1));
                if size > 1 {
                    write!(
                        f,
                        " (index {} of {} elements)",
                        offset.div_euclid(size),
                        length / size as u64
                    )?;
                }
                Ok(())
            }
            FaultKind::ReadOnly { object } => write!(f, "write to read-only '{object}'"),
            FaultKind::NullPointer { access } => write!(f, "{access} through a null pointer"),
            FaultKind::Misaligned {
                access,
                object,
                offset,
                align,
            } => write!(
                f,
                "misaligned {access} at byte offset {offset} of '{object}': its type needs a multiple of {align}"
            ),
            FaultKind::TensorIndex {
                access,
                tensor,
                coordinates,
                extents,
            } => write!(
                f,
                "out-of-bounds {access} of tensor '{tensor}' at [{}] with extents {} (innermost first); in framework order index {} of shape {}",
                coordinates.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
                list(extents),
                reversed(coordinates),
                reversed(extents)
            ),
            FaultKind::StaticOverhang {
                tensor,
                dimension,
                origin,
                extent,
                tensor_extents,
            } => write!(
                f,
                "a static extent of {extent} from {origin} in dimension {dimension} goes past the end of tensor '{tensor}' with extents {} (innermost first); \
                 in framework order dimension {} of shape {}. This is undefined on a Mac: take a dynamic slice at the edge, or allow it with static-overhang zero",
                list(tensor_extents),
                tensor_extents.len().saturating_sub(1 + *dimension as usize),
                reversed(tensor_extents)
            ),
            FaultKind::UnknownTensor { handle } => {
                write!(f, "tensor handle {handle:#x} names no tensor of this dispatch")
            }
            FaultKind::Tensor { mismatch } => write!(f, "tensor does not fit: {mismatch}"),
            FaultKind::TileOperation { reason } => f.write_str(reason),
            FaultKind::DivergentBarrier { arrived, expected } => write!(
                f,
                "only {arrived} of {expected} threads reached the barrier: barriers must be in uniform control flow"
            ),
            FaultKind::Budget { budget } => write!(
                f,
                "the kernel ran past its budget of {budget} instructions (an endless loop?)"
            ),
            FaultKind::Stopped => write!(f, "stopped by a fault of another thread"),
        }
    }
}
