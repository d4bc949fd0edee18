//! Images: operands that are widened once for all threadgroups of a dispatch.
//!
//! Widening inside the pipeline repeats for every tile that an operand takes part in. Where tiles are many, the backend lends the kernel memory
//! for a widened copy of the operand instead. Whoever needs rows first widens them, 32 at a time: a flag for each such group goes from 0 to 1 by the
//! block that takes it, and to 2 when it is done. A block first takes what is free among the rows it needs, then waits for the others; whoever it
//! waits for is running and waits for nobody, so all of it ends. The flags are zero when the kernel starts.

use super::engine::{Engine, put};
use super::widened::{Packing, Scales, UNIT};
use crate::ptx::Reg;

/// Rows that are widened together.
const GROUP: u32 = 32;
/// Units that a thread has under way at once.
const BATCH: u32 = 8;

/// An operand and its image. K runs along memory; all registers hold the same value in the whole threadgroup.
pub struct Original {
    /// `.b64`: address of element (0, 0).
    pub pointer: Reg,
    /// `.b64`: bytes between rows.
    pub pitch: Reg,
    /// `.b32`: rows of the whole operand.
    pub rows: Reg,
    /// `.b32`: elements of a row, a multiple of [`UNIT`].
    pub depth: Reg,
    /// How elements are packed.
    pub packing: Packing,
    /// Scales, from row 0 on.
    pub scales: Option<Scales>,
    /// `.b64`: where the image of element (0, 0) goes.
    pub image: Reg,
    /// `.b64`: the flags.
    pub flags: Reg,
    /// `.b32`: the first row that this threadgroup needs.
    pub first: Reg,
    /// `.b32`: how many it needs, at least 1.
    pub count: Reg,
}

impl Original {
    /// Bytes of the image for each byte of the operand.
    pub const fn growth(packing: Packing) -> u32 {
        2 * UNIT / packing.unit_bytes()
    }
}

impl Engine<'_> {
    /// Returns when the rows that this threadgroup needs of each operand are there, for the threads that issue bulk copies.
    pub fn make_images(&mut self, originals: &[Original]) {
        for original in originals {
            self.take_groups(original);
        }
        // The first lane of each of the first two warps issues copies.
        let (others, lane) = (self.p(), self.r());
        let end = self.writer.label();
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        put!(self, "setp.ne.u32 {others}, {lane}, 0");
        put!(self, "setp.ge.or.u32 {others}, {}, 2, {others}", self.warp);
        put!(self, "@{others} bra {end}");
        for original in originals {
            let (group, last) = self.groups(original);
            let (top, again) = (self.writer.label(), self.writer.label());
            self.writer.place(top);
            let (at, state, waits, more) = (self.d(), self.r(), self.p(), self.p());
            put!(self, "mad.wide.u32 {at}, {group}, 4, {}", original.flags);
            self.writer.place(again);
            put!(self, "ld.acquire.gpu.global.b32 {state}, [{at}]");
            put!(self, "setp.ne.u32 {waits}, {state}, 2");
            put!(self, "@{waits} bra {again}");
            put!(self, "add.u32 {group}, {group}, 1");
            put!(self, "setp.le.u32 {more}, {group}, {last}");
            put!(self, "@{more} bra {top}");
        }
        // What was written with ordinary stores is read by bulk copies.
        put!(self, "fence.proxy.async");
        self.writer.place(end);
    }

    /// The first and last group of an operand that this threadgroup needs.
    fn groups(&mut self, original: &Original) -> (Reg, Reg) {
        let (group, last) = (self.r(), self.r());
        put!(self, "shr.u32 {group}, {}, {}", original.first, GROUP.trailing_zeros());
        put!(self, "add.u32 {last}, {}, {}", original.first, original.count);
        put!(self, "sub.u32 {last}, {last}, 1");
        put!(self, "shr.u32 {last}, {last}, {}", GROUP.trailing_zeros());
        (group, last)
    }

    /// Widens the groups that nobody has taken.
    fn take_groups(&mut self, original: &Original) {
        let (group, last) = self.groups(original);
        let (top, next) = (self.writer.label(), self.writer.label());
        let (first, at, old, taken, more) = (self.p(), self.d(), self.r(), self.p(), self.p());
        put!(self, "setp.eq.u32 {first}, {}, 0", self.thread);
        self.writer.place(top);
        put!(self, "mad.wide.u32 {at}, {group}, 4, {}", original.flags);
        self.barrier();
        put!(self, "@{first} atom.relaxed.gpu.global.cas.b32 {old}, [{at}], 0, 1");
        put!(self, "@{first} st.shared.b32 [{}], {old}", self.shared);
        self.barrier();
        put!(self, "ld.shared.b32 {old}, [{}]", self.shared);
        put!(self, "setp.ne.u32 {taken}, {old}, 0");
        put!(self, "@{taken} bra {next}");
        self.widen_group(original, group);
        put!(self, "fence.proxy.async");
        put!(self, "fence.acq_rel.gpu");
        self.barrier();
        put!(self, "@{first} st.release.gpu.global.b32 [{at}], 2");
        self.writer.place(next);
        put!(self, "add.u32 {group}, {group}, 1");
        put!(self, "setp.le.u32 {more}, {group}, {last}");
        put!(self, "@{more} bra {top}");
    }

    /// Widens the rows of a group. Neighbouring threads take neighbouring units of a row.
    fn widen_group(&mut self, original: &Original, group: Reg) {
        let threads = self.plan.threads();
        let (row0, rows, units, total, index) = (self.r(), self.r(), self.r(), self.r(), self.r());
        put!(self, "shl.b32 {row0}, {group}, {}", GROUP.trailing_zeros());
        put!(self, "sub.u32 {rows}, {}, {row0}", original.rows);
        put!(self, "min.u32 {rows}, {rows}, {GROUP}");
        put!(self, "shr.u32 {units}, {}, {}", original.depth, UNIT.trailing_zeros());
        put!(self, "mul.lo.u32 {total}, {units}, {rows}");
        put!(self, "mov.b32 {index}, {}", self.thread);
        let growth = Original::growth(original.packing);
        let (image_pitch, end, top) = (self.d(), self.writer.label(), self.writer.label());
        put!(self, "mul.lo.u64 {image_pitch}, {}, {growth}", original.pitch);
        self.writer.place(top);
        let done = self.p();
        put!(self, "setp.ge.u32 {done}, {index}, {total}");
        put!(self, "@{done} bra {end}");
        let mut batch = Vec::new();
        for _ in 0..BATCH {
            let (there, row, unit, wide, from, to) = (self.p(), self.r(), self.r(), self.d(), self.d(), self.d());
            put!(self, "setp.lt.u32 {there}, {index}, {total}");
            put!(self, "div.u32 {row}, {index}, {units}");
            put!(self, "mul.lo.u32 {unit}, {row}, {units}");
            put!(self, "sub.u32 {unit}, {index}, {unit}");
            put!(self, "add.u32 {row}, {row}, {row0}");
            put!(self, "cvt.u64.u32 {wide}, {row}");
            put!(
                self,
                "mad.lo.u64 {from}, {wide}, {}, {}",
                original.pitch,
                original.pointer
            );
            put!(
                self,
                "mad.wide.u32 {from}, {unit}, {}, {from}",
                original.packing.unit_bytes()
            );
            put!(self, "mad.lo.u64 {to}, {wide}, {image_pitch}, {}", original.image);
            put!(self, "mad.wide.u32 {to}, {unit}, {}, {to}", 2 * UNIT);
            let words: Vec<Reg> = (0..original.packing.unit_bytes() / 4).map(|_| self.r()).collect();
            for (index, four) in words.chunks(4).enumerate() {
                let list = four.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
                put!(self, "@{there} ld.global.v4.b32 {{{list}}}, [{from}+{}]", 16 * index);
            }
            let code = original.scales.map(|scales| {
                let (code, at) = (self.r(), self.d());
                put!(self, "mad.lo.u64 {at}, {wide}, {}, {}", scales.pitch, scales.address);
                put!(self, "shr.u32 {unit}, {unit}, 1");
                put!(self, "cvt.u64.u32 {wide}, {unit}");
                put!(self, "add.u64 {at}, {at}, {wide}");
                put!(self, "@{there} ld.global.u8 {code}, [{at}]");
                code
            });
            put!(self, "add.u32 {index}, {index}, {threads}");
            batch.push((there, words, code, to));
        }
        for (there, words, code, to) in batch {
            let scale = code.map(|code| self.scale(code));
            let wide = self.widen(original.packing, &words, scale);
            for (half, four) in wide.chunks(4).enumerate() {
                let list = four.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
                put!(self, "@{there} st.global.v4.b32 [{to}+{}], {{{list}}}", 16 * half);
            }
        }
        put!(self, "bra.uni {top}");
        self.writer.place(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_fp8_are_twice_as_large() {
        assert_eq!(
            (Original::growth(Packing::E4M3), Original::growth(Packing::Plain)),
            (2, 1)
        );
    }
}
