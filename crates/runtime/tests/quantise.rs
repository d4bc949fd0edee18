//! The fast quantiser against the plain reference, bit for bit.

use anymetal::quantise::{
    ErrorMetrics, FORMATS, QuantiseOptions, Quantised, dequantise, dequantise_into, quantise, quantise_bytes,
    quantise_with,
};
use anymetal::{ElementFormat, Extents};
use anymetal_formats::{dequantise_mx, quantise_mx};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Blocks of every kind: ordinary, spread over many binades, subnormal, huge, exact midpoints, zeros, NaN and infinity.
fn hard_values(count: usize) -> Vec<f32> {
    let mut random = Random(0x0123_4567_89ab_cdef);
    let mut values = Vec::with_capacity(count);
    for block in 0..count.div_ceil(32) {
        let centre = (random.next() % 270) as i32 - 140;
        for _ in 0..32 {
            let bits = random.next();
            let unit = (bits >> 40) as f32 / 2f32.powi(23) - 1.0;
            values.push(match block % 9 {
                0 => unit,
                1 => unit * 2f32.powi((bits % 30) as i32 - 15),
                2 => f32::from_bits(bits as u32 & 0x807f_ffff),
                3 => unit * f32::MAX,
                // Quarters and eighths of small numbers: ties of every format.
                4 => ((bits % 129) as f32 - 64.0) * 2f32.powi(-(bits as i32 >> 8 & 7)),
                5 => 0.0f32.copysign(unit),
                6 if bits.is_multiple_of(32) => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][bits as usize / 32 % 3],
                7 => ((unit * 16.0).round() + 0.5) * 2f32.powi(centre.clamp(-120, 120)),
                8 => f32::from_bits(bits as u32),
                _ => (f64::from(unit) * 2f64.powi(centre)) as f32,
            });
        }
    }
    values.truncate(count);
    values
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

#[test]
fn equals_the_reference_bit_for_bit() {
    let dimensions = Extents::from([96, 1201]);
    let values = hard_values(96 * 1201);
    for format in FORMATS {
        let wanted = quantise_mx(&values, &dimensions, format).unwrap();
        for threads in [1, 3] {
            let options = QuantiseOptions::new(format)
                .with_threads(threads)
                .with_metrics(threads == 3);
            let (got, _) = quantise_with(&values, &dimensions, &options).unwrap();
            for (block, (a, b)) in got.scales.iter().zip(&wanted.scales).enumerate() {
                let values = &values[block * 32..][..32];
                assert_eq!(a, b, "{format}: scale of block {block}, {values:?}");
                let bytes = format.bytes_for(32);
                let [a, b] = [&got, &wanted].map(|q| &q.data[block * bytes..][..bytes]);
                assert_eq!(a, b, "{format}: block {block}, {values:?}");
            }
            assert_eq!(got, wanted, "{format}");
        }
        let back = dequantise(&wanted).unwrap();
        let plain = dequantise_mx(&wanted.data, &wanted.scales, &dimensions, format).unwrap();
        assert!(same(&back, &plain), "{format}");
    }
}

#[test]
fn every_code_and_scale_reads_back_as_the_reference_says() {
    for format in FORMATS {
        let codes = 1usize << format.bits();
        let row: Vec<u8> = (0..codes.max(32)).map(|code| code as u8).collect();
        let mut bytes = vec![0; format.bytes_for(row.len())];
        for (i, &code) in row.iter().enumerate() {
            assert!(format.store(&mut bytes, i, code.into()));
        }
        let rows = 256;
        let dimensions = Extents::from([row.len(), rows]);
        let data = bytes.repeat(rows);
        let scales: Vec<u8> = (0..rows).flat_map(|scale| vec![scale as u8; row.len() / 32]).collect();
        let mut values = vec![0.0; row.len() * rows];
        dequantise_into(format, &dimensions, &data, &scales, &mut values).unwrap();
        let wanted = dequantise_mx(&data, &scales, &dimensions, format).unwrap();
        for (i, (&a, &b)) in values.iter().zip(&wanted).enumerate() {
            let (code, scale) = (row[i % row.len()], i / row.len());
            assert!(
                same(&[a], &[b]),
                "{format} code {code:#x} scale {scale}: {a:e} instead of {b:e}"
            );
        }
    }
}

#[test]
fn sixteen_bit_sources_are_widened_exactly() {
    // All codes of both formats, NaNs and infinities apart: they spoil their block.
    for source in [ElementFormat::F16, ElementFormat::BF16] {
        let codes: Vec<u16> = (0..=u16::MAX)
            .filter(|&code| source.decode(code.into()).is_finite())
            .chain([0x7f80 | 1, 0x7c00, 0xfc00, 0xffff])
            .collect();
        let mut codes = codes;
        codes.resize(codes.len().next_multiple_of(32), 0);
        let values: Vec<f32> = codes.iter().map(|&code| source.decode_f32(code.into())).collect();
        let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
        // One byte further on, so that nothing is aligned.
        let mut shifted = vec![0];
        shifted.extend(&bytes);
        let dimensions = Extents::from([codes.len()]);
        for format in FORMATS {
            let wanted = quantise_mx(&values, &dimensions, format).unwrap();
            let options = QuantiseOptions::new(format);
            let (got, none) = quantise_bytes(&shifted[1..], source, &dimensions, &options).unwrap();
            assert!(got == wanted && none.is_none(), "{format} from {source}");
        }
    }
}

#[test]
fn rows_are_padded_with_zeros() {
    let (columns, rows) = (45, 7);
    let values = hard_values(columns * rows);
    let mut padded = Vec::new();
    for row in values.chunks(columns) {
        padded.extend(row);
        padded.resize(padded.len().next_multiple_of(32), 0.0);
    }
    for format in FORMATS {
        let options = QuantiseOptions::new(format).with_padding(true).with_metrics(true);
        let (got, metrics) = quantise_with(&values, &Extents::from([columns, rows]), &options).unwrap();
        assert_eq!(got, quantise_mx(&padded, &Extents::from([64, rows]), format).unwrap());
        let metrics = metrics.unwrap();
        assert_eq!(metrics.elements + metrics.non_finite, (columns * rows) as u64);
    }
    let nothing = quantise_with(
        &[],
        &Extents::from([0, 4]),
        &QuantiseOptions::new(FORMATS[0]).with_metrics(true),
    );
    let (nothing, metrics) = nothing.unwrap();
    assert!(nothing.data.is_empty() && nothing.scales.is_empty());
    assert_eq!((metrics.unwrap().elements, metrics.unwrap().rms_error), (0, 0.0));
}

/// The error in f64, from the values themselves.
fn measured(values: &[f32], quantised: &Quantised) -> (f64, f64, f64) {
    let back = quantised.dequantise().unwrap();
    let (mut largest, mut error, mut signal) = (0f64, 0f64, 0f64);
    for (&x, &y) in values.iter().zip(&back) {
        let lost = (f64::from(x) - f64::from(y)).abs();
        largest = largest.max(lost);
        error += lost * lost;
        signal += f64::from(x) * f64::from(x);
    }
    let count = values.len() as f64;
    (largest, (error / count).sqrt(), 10.0 * (signal / error).log10())
}

#[test]
fn metrics_are_those_of_a_sum_in_f64() {
    let mut random = Random(77);
    for magnitude in [1.0, 1e-30, 1e30] {
        let values: Vec<f32> = (0..320 * 50)
            .map(|_| ((random.next() >> 40) as f32 / 2f32.powi(23) - 1.0) * magnitude)
            .collect();
        for format in FORMATS {
            let options = QuantiseOptions::new(format).with_metrics(true);
            let (quantised, metrics) = quantise_with(&values, &Extents::from([320, 50]), &options).unwrap();
            let metrics: ErrorMetrics = metrics.unwrap();
            let (largest, rms, sqnr) = measured(&values, &quantised);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs();
            assert!(near(metrics.max_error, largest), "{format}: {metrics:?}, {largest:e}");
            assert!(near(metrics.rms_error, rms), "{format}: {metrics:?}, {rms:e}");
            assert!((metrics.sqnr_db - sqnr).abs() < 1e-3, "{format}: {metrics:?}, {sqnr}");
            assert_eq!((metrics.elements, metrics.non_finite), (16000, 0));
        }
    }
}

#[test]
fn refusals() {
    let text = |result: anymetal::Result<Quantised>| result.unwrap_err().to_string();
    assert_eq!(
        text(quantise(&[0.0; 32], &Extents::from([32]), ElementFormat::UInt4B)),
        "uint4 is not a format for blocks with power-of-two scales; use fp8_e4m3, fp8_e5m2, fp4_e2m1, i8, int4 or int2"
    );
    assert_eq!(
        text(quantise(&[0.0; 33], &Extents::from([33]), ElementFormat::I8)),
        "dimension 0 is 33, not a multiple of 32; pad it"
    );
    assert_eq!(
        text(quantise(&[0.0], &Extents::scalar(), ElementFormat::I8)),
        "dimension 0 is 1, not a multiple of 32; pad it"
    );
    assert_eq!(
        text(quantise(&[0.0; 31], &Extents::from([32]), ElementFormat::I8)),
        "dimensions [32] need 128 bytes of values, 124 were given"
    );
    let huge = Extents::from([1 << 40, 1 << 40]);
    assert!(quantise(&[0.0; 32], &huge, ElementFormat::I8).is_err());
    assert!(quantise(&[0.0; 32], &Extents::from([usize::MAX]), ElementFormat::I8).is_err());
    let options = QuantiseOptions::new(ElementFormat::I8).with_padding(true);
    assert!(quantise_with(&[0.0; 32], &Extents::from([usize::MAX]), &options).is_err());
    assert!(quantise_with(&[0.0; 32], &huge, &options).is_err());
    let integers = quantise_bytes(&[0; 64], ElementFormat::I16, &Extents::from([32]), &options);
    assert_eq!(
        integers.unwrap_err().to_string(),
        "values of i16 cannot be quantised; give f32, f16 or bf16"
    );
    let mut out = [0.0; 31];
    let short = dequantise_into(ElementFormat::I8, &Extents::from([32]), &[0; 32], &[0], &mut out);
    assert_eq!(
        short.unwrap_err().to_string(),
        "dimensions [32] need 32 values, 31 were given"
    );
    let short = dequantise_into(ElementFormat::Int2B, &Extents::from([32]), &[0; 7], &[0], &mut out);
    assert_eq!(
        short.unwrap_err().to_string(),
        "dimensions [32] need 8 data bytes, 7 were given"
    );
}
