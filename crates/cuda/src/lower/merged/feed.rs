//! Tiles in shared memory: where they are, and the bulk copies that bring them.
//!
//! A tile is brought by one bulk tensor copy for each 64 columns: lines of 128 bytes, swizzled. Each of the two right operands has a ring of two
//! tiles. A place in a ring has two barriers: *full*, which the copies complete, and *empty*, at which each SIMD-group arrives once its product
//! has read the tile. Tile m of a ring is at place m mod 2 and is phase m / 2 of its barriers.

use anymetal_ir::{Operand, TensorRef};

use super::Pipeline;
use super::plan::{JOINED, LINE, LINE_ELEMENTS, LoopPlan, Product, ROWS, STAGES};
use crate::emit;
use crate::lower::staged::Input;
use crate::lower::staged::tensor_map::{MAP_BYTES, PITCH_LIMIT, TensorMap};
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// The tiles of one right operand.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    /// Offset of the first tile in the staging area.
    pub tiles: u32,
    /// Bytes of a tile.
    pub bytes: u32,
    /// Copies of 64 columns.
    boxes: u32,
    /// Rows of a tile.
    lines: u32,
    /// Offset of the barriers: those that say a place is full, then those that say it is empty.
    barriers: u32,
    /// `.b64`: address of the tensor map.
    map: Reg,
}

/// What the pipeline holds while it runs.
pub(super) struct Feed {
    /// The rings of the first and the second product's right operands.
    pub rings: [Ring; 2],
    /// `.b32`: shared address of the staging area.
    pub shared: Reg,
    /// `.b32`: the iteration, counted from 0.
    pub iteration: Reg,
    /// This thread issues the copies.
    pub elected: Reg,
    /// This thread speaks for its SIMD-group.
    pub speaks: Reg,
    /// `.b64`: descriptor of the joined SIMD-groups' left operand.
    pub left: Reg,
}

/// What an iteration that is yet to come will see.
pub(super) struct Ahead {
    /// The coordinates of both right operands' tiles.
    origins: [[Reg; 2]; 2],
    /// There is no such iteration.
    pub ends: Reg,
}

/// Lines that threads copy in chunks of 16 bytes.
struct Lines {
    rows: u32,
    /// Parts of 64 columns, and bytes from one to the next.
    boxes: u32,
    box_bytes: u32,
    /// `.b32`: shared address of the first line.
    to: Reg,
    /// `.b32`: which of the threads that copy this is, and how many they are.
    thread: Reg,
    threads: u32,
}

/// Offsets in the staging area.
struct Places {
    tiles: [u32; 2],
    barriers: u32,
    maps: u32,
    bytes: u32,
}

fn places(plan: &LoopPlan) -> Places {
    let first = plan.left_bytes();
    let second = first + STAGES * plan.first.tile_bytes();
    let barriers = second + STAGES * plan.second.tile_bytes();
    let maps = barriers + 2 * 2 * STAGES * 8;
    let maps = maps.next_multiple_of(MAP_BYTES);
    Places {
        tiles: [first, second],
        barriers,
        maps,
        bytes: maps + 2 * MAP_BYTES,
    }
}

impl<'k> Lower<'k> {
    /// True (in the whole threadgroup) if bulk copies can bring the operands.
    pub(super) fn merged_fits(&mut self, plan: &LoopPlan<'k>) -> Reg {
        let fits = emit!(self, Pred, "setp.eq.u32", 0, 0);
        let mut tensors = vec![plan.first.right, plan.second.right];
        if let Operand::Tensor(left) = plan.first.left {
            tensors.push(left);
        }
        let bits = self.reg(Class::B64);
        ptx!(self, "mov.b64 {bits}, 0");
        for tensor in tensors {
            let pointer = self.value(tensor.pointer);
            let pitch = emit!(self, B64, "shl.b64", self.value(tensor.strides[1]), 1);
            ptx!(self, "or.b64 {bits}, {bits}, {pointer}");
            ptx!(self, "or.b64 {bits}, {bits}, {pitch}");
            ptx!(self, "setp.gt.and.s64 {fits}, {pitch}, 0, {fits}");
            ptx!(self, "setp.lt.and.s64 {fits}, {pitch}, {PITCH_LIMIT}, {fits}");
            for &extent in &tensor.base_extents {
                let extent = self.value(extent);
                ptx!(self, "setp.gt.and.s64 {fits}, {extent}, 0, {fits}");
            }
        }
        let low = emit!(self, B32, "cvt.u32.u64", bits);
        let low = emit!(self, B32, "and.b32", low, 15);
        ptx!(self, "setp.eq.and.u32 {fits}, {low}, 0, {fits}");
        fits
    }

    /// Where everything is, and who does what.
    pub(super) fn merged_feed(&mut self, plan: &LoopPlan<'k>) -> Feed {
        let places = places(plan);
        self.stage(places.bytes);
        let workspace = self.staged_workspace();
        let shared = emit!(self, B32, "mov.u32", "smem");
        let elected = emit!(self, Pred, "setp.eq.u32", self.geometry.hardware_thread, 0);
        let speaks = emit!(self, Pred, "setp.eq.u32", self.geometry.hardware_lane, 0);
        let ring = |product: &Product, index: u32, map: Reg| {
            let (inner, lines) = product.tile();
            Ring {
                tiles: places.tiles[index as usize],
                bytes: product.tile_bytes(),
                boxes: inner / LINE_ELEMENTS,
                lines,
                barriers: places.barriers + index * 2 * STAGES * 8,
                map,
            }
        };
        let second_map = emit!(self, B64, "add.s64", workspace, MAP_BYTES);
        let rings = [ring(&plan.first, 0, workspace), ring(&plan.second, 1, second_map)];
        let iteration = self.u32(0);
        let warp = self.uniform_warp();
        let left = self.left_descriptor(plan, shared, warp);
        Feed {
            rings,
            shared,
            iteration,
            elected,
            speaks,
            left,
        }
    }

    /// The SIMD-group's index, through a shuffle, so that the assembler knows that it is the same in the SIMD-group.
    pub(super) fn uniform_warp(&mut self) -> Reg {
        let warp = emit!(self, B32, "shr.u32", self.geometry.hardware_thread, 5);
        let to = self.reg(Class::B32);
        ptx!(self, "shfl.sync.idx.b32 {to}, {warp}, 0, 31, 0xffffffff");
        to
    }

    /// Everything before the loop: barriers, tensor maps, the left operand, the first tiles, the first scores.
    pub(super) fn merged_begin(&mut self, plan: &LoopPlan<'k>, feed: &Feed) -> Result {
        let places = places(plan);
        let warp = self.uniform_warp();
        self.merged_barrier(plan);
        self.make_barriers(feed, plan.simdgroups);
        self.copy_left(plan, feed.shared, warp);
        self.copy_first(plan, feed)?;
        for (index, product) in [&plan.first, &plan.second].into_iter().enumerate() {
            let scratch = places.maps + index as u32 * MAP_BYTES;
            self.make_map(feed, product.right, &feed.rings[index], warp, index as u32, scratch);
        }
        ptx!(self, "cp.async.wait_all");
        ptx!(self, "fence.proxy.async.shared::cta");
        self.merged_barrier(plan);
        self.issue_first_scores(plan, feed);
        let skip = self.writer.label();
        ptx!(self, "@!{} bra {skip}", feed.elected);
        let (zero, one) = (self.u32(0), self.u32(1));
        let (now, next) = (self.ahead(plan, 0)?, self.ahead(plan, 1)?);
        // Tile 0 of the first ring is there.
        ptx!(
            self,
            "mbarrier.arrive.shared.b64 _, [{}+{}]",
            feed.shared,
            feed.rings[0].barriers
        );
        // Nobody else waits for that phase, and one that nobody has waited for must not be followed by the next.
        self.wait_barrier(feed.shared, feed.rings[0].barriers, zero);
        self.acquire_map(feed, 1);
        self.load_tile(feed, &feed.rings[1], zero, now.origins[1]);
        self.acquire_map(feed, 0);
        ptx!(self, "@{} bra {skip}", next.ends);
        self.load_tile(feed, &feed.rings[0], one, next.origins[0]);
        self.writer.place(skip);
        ptx!(self, "bar.warp.sync 0xffffffff");
        self.finish_first_scores(feed);
        Ok(())
    }

    fn acquire_map(&mut self, feed: &Feed, ring: usize) {
        let map = feed.rings[ring].map;
        TensorMap::acquire(&mut self.writer, map);
    }

    /// After the loop: products that are under way end, and the barriers.
    pub(super) fn merged_end(&mut self, pipeline: &Pipeline<'k>) {
        let feed = &pipeline.feed;
        ptx!(self, "wgmma.wait_group.sync.aligned 0");
        self.merged_barrier(&pipeline.plan);
        let places = places(&pipeline.plan);
        for barrier in 0..4 * STAGES {
            ptx!(
                self,
                "@{} mbarrier.inval.shared.b64 [{}+{}]",
                feed.elected,
                feed.shared,
                places.barriers + 8 * barrier
            );
        }
        self.merged_barrier(&pipeline.plan);
    }

    /// All threads wait.
    pub(super) fn merged_barrier(&mut self, plan: &LoopPlan) {
        ptx!(self, "bar.sync 0, {}", 32 * plan.simdgroups);
    }

    fn make_barriers(&mut self, feed: &Feed, simdgroups: u32) {
        for ring in &feed.rings {
            for place in 0..STAGES {
                for (at, count) in [(place, 1), (STAGES + place, simdgroups)] {
                    ptx!(
                        self,
                        "@{} mbarrier.init.shared.b64 [{}+{}], {count}",
                        feed.elected,
                        feed.shared,
                        ring.barriers + 8 * at
                    );
                }
            }
        }
    }

    /// SIMD-group `index` writes the tensor map of a right operand to the workspace.
    fn make_map(&mut self, feed: &Feed, tensor: &TensorRef, ring: &Ring, warp: Reg, index: u32, scratch: u32) {
        let (skip, copy) = (self.writer.label(), self.writer.label());
        let mine = emit!(self, Pred, "setp.eq.u32", warp, index);
        ptx!(self, "@!{mine} bra {skip}");
        let scratch = emit!(self, B32, "add.u32", feed.shared, scratch);
        let word = emit!(self, B32, "mad.lo.u32", self.geometry.hardware_lane, 4, scratch);
        ptx!(self, "st.shared.b32 [{word}], 0");
        ptx!(self, "bar.warp.sync 0xffffffff");
        ptx!(self, "@!{} bra {copy}", feed.speaks);
        let extents = [0, 1].map(|dimension| {
            let extent = self.value(tensor.base_extents[dimension]);
            let extent = emit!(self, B64, "min.s64", extent, i32::MAX);
            emit!(self, B32, "cvt.u32.u64", extent)
        });
        let pitch = emit!(self, B64, "shl.b64", self.value(tensor.strides[1]), 1);
        let pointer = self.value(tensor.pointer);
        let element = if tensor.format == anymetal_formats::ElementFormat::F16 {
            Input::F16.map_code()
        } else {
            Input::BF16.map_code()
        };
        let map = TensorMap {
            address: pointer,
            pitch,
            extents,
            box_columns: LINE_ELEMENTS,
            box_lines: self.u32(ring.lines),
            element,
        };
        map.write(&mut self.writer, scratch);
        self.writer.place(copy);
        ptx!(self, "bar.warp.sync 0xffffffff");
        TensorMap::publish(&mut self.writer, ring.map, scratch);
        self.writer.place(skip);
    }

    /// Each SIMD-group copies its 16 rows of the left operand, for `wgmma` to read.
    fn copy_left(&mut self, plan: &LoopPlan<'k>, shared: Reg, warp: Reg) {
        let Operand::Tensor(tensor) = plan.first.left else {
            return;
        };
        // SIMD-group w of a joined four has lines 16·w…
        let group = emit!(self, B32, "shr.u32", warp, JOINED.trailing_zeros());
        let within = emit!(self, B32, "and.b32", warp, JOINED - 1);
        let bytes = JOINED * ROWS * plan.first.depth * 2;
        let to = emit!(self, B32, "mad.lo.u32", group, bytes, shared);
        let to = emit!(self, B32, "mad.lo.u32", within, ROWS * LINE, to);
        let origin = [0, 1].map(|d| self.value(tensor.origin[d]));
        let lines = Lines {
            rows: ROWS,
            boxes: plan.first.depth / LINE_ELEMENTS,
            box_bytes: JOINED * ROWS * LINE,
            to,
            thread: self.geometry.hardware_lane,
            threads: 32,
        };
        self.copy_lines(tensor, origin, &lines);
    }

    /// The threadgroup copies the first tile of the first ring: sooner than a tensor map for it is made.
    fn copy_first(&mut self, plan: &LoopPlan<'k>, feed: &Feed) -> Result {
        let ring = &feed.rings[0];
        let [x, y] = self.ahead(plan, 0)?.origins[0];
        let origin = [x, y].map(|at| emit!(self, B64, "cvt.s64.s32", at));
        let lines = Lines {
            rows: ring.lines,
            boxes: ring.boxes,
            box_bytes: ring.lines * LINE,
            to: emit!(self, B32, "add.u32", feed.shared, ring.tiles),
            thread: self.geometry.hardware_thread,
            threads: 32 * plan.simdgroups,
        };
        self.copy_lines(plan.first.right, origin, &lines);
        Ok(())
    }

    /// Copies lines in chunks of 16 bytes, swizzled: chunk c of line l is at c ^ (l mod 8). What does not exist is zero.
    fn copy_lines(&mut self, tensor: &TensorRef, [x, y]: [Reg; 2], lines: &Lines) {
        let step = lines.threads / 8;
        let chunk = emit!(self, B32, "and.b32", lines.thread, 7);
        let row = emit!(self, B32, "shr.u32", lines.thread, 3);
        let pitch = emit!(self, B64, "shl.b64", self.value(tensor.strides[1]), 1);
        // Elements from this thread's chunk on, and rows from the view's first on.
        let wide = emit!(self, B64, "mul.wide.u32", chunk, 8);
        let column = emit!(self, B64, "add.s64", x, wide);
        let columns = emit!(self, B64, "sub.s64", self.value(tensor.base_extents[0]), column);
        let rows = emit!(self, B64, "sub.s64", self.value(tensor.base_extents[1]), y);
        let wide = emit!(self, B64, "cvt.u64.u32", row);
        let first = emit!(self, B64, "add.s64", y, wide);
        let from = emit!(self, B64, "mad.lo.s64", first, pitch, self.value(tensor.pointer));
        let from = emit!(self, B64, "mad.lo.s64", column, 2, from);
        let outside = emit!(self, Pred, "setp.lt.s64", y, 0);
        let to = emit!(self, B32, "mad.lo.u32", row, LINE, lines.to);
        // Where steps are of four rows, every other line is in the second half of an atom.
        let halves: &[u32] = if step.is_multiple_of(8) { &[0] } else { &[0, 4] };
        let swizzles: Vec<Reg> = halves
            .iter()
            .map(|&add| {
                let line = emit!(self, B32, "add.u32", row, add);
                let line = emit!(self, B32, "and.b32", line, 7);
                let place = emit!(self, B32, "xor.b32", line, chunk);
                emit!(self, B32, "mad.lo.u32", place, 16, to)
            })
            .collect();
        for part in 0..lines.boxes {
            let left = emit!(self, B64, "add.s64", columns, -i64::from(part * LINE_ELEMENTS));
            let left = emit!(self, B64, "min.s64", emit!(self, B64, "max.s64", left, 0), 8);
            let bytes = emit!(self, B32, "cvt.u32.u64", emit!(self, B64, "shl.b64", left, 1));
            for pass in 0..lines.rows.div_ceil(step) {
                let there = emit!(self, B64, "add.s64", wide, step * pass);
                let exists = emit!(self, Pred, "setp.lt.s64", there, rows);
                let size = emit!(self, B32, "selp.b32", bytes, 0, exists);
                let size = emit!(self, B32, "selp.b32", 0, size, outside);
                let skip = emit!(self, Pred, "setp.eq.u32", size, 0);
                let address = emit!(self, B64, "mad.lo.s64", pitch, step * pass, from);
                let address = emit!(self, B64, "add.s64", address, part * LINE);
                // What is read nowhere still needs an address.
                let base = self.value(tensor.pointer);
                let address = emit!(self, B64, "selp.b64", base, address, skip);
                let place = part * lines.box_bytes + pass * step * LINE;
                let to = swizzles[pass as usize % swizzles.len()];
                ptx!(
                    self,
                    "cp.async.cg.shared.global [{to}+{place}], [{address}], 16, {size}"
                );
            }
        }
    }

    /// What the iteration `by` after this one will see.
    pub(super) fn ahead(&mut self, plan: &LoopPlan<'k>, by: i64) -> Result<Ahead> {
        let kept: Vec<Reg> = plan.steps.iter().map(|(local, _)| self.local(*local)).collect();
        let values: Vec<_> = plan
            .slice
            .iter()
            .map(|inst| self.value_if_defined(inst.first))
            .collect();
        for (local, step) in &plan.steps {
            let now = self.local(*local);
            let ahead = emit!(self, B32, "add.s32", now, (step * by) as i32);
            self.replace_local(*local, ahead);
        }
        let mut result = Ok(());
        for inst in &plan.slice {
            result = result.and_then(|()| self.inst(inst));
        }
        let ahead = result.map(|()| {
            let origins = [plan.first.right, plan.second.right].map(|right| {
                [0, 1].map(|d| {
                    let origin = self.value(right.origin[d]);
                    emit!(self, B32, "cvt.u32.u64", origin)
                })
            });
            let (condition, when) = plan.exit;
            let ends = self.reg(Class::Pred);
            let condition = self.value(condition);
            ptx!(
                self,
                "{} {ends}, {condition}",
                if when { "mov.pred" } else { "not.pred" }
            );
            Ahead { origins, ends }
        });
        for ((local, _), reg) in plan.steps.iter().zip(kept) {
            self.replace_local(*local, reg);
        }
        for (inst, reg) in plan.slice.iter().zip(values) {
            if let Some(reg) = reg {
                self.bind(inst.first, reg);
            }
        }
        ahead
    }

    /// The elected thread starts the copies of a tile; `place` is 0 or 1 (`.b32`).
    fn load_tile(&mut self, feed: &Feed, ring: &Ring, place: Reg, [x, y]: [Reg; 2]) {
        let barrier = emit!(self, B32, "mad.lo.u32", place, 8, feed.shared);
        let barrier = emit!(self, B32, "add.u32", barrier, ring.barriers);
        let to = emit!(self, B32, "mad.lo.u32", place, ring.bytes, feed.shared);
        ptx!(
            self,
            "mbarrier.arrive.expect_tx.shared.b64 _, [{barrier}], {}",
            ring.bytes
        );
        for part in 0..ring.boxes {
            let to = emit!(self, B32, "add.u32", to, ring.tiles + part * ring.lines * LINE);
            let x = emit!(self, B32, "add.u32", x, part * LINE_ELEMENTS);
            ptx!(
                self,
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{}, {{{x}, {y}}}], [{barrier}]",
                ring.map
            );
        }
    }

    /// The elected thread brings tile `iteration + ahead` of a ring, once its place is free.
    pub(super) fn bring(&mut self, pipeline: &Pipeline<'k>, ring: usize, ahead: u32) -> Result {
        let feed = &pipeline.feed;
        let skip = self.writer.label();
        ptx!(self, "@!{} bra {skip}", feed.elected);
        // It is there if the iterations before it are.
        let mut origins = None;
        for by in 1..=ahead {
            let ahead = self.ahead(&pipeline.plan, by.into())?;
            ptx!(self, "@{} bra {skip}", ahead.ends);
            origins = Some(ahead.origins[ring]);
        }
        let Some(origins) = origins else {
            return self.unsupported("a tile of this iteration");
        };
        let tile = emit!(self, B32, "add.u32", feed.iteration, ahead);
        let (place, phase) = self.place_of(tile);
        // Of the tile that was there before; the first ones wait for nothing.
        let parity = emit!(self, B32, "xor.b32", phase, 1);
        let barrier = emit!(self, B32, "mad.lo.u32", place, 8, feed.shared);
        let ring_state = feed.rings[ring];
        self.wait_barrier(barrier, ring_state.barriers + 8 * STAGES, parity);
        self.load_tile(feed, &ring_state, place, origins);
        self.writer.place(skip);
        ptx!(self, "bar.warp.sync 0xffffffff");
        Ok(())
    }

    /// The place of a tile in its ring, and the parity of its phase.
    pub(super) fn place_of(&mut self, tile: Reg) -> (Reg, Reg) {
        let place = emit!(self, B32, "and.b32", tile, 1);
        let phase = emit!(self, B32, "bfe.u32", tile, 1, 1);
        (place, phase)
    }

    /// All threads wait for a tile.
    pub(super) fn wait_full(&mut self, feed: &Feed, ring: &Ring, tile: Reg) {
        let (place, phase) = self.place_of(tile);
        let barrier = emit!(self, B32, "mad.lo.u32", place, 8, feed.shared);
        self.wait_barrier(barrier, ring.barriers, phase);
    }

    /// This SIMD-group has read a tile; where `only` is given and false it had none.
    pub(super) fn release(&mut self, feed: &Feed, ring: &Ring, tile: Reg, only: Option<Reg>) {
        let (place, _) = self.place_of(tile);
        let barrier = emit!(self, B32, "mad.lo.u32", place, 8, feed.shared);
        let speaks = match only {
            Some(only) => emit!(self, Pred, "and.pred", only, feed.speaks),
            None => feed.speaks,
        };
        ptx!(
            self,
            "@{speaks} mbarrier.arrive.shared.b64 _, [{barrier}+{}]",
            ring.barriers + 8 * STAGES
        );
    }

    fn wait_barrier(&mut self, address: Reg, offset: u32, parity: Reg) {
        let (done, again) = (self.reg(Class::Pred), self.writer.label());
        self.writer.place(again);
        ptx!(
            self,
            "mbarrier.try_wait.parity.shared.b64 {done}, [{address}+{offset}], {parity}"
        );
        ptx!(self, "@!{done} bra {again}");
    }
}
