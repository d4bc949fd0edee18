//! Stages filled by 16-byte asynchronous copies (`cp.async`), which all threads issue.

use super::engine::{Engine, Source, put};
use super::plan::{LINE, Side, Unit};
use crate::ptx::Reg;

/// What a thread needs to copy its chunks of an operand into a stage.
pub(super) struct Copier {
    side: Side,
    /// `.b64`: address of this thread's first chunk at K = 0.
    address: Reg,
    /// `.b64`: bytes between rows (or between steps of K).
    pitch: Reg,
    /// `.b32`: offset of its first chunk in a stage.
    offset: Reg,
    /// `.b32`: the row of its first line (or its step of K).
    line: Reg,
    /// `.b32`: elements before its chunk in a line.
    inner: Reg,
    rows: Reg,
    depth: Reg,
}

impl Engine<'_> {
    /// The product through `cp.async`.
    ///
    /// Stages are filled `ahead` steps before they are read. `wgmma` reads on while the next step begins, so one stage more is in use.
    pub fn copied(&mut self, left: &Source, right: &Source, sums: &[Reg]) {
        let plan = self.plan;
        let stages = plan.stages;
        let ahead = if plan.unit == Unit::Warpgroup {
            stages - 2
        } else {
            stages - 1
        };
        let steps = self.steps(left.depth);
        self.barrier();
        let left_copy = self.copier(Side::Left, left);
        let right_copy = self.copier(Side::Right, right);
        let filled = self.r();
        put!(self, "mov.b32 {filled}, 0");
        for stage in 0..ahead {
            let address = self.r();
            put!(
                self,
                "add.u32 {address}, {}, {}",
                self.shared,
                stage * plan.stage_bytes()
            );
            self.fill(&[&left_copy, &right_copy], address, filled);
        }
        let multiplier = self.multiplier();
        let (step, stage, fill) = (self.r(), self.r(), self.r());
        put!(self, "mov.b32 {step}, 0");
        put!(self, "mov.b32 {stage}, 0");
        put!(self, "mov.b32 {fill}, {ahead}");
        let (top, end) = (self.writer.label(), self.writer.label());
        self.writer.place(top);
        let done = self.p();
        put!(self, "setp.ge.u32 {done}, {step}, {steps}");
        put!(self, "@{done} bra {end}");
        put!(self, "cp.async.wait_group {}", ahead - 1);
        if plan.unit == Unit::Warpgroup {
            put!(self, "fence.proxy.async.shared::cta");
        }
        self.barrier();
        let address = self.r();
        put!(
            self,
            "mad.lo.u32 {address}, {fill}, {}, {}",
            plan.stage_bytes(),
            self.shared
        );
        if plan.unit == Unit::Warpgroup {
            self.multiply(&multiplier, stage, sums);
            self.fill(&[&left_copy, &right_copy], address, filled);
        } else {
            self.fill(&[&left_copy, &right_copy], address, filled);
            self.multiply(&multiplier, stage, sums);
        }
        for ring in [stage, fill] {
            let wraps = self.p();
            put!(self, "add.u32 {ring}, {ring}, 1");
            put!(self, "setp.eq.u32 {wraps}, {ring}, {stages}");
            put!(self, "@{wraps} mov.b32 {ring}, 0");
        }
        put!(self, "add.u32 {step}, {step}, 1");
        if plan.unit == Unit::Warpgroup {
            self.wait_products(1);
        }
        put!(self, "bra.uni {top}");
        self.writer.place(end);
        if plan.unit == Unit::Warpgroup {
            self.wait_products(0);
        }
        put!(self, "cp.async.wait_group 0");
        self.barrier();
    }

    /// Copies one stage, whose shared address is in a register, and moves on by a step of K.
    pub(super) fn fill(&mut self, copiers: &[&Copier], stage: Reg, filled: Reg) {
        for copier in copiers {
            self.copy(copier, stage, filled);
        }
        put!(self, "cp.async.commit_group");
        put!(self, "add.u32 {filled}, {filled}, {}", self.plan.step());
    }

    pub(super) fn copier(&mut self, side: Side, source: &Source) -> Copier {
        let plan = self.plan;
        let (chunk, line, offset, swizzled) = (self.r(), self.r(), self.r(), self.r());
        put!(self, "and.b32 {chunk}, {}, 7", self.thread);
        put!(self, "shr.u32 {line}, {}, 3", self.thread);
        put!(self, "and.b32 {swizzled}, {line}, 7");
        put!(self, "xor.b32 {swizzled}, {swizzled}, {chunk}");
        put!(self, "shl.b32 {offset}, {line}, 7");
        put!(self, "mad.lo.u32 {offset}, {swizzled}, 16, {offset}");
        put!(self, "add.u32 {offset}, {offset}, {}", plan.offset(side));
        if side == Side::Left && plan.reordered() && plan.stride() > 16 {
            // Lines 16… of the first are the second warp's.
            let high = self.r();
            put!(self, "shr.u32 {high}, {line}, 4");
            put!(self, "mad.lo.u32 {line}, {high}, {}, {line}", plan.row_of_line(16) - 16);
        }
        let (address, wide, pitch, inner) = (self.d(), self.d(), self.d(), self.r());
        put!(self, "cvt.u64.u32 {wide}, {line}");
        put!(
            self,
            "mad.lo.u64 {address}, {wide}, {}, {}",
            source.pitch,
            source.address
        );
        put!(self, "mul.wide.u32 {wide}, {chunk}, 16");
        put!(self, "add.u64 {address}, {address}, {wide}");
        put!(self, "mul.lo.u32 {inner}, {chunk}, {}", 16 / plan.input.bytes());
        put!(self, "mov.b64 {pitch}, {}", source.pitch);
        Copier {
            side,
            address,
            pitch,
            offset,
            line,
            inner,
            rows: source.rows,
            depth: source.depth,
        }
    }

    /// Copies this thread's chunks of the stage at a shared address, from step `k` (elements, a register) on; what does not exist is zero.
    fn copy(&mut self, copier: &Copier, stage: Reg, k: Reg) {
        let plan = self.plan;
        let bytes = plan.input.bytes();
        let along = plan.along_k(copier.side);
        let (to, from, wide) = (self.r(), self.d(), self.d());
        put!(self, "add.u32 {to}, {stage}, {}", copier.offset);
        put!(self, "cvt.u64.u32 {wide}, {k}");
        if along {
            put!(self, "mad.lo.u64 {from}, {wide}, {bytes}, {}", copier.address);
        } else {
            put!(self, "mad.lo.u64 {from}, {wide}, {}, {}", copier.pitch, copier.address);
        }
        // Bytes of a chunk that exist: of the inner dimension here, 0 where the outer one ends.
        let chunk_bytes = |this: &mut Self, extent: Reg, at: Reg, add: u32| {
            let left = this.r();
            put!(this, "sub.s32 {left}, {extent}, {at}");
            put!(this, "sub.s32 {left}, {left}, {add}");
            put!(this, "min.s32 {left}, {left}, {}", 16 / bytes);
            put!(this, "max.s32 {left}, {left}, 0");
            put!(this, "shl.b32 {left}, {left}, {}", bytes.trailing_zeros());
            left
        };
        let stride = plan.stride();
        if along {
            let at = self.r();
            put!(self, "add.u32 {at}, {k}, {}", copier.inner);
            let whole = chunk_bytes(self, copier.depth, at, 0);
            for index in 0..plan.lines(copier.side) / stride {
                let (there, size) = (self.p(), self.r());
                let limit = self.r();
                let row = if copier.side == Side::Left {
                    plan.row_of_line(index * stride)
                } else {
                    index * stride
                };
                put!(self, "sub.s32 {limit}, {}, {row}", copier.rows);
                put!(self, "setp.gt.s32 {there}, {limit}, {}", copier.line);
                put!(self, "selp.b32 {size}, {whole}, 0, {there}");
                let source = if index == 0 {
                    from
                } else {
                    let next = self.d();
                    put!(self, "mad.lo.u64 {next}, {}, {row}, {from}", copier.pitch);
                    next
                };
                self.copy_chunk(to, index * stride * LINE, source, size);
            }
        } else {
            let per_box = plan.step() / stride;
            for index in 0..plan.lines(copier.side) / stride {
                let (in_box, column) = (index % per_box, index / per_box * plan.box_rows());
                let whole = chunk_bytes(self, copier.rows, copier.inner, column);
                let (there, size, at) = (self.p(), self.r(), self.r());
                put!(self, "add.u32 {at}, {k}, {}", in_box * stride);
                put!(self, "add.u32 {at}, {at}, {}", copier.line);
                put!(self, "setp.lt.u32 {there}, {at}, {}", copier.depth);
                put!(self, "selp.b32 {size}, {whole}, 0, {there}");
                let source = self.d();
                put!(
                    self,
                    "mad.lo.u64 {source}, {}, {}, {from}",
                    copier.pitch,
                    in_box * stride
                );
                put!(self, "add.u64 {source}, {source}, {}", column * bytes);
                self.copy_chunk(to, index * stride * LINE, source, size);
            }
        }
    }

    fn copy_chunk(&mut self, to: Reg, offset: u32, from: Reg, size: Reg) {
        put!(
            self,
            "cp.async.cg.shared.global.L2::128B [{to}+{offset}], [{from}], 16, {size}"
        );
    }
}
