//! The functions written per instruction set, as one table a path.

// Loops over registers index several arrays by one variable.
#![allow(clippy::needless_range_loop)]

mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_few;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_few;
#[cfg(target_arch = "x86_64")]
mod avx2_few_digits;
#[cfg(target_arch = "x86_64")]
mod avx2_few_panel;
#[cfg(target_arch = "x86_64")]
mod avx2_steps;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_dot;
#[cfg(target_arch = "x86_64")]
mod avx512_few;
#[cfg(target_arch = "x86_64")]
mod avx512_few_panel;
#[cfg(target_arch = "x86_64")]
mod avx512_few_wide;
#[cfg(target_arch = "x86_64")]
mod avx512_pack;
#[cfg(target_arch = "x86_64")]
mod avx512_tiles;

use std::ops::RangeInclusive;

use anymetal_formats::ElementFormat;

use super::TilePath;
use super::few::{Columns, FewTable};
use super::few_digits::DigitRow;
use super::pack::Panels as PanelsOf;

/// Elements of `src` to `f32`: (source bytes, elements, destination).
pub(crate) type Widen = unsafe fn(*const u8, usize, *mut f32);

/// The micro-kernel: a strip of rows against one panel of the right operand, over one block of K.
///
/// Arguments: rows (1 … [`Ops::strip_rows`]); columns (1 … panel width); groups; the left strip and the bytes from one
/// row to the next; the right panel (`groups` × panel width groups, zero past `columns`); the accumulator's first element
/// and the elements from one row to the next; whether to add to what it holds.
pub(crate) type Strip<T> = unsafe fn(usize, usize, usize, *const u8, isize, *const u8, *mut T, usize, bool);

/// What [`Ops::terms`] found in the values it split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// Bits of the smallest non-zero magnitude as `f32`, minus one; `u32::MAX` where all values are zero.
    pub least: u32,
    /// The largest magnitude's bits.
    pub most: u32,
    /// Non-zero where a single bf16 term does not hold a value exactly.
    pub rest: u32,
}

impl Terms {
    pub const NONE: Terms = Terms {
        least: u32::MAX,
        most: 0,
        rest: 0,
    };

    /// From the smallest non-zero magnitude's bits as bf16, minus one, and the largest one's.
    pub fn of_bf16(least: u16, most: u16) -> Terms {
        Terms {
            least: match least {
                u16::MAX => u32::MAX,
                least => (u32::from(least + 1) << 16) - 1,
            },
            most: u32::from(most) << 16,
            rest: 0,
        }
    }

    pub fn merge(self, other: Terms) -> Terms {
        Terms {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            rest: self.rest | other.rest,
        }
    }

    /// True where an infinity or a NaN is among the values.
    pub fn non_finite(&self) -> bool {
        self.most >= 0x7f80_0000
    }

    /// The binary exponent of the largest magnitude.
    pub fn greatest_exponent(&self) -> i32 {
        (self.most >> 23) as i32 - 127
    }

    /// The binary exponent of the smallest non-zero magnitude; that of the largest `f32` where there is none. Subnormal
    /// values answer −127.
    pub fn least_exponent(&self) -> i32 {
        (self.least.saturating_add(1).min(0x7f7f_ffff) >> 23) as i32 - 127
    }
}

/// Widens rows into right panels: (first row, bytes from row to row, rows, columns, first panel's first row, panel width,
/// bytes from panel to panel). Columns past the last are zeroed to the end of their panel.
pub(crate) type Spread = unsafe fn(*const u8, isize, usize, usize, *mut u8, usize, usize);

/// A [`Spread`] for each format of whole bytes that packing widens.
pub(crate) struct Panels {
    pub f32: Spread,
    pub f16: Spread,
    pub bf16: Spread,
    pub i8: Spread,
    pub u8: Spread,
    pub e4m3: Spread,
    pub e5m2: Spread,
}

impl Panels {
    /// The one for a format, if there is one.
    pub fn of(&self, format: ElementFormat) -> Option<Spread> {
        Some(match format {
            ElementFormat::F32 => self.f32,
            ElementFormat::F16 => self.f16,
            ElementFormat::BF16 => self.bf16,
            ElementFormat::I8 => self.i8,
            ElementFormat::U8 => self.u8,
            ElementFormat::Fp8E4M3 => self.e4m3,
            ElementFormat::Fp8E5M2 => self.e5m2,
            _ => return None,
        })
    }
}

/// Everything that is written per instruction set. All functions take raw memory: sources are read and destinations
/// written for exactly the stated number of elements, at any alignment, and the two do not overlap.
pub(crate) struct Ops {
    pub widen_f16: Widen,
    pub widen_bf16: Widen,
    pub widen_i8: Widen,
    pub widen_u8: Widen,
    pub widen_e4m3: Widen,
    pub widen_e5m2: Widen,
    /// 8-bit to 16-bit integers, signed.
    pub i8_to_i16: unsafe fn(*const u8, usize, *mut u8),
    /// 8-bit to 16-bit integers, unsigned.
    pub u8_to_i16: unsafe fn(*const u8, usize, *mut u8),
    /// `f32` to `half`, to nearest, ties to even.
    pub to_f16: unsafe fn(*const f32, usize, *mut u8),
    /// `f32` to bf16, to nearest, ties to even.
    pub to_bf16: unsafe fn(*const f32, usize, *mut u8),
    /// `f32` to one bf16 term (second destination null; the value truncated) or to two whose sum has 16 significant bits.
    pub terms: unsafe fn(*const f32, usize, *mut u8, *mut u8) -> Terms,
    /// `f32` to bf16 as `to_bf16`, looking at the values as `terms` does.
    pub round_bf16: unsafe fn(*const f32, usize, *mut u8) -> Terms,
    /// Rows of a left operand to the tiles of a strip, where the path has it.
    pub tiles: Option<TileRows>,
    /// Rows of a right operand to panels of groups, where the path has it.
    pub groups: Option<Groups>,
    /// Copies bf16 elements and looks at them on the way.
    pub copy_bf16: unsafe fn(*const u8, usize, *mut u8) -> Terms,
    /// A row of scaled FP8 elements to bf16, and what it found on the way; `None` where a scale is out of the ordinary. The
    /// caller asks the path for the instructions ([`has_few_rows`](super::path::has_few_rows)).
    pub fp8_to_bf16: Option<Fp8ToBf16>,
    /// Transposes 32-bit elements: (source, bytes from row to row, rows, columns, destination, bytes from row to row).
    pub transpose: unsafe fn(*const u8, isize, usize, usize, *mut u8, isize),
    /// Two rows of 8-bit integers to one of pairs of 16-bit integers, signed.
    pub i8_pairs: unsafe fn([*const u8; 2], usize, *mut u8),
    /// The same, unsigned.
    pub u8_pairs: unsafe fn([*const u8; 2], usize, *mut u8),
    /// Two rows of 16-bit elements to one of pairs.
    pub interleave2: unsafe fn([*const u8; 2], usize, *mut u8),
    /// Four rows of 8-bit elements to one of quadruples.
    pub interleave4: unsafe fn([*const u8; 4], usize, *mut u8),
    /// Multiplies elements by a factor in place.
    pub scale: unsafe fn(*mut f32, usize, f32),
    pub sum: unsafe fn(*const f32, usize) -> f32,
    pub max: unsafe fn(*const f32, usize) -> f32,
    pub min: unsafe fn(*const f32, usize) -> f32,
    /// Dot products of one row with rows of the transposed right operand: (row, elements, first other row, bytes from row to
    /// row, rows, results, add to them).
    pub dots: unsafe fn(*const f32, usize, *const u8, isize, usize, *mut f32, bool),
    /// Adds multiples of rows to one: (factors, number of rows, first row, bytes from row to row, elements, destination).
    pub axpy: unsafe fn(*const f32, usize, *const u8, isize, usize, *mut f32),
    /// Dense rows straight into the panels of a right operand, where a path has it.
    pub panels: Option<Panels>,
    pub strip_rows: usize,
    pub strip_f32: Strip<f32>,
    pub strip_i16: Strip<i32>,
    /// Dot products of groups, for the lanes that need instructions of their own; the caller asks the path whether the
    /// machine has them.
    pub dots_of_groups: Option<Dots>,
    /// The terms of 64 bytes of a column of codes of 4 or 8 bits to the order of their vectors, in place, where the path has it:
    /// (bits, terms).
    pub order_terms: Option<unsafe fn(usize, *mut u16)>,
    /// Products of few rows by quantised columns, with a left operand of bf16 terms. The caller asks the path for the
    /// instructions ([`has_few_rows`](super::path::has_few_rows)).
    pub few_terms: Option<FewKernels>,
    /// The same with a left operand of `f32` in vectors of 8.
    pub few_floats: Option<FewKernels>,
    /// One row by 4-bit codes ([`Layout::Digits`](super::few_left::Layout::Digits)), and what makes the digits.
    pub few_digits: Option<(FewKernels, DigitKernels)>,
    /// Up to four rows by E4M3 ([`Layout::Raised`](super::few_left::Layout::Raised)).
    pub few_raised: Option<FewKernels>,
    /// The same in vectors of 16; for the instructions ask as for `few_terms`.
    pub few_wide: Option<FewKernels>,
    /// The same with bf16 terms in tiles, for the path that has them.
    pub few_tiles: Option<FewKernels>,
}

/// A [`Strip`] of 8-bit integers whose sums start from given numbers, one for each column of the panel.
pub(crate) type StripFrom =
    unsafe fn(usize, usize, usize, *const u8, isize, *const u8, *mut i32, usize, bool, &[i32; 64]);

/// Micro-kernels for packed bf16 and 8-bit integers outside of tiles, on panels of 64 columns.
#[derive(Clone, Copy)]
pub(crate) struct Dots {
    /// Flushes subnormal inputs and results. Needs [`has_bf16_dots`](super::path::has_bf16_dots).
    pub bf16: Strip<f32>,
    /// The same product exactly.
    pub bf16_exact: Strip<f32>,
    /// u8 on the left, i8 on the right. Needs [`has_int8_dots`](super::path::has_int8_dots), as do the next two.
    pub unsigned_by_signed: StripFrom,
    /// i8 on the left, u8 on the right.
    pub signed_by_unsigned: StripFrom,
    /// Sums of a panel's columns times a factor: (panel, groups, signed, factor, sums).
    pub column_sums: unsafe fn(*const u8, usize, bool, i32, &mut [i32; 64]),
}

/// Brings at most 16 rows into tiles of 16 rows × 64 bytes: (first row, bytes from row to row, rows, elements a row, tiles).
/// Whatever the rows do not reach is zeroed. It looks at floating-point values, but not at what a single term leaves
/// ([`Terms::rest`]); `None`, with everything to be written anew, where it cannot do it.
pub(crate) type ToTiles = unsafe fn(*const u8, isize, usize, usize, usize, *mut u8) -> Option<Terms>;

/// A [`ToTiles`] for each kind of element that needs no more than this.
#[derive(Clone, Copy)]
pub(crate) struct TileRows {
    /// Rounds `f32` to bf16; not where one is subnormal. The caller asks for the instructions
    /// ([`has_bf16_dots`](super::path::has_bf16_dots)).
    pub f32: ToTiles,
    pub bf16: ToTiles,
    pub bytes: ToTiles,
}

/// Rows without gaps to panels of groups, zero past the rows and their ends: (first row, bytes from row to row, rows, elements
/// a row, panels).
pub(crate) type ToGroups = unsafe fn(*const u8, isize, usize, usize, PanelsOf) -> Terms;

/// Rows of a right operand to panels.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    /// Of bf16, which is looked at as in [`Ops::copy_bf16`].
    pub pairs: ToGroups,
    /// Of bytes.
    pub quadruples: ToGroups,
}

/// Consecutive FP8 elements, with one scale for each 32 of the row that they are cut out of.
#[derive(Clone, Copy)]
pub(crate) struct Fp8Row {
    pub src: *const u8,
    pub count: usize,
    /// The scale of the row's first element, or null.
    pub scales: *const u8,
    pub scale_stride: isize,
    /// Where in the row the elements begin.
    pub phase: usize,
}

/// Scaled FP8 elements to bf16: (table of the format, elements, destination).
pub(crate) type Fp8ToBf16 = unsafe fn(&FewTable, Fp8Row, *mut u8) -> Option<Terms>;

/// Few rows by quantised columns.
pub(crate) struct FewJob<'a> {
    /// The left operand's vectors for the first row.
    pub left: *const u8,
    /// Rows that the left operand was packed for.
    pub left_rows: usize,
    /// Rows to multiply: 1 … [`FewKernels::rows`].
    pub rows: usize,
    pub planes: usize,
    pub table: &'static FewTable,
    /// Of the right operand.
    pub format: ElementFormat,
    /// What the row stands for where it is packed as digits.
    pub digits: Option<&'a DigitRow>,
    pub right: Columns,
    /// Where the columns of the product that is likely to come next begin: to be asked for, if at all.
    pub next: *const u8,
    pub sums: &'a mut [f32],
    pub stride: usize,
    pub accumulate: bool,
}

impl FewJob<'_> {
    /// Takes a sum in.
    #[inline(always)]
    pub fn put(&mut self, row: usize, column: usize, sum: f32) {
        let place = &mut self.sums[row * self.stride + column];
        *place = if self.accumulate { *place + sum } else { sum };
    }
}

/// Kernels for few rows, one for each width of codes.
///
/// # Safety
/// The machine must have the instructions, the left operand must be packed for the width, rows and planes, and the columns
/// must be readable.
pub(crate) struct FewKernels {
    pub two_bits: unsafe fn(&mut FewJob<'_>),
    pub four_bits: unsafe fn(&mut FewJob<'_>),
    pub e4m3: unsafe fn(&mut FewJob<'_>),
    pub e5m2: unsafe fn(&mut FewJob<'_>),
    /// Rows that a kernel takes at most.
    pub rows: usize,
    /// Whether one of so many scale codes is not in a range.
    pub extreme_codes: unsafe fn(*const u8, usize, RangeInclusive<u8>) -> bool,
}

/// What packs rows as digits.
pub(crate) struct DigitKernels {
    /// The largest magnitude, NaN above all.
    pub largest: unsafe fn(&[f32]) -> f32,
    /// Multiples of a unit, given its inverse, as integers. Elements that are none, or larger than a magnitude, become zeros and
    /// are counted. There must be room for all.
    pub integers: unsafe fn(&[f32], f32, f32, *mut i32) -> usize,
    /// The digits of a group of integers, in the order of [`few_digits`](super::few_digits): 768 bytes, aligned to 32.
    pub digits: unsafe fn(*const i32, *mut u8),
}

/// The table of a path. The caller has checked that the machine has it.
pub(crate) fn ops(path: TilePath) -> &'static Ops {
    match path {
        #[cfg(target_arch = "x86_64")]
        TilePath::Avx2 => &avx2::OPS,
        #[cfg(target_arch = "x86_64")]
        TilePath::Avx512 | TilePath::Amx => &avx512::OPS,
        _ => &portable::OPS,
    }
}
