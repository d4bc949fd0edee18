//! Sines, cosines, tangents and their inverses.
#![allow(clippy::excessive_precision)]

use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// sin r and cos r for |r| ≤ π/4, to about 40 bits.
#[inline(always)]
fn sin_cos64(r: f64) -> (f64, f64) {
    let z = r * r;
    let mut s = 1.0 / 6_227_020_800.0;
    for c in [
        -1.0 / 39_916_800.0,
        1.0 / 362_880.0,
        -1.0 / 5_040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
    ] {
        s = z.mul_add(s, c);
    }
    let mut c = -1.0 / 87_178_291_200.0;
    for k in [
        1.0 / 479_001_600.0,
        -1.0 / 3_628_800.0,
        1.0 / 40_320.0,
        -1.0 / 720.0,
        1.0 / 24.0,
        -0.5,
    ] {
        c = z.mul_add(c, k);
    }
    ((s * z).mul_add(r, r), c.mul_add(z, 1.0))
}

/// Quadrant (0…3) of a whole number held in a float.
#[inline(always)]
fn quadrant(n: f64) -> i32 {
    let q = n - 4.0 * (n * 0.25).floor();
    // SAFETY: q is 0, 1, 2 or 3 for every finite n, and callers pass no other.
    unsafe { q.to_int_unchecked() }
}

/// x = n · π/2 + r: (r, n mod 4). Exact enough below 2^31.
#[inline(always)]
fn reduce(x: f32) -> (f64, i32) {
    let x = f64::from(x);
    let n = (x * std::f64::consts::FRAC_2_PI).round_ties_even();
    let r = n.mul_add(-std::f64::consts::FRAC_PI_2, x);
    // What π/2 has beyond 53 bits.
    let r = n.mul_add(-6.123_233_995_736_766e-17, r);
    (r, quadrant(n))
}

/// Past this, the reduction in `f64` would lose bits.
pub(crate) const LARGE: f32 = 2_147_483_648.0;

#[inline(always)]
fn sin_at(x: f32, shift: i32) -> f32 {
    let (r, q) = reduce(x);
    let (s, c) = sin_cos64(r);
    let q = q + shift;
    let y = if q & 1 == 0 { s } else { c };
    let y = if q & 2 == 0 { y } else { -y };
    y as f32
}

/// Sine of numbers below [`LARGE`]; [`large_sin`] takes the others.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    let bounded = if x.abs() < LARGE { x } else { 0.0 };
    sin_at(bounded, 0)
}

/// Cosine of numbers below [`LARGE`]; [`large_cos`] takes the others.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    let bounded = if x.abs() < LARGE { x } else { 0.0 };
    sin_at(bounded, 1)
}

/// For any number; NaN for infinities and NaN. Scalar code.
#[cold]
#[inline(never)]
pub(crate) fn large_sin(x: f32) -> f32 {
    f64::from(x).sin() as f32
}

/// For any number; NaN for infinities and NaN. Scalar code.
#[cold]
#[inline(never)]
pub(crate) fn large_cos(x: f32) -> f32 {
    f64::from(x).cos() as f32
}

/// For any number; NaN for infinities and NaN. Scalar code.
#[cold]
#[inline(never)]
pub(crate) fn large_tan(x: f32) -> f32 {
    f64::from(x).tan() as f32
}

/// Tangent of numbers below [`LARGE`]; [`large_tan`] takes the others.
#[inline(always)]
pub(crate) fn tan(x: f32) -> f32 {
    let bounded = if x.abs() < LARGE { x } else { 0.0 };
    let (r, q) = reduce(bounded);
    let (s, c) = sin_cos64(r);
    let y = if q & 1 == 0 { s / c } else { -c / s };
    y as f32
}

/// Past this, the reduction in `f32` would lose bits.
pub(crate) const LARGE_FAST: f32 = 1e5;

/// Single-precision reduction by three parts of π, good to an absolute error of 2^-20 below 10^5.
#[inline(always)]
fn fast(x: f32, shift: i32) -> f32 {
    let bounded = if x.abs() < LARGE_FAST { x } else { 0.0 };
    let n = (bounded * std::f32::consts::FRAC_2_PI).round_ties_even();
    let r = n.mul_add(-1.570_312_5, bounded);
    let r = n.mul_add(-4.837_513e-4, r);
    let r = n.mul_add(-7.549_79e-8, r);
    // SAFETY: |n| is below 10^5.
    let q: i32 = unsafe { n.to_int_unchecked::<i32>() } + shift;
    let z = r * r;
    let s = (-1.951_529_6e-4f32)
        .mul_add(z, 8.332_161e-3)
        .mul_add(z, -1.666_665_5e-1);
    let s = (s * z).mul_add(r, r);
    let c = 2.443_315_7e-5f32.mul_add(z, -1.388_731_6e-3).mul_add(z, 4.166_664_6e-2);
    let c = (c * z).mul_add(z, (-0.5f32).mul_add(z, 1.0));
    let y = if q & 1 == 0 { s } else { c };
    if q & 2 == 0 { y } else { -y }
}

/// Sine of fast-math code, below [`LARGE_FAST`].
#[inline(always)]
pub(crate) fn sin_fast(x: f32) -> f32 {
    fast(x, 0)
}

/// Cosine of fast-math code, below [`LARGE_FAST`].
#[inline(always)]
pub(crate) fn cos_fast(x: f32) -> f32 {
    fast(x, 1)
}

/// x = n/2 + r/π: (r, n mod 4).
#[inline(always)]
fn reduce_pi(x: f32) -> (f64, i32) {
    let x = if x.is_finite() { f64::from(x) } else { 0.0 };
    let n = (x * 2.0).round_ties_even();
    ((n.mul_add(-0.5, x)) * std::f64::consts::PI, quadrant(n))
}

/// sin πx.
#[inline(always)]
pub(crate) fn sinpi(x: f32) -> f32 {
    let (r, q) = reduce_pi(x);
    let (s, c) = sin_cos64(r);
    let y = if q & 1 == 0 { s } else { c };
    let y = (if q & 2 == 0 { y } else { -y }) as f32;
    // Whole numbers give a zero with the sign of x.
    let y = if y == 0.0 { 0f32.copysign(x) } else { y };
    if x.is_finite() { y } else { f32::NAN }
}

/// cos πx.
#[inline(always)]
pub(crate) fn cospi(x: f32) -> f32 {
    let (r, q) = reduce_pi(x);
    let (s, c) = sin_cos64(r);
    let y = if q & 1 == 0 { c } else { s };
    let y = (if (q + 1) & 2 == 0 { y } else { -y }) as f32;
    if x.is_finite() { y } else { f32::NAN }
}

/// tan πx.
#[inline(always)]
pub(crate) fn tanpi(x: f32) -> f32 {
    let (r, q) = reduce_pi(x);
    let (s, c) = sin_cos64(r);
    let y = (if q & 1 == 0 { s / c } else { -c / s }) as f32;
    let pole = if q == 1 { f32::INFINITY } else { f32::NEG_INFINITY };
    let y = if q & 1 == 1 && s == 0.0 { pole } else { y };
    if x.is_finite() { y } else { f32::NAN }
}

/// asin x for |x| ≤ ½.
#[inline(always)]
fn asin_poly(x: f32) -> f32 {
    let z = x * x;
    let p = 4.216_32e-2f32;
    let p = p.mul_add(z, 2.418_131_1e-2);
    let p = p.mul_add(z, 4.547_002_6e-2);
    let p = p.mul_add(z, 7.495_300_3e-2);
    let p = p.mul_add(z, 1.666_675_2e-1);
    (p * z).mul_add(x, x)
}

/// Arcsine; NaN outside [−1, 1].
#[inline(always)]
pub(crate) fn asin(x: f32) -> f32 {
    let a = x.abs();
    let root = (0.5 * (1.0 - a)).max(0.0).sqrt();
    let inner = asin_poly(if a > 0.5 { root } else { a });
    let y = if a > 0.5 { FRAC_PI_2 - 2.0 * inner } else { inner };
    if a <= 1.0 { y.copysign(x) } else { f32::NAN }
}

/// Arccosine; NaN outside [−1, 1].
#[inline(always)]
pub(crate) fn acos(x: f32) -> f32 {
    let a = x.abs();
    let root = (0.5 * (1.0 - a)).max(0.0).sqrt();
    let inner = asin_poly(if a > 0.5 { root } else { x });
    let outside = if x > 0.0 { 2.0 * inner } else { PI - 2.0 * inner };
    let y = if a > 0.5 { outside } else { FRAC_PI_2 - inner };
    if a <= 1.0 { y } else { f32::NAN }
}

/// atan x for x ≥ 0 (infinity too).
#[inline(always)]
fn atan_positive(x: f32) -> f32 {
    let (far, middle) = (x > 2.414_213_6, x > 0.414_213_57);
    let reduced_far = -1.0 / x;
    let reduced_middle = (x - 1.0) / (x + 1.0);
    let base = if far {
        FRAC_PI_2
    } else if middle {
        FRAC_PI_4
    } else {
        0.0
    };
    let t = if far {
        reduced_far
    } else if middle {
        reduced_middle
    } else {
        x
    };
    let z = t * t;
    let p = 8.053_744_5e-2f32;
    let p = p.mul_add(z, -1.387_768_6e-1);
    let p = p.mul_add(z, 1.997_771_1e-1);
    let p = p.mul_add(z, -3.333_294_9e-1);
    base + (p * z).mul_add(t, t)
}

/// Arctangent.
#[inline(always)]
pub(crate) fn atan(x: f32) -> f32 {
    atan_positive(x.abs()).copysign(x)
}

/// Angle of (x, y); the arguments in C's order.
#[inline(always)]
pub(crate) fn atan2(y: f32, x: f32) -> f32 {
    let (ay, ax) = (f64::from(y.abs()), f64::from(x.abs()));
    let both_infinite = y.is_infinite() && x.is_infinite();
    let ratio = if both_infinite { 1.0 } else { ay / ax };
    let ratio = if ay == 0.0 { 0.0 } else { ratio };
    let angle = atan_positive(ratio as f32);
    let angle = if x.is_sign_negative() {
        // Both parts of π, so that small angles keep their bits.
        (std::f64::consts::PI - f64::from(angle)) as f32
    } else {
        angle
    };
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else {
        angle.copysign(y)
    }
}
