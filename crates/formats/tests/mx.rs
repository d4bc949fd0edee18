//! MX quantisation: scales and elements against the rule worked out by other means.

use anymetal_formats::{
    ElementFormat::{self, *},
    Extents, QuantiseError, dequantise_mx, mx_scale, quantise_mx,
};

fn values(count: usize, spread: i32) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let unit = (state >> 11) as f32 / 2f32.powi(53) * 2.0 - 1.0;
            unit * 2f32.powi((state >> 7) as i32 % spread)
        })
        .collect()
}

fn largest_finite(format: ElementFormat) -> f32 {
    match format {
        Fp4E2M1 => 6.0,
        Fp8E4M3 => 448.0,
        _ => 57344.0,
    }
}

#[test]
fn every_element_is_within_half_a_step() {
    let dimensions = Extents::from([96, 7]);
    let x = values(96 * 7, 9);
    for (format, mantissa, emin) in [(Fp8E4M3, 3, -6), (Fp8E5M2, 2, -14), (Fp4E2M1, 1, 0)] {
        let q = quantise_mx(&x, &dimensions, format).unwrap();
        assert_eq!(q.data.len(), format.bytes_for(96 * 7));
        assert_eq!(q.scales.len(), 3 * 7);
        let y = q.dequantise().unwrap();
        for (block, ((x, y), &code)) in x.chunks(32).zip(y.chunks(32)).zip(&q.scales).enumerate() {
            let scale = 2f32.powi(i32::from(code) - 127);
            let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
            // The scaled maximum lies in the format's topmost binade.
            let emax = match format {
                Fp4E2M1 => 2,
                Fp8E4M3 => 8,
                _ => 15,
            };
            let scaled = largest / scale;
            assert!(
                scaled >= 2f32.powi(emax) && scaled < 2f32.powi(emax + 1),
                "{format} block {block}"
            );
            for (x, y) in x.iter().zip(y) {
                let magnitude = (x.abs() / scale).max(2f32.powi(emin));
                let step = 2f32.powi(magnitude.log2().floor() as i32 - mantissa) * scale;
                let clamped = x.clamp(-largest_finite(format) * scale, largest_finite(format) * scale);
                assert!(
                    (clamped - y).abs() <= step / 2.0,
                    "{format}: {x} became {y}, step {step}"
                );
            }
        }
    }
}

#[test]
fn scales_clamp_and_specials() {
    assert_eq!(mx_scale(1.0, Fp4E2M1), 125);
    assert_eq!(mx_scale(448.0, Fp8E4M3), 127);
    assert_eq!(mx_scale(511.9, Fp8E4M3), 127);
    assert_eq!(mx_scale(512.0, Fp8E4M3), 128);
    assert_eq!(mx_scale(57344.0, Fp8E5M2), 127);
    assert_eq!(mx_scale(0.0, Fp8E4M3), 0);
    assert_eq!(mx_scale(1e-45, Fp8E4M3), 0);
    assert_eq!(mx_scale(f64::from(f32::MAX), Fp4E2M1), 252);
    assert_eq!(mx_scale(1e300, Fp4E2M1), 254);
    assert_eq!(mx_scale(f64::INFINITY, Fp4E2M1), 255);

    let mut x = vec![0f32; 96];
    x[3] = f32::NAN;
    x[64] = -6.0;
    let q = quantise_mx(&x, &Extents::from([96]), Fp4E2M1).unwrap();
    assert_eq!(q.scales, [255, 0, 127]);
    let y = q.dequantise().unwrap();
    assert!(y[..32].iter().all(|v| v.is_nan()));
    assert!(y[32..64].iter().all(|&v| v == 0.0));
    assert_eq!(y[64], -6.0);
}

#[test]
fn values_that_the_format_holds_survive() {
    let x: Vec<f32> = (0..32).map(|i| Fp4E2M1.decode_f32(i % 16) * 0.125).collect();
    let q = quantise_mx(&x, &Extents::from([32]), Fp4E2M1).unwrap();
    assert_eq!(q.dequantise().unwrap(), x);
}

#[test]
fn integers_keep_a_symmetric_range() {
    let x: Vec<f32> = (0..32).map(|i| (i as f32 - 16.0) * 0.25 - 0.1).collect();
    for (format, top, emax) in [(I8, 127i64, 6), (Int4B, 7, 2), (Int2B, 1, 0)] {
        let q = quantise_mx(&x, &Extents::from([32]), format).unwrap();
        // The largest magnitude is 4.1, so the scale is 2^(2 − emax).
        assert_eq!(q.scales, [(127 + 2 - emax) as u8], "{format}");
        let scale = 2f32.powi(2 - emax);
        for (i, (&x, y)) in x.iter().zip(q.dequantise().unwrap()).enumerate() {
            let wanted = ((x / scale).round_ties_even() as i64).clamp(-top, top) as f32 * scale;
            assert_eq!(y, wanted, "{format} element {i} of {x}");
        }
    }
    let q = quantise_mx(&[-1.99; 32], &Extents::from([32]), Int2B).unwrap();
    assert_eq!(q.dequantise().unwrap(), [-1.0; 32]);
    let mut bad = [1.0; 64];
    bad[40] = f32::NEG_INFINITY;
    let q = quantise_mx(&bad, &Extents::from([64]), I8).unwrap();
    assert_eq!(q.scales, [121, 255]);
    assert!(q.dequantise().unwrap()[32..].iter().all(|v| v.is_nan()));
}

#[test]
fn refusals() {
    let shape = Extents::from([32, 2]);
    assert_eq!(
        quantise_mx(&[0.0; 64], &shape, F16),
        Err(QuantiseError::NotMx { format: F16 })
    );
    let error = quantise_mx(&[0.0; 66], &Extents::from([33, 2]), Fp8E4M3).unwrap_err();
    assert_eq!(error.to_string(), "dimension 0 is 33, not a multiple of 32; pad it");
    let error = quantise_mx(&[0.0; 63], &shape, Fp8E4M3).unwrap_err();
    assert_eq!(error.to_string(), "dimensions [32, 2] need 64 values, 63 were given");
    let error = dequantise_mx(&[0; 64], &[0; 1], &shape, Fp8E4M3).unwrap_err();
    assert_eq!(error.to_string(), "dimensions [32, 2] need 2 scales, 1 were given");
    assert!(quantise_mx(&[], &Extents::scalar(), Fp8E4M3).is_err());
}
