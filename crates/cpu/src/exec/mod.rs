//! Runs a lane program on one strip after another.

mod affine;
pub(crate) mod arena;
mod atomic;
mod convolution;
mod coop;
mod coop_io;
mod fused;
mod gather;
mod joined;
mod load_dot;
mod mask;
mod matmul;
mod matrix;
mod memory;
pub(crate) mod objects;
pub(crate) mod panels;
mod planes;
mod reduce;
mod rows;
mod simd;
mod simd_matrix;
mod stores;
pub(crate) mod stream;
mod strip;
mod tensor;
mod thread_matmul;
mod watch;
mod watch_report;
mod watch_tiles;
mod worker;

use std::sync::atomic::{Ordering, fence};

use anymetal_ir::{LocationId, Scope};

use self::affine::{Plane, Tag};
use self::mask::{AFTER_IF, AFTER_LOOP, BROKEN, CONTINUED, Frame, LIVE, Mask, SIDES, SLOTS};
use self::objects::Object;
use crate::compile::program::{Block, Comparison, Inst, Place, Program, Reg};
use crate::fault::FaultKind;
use crate::lanes::{CHUNK, Src};
use crate::launch::Traffic;

pub(crate) use self::coop::CoopInfo;
pub(crate) use self::objects::Shared;
pub(crate) use self::strip::{StripPlan, Work};
pub(crate) use self::tensor::fits;

/// A fault on its way out: what, in which lane of the strip, and where in the source.
#[derive(Debug)]
pub(crate) struct Raised {
    pub kind: FaultKind,
    pub lane: usize,
    pub location: LocationId,
}

pub(crate) type Outcome<T = ()> = Result<T, Box<Raised>>;

/// A fault of a lane; the run loop adds the location.
#[cold]
fn raise<T>(kind: FaultKind, lane: usize) -> Outcome<T> {
    Err(Box::new(Raised {
        kind,
        lane,
        location: LocationId::default(),
    }))
}

/// The varying registers of a strip, and its control state. There is one for threads and one for elements of a tile.
pub(crate) struct LaneState {
    /// Register area.
    base: *mut u8,
    /// Mask slots.
    masks: *mut u8,
    /// Lanes that registers have room for; a multiple of 32.
    cap: usize,
    /// Chunks in use.
    chunks: usize,
    /// Lanes in use.
    live: usize,
    /// Lanes of a row of planes.
    width: usize,
    /// Columns and rows of the rectangle that the live lanes lie in.
    rectangle: (usize, usize),
    current: Mask,
    /// Lanes that have returned, for barriers.
    returned: Mask,
    returned_slot: u32,
    frames: Vec<Frame>,
    tags: Vec<Tag>,
}

/// A tile of a cooperative tensor: row-major, one for each instance of its scope.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    pub base: *mut u8,
    /// Bytes from one instance to the next.
    pub stride: usize,
    pub rows: usize,
    pub columns: usize,
    pub size: usize,
    /// SIMD-groups of an instance.
    pub simdgroups: usize,
}

impl Tile {
    pub fn instance(&self, index: usize) -> *mut u8 {
        // SAFETY: the arena holds a tile for each instance of a strip.
        unsafe { self.base.add(index * self.stride) }
    }

    pub fn elements(&self) -> usize {
        self.rows * self.columns
    }
}

/// Where a map body is: its instance, its first element, and the lane that outside values come from.
#[derive(Clone, Copy)]
struct MapPlace {
    instance: usize,
    element: usize,
    lane: usize,
}

/// One worker's state during a dispatch.
pub(crate) struct Worker<'d> {
    shared: &'d Shared<'d>,
    program: &'d Program,
    uniform: *mut u8,
    lanes: LaneState,
    /// The lane state that is not in use: that of elements, or of threads while elements run.
    idle: LaneState,
    objects: Vec<Object>,
    tiles: Vec<Tile>,
    /// Handle and answer of each tensor query.
    queries: Vec<(u64, u64)>,
    map: Option<MapPlace>,
    strip: strip::StripInfo,
    budget: u64,
    traffic: Option<Traffic>,
    /// Of programs that are compiled for it.
    sanitizer: Option<Box<crate::sanitize::Sanitizer>>,
    /// Bytes of a temporary mask.
    temporary: *mut u8,
    tile_scratch: crate::tile::Scratch,
    matmul_buffer: matmul::Buffers,
    convolution_buffer: convolution::Buffers,
    known_left: panels::Memo<crate::tile::PackedLeft>,
    known_right: panels::Memo<crate::tile::PackedRight>,
    copies: thread_matmul::Copies,
}

/// A register as a run-time value.
#[derive(Clone, Copy)]
enum Value {
    Uniform(u64),
    Affine {
        base: u64,
        stride: u64,
    },
    /// More than one row, whose lines differ.
    Plane(Plane),
    Lanes,
}

/// Reads an element of a size in bytes.
///
/// # Safety
/// `ptr` must be valid for reads of `size` bytes; it may be unaligned.
#[inline(always)]
unsafe fn read(ptr: *const u8, size: u8) -> u64 {
    // SAFETY: by the function's contract.
    unsafe {
        match size {
            1 => u64::from(*ptr),
            2 => u64::from(ptr.cast::<u16>().read_unaligned()),
            4 => u64::from(ptr.cast::<u32>().read_unaligned()),
            _ => ptr.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes an element of a size in bytes.
///
/// # Safety
/// `ptr` must be valid for writes of `size` bytes; it may be unaligned.
#[inline(always)]
unsafe fn write(ptr: *mut u8, size: u8, value: u64) {
    // SAFETY: by the function's contract.
    unsafe {
        match size {
            1 => *ptr = value as u8,
            2 => ptr.cast::<u16>().write_unaligned(value as u16),
            4 => ptr.cast::<u32>().write_unaligned(value as u32),
            _ => ptr.cast::<u64>().write_unaligned(value),
        }
    }
}

/// `count` equal elements.
///
/// # Safety
/// `ptr` must be valid for writes of `count · size` bytes.
unsafe fn splat(ptr: *mut u8, size: u8, count: usize, value: u64) {
    // SAFETY: by the function's contract; registers are aligned to their element.
    unsafe {
        match size {
            1 => std::slice::from_raw_parts_mut(ptr, count).fill(value as u8),
            2 => std::slice::from_raw_parts_mut(ptr.cast::<u16>(), count).fill(value as u16),
            4 => std::slice::from_raw_parts_mut(ptr.cast::<u32>(), count).fill(value as u32),
            _ => std::slice::from_raw_parts_mut(ptr.cast::<u64>(), count).fill(value),
        }
    }
}

impl<'d> Worker<'d> {
    /// Address of a register's first element.
    #[inline(always)]
    fn ptr(&self, reg: Reg) -> *mut u8 {
        // SAFETY: the allocator placed the register inside its area, and areas have room for `cap` lanes.
        unsafe {
            if reg.is_uniform() {
                self.uniform.add(reg.at as usize)
            } else {
                self.lanes.base.add(reg.at as usize * self.lanes.cap)
            }
        }
    }

    /// A register as a source of lane operations, its lanes written out.
    #[inline(always)]
    fn src(&mut self, reg: Reg) -> Src {
        if reg.is_uniform() {
            return Src {
                ptr: self.ptr(reg),
                step: 0,
            };
        }
        if let Some(tag) = reg.tag_index() {
            self.fill(reg, tag);
        }
        Src {
            ptr: self.ptr(reg),
            step: CHUNK * reg.size as usize,
        }
    }

    /// A register to write lanes to, and the number of chunks to write (0 for a uniform one).
    #[inline(always)]
    fn dst(&mut self, reg: Reg) -> (usize, *mut u8) {
        let chunks = if reg.is_uniform() {
            0
        } else {
            if let Some(tag) = reg.tag_index() {
                self.lanes.tags[tag] = Tag::LANES;
            }
            self.lanes.chunks
        };
        (chunks, self.ptr(reg))
    }

    /// Where the strip's elements of a tile lie.
    #[inline(always)]
    fn elements(&self, coop: u32) -> (*mut u8, usize) {
        let tile = self.tiles[coop as usize];
        let (instance, element) = self.map.map_or((0, 0), |map| (map.instance, map.element));
        // SAFETY: elements of the strip are inside the tile, or those of the instances after it that run together.
        (unsafe { tile.instance(instance).add(element * tile.size) }, tile.size)
    }

    /// An operand of a map body as a source.
    #[inline(always)]
    fn place(&mut self, place: Place) -> Src {
        match place {
            Place::Reg(reg) => self.src(reg),
            Place::Tile(coop) => {
                let (ptr, size) = self.elements(coop);
                Src {
                    ptr,
                    step: CHUNK * size,
                }
            }
        }
    }

    /// Where a result of a map body goes, and the number of chunks.
    #[inline(always)]
    fn place_to(&mut self, place: Place) -> (usize, *mut u8) {
        match place {
            Place::Reg(reg) => self.dst(reg),
            Place::Tile(coop) => (self.lanes.chunks, self.elements(coop).0),
        }
    }

    /// Sets a register to one value in all lanes.
    fn set_all(&mut self, reg: Reg, value: u64) {
        let (chunks, ptr) = self.dst(reg);
        // SAFETY: a register has room for 32 elements in each of its chunks.
        unsafe { splat(ptr, reg.size, CHUNK * chunks.max(1), value) }
    }

    /// The value of a uniform register.
    #[inline(always)]
    fn uniform_value(&self, reg: Reg) -> u64 {
        // SAFETY: a register holds at least one element of its size.
        unsafe { read(self.ptr(reg), reg.size) }
    }

    /// A register as a run-time value.
    #[inline(always)]
    fn value(&self, reg: Reg) -> Value {
        if reg.is_uniform() {
            return Value::Uniform(self.uniform_value(reg));
        }
        match reg.tag_index().map(|tag| self.lanes.tags[tag]) {
            Some(tag) if tag.affine && tag.plane.row == 0 => Value::Affine {
                base: tag.plane.base,
                stride: tag.plane.stride,
            },
            Some(tag) if tag.affine => Value::Plane(tag.plane),
            _ => Value::Lanes,
        }
    }

    /// The value in one lane.
    fn lane_value(&self, reg: Reg, lane: usize) -> u64 {
        match self.value(reg) {
            Value::Uniform(value) => value,
            Value::Affine { base, stride } => Plane::line(base, stride).lane(lane as u64, self.lanes.width, reg.size),
            Value::Plane(plane) => plane.lane(lane as u64, self.lanes.width, reg.size),
            Value::Lanes => match self.unfilled_matrix(reg) {
                Some(steps) => {
                    let first = lane / CHUNK * CHUNK;
                    // SAFETY: as below.
                    let base = unsafe { read(self.ptr(reg).add(first * reg.size as usize), reg.size) };
                    base.wrapping_add(steps.lane(lane))
                }
                // SAFETY: the lane is below `cap`.
                None => unsafe { read(self.ptr(reg).add(lane * reg.size as usize), reg.size) },
            },
        }
    }

    /// Runs a block under the current mask.
    fn run(&mut self, block: &'d Block) -> Outcome {
        for (inst, location) in &block.insts {
            let outcome = self.step(inst);
            if let Err(mut raised) = outcome {
                if raised.location == LocationId::default() {
                    raised.location = *location;
                }
                return Err(raised);
            }
            if self.lanes.current == Mask::None {
                break;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn step(&mut self, inst: &'d Inst) -> Outcome {
        match inst {
            Inst::Op1 { f, out, a } => {
                let a = self.src(*a);
                let (chunks, out) = self.dst(*out);
                // SAFETY: the compiler chose the loop for the registers' types; registers have room for all chunks.
                unsafe { f(chunks, out, a) }
            }
            Inst::Op2 { f, out, a, b } => {
                let (a, b) = (self.src(*a), self.src(*b));
                let (chunks, out) = self.dst(*out);
                // SAFETY: as above.
                unsafe { f(chunks, out, a, b) }
            }
            Inst::Op3 { f, out, a, b, c } => {
                let (a, b, c) = (self.src(*a), self.src(*b), self.src(*c));
                let (chunks, out) = self.dst(*out);
                // SAFETY: as above.
                unsafe { f(chunks, out, a, b, c) }
            }
            Inst::Map1 { f, out, a } => {
                let a = self.place(*a);
                let (chunks, out) = self.place_to(*out);
                // SAFETY: as above; a tile has whole chunks of the operation's element type, in use as far as the strip goes.
                unsafe { f(chunks, out, a) }
            }
            Inst::Map2 { f, out, a, b } => {
                let (a, b) = (self.place(*a), self.place(*b));
                let (chunks, out) = self.place_to(*out);
                // SAFETY: as above.
                unsafe { f(chunks, out, a, b) }
            }
            Inst::Map3 { f, out, a, b, c } => {
                let (a, b, c) = (self.place(*a), self.place(*b), self.place(*c));
                let (chunks, out) = self.place_to(*out);
                // SAFETY: as above.
                unsafe { f(chunks, out, a, b, c) }
            }
            Inst::Dot(dot) => self.dot(dot),
            Inst::LoadDot(load) => return self.load_dot(load),
            Inst::Digits(digits) => self.digits(digits),
            Inst::Affine {
                kind,
                ty,
                lanes,
                out,
                a,
                b,
            } => self.affine(*kind, *ty, *lanes, *out, *a, *b),
            Inst::LocalSet {
                copy,
                blend,
                local,
                value,
            } => self.local_set(*copy, *blend, *local, *value),
            Inst::OfMemory {
                access,
                location,
                operation,
                out,
                operands,
            } => return self.of_memory(access, *location, *operation, *out, operands),
            Inst::Copy(copies) => return self.copy_lanes(copies),
            Inst::SetLocal { direct, apart, sets } => return self.set_local(direct, apart, sets),
            Inst::LocalGet { copy, out, local } => {
                if let (Some(to), Some(from)) = (out.tag_index(), local.tag_index())
                    && self.lanes.tags[from].affine
                {
                    self.lanes.tags[to] = self.lanes.tags[from].unfilled();
                    return Ok(());
                }
                let a = self.src(*local);
                let (chunks, out) = self.dst(*out);
                // SAFETY: as above.
                unsafe { copy(chunks, out, a) }
            }
            Inst::Load(access) => return self.load(access),
            Inst::Store(access) => return self.store(access),
            Inst::StoreBits {
                pointer,
                bit,
                value,
                bits,
                predicate,
            } => return self.store_bits(*pointer, *bit, *value, *bits, *predicate),
            Inst::Atomic {
                op,
                ty,
                pointer,
                values,
                out,
                success,
            } => return self.atomic(*op, *ty, *pointer, values, *out, *success),
            Inst::CheckIndex {
                access,
                indices,
                extents,
                name,
            } => return self.check_index(*access, indices, extents, name),
            Inst::CheckReach(reach) => return self.check_reach(reach),
            Inst::InRange { out, indices, extents } => self.in_range(*out, indices, extents),
            Inst::TensorQuery {
                handle,
                spec,
                field,
                out,
                memory,
            } => return self.tensor_query(*handle, spec, *field, *out, *memory as usize),
            Inst::Barrier(scope) => return self.barrier(*scope),
            Inst::Fence => fence(Ordering::SeqCst),
            Inst::Group { op, width, ty, out, a } => self.group(*op, *width, *ty, *out, *a),
            Inst::Shuffle {
                op,
                width,
                out,
                a,
                index,
                index_ty,
            } => self.shuffle(*op, *width, *out, *a, *index, *index_ty),
            Inst::Vote { op, width, out, a } => self.vote(*op, *width, *out, *a),
            Inst::SimdgroupMatrixMultiply { operands, ty, out } => {
                let (a, b, c) = &**operands;
                return self.simdgroup_matrix_multiply(a, b, c.as_ref(), *ty, *out);
            }
            Inst::If {
                condition,
                compare,
                then,
                otherwise,
                depth,
                leaves,
            } => {
                let known = match compare {
                    Some(compare) => self.compare(compare, *condition),
                    None if condition.is_uniform() => Some(self.uniform_value(*condition) != 0),
                    None => None,
                };
                return self.branch(known, *condition, then, otherwise, *depth, *leaves);
            }
            Inst::Loop {
                body,
                latch,
                depth,
                leaves,
                cost,
            } => return self.repeat(body, latch, *depth, *leaves, *cost),
            Inst::Scope { body, depth, leaves } => return self.scope(body, *depth, *leaves),
            Inst::Break(level) => {
                let at = self.lanes.frames.len() - 1 - *level as usize;
                let frame = self.lanes.frames[at];
                let mask = self.mask_or(frame.slot + BROKEN, frame.broken, self.lanes.current);
                self.lanes.frames[at].broken = mask;
                self.lanes.current = Mask::None;
            }
            Inst::Continue(level) => {
                let at = self.lanes.frames.len() - 1 - *level as usize;
                let frame = self.lanes.frames[at];
                let mask = self.mask_or(frame.slot + CONTINUED, frame.continued, self.lanes.current);
                self.lanes.frames[at].continued = mask;
                self.lanes.current = Mask::None;
            }
            Inst::Return => {
                let slot = self.lanes.returned_slot;
                self.lanes.returned = self.mask_or(slot, self.lanes.returned, self.lanes.current);
                self.lanes.current = Mask::None;
            }
            other => return self.cooperative(other),
        }
        Ok(())
    }

    /// The answer of a comparison where all lanes agree by their operands' form; otherwise the lanes' answers are in
    /// `condition`.
    fn compare(&mut self, compare: &Comparison, condition: Reg) -> Option<bool> {
        let answer = self.compare_lines(compare.op, compare.ty, compare.a, compare.b);
        if answer.is_none() {
            let (a, b) = (self.src(compare.a), self.src(compare.b));
            let (chunks, out) = self.dst(condition);
            // SAFETY: the compiler chose the loop for the registers' types.
            unsafe { (compare.f)(chunks, out, a, b) }
        }
        answer
    }

    /// `one_side` is the side that all lanes take, if that is known.
    fn branch(
        &mut self,
        one_side: Option<bool>,
        condition: Reg,
        then: &'d Block,
        otherwise: &'d Block,
        depth: u32,
        leaves: bool,
    ) -> Outcome {
        let slot = depth * SLOTS;
        let entry = self.lanes.current;
        let (one_side, then_mask, else_mask) = match one_side {
            Some(side) => (Some(side), Mask::None, Mask::None),
            None => {
                let bytes: *const u8 = self.ptr(condition);
                let then_mask = self.mask_and(slot + SIDES, entry, bytes, true);
                if then_mask == Mask::All {
                    (Some(true), then_mask, Mask::None)
                } else if then_mask == Mask::None {
                    (Some(false), then_mask, Mask::None)
                } else {
                    // The condition may be gone after the first side: take both masks now.
                    let else_mask = self.mask_and(slot + SIDES + 1, entry, bytes, false);
                    (None, then_mask, else_mask)
                }
            }
        };
        if let Some(side) = one_side {
            self.run(if side { then } else { otherwise })?;
            self.lanes.current = if leaves {
                self.mask_keep(slot + AFTER_IF, self.lanes.current)
            } else {
                entry
            };
            return Ok(());
        }
        self.lanes.current = then_mask;
        self.run(then)?;
        let then_left = self.mask_keep(slot + SIDES, self.lanes.current);
        let mut else_left = else_mask;
        if else_mask != Mask::None && !otherwise.insts.is_empty() {
            self.lanes.current = else_mask;
            self.run(otherwise)?;
            else_left = self.lanes.current;
        }
        self.lanes.current = if leaves {
            self.mask_or(slot + AFTER_IF, then_left, else_left)
        } else {
            entry
        };
        Ok(())
    }

    fn repeat(&mut self, body: &'d Block, latch: &'d Block, depth: u32, leaves: bool, cost: u64) -> Outcome {
        let slot = depth * SLOTS;
        let entry = self.lanes.current;
        self.lanes.frames.push(Frame {
            broken: Mask::None,
            continued: Mask::None,
            slot,
        });
        let at = self.lanes.frames.len() - 1;
        loop {
            self.spend(cost)?;
            self.lanes.frames[at].continued = Mask::None;
            self.run(body)?;
            let continued = self.lanes.frames[at].continued;
            self.lanes.current = self.mask_or(slot + LIVE, self.lanes.current, continued);
            if self.lanes.current == Mask::None {
                break;
            }
            self.run(latch)?;
            if self.lanes.current == Mask::None {
                break;
            }
            self.lanes.current = self.mask_keep(slot + LIVE, self.lanes.current);
        }
        self.leave(entry, leaves);
        Ok(())
    }

    fn scope(&mut self, body: &'d Block, depth: u32, leaves: bool) -> Outcome {
        let slot = depth * SLOTS;
        let entry = self.lanes.current;
        self.lanes.frames.push(Frame {
            broken: Mask::None,
            continued: Mask::None,
            slot,
        });
        self.run(body)?;
        let at = self.lanes.frames.len() - 1;
        let broken = self.lanes.frames[at].broken;
        self.lanes.frames[at].broken = self.mask_or(slot + BROKEN, broken, self.lanes.current);
        self.leave(entry, leaves);
        Ok(())
    }

    /// Ends a loop or scope: the lanes that broke out of it go on.
    fn leave(&mut self, entry: Mask, leaves: bool) {
        let Some(frame) = self.lanes.frames.pop() else {
            return;
        };
        self.lanes.current = if leaves {
            self.mask_keep(frame.slot + AFTER_LOOP, frame.broken)
        } else {
            entry
        };
    }

    /// Counts loop iterations against the budget, and stops when another worker met a fault.
    fn spend(&mut self, cost: u64) -> Outcome {
        if self.shared.stopped.load(Ordering::Relaxed) {
            return raise(FaultKind::Stopped, 0);
        }
        if let Some(budget) = self.shared.options.budget {
            self.budget = self.budget.saturating_add(cost);
            if self.budget > budget {
                let lane = self.first_active(0, usize::MAX).unwrap_or(0);
                return raise(FaultKind::Budget { budget }, lane);
            }
        }
        Ok(())
    }

    fn barrier(&mut self, scope: Scope) -> Outcome {
        if self.lanes.current == Mask::All {
            return Ok(());
        }
        // Lanes are in step, so a barrier has nothing to do but to see that all of them are here. Lanes that have returned
        // are not waited for.
        let live = self.lanes.live;
        let span = match scope {
            Scope::Simdgroup => CHUNK,
            Scope::Threadgroup => live.max(1),
        };
        let gone = match self.lanes.returned {
            Mask::Part(_) => self.mask_bytes(self.lanes.returned),
            _ => None,
        };
        let active = self.mask_bytes(self.lanes.current).unwrap_or(&[]);
        for first in (0..live).step_by(span) {
            let end = (first + span).min(live);
            let count = |bytes: &[u8]| -> u32 { bytes[first..end].iter().map(|&byte| u32::from(byte)).sum() };
            let arrived = count(active);
            let expected = (end - first) as u32 - gone.map_or(0, count);
            if arrived != 0 && arrived != expected {
                let lane = self.first_active(first, end).unwrap_or(first);
                return raise(FaultKind::DivergentBarrier { arrived, expected }, lane);
            }
        }
        Ok(())
    }
}
