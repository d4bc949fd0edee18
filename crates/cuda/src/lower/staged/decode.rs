//! Packed elements to elements of 16 bits.
//!
//! What comes out is exact: each code is a number of the staged type, and a scale is a power of two. Scaled elements are `bfloat` (beside `half`:
//! [`level`](super::level)); only where one leaves its range is it rounded (below 2⁻¹²⁶) or infinite (from 2¹²⁸ on).

use anymetal_formats::ElementFormat;

use super::engine::{Engine, put};
use super::plan::Input;
use crate::ptx::{Class, Reg};

/// Elements of a unit: what a thread widens at once in the pipeline.
pub const UNIT: u32 = 16;

/// How an operand's elements are packed in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Packing {
    /// As they are staged.
    Plain,
    E4M3,
    E5M2,
    E2M1,
    Int4,
    UInt4,
}

impl Packing {
    /// Of a format that can be staged; `None` for others.
    pub const fn of(format: ElementFormat) -> Option<Packing> {
        Some(match format {
            ElementFormat::F16 | ElementFormat::BF16 => Packing::Plain,
            ElementFormat::Fp8E4M3 => Packing::E4M3,
            ElementFormat::Fp8E5M2 => Packing::E5M2,
            ElementFormat::Fp4E2M1 => Packing::E2M1,
            ElementFormat::Int4B => Packing::Int4,
            ElementFormat::UInt4B => Packing::UInt4,
            _ => return None,
        })
    }

    /// Bits of an element.
    pub const fn bits(self) -> u32 {
        match self {
            Packing::Plain => 16,
            Packing::E4M3 | Packing::E5M2 => 8,
            Packing::E2M1 | Packing::Int4 | Packing::UInt4 => 4,
        }
    }

    /// Bytes of a unit.
    pub const fn unit_bytes(self) -> u32 {
        UNIT * self.bits() / 8
    }

    /// Bytes of 16-bit elements for each byte.
    pub const fn growth(self) -> u32 {
        16 / self.bits()
    }
}

/// Block scales (`ue8m0`, one for each 32 elements along K) of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// `.b64`: address of the scale of the operand's first element.
    pub address: Reg,
    /// `.b64`: bytes between rows.
    pub pitch: Reg,
}

/// A 16-bit number twice in a word.
const fn twice(bits: u32) -> u32 {
    bits << 16 | bits
}

impl Engine<'_> {
    /// A scale code as two `bfloat` in a word: 2^(code − 127), where 0 is subnormal and 255 NaN.
    pub(super) fn scale(&mut self, code: Reg) -> Reg {
        let (bits, special) = (self.r(), self.p());
        put!(self, "shl.b32 {bits}, {code}, 7");
        put!(self, "max.u32 {bits}, {bits}, 0x40");
        put!(self, "setp.eq.u32 {special}, {code}, 255");
        put!(self, "selp.b32 {bits}, 0x7fc0, {bits}, {special}");
        put!(self, "mad.lo.u32 {bits}, {bits}, 0x10000, {bits}");
        bits
    }

    /// Elements as words of two, those of each word in order; a scale is of the staged type.
    pub(super) fn widen(&mut self, packing: Packing, words: &[Reg], scale: Option<Reg>) -> Vec<Reg> {
        let wide = match packing {
            Packing::Plain => words.to_vec(),
            Packing::E4M3 => self.widen_bytes("e4m3x2", words),
            Packing::E5M2 => self.widen_bytes("e5m2x2", words),
            Packing::E2M1 | Packing::Int4 | Packing::UInt4 => self.widen_nibbles(packing, words),
        };
        let Some(scale) = scale else {
            return wide;
        };
        wide.into_iter().map(|pair| self.times(pair, scale)).collect()
    }

    /// Two products; of zeros they keep the sign.
    fn times(&mut self, pair: Reg, factor: Reg) -> Reg {
        let to = self.r();
        let (ty, zero) = (self.plan.input.ptx(), self.constant(twice(0x8000)));
        put!(self, "fma.rn.{ty}x2 {to}, {pair}, {factor}, {zero}");
        to
    }

    fn constant(&mut self, bits: u32) -> Reg {
        let to = self.r();
        put!(self, "mov.b32 {to}, 0x{bits:x}");
        to
    }

    fn widen_bytes(&mut self, format: &str, words: &[Reg]) -> Vec<Reg> {
        let mut wide = Vec::with_capacity(2 * words.len());
        for word in words {
            let halves = [self.writer.reg(Class::B16), self.writer.reg(Class::B16)];
            put!(self, "mov.b32 {{{}, {}}}, {word}", halves[0], halves[1]);
            for half in halves {
                let pair = self.r();
                put!(self, "cvt.rn.f16x2.{format} {pair}, {half}");
                if self.plan.input == Input::F16 {
                    wide.push(pair);
                    continue;
                }
                let elements = [self.writer.reg(Class::B16), self.writer.reg(Class::B16)];
                put!(self, "mov.b32 {{{}, {}}}, {pair}", elements[0], elements[1]);
                let floats = elements.map(|element| {
                    let float = self.writer.reg(Class::F32);
                    put!(self, "cvt.f32.f16 {float}, {element}");
                    float
                });
                let packed = self.r();
                put!(self, "cvt.rn.bf16x2.f32 {packed}, {}, {}", floats[1], floats[0]);
                wide.push(packed);
            }
        }
        wide
    }

    /// Codes of four bits, the first of each byte in its lower half.
    fn widen_nibbles(&mut self, packing: Packing, words: &[Reg]) -> Vec<Reg> {
        let half = self.plan.input == Input::F16;
        let mut wide = Vec::with_capacity(4 * words.len());
        for word in words {
            for byte in 0..4 {
                // Code 2·byte in the lower half, its neighbour in the upper one.
                let (low, high, pair) = (self.r(), self.r(), self.r());
                put!(self, "bfe.u32 {low}, {word}, {}, 4", 8 * byte);
                put!(self, "bfe.u32 {high}, {word}, {}, 4", 8 * byte + 4);
                put!(self, "mad.lo.u32 {pair}, {high}, 0x10000, {low}");
                wide.push(match packing {
                    Packing::E2M1 => self.widen_e2m1(pair, half),
                    _ => self.widen_int4(pair, packing == Packing::Int4, half),
                });
            }
        }
        wide
    }

    /// The fields of E2M1 are where those of the wider type are, but for the bias of the exponent.
    fn widen_e2m1(&mut self, pair: Reg, half: bool) -> Reg {
        // The mantissa's bit is the wider one's upper one; 2^14 or 2^126 makes up for the bias.
        let (shift, fields, bias) = if half { (9, 0x0e00, 0x7400) } else { (6, 0x01c0, 0x7e80) };
        let (sign, rest, bits) = (self.r(), self.r(), self.r());
        put!(self, "shl.b32 {sign}, {pair}, 12");
        put!(self, "and.b32 {sign}, {sign}, 0x{:x}", twice(0x8000));
        put!(self, "shl.b32 {rest}, {pair}, {shift}");
        put!(self, "and.b32 {rest}, {rest}, 0x{:x}", twice(fields));
        put!(self, "or.b32 {bits}, {sign}, {rest}");
        let bias = self.constant(twice(bias));
        self.times(bits, bias)
    }

    /// The code in the lowest bits of 1024 (or 128), less that number; signed codes count from −8.
    fn widen_int4(&mut self, pair: Reg, signed: bool, half: bool) -> Reg {
        let (magic, less) = match (half, signed) {
            (true, false) => (0x6400, 0xe400),
            (true, true) => (0x6408, 0xe408),
            (false, false) => (0x4300, 0xc300),
            (false, true) => (0x4308, 0xc308),
        };
        let (bits, to) = (self.r(), self.r());
        put!(self, "xor.b32 {bits}, {pair}, 0x{:x}", twice(magic));
        let less = self.constant(twice(less));
        let (ty, one) = (self.plan.input.ptx(), if half { 0x3c00 } else { 0x3f80 });
        let one = self.constant(twice(one));
        put!(self, "fma.rn.{ty}x2 {to}, {bits}, {one}, {less}");
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_narrow_formats_grow() {
        let growth = |packing: Packing| (packing.growth(), packing.unit_bytes());
        assert_eq!(growth(Packing::Plain), (1, 32));
        assert_eq!(growth(Packing::E4M3), (2, 16));
        assert_eq!(growth(Packing::E2M1), (4, 8));
    }
}
