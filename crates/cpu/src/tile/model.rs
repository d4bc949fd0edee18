//! Products computed one element at a time: to the bit as Apple's tensor unit computes them (reference 4.7), and in `f64`
//! for block scales that take elements out of the range of `f32`.

use anymetal_formats::ElementFormat;

use super::view::OperandView;
use super::widen::load_code;

/// The valid part of an operand, row by row, scales folded in. Exact: a format's values have at most 24 significant bits
/// and a scale is a power of two, so `f64` holds every product of the two.
pub(crate) struct Elements {
    pub values: Vec<f64>,
    pub rows: usize,
    pub cols: usize,
}

impl Elements {
    pub fn of(view: &OperandView<'_>) -> Elements {
        let (rows, cols) = view.valid_extents();
        let mut values = Vec::with_capacity(rows * cols);
        for row in 0..rows {
            for col in 0..cols {
                // SAFETY: the element is in the valid part.
                let code = unsafe { load_code(view.format, view.data, view.index(row, col)) };
                let mut value = view.format.decode(code);
                if let Some(scales) = &view.scales {
                    // SAFETY: as above.
                    let code = unsafe { scales.code(row, col) };
                    value *= ElementFormat::Fp8UE8M0.decode(u64::from(code));
                }
                values.push(value);
            }
        }
        Elements { values, rows, cols }
    }

    /// The low 13 bits of the significands of floats cleared (reference 4.7: a truncating TF32). A NaN stays one.
    fn truncate(&mut self) {
        for value in &mut self.values {
            if value.is_finite() {
                *value = f64::from(f32::from_bits((*value as f32).to_bits() & !0x1fff));
            }
        }
    }
}

/// Sums of a product: `rows` × `cols` of the valid parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sums {
    pub values: Vec<f32>,
    pub rows: usize,
    pub cols: usize,
}

fn sums(left: &Elements, right: &Elements, sum: impl Fn(&mut dyn Iterator<Item = (f64, f64)>) -> f32) -> Sums {
    let k = left.cols.min(right.rows);
    let mut values = Vec::with_capacity(left.rows * right.cols);
    for row in 0..left.rows {
        for col in 0..right.cols {
            let pair = |k: usize| (left.values[row * left.cols + k], right.values[k * right.cols + col]);
            values.push(sum(&mut (0..k).map(pair)));
        }
    }
    Sums {
        values,
        rows: left.rows,
        cols: right.cols,
    }
}

/// The sums in `f64`, rounded once.
pub(crate) fn wide(left: &OperandView<'_>, right: &OperandView<'_>) -> Sums {
    sums(&Elements::of(left), &Elements::of(right), |pairs| {
        pairs.map(|(a, b)| a * b).sum::<f64>() as f32
    })
}

/// The sums of a product with a floating-point operand as a Mac computes them: on the tensor unit, unless an operand is
/// `float` and precision is not relaxed. The chain starts from zero; what is accumulated into comes after it.
pub(crate) fn tensor_unit(left: &OperandView<'_>, right: &OperandView<'_>, relaxed: bool) -> Sums {
    let float = |view: &OperandView<'_>| view.format == ElementFormat::F32;
    let (mut a, mut b) = (Elements::of(left), Elements::of(right));
    if (float(left) || float(right)) && !relaxed {
        return sums(&a, &b, |pairs| chain(pairs));
    }
    if float(left) {
        a.truncate();
    }
    if float(right) {
        b.truncate();
    }
    sums(&a, &b, |pairs| unit(pairs))
}

/// A chain of fused multiply-adds along K.
fn chain(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> f32 {
    pairs.fold(0.0f32, |sum, (a, b)| (a as f32).mul_add(b as f32, sum))
}

/// 16 products at a time: pairs of neighbours, rounded; pairs four apart, rounded; those four added one after the other.
fn unit(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> f32 {
    let mut sum = 0.0f32;
    loop {
        let mut products = [0.0f64; 16];
        let mut count = 0;
        for (product, (a, b)) in products.iter_mut().zip(&mut *pairs) {
            *product = a * b;
            count += 1;
        }
        if count == 0 {
            return sum;
        }
        let pair: [f32; 8] = std::array::from_fn(|i| round_sum(products[2 * i], products[2 * i + 1]));
        for j in 0..4 {
            sum += pair[j] + pair[j + 4];
        }
        if count < 16 {
            return sum;
        }
    }
}

/// `x + y` rounded once to `f32`, to nearest, ties to even.
///
/// `s = x + y` in `f64` is off by an `f64` that [the two-sum of Knuth] gives exactly (no overflow: products of elements of
/// up to 16 bits with scales stay below 2^300). Where that error is not zero, the exact sum lies strictly between `s` and
/// its neighbour on the error's side; taking whichever of the two has an odd significand is *rounding to odd*. A value
/// rounded to odd at 53 bits rounds at 24 bits, or the fewer of `f32`'s subnormals, as the exact value does, because it
/// keeps on which side of every number of up to 51 bits, ties included, the exact value lies.
///
/// [the two-sum of Knuth]: https://en.wikipedia.org/wiki/2Sum
pub(crate) fn round_sum(x: f64, y: f64) -> f32 {
    let s = x + y;
    if !s.is_finite() {
        return s as f32;
    }
    let back = s - x;
    let error = (x - (s - back)) + (y - back);
    let bits = s.to_bits();
    let odd = if error == 0.0 || bits & 1 == 1 {
        s
    } else if (error > 0.0) == (s > 0.0) {
        f64::from_bits(bits + 1)
    } else {
        f64::from_bits(bits - 1)
    };
    odd as f32
}

/// A sum as the tensor unit writes it to a destination of a format: NaN is the canonical one, and `bfloat` has no
/// subnormal results.
pub(crate) fn finished(sum: f32, format: ElementFormat) -> f32 {
    if sum.is_nan() {
        f32::from_bits(0x7fc0_0000)
    } else if format == ElementFormat::BF16 && sum.is_subnormal() {
        0.0f32.copysign(sum)
    } else {
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer of 640 bits times a power of two, for references.
    #[derive(Clone, Copy)]
    struct Wide([u64; 10]);

    /// The least exponent of a product of two `f32`, and 20 bits to spare below.
    const UNIT: i32 = -320;

    impl Wide {
        /// The magnitude of a finite `f64` of at least 2^UNIT, in units of 2^UNIT.
        fn of(x: f64) -> Wide {
            let bits = x.abs().to_bits();
            let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
            let mut out = [0; 10];
            if exponent != 0 {
                let shift = exponent - 1075 - UNIT;
                let significand = fraction | 1 << 52;
                // Trailing zeros make room for small numbers.
                let (significand, shift) = if shift < 0 {
                    assert_eq!(significand & ((1 << -shift) - 1), 0);
                    (significand >> -shift, 0)
                } else {
                    (significand, shift)
                };
                let (word, bit) = (shift as usize / 64, shift as usize % 64);
                out[word] = significand << bit;
                if bit > 11 {
                    out[word + 1] = significand >> (64 - bit);
                }
            } else {
                assert_eq!(fraction, 0);
            }
            Wide(out)
        }

        fn less(&self, other: &Wide) -> bool {
            self.0.iter().rev().lt(other.0.iter().rev())
        }

        fn add(&self, other: &Wide) -> Wide {
            let mut carry = false;
            let mut out = [0; 10];
            for (out, (a, b)) in out.iter_mut().zip(self.0.iter().zip(other.0)) {
                let (a, c1) = a.overflowing_add(b);
                let (a, c2) = a.overflowing_add(u64::from(carry));
                (*out, carry) = (a, c1 || c2);
            }
            Wide(out)
        }

        fn sub(&self, other: &Wide) -> Wide {
            let mut borrow = false;
            let mut out = [0; 10];
            for (out, (a, b)) in out.iter_mut().zip(self.0.iter().zip(other.0)) {
                let (a, c1) = a.overflowing_sub(b);
                let (a, c2) = a.overflowing_sub(u64::from(borrow));
                (*out, borrow) = (a, c1 || c2);
            }
            Wide(out)
        }

        fn bit(&self, i: i32) -> bool {
            i >= 0 && self.0[i as usize / 64] >> (i % 64) & 1 == 1
        }

        /// To the nearest `f32`, ties to even, by looking at bits.
        fn round(&self) -> f32 {
            let Some(top) = (0..640).rev().find(|&i| self.bit(i)) else {
                return 0.0;
            };
            // The last bit that the significand keeps.
            let last = (top - 23).max(-149 - UNIT);
            let mut kept = (last..=top.max(last)).fold(0u64, |sum, i| sum | u64::from(self.bit(i)) << (i - last));
            let half = self.bit(last - 1);
            let below = (0..last - 1).any(|i| self.bit(i));
            if half && (below || kept & 1 == 1) {
                kept += 1;
            }
            (kept as f64 * 2f64.powi(last + UNIT)) as f32
        }
    }

    fn reference(x: f64, y: f64) -> f32 {
        let (a, b) = (Wide::of(x), Wide::of(y));
        if x.is_sign_negative() == y.is_sign_negative() {
            return (a.add(&b).round()).copysign(x as f32);
        }
        let (large, small, sign) = if a.less(&b) { (b, a, y) } else { (a, b, x) };
        let difference = large.sub(&small).round();
        if difference == 0.0 && !a.less(&b) && !b.less(&a) {
            return 0.0;
        }
        difference.copysign(sign as f32)
    }

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ (mixed >> 32)
        }

        /// A product of two numbers of 11 significant bits, of any exponent that `f32` has, often of few bits.
        fn product(&mut self, exponent: i32) -> f64 {
            let bits = self.next();
            let mask = if bits >> 60 < 8 { 0x7ff } else { 0x600 };
            let (a, b) = ((bits & mask) | 0x400, ((bits >> 11) & mask) | 0x400);
            let sign = if bits >> 50 & 1 == 1 { -1.0 } else { 1.0 };
            sign * (a * b) as f64 * 2f64.powi(exponent - 21)
        }
    }

    #[test]
    fn two_term_sums_are_rounded_once() {
        let mut random = Random(7);
        for round in 0..200_000 {
            let far = [60, 30, 8, 2][round % 4];
            let exponent = (random.next() % 360) as i32 - 240;
            let apart = (random.next() % (2 * far + 1)) as i32 - far as i32;
            let (x, y) = (
                random.product(exponent),
                random.product((exponent + apart).clamp(-280, 120)),
            );
            let (got, want) = (round_sum(x, y), reference(x, y));
            assert_eq!(got.to_bits(), want.to_bits(), "{x:e} + {y:e}: {got:e}, not {want:e}");
        }
    }

    #[test]
    fn double_rounding_is_avoided() {
        // 1 + 2^-24 is a tie that goes to 1; a bit far below f64's last place decides otherwise.
        let tie = 1.0 + 2f64.powi(-24);
        assert_eq!(tie as f32, 1.0);
        assert_eq!(round_sum(tie, 2f64.powi(-100)), 1.0 + f32::EPSILON);
        assert_eq!(round_sum(tie, -(2f64.powi(-100))), 1.0);
        assert_eq!(round_sum(-tie, -(2f64.powi(-100))), -1.0 - f32::EPSILON);
        // The same among subnormals: half of the least one, and a bit more or less.
        let half = 2f64.powi(-150);
        assert_eq!(round_sum(half, 0.0), 0.0);
        assert_eq!(round_sum(half, 2f64.powi(-250)).to_bits(), 1);
        assert_eq!(round_sum(half, -(2f64.powi(-250))), 0.0);
        assert_eq!(round_sum(f64::MAX / 4.0, 1.0), f32::INFINITY);
        assert!(round_sum(f64::INFINITY, f64::NEG_INFINITY).is_nan());
    }

    fn row(values: &[f32]) -> OperandView<'_> {
        OperandView::from_f32(values, 1, values.len()).expect("a row")
    }

    fn column(values: &[f32]) -> OperandView<'_> {
        OperandView::from_f32(values, values.len(), 1).expect("a column")
    }

    #[test]
    fn the_order_of_the_tensor_unit() {
        let big = 2f32.powi(24);
        let ones = [1.0f32; 32];
        let dot =
            |values: &[f32], relaxed| tensor_unit(&row(values), &column(&ones[..values.len()]), relaxed).values[0];
        // Neighbours meet first: 2^24 + 1 rounds to 2^24.
        let mut values = [0.0f32; 16];
        (values[0], values[1], values[8]) = (big, 1.0, -big);
        assert_eq!(dot(&values, true), 0.0);
        // Elements 0 and 8 are in pairs 0 and 4, which meet before pair 1 does: the 1 of pair 1 is kept.
        let mut values = [0.0f32; 16];
        (values[0], values[2], values[8]) = (big, 1.0, -big);
        assert_eq!(dot(&values, true), 1.0);
        // Elements 0 and 2 are in different quads: the sum of the first is rounded with the second before pair 3 comes.
        let mut values = [0.0f32; 16];
        (values[0], values[2], values[4]) = (big, 1.0, -big);
        assert_eq!(dot(&values, true), 0.0);
        // From one chunk of 16 to the next in order.
        let mut values = [0.0f32; 32];
        (values[0], values[15], values[16]) = (big, 1.0, -big);
        assert_eq!(dot(&values, true), 0.0);
        // A chain of fused additions: one after the other.
        let mut values = [0.0f32; 16];
        (values[0], values[1], values[2]) = (big, -big, 1.0);
        assert_eq!(dot(&values, false), 1.0);
        (values[0], values[1], values[2]) = (big, 1.0, -big);
        assert_eq!(dot(&values, false), 0.0);
    }

    #[test]
    fn floats_are_truncated_when_precision_is_relaxed() {
        let value = f32::from_bits(0x3f80_1fff);
        let dot = |a: f32, relaxed| tensor_unit(&row(&[a]), &column(&[1.0]), relaxed).values[0];
        assert_eq!(dot(value, true), 1.0);
        assert_eq!(dot(-value, true), -1.0);
        assert_eq!(dot(value, false), value);
        // Subnormals lose their low bits too, and no more.
        let small = f32::from_bits(0x0000_3fff);
        assert_eq!(dot(small, true).to_bits(), 0x0000_2000);
        assert!(dot(f32::from_bits(0x7f80_0001), true).is_nan());
        assert_eq!(dot(f32::INFINITY, true), f32::INFINITY);
    }

    #[test]
    fn signs_nan_and_subnormals() {
        let one = [0x3c00u16, 0x0000];
        let bytes: Vec<u8> = one.iter().flat_map(|code| code.to_le_bytes()).collect();
        let half =
            |bytes: &'static [u8]| OperandView::from_bytes(bytes, ElementFormat::F16, 1, 1).expect("one element");
        let unit = OperandView::from_bytes(&bytes[..2], ElementFormat::F16, 1, 1).expect("one element");
        // −0 · 1 gives +0; NaN · 0 gives NaN; the least subnormal of half counts.
        let dot = |left: &OperandView<'_>, right: &OperandView<'_>| tensor_unit(left, right, false).values[0];
        assert_eq!(dot(&half(&[0x00, 0x80]), &unit).to_bits(), 0);
        assert!(dot(&half(&[0x01, 0x7e]), &half(&[0, 0])).is_nan());
        assert_eq!(dot(&half(&[1, 0]), &unit), 2f32.powi(-24));
        assert_eq!(dot(&half(&[1, 0]), &half(&[1, 0])), 2f32.powi(-48));
        assert_eq!(
            finished(f32::from_bits(0xffc1_2345), ElementFormat::F32).to_bits(),
            0x7fc0_0000
        );
        assert_eq!(finished(-1e-40, ElementFormat::BF16).to_bits(), 0x8000_0000);
        assert_eq!(finished(-1e-40, ElementFormat::F32), -1e-40);
    }
}
