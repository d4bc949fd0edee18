//! The loops of a product around a micro-kernel: blocks of K, panels of the right operand, strips of the left one, and sums that
//! are kept aside while blocks add up.

use std::cell::Cell;
use std::ops::Range;

use super::buffer::AlignedBuffer;
use super::kernel::{Ops, Strip};
use super::kind::Blocking;
use super::pack::{LeftLayout, RightLayout};

/// An accumulator whose size has been checked.
#[derive(Clone, Copy)]
pub(super) struct Target<T> {
    pub first: *mut T,
    pub stride: usize,
    pub accumulate: bool,
}

impl<T> Target<T> {
    /// The target of what begins at a row and column of this one.
    ///
    /// # Safety
    /// The target must hold the place.
    unsafe fn part(&self, row: usize, col: usize, accumulate: bool) -> Target<T> {
        Target {
            // SAFETY: the caller's contract.
            first: unsafe { self.first.add(row * self.stride + col) },
            stride: self.stride,
            accumulate,
        }
    }
}

/// Numbers that a product sums.
pub(super) trait Sum {
    /// Their sum, modulo 2^32 for integers.
    fn plus(self, other: Self) -> Self;
}

impl Sum for f32 {
    fn plus(self, other: f32) -> f32 {
        self + other
    }
}

impl Sum for i32 {
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
}

/// What a product runs over: rows and columns that are valid in the operands, and the K valid in both.
#[derive(Clone)]
pub(super) struct Span {
    pub rows: Range<usize>,
    pub cols: Range<usize>,
    pub k: usize,
    pub blocking: Blocking,
}

/// Rows that are multiplied with all panels before the next ones: with 1 KiB a row, a part of the second-level cache.
const ROWS_TOGETHER: usize = 192;

/// A micro-kernel, with what it prepares for a panel before the strips pass over it.
pub(super) trait Kernel<T> {
    type Panel;

    /// # Safety
    /// The panel must hold so many groups.
    unsafe fn prepare(&self, panel: *const u8, groups: usize) -> Self::Panel;

    /// # Safety
    /// As for [`Strip`].
    unsafe fn strip(
        &self,
        prepared: &Self::Panel,
        rows: usize,
        cols: usize,
        groups: usize,
        left: (*const u8, isize),
        panel: *const u8,
        target: Target<T>,
    );
}

/// A micro-kernel that prepares nothing.
pub(super) struct Plain<T>(Strip<T>);

pub(super) fn plain<T>(strip: Strip<T>) -> Plain<T> {
    Plain(strip)
}

impl<T> Kernel<T> for Plain<T> {
    type Panel = ();

    unsafe fn prepare(&self, _: *const u8, _: usize) {}

    unsafe fn strip(
        &self,
        (): &(),
        rows: usize,
        cols: usize,
        groups: usize,
        (left, left_stride): (*const u8, isize),
        panel: *const u8,
        to: Target<T>,
    ) {
        // SAFETY: the caller's contract.
        unsafe {
            (self.0)(
                rows,
                cols,
                groups,
                left,
                left_stride,
                panel,
                to.first,
                to.stride,
                to.accumulate,
            )
        }
    }
}

/// Columns whose sums are kept aside together.
const COLUMNS_TOGETHER: usize = 128;

/// Bytes from row to row of an accumulator from which sums are kept aside while blocks of K add up: rows that far apart share
/// few places of a cache.
const FAR_APART: usize = 4096;

thread_local! {
    /// Sums that are kept aside.
    static ASIDE: Cell<AlignedBuffer> = const { Cell::new(AlignedBuffer::new()) };
}

/// Runs a micro-kernel over everything.
///
/// # Safety
/// The layouts must hold the span, the target its rows and columns, and the machine must have what the kernel needs.
pub(super) unsafe fn strips<T: Copy + Sum, K: Kernel<T>>(
    kernel: &K,
    ops: &Ops,
    span: &Span,
    left: LeftLayout,
    right: RightLayout,
    width: usize,
    target: Target<T>,
) {
    let (rows, cols) = (span.rows.len(), span.cols.len());
    let total = span.k.div_ceil(span.blocking.group);
    let blocks = total.div_ceil(span.blocking.groups);
    let walk = Walk {
        kernel,
        ops,
        span,
        left,
        right,
        width,
        total,
    };
    let aside = blocks > 1 && target.stride * size_of::<T>() >= FAR_APART && rows > ops.strip_rows;
    let columns_together = if aside { COLUMNS_TOGETHER } else { cols.max(1) };
    let mut buffer = if aside { ASIDE.take() } else { AlignedBuffer::new() };
    for c0 in (0..cols).step_by(columns_together) {
        let c1 = cols.min(c0 + columns_together);
        // SAFETY: the parts lie in the span; what is kept aside has room for the rows and columns taken together.
        unsafe {
            if !aside {
                for kb in 0..blocks {
                    for r0 in (0..rows).step_by(ROWS_TOGETHER) {
                        let to = target.part(r0, c0, target.accumulate || kb > 0);
                        walk.block(kb, r0..rows.min(r0 + ROWS_TOGETHER), c0..c1, to);
                    }
                }
                continue;
            }
            let first: *mut T = buffer.reserve(ROWS_TOGETHER * COLUMNS_TOGETHER * size_of::<T>()).cast();
            for r0 in (0..rows).step_by(ROWS_TOGETHER) {
                let r1 = rows.min(r0 + ROWS_TOGETHER);
                for kb in 0..blocks {
                    let to = Target {
                        first,
                        stride: COLUMNS_TOGETHER,
                        accumulate: kb > 0,
                    };
                    walk.block(kb, r0..r1, c0..c1, to);
                }
                for row in r0..r1 {
                    let from = std::slice::from_raw_parts(first.add((row - r0) * COLUMNS_TOGETHER), c1 - c0);
                    let to = target.part(row, c0, false).first;
                    let to = std::slice::from_raw_parts_mut(to, c1 - c0);
                    if target.accumulate {
                        to.iter_mut().zip(from).for_each(|(to, &sum)| *to = to.plus(sum));
                    } else {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
    }
    if aside {
        ASIDE.set(buffer);
    }
}

/// What a micro-kernel passes over.
struct Walk<'a, K> {
    kernel: &'a K,
    ops: &'a Ops,
    span: &'a Span,
    left: LeftLayout,
    right: RightLayout,
    width: usize,
    /// Groups along K.
    total: usize,
}

impl<K> Walk<'_, K> {
    /// One block of K for some rows and columns of the span, the first of which is a panel's: every panel meets all strips.
    ///
    /// # Safety
    /// As for [`strips`]; `target` holds the rows and columns.
    unsafe fn block<T: Copy>(&self, kb: usize, rows: Range<usize>, cols: Range<usize>, target: Target<T>)
    where
        K: Kernel<T>,
    {
        let (span, left, right) = (self.span, &self.left, &self.right);
        let groups = span.blocking.groups.min(self.total - kb * span.blocking.groups);
        let first_panel = span.cols.start / self.width;
        // Strips of nearly equal height, so that the last one is not a sliver.
        let count = rows.len().div_ceil(self.ops.strip_rows);
        let (height, taller) = (rows.len() / count, rows.len() % count);
        for c0 in cols.clone().step_by(self.width) {
            // SAFETY: panel and rows lie in the layouts, and the target holds the rows and columns.
            unsafe {
                let panel = right.base.offset(
                    kb as isize * right.block_stride + (first_panel + c0 / self.width) as isize * right.panel_stride,
                );
                let prepared = self.kernel.prepare(panel, groups);
                let block = left.base.offset(kb as isize * left.block_stride);
                let mut row = rows.start;
                for i in 0..count {
                    let height = height + usize::from(i < taller);
                    let strip = block.offset((span.rows.start + row) as isize * left.row_stride);
                    self.kernel.strip(
                        &prepared,
                        height,
                        self.width.min(cols.end - c0),
                        groups,
                        (strip, left.row_stride),
                        panel,
                        target.part(row - rows.start, c0 - cols.start, target.accumulate),
                    );
                    row += height;
                }
            }
        }
    }
}
