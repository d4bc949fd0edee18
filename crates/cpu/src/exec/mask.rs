//! Execution masks: which lanes of a strip take part.

use super::Worker;

/// Eight lanes that take part.
const ONES: u64 = 0x0101_0101_0101_0101;

/// A set of lanes. Bytes of a partial mask are 0 or 1, and 0 past the strip's live lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mask {
    None,
    All,
    /// The slot that holds the bytes.
    Part(u32),
}

/// Slots of a control construct at a depth. What a construct leaves behind must outlast its successors at the same depth
/// until they end, so results have slots of their own.
pub(super) const SLOTS: u32 = 7;
/// The two sides of an `If`.
pub(super) const SIDES: u32 = 0;
/// What is left after an `If`.
pub(super) const AFTER_IF: u32 = 2;
/// What is left after a `Loop` or `Scope`.
pub(super) const AFTER_LOOP: u32 = 3;
/// Lanes that broke out.
pub(super) const BROKEN: u32 = 4;
/// Lanes that wait for the latch.
pub(super) const CONTINUED: u32 = 5;
/// Lanes of the current iteration.
pub(super) const LIVE: u32 = 6;

/// A `Loop` or `Scope` being run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub broken: Mask,
    pub continued: Mask,
    pub slot: u32,
}

impl Worker<'_> {
    pub(super) fn mask_ptr(&self, slot: u32) -> *mut u8 {
        // SAFETY: slots are numbered by depth, and the arena holds SLOTS · (depth + 1) of them.
        unsafe { self.lanes.masks.add(slot as usize * self.lanes.cap) }
    }

    /// The bytes of a mask that is not empty, or `None` where all live lanes take part.
    pub(super) fn mask_bytes(&self, mask: Mask) -> Option<&[u8]> {
        match mask {
            Mask::Part(slot) => Some(
                // SAFETY: a slot holds `cap` bytes, and instructions that write masks borrow the worker mutably.
                unsafe { std::slice::from_raw_parts(self.mask_ptr(slot), self.lanes.live) },
            ),
            _ => None,
        }
    }

    /// Whether a lane takes part.
    pub(super) fn is_active(&self, lane: usize) -> bool {
        match self.lanes.current {
            Mask::None => false,
            Mask::All => lane < self.lanes.live,
            Mask::Part(_) => self
                .mask_bytes(self.lanes.current)
                .is_some_and(|bytes| bytes.get(lane).is_some_and(|&byte| byte != 0)),
        }
    }

    /// The first lane from `from` on that takes part, before `end`.
    pub(super) fn first_active(&self, from: usize, end: usize) -> Option<usize> {
        let end = end.min(self.lanes.live);
        match self.lanes.current {
            Mask::None => None,
            Mask::All => (from < end).then_some(from),
            Mask::Part(_) => {
                let bytes = self.mask_bytes(self.lanes.current)?;
                (from..end).find(|&lane| bytes[lane] != 0)
            }
        }
    }

    /// The lanes of `mask` whose condition byte is (not) zero, into `slot`.
    pub(super) fn mask_and(&mut self, slot: u32, mask: Mask, condition: *const u8, wanted: bool) -> Mask {
        let (live, cap) = (self.lanes.live, self.lanes.cap);
        let flip = if wanted { 0 } else { ONES };
        let out = self.mask_ptr(slot).cast::<u64>();
        let condition = condition.cast::<u64>();
        let other = match mask {
            Mask::None => return Mask::None,
            Mask::All => None,
            Mask::Part(other) => Some(self.mask_ptr(other).cast::<u64>()),
        };
        // SAFETY: the condition is a register of `cap` bytes, slots have `cap` bytes (a multiple of 32), all aligned; `other`
        // is another slot than `slot`.
        unsafe {
            for i in 0..cap / 8 {
                let mut word = condition.add(i).read_unaligned() ^ flip;
                if let Some(other) = other {
                    word &= *other.add(i);
                }
                *out.add(i) = word;
            }
            // Past the live lanes a condition may be anything.
            out.cast::<u8>().add(live).write_bytes(0, cap - live);
        }
        self.normalised(slot)
    }

    /// A mask by what its slot holds.
    pub(super) fn normalised(&self, slot: u32) -> Mask {
        let live = self.lanes.live;
        let words = self.mask_ptr(slot).cast::<u64>();
        let (mut any, mut all) = (0u64, ONES);
        // SAFETY: the slot has `cap` ≥ `live` bytes, aligned.
        unsafe {
            for i in 0..live / 8 {
                any |= *words.add(i);
                all &= *words.add(i);
            }
            for lane in live / 8 * 8..live {
                let byte = u64::from(*words.cast::<u8>().add(lane));
                any |= byte;
                all &= ONES - 1 + byte;
            }
        }
        if any == 0 {
            Mask::None
        } else if all == ONES {
            Mask::All
        } else {
            Mask::Part(slot)
        }
    }

    /// `a ∪ b`, into `slot` (which may be that of `a` or `b`).
    pub(super) fn mask_or(&mut self, slot: u32, a: Mask, b: Mask) -> Mask {
        match (a, b) {
            (Mask::All, _) | (_, Mask::All) => Mask::All,
            (Mask::None, other) | (other, Mask::None) => self.mask_keep(slot, other),
            (Mask::Part(a), Mask::Part(b)) => {
                let (out, a, b) = (self.mask_ptr(slot), self.mask_ptr(a), self.mask_ptr(b));
                for i in 0..self.lanes.cap {
                    // SAFETY: slots have `cap` bytes; reading and writing one byte at a time allows overlap.
                    unsafe { *out.add(i) = *a.add(i) | *b.add(i) };
                }
                self.normalised(slot)
            }
        }
    }

    /// The same mask, held by `slot`.
    pub(super) fn mask_keep(&mut self, slot: u32, mask: Mask) -> Mask {
        match mask {
            Mask::Part(other) if other != slot => {
                // SAFETY: different slots of `cap` bytes.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.mask_ptr(other), self.mask_ptr(slot), self.lanes.cap);
                }
                Mask::Part(slot)
            }
            other => other,
        }
    }
}
