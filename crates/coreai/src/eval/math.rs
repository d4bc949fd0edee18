//! `exp` and `erf` for `f32` as straight-line code that the compiler turns into vector instructions.

/// e^x, within 1 ulp in -87..88; 0 below and infinity above the range of `f32`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding and taking away 1.5 · 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-104.0, 89.0);
    let n = (clamped * std::f32::consts::LOG2_E + ROUND) - ROUND;
    // ln 2 in two parts, the first exact in few bits, so that n · part is exact.
    let r = (clamped - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p = 0.001_392_617_6f32;
    let p = p * r + 0.008_363_173;
    let p = p * r + 0.041_666_555;
    let p = p * r + 0.166_665_77;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    // 2^n in two factors, so that results in the subnormal range come out right.
    let n = n as i32;
    let half = n >> 1;
    let low = f32::from_bits(((half + 127) << 23) as u32);
    let high = f32::from_bits(((n - half + 127) << 23) as u32);
    let out = p * low * high;
    if x.is_nan() { x } else { out }
}

/// Coefficients of (erf(x) - x) / x over x², below 0.9216, highest first.
pub(crate) const ERF_SMALL: [f32; 6] = [
    -0.000_600_532_44,
    0.004_996_258_5,
    -0.026_768_915,
    0.112_818_87,
    -0.376_125,
    0.128_379_15,
];
/// Coefficients of log(1 - erf(x)) over x, from 0.9216 to 4, highest first.
pub(crate) const ERF_LARGE: [f32; 9] = [
    1.643_571_2e-6,
    -4.617_823_3e-5,
    0.000_597_749,
    -0.004_763_616_5,
    0.026_431_185,
    -0.110_094_875,
    -0.631_813_97,
    -1.130_238,
    0.000_320_561_5,
];

/// The error function, within 2 ulp.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let mut p = ERF_SMALL[0];
    for c in &ERF_SMALL[1..] {
        p = p * s + c;
    }
    let small = x * p + x;
    // log(1 - erf(t)) is smooth; from t = 4 on erf is 1 in f32.
    let t4 = t.min(4.0);
    let mut q = ERF_LARGE[0];
    for c in &ERF_LARGE[1..] {
        q = q * t4 + c;
    }
    let large = (1.0 - exp(q)).copysign(x);
    if t < 0.9216 {
        small
    } else if x.is_nan() {
        x
    } else {
        large
    }
}

/// The error function in double precision, from its series and continued fraction.
pub(crate) fn erf64(x: f64) -> f64 {
    let t = x.abs();
    if t.is_nan() || t > 6.0 {
        return if t.is_nan() { x } else { 1f64.copysign(x) };
    }
    let norm = std::f64::consts::FRAC_2_SQRT_PI;
    if t < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            let add = term / f64::from(2 * n + 1);
            sum += add;
            if add.abs() < sum.abs() * 1e-17 {
                break;
            }
        }
        return norm * sum;
    }
    let mut fraction = 0.0;
    for n in (1..=60).rev() {
        fraction = f64::from(n) / 2.0 / (t + fraction);
    }
    (1.0 - (-t * t).exp() / ((t + fraction) * std::f64::consts::PI.sqrt())).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps(got: f32, want: f64) -> f64 {
        let spacing = f64::from(f32::from_bits((want.abs() as f32).to_bits() + 1)) - f64::from(want.abs() as f32);
        ((f64::from(got) - want) / spacing).abs()
    }

    #[test]
    fn exp_is_close() {
        for i in -87_000..88_000 {
            let x = i as f32 * 1e-3;
            assert!(ulps(exp(x), f64::from(x).exp()) < 1.5, "exp({x}) = {}", exp(x));
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(100.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(-100.0) > 0.0);
    }

    #[test]
    fn erf_is_close() {
        for i in -50_000..50_000 {
            let x = i as f32 * 1e-4;
            assert!(ulps(erf(x), erf64(f64::from(x))) < 2.0, "erf({x}) = {}", erf(x));
        }
        assert_eq!(erf(f32::INFINITY), 1.0);
        assert_eq!(erf(-9.0), -1.0);
        assert!(erf(f32::NAN).is_nan());
        assert!((erf64(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
        assert!((erf64(3.5) - 0.999_999_256_901_627_7).abs() < 1e-15);
    }
}
