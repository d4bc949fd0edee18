//! Reductions of a tile's rows or columns.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use anymetal_ir::{ReduceAxis, ReduceOp};

use crate::lanes::Isa;
use crate::lanes::scalar::Float;

#[inline(always)]
fn combine(op: ReduceOp, a: f32, b: f32) -> f32 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    }
}

/// Rows or columns of a tile of `f32`.
///
/// # Safety
/// `source` must hold `shape.0 · shape.1` elements, `target` `count`.
#[inline(always)]
unsafe fn f32_body(
    axis: ReduceAxis,
    op: ReduceOp,
    source: *const f32,
    (rows, columns): (usize, usize),
    target: *mut f32,
    count: usize,
    identity: f32,
) {
    // SAFETY: by the function's contract.
    let (source, target) = unsafe {
        (
            std::slice::from_raw_parts(source, rows * columns),
            std::slice::from_raw_parts_mut(target, count),
        )
    };
    match axis {
        ReduceAxis::Rows => {
            for (row, target) in source.chunks_exact(columns.max(1)).zip(target) {
                *target = row.iter().fold(identity, |total, &value| combine(op, total, value));
            }
        }
        ReduceAxis::Columns => {
            target.fill(identity);
            for row in source.chunks_exact(columns.max(1)) {
                for (target, &value) in target.iter_mut().zip(row) {
                    *target = combine(op, *target, value);
                }
            }
        }
    }
}

/// Four and four, in the order that skips NaN: see below.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn fours<const OP: u8>(low: __m128, high: __m128) -> __m128 {
    match OP {
        0 => _mm_add_ps(low, high),
        1 => _mm_max_ps(high, low),
        _ => _mm_min_ps(high, low),
    }
}

/// Combines the elements of each of four vectors: fours first, all four vectors at once, then the fours of a vector.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn totals_avx2<const OP: u8>([a, b, c, d]: [__m256; 4]) -> __m128 {
    let x = both_avx2::<OP>(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let y = both_avx2::<OP>(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    let all = both_avx2::<OP>(_mm256_shuffle_ps::<0x44>(x, y), _mm256_shuffle_ps::<0xee>(x, y));
    fours::<OP>(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all))
}

/// The same.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) fn totals_avx512<const OP: u8>([a, b, c, d]: [__m512; 4]) -> __m128 {
    let x = both_avx512::<OP>(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let y = both_avx512::<OP>(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let all = both_avx512::<OP>(_mm512_shuffle_ps::<0x44>(x, y), _mm512_shuffle_ps::<0xee>(x, y));
    let half = both_avx2::<OP>(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
    fours::<OP>(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half))
}

/// Writes the totals of the rows `row..row + 4`, each combined with `identity`, as far as there are so many.
///
/// # Safety
/// `target` must hold `count` elements, more than `row`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn put_totals<const OP: u8>(
    totals: __m128,
    identity: f32,
    target: *mut f32,
    row: usize,
    count: usize,
) {
    let totals = fours::<OP>(_mm_set1_ps(identity), totals);
    // SAFETY: the caller's contract.
    unsafe {
        if row + 4 <= count {
            _mm_storeu_ps(target.add(row), totals);
            return;
        }
        let mut some = [0.0f32; 4];
        _mm_storeu_ps(some.as_mut_ptr(), totals);
        std::ptr::copy_nonoverlapping(some.as_ptr(), target.add(row), count - row);
    }
}

/// Code for vectors of a width: rows in strands that are combined in a tree, columns as the compiler does them.
///
/// The instructions for maximum and minimum give their second operand where one is NaN. Strands start from what changes nothing,
/// which is a number, and are always the second operand; so NaN is skipped, as by `f32::max`.
macro_rules! vector_reduction {
    ($name:ident, $rows:ident, $both:ident, $vector:ty, $features:literal, $width:literal, $set:ident, $load:ident, $totals:ident, $add:ident,
     $max:ident, $min:ident) => {
        /// # Safety
        /// As for [`f32_body`], on a machine with the instructions; the identity is no NaN.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $rows<const OP: u8>(
            source: *const f32,
            columns: usize,
            target: *mut f32,
            count: usize,
            identity: f32,
        ) {
            let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][OP as usize];
            // −0 + x is x for every x.
            let start = $set(if OP == 0 { -0.0 } else { identity });
            let whole = columns / $width * $width;
            for first in (0..count).step_by(4) {
                // SAFETY: each of `count` rows has `columns` elements, and the target has `count`.
                unsafe {
                    // The rows' latencies overlap; a row that is not there is the last one once more.
                    let mut four = [start; 4];
                    for (i, four) in four.iter_mut().enumerate() {
                        let row = source.add((first + i).min(count - 1) * columns);
                        let mut strands = [start; 2];
                        let mut at = 0;
                        while at + 2 * $width <= whole {
                            for i in 0..2 {
                                strands[i] = $both::<OP>($load(row.add(at + $width * i)), strands[i]);
                            }
                            at += 2 * $width;
                        }
                        if at < whole {
                            strands[0] = $both::<OP>($load(row.add(at)), strands[0]);
                        }
                        *four = $both::<OP>(strands[1], strands[0]);
                    }
                    put_totals::<OP>($totals::<OP>(four), identity, target, first, count);
                    for i in first..count.min(first + 4) {
                        for at in whole..columns {
                            *target.add(i) = combine(op, *target.add(i), *source.add(i * columns + at));
                        }
                    }
                }
            }
        }

        /// Two vectors in the order that skips NaN: see above.
        #[cfg(target_arch = "x86_64")]
        #[inline]
        #[target_feature(enable = $features)]
        fn $both<const OP: u8>(new: $vector, old: $vector) -> $vector {
            match OP {
                0 => $add(new, old),
                1 => $max(new, old),
                _ => $min(new, old),
            }
        }

        /// # Safety
        /// As for [`f32_body`], on a machine with the instructions.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name(
            axis: ReduceAxis,
            op: ReduceOp,
            source: *const f32,
            shape: (usize, usize),
            target: *mut f32,
            count: usize,
            identity: f32,
        ) {
            // SAFETY: by the function's contract. The operation is a constant in each loop.
            unsafe {
                match (axis, op) {
                    (ReduceAxis::Rows, _) if identity.is_nan() => {
                        f32_body(axis, op, source, shape, target, count, identity)
                    }
                    (ReduceAxis::Rows, ReduceOp::Sum) => $rows::<0>(source, shape.1, target, count, identity),
                    (ReduceAxis::Rows, ReduceOp::Max) => $rows::<1>(source, shape.1, target, count, identity),
                    (ReduceAxis::Rows, ReduceOp::Min) => $rows::<2>(source, shape.1, target, count, identity),
                    (_, ReduceOp::Sum) => f32_body(axis, ReduceOp::Sum, source, shape, target, count, identity),
                    (_, ReduceOp::Max) => f32_body(axis, ReduceOp::Max, source, shape, target, count, identity),
                    (_, ReduceOp::Min) => f32_body(axis, ReduceOp::Min, source, shape, target, count, identity),
                }
            }
        }
    };
}

vector_reduction!(
    f32_avx2,
    rows_avx2,
    both_avx2,
    __m256,
    "avx2,fma",
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    totals_avx2,
    _mm256_add_ps,
    _mm256_max_ps,
    _mm256_min_ps
);
vector_reduction!(
    f32_avx512,
    rows_avx512,
    both_avx512,
    __m512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    totals_avx512,
    _mm512_add_ps,
    _mm512_max_ps,
    _mm512_min_ps
);

/// A tile of `f32`.
///
/// # Safety
/// `source` must hold `shape.0 · shape.1` elements, `target` `count`; for rows `count` is at most `shape.0`. The machine must
/// have the instruction set.
pub(super) unsafe fn reduce_f32(
    isa: Isa,
    axis: ReduceAxis,
    op: ReduceOp,
    source: *const f32,
    shape: (usize, usize),
    target: *mut f32,
    count: usize,
    identity: u64,
) {
    let identity = f32::from_bits(identity as u32);
    let f = match isa {
        Isa::Portable => f32_body,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => f32_avx2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => f32_avx512,
    };
    // SAFETY: by the function's contract.
    unsafe { f(axis, op, source, shape, target, count, identity) }
}

/// Half and bfloat tiles, reduced in `f32` and rounded once.
///
/// # Safety
/// As for [`f32_body`].
pub(super) unsafe fn reduce_float<T: Float>(
    axis: ReduceAxis,
    op: ReduceOp,
    source: *const u8,
    (rows, columns): (usize, usize),
    target: *mut u8,
    count: usize,
    identity: u64,
) {
    let identity = T::from_bits(identity as u32).widen();
    for i in 0..count {
        let mut total = identity;
        let length = match axis {
            ReduceAxis::Rows => columns,
            ReduceAxis::Columns => rows,
        };
        for j in 0..length {
            let at = match axis {
                ReduceAxis::Rows => i * columns + j,
                ReduceAxis::Columns => j * columns + i,
            };
            // SAFETY: by the function's contract.
            total = combine(op, total, unsafe { (*source.cast::<T>().add(at)).widen() });
        }
        // SAFETY: by the function's contract.
        unsafe { target.cast::<T>().add(i).write(T::narrow(total)) };
    }
}

/// # Safety
/// As for [`f32_body`].
pub(super) unsafe fn reduce_i32(
    axis: ReduceAxis,
    op: ReduceOp,
    source: *const u8,
    (rows, columns): (usize, usize),
    target: *mut u8,
    count: usize,
    identity: u64,
) {
    for i in 0..count {
        let mut total = identity as u32 as i32;
        let length = match axis {
            ReduceAxis::Rows => columns,
            ReduceAxis::Columns => rows,
        };
        for j in 0..length {
            let at = match axis {
                ReduceAxis::Rows => i * columns + j,
                ReduceAxis::Columns => j * columns + i,
            };
            // SAFETY: by the function's contract.
            let value = unsafe { *source.cast::<i32>().add(at) };
            total = match op {
                ReduceOp::Sum => total.wrapping_add(value),
                ReduceOp::Max => total.max(value),
                ReduceOp::Min => total.min(value),
            };
        }
        // SAFETY: by the function's contract.
        unsafe { target.cast::<i32>().add(i).write(total) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> Vec<Isa> {
        let mut out = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        match Isa::detect() {
            Isa::Portable => {}
            Isa::Avx2 => out.push(Isa::Avx2),
            Isa::Avx512 => out.extend([Isa::Avx2, Isa::Avx512]),
        }
        out
    }

    fn check(isa: Isa, (rows, columns): (usize, usize), axis: ReduceAxis, op: ReduceOp, identity: f32) {
        let values: Vec<f32> = (0..rows * columns)
            .map(|i| ((i * 7919 + 13) % 1009) as f32 / 100.0 - 5.0)
            .collect();
        let (count, length) = match axis {
            ReduceAxis::Rows => (rows, columns),
            ReduceAxis::Columns => (columns, rows),
        };
        let mut got = vec![0f32; count];
        let (shape, bits) = ((rows, columns), u64::from(identity.to_bits()));
        // SAFETY: the vectors have the lengths of the shape.
        unsafe { reduce_f32(isa, axis, op, values.as_ptr(), shape, got.as_mut_ptr(), count, bits) };
        for (i, &got) in got.iter().enumerate() {
            let elements = (0..length).map(|j| match axis {
                ReduceAxis::Rows => f64::from(values[i * columns + j]),
                ReduceAxis::Columns => f64::from(values[j * columns + i]),
            });
            let start = f64::from(identity);
            let want = match op {
                ReduceOp::Sum => start + elements.sum::<f64>(),
                ReduceOp::Max => elements.fold(start, f64::max),
                ReduceOp::Min => elements.fold(start, f64::min),
            };
            let close = op == ReduceOp::Sum && (f64::from(got) - want).abs() <= 1e-6 * 5.0 * length as f64;
            assert!(
                got == want as f32 || close,
                "{got} {want} {shape:?} {axis:?} {op:?} {isa:?}"
            );
        }
    }

    #[test]
    fn rows_and_columns_against_f64() {
        for isa in sets() {
            for shape in [(1, 1), (3, 16), (16, 64), (5, 37), (64, 80), (2, 8)] {
                for axis in [ReduceAxis::Rows, ReduceAxis::Columns] {
                    check(isa, shape, axis, ReduceOp::Sum, 0.5);
                    check(isa, shape, axis, ReduceOp::Max, f32::NEG_INFINITY);
                    check(isa, shape, axis, ReduceOp::Max, 4.0);
                    check(isa, shape, axis, ReduceOp::Min, f32::INFINITY);
                }
            }
        }
    }

    #[test]
    fn nan_is_skipped_by_maximum_and_minimum() {
        let mut row = [1.0f32; 35];
        for at in [0, 3, 17, 34] {
            row[at] = f32::NAN;
        }
        row[20] = 2.0;
        row[21] = -3.0;
        for isa in sets() {
            for (op, identity, want) in [
                (ReduceOp::Max, f32::NEG_INFINITY, 2.0),
                (ReduceOp::Max, f32::NAN, 2.0),
                (ReduceOp::Min, f32::INFINITY, -3.0),
                (ReduceOp::Min, f32::NAN, -3.0),
            ] {
                let mut got = [0f32];
                let bits = u64::from(identity.to_bits());
                // SAFETY: one row of 35 elements.
                unsafe {
                    reduce_f32(
                        isa,
                        ReduceAxis::Rows,
                        op,
                        row.as_ptr(),
                        (1, 35),
                        got.as_mut_ptr(),
                        1,
                        bits,
                    )
                };
                assert_eq!(got, [want], "{op:?} from {identity} on {isa:?}");
            }
        }
    }
}
