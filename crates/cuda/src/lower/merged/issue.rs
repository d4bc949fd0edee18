//! The products themselves: warpgroup instructions on tiles in shared memory.

use anymetal_ir::{CoopId, Operand};

use super::Pipeline;
use super::feed::{Feed, Ring};
use super::plan::{JOINED, LINE, LINE_ELEMENTS, LoopPlan, Product, ROWS};
use crate::emit;
use crate::lower::coop::Storage;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// The constant part of a descriptor: 128-byte swizzle, and how far neighbouring groups of eight lines and (across K) of 64 columns are.
fn descriptor_bits(leading_bytes: u32) -> u64 {
    (1 << 62) | (u64::from((8 * LINE) >> 4) << 32) | (u64::from(leading_bytes >> 4) << 16)
}

impl<'k> Lower<'k> {
    /// The descriptor of the joined SIMD-groups' rows of the left operand.
    pub(super) fn left_descriptor(&mut self, plan: &LoopPlan, shared: Reg, warp: Reg) -> Reg {
        let group = emit!(self, B32, "shr.u32", warp, JOINED.trailing_zeros());
        let start = emit!(
            self,
            B32,
            "mad.lo.u32",
            group,
            JOINED * ROWS * plan.first.depth * 2,
            shared
        );
        self.descriptor(start, 16)
    }

    /// The descriptor of lines at a shared address.
    fn descriptor(&mut self, start: Reg, leading_bytes: u32) -> Reg {
        let start = emit!(self, B32, "shr.u32", start, 4);
        let wide = emit!(self, B64, "cvt.u64.u32", start);
        let bits = format!("0x{:x}", descriptor_bits(leading_bytes));
        emit!(self, B64, "or.b64", wide, bits)
    }

    /// The descriptor of the tile of a ring at a place.
    fn tile_descriptor(&mut self, feed: &Feed, ring: &Ring, product: &Product, tile: Reg) -> Reg {
        let (place, _) = self.place_of(tile);
        let start = emit!(self, B32, "mad.lo.u32", place, ring.bytes, feed.shared);
        let start = emit!(self, B32, "add.u32", start, ring.tiles);
        let leading = if product.descriptor.transpose_right {
            16
        } else {
            product.depth * LINE
        };
        self.descriptor(start, leading)
    }

    /// The registers of a destination in the order of a warpgroup instruction.
    fn sums(&self, coop: CoopId) -> String {
        let tile = self.tile(coop);
        let mut list = Vec::new();
        for nb in 0..tile.column_blocks {
            for rb in 0..2 {
                for i in 0..2 {
                    list.push(self.tile_reg(coop, rb, nb, i).to_string());
                }
            }
        }
        list.join(", ")
    }

    /// One product. `left` gives the left operand of each 16 of K: a descriptor, or registers.
    fn multiply(&mut self, plan: &LoopPlan, product: &Product, left: &[String], right: Reg, keep: bool) {
        let sums = self.sums(product.destination);
        let (n, element) = (product.descriptor.n, plan.element());
        let along = product.descriptor.transpose_right;
        for (step, left) in left.iter().enumerate() {
            let step = step as u32;
            let offset = if along {
                // 32 bytes along lines, then the next 64 columns.
                let per_line = LINE_ELEMENTS / 16;
                (step / per_line * n * LINE + step % per_line * 32) >> 4
            } else {
                (step * 16 * LINE) >> 4
            };
            let right = emit!(self, B64, "add.s64", right, offset);
            let transposes = if left.starts_with('{') {
                format!("{}", u32::from(!along))
            } else {
                format!("0, {}", u32::from(!along))
            };
            ptx!(
                self,
                "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element} {{{sums}}}, {left}, {right}, {}, 1, 1, {transposes}",
                u32::from(keep || step > 0)
            );
        }
    }

    /// The scores of a tile (its number, `.b32`).
    pub(super) fn multiply_scores(&mut self, plan: &LoopPlan, feed: &Feed, tile: Reg) {
        let steps: Vec<String> = (0..plan.first.depth / 16)
            .map(|step| {
                let per_line = LINE_ELEMENTS / 16;
                let offset = (step / per_line * JOINED * ROWS * LINE + step % per_line * 32) >> 4;
                emit!(self, B64, "add.s64", feed.left, offset).to_string()
            })
            .collect();
        let right = self.tile_descriptor(feed, &feed.rings[0], &plan.first, tile);
        self.multiply(plan, &plan.first, &steps, right, false);
    }

    /// The second product of a tile.
    pub(super) fn multiply_sums(&mut self, plan: &LoopPlan, feed: &Feed, left: &[String], tile: Reg) {
        let right = self.tile_descriptor(feed, &feed.rings[1], &plan.second, tile);
        self.multiply(plan, &plan.second, left, right, true);
        ptx!(self, "wgmma.commit_group.sync.aligned");
    }

    /// Before the loop: the scores of the first tile.
    pub(super) fn issue_first_scores(&mut self, plan: &LoopPlan<'k>, feed: &Feed) {
        ptx!(self, "wgmma.fence.sync.aligned");
        self.multiply_scores(plan, feed, feed.iteration);
        ptx!(self, "wgmma.commit_group.sync.aligned");
    }

    /// Waits for them.
    pub(super) fn finish_first_scores(&mut self, feed: &Feed) {
        ptx!(self, "wgmma.wait_group.sync.aligned 0");
        self.release(feed, &feed.rings[0], feed.iteration, None);
    }

    /// Before the first use of the sums in the body: the products of the last iteration are done. Where the left operand is made of the scores alone,
    /// the next ones are issued, so that the tensor cores have work while the body is busy with the sums.
    pub(super) fn merged_settle(&mut self, pipeline: &Pipeline<'k>) -> Result {
        let feed = &pipeline.feed;
        // The branch of this keeps what comes before the wait there: else it would be moved behind it, and overlap with nothing.
        self.bring(pipeline, 0, 2)?;
        ptx!(self, "wgmma.wait_group.sync.aligned 0");
        if pipeline.plan.conversion.is_some() {
            // Not before the wait: these registers are those that the last product still reads.
            let left = self.left_fragments(&pipeline.plan, pipeline.plan.first.destination);
            pipeline.left.replace(left);
            self.next_scores(pipeline)?;
        }
        let before = emit!(self, B32, "add.u32", feed.iteration, -1);
        let later = emit!(self, Pred, "setp.ne.u32", feed.iteration, 0);
        self.release(feed, &feed.rings[1], before, Some(later));
        Ok(())
    }

    /// At the second product, which is issued after the next scores; then the next tile of values, and these scores are done.
    pub(super) fn merged_issue(&mut self, pipeline: &Pipeline<'k>) -> Result {
        let (plan, feed) = (&pipeline.plan, &pipeline.feed);
        let left = if plan.conversion.is_some() {
            pipeline.left.take()
        } else {
            let left = self.second_left(plan)?;
            self.next_scores(pipeline)?;
            left
        };
        self.wait_full(feed, &feed.rings[1], feed.iteration);
        ptx!(self, "wgmma.fence.sync.aligned");
        self.multiply_sums(plan, feed, &left, feed.iteration);
        self.bring(pipeline, 1, 1)?;
        ptx!(self, "wgmma.wait_group.sync.aligned 1");
        let next = emit!(self, B32, "add.u32", feed.iteration, 1);
        let more = self.goes_on(plan)?;
        self.release(feed, &feed.rings[0], next, Some(more));
        ptx!(self, "add.u32 {}, {}, 1", feed.iteration, feed.iteration);
        Ok(())
    }

    /// Issues the scores of the next iteration, if there is one, as a group.
    fn next_scores(&mut self, pipeline: &Pipeline<'k>) -> Result {
        let (plan, feed) = (&pipeline.plan, &pipeline.feed);
        let none = self.writer.label();
        let more = self.goes_on(plan)?;
        let next = emit!(self, B32, "add.u32", feed.iteration, 1);
        ptx!(self, "@!{more} bra.uni {none}");
        self.wait_full(feed, &feed.rings[0], next);
        ptx!(self, "wgmma.fence.sync.aligned");
        self.multiply_scores(plan, feed, next);
        ptx!(self, "wgmma.commit_group.sync.aligned");
        self.writer.place(none);
        Ok(())
    }

    /// True if there is another iteration; so that the assembler knows that all go the same way.
    fn goes_on(&mut self, plan: &LoopPlan<'k>) -> Result<Reg> {
        let last = self.ahead(plan, 1)?.ends;
        let none = emit!(self, Pred, "vote.sync.any.pred", last, "0xffffffff");
        Ok(emit!(self, Pred, "not.pred", none))
    }

    /// The second product's left operand.
    pub(super) fn second_left(&mut self, plan: &LoopPlan) -> Result<Vec<String>> {
        match plan.second.left {
            Operand::Coop(left) => Ok(self.left_fragments(plan, *left)),
            Operand::Tensor(_) => self.unsupported("a left operand in memory here"),
        }
    }

    /// A tile as the second product's left operand: registers of 16-bit pairs, for each 16 of K.
    fn left_fragments(&mut self, plan: &LoopPlan, left: CoopId) -> Vec<String> {
        let storage = self.tile(left).storage;
        let mut steps = Vec::new();
        for step in 0..plan.second.depth / 16 {
            let mut registers = Vec::new();
            for nb in [2 * step, 2 * step + 1] {
                for rb in 0..2 {
                    let pair = self.reg(Class::B32);
                    match storage {
                        Storage::Single => {
                            let [low, high] = [0, 1].map(|i| self.tile_reg(left, rb, nb, i));
                            ptx!(self, "cvt.rn.{}x2.f32 {pair}, {high}, {low}", plan.element());
                        }
                        Storage::Pairs => {
                            let from = self.tile_pair(left, rb, nb);
                            ptx!(self, "mov.b32 {pair}, {from}");
                        }
                    }
                    registers.push(pair.to_string());
                }
            }
            steps.push(format!("{{{}}}", registers.join(", ")));
        }
        steps
    }
}
