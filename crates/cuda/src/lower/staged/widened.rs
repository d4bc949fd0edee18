//! Stages filled through registers: packed elements are loaded, widened to 16 bits with their block scale folded in, and stored.
//!
//! A thread moves units of 16 elements along K. It holds the packed elements of the next stage in registers while the products of this one run, if the
//! sums leave room for them.

use std::ops::Range;

use super::decode::{Packing, Scales, UNIT};
use super::engine::{Engine, Source, put};
use super::plan::{LINE, Side, Unit};
use crate::ptx::Reg;

/// Passes that are held at once where registers are scarce.
const AT_ONCE: u32 = 2;

/// An operand to be widened. K runs along memory; depth, address and pitch are multiples of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    /// The elements. Address and pitch are multiples of 16 bytes.
    pub source: Source,
    /// How they are packed.
    pub packing: Packing,
    /// Their scales.
    pub scales: Option<Scales>,
}

/// One operand's part of a thread.
struct Mover {
    packed: Packed,
    /// `.b32`: its row in the first pass.
    row: Reg,
    /// `.b32`: its unit in a row.
    unit: Reg,
    /// `.b64`: address of its unit of the first row at K = 0.
    address: Reg,
    /// `.b64`: address of the scale of that unit.
    scale_address: Option<Reg>,
    /// `.b32`: offsets in a stage of the two chunks that a unit becomes.
    chunks: [Reg; 2],
    /// Passes in a stage.
    passes: u32,
    /// The packed words of each pass that is held at once, and its scale code.
    words: Vec<Vec<Reg>>,
    codes: Vec<Reg>,
}

impl Engine<'_> {
    /// Rows that the threadgroup moves in one pass.
    const fn rows_of_pass(&self) -> u32 {
        self.plan.threads() * UNIT / self.plan.step()
    }

    /// The product of operands that are widened on their way.
    pub fn widened(&mut self, left: &Packed, right: &Packed, sums: &[Reg]) {
        let plan = self.plan;
        let steps = self.steps(left.source.depth);
        self.barrier();
        let movers = [self.mover(Side::Left, left), self.mover(Side::Right, right)];
        let multiplier = self.multiplier();
        let (step, stage, next, loaded) = (self.r(), self.r(), self.r(), self.r());
        put!(self, "mov.b32 {step}, 0");
        put!(self, "mov.b32 {stage}, 0");
        put!(self, "mov.b32 {next}, 0");
        put!(self, "mov.b32 {loaded}, 0");
        if plan.spares_registers() {
            self.move_units(&movers, next, loaded);
        } else {
            self.load_units(&movers, loaded);
            self.store_units(&movers, next);
            self.load_units(&movers, loaded);
        }
        let (top, end) = (self.writer.label(), self.writer.label());
        self.writer.place(top);
        let done = self.p();
        put!(self, "setp.ge.u32 {done}, {step}, {steps}");
        put!(self, "@{done} bra {end}");
        if plan.unit == Unit::Warpgroup {
            put!(self, "fence.proxy.async.shared::cta");
        }
        self.barrier();
        if plan.unit == Unit::Warpgroup {
            self.multiply(&multiplier, stage, sums);
            // The stage to be filled was read by the products before the last.
            self.wait_products(1);
        }
        if plan.spares_registers() {
            self.move_units(&movers, next, loaded);
        } else {
            self.store_units(&movers, next);
            self.load_units(&movers, loaded);
        }
        if plan.unit != Unit::Warpgroup {
            self.multiply(&multiplier, stage, sums);
        }
        let wraps = self.p();
        put!(self, "add.u32 {stage}, {stage}, 1");
        put!(self, "setp.eq.u32 {wraps}, {stage}, {}", plan.stages);
        put!(self, "@{wraps} mov.b32 {stage}, 0");
        put!(self, "add.u32 {step}, {step}, 1");
        put!(self, "bra.uni {top}");
        self.writer.place(end);
        if plan.unit == Unit::Warpgroup {
            self.wait_products(0);
        }
        self.barrier();
    }

    fn mover(&mut self, side: Side, packed: &Packed) -> Mover {
        let plan = self.plan;
        let units = plan.step() / UNIT;
        let (unit, line, row) = (self.r(), self.r(), self.r());
        put!(self, "and.b32 {unit}, {}, {}", self.thread, units - 1);
        put!(self, "shr.u32 {line}, {}, {}", self.thread, units.trailing_zeros());
        put!(self, "mov.b32 {row}, {line}");
        let low = self.r();
        put!(self, "and.b32 {low}, {line}, 7");
        let chunks = [0, 1].map(|half| {
            let chunk = self.r();
            put!(self, "mad.lo.u32 {chunk}, {unit}, 2, {half}");
            put!(self, "xor.b32 {chunk}, {chunk}, {low}");
            put!(self, "shl.b32 {chunk}, {chunk}, 4");
            put!(self, "mad.lo.u32 {chunk}, {line}, {LINE}, {chunk}");
            put!(self, "add.u32 {chunk}, {chunk}, {}", plan.offset(side));
            chunk
        });
        let (address, wide) = (self.d(), self.d());
        put!(self, "cvt.u64.u32 {wide}, {row}");
        put!(
            self,
            "mad.lo.u64 {address}, {wide}, {}, {}",
            packed.source.pitch,
            packed.source.address
        );
        put!(
            self,
            "mad.wide.u32 {address}, {unit}, {}, {address}",
            packed.packing.unit_bytes()
        );
        let scale_address = packed.scales.map(|scales| {
            let (address, half) = (self.d(), self.r());
            put!(
                self,
                "mad.lo.u64 {address}, {wide}, {}, {}",
                scales.pitch,
                scales.address
            );
            // Two units share a scale.
            put!(self, "shr.u32 {half}, {unit}, 1");
            put!(self, "mad.wide.u32 {address}, {half}, 1, {address}");
            address
        });
        let passes = plan.lines(side) / self.rows_of_pass();
        let held = if plan.spares_registers() {
            passes.min(AT_ONCE)
        } else {
            passes
        };
        let words = (0..held)
            .map(|_| (0..packed.packing.unit_bytes() / 4).map(|_| self.r()).collect())
            .collect();
        let codes = (0..held).map(|_| self.r()).collect();
        Mover {
            packed: *packed,
            row,
            unit,
            address,
            scale_address,
            chunks,
            passes,
            words,
            codes,
        }
    }

    /// Loads the units of one stage, from step `k` (elements, a register) on, and moves on.
    fn load_units(&mut self, movers: &[Mover], k: Reg) {
        for mover in movers {
            self.load_passes(mover, 0..mover.passes, k);
        }
        put!(self, "add.u32 {k}, {k}, {}", self.plan.step());
    }

    /// Widens what was loaded into the stage whose index is in a register, and moves on in the ring.
    fn store_units(&mut self, movers: &[Mover], stage: Reg) {
        let base = self.stage_address(stage);
        for mover in movers {
            self.store_passes(mover, 0..mover.passes, base);
        }
        self.turn(stage);
    }

    /// Loads and widens a few passes at a time, and moves on.
    fn move_units(&mut self, movers: &[Mover], stage: Reg, k: Reg) {
        let base = self.stage_address(stage);
        for mover in movers {
            for first in (0..mover.passes).step_by(AT_ONCE as usize) {
                let passes = first..(first + AT_ONCE).min(mover.passes);
                self.load_passes(mover, passes.clone(), k);
                self.store_passes(mover, passes, base);
            }
        }
        self.turn(stage);
        put!(self, "add.u32 {k}, {k}, {}", self.plan.step());
    }

    fn stage_address(&mut self, stage: Reg) -> Reg {
        let base = self.r();
        put!(
            self,
            "mad.lo.u32 {base}, {stage}, {}, {}",
            self.plan.stage_bytes(),
            self.shared
        );
        base
    }

    /// The next stage in the ring.
    fn turn(&mut self, stage: Reg) {
        let wraps = self.p();
        put!(self, "add.u32 {stage}, {stage}, 1");
        put!(self, "setp.eq.u32 {wraps}, {stage}, {}", self.plan.stages);
        put!(self, "@{wraps} mov.b32 {stage}, 0");
    }

    /// Loads units of some passes. What does not exist is zero.
    fn load_passes(&mut self, mover: &Mover, passes: Range<u32>, k: Reg) {
        let source = &mover.packed.source;
        let (place, inside, wide, from) = (self.r(), self.p(), self.d(), self.d());
        put!(self, "mad.lo.u32 {place}, {}, {UNIT}, {k}", mover.unit);
        put!(self, "setp.lt.u32 {inside}, {place}, {}", source.depth);
        put!(self, "cvt.u64.u32 {wide}, {k}");
        let bits = mover.packed.packing.bits();
        put!(self, "mul.lo.u64 {from}, {wide}, {bits}");
        put!(self, "shr.u64 {from}, {from}, 3");
        put!(self, "add.u64 {from}, {from}, {}", mover.address);
        let scale_from = mover.scale_address.map(|address| {
            let from = self.d();
            put!(self, "shr.u64 {wide}, {wide}, 5");
            put!(self, "add.u64 {from}, {wide}, {address}");
            from
        });
        for (pass, (words, code)) in passes.zip(mover.words.iter().zip(&mover.codes)) {
            let first = pass * self.rows_of_pass();
            let (row, there) = (self.r(), self.p());
            put!(self, "add.u32 {row}, {}, {first}", mover.row);
            put!(self, "setp.lt.and.u32 {there}, {row}, {}, {inside}", source.rows);
            let at = self.d();
            put!(self, "mad.lo.u64 {at}, {}, {first}, {from}", source.pitch);
            for word in words {
                put!(self, "mov.b32 {word}, 0");
            }
            for (index, part) in words.chunks(4).enumerate() {
                let list = part.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
                let width = part.len();
                put!(
                    self,
                    "@{there} ld.global.v{width}.b32 {{{list}}}, [{at}+{}]",
                    16 * index
                );
            }
            if let (Some(from), Some(scales)) = (scale_from, &mover.packed.scales) {
                let at = self.d();
                put!(self, "mad.lo.u64 {at}, {}, {first}, {from}", scales.pitch);
                put!(self, "mov.b32 {code}, 127");
                put!(self, "@{there} ld.global.u8 {code}, [{at}]");
            }
        }
    }

    /// Widens units of some passes into the stage at a shared address.
    fn store_passes(&mut self, mover: &Mover, passes: Range<u32>, base: Reg) {
        let to = mover.chunks.map(|chunk| {
            let to = self.r();
            put!(self, "add.u32 {to}, {base}, {chunk}");
            to
        });
        for (pass, (words, &code)) in passes.zip(mover.words.iter().zip(&mover.codes)) {
            let scale = mover.packed.scales.map(|_| self.scale(code));
            let wide = self.widen(mover.packed.packing, words, scale);
            let offset = pass * self.rows_of_pass() * LINE;
            for (half, four) in wide.chunks(4).enumerate() {
                let list = four.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
                put!(self, "st.shared.v4.b32 [{}+{offset}], {{{list}}}", to[half]);
            }
        }
    }
}
