//! The left operand of a product of few rows, laid out for the kernel that reads it: in the order in which codes come out of a
//! column's bytes, so that no code has to be moved to its place.

use std::ops::RangeInclusive;

use super::buffer::AlignedBuffer;
use super::few::{FewCodes, FewProduct};
use super::few_digits::{DigitRow, GROUP};
use super::kernel::{Terms, ops};
use super::product::Scratch;
use super::view::OperandView;
use super::widen::{Part, stage_f32};

/// What a kernel reads, and how many codes it decodes at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Layout {
    /// bf16 terms for 64 bytes of a column: vectors of 32, for each vector and plane the rows one after the other.
    Terms,
    /// The same vectors as tiles of 16 pairs × 16 columns: a column for each row and plane.
    Tiles,
    /// `f32` for 32 bytes of a column, in vectors of 8, for each vector the rows one after the other.
    #[default]
    Floats,
    /// `f32` for 64 bytes of a column, in vectors of 16.
    WideFloats,
    /// `f32` times [`RAISED`] for 32 bytes of a column: one vector for the first bytes of all words of four, one for the second ones, and so on.
    Raised,
    /// One row as integers for 128 bytes of a column ([`few_digits`](super::few_digits)), or `Floats` where they do not hold it.
    Digits,
}

/// What keeps products with numbers that are 2^-120 of what they stand for in range; no `half` overflows by it.
const RAISED: f32 = f32::from_bits((127 + 111) << 23);

/// Rows (columns of a tile) that share a tile.
pub(crate) const TILE_COLUMNS: usize = 16;

/// Bytes of a tile.
const TILE: usize = 1024;

impl Layout {
    /// Elements that are decoded at once.
    fn chunk(self, bits: usize) -> usize {
        match self {
            Layout::Floats | Layout::Raised | Layout::Digits => 256 / bits,
            _ => 512 / bits,
        }
    }

    /// Elements of a row when packed: those of whole 64 bytes of a column, which the kernels read.
    fn padded(self, bits: usize, k: usize) -> usize {
        match self {
            Layout::Digits => k.next_multiple_of(GROUP),
            _ => k.next_multiple_of(512 / bits),
        }
    }

    /// Bytes of a vector of one row.
    pub(super) fn vector_bytes(self) -> usize {
        match self {
            Layout::Floats | Layout::Raised | Layout::Digits => 32,
            _ => 64,
        }
    }

    /// True where the operand is split into terms.
    pub(super) fn has_terms(self) -> bool {
        matches!(self, Layout::Terms | Layout::Tiles)
    }
}

/// Where the terms of few rows go in tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TilePlaces {
    rows: usize,
    planes: usize,
}

impl TilePlaces {
    pub fn new(rows: usize, planes: usize) -> TilePlaces {
        TilePlaces { rows, planes }
    }

    /// True where both planes of all rows fit in one tile.
    fn joined(self) -> bool {
        self.rows * self.planes <= TILE_COLUMNS
    }

    /// Tiles of each vector.
    pub fn tiles(self) -> usize {
        match self.joined() {
            true => 1,
            false => self.planes * self.rows.div_ceil(TILE_COLUMNS),
        }
    }

    /// Columns of a tile that hold something.
    fn columns(self, tile: usize) -> usize {
        match self.joined() {
            true => self.rows * self.planes,
            false => (self.rows - tile / self.planes * TILE_COLUMNS).min(TILE_COLUMNS),
        }
    }

    /// The tile and its column that hold a row's plane.
    pub fn of(self, row: usize, plane: usize) -> (usize, usize) {
        match self.joined() {
            true => (0, plane * self.rows + row),
            false => (row / TILE_COLUMNS * self.planes + plane, row % TILE_COLUMNS),
        }
    }
}

/// A left operand packed for products of few rows.
#[derive(Debug, Default)]
pub struct FewLeft {
    pub(super) product: Option<FewProduct>,
    /// The product's, or what stands in for it.
    pub(super) layout: Layout,
    pub(super) digits: Option<DigitRow>,
    pub(super) rows: usize,
    pub(super) k: usize,
    terms: Option<Terms>,
    pub(super) buffer: AlignedBuffer,
}

/// A chunk's terms in the order of its vectors: place `i` of vector `v` takes element `from(v, i)`.
#[inline(always)]
fn reorder<T: Copy, const CHUNK: usize, const WIDTH: usize>(
    chunk: &[T],
    from: impl Fn(usize, usize) -> usize,
    mut put: impl FnMut(usize, [T; WIDTH]),
) {
    let Ok(chunk) = <&[T; CHUNK]>::try_from(chunk) else {
        return;
    };
    for v in 0..CHUNK / WIDTH {
        put(v, std::array::from_fn(|i| chunk[from(v, i)]));
    }
}

/// Terms of 64 bytes of a column: words of several codes, one vector of each word's first codes, one of the second ones, and so
/// on; codes of 8 bits in words of their own, the lower and the upper 8 of each 16 apart.
#[inline(always)]
fn reorder_terms(bits: usize, chunk: &[u16], put: impl FnMut(usize, [u16; 32])) {
    match bits {
        2 => reorder::<_, 256, 32>(chunk, |v, i| 8 * i + v, put),
        4 => reorder::<_, 128, 32>(chunk, |v, i| 4 * i + v, put),
        _ => reorder::<_, 64, 32>(chunk, |v, i| i / 8 * 16 + v * 8 + i % 8, put),
    }
}

/// Numbers of 64 bytes of a column: as [`reorder_terms`], the even and the odd words in vectors of their own.
#[inline(always)]
fn reorder_wide(bits: usize, chunk: &[f32], put: impl FnMut(usize, [f32; 16])) {
    match bits {
        2 => reorder::<_, 256, 16>(chunk, |v, i| 8 * (2 * i + v % 2) + v / 2, put),
        4 => reorder::<_, 128, 16>(chunk, |v, i| 4 * (2 * i + v % 2) + v / 2, put),
        _ => reorder::<_, 64, 16>(chunk, |v, i| 16 * (i / 4) + 8 * (v / 2) + 2 * (i % 4) + v % 2, put),
    }
}

/// Numbers of 32 bytes of a column. Codes of fewer than 8 bits come by way of bytes that are made words, whose even and odd
/// ones go to vectors of their own, either half of the bytes to its half of a vector.
#[inline(always)]
fn reorder_narrow(bits: usize, chunk: &[f32], put: impl FnMut(usize, [f32; 8])) {
    let byte = |place: usize, upper: usize, odd: usize| 16 * (place / 4) + 8 * upper + 2 * (place % 4) + odd;
    match bits {
        2 => reorder::<_, 128, 8>(chunk, |v, i| 4 * byte(i, v / 8, v % 2) + v / 2 % 4, put),
        4 => reorder::<_, 64, 8>(chunk, |v, i| 2 * byte(i, v / 2 % 2, v % 2) + v / 4, put),
        _ => reorder::<_, 32, 8>(chunk, |v, i| 8 * v + i, put),
    }
}

impl FewLeft {
    /// Packs an M × K operand.
    pub fn pack(&mut self, product: &FewProduct, view: &OperandView<'_>, scratch: &mut Scratch) {
        let (rows, k) = (view.valid_rows, view.valid_cols);
        let (mut layout, bits, planes) = (product.layout, product.format.bits(), product.planes);
        let chunk = layout.chunk(bits);
        let padded = layout.padded(bits, k);
        let places = TilePlaces::new(rows, planes);
        let base = self.buffer.reserve(Self::bytes(product, rows, k));
        let ops = ops(product.path);
        let mut found = Terms::NONE;
        let mut terms = std::mem::take(&mut scratch.terms);
        let mut values = std::mem::take(&mut scratch.row);
        // In tiles the terms of a row stand where its column does, so that a tile's columns follow each other.
        let line = |row: usize, plane: usize| match product.layout {
            Layout::Tiles => {
                let (tile, column) = places.of(row, plane);
                tile * TILE_COLUMNS + column
            }
            _ => row * planes + plane,
        };
        let term_count = match layout {
            Layout::Tiles => padded * TILE_COLUMNS * places.tiles(),
            Layout::Terms => padded * planes * rows,
            _ => padded,
        };
        let (terms_base, values_base): (*mut u16, *mut f32) = (
            terms.reserve(term_count * 4).cast(),
            values
                .reserve(padded * if layout.has_terms() { 1 } else { rows } * 4)
                .cast(),
        );
        // SAFETY: every row has `padded` values, if all are needed, and, for each plane, terms (without planes the terms of all rows go to the same
        // place, where nobody reads them), of which K are written here and the others zeroed. The vectors of `padded` elements
        // of all rows and planes lie in the buffer, and so do the tiles' columns.
        unsafe {
            for row in 0..rows {
                let part = Part {
                    row,
                    col: 0,
                    rows: 1,
                    cols: k,
                };
                // Terms are all that is needed of a row.
                let staged = match layout.has_terms() {
                    true => values_base,
                    false => values_base.add(row * padded),
                };
                stage_f32(ops, view, part, staged, k, &mut scratch.flip);
                std::slice::from_raw_parts_mut(staged.add(k), padded - k).fill(0.0);
                let high = match layout.has_terms() {
                    true => terms_base.add(line(row, 0) * padded),
                    false => terms_base,
                };
                let low = match planes {
                    2 => terms_base.add(line(row, 1) * padded),
                    _ => std::ptr::null_mut(),
                };
                found = found.merge((ops.terms)(staged, k, high.cast(), low.cast()));
                for plane in [high, low] {
                    if !plane.is_null() {
                        std::slice::from_raw_parts_mut(plane.add(k), padded - k).fill(0);
                    }
                }
            }
            self.digits = None;
            if let (Layout::Digits, Some((_, kernels))) = (layout, &ops.few_digits) {
                // The terms that nobody reads make room for the integers.
                let integers = std::slice::from_raw_parts_mut(terms_base.cast::<i32>(), padded);
                let values = std::slice::from_raw_parts(values_base, k);
                let offset = FewCodes::of(product.format).offset.into();
                self.digits = DigitRow::pack(kernels, offset, values, integers, base);
                if self.digits.is_none() {
                    layout = Layout::Floats;
                }
            }
            if layout == Layout::Raised {
                (ops.scale)(values_base, padded * rows, RAISED);
            }
            let vector_bytes = layout.vector_bytes();
            let vectors = chunk / if layout.has_terms() { 32 } else { vector_bytes / 4 };
            let chunks = if layout == Layout::Digits { 0 } else { padded / chunk };
            for q in 0..chunks {
                for row in 0..rows {
                    let values = match layout.has_terms() {
                        true => &[],
                        false => std::slice::from_raw_parts(values_base.add(row * padded + q * chunk), chunk),
                    };
                    let at = |v: usize, plane: usize| {
                        base.add((((q * vectors + v) * planes + plane) * rows + row) * vector_bytes)
                    };
                    match layout {
                        Layout::Raised => {
                            let put = |v: usize, vector| at(v, 0).cast::<[f32; 8]>().write(vector);
                            reorder::<_, 32, 8>(values, |v, i| 4 * i + v, put);
                        }
                        Layout::Floats | Layout::Digits => {
                            reorder_narrow(bits, values, |v, vector| at(v, 0).cast::<[f32; 8]>().write(vector));
                        }
                        Layout::WideFloats => {
                            reorder_wide(bits, values, |v, vector| at(v, 0).cast::<[f32; 16]>().write(vector));
                        }
                        Layout::Terms => {
                            for plane in 0..planes {
                                let first = terms_base.add(line(row, plane) * padded + q * chunk);
                                let terms = std::slice::from_raw_parts(first, chunk);
                                reorder_terms(bits, terms, |v, vector| at(v, plane).cast::<[u16; 32]>().write(vector));
                            }
                        }
                        Layout::Tiles => {
                            for plane in 0..planes {
                                let first = terms_base.add(line(row, plane) * padded + q * chunk);
                                let terms = std::slice::from_raw_parts_mut(first, chunk);
                                match &ops.order_terms {
                                    Some(order) if bits > 2 => order(bits, first),
                                    _ => {
                                        let unordered = terms.to_vec();
                                        let (vectors, _) = terms.as_chunks_mut::<32>();
                                        reorder_terms(bits, &unordered, |v, vector| vectors[v] = vector);
                                    }
                                }
                            }
                        }
                    }
                }
            }
            if layout == Layout::Tiles {
                // Words of two terms, columns of a tile made rows.
                for tile in 0..places.tiles() {
                    let columns = places.columns(tile);
                    for v in 0..chunks * vectors {
                        let from = terms_base.add(tile * TILE_COLUMNS * padded + v * 32);
                        let to = base.add((v * places.tiles() + tile) * TILE);
                        let stride = padded as isize * 2;
                        (ops.transpose)(
                            from.cast(),
                            stride,
                            columns,
                            TILE_COLUMNS,
                            to,
                            4 * TILE_COLUMNS as isize,
                        );
                    }
                }
            }
        }
        (scratch.terms, scratch.row) = (terms, values);
        (self.rows, self.k) = (rows, k);
        self.layout = layout;
        self.terms = Some(found);
        self.product = Some(*product);
    }

    /// Bytes that rows of K elements take when packed.
    pub(crate) fn bytes(product: &FewProduct, rows: usize, k: usize) -> usize {
        let layout = product.layout;
        let padded = layout.padded(product.format.bits(), k);
        match layout {
            Layout::Tiles => padded / 32 * TilePlaces::new(rows, product.planes).tiles() * TILE,
            Layout::Terms => padded * 2 * product.planes * rows,
            // Digits take fewer.
            Layout::Floats | Layout::WideFloats | Layout::Raised | Layout::Digits => padded * 4 * rows,
        }
    }

    /// Bytes of memory held.
    pub fn byte_size(&self) -> usize {
        self.buffer.capacity()
    }

    /// True where the packed elements past a shorter K would leak into sums: an infinity meets a masked zero, or shares the
    /// last byte of a column.
    pub(super) fn leaks(&self, k: usize, per_byte: usize) -> bool {
        self.k > k && (!k.is_multiple_of(per_byte) || self.terms.is_none_or(|terms| terms.non_finite()))
    }

    /// Bits of subnormal numbers are lost, or instructions flush them. Codes are at least 2^-16, so products of larger numbers
    /// than this stay above 2^-102, and what is lost below 2^-24 of the sum of magnitudes.
    pub(super) fn is_tiny(&self) -> bool {
        self.least_exponent() < -86
    }

    /// Sums of 32 products, codes up to 2^16 among them, may be infinite before a block's scale makes them smaller.
    pub(super) fn is_huge(&self) -> bool {
        let scaled_late = matches!(self.layout, Layout::Terms | Layout::Floats | Layout::WideFloats);
        scaled_late
            && self
                .terms
                .is_some_and(|terms| terms.greatest_exponent() > 127 - 16 - 5 - 1)
    }

    fn least_exponent(&self) -> i32 {
        self.terms.map_or(i32::MIN, |terms| terms.least_exponent())
    }

    /// Scale codes that leave every scaled product at 2^-102 at least, where tiles hold scaled elements; where sums are scaled
    /// after the multiplication, those that leave every element a normal number, and every sum of integers.
    pub(super) fn scale_codes(&self) -> RangeInclusive<u8> {
        let lowest = match self.layout {
            Layout::Tiles => 127 - 102 + 16 - self.least_exponent().clamp(-100, 0),
            // Sums are 2^-9 of what they stand for until the end.
            Layout::Raised => 48,
            _ => 32,
        };
        let highest = if self.layout == Layout::Digits { 198 } else { 238 };
        lowest.clamp(32, 255) as u8..=highest
    }
}
