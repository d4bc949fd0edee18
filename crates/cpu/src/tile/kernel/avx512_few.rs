//! Few rows by quantised columns, on AVX-512 with bf16 dot products and byte permutations.
//!
//! A column's packed elements are read 64 bytes at a time where they lie. Codes become bf16 by table: codes of 2 and 4 bits by
//! VPERMW, which looks at the low 5 bits of each word (the table repeats, so what stands above a code does not matter); FP8
//! codes by VPERMI2B, which looks at the low 7 bits of each byte, with the sign moved over. Each decoded vector meets the
//! pairs of the left rows that were laid out for it; the sums of 64 bytes are then multiplied by their block scales and
//! added up in `f32`.

use std::arch::x86_64::*;
use std::ops::RangeInclusive;

use super::{FewJob, FewKernels};
use crate::tile::few::Columns;

pub(super) const FEW: FewKernels = FewKernels {
    two_bits,
    four_bits,
    e4m3: fp8,
    e5m2: fp8,
    rows: 4,
    extreme_codes,
};

/// The vector of a word's `j`-th code in each of 32 words.
macro_rules! nth_code {
    ($table:ident, $chunk:ident, $j:ident, $bits:literal) => {
        _mm512_permutexvar_epi16(_mm512_srl_epi16($chunk, _mm_cvtsi32_si128($bits * $j as i32)), $table.0)
    };
}

/// A kernel for one width of codes: `$vectors` decoded vectors to 64 bytes, blocks of 32 elements in `$lanes` sums each.
macro_rules! few {
    ($name:ident, $tile:ident, vectors $vectors:literal, lanes $lanes:literal, |$table:ident, $chunk:ident, $j:ident| $decode:expr) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi")]
        unsafe fn $name(job: &mut FewJob<'_>) {
            // SAFETY: the contract of FewKernels.
            unsafe {
                let mut c = 0;
                let count = job.right.count;
                macro_rules! run {
                    ($rows:literal, $columns:literal) => {{
                        while count - c >= $columns {
                            match job.planes {
                                1 => $tile::<$rows, 1, $columns>(job, c),
                                _ => $tile::<$rows, 2, $columns>(job, c),
                            }
                            c += $columns;
                        }
                    }};
                }
                match job.rows {
                    1 => run!(1, 4),
                    2 => run!(2, 4),
                    3 => run!(3, 2),
                    _ => run!(4, 2),
                }
                match job.rows {
                    1 => run!(1, 1),
                    2 => run!(2, 1),
                    3 => run!(3, 1),
                    _ => run!(4, 1),
                }
            }
        }

        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi")]
        unsafe fn $tile<const ROWS: usize, const PLANES: usize, const COLUMNS: usize>(
            job: &mut FewJob<'_>,
            first: usize,
        ) {
            // SAFETY: columns `first` on of the job, whose bytes are loaded under a mask where fewer than 64 are left; the
            // left operand holds ROWS rows of every vector in each plane; the results are those of the job.
            unsafe {
                let pairs = |x: __m512i| std::mem::transmute::<__m512i, __m512bh>(x);
                let right: &Columns = &job.right;
                let $table = (
                    _mm512_loadu_si512(job.table.words.as_ptr().cast()),
                    _mm512_loadu_si512(job.table.low.as_ptr().cast()),
                    _mm512_loadu_si512(job.table.low.as_ptr().add(64).cast()),
                    _mm512_loadu_si512(job.table.high.as_ptr().cast()),
                    _mm512_loadu_si512(job.table.high.as_ptr().add(64).cast()),
                );
                let spread = scale_places($lanes);
                let mut totals = [[_mm512_setzero_ps(); COLUMNS]; ROWS];
                let mut left: *const __m512i = job.left.cast();
                let step = PLANES * job.left_rows;
                for q in 0..right.bytes.div_ceil(64) {
                    let mask = u64::MAX >> (64 - (right.bytes - 64 * q).min(64));
                    let mut chunks = [_mm512_setzero_si512(); COLUMNS];
                    for (i, chunk) in chunks.iter_mut().enumerate() {
                        let at = right.column(first + i).add(64 * q);
                        *chunk = _mm512_maskz_loadu_epi8(mask, at.cast());
                        // The same place of the columns that come next, into the second-level cache: it has more misses under
                        // way at once than the first (measured: 26 GB/s on two cores against 19).
                        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_offset(COLUMNS as isize * right.stride).cast());
                    }
                    let mut block = [[_mm512_setzero_ps(); COLUMNS]; ROWS];
                    for $j in 0..$vectors {
                        let mut decoded = [_mm512_setzero_si512(); COLUMNS];
                        for (&$chunk, decoded) in chunks.iter().zip(&mut decoded) {
                            *decoded = $decode;
                        }
                        for p in 0..PLANES {
                            for r in 0..ROWS {
                                let x = pairs(_mm512_load_si512(left.add(p * job.left_rows + r)));
                                for c in 0..COLUMNS {
                                    block[r][c] = _mm512_dpbf16_ps(block[r][c], x, pairs(decoded[c]));
                                }
                            }
                        }
                        left = left.add(step);
                    }
                    if right.scales.is_null() {
                        for r in 0..ROWS {
                            for c in 0..COLUMNS {
                                totals[r][c] = _mm512_add_ps(totals[r][c], block[r][c]);
                            }
                        }
                    } else {
                        for c in 0..COLUMNS {
                            let codes = _mm512_shuffle_epi8(codes_of(right, first + c, q, 16 / $lanes), spread);
                            let scale = _mm512_castsi512_ps(_mm512_srli_epi32::<1>(codes));
                            for r in 0..ROWS {
                                totals[r][c] = _mm512_fmadd_ps(block[r][c], scale, totals[r][c]);
                            }
                        }
                    }
                }
                for r in 0..ROWS {
                    for c in 0..COLUMNS {
                        job.put(r, first + c, _mm512_reduce_add_ps(totals[r][c]));
                    }
                }
            }
        }
    };
}

few!(two_bits, two_bits_tile, vectors 8, lanes 2, |table, chunk, j| nth_code!(table, chunk, j, 2));
few!(four_bits, four_bits_tile, vectors 4, lanes 4, |table, chunk, j| nth_code!(table, chunk, j, 4));
few!(fp8, fp8_tile, vectors 2, lanes 8, |table, chunk, j| {
    let low = _mm512_permutex2var_epi8(table.1, chunk, table.2);
    let high = _mm512_permutex2var_epi8(table.3, chunk, table.4);
    // high | (chunk & 0x80)
    let high = _mm512_ternarylogic_epi32::<0xf8>(high, chunk, _mm512_set1_epi8(-128));
    if j == 0 {
        _mm512_unpacklo_epi8(low, high)
    } else {
        _mm512_unpackhi_epi8(low, high)
    }
});

/// Where the scale codes of 64 bytes go: code i to the highest byte of `lanes` numbers, zeros elsewhere. A number shifted
/// right by one then is the power of two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn scale_places(lanes: usize) -> __m512i {
    let mut places = [0x80u8; 64];
    for lane in 0..16 {
        places[4 * lane + 3] = (lane / lanes) as u8;
    }
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(places.as_ptr().cast()) }
}

/// The scale codes of a column's 64 bytes number `q`, `per_chunk` of them (2, 4 or 8), over and over.
///
/// # Safety
/// The column must be one of these with scales, `q` within its bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn codes_of(right: &Columns, column: usize, q: usize, per_chunk: usize) -> __m512i {
    let (codes, left) = right.codes(column, q * per_chunk);
    // SAFETY: `left` codes are readable.
    unsafe {
        match per_chunk {
            _ if left < per_chunk => {
                let all = (0..left).fold(0u64, |all, i| all | u64::from(*codes.add(i)) << (8 * i));
                _mm512_set1_epi64(all as i64)
            }
            2 => _mm512_set1_epi16(codes.cast::<i16>().read_unaligned()),
            4 => _mm512_set1_epi32(codes.cast::<i32>().read_unaligned()),
            _ => _mm512_set1_epi64(codes.cast::<i64>().read_unaligned()),
        }
    }
}

/// True where one of the codes is not in a range.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn extreme_codes(codes: *const u8, count: usize, range: RangeInclusive<u8>) -> bool {
    let (lowest, highest) = range.into_inner();
    let mut extreme = 0;
    let most = _mm512_set1_epi8(highest.saturating_sub(lowest) as i8);
    for i in (0..count).step_by(64) {
        let mask = u64::MAX >> (64 - (count - i).min(64));
        // SAFETY: the caller vouches for `count` codes.
        let codes = unsafe { _mm512_maskz_loadu_epi8(mask, codes.add(i).cast()) };
        let codes = _mm512_sub_epi8(codes, _mm512_set1_epi8(lowest as i8));
        extreme |= _mm512_mask_cmpgt_epu8_mask(mask, codes, most);
    }
    lowest > highest || extreme != 0
}
