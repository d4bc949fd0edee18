//! Products of packed operands, and the one call that packs and multiplies.

use std::ops::Range;

use anymetal_formats::ElementFormat;

use super::buffer::AlignedBuffer;
use super::few::{FewProduct, matmul_few};
use super::few_left::FewLeft;
use super::kernel::{Dots, Ops, ops};
use super::kind::{Accumulation, Blocking, Lane, Product, panel_width};
use super::pack::{LeftLayout, PackedLeft, PackedRight};
use super::strips::{Kernel, Span, Target, plain, strips};
use super::view::OperandView;
use super::widen::{Part, has_dense_rows, stage_f32};
use super::{TileError, TilePath};

/// Memory that packing and [`matmul`] reuse from call to call. One a thread; empty when new.
#[derive(Debug, Default)]
pub struct Scratch {
    left: PackedLeft,
    right: PackedRight,
    /// The left operand of a product of few rows.
    pub(super) few: FewLeft,
    /// Where the columns of the last product of few rows began.
    pub(super) last_columns: usize,
    /// One row, or a few, before they take their final form.
    pub(super) row: AlignedBuffer,
    /// The same in bf16 terms.
    pub(super) terms: AlignedBuffer,
    /// A panel before it is transposed or interleaved.
    pub(super) stage: AlignedBuffer,
    /// A part with dense columns before it is transposed.
    pub(super) flip: AlignedBuffer,
}

/// The row-major sums of a product; at least `(rows − 1) · stride + cols` elements.
#[derive(Debug)]
pub enum AccumulatorMut<'a> {
    /// For products with [`Accumulation::F32`].
    F32(&'a mut [f32]),
    /// For products with [`Accumulation::I32`].
    I32(&'a mut [i32]),
}

impl<'a> From<&'a mut [f32]> for AccumulatorMut<'a> {
    fn from(sums: &'a mut [f32]) -> Self {
        AccumulatorMut::F32(sums)
    }
}

impl<'a> From<&'a mut [i32]> for AccumulatorMut<'a> {
    fn from(sums: &'a mut [i32]) -> Self {
        AccumulatorMut::I32(sums)
    }
}

/// Multiplies two packed operands: `sums` (rows `stride` elements apart) becomes left · right, or grows by it when
/// `accumulate`. A sum that grows is rounded once for each block of K (256 elements of `f32`).
pub fn multiply<'a>(
    left: &PackedLeft,
    right: &PackedRight,
    sums: impl Into<AccumulatorMut<'a>>,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    multiply_part(left, 0..left.rows(), right, 0..right.cols(), sums, stride, accumulate)
}

/// As [`multiply`], for some rows and columns of the product only; the first of them lands in `sums[0]`. The first column
/// must be a multiple of [`Product::panel_width`] (64 is one for every product).
pub fn multiply_part<'a>(
    left: &PackedLeft,
    rows: Range<usize>,
    right: &PackedRight,
    cols: Range<usize>,
    sums: impl Into<AccumulatorMut<'a>>,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    let (l, r) = (&left.header, &right.header);
    if l.k != r.k {
        return Err(TileError::InnerMismatch { left: l.k, right: r.k });
    }
    let integers = |lane| matches!(lane, Lane::I16 | Lane::I8 | Lane::U8);
    // Without tiles, 8-bit integers meet as one signed and one unsigned operand.
    let same_side = l.path != TilePath::Amx && l.lane == r.lane && matches!(l.lane, Lane::I8 | Lane::U8);
    if l.path != r.path || integers(l.lane) != integers(r.lane) || same_side {
        return Err(TileError::PackMismatch {
            left: (l.path, l.lane),
            right: (r.path, r.lane),
        });
    }
    // One operand was widened because its lane could not hold it: widen the other one too.
    if l.lane.bytes() != r.lane.bytes() {
        let mut scratch = Scratch::default();
        return if l.lane == Lane::F32 {
            let right = right.widened(&mut scratch);
            multiply_part(left, rows, &right, cols, sums, stride, accumulate)
        } else {
            let left = left.widened(&mut scratch);
            multiply_part(&left, rows, right, cols, sums, stride, accumulate)
        };
    }
    let width = panel_width(r.path, r.lane);
    if rows.start > rows.end
        || rows.end > l.across
        || cols.start > cols.end
        || cols.end > r.across
        || !cols.start.is_multiple_of(width)
    {
        return Err(TileError::BadPart { panel_width: width });
    }
    let shape = (rows.len(), cols.len());
    let span = Span {
        rows: rows.start..rows.end.min(l.valid_across).max(rows.start),
        cols: cols.start..cols.end.min(r.valid_across).max(cols.start),
        k: l.valid_k.min(r.valid_k),
        blocking: l.blocking,
    };
    let (ll, rl) = (left.layout(), right.layout());
    let ops = ops(l.path);
    match sums.into() {
        AccumulatorMut::F32(sums) if !integers(l.lane) => {
            let target = prepare(sums, shape, &span, stride, accumulate)?;
            // SAFETY: `prepare` checked the accumulator; the layouts are those of packed operands.
            unsafe {
                if l.lane == Lane::F32 {
                    strips(&plain(ops.strip_f32), ops, &span, ll, rl, width, target);
                } else if l.path == TilePath::Amx {
                    bf16_tiles(left, right, &span, target);
                } else if l.valid_k != r.valid_k && (l.terms.non_finite() || r.terms.non_finite()) {
                    // An infinity would meet the zeros that fill up the other operand's last pair.
                    let mut scratch = Scratch::default();
                    let (left, right) = (left.widened(&mut scratch), right.widened(&mut scratch));
                    let (ll, rl) = (left.layout(), right.layout());
                    let width = panel_width(l.path, Lane::F32);
                    let blocking = left.header.blocking;
                    strips(
                        &plain(ops.strip_f32),
                        ops,
                        &Span { blocking, ..span },
                        ll,
                        rl,
                        width,
                        target,
                    );
                } else {
                    let dots = dots_of(ops);
                    let strip = if flushes(left, right) {
                        dots.bf16_exact
                    } else {
                        dots.bf16
                    };
                    strips(&plain(strip), ops, &span, ll, rl, width, target);
                }
            }
        }
        AccumulatorMut::I32(sums) if integers(l.lane) => {
            let target = prepare(sums, shape, &span, stride, accumulate)?;
            // SAFETY: as above.
            unsafe {
                if l.lane == Lane::I16 {
                    strips(&plain(ops.strip_i16), ops, &span, ll, rl, width, target);
                } else if l.path == TilePath::Amx {
                    int8_tiles(left, right, &span, target);
                } else {
                    let kernel = Shifted {
                        dots: dots_of(ops),
                        signed: r.lane == Lane::I8,
                        shift: l.shift,
                    };
                    strips(&kernel, ops, &span, ll, rl, width, target);
                }
            }
        }
        _ => {
            return Err(TileError::AccumulatorType {
                needed: if integers(l.lane) {
                    Accumulation::I32
                } else {
                    Accumulation::F32
                },
            });
        }
    }
    Ok(())
}

/// Checks the accumulator's size and zeroes what the product does not reach, or all of it when K is empty.
fn prepare<T: Copy + Default>(
    sums: &mut [T],
    (rows, cols): (usize, usize),
    span: &Span,
    stride: usize,
    accumulate: bool,
) -> Result<Target<T>, TileError> {
    let needed = match (rows, cols) {
        (0, _) | (_, 0) => Some(0),
        _ => (rows - 1).checked_mul(stride).and_then(|last| last.checked_add(cols)),
    };
    if (cols > stride && rows > 1) || needed.is_none_or(|needed| needed > sums.len()) {
        return Err(TileError::AccumulatorSize {
            rows,
            cols,
            stride,
            have: sums.len(),
        });
    }
    if !accumulate && cols > 0 {
        let (valid_rows, valid_cols) = match span.k {
            0 => (0, 0),
            _ => (span.rows.len(), span.cols.len()),
        };
        let reached = |row| if row < valid_rows { valid_cols } else { 0 };
        let first = if valid_cols == cols { valid_rows } else { 0 };
        for row in first..rows {
            sums[row * stride + reached(row)..row * stride + cols].fill(T::default());
        }
    }
    Ok(Target {
        first: sums.as_mut_ptr(),
        stride,
        accumulate,
    })
}

/// 8-bit integers with the left operand shifted: sums start from what takes the shift back.
struct Shifted<'a> {
    dots: &'a Dots,
    /// Whether the right operand is signed, and the left one not.
    signed: bool,
    shift: i32,
}

impl Kernel<i32> for Shifted<'_> {
    type Panel = [i32; 64];

    unsafe fn prepare(&self, panel: *const u8, groups: usize) -> [i32; 64] {
        let mut sums = [0; 64];
        if self.shift != 0 {
            // SAFETY: the caller's contract.
            unsafe { (self.dots.column_sums)(panel, groups, self.signed, -self.shift, &mut sums) };
        }
        sums
    }

    unsafe fn strip(
        &self,
        start: &[i32; 64],
        rows: usize,
        cols: usize,
        groups: usize,
        (left, left_stride): (*const u8, isize),
        panel: *const u8,
        to: Target<i32>,
    ) {
        let strip = if self.signed {
            self.dots.unsigned_by_signed
        } else {
            self.dots.signed_by_unsigned
        };
        // SAFETY: the caller's contract.
        unsafe {
            strip(
                rows,
                cols,
                groups,
                left,
                left_stride,
                panel,
                to.first,
                to.stride,
                to.accumulate,
                start,
            )
        }
    }
}

/// The dot products of a path that has them.
fn dots_of(ops: &Ops) -> &Dots {
    ops.dots_of_groups
        .as_ref()
        .expect("only paths with dot products pack lanes for them")
}

/// True where instructions that flush subnormal inputs and results would lose something: unless every product is at least
/// 2^-102, which makes what is flushed less than 2^-24 of the sum of magnitudes.
fn flushes(left: &PackedLeft, right: &PackedRight) -> bool {
    let (l, r) = (left.header.terms.least_exponent(), right.header.terms.least_exponent());
    l < -126 || r < -126 || l + r < -102
}

/// A product of bf16 lanes on AMX tiles, or exactly on AVX-512 where tiles would flush or mix up values.
///
/// # Safety
/// As for [`strips`]; the operands must be packed for AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn bf16_tiles(left: &PackedLeft, right: &PackedRight, span: &Span, target: Target<f32>) {
    use super::kernel::amx;
    let (l, r) = (&left.header, &right.header);
    // An infinity times the zero of a second term, or of the other operand's padding, would be NaN.
    let mixes = l.lane == Lane::Bf16Pair || r.lane == Lane::Bf16Pair || l.valid_k != r.valid_k;
    let infinite = mixes && (l.terms.non_finite() || r.terms.non_finite());
    let operands = amx::Operands {
        left: left.layout(),
        left_planes: l.lane.planes(),
        right: right.layout(),
        right_planes: r.lane.planes(),
        rows: span.rows.clone(),
        cols: span.cols.clone(),
        k: span.k,
        block_groups: span.blocking.groups,
    };
    // SAFETY: the caller's contract.
    unsafe {
        let (c, stride, accumulate) = (target.first, target.stride, target.accumulate);
        if flushes(left, right) || infinite {
            amx::bf16_exact(&operands, c, stride, accumulate);
        } else {
            amx::bf16(&operands, c, stride, accumulate);
        }
    }
}

/// A product of 8-bit integers on AMX tiles.
///
/// # Safety
/// As for [`strips`]; the operands must be packed for AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn int8_tiles(left: &PackedLeft, right: &PackedRight, span: &Span, target: Target<i32>) {
    use super::kernel::amx;
    let operands = amx::Operands {
        left: left.layout(),
        left_planes: 1,
        right: right.layout(),
        right_planes: 1,
        rows: span.rows.clone(),
        cols: span.cols.clone(),
        k: span.k,
        block_groups: span.blocking.groups,
    };
    let signed = (left.lane() == Lane::I8, right.lane() == Lane::I8);
    // SAFETY: the caller's contract.
    unsafe {
        amx::int8(&operands, signed, target.first, target.stride, target.accumulate);
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn bf16_tiles(_: &PackedLeft, _: &PackedRight, _: &Span, _: Target<f32>) {
    unreachable!("only AMX packs tiles");
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn int8_tiles(_: &PackedLeft, _: &PackedRight, _: &Span, _: Target<i32>) {
    unreachable!("only AMX packs tiles");
}

/// Rows of a left operand up to which the right one is not packed.
const SKINNY_ROWS: usize = 4;

/// Multiplies two operands: `sums` (rows `stride` elements apart) becomes left · right, or grows by it when `accumulate`.
/// `relaxed` is that of [`Product::choose`].
pub fn matmul<'a>(
    scratch: &mut Scratch,
    path: TilePath,
    left: &OperandView<'_>,
    right: &OperandView<'_>,
    relaxed: bool,
    sums: impl Into<AccumulatorMut<'a>>,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    if left.cols != right.rows {
        return Err(TileError::InnerMismatch {
            left: left.cols,
            right: right.rows,
        });
    }
    let product = Product::choose(path, left.kind(), right.kind(), relaxed)?;
    let sums = sums.into();
    if product.accumulation == Accumulation::F32 {
        if let Some(few) = FewProduct::choose(path, left, right) {
            return matmul_few(scratch, &few, left, right, sums, stride, accumulate);
        }
        let dense = has_dense_rows(right) || right.row_stride == 1;
        if left.valid_rows <= SKINNY_ROWS && dense {
            return skinny(scratch, path, left, right, sums, stride, accumulate);
        }
    }
    let mut packed = std::mem::take(&mut scratch.right);
    packed.pack(&product, right, scratch);
    let result = multiply_view(scratch, &product, left, &packed, sums, stride, accumulate);
    scratch.right = packed;
    result
}

/// As [`multiply`], with a left operand that is read where it lies if the product permits it (`f32` rows without gaps), and
/// packed otherwise.
pub fn multiply_view<'a>(
    scratch: &mut Scratch,
    product: &Product,
    left: &OperandView<'_>,
    right: &PackedRight,
    sums: impl Into<AccumulatorMut<'a>>,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    let header = &right.header;
    let (layout, sums) = match (direct_left(product, left), sums.into()) {
        (Some(layout), AccumulatorMut::F32(sums)) => (layout, sums),
        (_, sums) => {
            let mut packed = std::mem::take(&mut scratch.left);
            packed.pack(product, left, scratch);
            let result = multiply(&packed, right, sums, stride, accumulate);
            scratch.left = packed;
            return result;
        }
    };
    if left.cols != header.k {
        return Err(TileError::InnerMismatch {
            left: left.cols,
            right: header.k,
        });
    }
    if (header.path, header.lane) != (product.path, Lane::F32) {
        return Err(TileError::PackMismatch {
            left: (product.path, product.left),
            right: (header.path, header.lane),
        });
    }
    let span = Span {
        rows: 0..left.valid_rows,
        cols: 0..header.valid_across,
        k: left.valid_cols.min(header.valid_k),
        blocking: header.blocking,
    };
    let target = prepare(sums, (left.rows, header.across), &span, stride, accumulate)?;
    let ops = ops(header.path);
    let width = panel_width(header.path, Lane::F32);
    // SAFETY: the left rows are those of the view, the panels packed, the accumulator checked.
    unsafe {
        strips(&plain(ops.strip_f32), ops, &span, layout, right.layout(), width, target);
    }
    Ok(())
}

/// The layout of a left operand that a micro-kernel can read where it lies: aligned `f32` rows.
fn direct_left(product: &Product, left: &OperandView<'_>) -> Option<LeftLayout> {
    let base = left.address(0, 0);
    let fits = product.left == Lane::F32
        && left.format == ElementFormat::F32
        && left.scales.is_none()
        && left.col_stride == 1
        && base.addr().is_multiple_of(4);
    let blocking = Blocking::new(left.cols, product.path, Lane::F32);
    fits.then(|| LeftLayout {
        base,
        row_stride: left.row_stride as isize * 4,
        block_stride: (blocking.elements() * 4) as isize,
        plane_stride: 0,
    })
}

/// As [`prepare`] for a product of few rows over some K.
pub(super) fn prepare_few(
    sums: &mut [f32],
    left: &OperandView<'_>,
    right: &OperandView<'_>,
    k: usize,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    let span = Span {
        rows: 0..left.valid_rows,
        cols: 0..right.valid_cols,
        k,
        blocking: Blocking::new(left.cols, TilePath::Portable, Lane::F32),
    };
    prepare(sums, (left.rows, right.cols), &span, stride, accumulate).map(|_| ())
}

/// [`skinny`] for some of the columns: the others' sums stay as they are.
pub(super) fn skinny_columns(
    scratch: &mut Scratch,
    path: TilePath,
    left: &OperandView<'_>,
    right: &OperandView<'_>,
    sums: &mut [f32],
    stride: usize,
    accumulate: bool,
    columns: Range<usize>,
) -> Result<(), TileError> {
    if columns == (0..right.valid_cols) {
        return skinny(scratch, path, left, right, sums.into(), stride, accumulate);
    }
    let mut part = *right;
    part.origin = right.index(0, columns.start);
    part.cols = columns.len();
    part.valid_cols = columns.len();
    part.scales = right.scales.map(|scales| {
        let col = scales.col_phase + columns.start;
        scales.phase(scales.row_phase, col)
    });
    let mut left = *left;
    left.rows = left.valid_rows;
    skinny(
        scratch,
        path,
        &left,
        &part,
        (&mut sums[columns.start..]).into(),
        stride,
        accumulate,
    )
}

/// A product with few rows: the right operand is read once, as it lies.
fn skinny(
    scratch: &mut Scratch,
    path: TilePath,
    left: &OperandView<'_>,
    right: &OperandView<'_>,
    sums: AccumulatorMut<'_>,
    stride: usize,
    accumulate: bool,
) -> Result<(), TileError> {
    let AccumulatorMut::F32(sums) = sums else {
        return Err(TileError::AccumulatorType {
            needed: Accumulation::F32,
        });
    };
    let ops = ops(path);
    let (m, n) = (left.valid_rows, right.valid_cols);
    let k = left.valid_cols.min(right.valid_rows);
    let span = Span {
        rows: 0..m,
        cols: 0..n,
        k,
        blocking: Blocking::new(left.cols, path, Lane::F32),
    };
    let target = prepare(sums, (left.rows, right.cols), &span, stride, accumulate)?;
    let mut row_buffer = std::mem::take(&mut scratch.row);
    let mut stage_buffer = std::mem::take(&mut scratch.stage);
    let mut flip = std::mem::take(&mut scratch.flip);
    let direct = right.format == ElementFormat::F32 && right.scales.is_none();
    let by_columns = !has_dense_rows(right) && right.row_stride == 1;
    // SAFETY: all parts lie in the valid parts of the views, and the accumulator was checked.
    unsafe {
        let factors: *mut f32 = row_buffer.reserve(m * k * 4).cast();
        let whole = Part {
            row: 0,
            col: 0,
            rows: m,
            cols: k,
        };
        stage_f32(ops, left, whole, factors, k, &mut flip);
        if by_columns {
            // K runs along memory: dot products, a few columns and a stretch of K at a time.
            const COLUMNS: usize = 8;
            const STRETCH: usize = 512;
            let staged: *mut f32 = stage_buffer.reserve(COLUMNS * STRETCH * 4).cast();
            let flipped = right.transposed();
            for c in (0..n).step_by(COLUMNS) {
                let count = COLUMNS.min(n - c);
                for k0 in (0..k).step_by(STRETCH) {
                    let part = Part {
                        row: c,
                        col: k0,
                        rows: count,
                        cols: STRETCH.min(k - k0),
                    };
                    let (src, bytes) = if direct {
                        (flipped.address(c, k0), flipped.row_stride as isize * 4)
                    } else {
                        stage_f32(ops, &flipped, part, staged, STRETCH, &mut flip);
                        (staged.cast_const().cast(), STRETCH as isize * 4)
                    };
                    for r in 0..m {
                        (ops.dots)(
                            factors.add(r * k + k0),
                            part.cols,
                            src,
                            bytes,
                            count,
                            target.first.add(r * stride + c),
                            accumulate || k0 > 0,
                        );
                    }
                }
            }
        } else {
            const ROWS: usize = 8;
            const STRETCH: usize = 512;
            let staged: *mut f32 = stage_buffer.reserve(ROWS * STRETCH * 4).cast();
            if !accumulate && k > 0 {
                for r in 0..m {
                    std::slice::from_raw_parts_mut(target.first.add(r * stride), n).fill(0.0);
                }
            }
            for c in (0..n).step_by(STRETCH) {
                for k0 in (0..k).step_by(ROWS) {
                    let part = Part {
                        row: k0,
                        col: c,
                        rows: ROWS.min(k - k0),
                        cols: STRETCH.min(n - c),
                    };
                    let (src, bytes) = if direct {
                        (right.address(k0, c), right.row_stride as isize * 4)
                    } else {
                        stage_f32(ops, right, part, staged, STRETCH, &mut flip);
                        (staged.cast_const().cast(), STRETCH as isize * 4)
                    };
                    for r in 0..m {
                        (ops.axpy)(
                            factors.add(r * k + k0),
                            part.rows,
                            src,
                            bytes,
                            part.cols,
                            target.first.add(r * stride + c),
                        );
                    }
                }
            }
        }
    }
    scratch.row = row_buffer;
    scratch.stage = stage_buffer;
    scratch.flip = flip;
    Ok(())
}
