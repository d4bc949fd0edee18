//! AVX-512: 16 numbers a vector, a micro-kernel of 6 rows × 64 columns (24 of the 32 registers hold sums). Most of what
//! only moves or converts data stays with AVX2: it waits for memory anyway.

use std::arch::x86_64::*;

use super::{Ops, Terms, amx_few, avx2, avx512_dot, avx512_few, avx512_few_wide, avx512_pack, avx512_tiles, portable};

pub(super) static OPS: Ops = Ops {
    copy_bf16: avx512_pack::copy_bf16,
    fp8_to_bf16: Some(avx512_pack::fp8_to_bf16),
    interleave2: avx512_pack::interleave2,
    interleave4: avx512_pack::interleave4,
    strip_rows: 6,
    strip_f32,
    strip_i16,
    to_bf16: avx512_pack::to_bf16,
    round_bf16,
    terms,
    tiles: Some(avx512_tiles::ROWS),
    groups: Some(avx512_tiles::GROUPS),
    order_terms: Some(avx512_tiles::order_terms),
    dots_of_groups: Some(avx512_dot::DOTS),
    few_terms: Some(avx512_few::FEW),
    few_wide: Some(avx512_few_wide::FEW),
    few_tiles: Some(amx_few::FEW),
    ..avx2::OPS_TABLE
};

/// Rounds the left operand of a relaxed product, for each block of keys of an attention: worth wide vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn round_bf16(src: *const f32, n: usize, dst: *mut u8) -> Terms {
    // SAFETY: the caller's contract (see Ops).
    unsafe { portable::round_and_look(src, n, dst) }
}

/// Splits `half` into terms for AMX.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn terms(src: *const f32, n: usize, high: *mut u8, low: *mut u8) -> Terms {
    // SAFETY: the caller's contract (see Ops).
    unsafe { portable::terms(src, n, high, low) }
}

/// Columns of a right panel.
pub(super) const COLUMNS: usize = 64;

/// Calls a kernel with the strip's rows and vectors as constants.
macro_rules! dispatch {
    ($kernel:ident, $rows:expr, $cols:expr, $arguments:tt) => {
        match $cols.div_ceil(16) {
            1 => dispatch!(@ $kernel, $rows, 1, $arguments),
            2 => dispatch!(@ $kernel, $rows, 2, $arguments),
            3 => dispatch!(@ $kernel, $rows, 3, $arguments),
            _ => dispatch!(@ $kernel, $rows, 4, $arguments),
        }
    };
    (@ $kernel:ident, $rows:expr, $vectors:literal, ($($argument:expr),*)) => {
        match $rows {
            1 => $kernel::<1, $vectors>($($argument),*),
            2 => $kernel::<2, $vectors>($($argument),*),
            3 => $kernel::<3, $vectors>($($argument),*),
            4 => $kernel::<4, $vectors>($($argument),*),
            5 => $kernel::<5, $vectors>($($argument),*),
            _ => $kernel::<6, $vectors>($($argument),*),
        }
    };
}
pub(super) use dispatch;

/// The first `count` of 16 elements.
pub(super) fn mask(count: usize) -> __mmask16 {
    (0xffffu32 >> (16 - count.min(16))) as __mmask16
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn strip_f32(
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
    unsafe { dispatch!(f32_tile, rows, cols, (cols, groups, a, a_stride, b, c, ldc, accumulate)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn f32_tile<const ROWS: usize, const VECTORS: usize>(
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: the strip's contract (see Strip): ROWS rows of `groups` elements, a panel of as many groups of COLUMNS, and
    // `cols` accumulators a row, the last vector of which is masked.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
        let mut left = [a.cast::<f32>(); ROWS];
        for (i, left) in left.iter_mut().enumerate() {
            *left = a.offset(i as isize * a_stride).cast();
        }
        let mut right: *const f32 = b.cast();
        for k in 0..groups {
            let mut x = [_mm512_setzero_ps(); VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                *x = _mm512_loadu_ps(right.add(16 * v));
            }
            for i in 0..ROWS {
                let y = _mm512_set1_ps(*left[i].add(k));
                for v in 0..VECTORS {
                    sums[i][v] = _mm512_fmadd_ps(y, x[v], sums[i][v]);
                }
            }
            right = right.add(COLUMNS);
        }
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
unsafe fn strip_i16(
    rows: usize,
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut i32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: the strip's contract (see Strip); rows is 1 … 6 and cols 1 … 64.
    unsafe { dispatch!(i16_tile, rows, cols, (cols, groups, a, a_stride, b, c, ldc, accumulate)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn i16_tile<const ROWS: usize, const VECTORS: usize>(
    cols: usize,
    groups: usize,
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    c: *mut i32,
    ldc: usize,
    accumulate: bool,
) {
    // SAFETY: as in `f32_tile`. Two products of 8-bit values do not overflow the instruction's sum.
    unsafe {
        let mut sums = [[_mm512_setzero_si512(); VECTORS]; ROWS];
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
                    sums[i][v] = _mm512_add_epi32(sums[i][v], _mm512_madd_epi16(y, x[v]));
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
