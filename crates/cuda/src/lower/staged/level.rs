//! Scaled elements beside `half`: rows divided by a power of two each.
//!
//! A scaled element needs the exponents of `bfloat`, an element of `half` eleven bits: no type of 16 bits holds both. But scales of one row lie close
//! together. So an image in `half` holds each row divided by the power of two that makes its largest elements large numbers of `half`, exactly, and
//! the sums of its column are multiplied by that power at the end. The row's *level* (its largest scale code) lies beside the image. A row whose
//! scales are too far apart for that, or not numbers, says so in its level, and threadgroups that need it take the general product.

use super::decode::{Packing, Scales};
use super::engine::{Engine, put};
use super::image::Original;
use crate::ptx::{Class, Reg};

/// Marks the level of a row that the image cannot hold.
const BAD: u32 = 256;

impl Packing {
    /// The largest element times 2 to this is below 65504, the largest `half`.
    const fn room(self) -> u32 {
        match self {
            Packing::Plain | Packing::E5M2 => 0,
            Packing::E4M3 => 7,
            Packing::Int4 | Packing::UInt4 => 12,
            Packing::E2M1 => 13,
        }
    }

    /// How far below the level a scale code may be: the smallest element is then still a multiple of 2⁻²⁴, the smallest `half`.
    const fn reach(self) -> u32 {
        let smallest = match self {
            Packing::Plain | Packing::Int4 | Packing::UInt4 => 0,
            Packing::E2M1 => 1,
            Packing::E4M3 => 9,
            Packing::E5M2 => 16,
        };
        24 + self.room() - smallest
    }
}

impl Engine<'_> {
    /// The level of a row of the operand, for the warp, which also writes it down.
    pub(super) fn make_level(&mut self, original: &Original, scales: Scales, levels: Reg, row: Reg) -> Reg {
        let (lane, blocks, address, wide) = (self.r(), self.r(), self.d(), self.d());
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        put!(self, "add.u32 {blocks}, {}, 31", original.depth);
        put!(self, "shr.u32 {blocks}, {blocks}, 5");
        put!(self, "cvt.u64.u32 {wide}, {row}");
        put!(
            self,
            "mad.lo.u64 {address}, {wide}, {}, {}",
            scales.pitch,
            scales.address
        );
        let at = self.d();
        put!(self, "mul.wide.u32 {at}, {lane}, 1");
        put!(self, "add.u64 {address}, {address}, {at}");
        let (least, most, block) = (self.r(), self.r(), self.r());
        put!(self, "mov.b32 {least}, 255");
        put!(self, "mov.b32 {most}, 0");
        put!(self, "mov.b32 {block}, {lane}");
        let (top, end) = (self.writer.label(), self.writer.label());
        self.writer.place(top);
        let over = self.p();
        put!(self, "setp.ge.u32 {over}, {block}, {blocks}");
        put!(self, "@{over} bra {end}");
        // Loads that do not wait for each other.
        let loaded: Vec<(Reg, Reg)> = (0..4u32)
            .map(|index| {
                let (place, there, code) = (self.r(), self.p(), self.r());
                put!(self, "add.u32 {place}, {block}, {}", 32 * index);
                put!(self, "setp.lt.u32 {there}, {place}, {blocks}");
                put!(self, "@{there} ld.global.u8 {code}, [{address}+{}]", 32 * index);
                (there, code)
            })
            .collect();
        for (there, code) in loaded {
            put!(self, "@{there} min.u32 {least}, {least}, {code}");
            put!(self, "@{there} max.u32 {most}, {most}, {code}");
        }
        put!(self, "add.u32 {block}, {block}, 128");
        put!(self, "add.u64 {address}, {address}, 128");
        put!(self, "bra {top}");
        self.writer.place(end);
        put!(self, "bar.warp.sync 0xffffffff");
        put!(self, "redux.sync.min.u32 {least}, {least}, 0xffffffff");
        put!(self, "redux.sync.max.u32 {most}, {most}, 0xffffffff");
        let (bad, leads, word) = (self.p(), self.p(), self.r());
        put!(self, "add.u32 {least}, {least}, {}", original.packing.reach());
        put!(self, "setp.lt.u32 {bad}, {least}, {most}");
        put!(self, "setp.eq.or.u32 {bad}, {most}, 255, {bad}");
        put!(self, "selp.b32 {word}, {BAD}, {most}, {bad}");
        put!(self, "setp.eq.u32 {leads}, {lane}, 0");
        put!(self, "mad.wide.u32 {at}, {row}, 4, {levels}");
        put!(self, "@{leads} st.global.b32 [{at}], {word}");
        most
    }

    /// A scale code relative to its row's level, as two `half` in a word.
    pub(super) fn level_scale(&mut self, packing: Packing, code: Reg, level: Reg) -> Reg {
        let (place, normal, small, bits, tiny) = (self.r(), self.r(), self.r(), self.r(), self.p());
        put!(self, "sub.s32 {place}, {code}, {level}");
        put!(self, "add.s32 {place}, {place}, {}", packing.room() + 15);
        put!(self, "shl.b32 {normal}, {place}, 10");
        // 2⁻²⁴ is one; what lies below is in a row that is not used.
        put!(self, "add.s32 {small}, {place}, 9");
        put!(self, "shl.b32 {small}, 1, {small}");
        put!(self, "setp.lt.s32 {tiny}, {place}, 1");
        put!(self, "selp.b32 {bits}, {small}, {normal}, {tiny}");
        put!(self, "mad.lo.u32 {bits}, {bits}, 0x10000, {bits}");
        bits
    }

    /// The levels of this threadgroup's columns, one or two to a thread, once its image is made, and whether the image holds all of them.
    pub(super) fn levels(&mut self, original: &Original, levels: Reg) -> (Vec<Reg>, Reg) {
        self.barrier();
        let (good, all) = (self.p(), self.p());
        put!(self, "setp.eq.u32 {good}, 0, 0");
        let threads = self.plan.threads();
        let found = (0..self.plan.n.div_ceil(threads))
            .map(|index| {
                let (column, there, row, at, level) = (self.r(), self.p(), self.r(), self.d(), self.r());
                put!(self, "add.u32 {column}, {}, {}", self.thread, index * threads);
                put!(self, "setp.lt.u32 {there}, {column}, {}", original.count);
                put!(self, "add.u32 {row}, {column}, {}", original.first);
                put!(self, "mad.wide.u32 {at}, {row}, 4, {levels}");
                put!(self, "mov.b32 {level}, 127");
                put!(self, "@{there} ld.global.b32 {level}, [{at}]");
                put!(self, "setp.ne.and.u32 {good}, {level}, {BAD}, {good}");
                level
            })
            .collect();
        put!(self, "barrier.red.and.pred {all}, 0, {threads}, {good}");
        (found, all)
    }

    /// Multiplies the sums by the powers of two of their columns. The stages are free.
    pub(super) fn undo_levels(&mut self, packing: Packing, levels: &[Reg], sums: &[Reg]) {
        let plan = self.plan;
        for (index, level) in levels.iter().enumerate() {
            // 2^(level − 127 − room), which may be subnormal.
            let (place, normal, small, tiny, at) = (self.r(), self.r(), self.r(), self.p(), self.r());
            put!(self, "sub.s32 {place}, {level}, {}", packing.room());
            put!(self, "shl.b32 {normal}, {place}, 23");
            put!(self, "add.s32 {small}, {place}, 22");
            put!(self, "shl.b32 {small}, 1, {small}");
            put!(self, "setp.lt.s32 {tiny}, {place}, 1");
            put!(self, "selp.b32 {normal}, {small}, {normal}, {tiny}");
            put!(self, "mad.lo.u32 {at}, {}, 4, {}", self.thread, self.shared);
            put!(
                self,
                "st.shared.b32 [{at}+{}], {normal}",
                4 * plan.threads() * index as u32
            );
        }
        self.barrier();
        let (mine, pairs) = (self.r(), plan.warp_columns() / 8);
        put!(self, "and.b32 {mine}, {}, 3", self.thread);
        put!(self, "mad.lo.u32 {mine}, {mine}, 8, {}", self.shared);
        for pair in 0..pairs {
            let factors = [self.writer.reg(Class::F32), self.writer.reg(Class::F32)];
            put!(
                self,
                "ld.shared.v2.f32 {{{}, {}}}, [{mine}+{}]",
                factors[0],
                factors[1],
                32 * pair
            );
            for block in 0..plan.blocks() {
                for half in 0..2 {
                    let at = plan.sum_at(block, pair, half);
                    for (sum, factor) in sums[at..at + 2].iter().zip(factors) {
                        put!(self, "mul.f32 {sum}, {sum}, {factor}");
                    }
                }
            }
        }
        // What comes next writes where the factors are.
        self.barrier();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_half() {
        // The largest element, and the power of two that all are multiples of.
        for (packing, largest, smallest) in [
            (Packing::E4M3, 448.0f64, -9i32),
            (Packing::E5M2, 57344.0, -16),
            (Packing::E2M1, 6.0, -1),
            (Packing::Int4, 8.0, 0),
            (Packing::UInt4, 15.0, 0),
        ] {
            assert!(largest * f64::from(1u32 << packing.room()) <= 65504.0, "{packing:?}");
            let least = smallest + packing.room() as i32 - packing.reach() as i32;
            assert_eq!(least, -24, "{packing:?}");
        }
    }
}
