//! Wide helpers around tiles: conversions of contiguous arrays, reductions of rows, and copies of a tile between strided
//! memory and a row-major `f32` tile.
//!
//! Each takes the path to run on; a path that this machine lacks falls back to the portable one. Lengths are those of the
//! shorter slice.

use std::marker::PhantomData;

use anymetal_formats::ElementFormat;

use super::kernel::{Ops, ops};
use super::view::OperandView;
use super::widen::{Part, stage_f32};
use super::{Scratch, TileError, TilePath};

fn checked(path: TilePath) -> &'static Ops {
    ops(if path.is_available() { path } else { TilePath::Portable })
}

/// `half` bits to `f32`, exactly.
pub fn f16_to_f32(path: TilePath, src: &[u16], dst: &mut [f32]) {
    let n = src.len().min(dst.len());
    // SAFETY: both slices hold n elements.
    unsafe { (checked(path).widen_f16)(src.as_ptr().cast(), n, dst.as_mut_ptr()) }
}

/// bf16 bits to `f32`, exactly.
pub fn bf16_to_f32(path: TilePath, src: &[u16], dst: &mut [f32]) {
    let n = src.len().min(dst.len());
    // SAFETY: both slices hold n elements.
    unsafe { (checked(path).widen_bf16)(src.as_ptr().cast(), n, dst.as_mut_ptr()) }
}

/// `f32` to `half` bits, to nearest, ties to even; NaN stays NaN.
pub fn f32_to_f16(path: TilePath, src: &[f32], dst: &mut [u16]) {
    let n = src.len().min(dst.len());
    // SAFETY: both slices hold n elements.
    unsafe { (checked(path).to_f16)(src.as_ptr(), n, dst.as_mut_ptr().cast()) }
}

/// `f32` to bf16 bits, to nearest, ties to even; NaN stays NaN.
pub fn f32_to_bf16(path: TilePath, src: &[f32], dst: &mut [u16]) {
    let n = src.len().min(dst.len());
    // SAFETY: both slices hold n elements.
    unsafe { (checked(path).to_bf16)(src.as_ptr(), n, dst.as_mut_ptr().cast()) }
}

/// How rows are reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// Sum, in an order of the path's choice; 0 for empty rows.
    Sum,
    /// Maximum, NaN passed over; −∞ for empty rows.
    Max,
    /// Minimum, NaN passed over; +∞ for empty rows.
    Min,
}

/// Reduces each row of a row-major tile (`cols` elements of every `stride`) into one element of `results`; rows that do not
/// fit in `tile` are left out.
pub fn reduce_rows(
    path: TilePath,
    reduction: Reduction,
    tile: &[f32],
    cols: usize,
    stride: usize,
    results: &mut [f32],
) {
    let ops = checked(path);
    let reduce = match reduction {
        Reduction::Sum => ops.sum,
        Reduction::Max => ops.max,
        Reduction::Min => ops.min,
    };
    for (row, result) in results.iter_mut().enumerate() {
        let start = row * stride;
        let Some(row) = tile.get(start..start + cols) else {
            return;
        };
        // SAFETY: the row holds `cols` elements.
        *result = unsafe { reduce(row.as_ptr(), cols) };
    }
}

/// Reads a view into a row-major tile with rows `stride` elements apart: widened to `f32`, scales folded in, zeros outside
/// the valid part.
pub fn load_tile(
    path: TilePath,
    scratch: &mut Scratch,
    view: &OperandView<'_>,
    tile: &mut [f32],
    stride: usize,
) -> Result<(), TileError> {
    check(tile.len(), view.rows, view.cols, stride)?;
    let (rows, cols) = view.valid_extents();
    let part = Part {
        row: 0,
        col: 0,
        rows,
        cols,
    };
    let ops = checked(path);
    // SAFETY: the part is the valid one, and the tile holds its rows.
    unsafe { stage_f32(ops, view, part, tile.as_mut_ptr(), stride, &mut scratch.flip) };
    for row in 0..view.rows {
        let from = if row < rows { cols } else { 0 };
        if view.cols > 0 {
            tile[row * stride + from..row * stride + view.cols].fill(0.0);
        }
    }
    Ok(())
}

/// A matrix in memory to be written: element (r, c) stands at element index `origin + r · row_stride + c · col_stride` past
/// `data`. Only the valid part is written.
#[derive(Debug)]
pub struct DestinationView<'a> {
    data: *mut u8,
    format: ElementFormat,
    origin: i64,
    strides: (i64, i64),
    rows: usize,
    cols: usize,
    lifetime: PhantomData<&'a mut u8>,
}

impl DestinationView<'_> {
    /// A view whose valid part has `rows` × `cols` elements. `None` for formats narrower than a byte, whose elements
    /// cannot be written one by one. `data` may be unaligned.
    ///
    /// # Safety
    /// Every valid element must be writable, and accessed by nobody else, for the lifetime.
    pub unsafe fn new(
        data: *mut u8,
        format: ElementFormat,
        origin: i64,
        (rows, cols): (usize, usize),
        strides: (i64, i64),
    ) -> Option<Self> {
        (format.bits() >= 8).then_some(DestinationView {
            data,
            format,
            origin,
            strides,
            rows,
            cols,
            lifetime: PhantomData,
        })
    }

    fn address(&self, row: usize, col: usize) -> *mut u8 {
        let index = self.origin + row as i64 * self.strides.0 + col as i64 * self.strides.1;
        let bytes = (self.format.bits() / 8) as i64;
        self.data.wrapping_offset((index * bytes) as isize)
    }
}

/// Writes the valid part of a destination from a row-major tile with rows `stride` elements apart, rounding to nearest, ties
/// to even (integers: clamped, NaN to 0).
pub fn store_tile(
    path: TilePath,
    scratch: &mut Scratch,
    tile: &[f32],
    stride: usize,
    destination: &mut DestinationView<'_>,
) -> Result<(), TileError> {
    let (rows, cols) = (destination.rows, destination.cols);
    check(tile.len(), rows, cols, stride)?;
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let ops = checked(path);
    let bytes = destination.format.bits() / 8;
    let converted = scratch.row.reserve(cols * 8);
    for r in 0..rows {
        let row = &tile[r * stride..r * stride + cols];
        let dense = destination.strides.1 == 1 || cols == 1;
        let to = if dense { destination.address(r, 0) } else { converted };
        // SAFETY: `to` has room for `cols` elements, in the destination or in scratch; each element written back is valid.
        unsafe {
            match destination.format {
                ElementFormat::F32 => std::ptr::copy_nonoverlapping(row.as_ptr().cast(), to, cols * 4),
                ElementFormat::F16 => (ops.to_f16)(row.as_ptr(), cols, to),
                ElementFormat::BF16 => (ops.to_bf16)(row.as_ptr(), cols, to),
                format => {
                    for (c, &value) in row.iter().enumerate() {
                        let code = format.encode(value.into()).to_le_bytes();
                        std::ptr::copy_nonoverlapping(code.as_ptr(), to.add(c * bytes), bytes);
                    }
                }
            }
            if !dense {
                scatter(converted, bytes, cols, |c| destination.address(r, c));
            }
        }
    }
    Ok(())
}

/// As [`store_tile`] for `i32` sums, which go to 32-bit integers as they are.
pub fn store_tile_i32(tile: &[i32], stride: usize, destination: &mut DestinationView<'_>) -> Result<(), TileError> {
    use ElementFormat::{I32, U32};
    let (rows, cols) = (destination.rows, destination.cols);
    check(tile.len(), rows, cols, stride)?;
    if !matches!(destination.format, I32 | U32) {
        return Err(TileError::DestinationFormat {
            format: destination.format,
        });
    }
    for r in 0..rows {
        for c in 0..cols {
            let to: *mut i32 = destination.address(r, c).cast();
            // SAFETY: (r, c) is a valid element of 4 bytes.
            unsafe { to.write_unaligned(tile[r * stride + c]) };
        }
    }
    Ok(())
}

/// Copies `n` elements of 1, 2, 4 or 8 bytes to addresses of their own.
///
/// # Safety
/// All of them must be readable and writable.
unsafe fn scatter(src: *const u8, bytes: usize, n: usize, to: impl Fn(usize) -> *mut u8) {
    /// # Safety
    /// As for `scatter`.
    unsafe fn each<T>(src: *const T, n: usize, to: impl Fn(usize) -> *mut u8) {
        for i in 0..n {
            // SAFETY: the caller's contract.
            unsafe { to(i).cast::<T>().write_unaligned(src.add(i).read_unaligned()) };
        }
    }
    // SAFETY: the caller's contract.
    unsafe {
        match bytes {
            1 => each::<u8>(src, n, to),
            2 => each::<u16>(src.cast(), n, to),
            4 => each::<u32>(src.cast(), n, to),
            _ => each::<u64>(src.cast(), n, to),
        }
    }
}

fn check(have: usize, rows: usize, cols: usize, stride: usize) -> Result<(), TileError> {
    let needed = match (rows, cols) {
        (0, _) | (_, 0) => Some(0),
        _ => (rows - 1).checked_mul(stride).and_then(|last| last.checked_add(cols)),
    };
    if (cols > stride && rows > 1) || needed.is_none_or(|needed| needed > have) {
        return Err(TileError::AccumulatorSize {
            rows,
            cols,
            stride,
            have,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::available_paths;
    use super::*;

    #[test]
    fn conversions_match_the_formats() {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        // Every half, and what lies between: halfway, a little to each side, and far out.
        let mut values: Vec<f32> = codes.iter().map(|&x| half::f16::from_bits(x).to_f32()).collect();
        let between: Vec<f32> = values
            .iter()
            .flat_map(|x| {
                let up = half::f16::from_bits(half::f16::from_f32(*x).to_bits().wrapping_add(1));
                let middle = (x + up.to_f32()) / 2.0;
                [middle, middle.next_up(), middle.next_down()]
            })
            .collect();
        values.extend(between);
        values.extend([f32::MAX, f32::MIN_POSITIVE, 1e-45, -1e-40, 65520.0, 65519.99]);
        values.extend((0..100_000u32).map(|i| f32::from_bits(i.wrapping_mul(42_949))));
        for &path in available_paths() {
            let mut wide = vec![0.0f32; codes.len()];
            f16_to_f32(path, &codes, &mut wide);
            for (&code, &x) in codes.iter().zip(&wide) {
                let want = half::f16::from_bits(code).to_f32();
                assert!(x.to_bits() == want.to_bits() || x.is_nan() && want.is_nan());
            }
            bf16_to_f32(path, &codes, &mut wide);
            for (&code, &x) in codes.iter().zip(&wide) {
                assert_eq!(x.to_bits(), u32::from(code) << 16);
            }
            let mut narrow = vec![0u16; values.len()];
            f32_to_f16(path, &values, &mut narrow);
            for (&value, &code) in values.iter().zip(&narrow) {
                let (got, want) = (half::f16::from_bits(code), half::f16::from_f32(value));
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
            }
            f32_to_bf16(path, &values, &mut narrow);
            for (&value, &code) in values.iter().zip(&narrow) {
                let want = half::bf16::from_f32(value).to_bits();
                assert_eq!(code, want, "{path} {value:e}");
            }
        }
    }

    #[test]
    fn reductions() {
        for &path in available_paths() {
            for cols in [0usize, 1, 7, 8, 31, 32, 33, 100] {
                let stride = cols + 3;
                let tile: Vec<f32> = (0..5 * stride).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
                let mut results = [0.0f32; 5];
                for reduction in [Reduction::Sum, Reduction::Max, Reduction::Min] {
                    reduce_rows(path, reduction, &tile, cols, stride, &mut results);
                    for (r, &got) in results.iter().enumerate() {
                        let row = tile[r * stride..r * stride + cols].iter().copied();
                        let want = match reduction {
                            Reduction::Sum => row.sum::<f32>(),
                            Reduction::Max => row.fold(f32::NEG_INFINITY, f32::max),
                            Reduction::Min => row.fold(f32::INFINITY, f32::min),
                        };
                        assert_eq!(got, want, "{path} {reduction:?} of {cols}");
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_come_and_go() {
        use ElementFormat::*;
        let (rows, cols) = (19, 23);
        let tile: Vec<f32> = (0..rows * cols).map(|i| (i % 120) as f32).collect();
        for &path in available_paths() {
            for format in [F32, F16, BF16, I8, U8, I32, I64] {
                for strides in [(cols as i64 + 2, 1i64), (1, rows as i64 + 1), (75, 3)] {
                    let mut memory = vec![0xaau8; 8 * 75 * 24];
                    let mut scratch = Scratch::default();
                    // SAFETY: the largest index is below 75 · 24 elements of at most 8 bytes.
                    let (view, mut destination) = unsafe {
                        let data = memory.as_mut_ptr();
                        let origin = 2;
                        (
                            OperandView::new(data, format, (rows, cols), strides)
                                .origin(origin)
                                .valid(rows - 2, cols - 1),
                            DestinationView::new(data, format, origin, (rows - 2, cols - 1), strides).unwrap(),
                        )
                    };
                    store_tile(path, &mut scratch, &tile, cols, &mut destination).unwrap();
                    let mut back = vec![f32::NAN; rows * (cols + 1)];
                    load_tile(path, &mut scratch, &view, &mut back, cols + 1).unwrap();
                    for r in 0..rows {
                        for c in 0..cols {
                            let inside = r < rows - 2 && c < cols - 1;
                            let want = if inside { tile[r * cols + c] } else { 0.0 };
                            assert_eq!(back[r * (cols + 1) + c], want, "{path} {format} {strides:?}");
                        }
                        assert!(back[r * (cols + 1) + cols].is_nan());
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_integers_are_stored_as_they_are() {
        let tile = [i32::MIN, -1, 7, i32::MAX];
        let mut memory = [0i32; 4];
        // SAFETY: four elements.
        let mut destination =
            unsafe { DestinationView::new(memory.as_mut_ptr().cast(), ElementFormat::I32, 0, (2, 2), (1, 2)) }.unwrap();
        store_tile_i32(&tile, 2, &mut destination).unwrap();
        assert_eq!(memory, [i32::MIN, 7, -1, i32::MAX]);
    }
}
