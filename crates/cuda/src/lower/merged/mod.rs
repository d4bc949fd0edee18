//! Products of SIMD-groups that multiply by the same right operand, as one product of the threadgroup.
//!
//! The case at hand is attention: a loop whose body makes scores from a tile of keys, changes them, and accumulates their product with a tile of
//! values. All SIMD-groups read the same tiles, so each is fetched once, by a bulk tensor copy into shared memory, and four SIMD-groups multiply it as one
//! `wgmma`. The loop as the kernel has it would wait for each product; here it is a pipeline:
//!
//! ```text
//! before the loop   scores = Q·K₀
//! iteration i       what the body does with the scores, while sums += P·Vᵢ₋₁ still runs
//!                   wait for the sums; P becomes registers of 16 bits; issue scores = Q·Kᵢ₊₁
//!                   what the body does with the sums
//!                   issue sums += P·Vᵢ; wait for the scores
//! ```
//!
//! Whether a loop is like that is decided when the kernel is compiled ([`plan`]); whether bulk copies can bring its operands when it runs. The
//! other case is the same loop once more, product by product.

mod feed;
mod issue;
mod plain;
mod plan;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use anymetal_ir::{Block, Inst, Unroll};

use self::feed::Feed;
use self::plan::LoopPlan;
use super::{Lower, Result};
use crate::ptx;

/// The loop that is being lowered.
pub(crate) struct Pipeline<'k> {
    plan: LoopPlan<'k>,
    feed: Feed,
    /// The second product's left operand, once it is in registers of 16 bits.
    left: RefCell<Vec<String>>,
    /// Operands come element by element, and each product is waited for.
    plain: bool,
}

/// What the lowering of merged products keeps.
#[derive(Default)]
pub(crate) struct MergedState<'k> {
    pipeline: Option<Pipeline<'k>>,
}

impl<'k> Lower<'k> {
    /// A loop: as a pipeline where it is one, else as it stands.
    pub fn merged_or_plain_loop(&mut self, body: &'k Block, latch: &'k Block, unroll: Unroll) -> Result {
        if self.merged.pipeline.is_some() {
            return self.loop_(body, latch, unroll);
        }
        let Some(plan) = self.loop_plan(body, latch) else {
            return self.loop_(body, latch, unroll);
        };
        let (plain, end) = (self.writer.label(), self.writer.label());
        let feed = self.merged_feed(&plan);
        self.min_blocks = if plan.blocks() > 1 { 2 } else { 0 };
        let none = self.ahead(&plan, 0)?.ends;
        ptx!(self, "@{none} bra.uni {end}");
        let fits = self.merged_fits(&plan);
        ptx!(self, "@!{fits} bra {plain}");
        self.merged_begin(&plan, &feed)?;
        self.merged.pipeline = Some(Pipeline {
            plan,
            feed,
            left: RefCell::default(),
            plain: false,
        });
        self.loop_(body, latch, unroll)?;
        if let Some(mut pipeline) = self.merged.pipeline.take() {
            self.merged_end(&pipeline);
            ptx!(self, "bra.uni {end}");
            self.writer.place(plain);
            self.plain_begin(&pipeline.plan);
            pipeline.plain = true;
            self.merged.pipeline = Some(pipeline);
            self.loop_(body, latch, unroll)?;
            self.merged.pipeline = None;
        }
        self.writer.place(end);
        Ok(())
    }

    /// Comes before each instruction. True if the pipeline has done it already.
    pub fn merged_inst(&mut self, inst: &'k Inst) -> Result<bool> {
        let Some(pipeline) = self.merged.pipeline.take() else {
            return Ok(false);
        };
        let result = self.merged_place(&pipeline, inst);
        self.merged.pipeline = Some(pipeline);
        result
    }

    fn merged_place(&mut self, pipeline: &Pipeline<'k>, inst: &'k Inst) -> Result<bool> {
        let plan = &pipeline.plan;
        let is = |other: *const Inst| std::ptr::from_ref(inst) == other;
        if is(plan.first.inst) {
            if pipeline.plain {
                self.plain_first(pipeline);
            }
            return Ok(true);
        }
        if is(plan.settle) && !pipeline.plain {
            self.merged_settle(pipeline)?;
        }
        if plan.conversion.is_some_and(is) && !pipeline.plain {
            // Done where the scores were still there.
            return Ok(true);
        }
        if is(plan.second.inst) {
            if pipeline.plain {
                self.plain_second(pipeline)?;
            } else {
                self.merged_issue(pipeline)?;
            }
            return Ok(true);
        }
        Ok(false)
    }
}
