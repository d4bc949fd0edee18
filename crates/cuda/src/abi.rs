//! The parameter block: what a launch hands to a kernel, and what comes back of a fault.
//!
//! A kernel has one parameter, a block of bytes. It begins with a header of fixed layout; then comes each argument of
//! [`Kernel::arguments`] in order, each at a multiple of 8:
//!
//! | Argument | Bytes |
//! |---|---|
//! | buffer | `u64` address, `u64` bytes from there to the end of the buffer |
//! | tensor of rank r | `u64` handle, `u64` address of element 0, `u64` bytes from there on, r × `i64` extents, r × `i64` strides (elements) |
//! | … with scales | the same, then `u64` address of the first scale, `u64` bytes from there on, r × `i64` strides (scales) |
//! | threadgroup memory | `u32` offset in shared memory (relative to the dynamic shared memory's start), `u32` bytes |
//!
//! An unbound argument and a null tensor are all zeros. Behind the arguments is a copy of each small object that the kernel takes as a `constant`
//! reference, where the dispatch has it as bytes (see [`PtxOptions::values`](crate::PtxOptions::values)); zeros else.

use anymetal_formats::MAX_RANK;
use anymetal_ir::{AddressSpace, ArgumentId, ArgumentKind, Kernel};

/// Offset of the grid in threads, 3 × `u32`.
pub const GRID_THREADS: u32 = 0;
/// Offset of the size of a full threadgroup in threads, 3 × `u32`.
pub const THREADGROUP: u32 = 12;
/// Offset of the number of threadgroups, 3 × `u32`.
pub const THREADGROUPS: u32 = 24;
/// Offset of a `u32`: threads of a full threadgroup.
pub const THREADS: u32 = 36;
/// Offset of the `u64` address of the [fault record](FaultRecord); 0 without checks.
pub const FAULT: u32 = 40;
/// Offset of the `u64` address of the table of [tensors by handle](HANDLE_ENTRY).
pub const HANDLES: u32 = 48;
/// Offset of a `u32`: entries of that table.
pub const HANDLE_COUNT: u32 = 56;
/// Offset of a `u32`: the logarithm of the threads in `x` that a hardware thread runs, [`PtxModule::coarse_shift`](crate::PtxModule::coarse_shift)
/// or 0.
pub const COARSE_SHIFT: u32 = 60;
/// Offset of the `u64` address of the workspace: [`PtxModule::workspace_bytes`](crate::PtxModule::workspace_bytes) for each block, by
/// linear block index; 128-byte aligned.
pub const WORKSPACE: u32 = 64;
/// Bytes of an object whose copy is in the block at most.
pub const MAX_VALUE: u32 = 128;
/// Bytes of the header.
pub const HEADER: u32 = 72;

/// Layout of an entry in the table of tensors by handle: `u64` handle, `u64` address, `u64` bytes, `u64` scale address, `u64` scale bytes,
/// then 16 × `i64` extents, 16 × `i64` strides, 16 × `i64` scale strides.
pub const HANDLE_ENTRY: u32 = 40 + 3 * 8 * MAX_RANK as u32;

/// Where the parts of a kernel's parameter block are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterBlock {
    /// Bytes in all, a multiple of 8.
    pub size: u32,
    /// Offset of each argument, by [`ArgumentId`].
    pub arguments: Vec<u32>,
    /// Offset of the copy of each argument that can have one, by [`ArgumentId`].
    pub values: Vec<Option<u32>>,
    /// Offset of each [image](crate::ImageRequest): `u64` address of the copy, `u64` address of its flags; zeros for none.
    pub images: Vec<u32>,
}

impl ParameterBlock {
    /// The block of a kernel.
    pub fn of(kernel: &Kernel) -> ParameterBlock {
        let mut at = HEADER;
        let mut arguments = Vec::with_capacity(kernel.arguments.len());
        for argument in &kernel.arguments {
            arguments.push(at);
            at += match &argument.kind {
                ArgumentKind::Buffer { .. } => 16,
                ArgumentKind::Threadgroup { .. } => 8,
                ArgumentKind::Tensor(spec) => {
                    let rank = spec.extents.len() as u32;
                    24 + 16 * rank + if spec.scale_block.is_some() { 16 + 8 * rank } else { 0 }
                }
            };
        }
        let mut values = Vec::with_capacity(kernel.arguments.len());
        for argument in &kernel.arguments {
            let fits = match &argument.kind {
                ArgumentKind::Buffer {
                    space: AddressSpace::Constant,
                    size,
                    reference: true,
                    ..
                } => (1..=MAX_VALUE).contains(size).then_some(*size),
                _ => None,
            };
            values.push(fits.map(|size| {
                let place = at.next_multiple_of(16);
                at = (place + size).next_multiple_of(8);
                place
            }));
        }
        ParameterBlock {
            size: at,
            arguments,
            values,
            images: Vec::new(),
        }
    }

    /// Makes room for an image. Returns its offset.
    pub(crate) fn add_image(&mut self) -> u32 {
        let at = self.size;
        self.images.push(at);
        self.size += 16;
        at
    }

    /// Offset of an argument.
    pub fn argument(&self, id: ArgumentId) -> u32 {
        self.arguments[id.index()]
    }
}

/// Offsets in a tensor argument of a given rank, from the argument's start.
pub mod tensor {
    /// The handle.
    pub const HANDLE: u32 = 0;
    /// The address of element 0.
    pub const ADDRESS: u32 = 8;
    /// Bytes from there on.
    pub const BYTES: u32 = 16;

    /// Extent of a dimension.
    pub const fn extent(dimension: u32) -> u32 {
        24 + 8 * dimension
    }

    /// Stride of a dimension.
    pub const fn stride(rank: u32, dimension: u32) -> u32 {
        24 + 8 * rank + 8 * dimension
    }

    /// Address of the first scale.
    pub const fn scale_address(rank: u32) -> u32 {
        24 + 16 * rank
    }

    /// Bytes from the first scale on.
    pub const fn scale_bytes(rank: u32) -> u32 {
        32 + 16 * rank
    }

    /// Stride of a dimension of the scale plane.
    pub const fn scale_stride(rank: u32, dimension: u32) -> u32 {
        40 + 16 * rank + 8 * dimension
    }
}

/// The record of the first fault of a dispatch, in device memory, zero before the launch. All fields little-endian.
///
/// A lane that faults exchanges [`STATE`](FaultRecord::STATE) from 0 to 1 atomically; who succeeds writes the rest.
pub struct FaultRecord;

impl FaultRecord {
    /// `u32`: 0 nothing, else 1.
    pub const STATE: u32 = 0;
    /// `u32`: what happened, a [`FaultCode`].
    pub const CODE: u32 = 4;
    /// `u32`: the [`LocationId`](anymetal_ir::LocationId) of the instruction.
    pub const LOCATION: u32 = 8;
    /// `u32`: 1 + the index of the argument, 0x8000_0000 + the index of the memory object, or 0 when it is unknown.
    pub const OBJECT: u32 = 12;
    /// `i64`: the byte offset of the access in the object (or the address where the object is unknown).
    pub const OFFSET: u32 = 16;
    /// `u64`: bytes of the object.
    pub const BYTES: u32 = 24;
    /// `u32`: bytes of the access.
    pub const SIZE: u32 = 32;
    /// `u32`: linear index of the thread in its threadgroup.
    pub const THREAD: u32 = 36;
    /// 3 × `u32`: the threadgroup's position.
    pub const GROUP: u32 = 40;
    /// `u32`: for a subscript or a tile outside its tensor, the rank; else 0.
    pub const RANK: u32 = 52;
    /// 4 × `i64`: the first coordinates of the subscript.
    pub const COORDINATES: u32 = 56;
    /// 4 × `i64`: the first extents.
    pub const EXTENTS: u32 = 88;
    /// Bytes in all.
    pub const LENGTH: u32 = 120;
}

/// What a fault is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum FaultCode {
    ReadOutside = 1,
    WriteOutside = 2,
    AtomicOutside = 3,
    Misaligned = 4,
    SubscriptOutside = 5,
    NullHandle = 6,
    UnknownHandle = 7,
    HandleMismatch = 8,
    Divergent = 9,
    TileOutside = 10,
    /// A product of `simdgroup_matrix` that a part of the SIMD-group reaches: so many lanes as the offset says.
    PartialSimdgroup = 11,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_fields_do_not_overlap() {
        assert_eq!(tensor::stride(2, 0), tensor::extent(1) + 8);
        assert_eq!(tensor::scale_address(2), tensor::stride(2, 1) + 8);
        assert_eq!(tensor::scale_stride(2, 0), tensor::scale_bytes(2) + 8);
    }
}
