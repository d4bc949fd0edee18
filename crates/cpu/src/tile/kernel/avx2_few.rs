//! Few rows by quantised columns, on AVX2: a column's packed elements are read 32 bytes at a time where they lie and become
//! `f32` in registers, codes of 2 and 4 bits by permuting a table (VPERMPS looks at the low 3 bits of each number), FP8 by way
//! of binary16. Sums of 32 bytes are multiplied by their block scales and added up.

use std::arch::x86_64::*;

use super::avx2::load;
use super::{FewJob, FewKernels};
use crate::tile::few::Columns;

pub(super) const FEW: FewKernels = FewKernels {
    two_bits,
    four_bits,
    e4m3,
    e5m2,
    rows: 4,
    extreme_codes,
};

/// A kernel for one width of codes: `$vectors` decoded vectors to 32 bytes, which have `$codes` scale codes.
macro_rules! few {
    ($name:ident, $tile:ident, vectors $vectors:literal, codes $codes:literal, |$table:ident, $bytes:ident, $j:ident| $decode:expr) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn $name(job: &mut FewJob<'_>) {
            // SAFETY: the contract of FewKernels.
            unsafe {
                let count = job.right.count;
                let mut c = 0;
                if job.rows <= 2 {
                    while count - c >= 2 {
                        match job.rows {
                            1 => $tile::<1, 2>(job, c),
                            _ => $tile::<2, 2>(job, c),
                        }
                        c += 2;
                    }
                }
                while c < count {
                    match job.rows {
                        1 => $tile::<1, 1>(job, c),
                        2 => $tile::<2, 1>(job, c),
                        3 => $tile::<3, 1>(job, c),
                        _ => $tile::<4, 1>(job, c),
                    }
                    c += 1;
                }
            }
        }

        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn $tile<const ROWS: usize, const COLUMNS: usize>(job: &mut FewJob<'_>, first: usize) {
            // SAFETY: columns `first` on of the job, the last bytes of which are copied out before they are read 32 at a time; the
            // left operand holds ROWS rows of every vector; the results are those of the job.
            unsafe {
                let right: &Columns = &job.right;
                let $table = [
                    _mm256_loadu_ps(job.table.floats.as_ptr()),
                    _mm256_loadu_ps(job.table.floats.as_ptr().add(8)),
                ];
                let mut totals = [[_mm256_setzero_ps(); COLUMNS]; ROWS];
                let mut left: *const f32 = job.left.cast();
                let mut last = [[0u8; 32]; COLUMNS];
                for q in 0..right.bytes.div_ceil(32) {
                    let rest = right.bytes - 32 * q;
                    let mut places = [std::ptr::null::<u8>(); COLUMNS];
                    for (i, place) in places.iter_mut().enumerate() {
                        *place = right.column(first + i).add(32 * q);
                        if rest < 32 {
                            std::ptr::copy_nonoverlapping(*place, last[i].as_mut_ptr(), rest);
                            *place = last[i].as_ptr();
                        } else {
                            let next = place.wrapping_offset(COLUMNS as isize * right.stride);
                            _mm_prefetch::<_MM_HINT_T1>(next.cast());
                        }
                    }
                    let mut block = [[_mm256_setzero_ps(); COLUMNS]; ROWS];
                    for $j in 0..$vectors {
                        let mut decoded = [_mm256_setzero_ps(); COLUMNS];
                        for (&$bytes, decoded) in places.iter().zip(&mut decoded) {
                            *decoded = $decode;
                        }
                        for r in 0..ROWS {
                            let x = _mm256_loadu_ps(left.add(8 * r));
                            for c in 0..COLUMNS {
                                block[r][c] = _mm256_fmadd_ps(x, decoded[c], block[r][c]);
                            }
                        }
                        left = left.add(8 * job.left_rows);
                    }
                    for c in 0..COLUMNS {
                        let scale = match right.scales.is_null() {
                            true => _mm256_set1_ps(1.0),
                            false => scales_of::<$codes>(right, first + c, q),
                        };
                        for r in 0..ROWS {
                            totals[r][c] = _mm256_fmadd_ps(block[r][c], scale, totals[r][c]);
                        }
                    }
                }
                for r in 0..ROWS {
                    for c in 0..COLUMNS {
                        job.put(r, first + c, super::avx2::add_across(totals[r][c]));
                    }
                }
            }
        }
    };
}

few!(two_bits, two_bits_tile, vectors 16, codes 4, |table, bytes, j| {
    let codes = _mm256_srl_epi32(_mm256_loadu_si256(bytes.cast()), _mm_cvtsi32_si128(2 * j));
    _mm256_permutevar8x32_ps(table[0], codes)
});
few!(four_bits, four_bits_tile, vectors 8, codes 2, |table, bytes, j| {
    let codes = _mm256_srl_epi32(_mm256_loadu_si256(bytes.cast()), _mm_cvtsi32_si128(4 * j));
    // The fourth bit chooses between the halves of the table.
    let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
    _mm256_blendv_ps(
        _mm256_permutevar8x32_ps(table[0], codes),
        _mm256_permutevar8x32_ps(table[1], codes),
        upper,
    )
});
few!(e4m3, e4m3_tile, vectors 4, codes 1, |_table, bytes, j| load::e4m3(bytes.add(8 * j)));
few!(e5m2, e5m2_tile, vectors 4, codes 1, |_table, bytes, j| load::e5m2(bytes.add(8 * j)));

/// The scales of a column's 32 bytes number `q`: each for as many of the 8 numbers as its elements end up in.
///
/// # Safety
/// The column must be one of these with scales, `q` within its bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scales_of<const CODES: usize>(right: &Columns, column: usize, q: usize) -> __m256 {
    let (codes, left) = right.codes(column, q * CODES);
    let scale = |i: usize| {
        // SAFETY: `left` codes are readable, and one at least.
        let code = unsafe { *codes.add(i.min(left - 1)) };
        f32::from_bits(u32::from(code) << 23)
    };
    match CODES {
        1 => _mm256_set1_ps(scale(0)),
        2 => _mm256_set_m128(_mm_set1_ps(scale(1)), _mm_set1_ps(scale(0))),
        _ => {
            let (a, b, c, d) = (scale(0), scale(1), scale(2), scale(3));
            _mm256_setr_ps(a, a, b, b, c, c, d, d)
        }
    }
}

/// True where one of the codes is 0 or more than 238.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn extreme_codes(codes: *const u8, count: usize) -> bool {
    // SAFETY: the caller vouches for `count` codes.
    let codes = unsafe { std::slice::from_raw_parts(codes, count) };
    let largest = codes.iter().fold(0, |most, &code| most.max(code.wrapping_sub(1)));
    largest > 237
}
