//! Element formats, shapes and planes of Metal tensors: facts about bits.
//!
//! Nothing here knows a kernel or a device. Everything is exact and simple; speed is other crates' business, and they
//! test themselves against this one.

mod codec;
mod extents;
mod format;
mod packing;

pub use codec::Saturation;
pub use extents::{Extents, MAX_RANK, RankTooLarge, Strides};
pub use format::{ElementFormat, UnknownFormat};
