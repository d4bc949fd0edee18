//! More than four rows by quantised columns, on AVX-512: some columns are decoded for a stretch of K into a panel of `f32` in the
//! first-level cache, block scales folded in (powers of two: exact), and all rows pass over it, four at a time by six
//! columns. The vectors of partial sums stay near too and are added across at the end of K.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::FewJob;
use super::avx512_few_wide::{AHEAD, ask, decode, halves, load, scales, tables, words};

/// Rows at most.
pub(super) const ROWS: usize = 32;

/// Columns of a panel.
const COLUMNS: usize = 6;

/// Vectors of a column in a panel: 256 elements, 1 KiB.
const VECTORS: usize = 16;

/// Rows and columns whose sums are in registers.
const HIGH: usize = 4;
const WIDE: usize = 6;

type Panel = [[__m512; VECTORS]; COLUMNS];
/// Sums of a column by the job's rows, one after the other: other strides would share few places of the cache.
type Sums = [__m512; ROWS * COLUMNS];

/// # Safety
/// The contract of FewKernels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn multiply<const BITS: usize>(job: &mut FewJob<'_>) {
    let mut panel = MaybeUninit::<Panel>::uninit();
    let mut sums = MaybeUninit::<Sums>::uninit();
    let vectors = 2 * words::<BITS>();
    let chunks = job.right.bytes.div_ceil(64);
    let chunks_together = VECTORS / vectors;
    let count = job.right.count;
    for first in (0..count).step_by(COLUMNS) {
        let columns = COLUMNS.min(count - first);
        for q in (0..chunks).step_by(chunks_together) {
            let together = chunks_together.min(chunks - q);
            // SAFETY: the columns and chunks are those of the job; every vector of the panel and sum that is read was
            // written before: sums are set where q is 0.
            unsafe {
                for c in 0..columns {
                    let to = (&raw mut (*panel.as_mut_ptr())[c]).cast();
                    fill::<BITS>(job, first + c, q, together, to);
                }
                let left = job.left.cast::<f32>().add(q * vectors * job.left_rows * 16);
                let panel: *const __m512 = panel.as_ptr().cast();
                let sums: *mut __m512 = sums.as_mut_ptr().cast();
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
                        first: left.add(16 * row),
                        step: 16 * job.left_rows,
                    };
                    strip(rows, panel, columns, together * vectors, sums.add(row), job.rows);
                    row += height;
                }
            }
        }
        for c in 0..columns {
            for r in 0..job.rows {
                // SAFETY: the sums of these rows and columns were written.
                let sum = unsafe { _mm512_reduce_add_ps((*sums.as_ptr())[c * job.rows + r]) };
                job.put(r, first + c, sum);
            }
        }
    }
}

/// Decodes some chunks of a column.
///
/// # Safety
/// The column and the chunks must be the job's, and their vectors writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn fill<const BITS: usize>(job: &FewJob<'_>, column: usize, q: usize, count: usize, mut to: *mut __m512) {
    let right = &job.right;
    let ahead = right.ahead(AHEAD, COLUMNS);
    // SAFETY: the caller's contract.
    unsafe {
        let tables = tables(job);
        for q in q..q + count {
            let bytes = load(right, column, q);
            ask(right, column, q, ahead);
            let scale = match right.scales.is_null() {
                true => _mm512_set1_ps(1.0),
                false => scales::<BITS>(right, column, q),
            };
            for step in 0..words::<BITS>() {
                for value in halves(decode::<BITS>(tables, bytes, step)) {
                    *to = _mm512_mul_ps(value, scale);
                    to = to.add(1);
                }
            }
        }
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn strip<const HIGH: usize, const MORE: bool>(
    rows: Rows,
    panel: *const __m512,
    columns: usize,
    count: usize,
    sums: *mut __m512,
    sums_step: usize,
) {
    let mut c = 0;
    while c < columns {
        // SAFETY: the caller's contract.
        unsafe {
            let (panel, sums) = (panel.add(c * VECTORS), sums.add(c * sums_step));
            c += match columns - c {
                WIDE.. => {
                    tile::<HIGH, WIDE, MORE>(rows, panel, count, sums, sums_step);
                    WIDE
                }
                4.. => {
                    tile::<HIGH, 4, MORE>(rows, panel, count, sums, sums_step);
                    4
                }
                2.. => {
                    tile::<HIGH, 2, MORE>(rows, panel, count, sums, sums_step);
                    2
                }
                _ => {
                    tile::<HIGH, 1, MORE>(rows, panel, count, sums, sums_step);
                    1
                }
            };
        }
    }
}

/// # Safety
/// As for [`strip`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn tile<const HIGH: usize, const COLUMNS: usize, const MORE: bool>(
    rows: Rows,
    panel: *const __m512,
    count: usize,
    sums: *mut __m512,
    sums_step: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut block = [[_mm512_setzero_ps(); COLUMNS]; HIGH];
        if MORE {
            for r in 0..HIGH {
                for c in 0..COLUMNS {
                    block[r][c] = *sums.add(c * sums_step + r);
                }
            }
        }
        let mut left = rows.first;
        for v in 0..count {
            let mut w = [_mm512_setzero_ps(); COLUMNS];
            for c in 0..COLUMNS {
                w[c] = *panel.add(c * VECTORS + v);
            }
            for r in 0..HIGH {
                let x = _mm512_load_ps(left.add(16 * r));
                for c in 0..COLUMNS {
                    block[r][c] = _mm512_fmadd_ps(x, w[c], block[r][c]);
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
