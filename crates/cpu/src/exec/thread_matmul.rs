//! `matmul2d` with the scope `execution_thread`: each lane multiplies for itself, with operands in device memory or in
//! memory of its own.

use std::ops::Range;

use anymetal_ir::MatmulDescriptor;

use super::objects::{Object, split};
use super::{Outcome, Worker};
use crate::compile::program::{TileOperand, View};

/// Bytes of a lane's own memory as a run without gaps: the objects of lanes are interleaved.
struct Copy {
    /// Number of the object.
    object: usize,
    /// First byte of it.
    start: u64,
    length: u64,
    /// The bytes; in words, so that elements are aligned as in the object.
    words: Vec<u64>,
}

/// Copies that products reuse. Their bytes stay where they are until [`clear`](Self::clear).
#[derive(Default)]
pub(super) struct Copies {
    copies: Vec<Copy>,
    used: usize,
    /// A product of threads is under way; the operations of SIMD-groups take no memory of lanes.
    pub wanted: bool,
}

impl Copies {
    fn clear(&mut self) {
        self.used = 0;
    }
}

impl<'d> Worker<'d> {
    /// Copies bytes of a lane's own memory, which the caller has checked against the object; the address of the copy.
    pub(super) fn stage_own(&mut self, number: usize, object: &Object, bytes: Range<u64>, lane: usize) -> *mut u8 {
        let length = bytes.end - bytes.start;
        // A word more, so that the copy can begin where the object's bytes do in their word.
        let words = length.div_ceil(8) as usize + 1;
        let mut copies = std::mem::take(&mut self.copies);
        if copies.used == copies.copies.len() {
            copies.copies.push(Copy {
                object: 0,
                start: 0,
                length: 0,
                words: Vec::new(),
            });
        }
        let copy = &mut copies.copies[copies.used];
        copies.used += 1;
        (copy.object, copy.start, copy.length) = (number, bytes.start, length);
        copy.words.clear();
        copy.words.resize(words, 0);
        let to = copy
            .words
            .as_mut_ptr()
            .cast::<u8>()
            .wrapping_add((bytes.start % 8) as usize);
        for (i, offset) in bytes.enumerate() {
            // SAFETY: the copy has room for the bytes and up to seven before them; the caller checked the object's.
            unsafe { *to.add(i) = *self.own_byte(object, offset, lane) };
        }
        self.copies = copies;
        to
    }

    /// Writes the last copy back to where it came from.
    fn unstage_own(&mut self, lane: usize) {
        let copies = std::mem::take(&mut self.copies);
        if let Some(copy) = copies.used.checked_sub(1).and_then(|last| copies.copies.get(last))
            && let Some(object) = self.object(copy.object)
        {
            let from = copy.words.as_ptr().cast::<u8>().wrapping_add((copy.start % 8) as usize);
            for i in 0..copy.length {
                // SAFETY: as in `stage_own`.
                unsafe { *self.own_byte(&object, copy.start + i, lane) = *from.add(i as usize) };
            }
        }
        self.copies = copies;
    }

    /// Is the memory behind a view one that each lane has for itself?
    fn is_own(&mut self, view: &View, lane: usize) -> bool {
        let number = split(self.lane_value(view.pointer, lane)).0;
        self.object(number).is_some_and(|object| object.lane_unit != 0)
    }

    pub(super) fn matmul_of_threads(
        &mut self,
        descriptor: &MatmulDescriptor,
        [left, right, destination]: [&'d TileOperand; 3],
    ) -> Outcome {
        for lane in 0..self.lanes.live {
            if !self.is_active(lane) {
                continue;
            }
            self.copies.clear();
            self.copies.wanted = true;
            let job = self.job(descriptor, [left, right, destination], lane, lane, None);
            self.copies.wanted = false;
            let job = job?;
            self.multiply(descriptor, &job, [false; 2])?;
            // The destination was looked at last, so that its copy is the last one.
            if let TileOperand::View(view) = destination
                && self.is_own(view, lane)
                && job.writes()
            {
                self.unstage_own(lane);
            }
        }
        Ok(())
    }
}
