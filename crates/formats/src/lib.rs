//! Element formats, shapes and planes of Metal tensors: facts about bits.
//!
//! Nothing here knows a kernel or a device. Everything is exact and simple; speed is other crates' business, and they
//! test themselves against this one.

mod codec;
mod descriptor;
mod extents;
mod format;
mod layout;
mod packing;
mod quantise;

pub use codec::Saturation;
pub use descriptor::{
    AuxiliaryPlaneDescriptor, AuxiliaryPlanes, DescriptorError, PlaneType, StorageMode, TensorDescriptor, TensorUsage,
};
pub use extents::{Extents, MAX_RANK, RankTooLarge, Strides};
pub use format::{ElementFormat, UnknownFormat};
pub use layout::{FORMAT_ALIGNMENT, FORMAT_ROW_ELEMENTS, PlaneLayout, TensorLayout, plane_alignment};
pub use quantise::{
    MX_BLOCK, QuantiseError, Quantised, block_max_exponent, dequantise_mx, dequantise_mx_f64, mx_scale, quantise_mx,
};
