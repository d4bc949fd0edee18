//! Tile products: the matrix products under `matmul2d` and `convolution2d`, written per instruction set and chosen at run
//! time, and the wide conversions and row reductions that go with tiles.
//!
//! A product takes a left operand M × K and a right one K × N, each an [`OperandView`]: any strides, any supported element
//! format, optional block scales, and a valid part outside of which elements are zero. It adds into, or overwrites, a
//! row-major accumulator of `f32` or `i32`.
//!
//! Both operands are *packed* first. The right one becomes panels of a few columns whose elements lie in the order in
//! which the micro-kernel reads them, the left one rows without gaps; both are cut along K into blocks that fit the
//! caches. Packing is also where formats are widened and block scales are folded in, so that a micro-kernel knows three
//! element types at most. A packed operand is plain data: it can be kept, shared between threads and used with many
//! partners ([`Product`] says which). [`matmul`] does all of it in one call, and skips packing where it does not pay.
//!
//! What holds on every path:
//! - Sums of floating-point products are `f32`, never narrower, with an error of at most about K · 2^-24 · Σ|a·b|. Sums
//!   of integers are exact modulo 2^32.
//! - Elements keep their exact values: bf16 hardware flushes subnormals to zero, so bf16 tiles are used only where no
//!   value and no product can come near that range; `half` goes through bf16 tiles as an exact sum of two terms.
//! - NaN and infinities propagate as in IEEE 754 within the valid parts. A sum runs over the K that is valid in both
//!   operands, so zeros outside never meet an infinity.

mod buffer;
mod few;
mod few_digits;
mod few_left;
mod kernel;
mod kind;
pub(crate) mod model;
mod pack;
mod path;
mod product;
mod strips;
pub mod vector;
mod view;
mod widen;

#[cfg(test)]
mod tests;

use anymetal_formats::ElementFormat;

pub use few::{FewProduct, multiply_few};
pub use few_left::FewLeft;
pub use kind::{Accumulation, Lane, Product};
pub use pack::{PackedLeft, PackedRight};
pub use path::{PATH_VARIABLE, TilePath, available_paths};
pub use product::{AccumulatorMut, Scratch, matmul, multiply, multiply_part, multiply_view};
pub use view::{OperandKind, OperandView, ScaleView};

/// Why a tile product was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TileError {
    /// The environment asks for a path that does not exist.
    #[error("ANYMETAL_CPU names no instruction set: {value:?}; it takes portable, avx2, avx512 or amx")]
    UnknownPath {
        /// What it says.
        value: String,
    },
    /// The machine lacks what a path needs.
    #[error(
        "this machine cannot run the {path} tile products: it lacks {missing}; unset ANYMETAL_CPU to take the best it has"
    )]
    PathUnavailable {
        /// The path asked for.
        path: TilePath,
        /// What is missing.
        missing: &'static str,
    },
    /// No way to multiply these formats.
    #[error(
        "no tile product multiplies {left} by {right}; operands are integers of up to 8 bits, half, bfloat, float, FP8 or FP4"
    )]
    UnsupportedPair {
        /// Format of the left operand.
        left: ElementFormat,
        /// Format of the right operand.
        right: ElementFormat,
    },
    /// The operands do not meet: left columns and right rows differ.
    #[error("the left operand has {left} columns but the right one {right} rows")]
    InnerMismatch {
        /// Columns of the left operand.
        left: usize,
        /// Rows of the right operand.
        right: usize,
    },
    /// The operands were packed for different products.
    #[error("the packed operands do not go together: {left:?} on the left, {right:?} on the right")]
    PackMismatch {
        /// Path and lane of the left operand.
        left: (TilePath, Lane),
        /// Path and lane of the right operand.
        right: (TilePath, Lane),
    },
    /// The accumulator has the wrong element type.
    #[error("this product accumulates in {needed:?}")]
    AccumulatorType {
        /// What the product accumulates in.
        needed: Accumulation,
    },
    /// The accumulator is too small.
    #[error("an accumulator of {rows} × {cols} elements with rows {stride} apart does not fit in {have} elements")]
    AccumulatorSize {
        /// Rows of the product.
        rows: usize,
        /// Columns of the product.
        cols: usize,
        /// Elements from one row to the next.
        stride: usize,
        /// Elements there are.
        have: usize,
    },
    /// Sums of integers were to be stored as something else than 32-bit integers.
    #[error("sums of integers are stored as i32 or u32, not as {format}")]
    DestinationFormat {
        /// The format asked for.
        format: ElementFormat,
    },
    /// A part of a product lies outside it, or its first column is not a multiple of the panel width.
    #[error("the part is outside the product, or its first column is not a multiple of {panel_width}")]
    BadPart {
        /// Columns in a panel.
        panel_width: usize,
    },
}
