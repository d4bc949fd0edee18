//! What a product multiplies in, and how elements of every format become that.

use anymetal_formats::ElementFormat;
use anymetal_ir::{MatmulDescriptor, Scalar};

use super::emit::{def, float, low_half};
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// The instruction of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// `mma.m16n8k16`, operands of `f16`.
    F16,
    /// `mma.m16n8k16`, operands of `bf16`.
    Bf16,
    /// `mma.m16n8k8`, operands of `tf32`: holds `f16` and `bf16` exactly.
    Tf32,
    /// `mma.m16n8k32` of bytes; says for left and right whether they are signed.
    Bytes { signed: [bool; 2] },
    /// `fma.rn.f32`.
    Fma,
}

impl Unit {
    /// The unit for operands of two formats, as elements or (`scaled`) with block scales that are applied to sums.
    pub fn choose(left: ElementFormat, right: ElementFormat, relaxed: bool) -> Unit {
        use ElementFormat as E;
        let is = |format: E| left == format || right == format;
        let integer = |format: E| format.is_integer();
        if integer(left) && integer(right) {
            let signed = |format: E| matches!(format, E::I8 | E::Int4B | E::Int2B);
            return Unit::Bytes {
                signed: [signed(left), signed(right)],
            };
        }
        if is(E::F32) {
            return match (relaxed, is(E::BF16)) {
                (false, _) => Unit::Fma,
                (true, true) => Unit::Bf16,
                (true, false) => Unit::Tf32,
            };
        }
        // Neither 16-bit format holds the other; tf32 holds both. Integers of 8 bits and FP4 fit all three, FP8 fits `f16`.
        let fp8 = is(E::Fp8E4M3) || is(E::Fp8E5M2);
        match (is(E::F16) || fp8, is(E::BF16)) {
            (true, true) => Unit::Tf32,
            (false, true) => Unit::Bf16,
            _ => Unit::F16,
        }
    }

    /// Elements of each lane along K in one instruction, for each line; 1 for [`Unit::Fma`].
    pub fn per_lane(self) -> u32 {
        match self {
            Unit::F16 | Unit::Bf16 => 4,
            Unit::Tf32 => 2,
            Unit::Bytes { .. } => 8,
            Unit::Fma => 1,
        }
    }

    /// What sums are.
    pub fn sum(self) -> Scalar {
        match self {
            Unit::Bytes { .. } => Scalar::I32,
            _ => Scalar::F32,
        }
    }
}

/// The unit for a descriptor.
pub(super) fn unit_of(descriptor: &MatmulDescriptor, left: ElementFormat, right: ElementFormat) -> Unit {
    Unit::choose(left, right, descriptor.relaxed_precision)
}

/// `d += a·b` for a 16 × 8 block: `a` and `b` as words of lines, `a` of rows g and g + 8.
pub(super) fn multiply(l: &mut Lower, unit: Unit, d: [Reg; 4], low: &[Reg], high: &[Reg], b: &[Reg]) {
    let [d0, d1, d2, d3] = d;
    let (a0, a2, a1, a3, b0, b1) = (low[0], low[1], high[0], high[1], b[0], b[1]);
    let shape = match unit {
        Unit::F16 => "m16n8k16.row.col.f32.f16.f16.f32",
        Unit::Bf16 => "m16n8k16.row.col.f32.bf16.bf16.f32",
        Unit::Tf32 => "m16n8k8.row.col.f32.tf32.tf32.f32",
        Unit::Bytes { signed: [true, true] } => "m16n8k32.row.col.s32.s8.s8.s32",
        Unit::Bytes { signed: [true, false] } => "m16n8k32.row.col.s32.s8.u8.s32",
        Unit::Bytes { signed: [false, true] } => "m16n8k32.row.col.s32.u8.s8.s32",
        Unit::Bytes { signed: [false, false] } => "m16n8k32.row.col.s32.u8.u8.s32",
        Unit::Fma => unreachable!("sums of fused multiply-adds have their own loop"),
    };
    ptx!(
        l,
        "mma.sync.aligned.{shape} {{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{d0}, {d1}, {d2}, {d3}}}"
    );
}

/// Packs values of `bits` bits, each in the low bits of a register with zeros above, into words.
pub(super) fn pack_bits(l: &mut Lower, values: &[Reg], bits: u32) -> Vec<Reg> {
    if bits == 32 {
        return values.to_vec();
    }
    let per_word = (32 / bits) as usize;
    values
        .chunks(per_word)
        .map(|values| {
            if values.len() == 2 && bits == 16 {
                return def!(l, B32, "prmt.b32", "{}, {}, 0x5410", values[0], values[1]);
            }
            let mut word = values[0];
            for (i, value) in values.iter().enumerate().skip(1) {
                // value · 2^shift + word: nothing overlaps.
                let shift = bits * i as u32;
                let shifted = def!(l, B32, "shl.b32", "{value}, {shift}");
                word = def!(l, B32, "or.b32", "{word}, {shifted}");
            }
            word
        })
        .collect()
}

/// Turns `count` elements of a format, packed in words as in memory, into words of a unit (or `f32` registers' bits for
/// [`Unit::Fma`], in `.f32` registers).
pub(super) fn widen(l: &mut Lower, raw: &[Reg], count: u32, format: ElementFormat, unit: Unit) -> Vec<Reg> {
    match unit {
        Unit::F16 => pairs(l, raw, count, format, false),
        Unit::Bf16 => pairs(l, raw, count, format, true),
        Unit::Tf32 => floats(l, raw, count, format)
            .into_iter()
            .map(|value| match format {
                ElementFormat::F32 => def!(l, B32, "cvt.rna.tf32.f32", "{value}"),
                _ => def!(l, B32, "mov.b32", "{value}"),
            })
            .collect(),
        Unit::Bytes { .. } => bytes(l, raw, count, format),
        Unit::Fma => floats(l, raw, count, format),
    }
}

/// Words of four bytes each from integers of 8, 4 or 2 bits.
fn bytes(l: &mut Lower, raw: &[Reg], count: u32, format: ElementFormat) -> Vec<Reg> {
    use ElementFormat as E;
    let bits = format.bits() as u32;
    if bits == 8 {
        return raw.to_vec();
    }
    let mut out = Vec::new();
    for group in 0..count.div_ceil(4) {
        let first = group * 4 * bits;
        let word = shift_right(l, raw[(first / 32) as usize], first % 32);
        // Spreads four codes over the bytes: the upper two first, then each pair.
        let (spread, mask) = match bits {
            4 => {
                let halves = def!(l, B32, "prmt.b32", "{word}, 0, 0x4140");
                let shifted = def!(l, B32, "shl.b32", "{halves}, 4");
                (def!(l, B32, "or.b32", "{halves}, {shifted}"), 0x0f0f_0f0fu32)
            }
            _ => {
                let shifted = def!(l, B32, "shl.b32", "{word}, 12");
                let halves = def!(l, B32, "prmt.b32", "{word}, {shifted}, 0x7610");
                let halves = def!(l, B32, "and.b32", "{halves}, {}", 0x000f_000f);
                let shifted = def!(l, B32, "shl.b32", "{halves}, 6");
                (def!(l, B32, "or.b32", "{halves}, {shifted}"), 0x0303_0303)
            }
        };
        let codes = def!(l, B32, "and.b32", "{spread}, {mask}");
        out.push(match format {
            // (x ^ s) − s with s the sign bit extends the sign; no byte borrows, as 0x80 is set before and taken away after.
            E::Int4B | E::Int2B => {
                let sign = if bits == 4 { 0x0808_0808u32 } else { 0x0202_0202 };
                let flipped = def!(l, B32, "xor.b32", "{codes}, {}", sign | 0x8080_8080);
                let less = def!(l, B32, "sub.u32", "{flipped}, {sign}");
                def!(l, B32, "xor.b32", "{less}, {}", 0x8080_8080u32)
            }
            _ => codes,
        });
    }
    out
}

fn shift_right(l: &mut Lower, word: Reg, bits: u32) -> Reg {
    match bits {
        0 => word,
        bits => def!(l, B32, "shr.u32", "{word}, {bits}"),
    }
}

/// Elements as `.f32` registers.
pub(super) fn floats(l: &mut Lower, raw: &[Reg], count: u32, format: ElementFormat) -> Vec<Reg> {
    use ElementFormat as E;
    (0..count)
        .map(|i| {
            let bits = format.bits() as u32;
            let at = i * bits;
            let word = raw[(at / 32) as usize];
            match format {
                E::F32 => def!(l, F32, "mov.b32", "{word}"),
                E::BF16 => {
                    let high = match at % 32 {
                        0 => def!(l, B32, "shl.b32", "{word}, 16"),
                        _ => def!(l, B32, "and.b32", "{word}, {}", 0xffff_0000u32),
                    };
                    def!(l, F32, "mov.b32", "{high}")
                }
                E::F16 => {
                    let word = shift_right(l, word, at % 32);
                    let half = low_half(l, word);
                    def!(l, F32, "cvt.f32.f16", "{half}")
                }
                E::I8 | E::Int4B | E::Int2B => {
                    let value = def!(l, B32, "bfe.s32", "{word}, {}, {bits}", at % 32);
                    def!(l, F32, "cvt.rn.f32.s32", "{value}")
                }
                E::U8 | E::UInt4B | E::UInt2B => {
                    let value = def!(l, B32, "bfe.u32", "{word}, {}, {bits}", at % 32);
                    def!(l, F32, "cvt.rn.f32.u32", "{value}")
                }
                _ => {
                    let code = def!(l, B32, "bfe.u32", "{word}, {}, {bits}", at % 32);
                    let half = pairs(l, &[code], 1, format, false)[0];
                    let half = low_half(l, half);
                    def!(l, F32, "cvt.f32.f16", "{half}")
                }
            }
        })
        .collect()
}

/// Words of two `f16` (or `bf16`) each. An odd count leaves the last upper half undefined.
fn pairs(l: &mut Lower, raw: &[Reg], count: u32, format: ElementFormat, bf16: bool) -> Vec<Reg> {
    use ElementFormat as E;
    let bits = format.bits() as u32;
    match (format, bf16) {
        (E::F16, false) | (E::BF16, true) => return raw.to_vec(),
        (E::F32, true) => {
            return raw
                .chunks(2)
                .map(|pair| {
                    let (low, high) = (pair[0], *pair.get(1).unwrap_or(&pair[0]));
                    let low = def!(l, F32, "mov.b32", "{low}");
                    let high = def!(l, F32, "mov.b32", "{high}");
                    def!(l, B32, "cvt.rn.bf16x2.f32", "{high}, {low}")
                })
                .collect();
        }
        (E::I8 | E::U8, true) => {
            let values = floats(l, raw, count, format);
            return values
                .chunks(2)
                .map(|pair| {
                    let high = pair.get(1).unwrap_or(&pair[0]);
                    def!(l, B32, "cvt.rn.bf16x2.f32", "{high}, {}", pair[0])
                })
                .collect();
        }
        _ => {}
    }
    (0..count.div_ceil(2))
        .map(|pair| {
            let at = pair * 2 * bits;
            let word = raw[(at / 32) as usize];
            let shift = at % 32;
            match format {
                E::I8 | E::U8 => byte_pair(l, word, shift / 8, format == E::I8),
                E::Int4B | E::UInt4B | E::Int2B | E::UInt2B => {
                    let word = shift_right(l, word, shift);
                    let spread = def!(l, B32, "shl.b32", "{word}, {}", 16 - bits);
                    let both = def!(l, B32, "prmt.b32", "{word}, {spread}, 0x7610");
                    let ones = (1u32 << bits) - 1;
                    let codes = def!(l, B32, "and.b32", "{both}, {}", ones | ones << 16);
                    let signed = matches!(format, E::Int4B | E::Int2B);
                    let sign = if signed { 1u32 << (bits - 1) } else { 0 };
                    // 128 (or 1024) + code, less 128 (1024); signed codes are counted from the lowest one.
                    let magic = if bf16 { 0x4300u32 } else { 0x6400 };
                    let negated = 0x8000 | (magic + sign) as u16;
                    let bias = magic | magic << 16 | sign | sign << 16;
                    let number = def!(l, B32, "xor.b32", "{codes}, {bias}");
                    add_pair(l, number, negated, bf16)
                }
                E::Fp4E2M1 => {
                    // Sign and magnitude where the 16-bit format has the sign and the lowest exponents.
                    let word = shift_right(l, word, shift);
                    let spread = def!(l, B32, "shl.b32", "{word}, 12");
                    let codes = def!(l, B32, "prmt.b32", "{word}, {spread}, 0x7610");
                    let (place, scale) = if bf16 { (6, 0x7e80u16) } else { (9, 0x7400) };
                    let magnitude = def!(l, B32, "shl.b32", "{codes}, {place}");
                    let sign = def!(l, B32, "shl.b32", "{codes}, 12");
                    let mask = 7u32 << place;
                    let magnitude = def!(l, B32, "and.b32", "{magnitude}, {}", mask | mask << 16);
                    let bits = def!(l, B32, "lop3.b32", "{sign}, {}, {magnitude}, 0xea", 0x8000_8000u32);
                    scale_pair(l, bits, scale, bf16)
                }
                E::Fp8E5M2 => {
                    let selector = if shift == 0 { 0x1404 } else { 0x3424 };
                    def!(l, B32, "prmt.b32", "{word}, 0, {selector}")
                }
                E::Fp8E4M3 => e4m3_pair(l, word, shift / 8),
                _ => word,
            }
        })
        .collect()
}

/// Two bytes of a word as `f16`: 1024 + byte, less 1024 (or 1024 + 128 for signed ones with their sign bit flipped).
fn byte_pair(l: &mut Lower, word: Reg, first: u32, signed: bool) -> Reg {
    let (word, negated) = if signed {
        let flipped = def!(l, B32, "xor.b32", "{word}, {}", 0x8080_8080u32);
        (flipped, 0xe480)
    } else {
        (word, 0xe400)
    };
    let selector = if first == 0 { 0x4140 } else { 0x4342 };
    let number = def!(l, B32, "prmt.b32", "{word}, {}, {selector}", 0x6464_6464u32);
    add_pair(l, number, negated, false)
}

/// Adds a 16-bit constant to both halves.
fn add_pair(l: &mut Lower, word: Reg, constant: u16, bf16: bool) -> Reg {
    let constant = u32::from(constant) | u32::from(constant) << 16;
    let constant = l.u32(constant);
    if bf16 {
        // sm_80 has only the fused form.
        let one = l.u32(0x3f80_3f80);
        def!(l, B32, "fma.rn.bf16x2", "{word}, {one}, {constant}")
    } else {
        def!(l, B32, "add.rn.f16x2", "{word}, {constant}")
    }
}

/// Multiplies both halves by a 16-bit constant, a power of two; keeps −0.
fn scale_pair(l: &mut Lower, word: Reg, constant: u16, bf16: bool) -> Reg {
    let constant = u32::from(constant) | u32::from(constant) << 16;
    let constant = l.u32(constant);
    if bf16 {
        let nothing = l.u32(0x8000_8000);
        def!(l, B32, "fma.rn.bf16x2", "{word}, {constant}, {nothing}")
    } else {
        def!(l, B32, "mul.rn.f16x2", "{word}, {constant}")
    }
}

/// Two E4M3 codes of a word as `f16`.
fn e4m3_pair(l: &mut Lower, word: Reg, first: u32) -> Reg {
    if l.options.target.has_fp8_conversion() {
        let word = shift_right(l, word, 8 * first);
        let codes = low_half(l, word);
        return def!(l, B32, "cvt.rn.f16x2.e4m3x2", "{codes}");
    }
    let selector = if first == 0 { 0x1404 } else { 0x3424 };
    let spread = def!(l, B32, "prmt.b32", "{word}, 0, {selector}");
    let magnitude = def!(l, B32, "and.b32", "{spread}, {}", 0x7f00_7f00u32);
    let shifted = def!(l, B32, "shr.u32", "{magnitude}, 1");
    let bits = def!(l, B32, "lop3.b32", "{spread}, {}, {shifted}, 0xea", 0x8000_8000u32);
    let value = scale_pair(l, bits, 0x5c00, false);
    // The code of all ones is NaN: only it carries into bit 15.
    let carried = def!(l, B32, "add.u32", "{magnitude}, {}", 0x0100_0100u32);
    let carries = def!(l, B32, "and.b32", "{carried}, {}", 0x8000_8000u32);
    let ones = def!(l, B32, "shr.u32", "{carries}, 15");
    let nan = def!(l, B32, "mul.lo.u32", "{ones}, {}", 0x7e00);
    def!(l, B32, "or.b32", "{value}, {nan}")
}

/// 2^(code − 127) as `f32` from the code of a scale; code 255 is NaN.
pub(super) fn decode_scale(l: &mut Lower, code: Reg) -> Reg {
    let shifted = def!(l, B32, "shl.b32", "{code}, 23");
    let some = def!(l, B32, "max.u32", "{shifted}, {}", 0x0040_0000);
    let value = def!(l, F32, "mov.b32", "{some}");
    let is_nan = def!(l, Pred, "setp.eq.u32", "{code}, 255");
    let nan = float(f32::NAN);
    def!(l, F32, "selp.f32", "{nan}, {value}, {is_nan}")
}

/// Rounds two `f32` to a word of two `f16` or `bf16`, the first in the low half.
pub(super) fn narrow_pair(l: &mut Lower, low: Reg, high: Reg, to: Scalar) -> Reg {
    let name = if to == Scalar::BF16 { "bf16x2" } else { "f16x2" };
    let d = l.reg(Class::B32);
    ptx!(l, "cvt.rn.{name}.f32 {d}, {high}, {low}");
    d
}

/// Both halves of a word of `f16` or `bf16` as `f32`.
pub(super) fn widen_pair(l: &mut Lower, word: Reg, from: Scalar) -> [Reg; 2] {
    let format = if from == Scalar::BF16 {
        ElementFormat::BF16
    } else {
        ElementFormat::F16
    };
    let values = floats(l, &[word], 2, format);
    [values[0], values[1]]
}
