//! Panels of the right operand, from dense columns or rows.

use super::*;

/// Panels of an operand whose columns are dense: K runs along memory, so rows of the transposed operand turn into columns of
/// 32-bit groups.
///
/// # Safety
/// As for [`rows_of`].
pub(super) unsafe fn panels_of_columns(
    ops: &Ops,
    lane: Lane,
    view: &OperandView<'_>,
    part: Part,
    panels: Panels,
    scratch: &mut Scratch,
) -> Terms {
    let flipped = view.transposed();
    let mut found = Terms::NONE;
    // The operand's own memory serves when it holds the lane's elements in whole groups.
    let direct = lane == Lane::F32 && view.format == ElementFormat::F32 && view.scales.is_none();
    let row_bytes = panels.filled * 4;
    // SAFETY: by the caller's contract; every panel is written for `filled` groups.
    unsafe {
        for first in (0..part.cols).step_by(panels.width) {
            let some = Part {
                row: part.col + first,
                col: part.row,
                rows: panels.width.min(part.cols - first),
                cols: part.rows,
            };
            let panel = panels.dst.add(first / panels.width * panels.panel_bytes);
            let staged_plane = panels.width * row_bytes;
            let mut stage = std::mem::take(&mut scratch.stage);
            let staged = stage.reserve(staged_plane * lane.planes());
            if !direct {
                let rows = Rows {
                    dst: staged,
                    plane_stride: staged_plane,
                    row_bytes,
                };
                found = found.merge(rows_of(ops, lane, &flipped, some, rows, scratch));
                zero_tails(rows, lane, some.rows, some.cols, row_bytes);
            }
            for p in 0..lane.planes() {
                let (src, stride) = if direct {
                    (flipped.address(some.row, some.col), flipped.row_stride as isize * 4)
                } else {
                    (staged.cast_const().add(p * staged_plane), row_bytes as isize)
                };
                let dst = panel.add(p * panels.plane_stride);
                (ops.transpose)(src, stride, some.rows, panels.filled, dst, panels.width as isize * 4);
                zero_columns(dst, some.rows, panels);
            }
            scratch.stage = stage;
        }
    }
    found
}

/// Panels of an operand whose rows are dense, or of one without dense rows or columns.
///
/// # Safety
/// As for [`rows_of`].
pub(super) unsafe fn panels_of_rows(
    ops: &Ops,
    lane: Lane,
    view: &OperandView<'_>,
    part: Part,
    panels: Panels,
    scratch: &mut Scratch,
) -> Terms {
    let mut found = Terms::NONE;
    let group = lane.group();
    let row_bytes = (part.cols * lane.bytes()).next_multiple_of(64);
    let row_step = panels.width * 4;
    // SAFETY: by the caller's contract; every panel is written for `filled` groups.
    unsafe {
        let each_panel = |dst: *mut u8| {
            (0..part.cols).step_by(panels.width).map(move |first| {
                (
                    first,
                    panels.width.min(part.cols - first),
                    dst.add(first / panels.width * panels.panel_bytes),
                )
            })
        };
        if lane == Lane::F32 {
            // Groups are elements here, so nothing needs filling up.
            let plain = view.scales.is_none() && has_dense_rows(view);
            let spread = ops.panels.as_ref().and_then(|p| p.of(view.format));
            if let (Some(spread), true) = (spread, plain) {
                spread(
                    view.address(part.row, part.col),
                    view.row_stride as isize * (view.format.bits() / 8) as isize,
                    part.rows,
                    part.cols,
                    panels.dst,
                    panels.width,
                    panels.panel_bytes,
                );
                return found;
            }
            // A few rows are staged at once.
            const ROWS: usize = 8;
            let stride = row_bytes / 4;
            let staged: *mut f32 = scratch.row.reserve(ROWS * row_bytes).cast();
            for k0 in (0..part.rows).step_by(ROWS) {
                let some = Part {
                    row: part.row + k0,
                    rows: ROWS.min(part.rows - k0),
                    ..part
                };
                stage_f32(ops, view, some, staged, stride, &mut scratch.flip);
                for k in 0..some.rows {
                    let src = staged.add(k * stride);
                    for (first, count, dst) in each_panel(panels.dst.add((k0 + k) * row_step)) {
                        std::ptr::copy_nonoverlapping(src.add(first).cast::<u8>(), dst, count * 4);
                        dst.add(count * 4).write_bytes(0, (panels.width - count) * 4);
                    }
                }
            }
            return found;
        }
        let dense = has_dense_rows(view);
        let to_groups = ops
            .groups
            .filter(|_| dense && view.scales.is_none())
            .and_then(|groups| match (lane, view.format) {
                (Lane::Bf16, ElementFormat::BF16) => Some(groups.pairs),
                (Lane::I8 | Lane::U8, format) => (format.bits() == 8).then_some(groups.quadruples),
                _ => None,
            });
        if let Some(to_groups) = to_groups {
            let stride = view.row_stride as isize * (view.format.bits() / 8) as isize;
            return to_groups(view.address(part.row, part.col), stride, part.rows, part.cols, panels);
        }
        let mut stage = std::mem::take(&mut scratch.stage);
        // A group's rows in each plane; the last group may lack some, which are zero.
        let staged_plane = group * row_bytes;
        let staged = stage.reserve(staged_plane * lane.planes());
        // Bytes need no staging, neither those that a lane takes as they are nor those that it widens.
        let bytes = matches!(lane, Lane::I16 | Lane::I8 | Lane::U8) && view.format.bits() == 8 && has_dense_rows(view);
        let pairs = if view.format.is_signed() {
            ops.i8_pairs
        } else {
            ops.u8_pairs
        };
        for g in 0..panels.filled {
            let k = g * group;
            let count = part.rows.saturating_sub(k).min(group);
            if bytes && count == group {
                let at = |i: usize, first: usize| view.address(part.row + k + i, part.col + first);
                for i in 0..group {
                    prefetch(
                        at(i, 0).wrapping_offset(GROUPS_AHEAD * (group as i64 * view.row_stride) as isize),
                        part.cols,
                    );
                }
                for (first, count, dst) in each_panel(panels.dst.add(g * row_step)) {
                    match lane {
                        Lane::I16 => pairs([at(0, first), at(1, first)], count, dst),
                        _ => (ops.interleave4)([at(0, first), at(1, first), at(2, first), at(3, first)], count, dst),
                    }
                    dst.add(count * 4).write_bytes(0, (panels.width - count) * 4);
                }
                continue;
            }
            if count > 0 {
                let some = Part {
                    row: part.row + k,
                    rows: count,
                    ..part
                };
                let rows = Rows {
                    dst: staged,
                    plane_stride: staged_plane,
                    row_bytes,
                };
                found = found.merge(rows_of(ops, lane, view, some, rows, scratch));
            }
            for p in 0..lane.planes() {
                let plane = staged.add(p * staged_plane);
                plane.add(count * row_bytes).write_bytes(0, (group - count) * row_bytes);
                let dst = panels.dst.add(p * panels.plane_stride + g * row_step);
                if let Some(groups) = &ops.groups {
                    let to_groups = if group == 2 { groups.pairs } else { groups.quadruples };
                    let one = Panels {
                        dst,
                        filled: 1,
                        ..panels
                    };
                    to_groups(plane, row_bytes as isize, group, part.cols, one);
                    continue;
                }
                for (first, count, dst) in each_panel(dst) {
                    let at = |i: usize| plane.cast_const().add(i * row_bytes + first * lane.bytes());
                    if count == 0 {
                        continue;
                    }
                    if group == 2 {
                        (ops.interleave2)([at(0), at(1)], count, dst);
                    } else {
                        (ops.interleave4)([at(0), at(1), at(2), at(3)], count, dst);
                    }
                    dst.add(count * 4).write_bytes(0, (panels.width - count) * 4);
                }
            }
        }
        scratch.stage = stage;
        found
    }
}

/// Groups from the one that goes into panels to the one that is asked for.
const GROUPS_AHEAD: isize = 4;

/// Asks for some bytes, which need not be there: rows far apart are a new page each, which the processor does not see coming.
#[inline(always)]
fn prefetch(first: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, bytes);
}

/// Zeros in the columns of a panel from `from` on.
unsafe fn zero_columns(panel: *mut u8, from: usize, panels: Panels) {
    if from == panels.width {
        return;
    }
    for g in 0..panels.filled {
        // SAFETY: group g of the panel has `width` columns.
        unsafe {
            panel
                .add((g * panels.width + from) * 4)
                .write_bytes(0, (panels.width - from) * 4);
        }
    }
}
