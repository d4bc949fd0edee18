//! Quantised weights decoded in registers, eight of a run at a time.

use anymetal_formats::ElementFormat;

use super::emit::def;
use super::few::Cut;
use super::unit::{Unit, widen};
use crate::lower::Lower;
use crate::ptx::Reg;

impl Lower<'_> {
    /// The scale of a block as `f32`, of the codes of a window; codes 0 and 255 are found out elsewhere.
    pub(super) fn few_scale(&mut self, codes: Reg, block: u32) -> Reg {
        let shifted = match block {
            3 => def!(self, B32, "shr.u32", "{codes}, 1"),
            block => def!(self, B32, "shl.b32", "{codes}, {}", 23 - 8 * block),
        };
        let bits = def!(self, B32, "and.b32", "{shifted}, {}", 0x7f80_0000);
        def!(self, F32, "mov.b32", "{bits}")
    }

    /// Eight weights as four words of the unit; see [`Cut::crossed`] for their order, [`Cut::factor`] for what FP4 lacks.
    pub(super) fn few_decode(&mut self, cut: &Cut, words: &[Reg]) -> Vec<Reg> {
        use ElementFormat as E;
        let signed = cut.format == E::Int4B;
        match (cut.format, cut.unit) {
            (E::Int4B | E::UInt4B, Unit::F16) => {
                // 1024 + code, and 1024 + 16 · code for the upper one of a byte.
                let magic = 0x6400_6400u32 | if signed { 0x0008_0008 } else { 0 };
                let magic_high = 0x6400_6400u32 | if signed { 0x0080_0080 } else { 0 };
                // Signed codes are counted from −8.
                let low_less: u16 = if signed { 0xe408 } else { 0xe400 };
                let high_less: u16 = if signed { 0xd480 } else { 0xd400 };
                let twice = |bits: u16| u32::from(bits) | u32::from(bits) << 16;
                let low_less = self.u32(twice(low_less));
                let high_less = self.u32(twice(high_less));
                let sixteenth = self.u32(0x2c00_2c00);
                let upper = def!(self, B32, "shr.u32", "{}, 8", words[0]);
                let mut out = Vec::new();
                for word in [words[0], upper] {
                    let low = def!(self, B32, "lop3.b32", "{word}, {}, {magic}, 0x6a", 0x000f_000fu32);
                    let high = def!(self, B32, "lop3.b32", "{word}, {}, {magic_high}, 0x6a", 0x00f0_00f0u32);
                    out.push(def!(self, B32, "add.rn.f16x2", "{low}, {low_less}"));
                    out.push(def!(self, B32, "fma.rn.f16x2", "{high}, {sixteenth}, {high_less}"));
                }
                out
            }
            (E::Int4B | E::UInt4B, _) => {
                let magic = 0x4300_4300u32 | if signed { 0x0008_0008 } else { 0 };
                let less = self.u32(if signed { 0xc308_c308 } else { 0xc300_c300 });
                let one = self.u32(0x3f80_3f80);
                (0..4)
                    .map(|i| {
                        let word = match i {
                            0 => words[0],
                            i => def!(self, B32, "shr.u32", "{}, {}", words[0], 4 * i),
                        };
                        let code = def!(self, B32, "lop3.b32", "{word}, {}, {magic}, 0x6a", 0x000f_000fu32);
                        def!(self, B32, "fma.rn.bf16x2", "{code}, {one}, {less}")
                    })
                    .collect()
            }
            (E::Fp4E2M1, _) => {
                // Four codes at a time become the upper bytes of halves: the sign at bit 7, the rest at bits 3 … 1, the bits between of no
                // meaning until the last mask.
                let bytes = |l: &mut Self, signs: Reg, rest: Reg| {
                    def!(l, B32, "lop3.b32", "{signs}, {rest}, {}, 0xe4", 0x8080_8080u32)
                };
                let signs = def!(self, B32, "shl.b32", "{}, 4", words[0]);
                let rest = def!(self, B32, "shl.b32", "{}, 1", words[0]);
                let even = bytes(self, signs, rest);
                let rest = def!(self, B32, "shr.u32", "{}, 3", words[0]);
                let odd = bytes(self, words[0], rest);
                let high = |l: &mut Self, bytes: Reg| def!(l, B32, "and.b32", "{bytes}, {}", 0x8e00_8e00u32);
                let low = |l: &mut Self, bytes: Reg| {
                    let bytes = def!(l, B32, "shl.b32", "{bytes}, 8");
                    high(l, bytes)
                };
                vec![low(self, even), low(self, odd), high(self, even), high(self, odd)]
            }
            (format, unit) => widen(self, words, 8, format, unit),
        }
    }
}
