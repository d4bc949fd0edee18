//! Exact conversion between element codes and numbers, one element at a time.
//!
//! A *code* is the element's bits in the low end of a `u64`. Decoding is exact. Encoding takes the nearest
//! representable value, ties to the one whose last bit is zero, straight from `f64` (no intermediate rounding).

use crate::format::{ElementFormat, FloatShape, Specials};

/// What encoding does with a value past the format's largest finite one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Saturation {
    /// What Metal's `pack` does by default as far as it is known: E4M3 and E2M1 clamp, E5M2, `half`, `bfloat` and
    /// `float` overflow to infinity, integers clamp.
    #[default]
    Default,
    /// Clamp to the largest finite value, infinities included. NaN stays NaN.
    Clamp,
    /// Overflow to infinity, or to NaN in formats without infinity (E4M3: past 464; UE8M0). E2M1 and the integers,
    /// which have neither, clamp.
    Overflow,
}

impl ElementFormat {
    /// The largest finite value, or the largest integer (rounded to `f64` for the 64-bit ones).
    pub fn max_finite(self) -> f64 {
        use ElementFormat::*;
        match self {
            Bool => 1.0,
            I8 => i8::MAX.into(),
            U8 => u8::MAX.into(),
            I16 => i16::MAX.into(),
            U16 => u16::MAX.into(),
            I32 => i32::MAX.into(),
            U32 => u32::MAX.into(),
            I64 => i64::MAX as f64,
            U64 => u64::MAX as f64,
            Int4B => 7.0,
            UInt4B => 15.0,
            Int2B => 1.0,
            UInt2B => 3.0,
            F16 => 65504.0,
            BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
            F32 => f64::from(f32::MAX),
            Fp4E2M1 => 6.0,
            Fp8E4M3 => 448.0,
            Fp8E5M2 => 57344.0,
            Fp8UE8M0 => 2f64.powi(127),
        }
    }

    /// The exponent of the largest power of two that the format holds (`emax` of the OCP MX specification), for the
    /// floating-point formats; `None` for the others.
    pub const fn max_exponent(self) -> Option<i32> {
        use ElementFormat::*;
        Some(match self {
            F16 | Fp8E5M2 => 15,
            BF16 | F32 | Fp8UE8M0 => 127,
            Fp4E2M1 => 2,
            Fp8E4M3 => 8,
            _ => return None,
        })
    }

    /// The value of `code` (only the low [`bits`](Self::bits) are looked at). Exact, except that 64-bit integers
    /// beyond 2^53 round to `f64`.
    pub fn decode(self, code: u64) -> f64 {
        use ElementFormat::*;
        match self {
            Bool => f64::from(u8::from(code & 0xff != 0)),
            I8 => f64::from(code as i8),
            U8 => f64::from(code as u8),
            I16 => f64::from(code as i16),
            U16 => f64::from(code as u16),
            I32 => f64::from(code as i32),
            U32 => f64::from(code as u32),
            I64 => code as i64 as f64,
            U64 => code as f64,
            F32 => f64::from(f32::from_bits(code as u32)),
            _ => f64::from(self.decode_f32(code)),
        }
    }

    /// The value of `code` as `f32`. Exact for every format of 16 bits or fewer and for `float`; wider integers round.
    pub fn decode_f32(self, code: u64) -> f32 {
        use ElementFormat::*;
        if let Some(table) = self.decode_table() {
            return table[code as usize & (table.len() - 1)];
        }
        match self {
            F16 => half::f16::from_bits(code as u16).to_f32(),
            BF16 => half::bf16::from_bits(code as u16).to_f32(),
            F32 => f32::from_bits(code as u32),
            I64 => code as i64 as f32,
            U64 => code as f32,
            _ => self.decode(code) as f32,
        }
    }

    /// The values of all codes in order, for the formats of 8 bits or fewer: 256, 16 or 4 entries.
    pub fn decode_table(self) -> Option<&'static [f32]> {
        use ElementFormat::*;
        Some(match self {
            Bool => &BOOL,
            I8 => &I8_TABLE,
            U8 => &U8_TABLE,
            Int4B => &INT4,
            UInt4B => &UINT4,
            Int2B => &INT2,
            UInt2B => &UINT2,
            Fp4E2M1 => &E2M1,
            Fp8E4M3 => &E4M3,
            Fp8E5M2 => &E5M2,
            Fp8UE8M0 => &UE8M0,
            _ => return None,
        })
    }

    /// The code nearest to `value`, ties to even, overflow by [`Saturation::Default`].
    pub fn encode(self, value: f64) -> u64 {
        self.encode_with(value, Saturation::Default)
    }

    /// The code nearest to `value`, ties to even.
    ///
    /// NaN becomes the format's NaN with its sign kept; in E2M1 negative zero (as `ml_dtypes` has it), in integers
    /// and `Bool` zero. Every other non-zero value is `true`. UE8M0 has no sign and no zero: zero and everything below
    /// 2^-127 become code 0, negative values NaN; its ties, at 1.5 times a power of two, go up.
    pub fn encode_with(self, value: f64, saturation: Saturation) -> u64 {
        use ElementFormat::*;
        if let Some(shape) = self.float_shape() {
            let clamp = match saturation {
                Saturation::Default => matches!(self, Fp8E4M3 | Fp4E2M1),
                Saturation::Clamp => true,
                Saturation::Overflow => shape.specials == Specials::None,
            };
            return encode_float(value, shape, clamp);
        }
        match self {
            Bool => u64::from(value != 0.0 && !value.is_nan()),
            Fp8UE8M0 => encode_ue8m0(value, saturation == Saturation::Clamp),
            U64 => value.round_ties_even() as u64,
            I64 => value.round_ties_even() as i64 as u64,
            _ => {
                let (bits, signed) = (self.bits() as u32, self.is_signed());
                let (low, high) = if signed {
                    (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
                } else {
                    (0, (1i64 << bits) - 1)
                };
                let integer = (value.round_ties_even() as i64).clamp(low, high);
                integer as u64 & ((1 << bits) - 1)
            }
        }
    }
}

/// Rounds `value` into a sign-exponent-mantissa format.
fn encode_float(value: f64, shape: FloatShape, clamp: bool) -> u64 {
    let FloatShape {
        exponent_bits,
        mantissa_bits,
        bias,
        specials,
    } = shape;
    let sign = u64::from(value.is_sign_negative()) << (exponent_bits + mantissa_bits);
    let all_ones = (1u64 << (exponent_bits + mantissa_bits)) - 1;
    let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
    // The largest finite code and what stands above it.
    let (largest, above) = match specials {
        Specials::Ieee => (infinity - 1, infinity),
        Specials::AllOnesNan => (all_ones - 1, all_ones),
        Specials::None => (all_ones, all_ones),
    };
    if value.is_nan() {
        return match specials {
            Specials::Ieee => sign | infinity | (1 << (mantissa_bits - 1)),
            Specials::AllOnesNan => sign | all_ones,
            Specials::None => 1 << (exponent_bits + mantissa_bits),
        };
    }
    if value.is_infinite() {
        return sign | if clamp { largest } else { above };
    }
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (significand, exponent) = if field == 0 {
        (fraction, -1022)
    } else {
        (fraction | 1 << 52, field - 1023)
    };
    if significand == 0 {
        return sign;
    }
    // |value| = significand · 2^(exponent − 52). In units of the target's last place it is an integer after rounding,
    // and adding the exponent field carries into the next binade by itself.
    let lowest = 1 - bias;
    let target = exponent.max(lowest);
    let shift = 52 - mantissa_bits as i32 + (target - exponent);
    let rounded = if shift > 54 {
        0
    } else {
        round_shift(significand, shift as u32)
    };
    let code = (((target - lowest) as u64) << mantissa_bits) + rounded;
    sign | if code <= largest {
        code
    } else if clamp {
        largest
    } else {
        above
    }
}

/// `value / 2^shift` rounded to nearest, ties to even.
fn round_shift(value: u64, shift: u32) -> u64 {
    if shift == 0 {
        return value;
    }
    let (kept, dropped, half) = (value >> shift, value & ((1 << shift) - 1), 1u64 << (shift - 1));
    kept + u64::from(dropped > half || (dropped == half && kept & 1 == 1))
}

fn encode_ue8m0(value: f64, clamp: bool) -> u64 {
    if value == 0.0 {
        // Of either sign: the format has no zero, and the smallest scale is the nearest.
        return 0;
    }
    if value.is_nan() || value < 0.0 {
        return 255;
    }
    if value.is_infinite() {
        return if clamp { 254 } else { 255 };
    }
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i64 - 1023 + 127;
    if exponent < 0 {
        // Below 2^-127. The nearest code is 0 whatever the distance.
        return 0;
    }
    // A significand without fraction bits is always 1, which is odd, so the tie at 1.5 goes up (as in `ml_dtypes`).
    let (fraction, half) = (bits & ((1 << 52) - 1), 1u64 << 51);
    let code = exponent as u64 + u64::from(fraction >= half);
    match code {
        0..=254 => code,
        _ if clamp => 254,
        _ => 255,
    }
}

const fn small_float(code: u32, shape: FloatShape) -> f32 {
    let FloatShape {
        exponent_bits,
        mantissa_bits,
        bias,
        specials,
    } = shape;
    let magnitude = code & ((1 << (exponent_bits + mantissa_bits)) - 1);
    let sign = (code >> (exponent_bits + mantissa_bits) & 1) << 31;
    let (field, mantissa) = (magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1));
    let ones = (1 << exponent_bits) - 1;
    let f32_nan_mantissa = 1 << 22;
    match specials {
        Specials::Ieee if field == ones => {
            let payload = if mantissa == 0 { 0 } else { f32_nan_mantissa };
            return f32::from_bits(sign | 0x7f80_0000 | payload);
        }
        Specials::AllOnesNan if field == ones && mantissa == (1 << mantissa_bits) - 1 => {
            return f32::from_bits(sign | 0x7f80_0000 | f32_nan_mantissa);
        }
        _ => {}
    }
    if magnitude == 0 {
        return f32::from_bits(sign);
    }
    // Bring subnormals into the form 1.m first: all of these formats' values are normal in f32.
    let (mut significand, mut exponent) = if field == 0 {
        (mantissa, 1 - bias)
    } else {
        (mantissa | 1 << mantissa_bits, field as i32 - bias)
    };
    while significand < 1 << mantissa_bits {
        significand <<= 1;
        exponent -= 1;
    }
    let fraction = (significand & ((1 << mantissa_bits) - 1)) << (23 - mantissa_bits);
    f32::from_bits(sign | ((exponent + 127) as u32) << 23 | fraction)
}

const fn float_table<const N: usize>(format: ElementFormat) -> [f32; N] {
    let mut table = [0.0; N];
    let Some(shape) = format.float_shape() else {
        return table;
    };
    let mut code = 0;
    while code < N {
        table[code] = small_float(code as u32, shape);
        code += 1;
    }
    table
}

const fn int_table<const N: usize>(signed: bool) -> [f32; N] {
    let mut table = [0.0; N];
    let mut code = 0;
    while code < N {
        let value = code as i32;
        table[code] = if signed && code >= N / 2 {
            value - N as i32
        } else {
            value
        } as f32;
        code += 1;
    }
    table
}

const fn bool_table() -> [f32; 256] {
    let mut table = [1.0; 256];
    table[0] = 0.0;
    table
}

const fn ue8m0_table() -> [f32; 256] {
    let mut table = [0.0; 256];
    // 2^-127 is subnormal in f32.
    table[0] = f32::from_bits(0x0040_0000);
    let mut code = 1;
    while code < 255 {
        table[code] = f32::from_bits((code as u32) << 23);
        code += 1;
    }
    table[255] = f32::from_bits(0x7fc0_0000);
    table
}

static BOOL: [f32; 256] = bool_table();
static I8_TABLE: [f32; 256] = int_table(true);
static U8_TABLE: [f32; 256] = int_table(false);
static INT4: [f32; 16] = int_table(true);
static UINT4: [f32; 16] = int_table(false);
static INT2: [f32; 4] = int_table(true);
static UINT2: [f32; 4] = int_table(false);
static E2M1: [f32; 16] = float_table(ElementFormat::Fp4E2M1);
static E4M3: [f32; 256] = float_table(ElementFormat::Fp8E4M3);
static E5M2: [f32; 256] = float_table(ElementFormat::Fp8E5M2);
static UE8M0: [f32; 256] = ue8m0_table();
