//! Stores, each checked against its object.

use super::gather::store_neighbours;
use super::memory::{Active, scatter_strided};
use super::objects::split;
use super::{Outcome, Value, Worker, read, splat, write};
use crate::compile::program::{Access, Reg};
use crate::fault::AccessKind;
use crate::lanes::{Src, gather};

impl<'d> Worker<'d> {
    /// A store.
    pub(super) fn store(&mut self, access: &'d Access) -> Outcome {
        let active = self.active(access.predicate);
        if let Active::None = active {
            return Ok(());
        }
        let size = access.size;
        let bytes = u64::from(size) * access.values.len() as u64;
        let live = self.lanes.live;
        match self.value(access.pointer) {
            Value::Uniform(pointer)
            | Value::Affine {
                base: pointer,
                stride: 0,
            } => self.store_uniform(access, pointer, bytes, active),
            Value::Affine { base, stride } if matches!(active, Active::All) => {
                let stride = stride as i64;
                let last = stride * (live as i64 - 1);
                let low = base.wrapping_add(last.min(0) as u64);
                let span = last.unsigned_abs() + bytes;
                let aligned = access.align <= 1 || (base | stride as u64).is_multiple_of(u64::from(access.align));
                // Overlapping elements need the order of lanes.
                let apart = stride.unsigned_abs() >= bytes;
                match self.address(low, span, true) {
                    Some(start) if aligned && apart => {
                        self.note(base, live as u64 * bytes, true);
                        let streams = self.streams(base);
                        // SAFETY: the whole span is inside the object.
                        let to = unsafe { start.offset(-(last.min(0) as isize)) };
                        let lane = |lane: usize| to.wrapping_offset(lane as isize * stride as isize);
                        // SAFETY: as above; registers hold all lanes.
                        if stride != i64::from(size) && unsafe { self.store_joined(access, 0, live, lane) } {
                            return Ok(());
                        }
                        for (k, &value) in access.values.iter().enumerate() {
                            let from = self.src(value);
                            // SAFETY: as above; the register holds all lanes, or one chunk if its step is 0.
                            unsafe {
                                let to = to.add(k * size as usize);
                                if from.step == 0 {
                                    let value = read(from.ptr, size);
                                    if stride == i64::from(size) && (to as usize).is_multiple_of(size as usize) {
                                        splat(to, size, live, value);
                                    } else {
                                        for lane in 0..live {
                                            let to = to.offset(lane as isize * stride as isize);
                                            write(to, size, value);
                                        }
                                    }
                                } else if stride == i64::from(size) {
                                    super::stream::copy(to, from.ptr, live * size as usize, streams);
                                } else {
                                    scatter_strided(to, from.ptr, stride as isize, live, size);
                                }
                            }
                        }
                        Ok(())
                    }
                    _ => self.store_lanes(access, bytes, active),
                }
            }
            Value::Plane(plane) if matches!(active, Active::All) && self.store_plane(access, plane) => {
                self.note(plane.base, live as u64 * bytes, true);
                Ok(())
            }
            _ => self.store_lanes(access, bytes, active),
        }
    }

    /// A store through one pointer: the last lane wins, or each writes memory of its own.
    fn store_uniform(&mut self, access: &Access, pointer: u64, bytes: u64, active: Active) -> Outcome {
        let size = access.size;
        let first = self.first_of(active);
        let live = self.lanes.live;
        let object = self.object(split(pointer).0);
        if let Some(object) = object
            && object.lane_unit != 0
        {
            let offset = self.own_check(&object, pointer, bytes, AccessKind::Write, first)?;
            for (k, &value) in access.values.iter().enumerate() {
                let at = offset + k as u64 * u64::from(size);
                let from = self.src(value);
                let simple =
                    self.map.is_none() && u32::from(size) == object.lane_unit && at.is_multiple_of(u64::from(size));
                if simple && matches!(active, Active::All) {
                    // SAFETY: a unit of all lanes is consecutive.
                    unsafe {
                        let to = self.own_byte(&object, at, 0);
                        if from.step == 0 {
                            splat(to, size, live, read(from.ptr, size));
                        } else {
                            std::ptr::copy_nonoverlapping(from.ptr, to, live * size as usize);
                        }
                    }
                    continue;
                }
                for lane in 0..live {
                    if active.has(lane) {
                        let value = self.lane_value(value, lane);
                        self.own_write(&object, at, self.own_lane(lane), size, value);
                    }
                }
            }
            return Ok(());
        }
        let address = self.checked(pointer, bytes, access.align, AccessKind::Write, first)?;
        self.note(pointer, bytes, true);
        let last = (0..live).rev().find(|&lane| active.has(lane)).unwrap_or(first);
        for (k, &value) in access.values.iter().enumerate() {
            let value = self.lane_value(value, last);
            // SAFETY: the access was checked.
            unsafe { write(address.add(k * size as usize), size, value) };
        }
        Ok(())
    }

    /// A store with a pointer for each lane, in the order of lanes.
    fn store_lanes(&mut self, access: &Access, bytes: u64, active: Active) -> Outcome {
        const LOW: u64 = (1 << 48) - 1;
        if let Active::Bytes(mask) = active {
            return self.store_some(access, bytes, mask);
        }
        let size = access.size;
        let pointers = self.src(access.pointer).ptr.cast::<u64>();
        let live = self.lanes.live;
        for &value in &access.values {
            self.src(value);
        }
        if let Active::All = active
            && let Some(start) = self.one_object(pointers, access, bytes, true)
        {
            // SAFETY: there is a pointer for each lane, and every lane's access is inside the object.
            let joined =
                unsafe { self.store_joined(access, 0, live, |lane| start.add((*pointers.add(lane) & LOW) as usize)) };
            let single = access.values.len() == 1;
            if self.traffic.is_some() && (joined || single) {
                // SAFETY: as above.
                let pointer = unsafe { *pointers };
                self.note(pointer, live as u64 * bytes, true);
            }
            if joined {
                return Ok(());
            }
            let [value] = access.values[..] else {
                return (0..live).try_for_each(|lane| self.store_lane(access, bytes, lane));
            };
            let from = self.src(value);
            if from.step != 0 {
                // SAFETY: every lane's access is inside the object; the register holds all lanes.
                unsafe { gather::scatter(size, self.shared.isa)(from.ptr.cast_mut(), start, pointers, live) };
                return Ok(());
            }
            for lane in 0..live {
                // SAFETY: as above; the register holds at least one element.
                unsafe {
                    let offset = (*pointers.add(lane) & LOW) as usize;
                    write(start.add(offset), size, read(from.ptr, size));
                }
            }
            return Ok(());
        }
        (0..live).try_for_each(|lane| self.store_lane(access, bytes, lane))
    }

    /// Stores several values of each of `count` lanes from `first_lane` on, lane after lane. False, and nothing done, where there is one value,
    /// or more than go together.
    ///
    /// # Safety
    /// All values must be writable at `to(lane)` for each of the lanes, counted from `first_lane`.
    pub(super) unsafe fn store_joined(
        &mut self,
        access: &Access,
        first_lane: usize,
        count: usize,
        to: impl Fn(usize) -> *mut u8,
    ) -> bool {
        const MOST: usize = 16;
        let values = &access.values;
        if !(2..=MOST).contains(&values.len()) {
            return false;
        }
        let mut from = [Src {
            ptr: std::ptr::null(),
            step: 0,
        }; MOST];
        for (from, &value) in from.iter_mut().zip(values) {
            *from = self.src(value);
        }
        let (from, size) = (&from[..values.len()], access.size as usize);
        // SAFETY: by the function's contract; registers hold all lanes, or one chunk if their step is 0.
        unsafe { store_neighbours(from, size, first_lane..first_lane + count, |lane| to(lane - first_lane)) }
    }

    /// A store of the lanes with a byte that is not zero.
    fn store_some(&mut self, access: &Access, bytes: u64, mask: *const u8) -> Outcome {
        const EIGHT: usize = 8;
        let live = self.lanes.live;
        for first in (0..live).step_by(EIGHT) {
            // SAFETY: masks have a byte for each lane that registers have room for, a multiple of 32.
            let some = unsafe { mask.add(first).cast::<u64>().read_unaligned() };
            if some == 0 {
                continue;
            }
            for lane in first..live.min(first + EIGHT) {
                if some >> (8 * (lane - first)) & 0xff != 0 {
                    self.store_lane(access, bytes, lane)?;
                }
            }
        }
        Ok(())
    }

    /// A store of one lane.
    fn store_lane(&mut self, access: &Access, bytes: u64, lane: usize) -> Outcome {
        let size = access.size;
        let pointer = self.lane_value(access.pointer, lane);
        let object = self.object(split(pointer).0);
        if let Some(object) = object
            && object.lane_unit != 0
        {
            let offset = self.own_check(&object, pointer, bytes, AccessKind::Write, lane)?;
            for (k, &value) in access.values.iter().enumerate() {
                let at = offset + k as u64 * u64::from(size);
                let value = self.lane_value(value, lane);
                self.own_write(&object, at, self.own_lane(lane), size, value);
            }
            return Ok(());
        }
        let address = self.checked(pointer, bytes, access.align, AccessKind::Write, lane)?;
        self.note(pointer, bytes, true);
        for (k, &value) in access.values.iter().enumerate() {
            let value = self.lane_value(value, lane);
            // SAFETY: the access was checked.
            unsafe { write(address.add(k * size as usize), size, value) };
        }
        Ok(())
    }

    /// Merges a few bits into bytes, lane after lane, so that lanes may share a byte.
    pub(super) fn store_bits(
        &mut self,
        pointer: Reg,
        bit: Reg,
        value: Reg,
        bits: u8,
        predicate: Option<Reg>,
    ) -> Outcome {
        let active = self.active(predicate);
        let mask = ((1u16 << bits) - 1) as u8;
        for lane in 0..self.lanes.live {
            if !active.has(lane) {
                continue;
            }
            let bit = self.lane_value(bit, lane) as i64;
            let base = self.lane_value(pointer, lane);
            let pointer = crate::lanes::convert::offset_pointer(base, (bit >> 3) as u64);
            let shift = (bit & 7) as u32;
            let code = (self.lane_value(value, lane) as u8 & mask) << shift;
            let object = self.object(split(pointer).0);
            if let Some(object) = object
                && object.lane_unit != 0
            {
                let offset = self.own_check(&object, pointer, 1, AccessKind::Write, lane)?;
                let lane = self.own_lane(lane);
                let old = self.own_read(&object, offset, lane, 1) as u8;
                let new = old & !(mask << shift) | code;
                self.own_write(&object, offset, lane, 1, u64::from(new));
                continue;
            }
            let address = self.checked(pointer, 1, 1, AccessKind::Write, lane)?;
            self.note(pointer, 1, true);
            // SAFETY: the access was checked.
            unsafe { *address = *address & !(mask << shift) | code };
        }
        Ok(())
    }
}
