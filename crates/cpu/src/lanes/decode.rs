//! Codes of small formats to `f32` by arithmetic that vectorises, exact and equal to the formats' own tables.

use anymetal_formats::ElementFormat;

use super::{Fn1, Isa, Un, un};

struct E2m1;
struct E4m3;
struct E5m2;
struct Ue8m0;
struct Int4;
struct Int2;
struct Unsigned;

impl Un<u8> for E2m1 {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        let code = u32::from(code);
        // Twice the magnitudes of codes 0 to 7, a nibble each.
        let doubled = (0xc864_3210u32 >> ((code & 7) * 4)) & 15;
        f32::from_bits((doubled as i32 as f32 * 0.5).to_bits() | (code & 8) << 28)
    }
}

/// A float of 8 bits with `MANTISSA` bits of significand and a bias of `BIAS`, without its special values.
#[inline(always)]
fn small_float<const MANTISSA: u32, const BIAS: u32>(code: u32) -> (u32, u32) {
    let fraction = code & ((1 << MANTISSA) - 1);
    let exponent = code >> MANTISSA & (0x7f >> MANTISSA);
    let normal = ((code & 0x7f) << (23 - MANTISSA)) + ((127 - BIAS) << 23);
    // 2^(1 − BIAS − MANTISSA), the step of subnormals.
    let step = f32::from_bits((128 - BIAS - MANTISSA) << 23);
    let subnormal = (fraction as i32 as f32 * step).to_bits();
    let magnitude = if exponent == 0 { subnormal } else { normal };
    (magnitude, (code & 0x80) << 24)
}

impl Un<u8> for E4m3 {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        let code = u32::from(code);
        let (magnitude, sign) = small_float::<3, 7>(code);
        let magnitude = if code & 0x7f == 0x7f { 0x7fc0_0000 } else { magnitude };
        f32::from_bits(magnitude | sign)
    }
}

impl Un<u8> for E5m2 {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        let code = u32::from(code);
        let (magnitude, sign) = small_float::<2, 15>(code);
        let quiet = if code & 3 == 0 { 0 } else { 1 << 22 };
        let special = 0x7f80_0000 | quiet;
        let magnitude = if code & 0x7c == 0x7c { special } else { magnitude };
        f32::from_bits(magnitude | sign)
    }
}

impl Un<u8> for Ue8m0 {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        f32::from_bits(match code {
            0 => 1 << 22,
            255 => 0x7fc0_0000,
            _ => u32::from(code) << 23,
        })
    }
}

impl Un<u8> for Int4 {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        (i32::from(code) << 28 >> 28) as f32
    }
}

impl Un<u8> for Int2 {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        (i32::from(code) << 30 >> 30) as f32
    }
}

impl Un<u8> for Unsigned {
    type Out = f32;
    #[inline(always)]
    fn apply(code: u8) -> f32 {
        i32::from(code) as f32
    }
}

/// The loop that decodes the codes of a format of at most 8 bits.
pub(crate) fn decode(format: ElementFormat, isa: Isa) -> Option<Fn1> {
    Some(match format {
        ElementFormat::Fp4E2M1 => un::<u8, E2m1>(isa),
        ElementFormat::Fp8E4M3 => un::<u8, E4m3>(isa),
        ElementFormat::Fp8E5M2 => un::<u8, E5m2>(isa),
        ElementFormat::Fp8UE8M0 => un::<u8, Ue8m0>(isa),
        ElementFormat::Int4B => un::<u8, Int4>(isa),
        ElementFormat::Int2B => un::<u8, Int2>(isa),
        ElementFormat::UInt4B | ElementFormat::UInt2B => un::<u8, Unsigned>(isa),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{CHUNK, Src};
    use super::*;

    #[test]
    fn every_code_of_every_format() {
        use ElementFormat::*;
        for format in [Fp4E2M1, Fp8E4M3, Fp8E5M2, Fp8UE8M0, Int4B, Int2B, UInt4B, UInt2B] {
            let codes: Vec<u8> = (0..256usize).map(|i| (i % (1 << format.bits())) as u8).collect();
            for isa in [Isa::Portable, Isa::detect()] {
                let mut out = vec![0f32; 256];
                let src = Src {
                    ptr: codes.as_ptr(),
                    step: CHUNK,
                };
                let f = decode(format, isa).unwrap_or_else(|| panic!("no loop for {format}"));
                // SAFETY: both have 8 chunks.
                unsafe { f(256 / CHUNK, out.as_mut_ptr().cast(), src) };
                for (&code, got) in codes.iter().zip(out) {
                    let want = format.decode_f32(code.into());
                    let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                    assert!(same, "{format} {code:#x}: {got} instead of {want}");
                }
            }
        }
    }
}
