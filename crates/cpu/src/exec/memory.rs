//! Loads, each checked against its object.

use super::gather::{eight_halves, four_words, two_words};
use super::mask::Mask;
use super::objects::{Object, split};
use super::{Outcome, Value, Worker, raise, read, write};
use crate::compile::program::{Access, Reg};
use crate::fault::{AccessKind, FaultKind};
use crate::lanes::{CHUNK, gather};

/// Lanes that an access is for: all live ones, or those with a non-zero byte.
#[derive(Clone, Copy)]
pub(super) enum Active {
    All,
    Bytes(*const u8),
    None,
}

impl Active {
    #[inline(always)]
    pub(super) fn has(self, lane: usize) -> bool {
        match self {
            Active::All => true,
            // SAFETY: masks have a byte for each lane.
            Active::Bytes(bytes) => unsafe { *bytes.add(lane) != 0 },
            Active::None => false,
        }
    }
}

/// Copies elements that lie `stride` bytes apart into consecutive ones.
///
/// # Safety
/// All `count` elements must be readable, and `out` writable.
pub(super) unsafe fn gather_strided(out: *mut u8, from: *const u8, stride: isize, count: usize, size: u8) {
    macro_rules! copy {
        ($t:ty) => {{
            let out = out.cast::<$t>();
            for i in 0..count {
                // SAFETY: by the function's contract.
                unsafe {
                    *out.add(i) = from.offset(i as isize * stride).cast::<$t>().read_unaligned();
                }
            }
        }};
    }
    match size {
        1 => copy!(u8),
        2 => copy!(u16),
        4 => copy!(u32),
        _ => copy!(u64),
    }
}

/// Copies consecutive elements to places that lie `stride` bytes apart.
///
/// # Safety
/// All `count` elements must be readable, and their places writable.
pub(super) unsafe fn scatter_strided(to: *mut u8, from: *const u8, stride: isize, count: usize, size: u8) {
    macro_rules! copy {
        ($t:ty) => {{
            let from = from.cast::<$t>();
            for i in 0..count {
                // SAFETY: by the function's contract.
                unsafe {
                    to.offset(i as isize * stride)
                        .cast::<$t>()
                        .write_unaligned(*from.add(i));
                }
            }
        }};
    }
    match size {
        1 => copy!(u8),
        2 => copy!(u16),
        4 => copy!(u32),
        _ => copy!(u64),
    }
}

impl<'d> Worker<'d> {
    pub(super) fn active(&mut self, predicate: Option<Reg>) -> Active {
        let current = self.lanes.current;
        let Some(predicate) = predicate else {
            return match current {
                Mask::Part(slot) => Active::Bytes(self.mask_ptr(slot)),
                Mask::All => Active::All,
                Mask::None => Active::None,
            };
        };
        if predicate.is_uniform() {
            return if self.uniform_value(predicate) == 0 {
                Active::None
            } else {
                self.active(None)
            };
        }
        let condition = self.ptr(predicate);
        let out = self.temporary;
        let live = self.lanes.live;
        let (mut any, mut all) = (0u8, 1u8);
        for lane in 0..live {
            // SAFETY: the temporary mask, the predicate and masks have a byte for each lane.
            unsafe {
                let mut byte = *condition.add(lane);
                if let Mask::Part(slot) = current {
                    byte &= *self.mask_ptr(slot).add(lane);
                }
                *out.add(lane) = byte;
                any |= byte;
                all &= byte;
            }
        }
        if any == 0 {
            Active::None
        } else if all != 0 {
            Active::All
        } else {
            Active::Bytes(out)
        }
    }

    pub(super) fn first_of(&self, active: Active) -> usize {
        (0..self.lanes.live).find(|&lane| active.has(lane)).unwrap_or(0)
    }

    pub(super) fn count(&self, active: Active) -> u64 {
        match active {
            Active::All => self.lanes.live as u64,
            Active::None => 0,
            Active::Bytes(_) => (0..self.lanes.live).filter(|&lane| active.has(lane)).count() as u64,
        }
    }

    #[inline(always)]
    pub(super) fn note(&mut self, pointer: u64, bytes: u64, write: bool) {
        if self.traffic.is_some() {
            self.note_slow(pointer, bytes, write);
        }
    }

    /// Counts a load of `bytes` by each active lane.
    #[inline(always)]
    pub(super) fn noted(&mut self, pointer: u64, bytes: u64) {
        if self.traffic.is_some() {
            let lanes = match self.lanes.current {
                Mask::Part(slot) => self.count(Active::Bytes(self.mask_ptr(slot))),
                _ => self.lanes.live as u64,
            };
            self.note_slow(pointer, lanes * bytes, false);
        }
    }

    #[cold]
    fn note_slow(&mut self, pointer: u64, bytes: u64, write: bool) {
        let Some(object) = self.object(split(pointer).0) else {
            return;
        };
        if object.lane_unit != 0 {
            return;
        }
        if let Some(traffic) = &mut self.traffic {
            let counter = match (object.threadgroup, write) {
                (false, false) => &mut traffic.device_read,
                (false, true) => &mut traffic.device_written,
                (true, false) => &mut traffic.threadgroup_read,
                (true, true) => &mut traffic.threadgroup_written,
            };
            *counter += bytes;
        }
    }

    pub(super) fn misaligned(&mut self, pointer: u64, align: u32, access: AccessKind) -> FaultKind {
        let (number, offset) = split(pointer);
        FaultKind::Misaligned {
            access,
            object: self.shared.name(number).name,
            offset,
            align,
        }
    }

    /// Checks one shared address.
    #[inline(always)]
    pub(super) fn checked(
        &mut self,
        pointer: u64,
        bytes: u64,
        align: u32,
        access: AccessKind,
        lane: usize,
    ) -> Outcome<*mut u8> {
        match self.address(pointer, bytes, access != AccessKind::Read) {
            Some(address) => {
                if align > 1 && !split(pointer).1.unsigned_abs().is_multiple_of(u64::from(align)) {
                    let kind = self.misaligned(pointer, align, access);
                    return raise(kind, lane);
                }
                Ok(address)
            }
            None => {
                let kind = self.refusal(pointer, bytes, access);
                raise(kind, lane)
            }
        }
    }

    /// Whether stores to an object go past the caches.
    pub(super) fn streams(&mut self, pointer: u64) -> bool {
        self.object(split(pointer).0).is_some_and(|object| object.streams)
    }

    /// Whether a pointer leads to memory outside of the threadgroup.
    pub(super) fn is_device(&mut self, pointer: u64) -> bool {
        self.object(split(pointer).0)
            .is_some_and(|object| !object.threadgroup && object.lane_unit == 0)
    }

    /// Asks for the memory after a span that lanes have read all of: what a kernel reads in one go it mostly reads on from.
    #[inline(always)]
    pub(super) fn ask_for_next(&mut self, pointer: u64, from: *const u8, stride: isize, span: u64) {
        if stride > 0 && self.reads_on(pointer, span) > 0 {
            super::stream::prefetch(from.wrapping_add(span as usize), span as usize);
        }
    }

    /// How far after a span the memory lies that is worth asking for, which is the span's length, or 0 if none is.
    #[inline(always)]
    pub(super) fn reads_on(&mut self, pointer: u64, span: u64) -> usize {
        const LEAST: u64 = 512;
        const MOST: u64 = 8192;
        match (LEAST..=MOST).contains(&span) && self.is_device(pointer) {
            true => span as usize,
            false => 0,
        }
    }

    /// A lane of an object of which each lane has its own: in a map, that of the lane which outside values come from.
    pub(super) fn own_lane(&self, lane: usize) -> usize {
        self.map.map_or(lane, |map| map.lane)
    }

    /// The place of a byte of a lane's own memory.
    pub(super) fn own_byte(&self, object: &Object, offset: u64, lane: usize) -> *mut u8 {
        let unit = u64::from(object.lane_unit);
        let cap = match self.map {
            Some(_) => self.idle.cap,
            None => self.lanes.cap,
        } as u64;
        let at = (offset / unit * cap + lane as u64) * unit + offset % unit;
        // SAFETY: the caller checked the offset against the object's length, and each of `cap` lanes has that many bytes.
        unsafe { object.ptr.add(at as usize) }
    }

    /// One element of a lane's own memory.
    pub(super) fn own_read(&self, object: &Object, offset: u64, lane: usize, size: u8) -> u64 {
        let mut value = 0;
        for i in 0..u64::from(size) {
            // SAFETY: as in `own_byte`.
            let byte = unsafe { *self.own_byte(object, offset + i, lane) };
            value |= u64::from(byte) << (8 * i);
        }
        value
    }

    pub(super) fn own_write(&self, object: &Object, offset: u64, lane: usize, size: u8, value: u64) {
        for i in 0..u64::from(size) {
            // SAFETY: as in `own_byte`.
            unsafe { *self.own_byte(object, offset + i, lane) = (value >> (8 * i)) as u8 };
        }
    }

    /// Checks an access to a lane's own memory.
    pub(super) fn own_check(
        &mut self,
        object: &Object,
        pointer: u64,
        bytes: u64,
        access: AccessKind,
        lane: usize,
    ) -> Outcome<u64> {
        let (_, offset) = split(pointer);
        if offset < 0 || offset as u64 + bytes > object.length {
            let kind = self.refusal(pointer, bytes, access);
            return raise(kind, lane);
        }
        Ok(offset as u64)
    }

    /// A load.
    pub(super) fn load(&mut self, access: &'d Access) -> Outcome {
        let active = self.active(access.predicate);
        if let Active::None = active {
            for &out in &access.values {
                self.set_all(out, 0);
            }
            return Ok(());
        }
        let size = access.size;
        let bytes = u64::from(size) * access.values.len() as u64;
        match self.value(access.pointer) {
            Value::Uniform(pointer)
            | Value::Affine {
                base: pointer,
                stride: 0,
            } => self.load_uniform(access, pointer, bytes, active)?,
            Value::Affine { base, stride } => {
                let stride = stride as i64;
                let last = stride * (self.lanes.live as i64 - 1);
                let low = base.wrapping_add(last.min(0) as u64);
                let span = last.unsigned_abs() + bytes;
                let aligned = access.align <= 1 || (base | stride as u64).is_multiple_of(u64::from(access.align));
                match self.address(low, span, false) {
                    Some(_) if aligned => {
                        if self.traffic.is_some() {
                            let lanes = self.count(active);
                            self.note(base, lanes * bytes, false);
                        }
                        // SAFETY: the whole span is inside the object.
                        let from = unsafe {
                            self.address(low, span, false)
                                .unwrap_or(std::ptr::null_mut())
                                .offset(-(last.min(0) as isize))
                        };
                        let live = self.lanes.live;
                        // SAFETY: as above.
                        let done = if stride == i64::from(size) {
                            0
                        } else if unsafe { self.load_words(access, from, stride as isize) } {
                            access.values.len()
                        } else {
                            // SAFETY: as above.
                            unsafe {
                                self.load_joined(access, 0, live, |lane| from.offset(lane as isize * stride as isize))
                            }
                        };
                        if stride.unsigned_abs() == bytes {
                            self.ask_for_next(base, from, stride as isize, span);
                        }
                        for (k, &out) in access.values.iter().enumerate().skip(done) {
                            let (_, to) = self.dst(out);
                            // SAFETY: as above; the register has room for all lanes.
                            unsafe {
                                let from = from.add(k * size as usize);
                                if stride == i64::from(size) {
                                    std::ptr::copy_nonoverlapping(from, to, live * size as usize);
                                } else {
                                    gather_strided(to, from, stride as isize, live, size);
                                }
                            }
                        }
                    }
                    _ => self.load_lanes(access, bytes, active)?,
                }
            }
            Value::Plane(plane) => {
                if self.load_plane(access, plane) {
                    let lanes = self.count(active);
                    self.note(plane.base, lanes * bytes, false);
                } else {
                    self.load_lanes(access, bytes, active)?;
                }
            }
            Value::Lanes => {
                if self.load_matrix(access) {
                    let lanes = self.count(active);
                    let pointer = self.lane_value(access.pointer, 0);
                    self.note(pointer, lanes * bytes, false);
                } else {
                    self.load_lanes(access, bytes, active)?;
                }
            }
        }
        if let (Some(predicate), Active::Bytes(mask)) = (access.predicate, active)
            && !predicate.is_uniform()
        {
            for &out in &access.values {
                let to = self.ptr(out);
                for lane in 0..self.lanes.live {
                    // SAFETY: the register and the mask have room for all lanes.
                    unsafe {
                        if *mask.add(lane) == 0 {
                            write(to.add(lane * size as usize), size, 0);
                        }
                    }
                }
            }
        }
        if access.boolean {
            for &out in &access.values {
                let count = if out.is_uniform() {
                    CHUNK
                } else {
                    self.lanes.chunks * CHUNK
                };
                // SAFETY: the register has `count` bytes.
                let bytes = unsafe { std::slice::from_raw_parts_mut(self.ptr(out), count) };
                bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            }
        }
        Ok(())
    }

    /// A load through one pointer.
    fn load_uniform(&mut self, access: &Access, pointer: u64, bytes: u64, active: Active) -> Outcome {
        let size = access.size;
        let first = self.first_of(active);
        let (number, _) = split(pointer);
        let object = self.object(number);
        if let Some(object) = object
            && object.lane_unit != 0
        {
            let offset = self.own_check(&object, pointer, bytes, AccessKind::Read, first)?;
            for (k, &out) in access.values.iter().enumerate() {
                let at = offset + k as u64 * u64::from(size);
                if out.is_uniform() {
                    let value = self.own_read(&object, at, self.own_lane(0), size);
                    self.set_all(out, value);
                    continue;
                }
                let (_, to) = self.dst(out);
                let live = self.lanes.live;
                if self.map.is_none() && u32::from(size) == object.lane_unit && at.is_multiple_of(u64::from(size)) {
                    // SAFETY: a unit of all lanes is consecutive.
                    unsafe {
                        std::ptr::copy_nonoverlapping(self.own_byte(&object, at, 0), to, live * size as usize);
                    }
                } else {
                    for lane in 0..live {
                        let value = self.own_read(&object, at, self.own_lane(lane), size);
                        // SAFETY: the register has room for all lanes.
                        unsafe { write(to.add(lane * size as usize), size, value) };
                    }
                }
            }
            return Ok(());
        }
        let address = self.checked(pointer, bytes, access.align, AccessKind::Read, first)?;
        self.note(pointer, bytes, false);
        for (k, &out) in access.values.iter().enumerate() {
            // SAFETY: the access was checked.
            let value = unsafe { read(address.add(k * size as usize), size) };
            self.set_all(out, value);
        }
        Ok(())
    }

    /// If all lanes point into one shared object and inside it: the address of offset 0.
    pub(super) fn one_object(
        &mut self,
        pointers: *const u64,
        access: &Access,
        bytes: u64,
        write: bool,
    ) -> Option<*mut u8> {
        self.one_span(pointers, access, bytes, write).map(|(start, _)| start)
    }

    /// [`Self::one_object`], and the offsets of the first and last byte of the lanes' accesses.
    pub(super) fn one_span(
        &mut self,
        pointers: *const u64,
        access: &Access,
        bytes: u64,
        write: bool,
    ) -> Option<(*mut u8, [u64; 2])> {
        const LOW: u64 = (1 << 48) - 1;
        // SAFETY: the register holds a pointer for each lane; the instruction set was detected.
        let (low, high, bits) = unsafe { gather::bounds(self.shared.isa)(pointers, self.lanes.live) };
        if low >> 48 != high >> 48 || (access.align > 1 && !bits.is_multiple_of(u64::from(access.align))) {
            return None;
        }
        self.address(high, bytes, write)?;
        // A negative offset of the lowest has a high bit that makes it the highest, which was refused.
        self.address(low, bytes, write)?;
        let object = self.object((low >> 48) as usize)?;
        Some((object.ptr, [low & LOW, (high & LOW) + bytes - 1]))
    }

    /// Loads four or more words of each lane, a fixed distance apart; false, and nothing done, where there is no loop for it.
    ///
    /// # Safety
    /// All values of all live lanes must be readable.
    unsafe fn load_words(&mut self, access: &Access, from: *const u8, stride: isize) -> bool {
        const MOST: usize = 16;
        let values = &access.values;
        if access.size != 4 || !(4..=MOST).contains(&values.len()) {
            return false;
        }
        let Some(move_words) = gather::strided_words(self.shared.isa) else {
            return false;
        };
        let mut to = [std::ptr::null_mut::<u32>(); MOST];
        for (to, &value) in to.iter_mut().zip(values) {
            *to = self.dst(value).1.cast();
        }
        let (live, to) = (self.lanes.live, &to[..values.len()]);
        // SAFETY: by the function's contract; registers have room for all lanes.
        unsafe {
            for lane in move_words(to, live, from, stride)..live {
                let from = from.offset(lane as isize * stride).cast::<u32>();
                for (k, to) in to.iter().enumerate() {
                    to.add(lane).write(from.add(k).read_unaligned());
                }
            }
        }
        true
    }

    /// Loads the values of an access that go sixteen or eight bytes at a time, for `count` lanes from `first_lane` on, and says how many these are.
    ///
    /// # Safety
    /// All values must be readable at `from(lane)` for each of the lanes, counted from `first_lane`.
    pub(super) unsafe fn load_joined(
        &mut self,
        access: &Access,
        first_lane: usize,
        count: usize,
        from: impl Fn(usize) -> *const u8,
    ) -> usize {
        let together = match access.size {
            2 => 8,
            4 => 4,
            _ => return 0,
        };
        let groups = access.values.len() / together;
        for group in 0..groups {
            let first = group * together;
            let from = |lane| {
                // SAFETY: by the function's contract.
                unsafe { from(lane).add(16 * group) }
            };
            // SAFETY: by the function's contract; registers have room for all lanes.
            unsafe {
                if together == 8 {
                    let to = |k| self.dst(access.values[first + k]).1.cast::<u16>().add(first_lane);
                    eight_halves(std::array::from_fn(to), count, from);
                } else {
                    let to = |k| self.dst(access.values[first + k]).1.cast::<u32>().add(first_lane);
                    four_words(std::array::from_fn(to), count, from);
                }
            }
        }
        let done = groups * together;
        if access.size == 4 && access.values.len() - done >= 2 {
            // SAFETY: as above.
            unsafe {
                let to = |k| self.dst(access.values[done + k]).1.cast::<u32>().add(first_lane);
                two_words(std::array::from_fn(to), count, |lane| from(lane).add(4 * done));
            }
            return done + 2;
        }
        done
    }

    /// A load with a pointer for each lane.
    fn load_lanes(&mut self, access: &Access, bytes: u64, active: Active) -> Outcome {
        const LOW: u64 = (1 << 48) - 1;
        let size = access.size;
        let pointers = self.src(access.pointer).ptr.cast::<u64>();
        let live = self.lanes.live;
        // What lanes that are off would load does no harm, if it is there.
        if let Some(start) = self.one_object(pointers, access, bytes, false) {
            if self.traffic.is_some() {
                // SAFETY: there is a pointer for each lane.
                let pointer = unsafe { *pointers };
                let lanes = self.count(active);
                self.note(pointer, lanes * bytes, false);
            }
            // SAFETY: every lane's access is inside the object, and there is a pointer for each lane.
            let done =
                unsafe { self.load_joined(access, 0, live, |lane| start.add((*pointers.add(lane) & LOW) as usize)) };
            for (k, &out) in access.values.iter().enumerate().skip(done) {
                let (_, to) = self.dst(out);
                // SAFETY: every lane's access is inside the object; the register has room for all lanes.
                unsafe {
                    let start = start.add(k * size as usize);
                    gather::gather(size, self.shared.isa)(to, start, pointers, live);
                }
            }
            return Ok(());
        }
        for lane in 0..live {
            if !active.has(lane) {
                continue;
            }
            // SAFETY: there is a pointer for each lane.
            let pointer = unsafe { *pointers.add(lane) };
            let object = self.object(split(pointer).0);
            if let Some(object) = object
                && object.lane_unit != 0
            {
                let offset = self.own_check(&object, pointer, bytes, AccessKind::Read, lane)?;
                for (k, &out) in access.values.iter().enumerate() {
                    let at = offset + k as u64 * u64::from(size);
                    let value = self.own_read(&object, at, self.own_lane(lane), size);
                    // SAFETY: the register has room for all lanes.
                    unsafe { write(self.ptr(out).add(lane * size as usize), size, value) };
                }
                continue;
            }
            let address = self.checked(pointer, bytes, access.align, AccessKind::Read, lane)?;
            self.note(pointer, bytes, false);
            for (k, &out) in access.values.iter().enumerate() {
                // SAFETY: the access was checked; the register has room for all lanes.
                unsafe {
                    let value = read(address.add(k * size as usize), size);
                    write(self.ptr(out).add(lane * size as usize), size, value);
                }
            }
        }
        for &out in &access.values {
            self.dst(out);
        }
        Ok(())
    }
}
