//! Products of several SIMD-groups whose rows follow each other by the look of their operands: resolved at once instead of
//! one SIMD-group after another.

use anymetal_ir::MatmulDescriptor;

use super::mask::Mask;
use super::matmul::{Job, Target, format_of};
use super::{Outcome, Tile, Value, Worker};
use crate::compile::program::{Reg, TileOperand, Varies, View, ViewExtent};
use crate::lanes::CHUNK;

impl Worker<'_> {
    /// The product of all instances as one job, or `None` where they have to be looked at one by one.
    pub(super) fn joined(
        &mut self,
        descriptor: &MatmulDescriptor,
        simdgroups: usize,
        left: &TileOperand,
        right: &TileOperand,
        destination: &TileOperand,
    ) -> Outcome<Option<Job>> {
        let count = self.instances(simdgroups);
        let (m, n) = (descriptor.m as usize, descriptor.n as usize);
        let (TileOperand::View(right), TileOperand::Coop(to), Some(k)) = (right, destination, descriptor.k) else {
            return Ok(None);
        };
        let (k, coop) = (k as usize, *to);
        let to = self.tiles[coop as usize];
        let follows = |tile: Tile, rows: usize, columns: usize| {
            (tile.rows, tile.columns, tile.simdgroups) == (rows, columns, simdgroups.max(1))
                && tile.stride == tile.elements() * tile.size
        };
        let simple = count > 1
            && self.lanes.current == Mask::All
            && self.traffic.is_none()
            && !descriptor.transpose_left
            && right.varies == Varies::Nothing
            && follows(to, m, n)
            && (m * count).saturating_mul(k) as u64 <= crate::limits::OPERAND_ELEMENTS
            && k.saturating_mul(n) as u64 <= crate::limits::OPERAND_ELEMENTS;
        if !simple {
            return Ok(None);
        }
        let mut source = match left {
            TileOperand::Coop(from) if follows(self.tiles[*from as usize], m, k) => {
                self.source(left, 0, 0, (Some(m), Some(k)), 1)?
            }
            TileOperand::View(view) if self.steps(view, m, count, simdgroups) => {
                let source = self.source(left, 0, 0, (Some(m), Some(k)), 1)?;
                if source.region.valid[1] < m * count {
                    return Ok(None);
                }
                source
            }
            _ => return Ok(None),
        };
        source.rows = m * count;
        source.region.valid[1] = m * count;
        let right_rows = if descriptor.transpose_right { 0 } else { 1 };
        let right = self.view_source(right, 0, (Some(k), Some(n)), right_rows)?;
        Ok(Some(Job {
            left: source,
            right,
            target: Target {
                base: to.instance(0),
                format: format_of(self.shared.coops[coop as usize].coop.element),
                rows: m * count,
                columns: n,
                row_stride: n as i64,
                column_stride: 1,
            },
            lane: 0,
        }))
    }

    /// Does each instance's view start `rows` rows after the one before it, have as many, and differ in nothing else?
    fn steps(&self, view: &View, rows: usize, count: usize, simdgroups: usize) -> bool {
        if view.varies != Varies::Origin(1) || view.scales.is_some() || matches!(view.extents[1], ViewExtent::Static(_))
        {
            return false;
        }
        // A plane whose rows are instances has the same step from each to the next.
        let known = |reg: Reg| match self.value(reg) {
            Value::Uniform(value) => Some((value as i64, 0)),
            Value::Plane(plane)
                if plane.stride == 0 && reg.size == 8 && self.lanes.width == CHUNK * simdgroups.max(1) =>
            {
                Some((plane.base as i64, plane.row as i64))
            }
            _ => None,
        };
        let enough_by_plane = match view.extents[1] {
            ViewExtent::Dynamic(own) => known(own).and_then(|(first, step)| {
                let last = first.checked_add(step.checked_mul(count as i64 - 1)?)?;
                Some(first.min(last) >= rows as i64)
            }),
            _ => Some(true),
        };
        if let (Some((_, step)), Some(true)) = (known(view.origin[1]), enough_by_plane) {
            return step == rows as i64;
        }
        let value = |reg, instance: usize| self.lane_value(reg, instance * CHUNK * simdgroups.max(1)) as i64;
        let first = value(view.origin[1], 0);
        (1..count).all(|instance| {
            let enough = match view.extents[1] {
                ViewExtent::Dynamic(own) => value(own, instance) >= rows as i64,
                _ => true,
            };
            enough && value(view.origin[1], instance) == first.wrapping_add((instance * rows) as i64)
        })
    }
}
