//! `matmul2d` with the scope `execution_thread`: each lane multiplies for itself, with operands in device memory or in
//! memory of its own. Lanes with the same right operand multiply together, their rows one after the other.

use std::ops::Range;

use anymetal_ir::MatmulDescriptor;

use super::coop_io::Region;
use super::matmul::{Job, Source, Target, same_place};
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
    /// Left operands and destinations of lanes that multiply together.
    left: Vec<u64>,
    out: Vec<u64>,
    /// A product of threads is under way; the operations of SIMD-groups take no memory of lanes.
    pub wanted: bool,
}

impl Copies {
    /// Forgets the copies of the product before.
    pub fn clear(&mut self) {
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
        self.own_runs(object, bytes, lane, |at, own, length| {
            // SAFETY: the copy has room for the bytes and up to seven before them; the caller checked the object's.
            unsafe { std::ptr::copy_nonoverlapping(own, to.add(at), length) };
        });
        self.copies = copies;
        to
    }

    /// Calls `f` with each run of a lane's own bytes that lies without gaps: its place among `bytes`, its address and length.
    fn own_runs(&self, object: &Object, bytes: Range<u64>, lane: usize, mut f: impl FnMut(usize, *mut u8, usize)) {
        let unit = u64::from(object.lane_unit);
        let mut at = bytes.start;
        while at < bytes.end {
            let end = ((at / unit + 1) * unit).min(bytes.end);
            f(
                (at - bytes.start) as usize,
                self.own_byte(object, at, lane),
                (end - at) as usize,
            );
            at = end;
        }
    }

    /// Writes a copy back to where it came from.
    fn unstage_own(&mut self, copy: usize, lane: usize) {
        let copies = std::mem::take(&mut self.copies);
        if let Some(copy) = copies.copies.get(copy)
            && let Some(object) = self.object(copy.object)
        {
            let from = copy.words.as_ptr().cast::<u8>().wrapping_add((copy.start % 8) as usize);
            self.own_runs(
                &object,
                copy.start..copy.start + copy.length,
                lane,
                |at, own, length| {
                    // SAFETY: as in `stage_own`.
                    unsafe { std::ptr::copy_nonoverlapping(from.add(at), own, length) };
                },
            );
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
        self.copies.clear();
        let mut together: Vec<Member> = Vec::new();
        for lane in 0..self.lanes.live {
            if !self.is_active(lane) {
                continue;
            }
            self.copies.wanted = true;
            let job = self.job(descriptor, [left, right, destination], lane, lane, None);
            self.copies.wanted = false;
            let job = job?;
            // The destination was looked at last, so that its copy is the last one.
            let copy = match destination {
                TileOperand::View(view) if job.writes() && self.is_own(view, lane) => self.copies.used.checked_sub(1),
                _ => None,
            };
            if together.first().is_some_and(|first| !joins(&first.job, &job)) {
                self.multiply_together(descriptor, &together)?;
                together.clear();
            }
            together.push(Member { job, copy });
        }
        self.multiply_together(descriptor, &together)
    }

    /// The products of lanes whose first agrees with all others ([`joins`]).
    fn multiply_together(&mut self, descriptor: &MatmulDescriptor, members: &[Member]) -> Outcome {
        let Some(Member { job: first, .. }) = members.first() else {
            return Ok(());
        };
        if members.len() == 1 {
            self.multiply(descriptor, first, [false; 2])?;
        } else {
            let (m, n, k) = (first.left.rows, first.right.columns, first.left.columns);
            let (left_format, format) = (first.left.region.format, first.target.format);
            let (left_size, size) = (left_format.bits() / 8, format.bits() / 8);
            let rows = m * members.len();
            let mut left_words = std::mem::take(&mut self.copies.left);
            let mut out_words = std::mem::take(&mut self.copies.out);
            left_words.resize((rows * k * left_size).div_ceil(8), 0);
            out_words.resize((rows * n * size).div_ceil(8), 0);
            let left = left_words.as_mut_ptr().cast::<u8>();
            let out = out_words.as_mut_ptr().cast::<u8>();
            for (i, Member { job, .. }) in members.iter().enumerate() {
                let place = |row: usize, column: usize| match job.left.row_dimension {
                    0 => job.left.region.address(row, column),
                    _ => job.left.region.address(column, row),
                };
                // SAFETY: all elements of the operand are valid and were checked, and the packed rows have room for them.
                unsafe { copy_elements(left.add(i * m * k * left_size), (m, k), left_size, true, place) };
                if descriptor.accumulate {
                    // SAFETY: as for the left operand, for the destination's elements.
                    unsafe { copy_elements(out.add(i * m * n * size), (m, n), size, true, of_target(&job.target)) };
                }
            }
            let region = Region {
                format: left_format,
                base: left,
                pointer: 0,
                origin: [0; 2],
                extents: [k, rows],
                valid: [k, rows],
                strides: [1, k as i64],
                scales: None,
            };
            let whole = Job {
                left: Source {
                    region,
                    row_dimension: 1,
                    rows,
                    columns: k,
                    in_memory: false,
                },
                right: first.right,
                target: Target {
                    base: out,
                    format,
                    rows,
                    columns: n,
                    row_stride: n as i64,
                    column_stride: 1,
                },
                lane: first.lane,
            };
            let result = self.multiply(descriptor, &whole, [false; 2]);
            if result.is_ok() {
                for (i, Member { job, .. }) in members.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { copy_elements(out.add(i * m * n * size), (m, n), size, false, of_target(&job.target)) };
                }
            }
            self.copies.left = left_words;
            self.copies.out = out_words;
            result?;
        }
        for Member { job, copy } in members {
            if let Some(copy) = *copy {
                self.unstage_own(copy, job.lane);
            }
        }
        Ok(())
    }
}

/// A lane's product, and the copy that its destination is where that is memory of its own.
struct Member {
    job: Job,
    copy: Option<usize>,
}

/// Can two lanes multiply together? With the same right operand, and left operands and destinations that are whole and alike.
fn joins(a: &Job, b: &Job) -> bool {
    let whole = |job: &Job| {
        let left = &job.left;
        left.valid() == (left.rows, left.columns)
            && left.region.scales.is_none()
            && left.region.format.bits() >= 8
            && (job.target.rows, job.target.columns) == (left.rows, job.right.columns)
            && job.target.format.bits() >= 8
    };
    let kind = |job: &Job| {
        (
            job.left.rows,
            job.left.columns,
            job.left.row_dimension,
            job.left.region.format,
            job.target.format,
        )
    };
    whole(a) && whole(b) && kind(a) == kind(b) && same_place(&a.right, &b.right)
}

/// Where the element of a row and column of a destination lies.
fn of_target(target: &Target) -> impl Fn(usize, usize) -> *mut u8 {
    let (base, size) = (target.base, (target.format.bits() / 8) as i64);
    let (row_stride, column_stride) = (target.row_stride, target.column_stride);
    move |row, column| {
        let at = row as i64 * row_stride + column as i64 * column_stride;
        base.wrapping_offset((at * size) as isize)
    }
}

/// Copies a matrix between packed rows and other places: from there where `gather`, to there otherwise.
///
/// # Safety
/// Both sides must have all elements, of `size` bytes, and not overlap.
unsafe fn copy_elements(
    packed: *mut u8,
    (rows, columns): (usize, usize),
    size: usize,
    gather: bool,
    place: impl Fn(usize, usize) -> *mut u8,
) {
    for row in 0..rows {
        for column in 0..columns {
            let here = packed.wrapping_add((row * columns + column) * size);
            let there = place(row, column);
            // SAFETY: by the function's contract.
            unsafe {
                if gather {
                    std::ptr::copy_nonoverlapping(there, here, size);
                } else {
                    std::ptr::copy_nonoverlapping(here, there, size);
                }
            }
        }
    }
}
