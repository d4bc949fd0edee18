//! Products of a few rows by quantised columns, which are read where they lie: what a layer with quantised weights does for one
//! token. Such a product waits for memory, so its right operand is not packed; codes are decoded on the way into the
//! multiplication.
//!
//! The left operand is packed once, in the order in which codes come out of a column's bytes ([`super::few_left`]): as `f32`,
//! or split into bf16 terms, one (`bfloat`) or two (`half`), or as integers ([`super::few_digits`]). Decoded codes are exact in both and every sum is `f32`. Block scales are powers of two and multiply the sums of
//! 32 elements, the decoded elements, or the tables by which they are decoded.
//!
//! What these kernels cannot do exactly is left to the general ones, column by column: scale codes that could make an element
//! or a product subnormal, infinite or NaN ([`FewLeft::scale_codes`]), and infinite E5M2 elements beside second terms or in tiles.

use anymetal_formats::ElementFormat;

use super::few_left::{FewLeft, Layout};
use super::kernel::{FewJob, FewKernels, ops};
use super::path::{has_fast_bf16_dots, has_fast_subnormals, has_few_rows};
use super::product::{Scratch, prepare_few, skinny_columns};
use super::view::OperandView;
use super::widen::has_dense_rows;
use super::{AccumulatorMut, TileError, TilePath};

/// Rows up to which a product is one of few rows.
pub const FEW_ROWS: usize = 32;

/// A way to multiply few rows, chosen from path and formats. A packed left operand serves every product with an equal way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FewProduct {
    pub(super) path: TilePath,
    pub(super) layout: Layout,
    /// The right operand's.
    pub(super) format: ElementFormat,
    /// Terms of a left element.
    pub(super) planes: usize,
}

impl FewProduct {
    /// The way for these operands, or `None` where the general product does as well or has to do it: more than `FEW_ROWS`
    /// rows, other formats, columns that do not lie without gaps, block scales that are not Metal's.
    pub fn choose(path: TilePath, left: &OperandView<'_>, right: &OperandView<'_>) -> Option<FewProduct> {
        use ElementFormat::*;
        let four_bits = match right.format {
            Int4B | UInt4B | Fp4E2M1 => true,
            Int2B | UInt2B | Fp8E4M3 | Fp8E5M2 => false,
            _ => return None,
        };
        let half = match left.format {
            F16 => true,
            BF16 => false,
            _ => return None,
        };
        // Integers past the end of the columns would meet offsets, and sums of longer rows leave their range. Tiles take longer over one
        // row; beside fast dot products of bf16 integers were not measured.
        let integers = four_bits
            && left.valid_rows == 1
            && left.valid_cols == right.valid_rows
            && left.valid_cols <= 1 << 20
            && (path == TilePath::Avx2 || !has_fast_bf16_dots());
        let layout = match path {
            TilePath::Portable => return None,
            _ if integers => Layout::Digits,
            TilePath::Amx if has_few_rows() => Layout::Tiles,
            TilePath::Avx512 | TilePath::Amx if has_few_rows() => {
                // Two terms multiply as fast as `f32` at best; one row waits for memory with the fewer instructions.
                match has_fast_bf16_dots() && (!half || left.valid_rows == 1) {
                    true => Layout::Terms,
                    false => Layout::WideFloats,
                }
            }
            _ if half && right.format == Fp8E4M3 && left.valid_rows <= 4 && has_fast_subnormals() => Layout::Raised,
            _ => Layout::Floats,
        };
        let planes = if half && layout.has_terms() { 2 } else { 1 };
        let per_byte = right.format.elements_per_byte() as i64;
        let aligned = right.origin % per_byte == 0 && (right.col_stride % per_byte == 0 || right.valid_cols <= 1);
        let scales_fit = right.scales.as_ref().is_none_or(|scales| {
            (scales.row_block, scales.col_block, scales.row_stride) == (32, 1, 1) && scales.row_phase.is_multiple_of(32)
        });
        let fits = (1..=FEW_ROWS).contains(&left.valid_rows)
            && left.scales.is_none()
            && !has_dense_rows(right)
            && right.row_stride == 1
            && aligned
            && scales_fit;
        fits.then_some(FewProduct {
            path,
            layout,
            format: right.format,
            planes,
        })
    }
}

/// The columns of a right operand, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    first: *const u8,
    /// From one column to the next.
    pub stride: isize,
    /// Columns.
    pub count: usize,
    /// Bytes of a column that hold valid elements.
    pub bytes: usize,
    /// The first column's first scale code, or null.
    pub scales: *const u8,
    scale_stride: isize,
    /// Scale codes of a column.
    blocks: usize,
}

impl Columns {
    fn of(right: &OperandView<'_>, k: usize) -> Columns {
        let bits = right.format.bits() as i64;
        // Origin and stride are whole bytes: FewProduct::choose saw to it.
        let first = right.data.wrapping_offset((right.origin * bits / 8) as isize);
        let (scales, scale_stride) = match &right.scales {
            None => (std::ptr::null(), 0),
            Some(scales) => {
                let start = (scales.row_phase / 32) as i64 + scales.col_phase as i64 * scales.col_stride;
                (scales.data.wrapping_offset(start as isize), scales.col_stride as isize)
            }
        };
        Columns {
            first,
            stride: (right.col_stride * bits / 8) as isize,
            count: right.valid_cols,
            bytes: right.format.bytes_for(k),
            scales,
            scale_stride,
            blocks: k.div_ceil(32),
        }
    }

    /// The first byte of a column.
    #[inline(always)]
    pub fn column(&self, c: usize) -> *const u8 {
        self.first.wrapping_offset(c as isize * self.stride)
    }

    /// From a byte to the one that is worth asking for: some whole columns on, `columns` at least and about so many bytes.
    #[inline(always)]
    pub fn ahead(&self, bytes: isize, columns: usize) -> isize {
        let many = bytes / self.stride.abs().max(1);
        self.stride.wrapping_mul(many.max(columns as isize))
    }

    /// A column's scale codes from one on, and how many are left. There must be scales.
    #[inline(always)]
    pub fn codes(&self, c: usize, from: usize) -> (*const u8, usize) {
        let codes = self.scales.wrapping_offset(c as isize * self.scale_stride);
        (codes.wrapping_add(from), self.blocks - from)
    }

    /// The number at element `k` of a column of 4-bit codes, its scale included, given what the codes mean in bf16.
    ///
    /// # Safety
    /// The column must be one of these, `k` within it, and the scale's code no more than 254.
    pub unsafe fn four_bits(&self, c: usize, k: usize, words: &[u16; 32]) -> f64 {
        // SAFETY: the caller's contract.
        let (byte, scale) = unsafe {
            let scale = match self.scales.is_null() {
                true => 127,
                false => *self.codes(c, k / 32).0,
            };
            (*self.column(c).add(k / 2), scale)
        };
        let word = words[usize::from(byte >> (k % 2 * 4) & 15)];
        f64::from(f32::from_bits(u32::from(word) << 16)) * f64::from_bits((u64::from(scale) + 1023 - 127) << 52)
    }

    /// # Safety
    /// The column must be one of these.
    unsafe fn all_bytes(&self, c: usize) -> &[u8] {
        // SAFETY: the view's valid elements are readable.
        unsafe { std::slice::from_raw_parts(self.column(c), self.bytes) }
    }
}

/// A format's codes as bf16 and `f32`.
#[repr(C, align(64))]
pub(crate) struct FewTable {
    /// Of 2 or 4 bits: the value of each code, repeated.
    pub words: [u16; 32],
    /// The value's lower and upper byte: of codes of 2 or 4 bits, repeated, or of 7, the sign of FP8 left out.
    pub low: [u8; 128],
    pub high: [u8; 128],
    /// Of 2 or 4 bits: the lower and upper bytes of the values of 16 codes by each scale that keeps them normal numbers.
    pub scaled: [[[u8; 16]; 2]; 256],
}

/// The table of a format of 8 bits or fewer that is no 8-bit integer.
pub(super) fn table(format: ElementFormat) -> &'static FewTable {
    use std::sync::OnceLock;
    static TABLES: [OnceLock<FewTable>; 7] = [const { OnceLock::new() }; 7];
    let index = match format {
        ElementFormat::Int4B => 0,
        ElementFormat::UInt4B => 1,
        ElementFormat::Fp4E2M1 => 2,
        ElementFormat::Int2B => 3,
        ElementFormat::UInt2B => 4,
        ElementFormat::Fp8E4M3 => 5,
        _ => 6,
    };
    TABLES[index].get_or_init(|| {
        let bf16 = |code: usize| (format.decode_f32(code as u64).to_bits() >> 16) as u16;
        let mut table = FewTable {
            words: [0; 32],
            low: [0; 128],
            high: [0; 128],
            scaled: [[[0; 16]; 2]; 256],
        };
        if format.bits() < 8 {
            table.words = std::array::from_fn(|code| bf16(code % (1 << format.bits())));
            for (scale, [low, high]) in table.scaled.iter_mut().enumerate() {
                let factor = f32::from_bits((scale as u32) << 23);
                for code in 0..16 {
                    let value = format.decode_f32((code % (1 << format.bits())) as u64) * factor;
                    let [_, _, a, b] = value.to_bits().to_le_bytes();
                    (low[code], high[code]) = (a, b);
                }
            }
        }
        for code in 0..128 {
            let value = bf16(code % (1 << format.bits()));
            [table.low[code], table.high[code]] = value.to_le_bytes();
        }
        table
    })
}

/// 4-bit codes as unsigned bytes: a number is `unit` times what its byte is above `offset`.
pub(crate) struct FewCodes {
    pub offset: u8,
    pub unit: f64,
    /// Whether the table has the bytes, or the same bits to flip for all of them.
    pub lookup: bool,
    pub table: [u8; 16],
}

impl FewCodes {
    /// Those of a format of 4 bits.
    pub fn of(format: ElementFormat) -> FewCodes {
        let flip = |offset: u8, bits: u8| FewCodes {
            offset,
            unit: 1.0,
            lookup: false,
            table: [bits; 16],
        };
        match format {
            ElementFormat::UInt4B => flip(0, 0),
            ElementFormat::Int4B => flip(8, 0x88),
            _ => FewCodes {
                offset: 12,
                unit: 0.5,
                lookup: true,
                table: std::array::from_fn(|code| (2.0 * format.decode_f32(code as u64) + 12.0) as u8),
            },
        }
    }
}

/// Multiplies few rows: `sums` (rows `stride` elements apart) becomes left · right, or grows by it when `accumulate`. `packed`
/// is the left operand packed for `product`, `left` the same where it lies.
pub fn multiply_few(
    scratch: &mut Scratch,
    product: &FewProduct,
    packed: &FewLeft,
    left: &OperandView<'_>,
    right: &OperandView<'_>,
    sums: &mut [f32],
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    if left.cols != right.rows {
        return Err(TileError::InnerMismatch {
            left: left.cols,
            right: right.rows,
        });
    }
    let k = left.valid_cols.min(right.valid_rows);
    let (rows, columns) = (left.valid_rows, right.valid_cols);
    let usable = packed.product == Some(*product) && (packed.rows, packed.k) == (rows, left.valid_cols);
    let ops = ops(product.path);
    let kernels = match packed.layout {
        // As `choose` has it.
        Layout::Digits => ops
            .few_digits
            .as_ref()
            .map(|(kernels, _)| kernels)
            .filter(|_| packed.k == k),
        Layout::Floats => ops.few_floats.as_ref(),
        Layout::Raised => ops.few_raised.as_ref(),
        Layout::WideFloats => ops.few_wide.as_ref(),
        Layout::Terms => ops.few_terms.as_ref(),
        Layout::Tiles => ops.few_tiles.as_ref(),
    };
    let out_of_range = packed.is_tiny() || (right.scales.is_some() && packed.is_huge());
    let exact = !out_of_range && !packed.leaks(k, right.format.elements_per_byte());
    let (true, true, Some(kernels)) = (usable, exact, kernels) else {
        return skinny_columns(scratch, product.path, left, right, sums, stride, accumulate, 0..columns);
    };
    prepare_few(sums, left, right, k, stride, accumulate)?;
    if k == 0 || columns == 0 {
        return Ok(());
    }
    let right_columns = Columns::of(right, k);
    let special = special_columns(packed, product, kernels, right, &right_columns);
    if special.len() > columns / 8 {
        return skinny_columns(scratch, product.path, left, right, sums, stride, accumulate, 0..columns);
    }
    let kept: Vec<f32> = special
        .iter()
        .flat_map(|&c| (0..rows).map(move |r| (r, c)))
        .map(|(r, c)| sums[r * stride + c])
        .collect();
    // A worker goes through a grid in one direction, some through all of it backwards.
    let (first, extent) = (
        right_columns.column(0),
        right_columns.stride.wrapping_mul(columns as isize),
    );
    let back = scratch.last_columns == first.wrapping_offset(extent).addr();
    scratch.last_columns = first.addr();
    let next = first.wrapping_offset(if back { extent.wrapping_neg() } else { extent });
    run(
        product,
        kernels,
        packed,
        right,
        (right_columns, next),
        sums,
        stride,
        accumulate,
    );
    for (i, &c) in special.iter().enumerate() {
        for r in 0..rows {
            sums[r * stride + c] = kept[i * rows + r];
        }
        skinny_columns(scratch, product.path, left, right, sums, stride, accumulate, c..c + 1)?;
    }
    Ok(())
}

/// Runs the kernel over all columns, some rows at a time: the columns' bytes stay in the first-level cache between them.
fn run(
    product: &FewProduct,
    kernels: &FewKernels,
    packed: &FewLeft,
    right: &OperandView<'_>,
    (columns, next): (Columns, *const u8),
    sums: &mut [f32],
    stride: usize,
    accumulate: bool,
) {
    let kernel = match (right.format.bits(), right.format) {
        (2, _) => kernels.two_bits,
        (4, _) => kernels.four_bits,
        (_, ElementFormat::Fp8E4M3) => kernels.e4m3,
        _ => kernels.e5m2,
    };
    // Some columns at a time, so that they are still near when the next rows come.
    let at_once = match packed.rows.div_ceil(kernels.rows) {
        1 => columns.count,
        _ => 8,
    };
    for c in (0..columns.count).step_by(at_once) {
        for row in (0..packed.rows).step_by(kernels.rows) {
            let mut job = FewJob {
                left: packed.buffer.as_ptr().wrapping_add(row * packed.layout.vector_bytes()),
                left_rows: packed.rows,
                rows: kernels.rows.min(packed.rows - row),
                planes: product.planes,
                table: table(right.format),
                format: right.format,
                digits: packed.digits.as_ref(),
                right: Columns {
                    first: columns.column(c),
                    scales: match columns.scales.is_null() {
                        true => columns.scales,
                        false => columns.scales.wrapping_offset(c as isize * columns.scale_stride),
                    },
                    count: at_once.min(columns.count - c),
                    ..columns
                },
                next: match c + at_once < columns.count {
                    true => columns.column(c + at_once),
                    false => next,
                },
                sums: &mut sums[row * stride + c..],
                stride,
                accumulate,
            };
            // SAFETY: FewProduct::choose made sure that the machine has the kernel; the packed rows and the view's columns
            // are what it reads, and `prepare_few` checked the sums.
            unsafe { kernel(&mut job) };
        }
    }
}

/// Columns that the kernels cannot multiply exactly.
fn special_columns(
    packed: &FewLeft,
    product: &FewProduct,
    kernels: &FewKernels,
    right: &OperandView<'_>,
    columns: &Columns,
) -> Vec<usize> {
    // Infinities would meet the zeros of second terms, or lose their exponent to a scale that is folded in.
    let infinities = right.format == ElementFormat::Fp8E5M2 && (product.planes == 2 || product.layout == Layout::Tiles);
    let range = packed.scale_codes();
    if columns.scales.is_null() && !infinities {
        return Vec::new();
    }
    // Scale codes without gaps between columns are looked at together first: nearly always there is nothing to find.
    if !infinities && columns.scale_stride == columns.blocks as isize {
        let (codes, _) = columns.codes(0, 0);
        // SAFETY: the codes of all columns, one column after the other.
        if !unsafe { (kernels.extreme_codes)(codes, columns.count * columns.blocks, range.clone()) } {
            return Vec::new();
        }
    }
    (0..columns.count)
        .filter(|&c| {
            // SAFETY: the column is one of these.
            unsafe {
                let (codes, count) = columns.codes(c, 0);
                let scaled = !columns.scales.is_null() && (kernels.extreme_codes)(codes, count, range.clone());
                let infinite = infinities
                    && columns
                        .all_bytes(c)
                        .iter()
                        .fold(false, |any, &code| any | (code & 0x7f >= 0x7c));
                scaled || infinite
            }
        })
        .collect()
}

/// As [`multiply_few`] with the left operand packed here.
pub(crate) fn matmul_few(
    scratch: &mut Scratch,
    product: &FewProduct,
    left: &OperandView<'_>,
    right: &OperandView<'_>,
    sums: AccumulatorMut<'_>,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    let AccumulatorMut::F32(sums) = sums else {
        return Err(TileError::AccumulatorType {
            needed: super::Accumulation::F32,
        });
    };
    let mut packed = std::mem::take(&mut scratch.few);
    packed.pack(product, left, scratch);
    let result = multiply_few(scratch, product, &packed, left, right, sums, stride, accumulate);
    scratch.few = packed;
    result
}
