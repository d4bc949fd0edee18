//! AVX-512 with dot-product instructions: pairs of bf16 (VDPBF16PS) and quadruples of 8-bit integers (VPDPBUSD), in micro-kernels
//! of the same shape as those of plain AVX-512, 6 rows × 64 columns.
//!
//! VDPBF16PS treats subnormal inputs as zero and flushes subnormal results: the caller sends operands that come near that
//! range to [`bf16_exact`], which multiplies the same packed memory in `f32`. VPDPBUSD takes unsigned bytes on one side
//! and signed ones on the other: a left operand of the wrong kind is packed 128 higher or lower, and every sum starts from
//! what that adds to it (see [`column_sums`]).

use std::arch::x86_64::*;

use super::Dots;
use super::avx512::{COLUMNS, dispatch, mask};

pub(super) const DOTS: Dots = Dots {
    bf16,
    bf16_exact,
    unsigned_by_signed,
    signed_by_unsigned,
    column_sums,
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn bf16(
    rows: usize,
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: the strip's contract (see Strip); rows is 1 … 6 and cols 1 … 64.
    unsafe {
        dispatch!(
            bf16_tile,
            rows,
            cols,
            (cols, groups, a, a_stride, b, c, ldc, accumulate)
        )
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn bf16_tile<const ROWS: usize, const VECTORS: usize>(
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: the strip's contract (see Strip): ROWS rows of `groups` pairs, a panel of as many groups of COLUMNS, and `cols`
    // accumulators a row, the last vector of which is masked. A vector of pairs is 512 bits without a meaning of its own.
    unsafe {
        let pairs = |x: __m512i| std::mem::transmute::<__m512i, __m512bh>(x);
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
        let mut left = [a.cast::<i32>(); ROWS];
        for (i, left) in left.iter_mut().enumerate() {
            *left = a.offset(i as isize * a_stride).cast();
        }
        let mut right: *const i32 = b.cast();
        for k in 0..groups {
            let mut x = [_mm512_setzero_si512(); VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                *x = _mm512_loadu_si512(right.add(16 * v).cast());
            }
            for i in 0..ROWS {
                let y = pairs(_mm512_set1_epi32(*left[i].add(k)));
                for v in 0..VECTORS {
                    sums[i][v] = _mm512_dpbf16_ps(sums[i][v], y, pairs(x[v]));
                }
            }
            right = right.add(COLUMNS);
        }
        put_f32(&sums, cols, c, ldc, accumulate);
    }
}

/// Writes or adds the sums of a strip.
///
/// # Safety
/// As for the strip.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn put_f32<const ROWS: usize, const VECTORS: usize>(
    sums: &[[__m512; VECTORS]; ROWS],
    cols: usize,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: `cols` accumulators in each of ROWS rows, the last vector masked.
    unsafe {
        for i in 0..ROWS {
            for v in 0..VECTORS {
                let at = c.add(i * ldc + 16 * v);
                let mask = mask(cols - 16 * v);
                let old = if accumulate {
                    _mm512_maskz_loadu_ps(mask, at)
                } else {
                    _mm512_setzero_ps()
                };
                _mm512_mask_storeu_ps(at, mask, _mm512_add_ps(old, sums[i][v]));
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn bf16_exact(
    rows: usize,
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: the strip's contract (see Strip); rows is 1 … 6 and cols 1 … 64.
    unsafe {
        dispatch!(
            bf16_exact_tile,
            rows,
            cols,
            (cols, groups, a, a_stride, b, c, ldc, accumulate)
        )
    }
}

/// As [`bf16_tile`], each pair as two `f32` products, which keep subnormal numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn bf16_exact_tile<const ROWS: usize, const VECTORS: usize>(
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: as in `bf16_tile`.
    unsafe {
        let high = _mm512_set1_epi32(0xffff_0000u32 as i32);
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
        let mut right: *const i32 = b.cast();
        for k in 0..groups {
            for v in 0..VECTORS {
                let x = _mm512_loadu_si512(right.add(16 * v).cast());
                let even = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(x));
                let odd = _mm512_castsi512_ps(_mm512_and_si512(x, high));
                for i in 0..ROWS {
                    let pair = *a.offset(i as isize * a_stride).cast::<u32>().add(k);
                    let y = _mm512_set1_ps(f32::from_bits(pair << 16));
                    sums[i][v] = _mm512_fmadd_ps(y, even, sums[i][v]);
                    let y = _mm512_set1_ps(f32::from_bits(pair & 0xffff_0000));
                    sums[i][v] = _mm512_fmadd_ps(y, odd, sums[i][v]);
                }
            }
            right = right.add(COLUMNS);
        }
        put_f32(&sums, cols, c, ldc, accumulate);
    }
}

/// A strip of 8-bit integers, and its tile. `$dot` takes a sum, the left quadruples and the right ones.
macro_rules! integers {
    ($strip:ident, $tile:ident, $dot:expr) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        unsafe fn $strip(
            rows: usize,
            cols: usize,
            groups: usize,
            a: *const u8,
            a_stride: isize,
            b: *const u8,
            c: *mut i32,
            ldc: usize,
            accumulate: bool,
            start: &[i32; COLUMNS],
        ) {
            // SAFETY: the strip's contract (see Strip); rows is 1 … 6 and cols 1 … 64.
            unsafe {
                dispatch!(
                    $tile,
                    rows,
                    cols,
                    (cols, groups, a, a_stride, b, c, ldc, accumulate, start)
                )
            }
        }

        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        unsafe fn $tile<const ROWS: usize, const VECTORS: usize>(
            cols: usize,
            groups: usize,
            a: *const u8,
            a_stride: isize,
            b: *const u8,
            c: *mut i32,
            ldc: usize,
            accumulate: bool,
            start: &[i32; COLUMNS],
        ) {
            // SAFETY: as in `bf16_tile`, with quadruples for pairs. The instruction's sums wrap.
            unsafe {
                let mut sums = [[_mm512_setzero_si512(); VECTORS]; ROWS];
                for v in 0..VECTORS {
                    let first = _mm512_loadu_si512(start.as_ptr().add(16 * v).cast());
                    for sums in &mut sums {
                        sums[v] = first;
                    }
                }
                let mut left = [a.cast::<i32>(); ROWS];
                for (i, left) in left.iter_mut().enumerate() {
                    *left = a.offset(i as isize * a_stride).cast();
                }
                let mut right: *const i32 = b.cast();
                for k in 0..groups {
                    let mut x = [_mm512_setzero_si512(); VECTORS];
                    for (v, x) in x.iter_mut().enumerate() {
                        *x = _mm512_loadu_si512(right.add(16 * v).cast());
                    }
                    for i in 0..ROWS {
                        let y = _mm512_set1_epi32(*left[i].add(k));
                        for v in 0..VECTORS {
                            sums[i][v] = $dot(sums[i][v], y, x[v]);
                        }
                    }
                    right = right.add(COLUMNS);
                }
                for i in 0..ROWS {
                    for v in 0..VECTORS {
                        let at = c.add(i * ldc + 16 * v);
                        let mask = mask(cols - 16 * v);
                        let old = if accumulate {
                            _mm512_maskz_loadu_epi32(mask, at)
                        } else {
                            _mm512_setzero_si512()
                        };
                        _mm512_mask_storeu_epi32(at, mask, _mm512_add_epi32(old, sums[i][v]));
                    }
                }
            }
        }
    };
}

integers!(unsigned_by_signed, unsigned_by_signed_tile, |sum, left, right| {
    _mm512_dpbusd_epi32(sum, left, right)
});
integers!(signed_by_unsigned, signed_by_unsigned_tile, |sum, left, right| {
    _mm512_dpbusd_epi32(sum, right, left)
});

/// The sums of a panel's columns over some groups, times a factor (modulo 2^32): what a left operand packed `−factor` too
/// high has to be corrected by.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn column_sums(panel: *const u8, groups: usize, signed: bool, factor: i32, sums: &mut [i32; COLUMNS]) {
    // SAFETY: the panel has `groups` groups of COLUMNS quadruples.
    unsafe {
        let ones = _mm512_set1_epi8(1);
        let factor = _mm512_set1_epi32(factor);
        for v in 0..COLUMNS / 16 {
            let mut sum = _mm512_setzero_si512();
            for k in 0..groups {
                let x = _mm512_loadu_si512(panel.cast::<i32>().add(k * COLUMNS + 16 * v).cast());
                sum = if signed {
                    _mm512_dpbusd_epi32(sum, ones, x)
                } else {
                    _mm512_dpbusd_epi32(sum, x, ones)
                };
            }
            _mm512_storeu_si512(sums.as_mut_ptr().add(16 * v).cast(), _mm512_mullo_epi32(sum, factor));
        }
    }
}
