//! How a grid is cut into strips, and what the built-in values of a strip are.
//!
//! Where lanes meet, or the values of a threadgroup matter, strips are pieces of one threadgroup (all of it where its threads share
//! memory or barriers). Otherwise threads have nothing to do with each other, and strips run along the grid's rows,
//! so that neighbours in x are neighbours in a strip whatever the threadgroup's shape.

use anymetal_ir::Builtin;

use super::affine::{Plane, Tag};
use super::mask::Mask;
use super::{Outcome, Worker};
use crate::fault::ThreadPosition;
use crate::lanes::CHUNK;

const STRIP: usize = 512;

/// The shape of a launch and its cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripPlan {
    /// Exact threads of the grid.
    pub grid: [u32; 3],
    /// Threads of a full threadgroup.
    pub group: [u32; 3],
    /// Threadgroups.
    pub groups: [u32; 3],
    /// Strips span threadgroups.
    pub dense: bool,
    /// A strip is a whole threadgroup.
    pub whole: bool,
    /// Lanes that registers have room for.
    pub cap: usize,
}

/// One unit of work of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work(pub u64);

/// Where the current strip is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StripInfo {
    /// Threadgroup, if the strip is inside one.
    group: [u32; 3],
    /// Size of that threadgroup.
    size: [u32; 3],
    /// Linear index of the first lane: in the threadgroup, or in the grid.
    first: u64,
    dense: bool,
}

/// Smallest row of a grid that has strips of its own.
const ROW: u32 = 96;

impl StripPlan {
    /// Lanes of a strip where the threadgroup does not decide.
    pub const STRIP: usize = STRIP;

    /// How many units of work there are.
    pub fn units(&self) -> u64 {
        if !self.dense {
            return self.groups.iter().map(|&n| u64::from(n)).product();
        }
        let rows = u64::from(self.grid[1]) * u64::from(self.grid[2]);
        if self.grid[0] >= ROW {
            rows * u64::from(self.grid[0]).div_ceil(STRIP as u64)
        } else {
            (rows * u64::from(self.grid[0])).div_ceil(STRIP as u64)
        }
    }

    /// Threadgroups of the launch.
    pub fn threadgroups(&self) -> u64 {
        self.groups.iter().map(|&n| u64::from(n)).product()
    }
}

/// Coordinates of a linear index, x first.
fn unflatten(index: u64, size: [u32; 3]) -> [u32; 3] {
    if size[1] == 1 && size[2] == 1 {
        return [index as u32, 0, 0];
    }
    let (x, y) = (u64::from(size[0].max(1)), u64::from(size[1].max(1)));
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}

impl Worker<'_> {
    fn plan(&self) -> &StripPlan {
        &self.shared.plan
    }

    fn group_size(&self, group: [u32; 3]) -> [u32; 3] {
        let plan = self.plan();
        std::array::from_fn(|d| {
            let start = u64::from(group[d]) * u64::from(plan.group[d]);
            (u64::from(plan.grid[d]) - start).min(u64::from(plan.group[d])) as u32
        })
    }

    /// Runs one unit of work.
    pub fn run_unit(&mut self, work: Work) -> Outcome {
        self.budget = 0;
        let plan = *self.plan();
        if plan.dense {
            let (first, live) = if plan.grid[0] >= ROW {
                let row_strips = u64::from(plan.grid[0]).div_ceil(STRIP as u64);
                let (row, part) = (work.0 / row_strips, work.0 % row_strips);
                let x = part * STRIP as u64;
                let live = (u64::from(plan.grid[0]) - x).min(STRIP as u64);
                (row * u64::from(plan.grid[0]) + x, live)
            } else {
                let total: u64 = plan.grid.iter().map(|&n| u64::from(n)).product();
                let first = work.0 * STRIP as u64;
                (first, (total - first).min(STRIP as u64))
            };
            self.strip = StripInfo {
                first,
                dense: true,
                ..StripInfo::default()
            };
            return self.run_strip(live as usize);
        }
        let group = unflatten(work.0, plan.groups);
        if self.sanitizer.is_some() {
            self.watch_start(work.0);
        }
        let size = self.group_size(group);
        let threads = size.iter().map(|&n| n as usize).product::<usize>();
        let most = if plan.whole { threads } else { STRIP };
        let mut first = 0;
        while first < threads {
            let live = most.min(threads - first);
            self.strip = StripInfo {
                group,
                size,
                first: first as u64,
                dense: false,
            };
            self.run_strip(live)?;
            first += live;
        }
        Ok(())
    }

    /// Lanes of a row of planes: those of a row of a two-dimensional threadgroup, else of a SIMD-group.
    fn plane_width(&self) -> usize {
        let [x, y, z] = self.strip.size;
        match self.strip.dense || (y <= 1 && z <= 1) {
            true => CHUNK,
            false => x.max(1) as usize,
        }
    }

    fn run_strip(&mut self, live: usize) -> Outcome {
        let width = self.plane_width();
        let lanes = &mut self.lanes;
        lanes.live = live;
        lanes.chunks = live.div_ceil(CHUNK);
        lanes.current = if live == 0 { Mask::None } else { Mask::All };
        lanes.width = width;
        lanes.rectangle = (live.clamp(1, width), live.div_ceil(width).max(1));
        lanes.returned = Mask::None;
        lanes.frames.clear();
        lanes.tags.fill(Tag::new(Plane::line(0, 0)));
        let program = self.program;
        for &reg in &program.zeroed {
            self.set_all(reg, 0);
        }
        if !program.builtins.is_empty() {
            let ends = self.strip_ends();
            for &(which, reg) in &program.builtins {
                self.set_builtin(which, reg, &ends);
            }
        }
        if live > 0 {
            self.run(&program.body)?;
        }
        Ok(())
    }

    /// Grid position, threadgroup and index in it, of a lane of the strip.
    pub(crate) fn position(&self, lane: usize) -> ThreadPosition {
        let plan = self.plan();
        let at = self.strip.first + lane as u64;
        if self.strip.dense {
            let grid = unflatten(at, plan.grid);
            let threadgroup: [u32; 3] = std::array::from_fn(|d| grid[d] / plan.group[d].max(1));
            let size = self.group_size(threadgroup);
            let inside: [u32; 3] = std::array::from_fn(|d| grid[d] % plan.group[d].max(1));
            return ThreadPosition {
                grid,
                threadgroup,
                index: inside[0] + size[0] * (inside[1] + size[1] * inside[2]),
            };
        }
        let inside = unflatten(at, self.strip.size);
        ThreadPosition {
            grid: std::array::from_fn(|d| self.strip.group[d].wrapping_mul(plan.group[d]).wrapping_add(inside[d])),
            threadgroup: self.strip.group,
            index: at as u32,
        }
    }

    fn builtin_at(&self, which: Builtin, at: &ThreadPosition) -> u32 {
        let plan = self.plan();
        let threads = |size: [u32; 3]| size.iter().product::<u32>();
        let d = |d: u8| usize::from(d).min(2);
        let size = || {
            if self.strip.dense {
                self.group_size(at.threadgroup)
            } else {
                self.strip.size
            }
        };
        match which {
            Builtin::ThreadPositionInGrid(i) => at.grid[d(i)],
            Builtin::ThreadPositionInThreadgroup(i) => at.grid[d(i)] - at.threadgroup[d(i)] * plan.group[d(i)],
            Builtin::ThreadIndexInThreadgroup => at.index,
            Builtin::ThreadgroupPositionInGrid(i) => at.threadgroup[d(i)],
            Builtin::ThreadsPerThreadgroup(i) => size()[d(i)],
            Builtin::DispatchThreadsPerThreadgroup(i) => plan.group[d(i)],
            Builtin::ThreadsPerGrid(i) => plan.grid[d(i)],
            Builtin::ThreadgroupsPerGrid(i) => plan.groups[d(i)],
            Builtin::ThreadIndexInSimdgroup => at.index % 32,
            Builtin::SimdgroupIndexInThreadgroup => at.index / 32,
            Builtin::SimdgroupsPerThreadgroup => threads(size()).div_ceil(32),
            Builtin::DispatchSimdgroupsPerThreadgroup => threads(plan.group).div_ceil(32),
            Builtin::ThreadsPerSimdgroup => 32,
            Builtin::ThreadIndexInQuadgroup => at.index % 4,
            Builtin::QuadgroupIndexInThreadgroup => at.index / 4,
            Builtin::QuadgroupsPerThreadgroup => threads(size()).div_ceil(4),
        }
    }

    /// The first two lanes and the last one of the strip, and what they have in common.
    fn strip_ends(&self) -> Ends {
        let plan = self.plan();
        let count = self.lanes.live.max(1);
        let first = self.position(0);
        let last = self.position(count - 1);
        let (from, to) = (self.strip.first, self.strip.first + count as u64 - 1);
        let width = if self.strip.dense {
            plan.grid[0]
        } else {
            self.strip.size[0]
        };
        let width = u64::from(width.max(1));
        let one_row = from / width == to / width;
        Ends {
            second: if count > 1 { self.position(1) } else { first },
            first,
            one_row,
            one_group: !self.strip.dense || (one_row && first.threadgroup == last.threadgroup),
            one_simdgroup: !self.strip.dense && from / 32 == to / 32,
            one_quad: !self.strip.dense && from / 4 == to / 4,
        }
    }

    /// What a built-in value adds from lane to lane and from row to row of the strip's planes, if it is a plane.
    fn steps_of(&self, which: Builtin) -> Option<(u64, u64)> {
        let width = self.lanes.width as u64;
        // Rows of planes have to begin where those of the threadgroup do.
        if self.strip.dense || !self.strip.first.is_multiple_of(width) {
            return None;
        }
        let [x, y, z] = self.strip.size;
        let flat = y <= 1 && z <= 1;
        match which {
            Builtin::ThreadPositionInThreadgroup(0) | Builtin::ThreadPositionInGrid(0) if !flat => Some((1, 0)),
            Builtin::ThreadPositionInThreadgroup(1) | Builtin::ThreadPositionInGrid(1) if !flat && z <= 1 => {
                Some((0, 1))
            }
            Builtin::ThreadIndexInSimdgroup if flat || x == 32 => Some((1, 0)),
            Builtin::SimdgroupIndexInThreadgroup if flat || x == 32 => Some((0, 1)),
            _ => None,
        }
    }

    /// Sets one built-in value. Where it is linear in the lane over the strip, it is known by its first two lanes.
    fn set_builtin(&mut self, which: Builtin, reg: crate::compile::program::Reg, ends: &Ends) {
        let base = self.builtin_at(which, &ends.first);
        if reg.is_uniform() {
            self.set_all(reg, u64::from(base));
            return;
        }
        let linear = match which {
            Builtin::ThreadPositionInGrid(_) => ends.one_row,
            Builtin::ThreadPositionInThreadgroup(_) => ends.one_row && ends.one_group,
            Builtin::ThreadIndexInThreadgroup
            | Builtin::ThreadgroupPositionInGrid(0)
            | Builtin::ThreadsPerThreadgroup(0)
            | Builtin::SimdgroupsPerThreadgroup
            | Builtin::QuadgroupsPerThreadgroup => ends.one_group,
            Builtin::ThreadgroupPositionInGrid(_) | Builtin::ThreadsPerThreadgroup(_) => {
                ends.one_row || !self.strip.dense
            }
            Builtin::ThreadIndexInSimdgroup | Builtin::SimdgroupIndexInThreadgroup => ends.one_simdgroup,
            Builtin::ThreadIndexInQuadgroup | Builtin::QuadgroupIndexInThreadgroup => ends.one_quad,
            Builtin::DispatchThreadsPerThreadgroup(_)
            | Builtin::ThreadsPerGrid(_)
            | Builtin::ThreadgroupsPerGrid(_)
            | Builtin::DispatchSimdgroupsPerThreadgroup
            | Builtin::ThreadsPerSimdgroup => true,
        };
        if let Some(tag) = reg.tag_index()
            && linear
        {
            let stride = self.builtin_at(which, &ends.second).wrapping_sub(base);
            self.lanes.tags[tag] = Tag::new(Plane::line(u64::from(base), u64::from(stride)));
            return;
        }
        if let Some(tag) = reg.tag_index()
            && let Some((across, down)) = self.steps_of(which)
        {
            let row = down.wrapping_sub(across.wrapping_mul(self.lanes.width as u64));
            self.lanes.tags[tag] = Tag::new(Plane {
                base: u64::from(base),
                stride: across,
                row,
            });
            return;
        }
        let (_, to) = self.dst(reg);
        let to = to.cast::<u32>();
        if !self.strip.dense
            && let Builtin::ThreadPositionInThreadgroup(d) | Builtin::ThreadPositionInGrid(d) = which
        {
            // Neighbours differ by one step of a counter.
            let (d, size) = (usize::from(d).min(2), self.strip.size);
            let start = match which {
                Builtin::ThreadPositionInGrid(_) => self.strip.group[d].wrapping_mul(self.plan().group[d]),
                _ => 0,
            };
            let mut at = unflatten(self.strip.first, size);
            for lane in 0..self.lanes.live {
                // SAFETY: the register holds all lanes of `u32`.
                unsafe { to.add(lane).write(start.wrapping_add(at[d])) };
                at[0] += 1;
                for carry in 0..2 {
                    if at[carry] == size[carry] {
                        at[carry] = 0;
                        at[carry + 1] += 1;
                    }
                }
            }
            return;
        }
        let inside = !self.strip.dense;
        let first = self.strip.first as u32;
        for lane in 0..self.lanes.live {
            let index = first + lane as u32;
            let value = match which {
                // Frequent, and free of divisions.
                Builtin::ThreadIndexInSimdgroup if inside => index % 32,
                Builtin::SimdgroupIndexInThreadgroup if inside => index / 32,
                _ => self.builtin_at(which, &self.position(lane)),
            };
            // SAFETY: the register holds all lanes of `u32`.
            unsafe { to.add(lane).write(value) };
        }
    }
}

/// What [`Worker::strip_ends`] finds.
struct Ends {
    first: ThreadPosition,
    second: ThreadPosition,
    one_row: bool,
    one_group: bool,
    one_simdgroup: bool,
    one_quad: bool,
}
