//! Structured control flow as branches and labels, and which lanes are here.
//!
//! Most kernels call SIMD-group functions only where whole SIMD-groups run together. Then control flow is plain branches, and
//! SIMD-group functions name all lanes.
//!
//! A kernel that calls one elsewhere (a *masked* kernel) keeps track of the lanes that are here together: a ballot where lanes part
//! gives each side its mask. Lanes that leave (`break`, `continue`) do not jump to their target: they note where they are heading and
//! pass every end of a construct on the way, where another ballot tells the others who is still here. So every mask names exactly the
//! lanes that come to the next SIMD-group function, and no question is asked about who happens to be active. Lanes that returned
//! have exited and are in no ballot.

use std::collections::HashMap;

use anymetal_ir::passes::Uniformity;
use anymetal_ir::{Block, Kernel, Op, Scope, Unroll, ValueId};

use super::{Lower, Result};
use crate::ptx::{Label, Reg};
use crate::{emit, ptx};

/// An operation that can be left.
#[derive(Clone, Copy)]
struct Frame {
    /// Where `break` goes.
    after: Label,
    /// Where `continue` goes.
    latch: Option<Label>,
}

/// The state of control flow while a kernel is lowered.
#[derive(Default)]
pub(crate) struct ControlState {
    /// The position in [`UniformityInfo::control`](anymetal_ir::passes::UniformityInfo::control) of the operation that has a block as its first.
    index: HashMap<*const Block, usize>,
    /// The operations that can be left, innermost last.
    frames: Vec<Frame>,
    /// The lanes that are here, in a masked kernel.
    mask: Option<Reg>,
    /// In a masked kernel: 0, or where a lane is heading: `2·f + 2` for a `break` of frame f, `2·f + 3` for a `continue`.
    heading: Option<Reg>,
    /// In a masked kernel: the ends of the constructs around this point, innermost last.
    joins: Vec<Label>,
    /// In other kernels: lanes of a SIMD-group may be apart here.
    apart: bool,
    /// Where a lane goes that returns, if it has more to do.
    lane_end: Option<Label>,
}

impl ControlState {
    /// True if lanes of a SIMD-group may not run this point together.
    pub fn apart(&self) -> bool {
        self.apart || self.heading.is_some()
    }
}

/// The name of each operation with blocks: where its first block is.
fn number(block: &Block, index: &mut HashMap<*const Block, usize>) {
    for inst in &block.insts {
        if let Some(first) = inst.op.blocks()[0] {
            let at = index.len();
            index.insert(std::ptr::from_ref(first), at);
        }
        for nested in inst.op.blocks().into_iter().flatten() {
            number(nested, index);
        }
    }
}

/// True if lanes can leave the block other than by its end, to a place outside `depth` constructs around it.
fn escapes(block: &Block, depth: u32) -> bool {
    block.insts.iter().any(|inst| match &inst.op {
        Op::Return => true,
        Op::Break(by) | Op::Continue(by) => *by >= depth,
        op => {
            let inner = depth + u32::from(matches!(op, Op::Loop { .. } | Op::Scope { .. }));
            op.blocks().into_iter().flatten().any(|block| escapes(block, inner))
        }
    })
}

/// True if lanes that break or continue can leave the block (those that return have exited).
fn jumps_out(block: &Block, depth: u32) -> bool {
    block.insts.iter().any(|inst| match &inst.op {
        Op::Break(by) | Op::Continue(by) => *by >= depth,
        op => {
            let inner = depth + u32::from(matches!(op, Op::Loop { .. } | Op::Scope { .. }));
            op.blocks().into_iter().flatten().any(|block| jumps_out(block, inner))
        }
    })
}

fn is_group_function(op: &Op) -> bool {
    matches!(
        op,
        Op::Group { .. }
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Barrier {
                scope: Scope::Simdgroup,
                ..
            }
    )
}

impl<'k> Lower<'k> {
    /// Whether some SIMD-group function runs where lanes of a SIMD-group may be apart.
    fn needs_masks(&self, block: &'k Block, mut apart: bool) -> bool {
        for inst in &block.insts {
            if apart && is_group_function(&inst.op) {
                return true;
            }
            let Some(first) = inst.op.blocks()[0] else { continue };
            let control = self.control_of(first);
            let divides = Uniformity::Simdgroup < control.body;
            for nested in inst.op.blocks().into_iter().flatten() {
                if self.needs_masks(nested, apart || divides) {
                    return true;
                }
            }
            let inner = u32::from(matches!(inst.op, Op::Loop { .. } | Op::Scope { .. }));
            apart |= divides
                && inst
                    .op
                    .blocks()
                    .into_iter()
                    .flatten()
                    .any(|block| escapes(block, inner));
        }
        false
    }

    fn control_of(&self, first: &Block) -> anymetal_ir::passes::Control {
        let varying = Uniformity::Varying;
        self.control
            .index
            .get(&std::ptr::from_ref(first))
            .and_then(|&at| self.uniformity.control.get(at))
            .copied()
            .unwrap_or(anymetal_ir::passes::Control {
                entry: varying,
                body: varying,
                latch: varying,
                exit: varying,
            })
    }

    /// Decides how control flow is lowered; part of the kernel's entry.
    pub(super) fn begin_control(&mut self) {
        let kernel: &'k Kernel = self.kernel;
        number(&kernel.body, &mut self.control.index);
        if self.needs_masks(&kernel.body, false) {
            let heading = self.u32(0);
            self.control.heading = Some(heading);
            let all = emit!(self, Pred, "setp.eq.b32", 0, 0);
            self.control.mask = Some(emit!(self, B32, "vote.sync.ballot.b32", all, "0xffffffff"));
        }
    }

    /// Lowers something that calls no SIMD-group function, and that a part of the lanes may have skipped: its branches need no masks.
    pub fn without_masks<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> T {
        let (mask, heading) = (self.control.mask.take(), self.control.heading.take());
        let result = lower(self);
        (self.control.mask, self.control.heading) = (mask, heading);
        result
    }

    /// The lanes (in hardware order) that run this point together, where they may be fewer than all that exist.
    pub fn active_mask(&self) -> Option<Reg> {
        self.control.mask
    }

    /// The lanes that are here as an operand of instructions that meet: all, or the mask.
    pub fn member_mask(&self) -> String {
        match self.control.mask {
            Some(mask) => mask.to_string(),
            None => "0xffffffff".into(),
        }
    }

    /// `.uni` if lanes of a SIMD-group agree on a condition.
    fn branch(&self, condition: ValueId) -> &'static str {
        if self.uniformity.value(condition) <= Uniformity::Simdgroup {
            "bra.uni"
        } else {
            "bra"
        }
    }

    /// Enters an operation with blocks; returns what [`leave`](Self::leave) wants.
    fn enter(&mut self, first: &Block) -> (bool, bool) {
        let before = self.control.apart;
        let divides = Uniformity::Simdgroup < self.control_of(first).body;
        self.control.apart |= divides;
        (before, divides)
    }

    /// Leaves it: lanes are apart behind it if they were before, or if only some of those that came in come out.
    fn leave(&mut self, (before, divides): (bool, bool), blocks: [&Block; 2], depth: u32) {
        self.control.apart = before || divides && blocks.iter().any(|block| escapes(block, depth));
    }

    pub fn if_(&mut self, condition: ValueId, then: &'k Block, otherwise: &'k Block) -> Result {
        if self.control.heading.is_some() {
            return self.masked_if(condition, then, otherwise);
        }
        let entered = self.enter(then);
        self.plain_if(condition, then, otherwise)?;
        self.leave(entered, [then, otherwise], 0);
        Ok(())
    }

    fn plain_if(&mut self, condition: ValueId, then: &'k Block, otherwise: &'k Block) -> Result {
        let p = self.value(condition);
        let bra = self.branch(condition);
        // A side that only leaves is a branch.
        for (side, other, not) in [(then, otherwise, ""), (otherwise, then, "!")] {
            if let [only] = side.insts.as_slice() {
                let target = match only.op {
                    Op::Break(depth) => Some(self.frame(depth)?.after),
                    Op::Continue(depth) => self.frame(depth)?.latch,
                    _ => None,
                };
                if let Some(target) = target {
                    ptx!(self, "@{not}{p} {bra} {target}");
                    return self.block(other);
                }
                if matches!(only.op, Op::Return) {
                    let end = self.end_of_lane();
                    ptx!(self, "@{not}{p} {end}");
                    return self.block(other);
                }
            }
        }
        let end = self.writer.label();
        if otherwise.insts.is_empty() {
            ptx!(self, "@!{p} {bra} {end}");
            self.block(then)?;
        } else if then.insts.is_empty() {
            ptx!(self, "@{p} {bra} {end}");
            self.block(otherwise)?;
        } else {
            let side = self.writer.label();
            ptx!(self, "@!{p} {bra} {side}");
            self.block(then)?;
            if !then.insts.last().is_some_and(|inst| inst.op.is_terminator()) {
                ptx!(self, "bra {end}");
            }
            self.writer.place(side);
            self.block(otherwise)?;
        }
        self.writer.place(end);
        Ok(())
    }

    fn frame(&self, depth: u32) -> Result<Frame> {
        match self.control.frames.len().checked_sub(depth as usize + 1) {
            Some(at) => Ok(self.control.frames[at]),
            None => self.unsupported("a jump out of nothing"),
        }
    }

    pub fn loop_(&mut self, body: &'k Block, latch: &'k Block, unroll: Unroll) -> Result {
        if self.control.heading.is_some() {
            return self.masked_loop(body, latch);
        }
        let entered = self.enter(body);
        let (head, next, after) = (self.writer.label(), self.writer.label(), self.writer.label());
        self.writer.place(head);
        if unroll == Unroll::Never {
            ptx!(self, ".pragma \"nounroll\"");
        }
        self.control.frames.push(Frame {
            after,
            latch: Some(next),
        });
        self.block(body)?;
        self.writer.place(next);
        self.block(latch)?;
        self.control.frames.pop();
        if !latch.insts.last().is_some_and(|inst| inst.op.is_terminator()) {
            ptx!(self, "bra {head}");
        }
        self.writer.place(after);
        self.leave(entered, [body, latch], 1);
        Ok(())
    }

    pub fn scope(&mut self, body: &'k Block) -> Result {
        if self.control.heading.is_some() {
            return self.masked_scope(body);
        }
        let entered = self.enter(body);
        let after = self.writer.label();
        self.control.frames.push(Frame { after, latch: None });
        self.block(body)?;
        self.control.frames.pop();
        self.writer.place(after);
        self.leave(entered, [body, body], 1);
        Ok(())
    }

    pub fn break_(&mut self, depth: u32) -> Result {
        let after = self.frame(depth)?.after;
        if let Some(heading) = self.control.heading {
            let frame = self.control.frames.len() as u32 - 1 - depth;
            return self.head_for(heading, 2 * frame + 2);
        }
        ptx!(self, "bra {after}");
        Ok(())
    }

    pub fn continue_(&mut self, depth: u32) -> Result {
        let Some(latch) = self.frame(depth)?.latch else {
            return self.unsupported("`continue` of a scope");
        };
        if let Some(heading) = self.control.heading {
            let frame = self.control.frames.len() as u32 - 1 - depth;
            return self.head_for(heading, 2 * frame + 3);
        }
        ptx!(self, "bra {latch}");
        Ok(())
    }

    pub fn return_(&mut self) -> Result {
        let end = self.end_of_lane();
        ptx!(self, "{end}");
        Ok(())
    }

    /// What `return` is.
    fn end_of_lane(&self) -> String {
        match self.control.lane_end {
            Some(end) => format!("bra {end}"),
            None => "exit".into(),
        }
    }

    /// Lets `return` go to a label.
    pub(super) fn set_lane_end(&mut self, end: Label) {
        self.control.lane_end = Some(end);
    }

    fn head_for(&mut self, heading: Reg, place: u32) -> Result {
        ptx!(self, "mov.b32 {heading}, {place}");
        if let Some(&join) = self.control.joins.last() {
            ptx!(self, "bra {join}");
        }
        Ok(())
    }

    /// At the end of a construct that lanes of `mask` have run: those that are heading elsewhere go on to the next end; the others are
    /// the new mask.
    fn regroup(&mut self, mask: Reg, jumps: bool) {
        let Some(heading) = self.control.heading else { return };
        let here = emit!(self, Pred, "setp.eq.b32", heading, 0);
        self.control.mask = Some(emit!(self, B32, "vote.sync.ballot.b32", here, mask));
        if jumps && let Some(&join) = self.control.joins.last() {
            ptx!(self, "@!{here} bra {join}");
        }
    }

    fn masked_if(&mut self, condition: ValueId, then: &'k Block, otherwise: &'k Block) -> Result {
        let Some(mask) = self.control.mask else {
            return self.unsupported("a branch without a mask");
        };
        let p = self.value(condition);
        let (side, end) = (self.writer.label(), self.writer.label());
        let uniform = self.uniformity.value(condition) <= Uniformity::Simdgroup;
        let (yes, no) = if uniform {
            (mask, mask)
        } else {
            let yes = emit!(self, B32, "vote.sync.ballot.b32", p, mask);
            let no = emit!(self, B32, "xor.b32", yes, mask);
            (yes, no)
        };
        ptx!(self, "@!{p} bra {side}");
        self.control.joins.push(end);
        self.control.mask = Some(yes);
        self.block(then)?;
        ptx!(self, "bra {end}");
        self.writer.place(side);
        self.control.mask = Some(no);
        self.block(otherwise)?;
        self.control.joins.pop();
        self.writer.place(end);
        self.control.mask = Some(mask);
        if escapes(then, 0) || escapes(otherwise, 0) {
            self.regroup(mask, jumps_out(then, 0) || jumps_out(otherwise, 0));
        }
        Ok(())
    }

    fn masked_loop(&mut self, body: &'k Block, latch: &'k Block) -> Result {
        let (Some(entry), Some(heading)) = (self.control.mask, self.control.heading) else {
            return self.unsupported("a loop without a mask");
        };
        let (head, next, last, after) = (
            self.writer.label(),
            self.writer.label(),
            self.writer.label(),
            self.writer.label(),
        );
        let frame = self.control.frames.len() as u32;
        let mask = self.copy(entry);
        self.writer.place(head);
        self.control.frames.push(Frame {
            after,
            latch: Some(next),
        });
        self.control.mask = Some(mask);
        self.control.joins.push(next);
        self.block(body)?;
        self.control.joins.pop();
        // The end of the body: who continues is here again.
        self.writer.place(next);
        self.arrive(heading, 2 * frame + 3);
        let here = emit!(self, Pred, "setp.eq.b32", heading, 0);
        let going_on = emit!(self, B32, "vote.sync.ballot.b32", here, mask);
        ptx!(self, "@!{here} bra {after}");
        self.control.mask = Some(going_on);
        self.control.joins.push(last);
        self.block(latch)?;
        self.control.joins.pop();
        self.control.frames.pop();
        self.writer.place(last);
        let again = emit!(self, Pred, "setp.eq.b32", heading, 0);
        ptx!(self, "vote.sync.ballot.b32 {mask}, {again}, {going_on}");
        ptx!(self, "@{again} bra {head}");
        self.writer.place(after);
        self.arrive(heading, 2 * frame + 2);
        self.control.mask = Some(entry);
        if escapes(body, 1) || escapes(latch, 1) {
            self.regroup(entry, jumps_out(body, 1) || jumps_out(latch, 1));
        }
        Ok(())
    }

    fn masked_scope(&mut self, body: &'k Block) -> Result {
        let (Some(entry), Some(heading)) = (self.control.mask, self.control.heading) else {
            return self.unsupported("a scope without a mask");
        };
        let after = self.writer.label();
        let frame = self.control.frames.len() as u32;
        self.control.frames.push(Frame { after, latch: None });
        self.control.joins.push(after);
        self.block(body)?;
        self.control.joins.pop();
        self.control.frames.pop();
        self.writer.place(after);
        self.arrive(heading, 2 * frame + 2);
        self.control.mask = Some(entry);
        if escapes(body, 1) {
            self.regroup(entry, jumps_out(body, 1));
        }
        Ok(())
    }

    /// Lanes that were heading for this place are there.
    fn arrive(&mut self, heading: Reg, place: u32) {
        let there = emit!(self, Pred, "setp.eq.b32", heading, place);
        ptx!(self, "selp.b32 {heading}, 0, {heading}, {there}");
    }
}
