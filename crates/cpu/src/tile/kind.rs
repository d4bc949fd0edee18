//! How a product of two operand formats is computed on a path: what packing turns elements into, and what sums are kept
//! in.

use anymetal_formats::ElementFormat;

use super::path::{has_bf16_dots, has_int8_dots};
use super::{OperandKind, TileError, TilePath};

/// What packing turns an operand's elements into. Packed memory is made of 32-bit groups of 1, 2 or 4 consecutive
/// elements along K.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lane {
    /// `f32`, one a group: exact for every supported format.
    F32,
    /// bf16, two a group, for values that it holds exactly (or operands that may be rounded).
    Bf16,
    /// Two bf16 terms whose sum is the value, in two planes: exact for `half`.
    Bf16Pair,
    /// `i16`, two a group, for integers of up to 8 bits.
    I16,
    /// `i8`, four a group. A left operand of `u8` is packed 128 lower where the right one is not signed and the path has
    /// no product of two unsigned lanes.
    I8,
    /// `u8`, four a group. A left operand of `i8` is packed 128 higher likewise.
    U8,
}

impl Lane {
    /// Elements along K in a 32-bit group.
    pub const fn group(self) -> usize {
        match self {
            Lane::F32 => 1,
            Lane::Bf16 | Lane::Bf16Pair | Lane::I16 => 2,
            Lane::I8 | Lane::U8 => 4,
        }
    }

    pub(crate) const fn bytes(self) -> usize {
        4 / self.group()
    }

    /// Bytes that an element takes up in packed memory.
    pub const fn bytes_per_element(self) -> usize {
        self.bytes() * self.planes()
    }

    /// Planes that add up to the value.
    pub(crate) const fn planes(self) -> usize {
        match self {
            Lane::Bf16Pair => 2,
            _ => 1,
        }
    }

    /// True for the lanes that AMX multiplies: rows go in tiles of 16 groups.
    pub(crate) const fn is_tile_lane(self, path: TilePath) -> bool {
        matches!(path, TilePath::Amx) && !matches!(self, Lane::F32 | Lane::I16)
    }
}

/// What the sums of a product are kept in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Accumulation {
    /// `f32`, always, for products with at least one floating-point operand.
    F32,
    /// `i32` modulo 2^32, for two integer operands.
    I32,
}

/// A way to compute a product, chosen from the two operands' formats. Equal ways accept each other's packed operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Product {
    pub(crate) path: TilePath,
    pub(crate) left: Lane,
    pub(crate) right: Lane,
    pub(crate) accumulation: Accumulation,
}

impl Product {
    /// Chooses the way for a pair of formats on a path that this machine has.
    ///
    /// Two integer operands of up to 8 bits without scales give `i32`; every other pair of integers of up to 8 bits,
    /// `half`, `bfloat`, `float` and the FP8 and FP4 formats gives `f32`. `relaxed` permits rounding `float` operands
    /// (to bf16 beside `bfloat`, otherwise to 16 significant bits, more than a Mac keeps). AMX makes use of both, AVX-512 with bf16
    /// dot products of the first.
    pub fn choose(
        path: TilePath,
        left: impl Into<OperandKind>,
        right: impl Into<OperandKind>,
        relaxed: bool,
    ) -> Result<Product, TileError> {
        let (left, right) = (left.into(), right.into());
        path.require()?;
        let (Some(left_class), Some(right_class)) = (class(left.format), class(right.format)) else {
            return Err(TileError::UnsupportedPair {
                left: left.format,
                right: right.format,
            });
        };
        let amx = path == TilePath::Amx;
        let bf16 = amx || path == TilePath::Avx512 && has_bf16_dots();
        let integer = |kind: OperandKind, class| class == Class::Integer && !kind.scaled;
        let (left_lane, right_lane, accumulation) = if integer(left, left_class) && integer(right, right_class) {
            let lane = |signed: bool| if signed { Lane::I8 } else { Lane::U8 };
            let (left_signed, right_signed) = (left.format.is_signed(), right.format.is_signed());
            let (left, right) = match path {
                TilePath::Amx => (lane(left_signed), lane(right_signed)),
                // The instruction takes one operand of each kind.
                TilePath::Avx512 if has_int8_dots() => (lane(!right_signed), lane(right_signed)),
                _ => (Lane::I16, Lane::I16),
            };
            (left, right, Accumulation::I32)
        } else if !bf16 {
            (Lane::F32, Lane::F32, Accumulation::F32)
        } else {
            let lane = |class, partner| match class {
                Class::Integer | Class::Small | Class::Bfloat => Some(Lane::Bf16),
                // Two terms cost as much as `f32` without tiles.
                Class::Half => amx.then_some(Lane::Bf16Pair),
                Class::Float if !relaxed => None,
                Class::Float => match partner {
                    Class::Bfloat => Some(Lane::Bf16),
                    _ => amx.then_some(Lane::Bf16Pair),
                },
            };
            match (lane(left_class, right_class), lane(right_class, left_class)) {
                (Some(left), Some(right)) => (left, right, Accumulation::F32),
                _ => (Lane::F32, Lane::F32, Accumulation::F32),
            }
        };
        Ok(Product {
            path,
            left: left_lane,
            right: right_lane,
            accumulation,
        })
    }

    /// The instruction set.
    pub fn path(&self) -> TilePath {
        self.path
    }

    /// What the left operand is packed as. A packed left operand serves every product with the same path and lane.
    pub fn left_lane(&self) -> Lane {
        self.left
    }

    /// What the right operand is packed as.
    pub fn right_lane(&self) -> Lane {
        self.right
    }

    /// What the sums are kept in.
    pub fn accumulation(&self) -> Accumulation {
        self.accumulation
    }

    /// The strict `f32` way on a path that the machine has, which takes every supported format.
    pub(crate) fn widened(path: TilePath) -> Product {
        Product {
            path,
            left: Lane::F32,
            right: Lane::F32,
            accumulation: Accumulation::F32,
        }
    }

    /// Columns in a panel of the packed right operand; a part of a product starts at a multiple of it.
    pub fn panel_width(&self) -> usize {
        panel_width(self.path, self.right)
    }
}

pub(crate) const fn panel_width(path: TilePath, lane: Lane) -> usize {
    match path {
        TilePath::Avx512 => 64,
        TilePath::Amx if !lane.is_tile_lane(path) => 64,
        _ => 16,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Integers of up to 8 bits.
    Integer,
    /// FP8 and FP4.
    Small,
    Bfloat,
    Half,
    Float,
}

fn class(format: ElementFormat) -> Option<Class> {
    use ElementFormat::*;
    Some(match format {
        I8 | U8 | Int4B | UInt4B | Int2B | UInt2B => Class::Integer,
        Fp4E2M1 | Fp8E4M3 | Fp8E5M2 => Class::Small,
        BF16 => Class::Bfloat,
        F16 => Class::Half,
        F32 => Class::Float,
        Bool | I16 | U16 | I32 | U32 | I64 | U64 | Fp8UE8M0 => return None,
    })
}

/// How K is cut into blocks of groups. Both operands of a product are cut alike, because the cut depends only on the
/// full K, the path and the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocking {
    /// Groups in a block; only the last one has fewer.
    pub groups: usize,
    /// Elements in a group.
    pub group: usize,
    /// Groups that packing fills up with zeros to a multiple of this.
    pub granule: usize,
}

impl Blocking {
    /// Blocks of at most 256 groups (with 16 columns, 16 KiB of a right panel: half of a first-level cache).
    const MOST: usize = 256;

    pub fn new(k: usize, path: TilePath, lane: Lane) -> Self {
        let group = lane.group();
        let granule = if lane.is_tile_lane(path) { 16 } else { 1 };
        let total = k.div_ceil(group).max(1);
        let blocks = total.div_ceil(Self::MOST);
        let groups = total.div_ceil(blocks).next_multiple_of(granule.max(8));
        Blocking { groups, group, granule }
    }

    /// Elements along K in a block.
    pub fn elements(&self) -> usize {
        self.groups * self.group
    }

    /// Blocks that `k` elements reach into.
    pub fn count(&self, k: usize) -> usize {
        k.div_ceil(self.elements())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_k_evenly() {
        for k in [1, 7, 64, 255, 256, 257, 300, 2048, 100_000] {
            for lane in [Lane::F32, Lane::Bf16, Lane::I8] {
                let blocking = Blocking::new(k, TilePath::Amx, lane);
                assert!(blocking.groups <= Blocking::MOST.next_multiple_of(16));
                assert!(blocking.count(k) * blocking.elements() >= k);
                assert!((blocking.count(k) - 1) * blocking.elements() < k);
            }
        }
    }

    #[test]
    fn unsupported_pairs_are_refused_by_name() {
        let error = Product::choose(TilePath::Portable, ElementFormat::I32, ElementFormat::F16, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no tile product multiplies i32 by f16; operands are integers of up to 8 bits, half, bfloat, float, FP8 or FP4"
        );
    }
}
