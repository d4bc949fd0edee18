//! Few rows by quantised columns in `f32`, on AVX-512 with byte permutations: a column's packed elements are read 64 bytes at a
//! time where they lie, become bf16 by table as in [`super::avx512_few`], and `f32` by taking even and odd ones apart.
//!
//! Up to four rows multiply each decoded vector where it comes out; more rows share columns that are decoded into the
//! first-level cache ([`super::avx512_few_panel`]). Sums of a block of 32 elements are multiplied by the block's scale.

use std::arch::x86_64::*;

use super::avx512_few::{codes_of, extreme_codes, scale_places};
use super::{FewJob, FewKernels, avx512_few_panel};
use crate::tile::few::Columns;

pub(super) const FEW: FewKernels = FewKernels {
    two_bits: by_rows::<2>,
    four_bits: by_rows::<4>,
    e4m3: by_rows::<8>,
    e5m2: by_rows::<8>,
    rows: avx512_few_panel::ROWS,
    extreme_codes,
};

/// Vectors of bf16 words to 64 bytes of codes of so many bits; each makes two vectors of `f32`.
pub(super) const fn words<const BITS: usize>() -> usize {
    16 / BITS
}

/// Scale codes to 64 bytes.
pub(super) const fn codes<const BITS: usize>() -> usize {
    16 / BITS
}

/// The tables of a format: bf16 values of codes of 2 and 4 bits, the lower and the upper bytes of those of 7 bits.
#[derive(Clone, Copy)]
pub(super) struct Tables([__m512i; 5]);

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn tables(job: &FewJob<'_>) -> Tables {
    // SAFETY: 64 bytes each, of tables of 64 and of 128.
    unsafe {
        Tables([
            _mm512_loadu_si512(job.table.words.as_ptr().cast()),
            _mm512_loadu_si512(job.table.low.as_ptr().cast()),
            _mm512_loadu_si512(job.table.low.as_ptr().add(64).cast()),
            _mm512_loadu_si512(job.table.high.as_ptr().cast()),
            _mm512_loadu_si512(job.table.high.as_ptr().add(64).cast()),
        ])
    }
}

/// The bf16 words of 64 bytes number `step`: of codes of 2 and 4 bits each word's code at that place; of FP8 the lower or the upper
/// half of each 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn decode<const BITS: usize>(tables: Tables, bytes: __m512i, step: usize) -> __m512i {
    let Tables([table, low0, low1, high0, high1]) = tables;
    if BITS < 8 {
        let codes = _mm512_srl_epi16(bytes, _mm_cvtsi32_si128((BITS * step) as i32));
        return _mm512_permutexvar_epi16(codes, table);
    }
    let low = _mm512_permutex2var_epi8(low0, bytes, low1);
    let high = _mm512_permutex2var_epi8(high0, bytes, high1);
    // high | (bytes & 0x80)
    let high = _mm512_ternarylogic_epi32::<0xf8>(high, bytes, _mm512_set1_epi8(-128));
    match step {
        0 => _mm512_unpacklo_epi8(low, high),
        _ => _mm512_unpackhi_epi8(low, high),
    }
}

/// The even and the odd ones of bf16 words as `f32`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn halves(words: __m512i) -> [__m512; 2] {
    let odd = _mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000u32 as i32));
    [
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)),
        _mm512_castsi512_ps(odd),
    ]
}

/// 64 bytes of a column, zeros past its end.
///
/// # Safety
/// The column must be one of these, `q` within its bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn load(right: &Columns, column: usize, q: usize) -> __m512i {
    let at = right.column(column).wrapping_add(64 * q);
    let mask = u64::MAX >> (64 - (right.bytes - 64 * q).min(64));
    // SAFETY: the mask covers the column's bytes.
    unsafe { _mm512_maskz_loadu_epi8(mask, at.cast()) }
}

/// Asks for the 64 bytes that lie `ahead` bytes from those of a column.
#[inline(always)]
pub(super) fn ask(right: &Columns, column: usize, q: usize, ahead: isize) {
    let at = right.column(column).wrapping_add(64 * q).wrapping_offset(ahead);
    // SAFETY: a prefetch may go anywhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// The scales of 64 bytes of a column as powers of two, for its `f32` vectors.
///
/// # Safety
/// As for [`load`]; there must be scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn scales<const BITS: usize>(right: &Columns, column: usize, q: usize) -> __m512 {
    // SAFETY: the caller's contract.
    unsafe {
        let count = codes::<BITS>();
        let placed = _mm512_shuffle_epi8(codes_of(right, column, q, count), scale_places(16 / count));
        _mm512_castsi512_ps(_mm512_srli_epi32::<1>(placed))
    }
}

/// Bytes to be asked for ahead of those in work.
pub(super) const AHEAD: isize = 4096;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn by_rows<const BITS: usize>(job: &mut FewJob<'_>) {
    // SAFETY: the contract of FewKernels.
    unsafe {
        match (job.rows, job.right.scales.is_null()) {
            (1, true) => by_columns::<BITS, 1, 1, 4, false>(job),
            (1, false) => by_columns::<BITS, 1, 1, 2, true>(job),
            (2, true) => by_columns::<BITS, 2, 2, 2, false>(job),
            (2, false) => by_columns::<BITS, 2, 2, 1, true>(job),
            (3, true) => by_columns::<BITS, 3, 3, 1, false>(job),
            (3, false) => by_columns::<BITS, 3, 3, 1, true>(job),
            (4, true) => by_columns::<BITS, 4, 3, 1, false>(job),
            (4, false) => by_columns::<BITS, 4, 3, 1, true>(job),
            _ => avx512_few_panel::multiply::<BITS>(job),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn by_columns<
    const BITS: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const CHAINS: usize,
    const SCALED: bool,
>(
    job: &mut FewJob<'_>,
) {
    let count = job.right.count;
    let whole = count - count % COLUMNS;
    // SAFETY: the contract of FewKernels.
    unsafe {
        for c in (0..whole).step_by(COLUMNS) {
            tile::<BITS, ROWS, COLUMNS, CHAINS, SCALED>(job, c);
        }
        for c in whole..count {
            tile::<BITS, ROWS, 1, CHAINS, SCALED>(job, c);
        }
    }
}

/// All rows by some columns. CHAINS sums of each are made at once, because one would wait for itself.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn tile<const BITS: usize, const ROWS: usize, const COLUMNS: usize, const CHAINS: usize, const SCALED: bool>(
    job: &mut FewJob<'_>,
    first: usize,
) {
    // SAFETY: columns `first` on of the job, read to their ends; the left operand holds ROWS rows of every vector; the results
    // are those of the job.
    unsafe {
        let right: &Columns = &job.right;
        let tables = tables(job);
        let zero = [[[_mm512_setzero_ps(); CHAINS]; COLUMNS]; ROWS];
        let mut totals = zero;
        let mut left: *const f32 = job.left.cast();
        let ahead = right.ahead(AHEAD, COLUMNS);
        for q in 0..right.bytes.div_ceil(64) {
            let mut bytes = [_mm512_setzero_si512(); COLUMNS];
            for c in 0..COLUMNS {
                bytes[c] = load(right, first + c, q);
                ask(right, first + c, q, ahead);
            }
            let mut block = if SCALED { zero } else { totals };
            for step in 0..words::<BITS>() {
                let mut decoded = [[_mm512_setzero_ps(); 2]; COLUMNS];
                for c in 0..COLUMNS {
                    decoded[c] = halves(decode::<BITS>(tables, bytes[c], step));
                }
                for v in 0..2 {
                    for r in 0..ROWS {
                        let x = _mm512_load_ps(left.add(16 * r));
                        for c in 0..COLUMNS {
                            let sum = &mut block[r][c][(2 * step + v) % CHAINS];
                            *sum = _mm512_fmadd_ps(x, decoded[c][v], *sum);
                        }
                    }
                    left = left.add(16 * ROWS);
                }
            }
            if !SCALED {
                totals = block;
                continue;
            }
            for c in 0..COLUMNS {
                let scale = scales::<BITS>(right, first + c, q);
                for r in 0..ROWS {
                    totals[r][c][0] = _mm512_fmadd_ps(add_up(block[r][c]), scale, totals[r][c][0]);
                }
            }
        }
        for c in 0..COLUMNS {
            for r in 0..ROWS {
                job.put(r, first + c, _mm512_reduce_add_ps(add_up(totals[r][c])));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn add_up<const COUNT: usize>(sums: [__m512; COUNT]) -> __m512 {
    match COUNT {
        1 => sums[0],
        2 => _mm512_add_ps(sums[0], sums[1]),
        _ => _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])),
    }
}
