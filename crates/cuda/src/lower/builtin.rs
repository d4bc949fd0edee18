//! Positions and sizes of the launch, and the entry of the kernel.

use anymetal_ir::{Builtin, Op, ValueId};

use super::{Lower, OBJECTS_BASE, Result};
use crate::abi;
use crate::ptx::{Class, Reg};
use crate::{emit, ptx};

/// What the entry computes besides [`Geometry`](super::Geometry).
#[derive(Default)]
pub(crate) struct Launch {
    /// Size of this threadgroup, smaller at the edge of the grid.
    size: Vec<Reg>,
    /// Size of a full threadgroup.
    full: Vec<Reg>,
    /// Position in the threadgroup, if the kernel asks.
    position: Vec<Reg>,
    /// Threads of this threadgroup.
    threads: Option<Reg>,
    /// Lanes of this SIMD-group that exist: the first ones.
    live: Option<Reg>,
    /// Address of the kernel's own threadgroup objects.
    objects: Option<Reg>,
    /// The threads that a barrier counts: whole SIMD-groups.
    barrier: Option<Reg>,
    /// Position in the grid in `x`, where a hardware thread runs several of the kernel's.
    position_x: Option<Reg>,
    /// Position of the threadgroup, where it is not the block's.
    group: Option<[Reg; 3]>,
}

impl Lower<'_> {
    /// Sets the registers of [`Geometry`](super::Geometry) and ends dead lanes.
    pub fn prologue(&mut self) {
        self.set_geometry();
        self.launch.group = self.group_position();
        let plane = self.sizes();
        let (g, threads) = (self.geometry, self.threads());
        let whole = emit!(self, B32, "add.s32", threads, 31);
        self.launch.barrier = Some(emit!(self, B32, "and.b32", whole, -32));
        let before = emit!(self, B32, "shl.b32", g.simdgroup, 5);
        let left = emit!(self, B32, "sub.s32", threads, before);
        self.launch.live = Some(if self.has_whole_simdgroups() {
            self.u32(32)
        } else {
            emit!(self, B32, "min.u32", left, 32)
        });

        let mut asks = false;
        self.kernel.body.for_each_inst(&mut |inst| {
            asks |= matches!(
                inst.op,
                Op::Builtin(Builtin::ThreadPositionInGrid(_) | Builtin::ThreadPositionInThreadgroup(_))
            );
        });
        if asks {
            let position: [Reg; 3] = std::array::from_fn(|_| self.reg(Class::B32));
            self.positions(position, plane);
        }
        self.clear_locals();
        self.begin_control();
    }

    /// The entry of a kernel that fewer hardware threads may run ([`coarse`](super::coarse)): it knows positions in the grid alone. Where a
    /// threadgroup has one dimension there is nothing to compute; threads past the end of the grid go on.
    pub(super) fn coarse_prologue(&mut self) {
        self.set_geometry();
        self.launch.group = self.group_position();
        let thread = self.geometry.thread;
        let position: [Reg; 3] = std::array::from_fn(|_| self.reg(Class::B32));
        ptx!(self, "mov.b32 {}, {thread}", position[0]);
        ptx!(self, "mov.b32 {}, 0", position[1]);
        ptx!(self, "mov.b32 {}, 0", position[2]);
        let all = self.parameter(Class::B32, abi::THREADS);
        let row = self.parameter(Class::B32, abi::THREADGROUP);
        let flat = emit!(self, Pred, "setp.eq.u32", all, row);
        let end = self.writer.label();
        ptx!(self, "@{flat} bra.uni {end}");
        let plane = self.sizes();
        self.positions(position, plane);
        self.writer.place(end);
        self.launch.position = position.to_vec();
        self.launch.full = (0..3)
            .map(|dimension| self.parameter(Class::B32, abi::THREADGROUP + 4 * dimension))
            .collect();
        self.clear_locals();
        self.begin_control();
    }

    /// Sets the registers of [`Geometry`](super::Geometry).
    fn set_geometry(&mut self) {
        self.begin_dependence();
        let g = self.geometry;
        ptx!(self, "mov.u32 {}, %tid.x", g.hardware_thread);
        ptx!(self, "and.b32 {}, {}, 31", g.hardware_lane, g.hardware_thread);
        let lane = self.virtual_lane(g.hardware_lane);
        ptx!(self, "mov.b32 {}, {lane}", g.lane);
        if self.permuted_lanes {
            let first = emit!(self, B32, "sub.s32", g.hardware_thread, g.hardware_lane);
            ptx!(self, "add.s32 {}, {first}, {lane}", g.thread);
        } else {
            ptx!(self, "mov.b32 {}, {}", g.thread, g.hardware_thread);
        }
        ptx!(self, "shr.u32 {}, {}, 5", g.simdgroup, g.hardware_thread);
        ptx!(self, "shr.u32 {}, {}, 2", g.fragment_row, g.hardware_lane);
        ptx!(self, "and.b32 {}, {}, 3", g.fragment_pair, g.hardware_lane);
        let smem = emit!(self, B32, "mov.u32", "smem");
        self.launch.objects = Some(emit!(self, B32, "add.s32", smem, OBJECTS_BASE));
    }

    /// Sets the sizes of this threadgroup, and ends threads that it does not have. Returns the threads of a plane.
    fn sizes(&mut self) -> Reg {
        let g = self.geometry;
        for dimension in 0..3 {
            let full = self.parameter(Class::B32, abi::THREADGROUP + 4 * dimension);
            let mut grid = self.parameter(Class::B32, abi::GRID_THREADS + 4 * dimension);
            if dimension == 0 && self.coarse_shift > 0 {
                // Hardware threads, each of which runs several of the kernel's.
                let shift = self.parameter(Class::B32, abi::COARSE_SHIFT);
                let less = emit!(self, B32, "sub.s32", grid, 1);
                grid = emit!(self, B32, "add.s32", emit!(self, B32, "shr.u32", less, shift), 1);
            }
            let first = self.first_thread(dimension, full);
            let rest = emit!(self, B32, "sub.s32", grid, first);
            let size = match self.options.shape {
                Some(shape) => self.u32(shape[dimension as usize]),
                None => emit!(self, B32, "min.u32", full, rest),
            };
            self.launch.full.push(full);
            self.launch.size.push(size);
        }
        let (x, y, z) = (self.launch.size[0], self.launch.size[1], self.launch.size[2]);
        let plane = emit!(self, B32, "mul.lo.s32", x, y);
        let threads = emit!(self, B32, "mul.lo.s32", plane, z);
        self.launch.threads = Some(threads);
        if !self.has_whole_simdgroups() {
            let dead = emit!(self, Pred, "setp.ge.u32", g.thread, threads);
            ptx!(self, "@{dead} exit");
        }
        plane
    }

    /// Zeros in all locals.
    fn clear_locals(&mut self) {
        for index in 0..self.kernel.locals.len() {
            let local = self.locals[index];
            if local.class == Class::Pred {
                ptx!(self, "setp.ne.b32 {local}, 0, 0");
            } else {
                ptx!(self, "mov.{} {local}, {}", local.class.ptx(), zero(local.class));
            }
        }
    }

    /// True if every SIMD-group of the launch is known to have all its lanes.
    pub fn has_whole_simdgroups(&self) -> bool {
        self.options.shape.is_some_and(|shape| {
            let threads: u32 = shape.iter().product();
            threads > 0 && threads.is_multiple_of(32)
        })
    }

    /// The first thread of this threadgroup in the grid.
    fn first_thread(&mut self, dimension: u32, full: Reg) -> Reg {
        let position = self.threadgroup_position(dimension);
        emit!(self, B32, "mul.lo.s32", position, full)
    }

    /// The threadgroup's position in the grid as the kernel sees it.
    pub fn threadgroup_position(&mut self, dimension: u32) -> Reg {
        if let Some(group) = self.launch.group {
            return group[dimension as usize];
        }
        let name = ["%ctaid.x", "%ctaid.y", "%ctaid.z"][dimension as usize];
        emit!(self, B32, "mov.u32", name)
    }

    /// Splits the thread's index by the threadgroup's size; most threadgroups have one dimension and need no division.
    fn positions(&mut self, position: [Reg; 3], plane: Reg) {
        let thread = self.geometry.thread;
        self.launch.position = position.to_vec();
        ptx!(self, "mov.b32 {}, {thread}", position[0]);
        ptx!(self, "mov.b32 {}, 0", position[1]);
        ptx!(self, "mov.b32 {}, 0", position[2]);
        if let Some([x, y, z]) = self.options.shape {
            if y * z > 1 {
                let row = self.divided_with_rest(thread, x, position[0]);
                let plane = self.divided_with_rest(row, y, position[1]);
                ptx!(self, "mov.b32 {}, {plane}", position[2]);
            }
            return;
        }
        let (size_x, threads) = (self.launch.size[0], self.launch.threads.unwrap_or(plane));
        let flat = emit!(self, Pred, "setp.eq.u32", size_x, threads);
        let end = self.writer.label();
        ptx!(self, "@{flat} bra.uni {end}");
        let row = emit!(self, B32, "div.u32", thread, size_x);
        let before = emit!(self, B32, "mul.lo.s32", row, size_x);
        ptx!(self, "sub.s32 {}, {thread}, {before}", position[0]);
        ptx!(self, "div.u32 {}, {thread}, {plane}", position[2]);
        let before = emit!(self, B32, "mul.lo.s32", position[2], self.launch.size[1]);
        ptx!(self, "sub.s32 {}, {row}, {before}", position[1]);
        self.writer.place(end);
    }

    /// A quotient by a number, the remainder into a register.
    fn divided_with_rest(&mut self, number: Reg, by: u32, rest: Reg) -> Reg {
        if by.is_power_of_two() {
            ptx!(self, "and.b32 {rest}, {number}, {}", by - 1);
            return emit!(self, B32, "shr.u32", number, by.trailing_zeros());
        }
        let quotient = emit!(self, B32, "div.u32", number, by.max(1));
        let product = emit!(self, B32, "mul.lo.s32", quotient, by);
        ptx!(self, "sub.s32 {rest}, {number}, {product}");
        quotient
    }

    /// The kernel's lane of a hardware lane (both in `.b32`).
    pub fn virtual_lane(&mut self, hardware: Reg) -> Reg {
        if !self.permuted_lanes {
            return hardware;
        }
        // b4 b3 b2 b1 b0 = h4 h1 h3 h2 h0
        let kept = emit!(self, B32, "and.b32", hardware, 0x11);
        let down = emit!(self, B32, "and.b32", emit!(self, B32, "shr.u32", hardware, 1), 6);
        let up = emit!(self, B32, "and.b32", emit!(self, B32, "shl.b32", hardware, 2), 8);
        emit!(self, B32, "or.b32", emit!(self, B32, "or.b32", kept, down), up)
    }

    /// The hardware lane of a kernel's lane (both in `.b32`).
    pub fn hardware_lane_of(&mut self, lane: Reg) -> Reg {
        if !self.permuted_lanes {
            return lane;
        }
        let kept = emit!(self, B32, "and.b32", lane, 0x11);
        let up = emit!(self, B32, "and.b32", emit!(self, B32, "shl.b32", lane, 1), 12);
        let down = emit!(self, B32, "and.b32", emit!(self, B32, "shr.u32", lane, 2), 2);
        emit!(self, B32, "or.b32", emit!(self, B32, "or.b32", kept, up), down)
    }

    /// The hardware thread's position in `x` among all.
    pub(super) fn hardware_position_x(&mut self) -> Reg {
        let first = self.threadgroup_position(0);
        let (full, position) = (self.launch.full[0], self.launch.position[0]);
        emit!(self, B32, "mad.lo.u32", first, full, position)
    }

    /// What the kernel takes for its position in the grid in `x`.
    pub(super) fn set_position_x(&mut self, position: Option<Reg>) {
        self.launch.position_x = position;
    }

    /// Threads of this threadgroup.
    pub fn threads(&self) -> Reg {
        self.launch.threads.unwrap_or(self.geometry.thread)
    }

    /// Lanes of this SIMD-group that exist: the first ones as the kernel counts them.
    pub fn live_lanes(&self) -> Reg {
        self.launch.live.unwrap_or(self.geometry.lane)
    }

    /// The threads that a barrier of the threadgroup counts.
    pub fn barrier_threads(&self) -> Reg {
        self.launch.barrier.unwrap_or(self.geometry.lane)
    }

    /// Shared address of the kernel's own threadgroup objects.
    pub fn objects_base(&self) -> Reg {
        self.launch.objects.unwrap_or(self.geometry.lane)
    }

    pub fn builtin(&mut self, to: ValueId, builtin: Builtin) -> Result {
        let g = self.geometry;
        let threads = self.threads();
        let part = |d: u8| u32::from(d.min(2));
        let result = match builtin {
            Builtin::ThreadPositionInGrid(0) if let Some(x) = self.launch.position_x => x,
            Builtin::ThreadPositionInGrid(d) => {
                let d = part(d);
                let first = self.threadgroup_position(d);
                let (full, position) = (self.launch.full[d as usize], self.launch.position[d as usize]);
                emit!(self, B32, "mad.lo.u32", first, full, position)
            }
            Builtin::ThreadPositionInThreadgroup(d) => self.launch.position[part(d) as usize],
            Builtin::ThreadIndexInThreadgroup => g.thread,
            Builtin::ThreadgroupPositionInGrid(d) => self.threadgroup_position(part(d)),
            Builtin::ThreadsPerThreadgroup(d) => self.launch.size[part(d) as usize],
            Builtin::DispatchThreadsPerThreadgroup(d) => self.launch.full[part(d) as usize],
            Builtin::ThreadsPerGrid(d) => self.parameter(Class::B32, abi::GRID_THREADS + 4 * part(d)),
            Builtin::ThreadgroupsPerGrid(d) => self.parameter(Class::B32, abi::THREADGROUPS + 4 * part(d)),
            Builtin::ThreadIndexInSimdgroup => g.lane,
            Builtin::SimdgroupIndexInThreadgroup => g.simdgroup,
            Builtin::SimdgroupsPerThreadgroup => self.rounded_up(threads, 5),
            Builtin::DispatchSimdgroupsPerThreadgroup => {
                let threads = self.parameter(Class::B32, abi::THREADS);
                self.rounded_up(threads, 5)
            }
            Builtin::ThreadsPerSimdgroup => self.u32(32),
            Builtin::ThreadIndexInQuadgroup => emit!(self, B32, "and.b32", g.lane, 3),
            Builtin::QuadgroupIndexInThreadgroup => emit!(self, B32, "shr.u32", g.thread, 2),
            Builtin::QuadgroupsPerThreadgroup => self.rounded_up(threads, 2),
        };
        self.bind(to, result);
        Ok(())
    }

    /// `⌈count / 2^shift⌉`
    fn rounded_up(&mut self, count: Reg, shift: u32) -> Reg {
        let more = emit!(self, B32, "add.s32", count, (1 << shift) - 1);
        emit!(self, B32, "shr.u32", more, shift)
    }
}

/// Zero as an immediate of a class that is no predicate.
pub(crate) const fn zero(class: Class) -> &'static str {
    match class {
        Class::F32 => "0f00000000",
        _ => "0",
    }
}
