//! Watched instructions: what the sanitizer checks before one runs, and what it remembers.
//!
//! A check never changes what the instruction does, with one exception: a cooperative tensor that was just obtained, and
//! threadgroup memory at the start of a threadgroup, are filled with ones (NaN for every float type).

use anymetal_ir::{AtomicOp, BinaryOp, Finding, FindingCode, LocationId, Scalar, Scope, Spot};

use super::coop_io::Region;
use super::mask::Mask;
use super::memory::Active;
use super::objects::split;
use super::{Outcome, Worker};
use crate::compile::program::{Access, Inst, Reg, View, Watched};
use crate::fault::AccessKind;
use crate::lanes::CHUNK;
use crate::sanitize::order::Actor;
use crate::sanitize::shadow::{Stamp, Touch};
use crate::sanitize::{Sanitizer, Space, Weak};

/// Some bytes of shared memory that somebody is about to access.
pub(super) struct Place {
    pub space: Space,
    pub address: usize,
    pub bytes: usize,
    /// How messages call it: `tile[3]`.
    pub name: String,
}

impl<'d> Worker<'d> {
    /// A worker's sanitizer, if it has one; the caller puts it back.
    fn take_sanitizer(&mut self) -> Option<Box<Sanitizer>> {
        self.sanitizer.take()
    }

    /// A threadgroup is about to run.
    pub(super) fn watch_start(&mut self, group: u64) {
        let Some(mut sanitizer) = self.take_sanitizer() else {
            return;
        };
        if sanitizer.tiles.is_empty() {
            let instances = |tile: &super::Tile| (self.lanes.cap / CHUNK).div_ceil(tile.simdgroups);
            sanitizer.tiles = self
                .tiles
                .iter()
                .map(|tile| vec![false; instances(tile) * tile.elements()])
                .collect();
        }
        sanitizer.start((group + 1) as u32);
        self.sanitizer = Some(sanitizer);
        for object in &self.objects {
            if object.threadgroup {
                // SAFETY: the object has that many bytes, and no thread of the threadgroup runs yet.
                unsafe { object.ptr.write_bytes(0xff, object.length as usize) };
            }
        }
    }

    /// The findings of this worker.
    pub fn findings(&mut self) -> Vec<Finding> {
        self.sanitizer.as_mut().map_or_else(Vec::new, |s| s.findings())
    }

    /// Runs a watched instruction.
    pub(super) fn watched(&mut self, watched: &'d Watched) -> Outcome {
        let Some(mut sanitizer) = self.take_sanitizer() else {
            return self.plain(&watched.inst);
        };
        sanitizer.tick += 1;
        let before = self.watch_before(&mut sanitizer, watched);
        let outcome = before.and_then(|()| self.plain(&watched.inst));
        if outcome.is_ok() {
            self.watch_after(&mut sanitizer, watched);
        }
        self.sanitizer = Some(sanitizer);
        outcome
    }

    /// The instruction without its watch.
    fn plain(&mut self, inst: &'d Inst) -> Outcome {
        match inst {
            Inst::Load(access) => self.load(access),
            Inst::Store(access) => self.store(access),
            Inst::StoreBits {
                pointer,
                bit,
                value,
                bits,
                predicate,
            } => self.store_bits(*pointer, *bit, *value, *bits, *predicate),
            Inst::Atomic {
                op,
                ty,
                pointer,
                values,
                out,
                success,
            } => self.atomic(*op, *ty, *pointer, values, *out, *success),
            Inst::Barrier(scope) => self.barrier(*scope),
            Inst::Fence => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                Ok(())
            }
            other => self.cooperative(other),
        }
    }

    fn watch_before(&mut self, sanitizer: &mut Sanitizer, watched: &'d Watched) -> Outcome {
        let at = watched.location;
        match &watched.inst {
            Inst::Load(access) => self.watch_access(sanitizer, access, Touch::Read, at),
            Inst::Store(access) => self.watch_access(sanitizer, access, Touch::Write, at),
            Inst::StoreBits {
                pointer,
                bit,
                predicate,
                ..
            } => {
                for lane in self.active_lanes(*predicate) {
                    let bit = self.lane_value(*bit, lane) as i64;
                    let pointer =
                        crate::lanes::convert::offset_pointer(self.lane_value(*pointer, lane), (bit >> 3) as u64);
                    self.watch_bytes(sanitizer, (pointer, 1), lane, Touch::Write, false, at, &|_| true);
                }
            }
            Inst::Atomic { op, ty, pointer, .. } => {
                let bytes = u64::from(ty.size());
                let touch = match op {
                    AtomicOp::Load => Touch::Read,
                    AtomicOp::Store => Touch::Write,
                    _ => Touch::Both,
                };
                for lane in self.active_lanes(None) {
                    let pointer = self.lane_value(*pointer, lane);
                    if let Some(address) = self.address(pointer, bytes, false) {
                        sanitizer.device.clock.atomic(address as usize);
                    }
                    self.watch_bytes(sanitizer, (pointer, bytes), lane, touch, true, at, &|_| false);
                }
            }
            Inst::CoopGet { coop, slot, .. } => self.watch_slots(sanitizer, *coop, *slot, false, watched),
            Inst::CoopSet { coop, slot, .. } => self.watch_slots(sanitizer, *coop, *slot, true, watched),
            inst => return self.watch_tiles(sanitizer, inst, at),
        }
        Ok(())
    }

    fn watch_after(&mut self, sanitizer: &mut Sanitizer, watched: &Watched) {
        match &watched.inst {
            Inst::Barrier(scope) => self.watch_barrier(sanitizer, *scope, watched),
            Inst::Fence if watched.flags.device => sanitizer.device.clock.fence(),
            Inst::CoopInit(coop) => {
                let tile = self.tiles[*coop as usize];
                for (instance, _) in self.active_instances(tile.simdgroups) {
                    // SAFETY: the tile has that many bytes.
                    unsafe { tile.instance(instance).write_bytes(0xff, tile.elements() * tile.size) };
                }
            }
            _ => {}
        }
    }

    fn watch_barrier(&mut self, sanitizer: &mut Sanitizer, scope: Scope, watched: &Watched) {
        let tick = sanitizer.tick;
        let flags = watched.flags;
        for (space, ordered) in [(Space::Threadgroup, flags.threadgroup), (Space::Device, flags.device)] {
            let state = sanitizer.space(space);
            if !ordered {
                state.weak = Some(Weak {
                    tick,
                    location: watched.location,
                });
                continue;
            }
            match scope {
                Scope::Threadgroup => state.clock.barrier(),
                Scope::Simdgroup => {
                    for (simdgroup, _) in self.active_instances(1) {
                        state.clock.simd_barrier(simdgroup);
                    }
                }
            }
            if space == Space::Device {
                state.clock.fence();
            }
        }
    }

    /// The lanes that an access is for.
    fn active_lanes(&mut self, predicate: Option<Reg>) -> Vec<usize> {
        let active = self.active(predicate);
        if let Active::None = active {
            return Vec::new();
        }
        (0..self.lanes.live).filter(|&lane| active.has(lane)).collect()
    }

    /// The actor of a lane: its thread, or the scope of the map that the lane is an element in.
    fn actor(&self, lane: usize) -> Actor {
        match self.map {
            Some(map) => Actor::tile(map.instance, 1, 0xff_ffff),
            None => Actor::thread(lane),
        }
    }

    fn watch_access(&mut self, sanitizer: &mut Sanitizer, access: &Access, touch: Touch, at: LocationId) {
        let bytes = u64::from(access.size) * access.values.len() as u64;
        for lane in self.active_lanes(access.predicate) {
            let pointer = self.lane_value(access.pointer, lane);
            let object = self.object(split(pointer).0);
            if let Some(object) = object
                && object.lane_unit != 0
            {
                self.watch_own(sanitizer, (pointer, bytes), object.length, lane, touch, at);
                continue;
            }
            let values = &access.values;
            let this = &*self;
            // Threads that store the same value by one statement do no harm.
            let mine: Vec<u64> = values.iter().map(|&reg| this.lane_value(reg, lane)).collect();
            let same_pointer = |other: usize| this.lane_value(access.pointer, other) == pointer;
            let same = |earlier: &Stamp| {
                earlier.actor.index().is_some_and(|other| {
                    same_pointer(other)
                        && values
                            .iter()
                            .zip(&mine)
                            .all(|(&reg, &value)| this.lane_value(reg, other) == value)
                })
            };
            // Checked against copies, since the shadow is looked at while the worker is borrowed.
            let Some(place) = this.shared_place(pointer, bytes) else {
                continue;
            };
            let actor = this.actor(lane);
            let stamp = sanitizer.stamp(place.space, actor, at, false);
            let met = {
                let state = sanitizer.space(place.space);
                state
                    .shadow
                    .touch(place.address, place.bytes, touch, &stamp, &state.clock, &same)
            };
            self.judge(sanitizer, &place, met, &stamp, touch);
        }
    }

    /// One access of a lane to shared memory.
    fn watch_bytes(
        &mut self,
        sanitizer: &mut Sanitizer,
        (pointer, bytes): (u64, u64),
        lane: usize,
        touch: Touch,
        atomic: bool,
        at: LocationId,
        same: &dyn Fn(&Stamp) -> bool,
    ) {
        self.object(split(pointer).0);
        let Some(place) = self.shared_place(pointer, bytes) else {
            return;
        };
        let stamp = sanitizer.stamp(place.space, self.actor(lane), at, atomic);
        let state = sanitizer.space(place.space);
        let met = state
            .shadow
            .touch(place.address, place.bytes, touch, &stamp, &state.clock, same);
        self.judge(sanitizer, &place, met, &stamp, touch);
    }

    /// The place behind a pointer, if it is inside shared memory that threads may write.
    fn shared_place(&self, pointer: u64, bytes: u64) -> Option<Place> {
        let (number, offset) = split(pointer);
        let object = self.objects.get(number).filter(|_| number != 0)?;
        let inside = offset >= 0 && (offset as u64).checked_add(bytes)? <= object.length;
        if !inside || object.lane_unit != 0 || !(object.writable || self.shared.aliased) {
            return None;
        }
        Some(Place {
            space: if object.threadgroup {
                Space::Threadgroup
            } else {
                Space::Device
            },
            address: object.ptr as usize + offset as usize,
            bytes: bytes as usize,
            name: String::new(),
        })
    }

    /// An access to a lane's own memory.
    fn watch_own(
        &mut self,
        sanitizer: &mut Sanitizer,
        (pointer, bytes): (u64, u64),
        length: u64,
        lane: usize,
        touch: Touch,
        at: LocationId,
    ) {
        let (number, offset) = split(pointer);
        if offset < 0 || offset as u64 + bytes > length {
            return;
        }
        let lane = self.map.map_or(lane, |map| map.lane);
        let cap = match self.map {
            Some(_) => self.idle.cap,
            None => self.lanes.cap,
        };
        let known = sanitizer
            .own
            .entry(number)
            .or_insert_with(|| vec![false; length as usize * cap]);
        let from = lane * length as usize + offset as usize;
        let known = &mut known[from..from + bytes as usize];
        if touch == Touch::Write {
            known.fill(true);
            return;
        }
        if known.iter().all(|&set| set) {
            return;
        }
        let code = FindingCode::UninitialisedThread;
        if !sanitizer.is_new(code, at, LocationId::default()) {
            return;
        }
        let kernel = self.shared.kernel;
        let name = self.shared.name(number);
        let size = u64::from(name.element_size.max(1));
        sanitizer.report(Finding {
            code,
            kernel: kernel.name.clone(),
            message: format!(
                "element {} of `{}` is read before it was set",
                offset as u64 / size,
                name.name
            ),
            spot: Spot::new(&kernel.locations, at, format!("thread {lane} reads it here")),
            related: Vec::new(),
            notes: vec!["a thread's own array holds arbitrary bytes until they are written".to_string()],
            help: "set every element first, for example where it is declared: `= {}`".to_string(),
            count: 1,
        });
    }

    /// Tells when arithmetic of an index leaves its type.
    pub(super) fn watch_index(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg, at: LocationId) {
        let Some(mut sanitizer) = self.take_sanitizer() else {
            return;
        };
        let signed = ty == Scalar::I32;
        let uniform = a.is_uniform() && b.is_uniform();
        for lane in 0..self.lanes.live {
            if !self.is_active(lane) {
                continue;
            }
            let (x, y) = (self.lane_value(a, lane) as u32, self.lane_value(b, lane) as u32);
            let (code, out, value) = if signed {
                let (x, y) = (i64::from(x as i32), i64::from(y as i32));
                let value = match op {
                    BinaryOp::Add => x + y,
                    BinaryOp::Sub => x - y,
                    _ => x * y,
                };
                (
                    FindingCode::SignedOverflow,
                    i32::try_from(value).is_err(),
                    (x, y, value),
                )
            } else {
                let (x, y) = (i64::from(x), i64::from(y));
                (FindingCode::UnsignedWrap, x < y, (x, y, x - y))
            };
            if out && sanitizer.is_new(code, at, LocationId::default()) {
                self.index_finding(&mut sanitizer, code, op, value, lane, at);
            }
            if uniform {
                break;
            }
        }
        self.sanitizer = Some(sanitizer);
    }

    fn index_finding(
        &mut self,
        sanitizer: &mut Sanitizer,
        code: FindingCode,
        op: BinaryOp,
        (x, y, value): (i64, i64, i64),
        lane: usize,
        at: LocationId,
    ) {
        let sign = match op {
            BinaryOp::Add => '+',
            BinaryOp::Sub => '-',
            _ => '*',
        };
        let kernel = self.shared.kernel;
        let position = self.position(lane);
        let [gx, gy, gz] = position.grid;
        let (message, help) = if code == FindingCode::SignedOverflow {
            (
                format!("arithmetic of an index overflows `int`: {x} {sign} {y} is {value}"),
                "compute it in 64 bits: `long(a) * b`, or `size_t` for offsets into large buffers",
            )
        } else {
            (
                format!("an unsigned index goes below zero: {x} - {y} wraps to {}", value as u32),
                "test before subtracting (`i >= n ? i - n : …`), or compute it in `int` and test for a negative value",
            )
        };
        sanitizer.report(Finding {
            code,
            kernel: kernel.name.clone(),
            message,
            spot: Spot::new(
                &kernel.locations,
                at,
                format!("in thread ({gx}, {gy}, {gz}) of the grid"),
            ),
            related: Vec::new(),
            notes: vec!["the result is used as an address or a coordinate".to_string()],
            help: help.to_string(),
            count: 1,
        });
    }

    /// Checks that all threads of a tile operation's scope are here.
    pub(super) fn watch_scope(&mut self, sanitizer: &mut Sanitizer, simdgroups: usize, what: &str, at: LocationId) {
        let lanes = CHUNK * simdgroups.max(1);
        if self.lanes.current == Mask::All && self.lanes.live.is_multiple_of(lanes) {
            return;
        }
        for (instance, leader) in self.active_instances(simdgroups) {
            let (first, end) = (instance * lanes, ((instance + 1) * lanes).min(self.lanes.live));
            let here = (first..end).filter(|&lane| self.is_active(lane)).count();
            if here == lanes {
                continue;
            }
            let whole = end - first == lanes;
            let code = if whole {
                FindingCode::DivergentTileOperation
            } else {
                FindingCode::SimdgroupCount
            };
            if !sanitizer.is_new(code, at, LocationId::default()) {
                continue;
            }
            let kernel = self.shared.kernel;
            let scope = if simdgroups > 1 {
                format!("execution_simdgroups<{simdgroups}>")
            } else {
                "execution_simdgroup".to_string()
            };
            let (message, help) = if whole {
                (
                    format!(
                        "{what} in non-uniform control flow: only {here} of the {lanes} threads of its scope run it"
                    ),
                    "take it out of the branch or loop that only some threads of the scope run; mask values instead of threads",
                )
            } else {
                (
                    format!("{what} of scope {scope} runs with {here} threads; the scope has {lanes}"),
                    "dispatch whole SIMD-groups: a multiple of 32 threads in every threadgroup, those at the edge included",
                )
            };
            let position = self.position(leader);
            let [x, y, z] = position.threadgroup;
            sanitizer.report(Finding {
                code,
                kernel: kernel.name.clone(),
                message,
                spot: Spot::new(&kernel.locations, at, format!("scope {scope}")),
                related: Vec::new(),
                notes: vec![format!(
                    "threadgroup ({x}, {y}, {z}), first thread here: {}",
                    position.index
                )],
                help: help.to_string(),
                count: 1,
            });
        }
    }

    /// The space of the object behind a pointer, if threads share and may write it.
    pub(super) fn watched_space(&mut self, pointer: u64) -> Option<Space> {
        let object = self.object(split(pointer).0)?;
        if object.lane_unit != 0 || !(object.writable || self.shared.aliased) {
            return None;
        }
        Some(if object.threadgroup {
            Space::Threadgroup
        } else {
            Space::Device
        })
    }

    /// One access of a scope to consecutive bytes.
    pub(super) fn watch_run(
        &mut self,
        sanitizer: &mut Sanitizer,
        space: Space,
        (address, bytes): (usize, usize),
        (actor, touch): (Actor, Touch),
        at: LocationId,
    ) {
        let stamp = sanitizer.stamp(space, actor, at, false);
        let state = sanitizer.space(space);
        let met = state
            .shadow
            .touch(address, bytes, touch, &stamp, &state.clock, &|_| false);
        let place = Place {
            space,
            address,
            bytes,
            name: String::new(),
        };
        self.judge(sanitizer, &place, met, &stamp, touch);
    }

    /// A thread's product reads or sets a part of an array of its own.
    fn watch_own_region(
        &mut self,
        sanitizer: &mut Sanitizer,
        region: &Region,
        lane: usize,
        touch: Touch,
        at: LocationId,
    ) {
        let Some(object) = self
            .object(split(region.pointer).0)
            .filter(|object| object.lane_unit != 0)
        else {
            return;
        };
        let bits = region.format.bits() as i64;
        for y in 0..region.valid[1] {
            for x in 0..region.valid[0] {
                let offset = (region.index(x, y) * bits) >> 3;
                let pointer = crate::lanes::convert::offset_pointer(region.pointer, offset as u64);
                let access = (pointer, (bits as u64).div_ceil(8));
                if touch != Touch::Write {
                    self.watch_own(sanitizer, access, object.length, lane, Touch::Read, at);
                }
                if touch != Touch::Read {
                    self.watch_own(sanitizer, access, object.length, lane, Touch::Write, at);
                }
            }
        }
    }

    /// The part of a view that a tile operation is about to access, for each instance. Errors are left to the operation.
    pub(super) fn watch_region(
        &mut self,
        sanitizer: &mut Sanitizer,
        view: &View,
        (instance, lane, simdgroups): (usize, usize, usize),
        clip: [Option<usize>; 2],
        (touch, key): (Touch, u32),
        at: LocationId,
    ) {
        let kind = match touch {
            Touch::Read => AccessKind::Read,
            _ => AccessKind::Write,
        };
        let Ok(mut region) = self.region(view, lane, kind) else {
            return;
        };
        for (valid, most) in region.valid.iter_mut().zip(clip) {
            *valid = most.map_or(*valid, |most| most.min(*valid));
        }
        if region.valid.contains(&0) {
            return;
        }
        let Some(space) = self.watched_space(region.pointer) else {
            self.watch_own_region(sanitizer, &region, lane, touch, at);
            return;
        };
        let actor = if simdgroups == 0 {
            Actor::thread(lane)
        } else {
            Actor::tile(instance, simdgroups, key ^ place_key(&region))
        };
        let stamp = sanitizer.stamp(space, actor, at, false);
        let bits = region.format.bits() as i64;
        let address = |x: usize, y: usize| {
            let bit = region.index(x, y) * bits;
            region.base as usize as i64 + (bit >> 3)
        };
        for y in 0..region.valid[1] {
            // Rows without gaps are one access.
            let run = if region.strides[0] == 1 { region.valid[0] } else { 1 };
            for x in (0..region.valid[0]).step_by(run) {
                let (from, last) = (address(x, y), address(x + run - 1, y));
                let bytes = (last - from) as usize + (bits as usize).div_ceil(8);
                let state = sanitizer.space(space);
                let met = state
                    .shadow
                    .touch(from as usize, bytes, touch, &stamp, &state.clock, &|_| false);
                if !met.fresh && met.race.is_none() {
                    continue;
                }
                let column = x + met.at * 8 / bits as usize;
                let coordinates = [region.origin[0] + column as i64, region.origin[1] + y as i64];
                let named = match (view.origin.len(), view.name.ends_with(" tensor")) {
                    // A tensor over threadgroup memory is called by the array.
                    (_, true) => self.call(from as usize + met.at),
                    (1, _) => format!("`{}[{}]`", view.name, coordinates[0]),
                    _ => format!("`{}[{}, {}]`", view.name, coordinates[0], coordinates[1]),
                };
                let place = Place {
                    space,
                    address: from as usize,
                    bytes,
                    name: named,
                };
                self.judge(sanitizer, &place, met, &stamp, touch);
            }
        }
    }
}

/// Tells tiles at different places apart.
fn place_key(region: &Region) -> u32 {
    let mut key = 0u64;
    for d in 0..2 {
        key = key.wrapping_mul(0x9e37_79b9).wrapping_add(region.origin[d] as u64);
        key = key.wrapping_mul(0x9e37_79b9).wrapping_add(region.strides[d] as u64);
    }
    key = key.wrapping_mul(0x9e37_79b9).wrapping_add(region.pointer);
    (key ^ key >> 29) as u32
}
