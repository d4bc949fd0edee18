//! Roots, rounding, and the parts of a float.

/// Half away from zero.
#[inline(always)]
pub(crate) fn round(x: f32) -> f32 {
    // Adding the largest float below one half cannot carry a value below a tie up to the next integer.
    (x + f32::from_bits(0x3eff_ffff).copysign(x)).trunc()
}

/// Correctly rounded but for double rounding through `f64`, which is rarer than one in 2^28.
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// −1, 0 or 1; zeros keep their sign, NaN gives 0.
#[inline(always)]
pub(crate) fn sign(x: f32) -> f32 {
    let one = 1f32.copysign(x);
    let value = if x == 0.0 { x } else { one };
    if x.is_nan() { 0.0 } else { value }
}

/// Clamps to [0, 1]; NaN gives 0.
#[inline(always)]
pub(crate) fn saturate(x: f32) -> f32 {
    let x = if x > 0.0 { x } else { 0.0 };
    if x < 1.0 { x } else { 1.0 }
}

/// The remainder of a truncated division, exact.
#[inline(always)]
pub(crate) fn fmod(x: f32, y: f32) -> f32 {
    x % y
}

/// `max(x − y, 0)`, NaN if one is.
#[inline(always)]
pub(crate) fn fdim(x: f32, y: f32) -> f32 {
    let difference = if x > y { x - y } else { 0.0 };
    if x.is_nan() || y.is_nan() { f32::NAN } else { difference }
}

/// Scales subnormals up, so that the exponent field says it all: (bits, bias).
#[inline(always)]
fn normalised(x: f32) -> (u32, i32) {
    let bits = x.to_bits();
    let small = bits & 0x7f80_0000 == 0;
    let scaled = (x * f32::from_bits((127 + 24) << 23)).to_bits();
    if small { (scaled, 127 + 24) } else { (bits, 127) }
}

/// Exponent of the leading bit; `i32::MIN + 1` for zero, `i32::MAX` for infinities and NaN.
#[inline(always)]
pub(crate) fn ilogb(x: f32) -> i32 {
    let (bits, bias) = normalised(x);
    let exponent = ((bits >> 23) & 0xff) as i32 - bias;
    let value = if x == 0.0 { i32::MIN + 1 } else { exponent };
    if x.is_finite() { value } else { i32::MAX }
}

/// The significand in [0.5, 1) with the sign.
#[inline(always)]
pub(crate) fn frexp_fraction(x: f32) -> f32 {
    let (bits, _) = normalised(x);
    let fraction = f32::from_bits((bits & 0x807f_ffff) | (126 << 23));
    if x == 0.0 || !x.is_finite() { x } else { fraction }
}

/// The exponent that goes with [`frexp_fraction`]; 0 for zero, infinities and NaN.
#[inline(always)]
pub(crate) fn frexp_exponent(x: f32) -> i32 {
    let (bits, bias) = normalised(x);
    let exponent = ((bits >> 23) & 0xff) as i32 - bias + 1;
    if x == 0.0 || !x.is_finite() { 0 } else { exponent }
}

/// `x − trunc(x)` with the sign of `x`.
#[inline(always)]
pub(crate) fn modf_fraction(x: f32) -> f32 {
    let fraction = if x.is_infinite() { 0.0 } else { x - x.trunc() };
    if x.is_nan() { x } else { fraction.copysign(x) }
}

/// `x · 2^k`, exact in `f64`: the caller rounds once.
#[inline(always)]
pub(crate) fn ldexp(x: f32, k: i32) -> f64 {
    // 2^±300 takes every finite non-zero f32 past its range.
    let k = k.clamp(-300, 300);
    f64::from(x) * f64::from_bits(((k + 1023) as i64 as u64) << 52)
}
