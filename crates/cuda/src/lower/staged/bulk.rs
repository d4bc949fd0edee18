//! Stages filled by bulk tensor copies, which one thread issues for each operand: the first lane of warp 0 the left one, that of warp 1 the right one.
//!
//! The kernel makes the tensor maps itself ([`tensor_map`](super::tensor_map)). A stage has two barriers: *full*, which the copies complete, and
//! *empty*, at which each warp arrives once its products have read the stage.

use super::engine::{Engine, Source, put};
use super::plan::{LINE, Side};
use super::tensor_map::{MAP_BYTES, TensorMap};
use crate::ptx::{Class, Reg};

/// Stages that threads copy before bulk copies can begin.
const AHEAD: u32 = 2;

impl Engine<'_> {
    /// Initialises the barriers of the pipeline; every warp arrives once at an empty stage.
    fn make_barriers(&mut self) {
        let (plan, first) = (self.plan, self.p());
        let skip = self.writer.label();
        put!(self, "setp.ne.u32 {first}, {}, 0", self.thread);
        put!(self, "@{first} bra {skip}");
        for stage in 0..plan.stages {
            let full = plan.barriers() + 8 * stage;
            put!(self, "mbarrier.init.shared.b64 [{}+{full}], 2", self.shared);
            put!(
                self,
                "mbarrier.init.shared.b64 [{}+{}], {}",
                self.shared,
                full + 8 * plan.stages,
                plan.warps
            );
        }
        put!(self, "fence.proxy.async.shared::cta");
        self.writer.place(skip);
    }

    /// Waits until the barrier at an address has finished the phase of a parity.
    fn wait_barrier(&mut self, address: Reg, offset: u32, parity: Reg) {
        let (done, again) = (self.p(), self.writer.label());
        self.writer.place(again);
        put!(
            self,
            "mbarrier.try_wait.parity.shared.b64 {done}, [{address}+{offset}], {parity}"
        );
        put!(self, "@!{done} bra {again}");
    }

    /// Lines that one bulk copy brings.
    fn box_lines(&self, side: Side) -> u32 {
        let plan = &self.plan;
        match side {
            Side::Left if plan.reordered() => 16,
            _ if plan.along_k(side) => plan.extent(side),
            _ => plan.step(),
        }
    }

    /// Writes the tensor maps of both operands, one by each of the first two warps, to the workspace of this block and makes them visible.
    pub(super) fn make_maps(&mut self, left: &Source, right: &Source, workspace: Reg) {
        let plan = self.plan;
        let (lane, scratch) = (self.r(), self.r());
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        let end = self.writer.label();
        let only = self.p();
        put!(self, "setp.ge.u32 {only}, {}, 2", self.warp);
        put!(self, "@{only} bra {end}");
        // What differs between the two is selected, so that both warps run the same code.
        let second = self.p();
        put!(self, "setp.eq.u32 {second}, {}, 1", self.warp);
        let pick = |this: &mut Self, class: &str, a: Reg, b: Reg| {
            let to = this.writer.reg(a.class);
            put!(this, "selp.{class} {to}, {b}, {a}, {second}");
            to
        };
        let address = pick(self, "b64", left.address, right.address);
        let pitch = pick(self, "b64", left.pitch, right.pitch);
        let across = |along: bool, source: &Source| {
            if along {
                (source.depth, source.rows)
            } else {
                (source.rows, source.depth)
            }
        };
        let (left0, left1) = across(plan.left_along_k, left);
        let (right0, right1) = across(plan.right_along_k, right);
        let extent0 = pick(self, "b32", left0, right0);
        let extent1 = pick(self, "b32", left1, right1);
        let lines = self.r();
        put!(
            self,
            "selp.b32 {lines}, {}, {}, {second}",
            self.box_lines(Side::Right),
            self.box_lines(Side::Left)
        );
        put!(
            self,
            "mad.lo.u32 {scratch}, {}, {MAP_BYTES}, {}",
            self.warp,
            self.shared
        );
        put!(self, "add.u32 {scratch}, {scratch}, {}", plan.maps());
        let word = self.r();
        put!(self, "mad.lo.u32 {word}, {lane}, 4, {scratch}");
        put!(self, "st.shared.b32 [{word}], 0");
        put!(self, "bar.warp.sync 0xffffffff");
        let (others, copy) = (self.p(), self.writer.label());
        put!(self, "setp.ne.u32 {others}, {lane}, 0");
        put!(self, "@{others} bra {copy}");
        let map = TensorMap {
            address,
            pitch,
            extents: [extent0, extent1],
            box_columns: plan.step(),
            box_lines: lines,
            element: plan.input.map_code(),
        };
        map.write(self.writer, scratch);
        self.writer.place(copy);
        let (map, offset) = (self.d(), self.d());
        put!(self, "bar.warp.sync 0xffffffff");
        put!(self, "mul.wide.u32 {offset}, {}, {MAP_BYTES}", self.warp);
        put!(self, "add.u64 {map}, {workspace}, {offset}");
        TensorMap::publish(self.writer, map, scratch);
        self.writer.place(end);
    }

    /// Starts the bulk copies of this warp's operand into a stage, from step `k` of K on. Addresses and `k` are registers.
    fn load_stage(&mut self, map: Reg, stage_address: Reg, barrier: Reg, k: Reg) {
        let plan = self.plan;
        let (second, right, end) = (self.p(), self.writer.label(), self.writer.label());
        put!(self, "setp.ne.u32 {second}, {}, 0", self.warp);
        put!(self, "@{second} bra {right}");
        for side in [Side::Left, Side::Right] {
            if side == Side::Right {
                put!(self, "bra {end}");
                self.writer.place(right);
            }
            put!(
                self,
                "mbarrier.arrive.expect_tx.shared.b64 _, [{barrier}], {}",
                plan.lines(side) * LINE
            );
            let lines = self.box_lines(side);
            for index in 0..plan.lines(side) / lines {
                let to = self.r();
                put!(
                    self,
                    "add.u32 {to}, {stage_address}, {}",
                    plan.offset(side) + index * lines * LINE
                );
                let place = match side {
                    Side::Left if plan.reordered() => format!("{{{k}, {}}}", plan.row_of_line(index * lines)),
                    _ if plan.along_k(side) => format!("{{{k}, 0}}"),
                    _ => format!("{{{}, {k}}}", index * plan.step()),
                };
                put!(
                    self,
                    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{map}, {place}], [{barrier}]"
                );
            }
        }
        self.writer.place(end);
    }

    /// The product through bulk tensor copies. `workspace` (`.b64`) has room for two tensor maps.
    pub fn bulk(&mut self, left: &Source, right: &Source, workspace: Reg, sums: &[Reg]) {
        let plan = self.plan;
        let stages = plan.stages;
        let steps = self.steps(left.depth);
        self.barrier();
        self.make_barriers();
        // While the tensor maps are made, the first stages come by other means.
        let ahead = if plan.reordered() { 0 } else { AHEAD.min(stages) };
        if ahead > 0 {
            self.fill_first([left, right], ahead);
        }
        self.make_maps(left, right, workspace);
        self.barrier();
        let (elected, lane) = (self.p(), self.r());
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        put!(self, "setp.eq.u32 {elected}, {lane}, 0");
        let speaks = self.p();
        put!(self, "setp.eq.u32 {speaks}, {lane}, 0");
        put!(self, "setp.lt.and.u32 {elected}, {}, 2, {elected}", self.warp);
        let fill_end = self.writer.label();
        put!(self, "@!{elected} bra {fill_end}");
        let map = self.d();
        put!(self, "mad.wide.u32 {map}, {}, {MAP_BYTES}, {workspace}", self.warp);
        TensorMap::acquire(self.writer, map);
        for stage in 0..stages {
            let barrier = self.r();
            put!(
                self,
                "add.u32 {barrier}, {}, {}",
                self.shared,
                plan.barriers() + 8 * stage
            );
            if stage < ahead {
                // Nothing to wait for at the barrier.
                put!(self, "mbarrier.arrive.shared.b64 _, [{barrier}]");
                continue;
            }
            let (past, k, address) = (self.p(), self.r(), self.r());
            put!(self, "setp.le.u32 {past}, {steps}, {stage}");
            put!(self, "@{past} bra {fill_end}");
            put!(self, "mov.b32 {k}, {}", stage * plan.step());
            put!(
                self,
                "add.u32 {address}, {}, {}",
                self.shared,
                stage * plan.stage_bytes()
            );
            self.load_stage(map, address, barrier, k);
        }
        self.writer.place(fill_end);
        put!(self, "bar.warp.sync 0xffffffff");

        let multiplier = self.multiplier();
        // Sums of one stage, where they are promoted.
        let parts: Vec<Reg> = if plan.promotes() {
            sums.iter().map(|_| self.writer.reg(Class::F32)).collect()
        } else {
            Vec::new()
        };
        let (step, stage, parity) = (self.r(), self.r(), self.r());
        // The stage before this one, which the previous group of products read, and its parity.
        let (last, last_parity) = (self.r(), self.r());
        put!(self, "mov.b32 {step}, 0");
        put!(self, "mov.b32 {stage}, 0");
        put!(self, "mov.b32 {parity}, 0");
        put!(self, "mov.b32 {last}, 0");
        put!(self, "mov.b32 {last_parity}, 0");
        let (top, end) = (self.writer.label(), self.writer.label());
        self.writer.place(top);
        let done = self.p();
        put!(self, "setp.ge.u32 {done}, {step}, {steps}");
        put!(self, "@{done} bra {end}");
        self.wait_first(step, ahead);
        let barrier = self.r();
        put!(self, "mad.lo.u32 {barrier}, {stage}, 8, {}", self.shared);
        self.wait_barrier(barrier, plan.barriers(), parity);
        let free = self.r();
        put!(self, "mad.lo.u32 {free}, {last}, 8, {}", self.shared);
        if plan.promotes() {
            self.multiply(&multiplier, stage, &parts);
            self.wait_products(0);
            put!(
                self,
                "@{speaks} mbarrier.arrive.shared.b64 _, [{barrier}+{}]",
                plan.barriers() + 8 * stages
            );
            for (sum, part) in sums.iter().zip(&parts) {
                put!(self, "add.f32 {sum}, {sum}, {part}");
            }
        } else {
            self.multiply(&multiplier, stage, sums);
            self.wait_products(1);
        }
        // What read the stage before this one is done.
        let (later, refill_end) = (self.p(), self.writer.label());
        put!(self, "setp.eq.u32 {later}, {step}, 0");
        put!(self, "@{later} bra {refill_end}");
        if !plan.promotes() {
            put!(
                self,
                "@{speaks} mbarrier.arrive.shared.b64 _, [{free}+{}]",
                plan.barriers() + 8 * stages
            );
        }
        let (next, none) = (self.r(), self.p());
        put!(self, "add.u32 {next}, {step}, {}", stages - 1);
        put!(self, "setp.ge.u32 {none}, {next}, {steps}");
        put!(self, "@{none} bra {refill_end}");
        put!(self, "@!{elected} bra {refill_end}");
        self.wait_barrier(free, plan.barriers() + 8 * stages, last_parity);
        let (k, address, full) = (self.r(), self.r(), self.r());
        put!(self, "mul.lo.u32 {k}, {next}, {}", plan.step());
        put!(
            self,
            "mad.lo.u32 {address}, {last}, {}, {}",
            plan.stage_bytes(),
            self.shared
        );
        put!(self, "add.u32 {full}, {free}, {}", plan.barriers());
        self.load_stage(map, address, full, k);
        self.writer.place(refill_end);
        put!(self, "bar.warp.sync 0xffffffff");
        put!(self, "mov.b32 {last}, {stage}");
        put!(self, "mov.b32 {last_parity}, {parity}");
        self.next_stage(stage, parity);
        put!(self, "add.u32 {step}, {step}, 1");
        put!(self, "bra.uni {top}");
        self.writer.place(end);
        self.wait_products(0);
        if ahead > 0 {
            put!(self, "cp.async.wait_group 0");
        }
        self.drop_barriers();
    }

    /// Starts to copy the first stages by `cp.async`, a group for each.
    fn fill_first(&mut self, sources: [&Source; 2], stages: u32) {
        let copiers = [
            self.copier(Side::Left, sources[0]),
            self.copier(Side::Right, sources[1]),
        ];
        let filled = self.r();
        put!(self, "mov.b32 {filled}, 0");
        for stage in 0..stages {
            let address = self.r();
            put!(
                self,
                "add.u32 {address}, {}, {}",
                self.shared,
                stage * self.plan.stage_bytes()
            );
            self.fill(&[&copiers[0], &copiers[1]], address, filled);
        }
    }

    /// Waits for the stage of one of the first steps, which threads copied: each for its own part, then all for each other.
    fn wait_first(&mut self, step: Reg, stages: u32) {
        if stages == 0 {
            return;
        }
        let (later, end) = (self.p(), self.writer.label());
        put!(self, "setp.ge.u32 {later}, {step}, {stages}");
        put!(self, "@{later} bra {end}");
        for stage in 0..stages {
            let (other, next) = (self.p(), self.writer.label());
            put!(self, "setp.ne.u32 {other}, {step}, {stage}");
            put!(self, "@{other} bra {next}");
            put!(self, "cp.async.wait_group {}", stages - 1 - stage);
            self.writer.place(next);
        }
        put!(self, "fence.proxy.async.shared::cta");
        self.barrier();
        self.writer.place(end);
    }

    /// The next stage in the ring; its parity flips where the ring begins again.
    fn next_stage(&mut self, stage: Reg, parity: Reg) {
        let wraps = self.p();
        put!(self, "add.u32 {stage}, {stage}, 1");
        put!(self, "setp.eq.u32 {wraps}, {stage}, {}", self.plan.stages);
        put!(self, "@{wraps} mov.b32 {stage}, 0");
        put!(self, "@{wraps} xor.b32 {parity}, {parity}, 1");
    }

    /// Ends the life of the barriers, once all threads are past them.
    fn drop_barriers(&mut self) {
        let plan = self.plan;
        self.barrier();
        let first = self.p();
        put!(self, "setp.eq.u32 {first}, {}, 0", self.thread);
        for barrier in 0..2 * plan.stages {
            put!(
                self,
                "@{first} mbarrier.inval.shared.b64 [{}+{}]",
                self.shared,
                plan.barriers() + 8 * barrier
            );
        }
    }
}
