//! The loop without a pipeline: operands that bulk copies cannot bring, because of their alignment or because nothing of them exists.
//!
//! Threads copy tiles element by element to the places where the pipeline has them; each product is waited for.

use anymetal_ir::{Operand, TensorRef};

use super::Pipeline;
use super::feed::Feed;
use super::plan::{JOINED, LINE, LINE_ELEMENTS, LoopPlan, ROWS};
use crate::emit;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A tile that threads copy.
struct Copy {
    /// Elements of a row, and rows.
    inner: u32,
    rows: u32,
    /// Lines of 64 elements from one 64 columns to the next.
    box_lines: u32,
    /// `.b32`: shared address of its first line.
    to: Reg,
    /// `.b32`: the first element that this thread copies, and how many it goes on by.
    first: Reg,
    by: Reg,
}

impl<'k> Lower<'k> {
    /// Before the loop: the left operand.
    pub(super) fn plain_begin(&mut self, plan: &LoopPlan<'k>) {
        let Operand::Tensor(tensor) = plan.first.left else {
            return;
        };
        let shared = emit!(self, B32, "mov.u32", "smem");
        let warp = self.uniform_warp();
        let group = emit!(self, B32, "shr.u32", warp, JOINED.trailing_zeros());
        let within = emit!(self, B32, "and.b32", warp, JOINED - 1);
        let bytes = JOINED * ROWS * plan.first.depth * 2;
        let to = emit!(self, B32, "mad.lo.u32", group, bytes, shared);
        let to = emit!(self, B32, "mad.lo.u32", within, ROWS * LINE, to);
        let by = self.u32(32);
        let copy = Copy {
            inner: plan.first.depth,
            rows: ROWS,
            box_lines: JOINED * ROWS,
            to,
            first: self.geometry.hardware_lane,
            by,
        };
        self.merged_barrier(plan);
        self.copy_elements(tensor, &copy);
    }

    /// The product at the head of the body.
    pub(super) fn plain_first(&mut self, pipeline: &Pipeline<'k>) {
        let (plan, feed) = (&pipeline.plan, &pipeline.feed);
        self.plain_tile(plan, feed, 0, plan.first.right, plan.first.tile());
        let tile = self.u32(0);
        ptx!(self, "wgmma.fence.sync.aligned");
        self.multiply_scores(plan, feed, tile);
        ptx!(self, "wgmma.commit_group.sync.aligned");
        ptx!(self, "wgmma.wait_group.sync.aligned 0");
    }

    /// The product at its end.
    pub(super) fn plain_second(&mut self, pipeline: &Pipeline<'k>) -> Result {
        let (plan, feed) = (&pipeline.plan, &pipeline.feed);
        let left = self.second_left(plan)?;
        self.plain_tile(plan, feed, 1, plan.second.right, plan.second.tile());
        let tile = self.u32(0);
        ptx!(self, "wgmma.fence.sync.aligned");
        self.multiply_sums(plan, feed, &left, tile);
        ptx!(self, "wgmma.wait_group.sync.aligned 0");
        Ok(())
    }

    /// The whole threadgroup copies a right operand's tile to the first place of its ring.
    fn plain_tile(&mut self, plan: &LoopPlan, feed: &Feed, ring: usize, tensor: &TensorRef, (inner, rows): (u32, u32)) {
        self.merged_barrier(plan);
        let to = emit!(self, B32, "add.u32", feed.shared, feed.rings[ring].tiles);
        let copy = Copy {
            inner,
            rows,
            box_lines: rows,
            to,
            first: self.geometry.hardware_thread,
            by: self.threads(),
        };
        self.copy_elements(tensor, &copy);
        ptx!(self, "fence.proxy.async.shared::cta");
        self.merged_barrier(plan);
    }

    fn copy_elements(&mut self, tensor: &TensorRef, copy: &Copy) {
        let [x, y] = [0, 1].map(|d| self.value(tensor.origin[d]));
        let [columns, rows] = [0, 1].map(|d| self.value(tensor.base_extents[d]));
        let (pitch, pointer) = (self.value(tensor.strides[1]), self.value(tensor.pointer));
        let (top, end) = (self.writer.label(), self.writer.label());
        let at = self.copy(copy.first);
        self.writer.place(top);
        let done = emit!(self, Pred, "setp.ge.u32", at, copy.inner * copy.rows);
        ptx!(self, "@{done} bra {end}");
        let row = emit!(self, B32, "div.u32", at, copy.inner);
        let before = emit!(self, B32, "mul.lo.u32", row, copy.inner);
        let column = emit!(self, B32, "sub.u32", at, before);
        let across = emit!(self, B64, "add.s64", x, emit!(self, B64, "cvt.u64.u32", column));
        let down = emit!(self, B64, "add.s64", y, emit!(self, B64, "cvt.u64.u32", row));
        let inside = emit!(self, Pred, "setp.lt.u64", across, columns);
        ptx!(self, "setp.lt.and.u64 {inside}, {down}, {rows}, {inside}");
        let element = emit!(self, B64, "mad.lo.s64", down, pitch, across);
        let address = emit!(self, B64, "mad.lo.s64", element, 2, pointer);
        let value = self.reg(Class::B16);
        ptx!(self, "mov.b16 {value}, 0");
        ptx!(self, "@{inside} ld.global.b16 {value}, [{address}]");
        // Line `row` of the element's 64 columns; chunk c of line l is at c ^ (l mod 8).
        let part = emit!(self, B32, "div.u32", column, LINE_ELEMENTS);
        let line = emit!(self, B32, "mad.lo.u32", part, copy.box_lines, row);
        let place = emit!(self, B32, "mad.lo.u32", line, LINE, copy.to);
        let chunk = emit!(self, B32, "bfe.u32", column, 3, 3);
        let swizzled = emit!(self, B32, "and.b32", row, 7);
        let swizzled = emit!(self, B32, "xor.b32", swizzled, chunk);
        let place = emit!(self, B32, "mad.lo.u32", swizzled, 16, place);
        let rest = emit!(self, B32, "and.b32", column, 7);
        let place = emit!(self, B32, "mad.lo.u32", rest, 2, place);
        ptx!(self, "st.shared.b16 [{place}], {value}");
        ptx!(self, "add.u32 {at}, {at}, {}", copy.by);
        ptx!(self, "bra {top}");
        self.writer.place(end);
    }
}
