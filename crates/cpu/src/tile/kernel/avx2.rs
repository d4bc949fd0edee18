//! AVX2 with FMA and F16C: 8 floats a vector, a micro-kernel of 6 rows × 16 columns (12 of the 16 registers hold sums).

use std::arch::x86_64::*;

use super::avx2_steps as steps;
use super::{Ops, Panels, Terms, portable};

pub(super) static OPS: Ops = OPS_TABLE;

pub(super) const OPS_TABLE: Ops = Ops {
    widen_f16,
    widen_bf16,
    widen_i8,
    widen_u8,
    widen_e4m3,
    widen_e5m2,
    i8_to_i16,
    u8_to_i16,
    to_f16,
    to_bf16,
    terms,
    round_bf16: round_and_look,
    tiles: None,
    groups: None,
    order_terms: None,
    copy_bf16,
    transpose,
    i8_pairs,
    u8_pairs,
    interleave2,
    interleave4,
    scale,
    sum,
    max,
    min,
    dots,
    axpy,
    panels: Some(Panels {
        f32: panels_f32,
        f16: panels_f16,
        bf16: panels_bf16,
        i8: panels_i8,
        u8: panels_u8,
        e4m3: panels_e4m3,
        e5m2: panels_e5m2,
    }),
    strip_rows: 6,
    strip_f32,
    strip_i16,
    dots_of_groups: None,
    fp8_to_bf16: None,
    few_terms: None,
    few_raised: Some(super::avx2_few::RAISED_FEW),
    few_digits: Some((super::avx2_few_digits::FEW, super::avx2_few_digits::DIGIT_KERNELS)),
    few_wide: None,
    few_tiles: None,
    few_floats: Some(super::avx2_few::FEW),
};

/// Rows from the one that goes into panels to the one that is asked for.
const ROWS_AHEAD: isize = 8;

/// Columns of a right panel.
const COLUMNS: usize = 16;

/// Functions whose plain version compiles to good AVX2 code.
macro_rules! recompiled {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[target_feature(enable = "avx2,fma,f16c")]
        pub(super) unsafe fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's contract is that of the plain version.
            unsafe { portable::$name($($argument),*) }
        }
    )*};
}

recompiled! {
    i8_to_i16(src: *const u8, n: usize, dst: *mut u8);
    u8_to_i16(src: *const u8, n: usize, dst: *mut u8);
    terms(src: *const f32, n: usize, high: *mut u8, low: *mut u8) -> Terms;
    copy_bf16(src: *const u8, n: usize, dst: *mut u8) -> Terms;
    round_and_look(src: *const f32, n: usize, dst: *mut u8) -> Terms;
    i8_pairs(rows: [*const u8; 2], n: usize, dst: *mut u8);
    u8_pairs(rows: [*const u8; 2], n: usize, dst: *mut u8);
    interleave2(rows: [*const u8; 2], n: usize, dst: *mut u8);
    interleave4(rows: [*const u8; 4], n: usize, dst: *mut u8);
    scale(values: *mut f32, n: usize, factor: f32);
    sum(src: *const f32, n: usize) -> f32;
    max(src: *const f32, n: usize) -> f32;
    min(src: *const f32, n: usize) -> f32;
}

/// Whole vectors of 8 by `vector`, what remains by `rest`.
macro_rules! by_eights {
    ($n:expr, |$i:ident| $vector:expr, |$from:ident| $rest:expr) => {{
        let whole = $n / 8 * 8;
        let mut $i = 0;
        while $i < whole {
            $vector;
            $i += 8;
        }
        if whole < $n {
            let $from = whole;
            $rest;
        }
    }};
}

/// Eight elements of a format as `f32`. Each function reads exactly 8 elements.
pub(super) mod load {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn f32(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        unsafe { _mm256_loadu_ps(src.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn f16(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(src.cast())) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn bf16(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        let codes = unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(src.cast())) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(codes))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn i8(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(src.cast()))) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn u8(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(src.cast()))) }
    }

    /// The byte is the upper one of a binary16.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn e5m2(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        let codes = unsafe { _mm_loadl_epi64(src.cast()) };
        _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), codes))
    }

    /// The code as binary16 with its exponent field read as it stands is 2^8 too small.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn e4m3(src: *const u8) -> __m256 {
        // SAFETY: 8 elements are readable.
        let codes = unsafe { _mm_cvtepu8_epi16(_mm_loadl_epi64(src.cast())) };
        let magnitude = _mm_and_si128(codes, _mm_set1_epi16(0x7f));
        let sign = _mm_and_si128(codes, _mm_set1_epi16(0x80));
        let nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
        let halves = _mm_or_si128(
            _mm_or_si128(_mm_slli_epi16::<7>(magnitude), _mm_slli_epi16::<8>(sign)),
            _mm_and_si128(nan, _mm_set1_epi16(0x7e00)),
        );
        _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0))
    }
}

/// A run of elements, and rows spread over right panels, for each format of whole bytes: (format, bytes, run, panels).
macro_rules! formats {
    ($($format:ident $bytes:literal $run:ident $panels:ident;)*) => {$(
        // Runs of `float` are copied without it.
        #[allow(dead_code)]
        #[target_feature(enable = "avx2,fma,f16c")]
        pub(super) unsafe fn $run(src: *const u8, n: usize, dst: *mut f32) {
            // SAFETY: whole vectors end within n elements; the rest goes by the plain version.
            unsafe {
                by_eights!(
                    n,
                    |i| _mm256_storeu_ps(dst.add(i), load::$format(src.add($bytes * i))),
                    |i| portable::$run(src.add($bytes * i), n - i, dst.add(i))
                );
            }
        }

        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn $panels(
            src: *const u8,
            src_stride: isize,
            rows: usize,
            cols: usize,
            dst: *mut u8,
            width: usize,
            panel_bytes: usize,
        ) {
            let whole = cols / 8 * 8;
            // SAFETY: rows of `cols` elements are readable; panels of `width` columns (a multiple of 8), as many as hold `cols`,
            // are writable for each row.
            unsafe {
                for k in 0..rows {
                    let row = src.offset(k as isize * src_stride);
                    // Rows far apart are a new page each, which the processor does not see coming.
                    for at in (0..$bytes * cols).step_by(64) {
                        _mm_prefetch::<_MM_HINT_T0>(row.wrapping_offset(ROWS_AHEAD * src_stride).wrapping_add(at).cast());
                    }
                    let mut c = 0;
                    let mut panel = dst.add(k * width * 4);
                    while c < cols {
                        for at in (0..width).step_by(8) {
                            let values = if c < whole {
                                load::$format(row.add($bytes * c))
                            } else if c < cols {
                                let mut last = [0.0f32; 8];
                                portable::$run(row.add($bytes * c), cols - c, last.as_mut_ptr());
                                _mm256_loadu_ps(last.as_ptr())
                            } else {
                                _mm256_setzero_ps()
                            };
                            _mm256_storeu_ps(panel.add(4 * at).cast(), values);
                            c += 8;
                        }
                        panel = panel.add(panel_bytes);
                    }
                }
            }
        }
    )*};
}

formats! {
    f32 4 copy_f32 panels_f32;
    f16 2 widen_f16 panels_f16;
    bf16 2 widen_bf16 panels_bf16;
    i8 1 widen_i8 panels_i8;
    u8 1 widen_u8 panels_u8;
    e4m3 1 widen_e4m3 panels_e4m3;
    e5m2 1 widen_e5m2 panels_e5m2;
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn to_f16(src: *const f32, n: usize, dst: *mut u8) {
    // SAFETY: as in `widen_f16`.
    unsafe {
        by_eights!(
            n,
            |i| {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.add(i)));
                _mm_storeu_si128(dst.add(2 * i).cast(), halves);
            },
            |i| portable::to_f16(src.add(i), n - i, dst.add(2 * i))
        );
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn to_bf16(src: *const f32, n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { portable::each(src, n, dst.cast::<u16>(), portable::round_bf16) }
}

/// Transposes 8 × 8 elements of 32 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn transpose8(src: *const u8, src_stride: isize, dst: *mut u8, dst_stride: isize) {
    // SAFETY: the caller vouches for 8 rows of 8 elements on both sides.
    unsafe {
        let row = |i: isize| _mm256_loadu_ps(src.offset(i * src_stride).cast());
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (r4, r5, r6, r7) = (row(4), row(5), row(6), row(7));
        let (a0, a1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
        let (a4, a5) = (_mm256_unpacklo_ps(r4, r5), _mm256_unpackhi_ps(r4, r5));
        let (a6, a7) = (_mm256_unpacklo_ps(r6, r7), _mm256_unpackhi_ps(r6, r7));
        let b0 = _mm256_shuffle_ps::<0x44>(a0, a2);
        let b1 = _mm256_shuffle_ps::<0xee>(a0, a2);
        let b2 = _mm256_shuffle_ps::<0x44>(a1, a3);
        let b3 = _mm256_shuffle_ps::<0xee>(a1, a3);
        let b4 = _mm256_shuffle_ps::<0x44>(a4, a6);
        let b5 = _mm256_shuffle_ps::<0xee>(a4, a6);
        let b6 = _mm256_shuffle_ps::<0x44>(a5, a7);
        let b7 = _mm256_shuffle_ps::<0xee>(a5, a7);
        let put = |i: isize, v: __m256| _mm256_storeu_ps(dst.offset(i * dst_stride).cast(), v);
        put(0, _mm256_permute2f128_ps::<0x20>(b0, b4));
        put(1, _mm256_permute2f128_ps::<0x20>(b1, b5));
        put(2, _mm256_permute2f128_ps::<0x20>(b2, b6));
        put(3, _mm256_permute2f128_ps::<0x20>(b3, b7));
        put(4, _mm256_permute2f128_ps::<0x31>(b0, b4));
        put(5, _mm256_permute2f128_ps::<0x31>(b1, b5));
        put(6, _mm256_permute2f128_ps::<0x31>(b2, b6));
        put(7, _mm256_permute2f128_ps::<0x31>(b3, b7));
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn transpose(
    src: *const u8,
    src_stride: isize,
    rows: usize,
    cols: usize,
    dst: *mut u8,
    dst_stride: isize,
) {
    let (whole_rows, whole_cols) = (rows / 8 * 8, cols / 8 * 8);
    // SAFETY: whole blocks lie within rows × cols; the edges go by the plain version.
    unsafe {
        let from = |r: usize, c: usize| src.offset(r as isize * src_stride).add(4 * c);
        let to = |r: usize, c: usize| dst.offset(c as isize * dst_stride).add(4 * r);
        for c in (0..whole_cols).step_by(8) {
            for r in (0..whole_rows).step_by(8) {
                transpose8(from(r, c), src_stride, to(r, c), dst_stride);
            }
        }
        if whole_rows < rows {
            portable::transpose(
                from(whole_rows, 0),
                src_stride,
                rows - whole_rows,
                cols,
                to(whole_rows, 0),
                dst_stride,
            );
        }
        if whole_cols < cols {
            portable::transpose(
                from(0, whole_cols),
                src_stride,
                whole_rows,
                cols - whole_cols,
                to(0, whole_cols),
                dst_stride,
            );
        }
    }
}

/// The sum of a vector's elements.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn add_across(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Dot products of one row with four others.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dots_of<const COUNT: usize>(row: *const f32, n: usize, others: *const u8, stride: isize) -> [f32; COUNT] {
    let mut sums = [_mm256_setzero_ps(); COUNT];
    let mut results = [0.0f32; COUNT];
    let whole = n / 8 * 8;
    // SAFETY: the caller vouches for n elements in each row.
    unsafe {
        let other = |j: usize| others.offset(j as isize * stride).cast::<f32>();
        let mut i = 0;
        while i < whole {
            let x = _mm256_loadu_ps(row.add(i));
            for j in 0..COUNT {
                sums[j] = _mm256_fmadd_ps(x, _mm256_loadu_ps(other(j).add(i)), sums[j]);
            }
            i += 8;
        }
        for j in 0..COUNT {
            let mut total = add_across(sums[j]);
            for i in whole..n {
                total = (*row.add(i)).mul_add(other(j).add(i).read_unaligned(), total);
            }
            results[j] = total;
        }
    }
    results
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn dots(
    row: *const f32,
    n: usize,
    others: *const u8,
    stride: isize,
    count: usize,
    results: *mut f32,
    accumulate: bool,
) {
    let put = |j: usize, total: f32| {
        // SAFETY: j < count, and the caller vouches for as many results.
        unsafe {
            let result = results.add(j);
            *result = if accumulate { *result + total } else { total };
        }
    };
    let mut j = 0;
    // SAFETY: rows from j on, within count.
    unsafe {
        while j + 8 <= count {
            let totals = dots_of::<8>(row, n, others.offset(j as isize * stride), stride);
            for (i, total) in totals.into_iter().enumerate() {
                put(j + i, total);
            }
            j += 8;
        }
        while j < count {
            let [total] = dots_of::<1>(row, n, others.offset(j as isize * stride), stride);
            put(j, total);
            j += 1;
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn axpy(factors: *const f32, count: usize, rows: *const u8, stride: isize, n: usize, dst: *mut f32) {
    let mut k = 0;
    // SAFETY: rows k … k + 8 within count, n elements each; the caller vouches for them.
    unsafe {
        while k + 8 <= count {
            axpy_of::<8>(factors.add(k), rows.offset(k as isize * stride), stride, n, dst);
            k += 8;
        }
        while k < count {
            axpy_of::<1>(factors.add(k), rows.offset(k as isize * stride), stride, n, dst);
            k += 1;
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn axpy_of<const COUNT: usize>(factors: *const f32, rows: *const u8, stride: isize, n: usize, dst: *mut f32) {
    // SAFETY: the caller vouches for COUNT factors and rows of n elements, and n results.
    unsafe {
        let mut wide = [_mm256_setzero_ps(); COUNT];
        for (j, wide) in wide.iter_mut().enumerate() {
            *wide = _mm256_set1_ps(*factors.add(j));
        }
        let row = |j: usize| rows.offset(j as isize * stride).cast::<f32>();
        by_eights!(
            n,
            |i| {
                // Two chains, so that additions overlap.
                let mut even = _mm256_loadu_ps(dst.add(i));
                let mut odd = _mm256_setzero_ps();
                for j in 0..COUNT {
                    let x = _mm256_loadu_ps(row(j).add(i));
                    if j % 2 == 0 {
                        even = _mm256_fmadd_ps(wide[j], x, even);
                    } else {
                        odd = _mm256_fmadd_ps(wide[j], x, odd);
                    }
                }
                let total = if COUNT > 1 { _mm256_add_ps(even, odd) } else { even };
                _mm256_storeu_ps(dst.add(i), total);
            },
            |from| {
                for i in from..n {
                    for j in 0..COUNT {
                        let x = row(j).add(i).read_unaligned();
                        *dst.add(i) = (*factors.add(j)).mul_add(x, *dst.add(i));
                    }
                }
            }
        );
    }
}

/// Masks for the first 0 … 8 elements of a vector start at element 8 − count.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn mask(count: usize) -> __m256i {
    // SAFETY: count ≤ 8, so 8 elements from 8 − count on are in the table.
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - count.min(8)).cast()) }
}

/// Calls a kernel with the strip's rows and vectors as constants.
macro_rules! dispatch {
    ($kernel:ident, $rows:expr, $cols:expr, ($($argument:expr),*)) => {
        match ($rows, $cols > 8) {
            (1, false) => $kernel::<1, 1>($($argument),*),
            (2, false) => $kernel::<2, 1>($($argument),*),
            (3, false) => $kernel::<3, 1>($($argument),*),
            (4, false) => $kernel::<4, 1>($($argument),*),
            (5, false) => $kernel::<5, 1>($($argument),*),
            (_, false) => $kernel::<6, 1>($($argument),*),
            (1, true) => $kernel::<1, 2>($($argument),*),
            (2, true) => $kernel::<2, 2>($($argument),*),
            (3, true) => $kernel::<3, 2>($($argument),*),
            (4, true) => $kernel::<4, 2>($($argument),*),
            (5, true) => $kernel::<5, 2>($($argument),*),
            (_, true) => $kernel::<6, 2>($($argument),*),
        }
    };
}

#[target_feature(enable = "avx2,fma,f16c")]
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
    // SAFETY: the strip's contract (see Strip); rows is 1 … 6.
    unsafe { dispatch!(f32_tile, rows, cols, (cols, groups, a, a_stride, b, c, ldc, accumulate)) }
}

#[target_feature(enable = "avx2,fma,f16c")]
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
        let mut sums = [[_mm256_setzero_ps(); VECTORS]; ROWS];
        let mut left = [a.cast::<f32>(); ROWS];
        for (i, left) in left.iter_mut().enumerate() {
            *left = a.offset(i as isize * a_stride).cast();
        }
        for i in 0..ROWS {
            _mm_prefetch::<_MM_HINT_T0>(c.add(i * ldc).cast());
        }
        let mut right: *const f32 = b.cast();
        // The usual heights go by fours first.
        let done = match (ROWS, VECTORS) {
            (5, 2) => steps::f32_5(groups, a, a_stride, b, &mut *(&raw mut sums).cast()),
            (6, 2) => steps::f32_6(groups, a, a_stride, b, &mut *(&raw mut sums).cast()),
            _ => 0,
        };
        right = right.add(done * COLUMNS);
        for k in done..groups {
            let mut x = [_mm256_setzero_ps(); VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                *x = _mm256_loadu_ps(right.add(8 * v));
            }
            for i in 0..ROWS {
                let y = _mm256_broadcast_ss(&*left[i].add(k));
                for v in 0..VECTORS {
                    sums[i][v] = _mm256_fmadd_ps(y, x[v], sums[i][v]);
                }
            }
            right = right.add(COLUMNS);
        }
        let last = cols - 8 * (VECTORS - 1);
        for i in 0..ROWS {
            for v in 0..VECTORS {
                let at = c.add(i * ldc + 8 * v);
                if v + 1 < VECTORS || last >= 8 {
                    let old = if accumulate {
                        _mm256_loadu_ps(at)
                    } else {
                        _mm256_setzero_ps()
                    };
                    _mm256_storeu_ps(at, _mm256_add_ps(old, sums[i][v]));
                } else {
                    let mask = mask(last);
                    let old = if accumulate {
                        _mm256_maskload_ps(at, mask)
                    } else {
                        _mm256_setzero_ps()
                    };
                    _mm256_maskstore_ps(at, mask, _mm256_add_ps(old, sums[i][v]));
                }
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
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
    // SAFETY: the strip's contract (see Strip); rows is 1 … 6.
    unsafe { dispatch!(i16_tile, rows, cols, (cols, groups, a, a_stride, b, c, ldc, accumulate)) }
}

#[target_feature(enable = "avx2,fma,f16c")]
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
        let mut sums = [[_mm256_setzero_si256(); VECTORS]; ROWS];
        let mut left = [a.cast::<i32>(); ROWS];
        for (i, left) in left.iter_mut().enumerate() {
            *left = a.offset(i as isize * a_stride).cast();
        }
        let mut right: *const i32 = b.cast();
        let done = match (ROWS, VECTORS) {
            (5, 2) => steps::i16_5(groups, a, a_stride, b, &mut *(&raw mut sums).cast()),
            (6, 2) => steps::i16_6(groups, a, a_stride, b, &mut *(&raw mut sums).cast()),
            _ => 0,
        };
        right = right.add(done * COLUMNS);
        for k in done..groups {
            let mut x = [_mm256_setzero_si256(); VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                *x = _mm256_loadu_si256(right.add(8 * v).cast());
            }
            for i in 0..ROWS {
                let y = _mm256_set1_epi32(*left[i].add(k));
                for v in 0..VECTORS {
                    sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(y, x[v]));
                }
            }
            right = right.add(COLUMNS);
        }
        let last = cols - 8 * (VECTORS - 1);
        for i in 0..ROWS {
            for v in 0..VECTORS {
                let at = c.add(i * ldc + 8 * v);
                if v + 1 < VECTORS || last >= 8 {
                    let old = if accumulate {
                        _mm256_loadu_si256(at.cast())
                    } else {
                        _mm256_setzero_si256()
                    };
                    _mm256_storeu_si256(at.cast(), _mm256_add_epi32(old, sums[i][v]));
                } else {
                    let mask = mask(last);
                    let old = if accumulate {
                        _mm256_maskload_epi32(at, mask)
                    } else {
                        _mm256_setzero_si256()
                    };
                    _mm256_maskstore_epi32(at, mask, _mm256_add_epi32(old, sums[i][v]));
                }
            }
        }
    }
}
