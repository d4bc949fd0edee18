//! More than four rows by quantised columns, on AVX2: some columns are decoded for a stretch of K into a panel of `f32` in the
//! first-level cache, block scales folded in (powers of two: exact), and all rows pass over it, four at a time by three
//! columns. The vectors of partial sums stay in that cache too and are added across at the end of K.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::FewJob;
use super::avx2_few::{
    AHEAD, Cursor, E4M3, ask, bytes_of, decode, factor, has_nan, largest, parts, scaled_bytes_of, scaled_tables, steps,
    vectors,
};

/// Rows at most.
pub(super) const ROWS: usize = 32;

/// Columns of a panel.
const COLUMNS: usize = 6;

/// Vectors of a column in a panel: 512 elements, 2 KiB.
const VECTORS: usize = 64;

/// Rows and columns whose sums are in registers.
const HIGH: usize = 4;
const WIDE: usize = 3;

type Panel = [[__m256; VECTORS]; COLUMNS];
/// Sums of a column by the job's rows, one after the other: other strides would share few places of the cache.
type Sums = [__m256; ROWS * COLUMNS];

/// # Safety
/// The contract of FewKernels.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn multiply<const WAY: u8>(job: &mut FewJob<'_>) {
    let mut panel = MaybeUninit::<Panel>::uninit();
    let mut sums = MaybeUninit::<Sums>::uninit();
    let vectors = 2 * vectors::<WAY>();
    let chunks = job.right.bytes.div_ceil(64);
    let chunks_together = VECTORS / vectors;
    let count = job.right.count;
    for first in (0..count).step_by(COLUMNS) {
        let columns = COLUMNS.min(count - first);
        let mut nan = [false; COLUMNS];
        for q in (0..chunks).step_by(chunks_together) {
            let together = chunks_together.min(chunks - q);
            // SAFETY: the columns and chunks are those of the job; every vector of the panel and sum that is read was
            // written before: sums are set where q is 0.
            unsafe {
                for (c, nan) in nan.iter_mut().enumerate().take(columns) {
                    let to = (&raw mut (*panel.as_mut_ptr())[c]).cast();
                    *nan |= fill::<WAY>(job, first + c, q, together, to);
                }
                let left = job.left.cast::<f32>().add(q * vectors * job.left_rows * 8);
                let panel: *const __m256 = panel.as_ptr().cast();
                let sums: *mut __m256 = sums.as_mut_ptr().cast();
                let strips = job.rows.div_ceil(HIGH);
                let mut row = 0;
                for i in 0..strips {
                    // Strips of nearly equal height.
                    let height = job.rows / strips + usize::from(i < job.rows % strips);
                    let strip = match (height, q) {
                        (1, 0) => strip::<1, false>,
                        (1, _) => strip::<1, true>,
                        (2, 0) => strip::<2, false>,
                        (2, _) => strip::<2, true>,
                        (3, 0) => strip::<3, false>,
                        (3, _) => strip::<3, true>,
                        (_, 0) => strip::<HIGH, false>,
                        _ => strip::<HIGH, true>,
                    };
                    let rows = Rows {
                        first: left.add(8 * row),
                        step: 8 * job.left_rows,
                    };
                    strip(rows, panel, columns, together * vectors, sums.add(row), job.rows);
                    row += height;
                }
            }
        }
        for c in 0..columns {
            for r in 0..job.rows {
                // SAFETY: the sums of these rows and columns were written.
                let sum = unsafe { super::avx2::add_across((*sums.as_ptr())[c * job.rows + r]) };
                job.put(r, first + c, if nan[c] { f32::NAN } else { sum });
            }
        }
    }
}

/// Decodes some chunks of a column; true where E4M3's NaN is among them.
///
/// # Safety
/// The column and the chunks must be the job's, and their vectors writable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fill<const WAY: u8>(job: &FewJob<'_>, column: usize, q: usize, count: usize, to: *mut __m256) -> bool {
    let right = &job.right;
    // SAFETY: the caller's contract.
    unsafe {
        match right.scales.is_null() {
            true => fill_scaled::<WAY, false>(job, column, q..q + count, to),
            false => fill_scaled::<WAY, true>(job, column, q..q + count, to),
        }
    }
}

/// # Safety
/// As for [`fill`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fill_scaled<const WAY: u8, const SCALED: bool>(
    job: &FewJob<'_>,
    column: usize,
    chunks: std::ops::Range<usize>,
    mut to: *mut __m256,
) -> bool {
    let right = &job.right;
    let ahead = right.ahead(AHEAD, COLUMNS);
    // SAFETY: the caller's contract.
    unsafe {
        let table = bytes_of(job);
        let cursor = Cursor::<WAY, 2>::new(right, column);
        let mut most = _mm256_setzero_si256();
        for q in chunks {
            ask(right, column, 64 * q, ahead);
            let chunk = cursor.chunk(q);
            for half in 0..2 {
                let bytes = chunk.bytes(half);
                if WAY == E4M3 {
                    most = largest(most, bytes);
                }
                for part in 0..parts::<WAY>() {
                    let mut scale = _mm256_set1_ps(factor::<WAY>());
                    let mut table = table;
                    if SCALED {
                        match scaled_tables::<WAY>() {
                            true => table = scaled_bytes_of(job, &chunk, half, part),
                            false => scale = _mm256_mul_ps(scale, chunk.scale(half)),
                        }
                    }
                    for step in 0..steps::<WAY>() {
                        for value in decode::<WAY>(table, bytes, part, step) {
                            let plain = scaled_tables::<WAY>() || (!SCALED && WAY != E4M3);
                            *to = if plain { value } else { _mm256_mul_ps(value, scale) };
                            to = to.add(1);
                        }
                    }
                }
            }
        }
        WAY == E4M3 && has_nan(most)
    }
}

/// Vectors of some rows: each row's follows the one of the row before, `step` elements from vector to vector.
#[derive(Clone, Copy)]
struct Rows {
    first: *const f32,
    step: usize,
}

/// HIGH rows by all columns of the panel.
///
/// # Safety
/// `count` vectors of each column and row must be readable, sums writable; with MORE they are added to.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn strip<const HIGH: usize, const MORE: bool>(
    rows: Rows,
    panel: *const __m256,
    columns: usize,
    count: usize,
    sums: *mut __m256,
    sums_step: usize,
) {
    for c in (0..columns).step_by(WIDE) {
        // SAFETY: the caller's contract.
        unsafe {
            let (panel, sums) = (panel.add(c * VECTORS), sums.add(c * sums_step));
            match columns - c {
                1 => tile::<HIGH, 1, MORE>(rows, panel, count, sums, sums_step),
                2 => tile::<HIGH, 2, MORE>(rows, panel, count, sums, sums_step),
                _ => tile::<HIGH, WIDE, MORE>(rows, panel, count, sums, sums_step),
            }
        }
    }
}

/// # Safety
/// As for [`strip`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const HIGH: usize, const COLUMNS: usize, const MORE: bool>(
    rows: Rows,
    panel: *const __m256,
    count: usize,
    sums: *mut __m256,
    sums_step: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut block = [[_mm256_setzero_ps(); COLUMNS]; HIGH];
        if MORE {
            for r in 0..HIGH {
                for c in 0..COLUMNS {
                    block[r][c] = *sums.add(c * sums_step + r);
                }
            }
        }
        let mut left = rows.first;
        for v in 0..count {
            let mut w = [_mm256_setzero_ps(); COLUMNS];
            for c in 0..COLUMNS {
                w[c] = *panel.add(c * VECTORS + v);
            }
            for r in 0..HIGH {
                let x = _mm256_loadu_ps(left.add(8 * r));
                for c in 0..COLUMNS {
                    block[r][c] = _mm256_fmadd_ps(x, w[c], block[r][c]);
                }
            }
            left = left.add(rows.step);
        }
        for r in 0..HIGH {
            for c in 0..COLUMNS {
                *sums.add(c * sums_step + r) = block[r][c];
            }
        }
    }
}
