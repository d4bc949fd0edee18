//! Every code of every narrow format against formulas written independently here, and rounding against `ml_dtypes`.

use ElementFormat::*;
use anymetal_formats::{ElementFormat, Saturation};

/// sign · 2^(field − bias) · (1 + mantissa / 2^m), or the subnormal form, by powers and products only.
fn formula(code: u32, exponent_bits: i32, mantissa_bits: i32, bias: i32) -> f64 {
    let mantissa = f64::from(code % (1 << mantissa_bits));
    let field = (code >> mantissa_bits) % (1 << exponent_bits);
    let sign = if code >> (mantissa_bits + exponent_bits) & 1 == 1 {
        -1.0
    } else {
        1.0
    };
    let unit = 2f64.powi(mantissa_bits);
    if field == 0 {
        sign * 2f64.powi(1 - bias) * (mantissa / unit)
    } else {
        sign * 2f64.powi(field as i32 - bias) * (1.0 + mantissa / unit)
    }
}

fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a == b && a.is_sign_negative() == b.is_sign_negative())
}

#[test]
fn every_narrow_code_decodes_to_its_formula() {
    for format in ElementFormat::ALL {
        let bits = format.bits();
        if bits > 16 {
            continue;
        }
        for code in 0..1u32 << bits {
            let signed = |bits: u32| {
                if code >> (bits - 1) == 1 {
                    f64::from(code) - 2f64.powi(bits as i32)
                } else {
                    f64::from(code)
                }
            };
            let wanted = match format {
                Bool => f64::from(u8::from(code != 0)),
                U8 | U16 | UInt4B | UInt2B => f64::from(code),
                I8 | I16 | Int4B | Int2B => signed(bits as u32),
                Fp4E2M1 => formula(code, 2, 1, 1),
                Fp8E4M3 if code & 0x7f == 0x7f => f64::NAN,
                Fp8E4M3 => formula(code, 4, 3, 7),
                Fp8E5M2 if code & 0x7f > 0x7c => f64::NAN,
                Fp8E5M2 if code & 0x7f == 0x7c => formula(code, 5, 2, 15).signum() * f64::INFINITY,
                Fp8E5M2 => formula(code, 5, 2, 15),
                Fp8UE8M0 if code == 255 => f64::NAN,
                Fp8UE8M0 => 2f64.powi(code as i32 - 127),
                F16 if code & 0x7fff > 0x7c00 => f64::NAN,
                F16 if code & 0x7fff == 0x7c00 => formula(code, 5, 10, 15).signum() * f64::INFINITY,
                F16 => formula(code, 5, 10, 15),
                BF16 if code & 0x7fff > 0x7f80 => f64::NAN,
                BF16 if code & 0x7fff == 0x7f80 => formula(code, 8, 7, 127).signum() * f64::INFINITY,
                BF16 => formula(code, 8, 7, 127),
                _ => unreachable!("wider than 16 bits"),
            };
            let got = format.decode(code.into());
            assert!(same(got, wanted), "{format} {code:#x}: {got} instead of {wanted}");
            assert!(
                same(f64::from(format.decode_f32(code.into())), wanted),
                "{format} {code:#x} as f32"
            );
        }
    }
}

#[test]
fn every_code_encodes_back() {
    for format in ElementFormat::ALL {
        if format.bits() > 16 {
            continue;
        }
        for code in 0..1u64 << format.bits() {
            let value = format.decode(code);
            if value.is_nan() || format == Bool {
                continue;
            }
            assert_eq!(
                format.encode_with(value, Saturation::Overflow),
                code,
                "{format} {code:#x} = {value}"
            );
        }
    }
}

/// The nearest code by search over all of them, ties to the even one (UE8M0: the upper one): slow and obvious.
fn nearest(format: ElementFormat, value: f64) -> u64 {
    let mut best: Option<(f64, u64)> = None;
    for code in 0..1u64 << format.bits() {
        let candidate = format.decode(code);
        if !candidate.is_finite() || candidate.is_sign_negative() != value.is_sign_negative() {
            continue;
        }
        let distance = (candidate - value).abs();
        let better = match best {
            None => true,
            Some((d, c)) => distance < d || (distance == d && ((code & 1 == 0 && c & 1 == 1) || format == Fp8UE8M0)),
        };
        if better {
            best = Some((distance, code));
        }
    }
    best.expect("a code of this sign").1
}

#[test]
fn clamped_encoding_is_the_nearest_code() {
    // A fixed generator: values over many binades, exact midpoints and their neighbours.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for format in [Fp4E2M1, Fp8E4M3, Fp8E5M2, Fp8UE8M0, Int4B, Int2B] {
        let mut values = Vec::new();
        for code in 0..(1u64 << format.bits()) - 1 {
            let (a, b) = (format.decode(code), format.decode(code + 1));
            let middle = (a + b) / 2.0;
            values.extend([a, middle, middle.next_up(), middle.next_down()]);
        }
        for _ in 0..2000 {
            let mantissa = 1.0 + (random() >> 11) as f64 / 2f64.powi(53);
            let sign = if random() & 1 == 1 { -1.0 } else { 1.0 };
            values.push(sign * mantissa * 2f64.powi((random() % 40) as i32 - 22));
        }
        for value in values {
            // Near f64's end the distances to all codes round to the same number.
            if value.is_nan() || value.abs() > 1e200 || (format == Fp8UE8M0 && value <= 0.0) {
                continue;
            }
            // The integers know no negative zero, so a search among codes of the same sign is not their rule.
            if format.is_integer() && value <= 0.0 && value.round_ties_even() == 0.0 {
                assert_eq!(format.encode_with(value, Saturation::Clamp), 0);
                continue;
            }
            let got = format.encode_with(value, Saturation::Clamp);
            assert_eq!(got, nearest(format, value), "{format} of {value:e}");
        }
    }
}

#[test]
fn overflow_and_specials() {
    let e4m3 = |v, s| Fp8E4M3.encode_with(v, s);
    assert_eq!(Fp8E4M3.encode(1e9), 0x7e);
    assert_eq!(Fp8E4M3.encode(f64::NEG_INFINITY), 0xfe);
    assert_eq!(e4m3(464.0, Saturation::Overflow), 0x7e);
    assert_eq!(e4m3(464f64.next_up(), Saturation::Overflow), 0x7f);
    assert_eq!(e4m3(-1e9, Saturation::Overflow), 0xff);
    assert_eq!(Fp8E4M3.encode(f64::NAN), 0x7f);
    assert_eq!(Fp8E5M2.encode(61440f64.next_down()), 0x7b);
    assert_eq!(Fp8E5M2.encode(61440.0), 0x7c);
    assert_eq!(Fp8E5M2.encode_with(1e9, Saturation::Clamp), 0x7b);
    assert_eq!(Fp8E5M2.encode(f64::NAN), 0x7e);
    assert_eq!(Fp4E2M1.encode(100.0), 7);
    assert_eq!(Fp4E2M1.encode(f64::NEG_INFINITY), 15);
    assert_eq!(Fp8UE8M0.decode(0), 2f64.powi(-127));
    assert_eq!(Fp8UE8M0.decode_f32(0).to_bits(), 0x0040_0000);
    assert_eq!(Fp8UE8M0.encode(0.0), 0);
    for saturation in [Saturation::Default, Saturation::Clamp, Saturation::Overflow] {
        assert_eq!(Fp8UE8M0.encode_with(-0.0, saturation), 0);
    }
    assert_eq!(Fp8UE8M0.encode(-1.0), 255);
    assert_eq!(Fp8UE8M0.encode_with(1e300, Saturation::Clamp), 254);
    assert_eq!(F16.encode(65520.0), 0x7c00);
    assert_eq!(F16.encode(65520f64.next_down()), 0x7bff);
    // A double rounding through f32 would go to the wrong side here.
    let just_above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(F16.encode(just_above_tie), 0x3c01);
    assert_eq!(I8.encode(127.5), 0x7f);
    assert_eq!(I8.encode(-128.5), 0x80);
    assert_eq!(I8.encode(2.5), 2);
    assert_eq!(U8.encode(-3.0), 0);
    assert_eq!(U32.encode(1e20), u64::from(u32::MAX));
    assert_eq!(I32.encode(f64::NAN), 0);
    assert_eq!(I64.encode(-1.0), u64::MAX);
}

#[test]
fn agrees_with_ml_dtypes() {
    let golden = include_str!("golden/encode.txt");
    let mut count = 0;
    for line in golden.lines() {
        let mut fields = line.split(' ');
        let mut next = || fields.next().expect("three fields");
        let format: ElementFormat = next().parse().expect("a format name");
        let value = f64::from_bits(u64::from_str_radix(next(), 16).expect("bits of an f64"));
        let code = u64::from_str_radix(next(), 16).expect("a code");
        let got = format.encode_with(value, Saturation::Overflow);
        assert_eq!(got, code, "{format} of {value:e}: {got:#x} instead of {code:#x}");
        count += 1;
    }
    assert!(count > 4000);
}

/// The fields of a golden file's lines, split at blanks.
fn lines(golden: &str) -> impl Iterator<Item = Vec<&str>> {
    golden.lines().map(|line| line.split(' ').collect())
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("a hexadecimal number")
}

#[test]
fn every_code_of_a_byte_or_less_means_what_ml_dtypes_says() {
    let mut formats = 0;
    for fields in lines(include_str!("golden/codes.txt")) {
        let format: ElementFormat = fields[0].parse().expect("a format name");
        assert_eq!(fields.len() - 1, 1 << format.bits(), "{format}");
        for (code, bits) in fields[1..].iter().enumerate() {
            let wanted = f32::from_bits(hexadecimal(bits) as u32);
            let got = format.decode_f32(code as u64);
            assert!(
                got.to_bits() == wanted.to_bits() || (got.is_nan() && wanted.is_nan()),
                "{format} {code:#x}: {got} instead of {wanted}"
            );
        }
        formats += 1;
    }
    assert_eq!(formats, 10, "every format of 8 bits or fewer except bool");
}

#[test]
fn all_16_bit_floats_round_as_ml_dtypes_says() {
    let mut count = 0;
    for fields in lines(include_str!("golden/rounding.txt")) {
        let format: ElementFormat = fields[0].parse().expect("a format name");
        let source: ElementFormat = fields[1].parse().expect("a format name");
        let saturation = match fields[2] {
            "overflow" => Saturation::Overflow,
            "clamp" => Saturation::Clamp,
            other => panic!("{other} is no saturation"),
        };
        let runs: Vec<(u64, u64)> = fields[3..]
            .iter()
            .map(|run| run.split_once(':').expect("FIRST:CODE"))
            .map(|(first, code)| (hexadecimal(first), hexadecimal(code)))
            .collect();
        for (i, &(first, wanted)) in runs.iter().enumerate() {
            let end = runs.get(i + 1).map_or(1 << 16, |next| next.0);
            for input in first..end {
                let value = source.decode(input);
                let got = format.encode_with(value, saturation);
                assert_eq!(
                    got, wanted,
                    "{format} of {source} {input:#x} = {value:e}, {saturation:?}"
                );
                // What the default does is one of the two, by format.
                let clamps = matches!(format, Fp4E2M1 | Fp8E4M3) || format.is_integer();
                if clamps == (saturation == Saturation::Clamp) {
                    assert_eq!(format.encode(value), wanted, "{format} of {value:e} by default");
                }
                count += 1;
            }
        }
    }
    assert_eq!(count, 10 * 2 * 2 * 65536);
}

#[test]
fn doubles_are_rounded_once() {
    let mut count = 0;
    for fields in lines(include_str!("golden/double.txt")) {
        let format: ElementFormat = fields[0].parse().expect("a format name");
        let value = f64::from_bits(hexadecimal(fields[1]));
        let got = format.encode_with(value, Saturation::Overflow);
        assert_eq!(got, hexadecimal(fields[2]), "{format} of {value:e}");
        count += 1;
    }
    assert!(count > 1500, "{count}");
}

#[test]
fn sub_byte_elements_start_at_the_low_bits() {
    let bytes = Int2B.pack([0.0, 1.0, -2.0, -1.0, 1.0], Saturation::Default);
    assert_eq!(bytes, [0b11_10_01_00, 0b01]);
    let bytes = Fp4E2M1.pack([0.5, -6.0, 3.0], Saturation::Default);
    assert_eq!(bytes, [0xf1, 0x05]);
    assert_eq!(Fp4E2M1.unpack(&bytes, 3), Some(vec![0.5, -6.0, 3.0]));
    assert_eq!(Fp4E2M1.unpack(&bytes, 5), None);
    let mut bytes = [0xff; 2];
    assert!(UInt4B.store(&mut bytes, 1, 3));
    assert!(!UInt4B.store(&mut bytes, 4, 3));
    assert_eq!(bytes, [0x3f, 0xff]);
    assert_eq!(UInt4B.load(&bytes, 1), Some(3));
    assert_eq!(U32.load(&[1, 2, 3], 0), None);
    assert_eq!(F32.load(&[0; 8], usize::MAX), None);
    for format in ElementFormat::ALL {
        let code = 0x0123_4567_89ab_cdefu64 & (u64::MAX >> (64 - format.bits()));
        let mut bytes = vec![0; format.bytes_for(7)];
        assert!(format.store(&mut bytes, 5, code));
        assert_eq!(format.load(&bytes, 5), Some(code), "{format}");
        assert_eq!(format.load(&bytes, 4), Some(0), "{format}");
        assert_eq!(format.load(&bytes, 6), Some(0), "{format}");
    }
}

#[test]
fn packing_wide_formats_is_encoding_each() {
    let values: Vec<f32> = (0..1 << 16).map(|i| f32::from_bits(i * 65521)).collect();
    for format in [F16, BF16, F32] {
        for saturation in [Saturation::Default, Saturation::Clamp, Saturation::Overflow] {
            let packed = format.pack_f32(&values, saturation);
            let unpacked = format.unpack(&packed, values.len()).expect("enough bytes");
            for (i, (&value, &back)) in values.iter().zip(&unpacked).enumerate() {
                let code = format.load(&packed, i).expect("an element");
                assert!(same(f64::from(back), format.decode(code)));
                if !value.is_nan() {
                    assert_eq!(
                        code,
                        format.encode_with(value.into(), saturation),
                        "{format} of {value:e}"
                    );
                }
            }
        }
    }
}
