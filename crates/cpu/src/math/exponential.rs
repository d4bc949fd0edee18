//! Exponentials, logarithms, powers and hyperbolic functions.
#![allow(clippy::excessive_precision)]

const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// `2^n` for −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `x · 2^n` in two steps, for results that overflow or are subnormal.
#[inline(always)]
fn scale(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// Adding 1.5 · 2^23 rounds a number of less than 2^22 to an integer, which then stands in the low bits.
pub(super) const MAGIC: f32 = 12_582_912.0;

/// The integer that stands in a number that [`MAGIC`] was added to, as a float and as an integer; for NaN, NaN and some integer.
#[inline(always)]
fn integer(shifted: f32) -> (f32, i32) {
    let int = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
    (shifted - MAGIC, int)
}

// Polynomials of the least relative error (3.1e-9, a twentieth of half a unit) among those with these leading coefficients; the
// highest power comes first. In exhaustive runs `exp` is at most 0.87 and `exp2` at most 0.79 units in the last place off.

/// log(2) in two parts, of which the first has few bits, so that its products are exact.
pub(super) const LN_2_PARTS: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// Coefficients of e^r for |r| ≤ 0.3467, but for the last two, which are 1.
pub(super) const EXP: [f32; 5] = [
    1.382_093_3e-3,
    8.368_67e-3,
    4.166_826_2e-2,
    1.666_652_1e-1,
    4.999_999_4e-1,
];

/// Coefficients of 2^r for |r| ≤ ½, but for the last one, which is 1.
pub(super) const EXP2: [f32; 6] = [
    1.532_646_3e-4,
    1.339_080_6e-3,
    9.618_506e-3,
    5.550_36e-2,
    2.402_264_8e-1,
    6.931_472e-1,
];

/// e^r for |r| ≤ 0.3467.
#[inline(always)]
fn exp_poly(r: f32) -> f32 {
    let [first, rest @ ..] = EXP;
    let p = rest.into_iter().fold(first, |p, c| p.mul_add(r, c));
    p.mul_add(r, 1.0).mul_add(r, 1.0)
}

/// 2^r for |r| ≤ ½.
#[inline(always)]
fn exp2_poly(r: f32) -> f32 {
    let [first, rest @ ..] = EXP2;
    rest.into_iter().fold(first, |p, c| p.mul_add(r, c)).mul_add(r, 1.0)
}

// Clamping keeps NaN, and so does everything after it: its integer is whatever it is, the float part stays NaN.

/// e^x.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let bounded = x.clamp(-105.0, 89.0);
    let (n, int) = integer(bounded.mul_add(LOG2_E, MAGIC));
    let [high, low] = LN_2_PARTS;
    let r = n.mul_add(-low, n.mul_add(-high, bounded));
    scale(exp_poly(r), int)
}

/// 2^x.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    let bounded = x.clamp(-151.0, 129.0);
    let (n, int) = integer(bounded + MAGIC);
    scale(exp2_poly(bounded - n), int)
}

/// 10^x.
#[inline(always)]
pub(crate) fn exp10(x: f32) -> f32 {
    let bounded = x.clamp(-46.0, 39.0);
    let (n, int) = integer(bounded.mul_add(std::f32::consts::LOG2_10, MAGIC));
    // log10(2) in two parts; the first has few bits, so its products are exact.
    let r = n.mul_add(-0.301_025_39, bounded);
    let r = n.mul_add(-4.605_038_98e-6, r);
    scale(exp_poly(r * std::f32::consts::LN_10), int)
}

/// x = 2^e · m with m in [√½, √2): (e, m − 1). For positive x.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let small = x < f32::MIN_POSITIVE;
    let y = if small { x * 8_388_608.0 } else { x };
    let bits = y.to_bits();
    // Take the exponent so that the significand falls around 1.
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let e = (shifted as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((e as u32) << 23));
    let e = e - if small { 23 } else { 0 };
    (e as f32, m - 1.0)
}

/// log(1 + x) − x for x in [√½ − 1, √2 − 1].
#[inline(always)]
fn log_tail(x: f32) -> f32 {
    let p = 7.037_683_6e-2f32;
    let p = p.mul_add(x, -1.151_461_03e-1);
    let p = p.mul_add(x, 1.167_699_9e-1);
    let p = p.mul_add(x, -1.242_014_1e-1);
    let p = p.mul_add(x, 1.424_932_3e-1);
    let p = p.mul_add(x, -1.666_805_8e-1);
    let p = p.mul_add(x, 2.000_071_5e-1);
    let p = p.mul_add(x, -2.499_999_4e-1);
    let p = p.mul_add(x, 3.333_333_1e-1);
    let z = x * x;
    (-0.5f32).mul_add(z, p * x * z)
}

/// What a logarithm gives for zero, negative numbers, infinity and NaN.
#[inline(always)]
fn log_special(x: f32, y: f32) -> f32 {
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

/// Natural logarithm.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let (e, r) = split(x);
    let tail = e.mul_add(-2.121_944_4e-4, log_tail(r));
    let y = e.mul_add(0.693_359_375, r + tail);
    log_special(x, y)
}

/// Binary logarithm.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    let (e, r) = split(x);
    let tail = log_tail(r);
    // log2(e) − 1, so that the larger part of the product is exact.
    const MORE: f32 = 0.442_695_04;
    let y = tail.mul_add(MORE, r * MORE) + tail + r;
    log_special(x, y + e)
}

/// Decimal logarithm.
#[inline(always)]
pub(crate) fn log10(x: f32) -> f32 {
    let (e, r) = split(x);
    let tail = log_tail(r);
    const HIGH: f32 = std::f32::consts::LOG10_E;
    let y = e.mul_add(4.605_038_98e-6, (r + tail) * HIGH);
    log_special(x, e.mul_add(0.301_025_39, y))
}

/// e^x in `f64` to about 40 bits, for |x| ≤ 700.
#[inline(always)]
fn exp64(x: f64) -> f64 {
    let n = (x * std::f64::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-std::f64::consts::LN_2, x);
    let mut p = 1.0 / 3_628_800.0;
    for c in [
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = r.mul_add(p, c);
    }
    // SAFETY: |n| ≤ 1010.
    let n: i32 = unsafe { n.to_int_unchecked() };
    p * f64::from_bits(((i64::from(n) + 1023) << 52) as u64)
}

/// Natural logarithm in `f64` to about 40 bits, for positive normal finite x.
#[inline(always)]
fn log64(x: f64) -> f64 {
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    // The exponent in the upper word: 32-bit conversions have vector instructions.
    let e = ((shifted >> 32) as i32) >> 20;
    let m = f64::from_bits(bits.wrapping_sub((i64::from(e) << 52) as u64));
    // log m = 2 artanh((m − 1)/(m + 1)), |s| ≤ 0.172.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 1.0 / 17.0;
    for c in [
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
        1.0,
    ] {
        p = z.mul_add(p, c);
    }
    f64::from(e).mul_add(std::f64::consts::LN_2, 2.0 * s * p)
}

/// |x|^y for finite x ≠ 0 and finite y.
#[inline(always)]
fn pow_finite(x: f32, y: f32) -> f32 {
    let log = log64(f64::from(x.abs()));
    // The product is bounded so that infinities do not meet the reduction.
    let product = (log * f64::from(y)).clamp(-200.0, 200.0);
    let product = if product.is_nan() { 0.0 } else { product };
    exp64(product) as f32
}

/// x^y as C's `pow`.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let integral = y == y.trunc();
    // An odd integer is not even after halving; floats from 2^24 on are even.
    let odd = integral && (y * 0.5) != (y * 0.5).trunc() && y.abs() < 16_777_216.0;
    let safe = if x == 0.0 || !x.is_finite() { 1.0 } else { x };
    let safe_y = if y.is_finite() { y } else { 1.0 };
    let magnitude = pow_finite(safe, safe_y);
    let negative = x.is_sign_negative();
    let signed = if negative && odd { -magnitude } else { magnitude };
    let mut result = if negative && !integral { f32::NAN } else { signed };
    // Zero and infinity as base.
    let grows = (x.abs() > 1.0) == (y > 0.0);
    let edge = if grows { f32::INFINITY } else { 0.0 };
    let edge = if negative && odd { -edge } else { edge };
    result = if x == 0.0 || x.is_infinite() { edge } else { result };
    // Infinite exponent.
    let limit = if x.abs() == 1.0 {
        1.0
    } else if grows {
        f32::INFINITY
    } else {
        0.0
    };
    result = if y.is_infinite() { limit } else { result };
    result = if x.is_nan() || y.is_nan() { f32::NAN } else { result };
    if x == 1.0 || y == 0.0 { 1.0 } else { result }
}

/// x^y for x ≥ 0; NaN below.
#[inline(always)]
pub(crate) fn powr(x: f32, y: f32) -> f32 {
    let zero_or_infinite = x == 0.0 || x == f32::INFINITY;
    let result = pow(x, y);
    let undefined =
        x < 0.0 || x.is_nan() || y.is_nan() || (zero_or_infinite && y == 0.0) || (x == 1.0 && y.is_infinite());
    if undefined { f32::NAN } else { result.abs() }
}

/// Hyperbolic sine.
#[inline(always)]
pub(crate) fn sinh(x: f32) -> f32 {
    let e = exp64(f64::from(x.abs()).min(100.0));
    let large = (0.5 * (e - 1.0 / e)) as f32;
    let z = x * x;
    let p = 2.755_732e-6f32;
    let p = p.mul_add(z, 1.984_127e-4);
    let p = p.mul_add(z, 8.333_334e-3);
    let p = p.mul_add(z, 1.666_666_7e-1);
    let small = (p * z).mul_add(x, x);
    let y = if x.abs() < 0.5 { small } else { large.copysign(x) };
    if x.is_nan() { x } else { y }
}

/// Hyperbolic cosine.
#[inline(always)]
pub(crate) fn cosh(x: f32) -> f32 {
    let e = exp64(f64::from(x.abs()).min(100.0));
    let y = (0.5 * (e + 1.0 / e)) as f32;
    if x.is_nan() { x } else { y }
}

/// Hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = x.abs().min(10.0);
    let e = exp(2.0 * a);
    let large = 1.0 - 2.0 / (e + 1.0);
    let z = x * x;
    let p = -5.704_988_7e-3f32;
    let p = p.mul_add(z, 2.063_908_9e-2);
    let p = p.mul_add(z, -5.373_971_6e-2);
    let p = p.mul_add(z, 1.333_144_2e-1);
    let p = p.mul_add(z, -3.333_328e-1);
    let small = (p * z).mul_add(x, x);
    let y = if x.abs() < 0.625 { small } else { large.copysign(x) };
    if x.is_nan() { x } else { y }
}

/// Inverse hyperbolic sine.
#[inline(always)]
pub(crate) fn asinh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let bounded = if x.is_finite() { a } else { 1.0 };
    let large = log64(bounded + bounded.mul_add(bounded, 1.0).sqrt()) as f32;
    let small = (x * x * x).mul_add(-1.0 / 6.0, x);
    let y = if x.abs() < 1e-3 { small } else { large.copysign(x) };
    if x.is_finite() { y } else { x }
}

/// Inverse hyperbolic cosine; NaN below 1.
#[inline(always)]
pub(crate) fn acosh(x: f32) -> f32 {
    let bounded = if x >= 1.0 && x.is_finite() { f64::from(x) } else { 1.0 };
    let y = log64(bounded + bounded.mul_add(bounded, -1.0).max(0.0).sqrt()) as f32;
    let y = if x == f32::INFINITY { x } else { y };
    if x >= 1.0 { y } else { f32::NAN }
}

/// Inverse hyperbolic tangent; NaN outside [−1, 1].
#[inline(always)]
pub(crate) fn atanh(x: f32) -> f32 {
    let inside = x.abs() < 1.0;
    let a = if inside { f64::from(x.abs()) } else { 0.5 };
    let large = (0.5 * log64((1.0 + a) / (1.0 - a))) as f32;
    let small = (x * x * x).mul_add(1.0 / 3.0, x);
    let y = if x.abs() < 1e-3 { small } else { large.copysign(x) };
    let y = if x.abs() == 1.0 { f32::INFINITY.copysign(x) } else { y };
    if x.abs() <= 1.0 { y } else { f32::NAN }
}
