//! Execution masks: which lanes of a strip take part.

use super::Worker;

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
    pub(super) fn mask_and(
        &mut self,
        slot: u32,
        mask: Mask,
        condition: *const u8,
        wanted: bool,
    ) -> Mask {
        let (live, cap) = (self.lanes.live, self.lanes.cap);
        let flip = u8::from(!wanted);
        let out = self.mask_ptr(slot);
        // SAFETY: the condition is a register of `cap` bytes, the slot has `cap` bytes, and another mask is another slot.
        let (out, condition) = unsafe {
            (
                std::slice::from_raw_parts_mut(out, cap),
                std::slice::from_raw_parts(condition, cap),
            )
        };
        match mask {
            Mask::None => return Mask::None,
            Mask::All => {
                for i in 0..live {
                    out[i] = condition[i] ^ flip;
                }
            }
            Mask::Part(other) => {
                // SAFETY: as above.
                let other = unsafe { std::slice::from_raw_parts(self.mask_ptr(other), cap) };
                for i in 0..live {
                    out[i] = (condition[i] ^ flip) & other[i];
                }
            }
        }
        out[live..].fill(0);
        self.normalised(slot)
    }

    /// A mask by what its slot holds.
    pub(super) fn normalised(&self, slot: u32) -> Mask {
        // SAFETY: the slot has `cap` ≥ `live` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.mask_ptr(slot), self.lanes.live) };
        let (mut any, mut all) = (0u8, 1u8);
        for &byte in bytes {
            any |= byte;
            all &= byte;
        }
        if any == 0 {
            Mask::None
        } else if all != 0 {
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
                    std::ptr::copy_nonoverlapping(
                        self.mask_ptr(other),
                        self.mask_ptr(slot),
                        self.lanes.cap,
                    );
                }
                Mask::Part(slot)
            }
            other => other,
        }
    }
}
