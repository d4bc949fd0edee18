//! Every function against `f64`, in units in the last place.

#![allow(clippy::approx_constant)]

use super::*;

/// Error of `got` in ulps of the correctly rounded `want`, with results below the normal range measured by its step.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.is_nan() && want.is_nan() || got == rounded {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() || got.is_infinite() || rounded.is_infinite() {
        // One step past the largest float counts as such.
        let step = (f64::from(got).clamp(-3.5e38, 3.5e38) - want.clamp(-3.5e38, 3.5e38)).abs();
        return if step.is_nan() {
            f64::INFINITY
        } else {
            step / 2f64.powi(104)
        };
    }
    let exponent = (want.abs().log2().floor() as i32).max(-126);
    (f64::from(got) - want).abs() / 2f64.powi(exponent - 23)
}

fn specials() -> Vec<f32> {
    let mut out = vec![];
    for x in [
        0.0,
        1.0,
        0.5,
        2.0,
        1.5,
        3.0,
        0.25,
        1e-3,
        1e-10,
        1e-38,
        1e-45,
        5e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        1e5,
        2.5,
        88.7,
        88.8,
        104.0,
        103.9,
        149.0,
        128.0,
        127.99,
        38.5,
        38.6,
        45.0,
        1e10,
        3e9,
        16777216.0,
        8388608.5,
        0.999_999_94,
        1.000_000_1,
        0.707_106_77,
        1.414_213_5,
        std::f32::consts::PI,
        std::f32::consts::FRAC_PI_2,
        0.49999997,
        7.0,
        4194304.3,
    ] {
        out.extend([x, -x]);
    }
    out.push(f32::NAN);
    out
}

/// All special values, and bit patterns spread over all floats.
fn samples() -> impl Iterator<Item = f32> {
    let spread = (0..400_000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761)));
    let ordinary = (0..200_000u32).map(|i| (i as f32 - 100_000.0) * 1.234_567e-3);
    let unit = (0..200_000u32).map(|i| (i as f32 - 100_000.0) * 1.000_01e-5);
    specials().into_iter().chain(spread).chain(ordinary).chain(unit)
}

fn check(name: &str, limit: f64, ours: fn(f32) -> f32, reference: fn(f64) -> f64) {
    let mut worst = (0.0, 0.0f32);
    for x in samples() {
        let error = ulps(ours(x), reference(f64::from(x)));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    assert!(
        worst.0 <= limit,
        "{name}({:e}) is {} ulp off: {:e} for {:e}",
        worst.1,
        worst.0,
        ours(worst.1),
        reference(f64::from(worst.1))
    );
    println!("{name}: {:.3} ulp at {:e}", worst.0, worst.1);
}

fn pi_reduced(x: f64) -> f64 {
    // The exact remainder by 2, so that the product with π is accurate.
    x % 2.0 * std::f64::consts::PI
}

#[test]
fn within_the_precise_table() {
    check("exp", 4.0, exp, f64::exp);
    check("exp2", 4.0, exp2, f64::exp2);
    check("exp10", 4.0, exp10, |x| 10f64.powf(x));
    check("log", 4.0, log, f64::ln);
    check("log2", 4.0, log2, f64::log2);
    check("log10", 4.0, log10, f64::log10);
    check("rsqrt", 0.501, rsqrt, |x| 1.0 / x.sqrt());
    check(
        "sin",
        4.0,
        |x| {
            if x.abs() < LARGE { sin(x) } else { large_sin(x) }
        },
        f64::sin,
    );
    check(
        "cos",
        4.0,
        |x| {
            if x.abs() < LARGE { cos(x) } else { large_cos(x) }
        },
        f64::cos,
    );
    check(
        "tan",
        6.0,
        |x| {
            if x.abs() < LARGE { tan(x) } else { large_tan(x) }
        },
        f64::tan,
    );
    check("asin", 4.0, asin, f64::asin);
    check("acos", 4.0, acos, f64::acos);
    check("atan", 5.0, atan, f64::atan);
    check("sinh", 4.0, sinh, f64::sinh);
    check("cosh", 4.0, cosh, f64::cosh);
    check("tanh", 5.0, tanh, f64::tanh);
    check("asinh", 4.0, asinh, |x| x.abs().asinh().copysign(x));
    check("acosh", 4.0, acosh, f64::acosh);
    check("atanh", 5.0, atanh, |x| {
        if x.abs() < 1e-5 { x + x * x * x / 3.0 } else { x.atanh() }
    });
    check("round", 0.0, round, f64::round);
}

#[test]
fn turns() {
    for x in samples() {
        let wide = f64::from(x);
        if !x.is_finite() {
            assert!(sinpi(x).is_nan() && cospi(x).is_nan() && tanpi(x).is_nan());
            continue;
        }
        let r = pi_reduced(wide);
        // Near zeros of the reference the reduction in f64 is what limits it.
        let zero = |y: f64| y.abs() < 1e-9 && x.abs() > 0.1;
        for (got, want, limit) in [
            (sinpi(x), r.sin(), 4.0),
            (cospi(x), r.cos(), 4.0),
            (tanpi(x), r.tan(), 6.0),
        ] {
            if zero(want) {
                assert!(got.abs() < 1e-9, "{x:e}");
            } else if want.abs() < 1e9 {
                assert!(ulps(got, want) <= limit, "{x:e}: {got:e} for {want:e}");
            }
        }
    }
    assert_eq!(tanpi(0.5), f32::INFINITY);
    assert_eq!(tanpi(1.5), f32::NEG_INFINITY);
}

#[test]
fn fast_sine_is_within_its_absolute_bound() {
    for i in -200_000..200_000 {
        let x = i as f32 * 1.7e-5;
        assert!(
            (f64::from(sin_fast(x)) - f64::from(x).sin()).abs() < 2f64.powi(-20),
            "{x}"
        );
        assert!(
            (f64::from(cos_fast(x)) - f64::from(x).cos()).abs() < 2f64.powi(-20),
            "{x}"
        );
        let x = i as f32 * 0.4;
        assert!(
            (f64::from(sin_fast(x)) - f64::from(x).sin()).abs() < 2f64.powi(-11),
            "{x}"
        );
    }
}

#[test]
fn powers_and_angles() {
    let mut values = specials();
    values.extend((0..300u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761).rotate_left(7))));
    values.extend((-60..60).map(|i| i as f32 * 0.37));
    values.extend([5.0, 6.0, -5.0, -6.0, 1e20, 33.0]);
    for &x in &values {
        for &y in &values {
            let want = f64::from(x).powf(f64::from(y));
            assert!(
                ulps(pow(x, y), want) <= 16.0,
                "pow({x:e}, {y:e}) = {:e}, not {want:e}",
                pow(x, y)
            );
            let want = f64::from(y).atan2(f64::from(x));
            assert!(
                ulps(atan2(y, x), want) <= 6.0,
                "atan2({y:e}, {x:e}) = {:e}, not {want:e}",
                atan2(y, x)
            );
            assert!(want.is_nan() || atan2(y, x).is_sign_negative() == y.is_sign_negative());
        }
    }
    assert!(powr(-1.0, 2.0).is_nan() && powr(0.0, 0.0).is_nan());
    assert_eq!(powr(2.0, 3.0), 8.0);
}

#[test]
fn parts_of_a_float() {
    for x in samples() {
        let (fraction, exponent) = (frexp_fraction(x), frexp_exponent(x));
        if x.is_finite() && x != 0.0 {
            assert!((0.5..1.0).contains(&fraction.abs()));
            assert_eq!(ldexp(fraction, exponent) as f32, x);
            assert_eq!(ilogb(x), exponent - 1);
            assert_eq!(modf_fraction(x) + x.trunc(), x);
        }
    }
    assert_eq!(ilogb(f32::INFINITY), i32::MAX);
    assert_eq!(saturate(f32::NAN), 0.0);
    assert_eq!(sign(f32::NAN), 0.0);
    assert_eq!(fdim(3.0, 1.0), 2.0);
}
