//! The plain versions. Their bodies are inlined into the other paths' functions where a compiler vectorises them as well
//! as a person would.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use half::{bf16, f16};

use super::{Ops, Terms};

pub(super) static OPS: Ops = Ops {
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
    panels: None,
    strip_rows: ROWS,
    strip_f32,
    strip_i16,
    dots_of_groups: None,
    fp8_to_bf16: None,
    few_terms: None,
    few_raised: None,
    few_digits: None,
    few_wide: None,
    few_tiles: None,
    few_floats: None,
};

/// Rows and columns of the portable micro-kernel.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// A vector of the portable path.
const WIDE: usize = 8;

/// Writes `f(element)` for each of `n` elements.
///
/// # Safety
/// As for [`Ops`]: `n` elements readable at `src` and writable at `dst`.
#[inline(always)]
pub(super) unsafe fn each<S: Copy, D>(src: *const S, n: usize, dst: *mut D, f: impl Fn(S) -> D) {
    for i in 0..n {
        // SAFETY: i < n, and the caller vouches for n elements on both sides.
        unsafe { dst.add(i).write_unaligned(f(src.add(i).read_unaligned())) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy_f32(src: *const u8, n: usize, dst: *mut f32) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src.cast(), n, dst, |x: f32| x) }
}

pub(super) unsafe fn widen_f16(src: *const u8, n: usize, dst: *mut f32) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src.cast(), n, dst, |x: u16| f16::from_bits(x).to_f32()) }
}

#[inline(always)]
pub(super) unsafe fn widen_bf16(src: *const u8, n: usize, dst: *mut f32) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src.cast(), n, dst, |x: u16| f32::from_bits(u32::from(x) << 16)) }
}

#[inline(always)]
pub(super) unsafe fn widen_i8(src: *const u8, n: usize, dst: *mut f32) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src.cast(), n, dst, |x: i8| f32::from(x)) }
}

#[inline(always)]
pub(super) unsafe fn widen_u8(src: *const u8, n: usize, dst: *mut f32) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src, n, dst, |x: u8| f32::from(x)) }
}

/// One E4M3 code. As binary16 with the exponent field read as it stands, a value is 2^8 too small.
pub(super) fn e4m3(code: u8) -> f32 {
    if code & 0x7f == 0x7f {
        return f32::from_bits(0x7fc0_0000 | u32::from(code & 0x80) << 24);
    }
    let bits = u16::from(code & 0x80) << 8 | u16::from(code & 0x7f) << 7;
    f16::from_bits(bits).to_f32() * 256.0
}

pub(super) unsafe fn widen_e4m3(src: *const u8, n: usize, dst: *mut f32) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src, n, dst, e4m3) }
}

pub(super) unsafe fn widen_e5m2(src: *const u8, n: usize, dst: *mut f32) {
    // E5M2 is the upper byte of binary16.
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src, n, dst, |x: u8| f16::from_bits(u16::from(x) << 8).to_f32()) }
}

#[inline(always)]
pub(super) unsafe fn i8_to_i16(src: *const u8, n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src.cast(), n, dst.cast(), |x: i8| i16::from(x)) }
}

#[inline(always)]
pub(super) unsafe fn u8_to_i16(src: *const u8, n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src, n, dst.cast(), |x: u8| i16::from(x)) }
}

pub(super) unsafe fn to_f16(src: *const f32, n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src, n, dst.cast(), |x: f32| f16::from_f32(x).to_bits()) }
}

pub(super) unsafe fn to_bf16(src: *const f32, n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { each(src, n, dst.cast(), |x: f32| bf16::from_f32(x).to_bits()) }
}

/// Rounds to bf16 bits without a branch, NaN kept and made quiet.
#[inline(always)]
pub(super) fn round_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x40;
    if x.is_nan() { quiet } else { rounded }
}

#[inline(always)]
pub(super) unsafe fn terms(src: *const f32, n: usize, high: *mut u8, low: *mut u8) -> Terms {
    let (high, low): (*mut u16, *mut u16) = (high.cast(), low.cast());
    let mut found = Terms::NONE;
    for i in 0..n {
        // SAFETY: i < n; the caller vouches for n elements at each pointer that is not null.
        unsafe {
            let x = src.add(i).read_unaligned();
            let bits = x.to_bits();
            let magnitude = bits & 0x7fff_ffff;
            found.least = found.least.min(magnitude.wrapping_sub(1));
            found.most = found.most.max(magnitude);
            // A NaN whose payload lies in the low bits must not become an infinity.
            let head = if magnitude > 0x7f80_0000 {
                bits | 0x0040_0000
            } else {
                bits
            } & 0xffff_0000;
            found.rest |= if magnitude >= 0x7f80_0000 { 0 } else { bits & 0xffff };
            high.add(i).write_unaligned((head >> 16) as u16);
            if !low.is_null() {
                let rest = if magnitude >= 0x7f80_0000 {
                    0.0
                } else {
                    x - f32::from_bits(head)
                };
                low.add(i).write_unaligned((rest.to_bits() >> 16) as u16);
            }
        }
    }
    found
}

#[inline(always)]
pub(super) unsafe fn round_and_look(src: *const f32, n: usize, dst: *mut u8) -> Terms {
    let dst: *mut u16 = dst.cast();
    let mut found = Terms::NONE;
    for i in 0..n {
        // SAFETY: i < n; the caller vouches for n elements on both sides.
        unsafe {
            let x = src.add(i).read_unaligned();
            let magnitude = x.to_bits() & 0x7fff_ffff;
            found.least = found.least.min(magnitude.wrapping_sub(1));
            found.most = found.most.max(magnitude);
            found.rest |= if magnitude >= 0x7f80_0000 {
                0
            } else {
                magnitude & 0xffff
            };
            dst.add(i).write_unaligned(round_bf16(x));
        }
    }
    found
}

#[inline(always)]
pub(super) unsafe fn copy_bf16(src: *const u8, n: usize, dst: *mut u8) -> Terms {
    let (src, dst): (*const u16, *mut u16) = (src.cast(), dst.cast());
    let (mut least, mut most) = (u16::MAX, 0u16);
    for i in 0..n {
        // SAFETY: i < n; the caller vouches for n elements on both sides.
        unsafe {
            let x = src.add(i).read_unaligned();
            let magnitude = x & 0x7fff;
            least = least.min(magnitude.wrapping_sub(1));
            most = most.max(magnitude);
            dst.add(i).write_unaligned(x);
        }
    }
    Terms::of_bf16(least, most)
}

pub(super) unsafe fn transpose(
    src: *const u8,
    src_stride: isize,
    rows: usize,
    cols: usize,
    dst: *mut u8,
    dst_stride: isize,
) {
    for r in 0..rows {
        // SAFETY: row r of the source and column r of the destination lie within what the caller vouches for.
        unsafe {
            let from: *const u32 = src.offset(r as isize * src_stride).cast();
            for c in 0..cols {
                dst.offset(c as isize * dst_stride)
                    .cast::<u32>()
                    .add(r)
                    .write_unaligned(from.add(c).read_unaligned());
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn i8_pairs(rows: [*const u8; 2], n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { pairs(rows, n, dst, |x| i16::from(x as i8) as u16) }
}

#[inline(always)]
pub(super) unsafe fn u8_pairs(rows: [*const u8; 2], n: usize, dst: *mut u8) {
    // SAFETY: the caller's contract (see Ops).
    unsafe { pairs(rows, n, dst, u16::from) }
}

#[inline(always)]
unsafe fn pairs(rows: [*const u8; 2], n: usize, dst: *mut u8, widen: impl Fn(u8) -> u16) {
    let dst: *mut u32 = dst.cast();
    for i in 0..n {
        // SAFETY: i < n; the caller vouches for n elements in each row and n groups at dst.
        unsafe {
            let [low, high] = rows.map(|row| u32::from(widen(*row.add(i))));
            dst.add(i).write_unaligned(low | high << 16);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn interleave2(rows: [*const u8; 2], n: usize, dst: *mut u8) {
    let dst: *mut u32 = dst.cast();
    for i in 0..n {
        // SAFETY: i < n; the caller vouches for n elements in each row and n groups at dst.
        unsafe {
            let element = |row: *const u8| u32::from(row.cast::<u16>().add(i).read_unaligned());
            dst.add(i).write_unaligned(element(rows[0]) | element(rows[1]) << 16);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn interleave4(rows: [*const u8; 4], n: usize, dst: *mut u8) {
    let dst: *mut u32 = dst.cast();
    for i in 0..n {
        // SAFETY: i < n; the caller vouches for n elements in each row and n groups at dst.
        unsafe {
            let group = u32::from_le_bytes(rows.map(|row| *row.add(i)));
            dst.add(i).write_unaligned(group.to_le());
        }
    }
}

#[inline(always)]
pub(super) unsafe fn scale(values: *mut f32, n: usize, factor: f32) {
    // SAFETY: the caller vouches for n elements, which it owns.
    unsafe { each(values.cast_const(), n, values, |x: f32| x * factor) }
}

/// Folds `n` elements by an operation that may be applied in any order.
#[inline(always)]
pub(super) unsafe fn fold(src: *const f32, n: usize, start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; 4 * WIDE];
    let whole = n / lanes.len() * lanes.len();
    for i in (0..whole).step_by(lanes.len()) {
        for (j, lane) in lanes.iter_mut().enumerate() {
            // SAFETY: i + j < whole ≤ n.
            *lane = f(*lane, unsafe { src.add(i + j).read_unaligned() });
        }
    }
    for i in whole..n {
        // SAFETY: i < n.
        lanes[i - whole] = f(lanes[i - whole], unsafe { src.add(i).read_unaligned() });
    }
    let mut width = lanes.len() / 2;
    while width > 0 {
        for j in 0..width {
            lanes[j] = f(lanes[j], lanes[j + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[inline(always)]
pub(super) unsafe fn sum(src: *const f32, n: usize) -> f32 {
    // SAFETY: the caller's contract (see Ops).
    unsafe { fold(src, n, 0.0, |a, b| a + b) }
}

#[inline(always)]
pub(super) unsafe fn max(src: *const f32, n: usize) -> f32 {
    // A NaN is passed over, as Metal's `max` does.
    // SAFETY: the caller's contract (see Ops).
    unsafe { fold(src, n, f32::NEG_INFINITY, |a, b| if b > a { b } else { a }) }
}

#[inline(always)]
pub(super) unsafe fn min(src: *const f32, n: usize) -> f32 {
    // SAFETY: the caller's contract (see Ops).
    unsafe { fold(src, n, f32::INFINITY, |a, b| if b < a { b } else { a }) }
}

#[inline(always)]
unsafe fn dots(
    row: *const f32,
    n: usize,
    others: *const u8,
    stride: isize,
    count: usize,
    results: *mut f32,
    accumulate: bool,
) {
    for j in 0..count {
        // SAFETY: j < count; the caller vouches for `count` rows of n elements and as many results.
        unsafe {
            let other: *const f32 = others.offset(j as isize * stride).cast();
            let mut lanes = [0.0f32; WIDE];
            let whole = n / WIDE * WIDE;
            for i in (0..whole).step_by(WIDE) {
                for (l, lane) in lanes.iter_mut().enumerate() {
                    *lane += *row.add(i + l) * other.add(i + l).read_unaligned();
                }
            }
            for i in whole..n {
                lanes[i - whole] += *row.add(i) * other.add(i).read_unaligned();
            }
            let total = lanes.iter().sum::<f32>();
            let result = results.add(j);
            *result = if accumulate { *result + total } else { total };
        }
    }
}

unsafe fn axpy(factors: *const f32, count: usize, rows: *const u8, stride: isize, n: usize, dst: *mut f32) {
    for k in 0..count {
        // SAFETY: k < count; the caller vouches for `count` factors and rows of n elements, and n results.
        unsafe {
            let factor = *factors.add(k);
            let row: *const f32 = rows.offset(k as isize * stride).cast();
            for i in 0..n {
                *dst.add(i) += factor * row.add(i).read_unaligned();
            }
        }
    }
}

/// Writes or adds one row of a strip's sums.
#[inline(always)]
unsafe fn put<T: Copy>(sums: &[T], c: *mut T, accumulate: bool, add: impl Fn(T, T) -> T) {
    // SAFETY: the caller vouches for as many accumulators as there are sums.
    let row = unsafe { from_raw_parts_mut(c, sums.len()) };
    for (old, &new) in row.iter_mut().zip(sums) {
        *old = if accumulate { add(*old, new) } else { new };
    }
}

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
    let mut sums = [[0.0f32; COLUMNS]; ROWS];
    // Missing rows repeat the first one: the loop keeps its shape, their sums are dropped.
    // SAFETY: the strip's contract: `rows` left rows and one right panel of `groups` groups.
    unsafe {
        let left: [&[f32]; ROWS] = std::array::from_fn(|i| {
            let row = if i < rows { i } else { 0 };
            from_raw_parts(a.offset(row as isize * a_stride).cast(), groups)
        });
        let right: &[[f32; COLUMNS]] = from_raw_parts(b.cast(), groups);
        for (k, right) in right.iter().enumerate() {
            for (sums, left) in sums.iter_mut().zip(&left) {
                for (sum, &right) in sums.iter_mut().zip(right) {
                    *sum += left[k] * right;
                }
            }
        }
        for (i, sums) in sums.iter().enumerate().take(rows) {
            put(&sums[..cols], c.add(i * ldc), accumulate, |x, y| x + y);
        }
    }
}

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
    // SAFETY: the strip's contract: `rows` left rows and one right panel of `groups` groups.
    unsafe {
        let right: &[[[i16; 2]; COLUMNS]] = from_raw_parts(b.cast(), groups);
        for i in 0..rows {
            let left: &[[i16; 2]] = from_raw_parts(a.offset(i as isize * a_stride).cast(), groups);
            let mut sums = [0i32; COLUMNS];
            for (left, right) in left.iter().zip(right) {
                for (sum, right) in sums.iter_mut().zip(right) {
                    // Products of 8-bit values: two of them do not overflow.
                    let pair = i32::from(left[0]) * i32::from(right[0]) + i32::from(left[1]) * i32::from(right[1]);
                    *sum = sum.wrapping_add(pair);
                }
            }
            put(&sums[..cols], c.add(i * ldc), accumulate, i32::wrapping_add);
        }
    }
}
