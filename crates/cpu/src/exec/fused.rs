//! Instructions that are two in one ([`crate::compile`]'s `fuse`).

use anymetal_ir::LocationId;

use super::mask::Mask;
use super::memory::Active;
use super::{Outcome, Value, Worker};
use crate::compile::program::{Access, Copy, Inst, Operation, Reg, SetLocal};
use crate::lanes::{CHUNK, Src};

/// Addresses of lanes.
#[derive(Clone, Copy)]
enum Lanes {
    /// The first, and the bytes to the next.
    Line(*mut u8, isize),
    /// Offset 0 of an object, and a pointer into it for each lane.
    Each(*mut u8, *const u64),
}

impl Lanes {
    /// # Safety
    /// The lane must have a pointer.
    #[inline(always)]
    unsafe fn of(self, lane: usize) -> *mut u8 {
        const LOW: u64 = (1 << 48) - 1;
        match self {
            Lanes::Line(first, step) => first.wrapping_offset(lane as isize * step),
            // SAFETY: by the function's contract.
            Lanes::Each(start, pointers) => start.wrapping_add(unsafe { *pointers.add(lane) & LOW } as usize),
        }
    }
}

/// What all lanes access, and its first and last byte.
struct Places {
    lanes: Lanes,
    first: usize,
    last: usize,
}

impl Copy {
    /// Of a lane.
    fn bytes(&self) -> usize {
        usize::from(self.load.size) * self.load.values.len()
    }
}

/// Copies `BYTES` of each lane.
///
/// # Safety
/// They must be readable and writable, and apart.
unsafe fn copy_each<const BYTES: usize>(from: Lanes, to: Lanes, live: usize) {
    for lane in 0..live {
        // SAFETY: by the function's contract.
        unsafe { std::ptr::copy_nonoverlapping(from.of(lane), to.of(lane), BYTES) };
    }
}

impl<'d> Worker<'d> {
    /// An instruction inside of another.
    #[inline(never)]
    fn inner(&mut self, inst: &'d Inst) -> Outcome {
        self.step(inst)
    }

    /// Sets locals to what an instruction gives: in their registers where all lanes take part, else by merging.
    pub(super) fn set_local(&mut self, direct: &'d Inst, apart: &'d Inst, sets: &'d [SetLocal]) -> Outcome {
        match self.lanes.current {
            Mask::Part(slot) => {
                self.inner(apart)?;
                for set in sets {
                    self.merge(set.blend, set.local, set.value, slot);
                }
                Ok(())
            }
            _ => self.inner(direct),
        }
    }

    /// Stores what each lane loads for that alone: straight from memory to memory where all lanes take part and none stores where another
    /// loads.
    pub(super) fn copy_lanes(&mut self, copies: &'d [Copy]) -> Outcome {
        const MOST: usize = 8;
        let places = match (self.active(None), copies.len()) {
            (Active::All, ..=MOST) => self.places_apart::<MOST>(copies),
            _ => None,
        };
        let Some(places) = places else {
            for copy in copies {
                if let Err(mut raised) = self.load(&copy.load) {
                    raised.location = copy.location;
                    return Err(raised);
                }
            }
            return copies.iter().try_for_each(|copy| self.store(&copy.store));
        };
        let live = self.lanes.live;
        for (copy, (from, to)) in copies.iter().zip(places.into_iter().flatten()) {
            let bytes = copy.bytes();
            if self.traffic.is_some() {
                let (from, to) = (
                    self.lane_value(copy.load.pointer, 0),
                    self.lane_value(copy.store.pointer, 0),
                );
                self.note(from, (live * bytes) as u64, false);
                self.note(to, (live * bytes) as u64, true);
            }
            // SAFETY: both spans were checked for all lanes, and are apart.
            unsafe {
                match (from, to) {
                    (Lanes::Line(from, step), Lanes::Line(to, other)) if step == other && step == bytes as isize => {
                        std::ptr::copy_nonoverlapping(from, to, live * bytes);
                    }
                    _ => match bytes {
                        // Lengths that are known are moved without a call.
                        8 => copy_each::<8>(from, to, live),
                        16 => copy_each::<16>(from, to, live),
                        32 => copy_each::<32>(from, to, live),
                        _ => (0..live).for_each(|lane| {
                            std::ptr::copy_nonoverlapping(from.of(lane), to.of(lane), bytes);
                        }),
                    },
                }
            }
        }
        Ok(())
    }

    /// Where copies load and store, if no store touches what any of them loads.
    fn places_apart<const MOST: usize>(&mut self, copies: &[Copy]) -> Option<[Option<(Lanes, Lanes)>; MOST]> {
        let mut places = [None; MOST];
        let mut spans = [[0usize; 4]; MOST];
        for (i, copy) in copies.iter().enumerate() {
            let from = self.lane_places(&copy.load, copy.bytes(), false)?;
            let to = self.lane_places(&copy.store, copy.bytes(), true)?;
            places[i] = Some((from.lanes, to.lanes));
            spans[i] = [from.first, from.last, to.first, to.last];
        }
        let spans = &spans[..copies.len()];
        let apart = spans
            .iter()
            .all(|from| spans.iter().all(|to| from[1] < to[2] || to[3] < from[0]));
        apart.then_some(places)
    }

    /// Where all lanes' accesses lie, if that is in one shared object; `None` for one address for all.
    fn lane_places(&mut self, access: &Access, bytes: usize, write: bool) -> Option<Places> {
        match self.value(access.pointer) {
            Value::Uniform(_) | Value::Affine { stride: 0, .. } => None,
            Value::Affine { base, stride } => {
                let step = stride as i64;
                if access.align > 1 && !(base | stride).is_multiple_of(u64::from(access.align)) {
                    return None;
                }
                let far = step.checked_mul(self.lanes.live as i64 - 1)?;
                let low = base.wrapping_add(far.min(0) as u64);
                let span = far.unsigned_abs() + bytes as u64;
                let start = self.address(low, span, write)?;
                let first = start.wrapping_offset(-(far.min(0) as isize));
                Some(Places {
                    lanes: Lanes::Line(first, step as isize),
                    first: start as usize,
                    last: start as usize + span as usize - 1,
                })
            }
            Value::Plane(_) | Value::Lanes => {
                let pointers = self.src(access.pointer).ptr.cast::<u64>();
                let (start, [first, last]) = self.one_span(pointers, access, bytes as u64, write)?;
                Some(Places {
                    lanes: Lanes::Each(start, pointers),
                    first: start as usize + first as usize,
                    last: start as usize + last as usize,
                })
            }
        }
    }

    /// An operation on what is loaded for it alone.
    pub(super) fn of_memory(
        &mut self,
        access: &'d Access,
        location: LocationId,
        operation: Operation,
        out: Reg,
        operands: &[Reg; 3],
    ) -> Outcome {
        let Some(&value) = access.values.first() else {
            return Ok(());
        };
        let memory = match self.in_place(access) {
            Some(memory) => memory,
            None => {
                if let Err(mut raised) = self.load(access) {
                    raised.location = location;
                    return Err(raised);
                }
                self.src(value)
            }
        };
        let mut source = |reg: Reg| if reg == value { memory } else { self.src(reg) };
        // SAFETY: the compiler chose the loop for the registers' types; sources have all chunks.
        unsafe {
            match operation {
                Operation::One(f) => {
                    let a = source(operands[0]);
                    let (chunks, out) = self.dst(out);
                    f(chunks, out, a);
                }
                Operation::Two(f) => {
                    let (a, b) = (source(operands[0]), source(operands[1]));
                    let (chunks, out) = self.dst(out);
                    f(chunks, out, a, b);
                }
                Operation::Three(f) => {
                    let (a, b, c) = (source(operands[0]), source(operands[1]), source(operands[2]));
                    let (chunks, out) = self.dst(out);
                    f(chunks, out, a, b, c);
                }
            }
        }
        Ok(())
    }

    /// The memory of a load as a source, if it has the elements of whole chunks one after another.
    #[inline(always)]
    fn in_place(&mut self, access: &Access) -> Option<Src> {
        let Value::Affine { base, stride } = self.value(access.pointer) else {
            return None;
        };
        let size = u64::from(access.size);
        if stride != size || access.align > u32::from(access.size) {
            return None;
        }
        let step = CHUNK * access.size as usize;
        let span = (self.lanes.chunks * step) as u64;
        let start = self.address(base, span, false)?;
        if !(start as usize).is_multiple_of(access.size as usize)
            || !base.is_multiple_of(u64::from(access.align.max(1)))
        {
            return None;
        }
        self.noted(base, size);
        self.ask_for_next(base, start, stride as isize, span);
        Some(Src { ptr: start, step })
    }
}
