//! Addresses that lanes have as they hold an 8 × 8 matrix of a SIMD-group (reference 5.6, layout S): two elements each, those of a row side
//! by side or, in a transposed matrix, those of a column.
//!
//! However a kernel computes them, lane numbers give `base + row · down + column · across`, with the row and first column that the layout
//! gives a lane, and a base for each SIMD-group. That is noticed when such lanes are added to a pointer, and kept with the
//! register, since kernels compute them once in front of their loops. A sum is then a sum of bases, and a load moves rows. The
//! bases lie in the register, where the first lane of each SIMD-group does; the other lanes are written out when they are asked for.

use super::affine::{Plane, Tag, corners};
use super::objects::split;
use super::{Value, Worker};
use crate::compile::program::{Access, Reg};
use crate::lanes::CHUNK;

/// The low bits of a pointer are its offset.
const LOW: u64 = (1 << 48) - 1;

/// Rows and columns.
const N: usize = 8;

/// Bytes from column to column and from row to row. Both are zero where a SIMD-group has one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Steps {
    pub across: i64,
    pub down: i64,
}

/// What lanes are that are no plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Unknown,
    Other,
    Matrix(Steps),
}

/// Row and first column of a lane of a SIMD-group.
const fn place(lane: usize) -> (usize, usize) {
    (
        (lane >> 1 & 1) + 2 * (lane >> 2 & 1) + 4 * (lane >> 4 & 1),
        2 * (lane & 1) + 4 * (lane >> 3 & 1),
    )
}

impl Steps {
    /// How far a lane is from the first of its SIMD-group, modulo 2^64.
    pub fn lane(self, lane: usize) -> u64 {
        let (row, column) = place(lane % CHUNK);
        let down = (self.down as u64).wrapping_mul(row as u64);
        down.wrapping_add((self.across as u64).wrapping_mul(column as u64))
    }

    /// What whole SIMD-groups of lanes are.
    fn of(lanes: &[u64]) -> Shape {
        let (groups, []) = lanes.as_chunks::<CHUNK>() else {
            return Shape::Other;
        };
        let Some(first) = groups.first() else {
            return Shape::Other;
        };
        // Lane 1 is two columns on, lane 2 a row.
        let two = first[1].wrapping_sub(first[0]) as i64;
        let down = first[2].wrapping_sub(first[0]) as i64;
        if two % 2 != 0 {
            return Shape::Other;
        }
        let steps = Steps { across: two / 2, down };
        // Most lanes that are no matrix show it here.
        if [4, 8, 16]
            .iter()
            .any(|&lane| first[lane].wrapping_sub(first[0]) != steps.lane(lane))
        {
            return Shape::Other;
        }
        let own: [u64; CHUNK] = std::array::from_fn(|lane| steps.lane(lane));
        let mut differs = 0;
        for lanes in groups {
            for (lane, own) in lanes.iter().zip(&own) {
                differs |= lane ^ own.wrapping_add(lanes[0]);
            }
        }
        match differs {
            0 => Shape::Matrix(steps),
            _ => Shape::Other,
        }
    }

    /// Least and greatest distance from the first lane.
    fn bounds(self) -> Option<(i64, i64)> {
        // The first columns of lanes are even.
        corners(0, self.across.checked_mul(2)?, self.down, (N / 2, N))
    }
}

/// An operand: a value for each SIMD-group, and steps inside of them.
#[derive(Clone, Copy)]
struct Operand {
    bases: Bases,
    steps: Steps,
}

#[derive(Clone, Copy)]
enum Bases {
    Line {
        first: u64,
        group: u64,
    },
    /// At every 32nd place.
    Register(*const u64),
}

impl Bases {
    /// # Safety
    /// A register holds a base for the group.
    unsafe fn of(self, group: usize) -> u64 {
        match self {
            Bases::Line { first, group: step } => first.wrapping_add(step.wrapping_mul(group as u64)),
            // SAFETY: by the function's contract.
            Bases::Register(register) => unsafe { *register.add(group * CHUNK) },
        }
    }
}

impl Worker<'_> {
    /// SIMD-groups in the strip, if all are whole.
    fn whole_groups(&self) -> Option<usize> {
        let live = self.lanes.live;
        (live >= CHUNK && live.is_multiple_of(CHUNK)).then_some(live / CHUNK)
    }

    /// Steps of lanes that are not written out, and the place of their bases.
    #[inline(always)]
    pub(super) fn unfilled_matrix(&self, reg: Reg) -> Option<Steps> {
        let tag = self.lanes.tags[reg.tag_index()?];
        match tag.shape {
            Shape::Matrix(steps) if !tag.filled => Some(steps),
            _ => None,
        }
    }

    /// An operand of a sum of `groups` SIMD-groups, if it has this form. What lanes are is found once for each time that they are written.
    fn by_groups(&mut self, reg: Reg, groups: usize) -> Option<Operand> {
        let line = |first, group| {
            let steps = Steps { across: 0, down: 0 };
            let bases = Bases::Line { first, group };
            Some(Operand { bases, steps })
        };
        match self.value(reg) {
            Value::Uniform(value) => line(value, 0),
            Value::Affine { base, stride: 0 } => line(base, 0),
            Value::Plane(Plane { base, stride: 0, row }) if self.lanes.width == CHUNK => line(base, row),
            Value::Lanes if reg.size == 8 => {
                let tag = reg.tag_index()?;
                let register = self.ptr(reg).cast::<u64>().cast_const();
                if self.lanes.tags[tag].shape == Shape::Unknown {
                    // SAFETY: lanes of an unknown form are written out, eight bytes each.
                    let lanes = unsafe { std::slice::from_raw_parts(register, groups * CHUNK) };
                    self.lanes.tags[tag].shape = Steps::of(lanes);
                }
                let Shape::Matrix(steps) = self.lanes.tags[tag].shape else {
                    return None;
                };
                let bases = Bases::Register(register);
                Some(Operand { bases, steps })
            }
            _ => None,
        }
    }

    /// Adds an offset to a pointer, if both are the same in all lanes of a SIMD-group but for the steps of a matrix. If not, false: the
    /// output's lanes are still to be written.
    pub(super) fn matrix_offset(&mut self, out: Reg, pointer: Reg, offset: Reg) -> bool {
        let Some(tag) = out.tag_index() else { return false };
        let Some(groups) = self.whole_groups() else {
            return false;
        };
        let (Some(pointer), Some(offset)) = (self.by_groups(pointer, groups), self.by_groups(offset, groups)) else {
            return false;
        };
        let steps = Steps {
            across: pointer.steps.across.wrapping_add(offset.steps.across),
            down: pointer.steps.down.wrapping_add(offset.steps.down),
        };
        let Some((low, high)) = steps.bounds() else {
            return false;
        };
        let register = self.ptr(out).cast::<u64>();
        for group in 0..groups {
            // SAFETY: registers have room for all lanes; an output is none of its inputs.
            unsafe {
                let (pointer, offset) = (pointer.bases.of(group), offset.bases.of(group));
                let own = ((pointer << 16) as i64) >> 16;
                let Some(first) = own.checked_add(offset as i64) else {
                    return false;
                };
                // Only what stays inside the offset's own range: beyond it pointers do not wrap.
                let inside = |end: i64| first.checked_add(end).is_some_and(|end| (0..1 << 47).contains(&end));
                if !inside(low) || !inside(high) {
                    return false;
                }
                *register.add(group * CHUNK) = (pointer & !LOW) | first as u64;
            }
        }
        self.lanes.tags[tag] = Tag::matrix(steps);
        true
    }

    /// Writes out the lanes of a matrix behind the first of each SIMD-group.
    pub(super) fn fill_matrix(&mut self, reg: Reg, steps: Steps) {
        let register = self.ptr(reg).cast::<[u64; CHUNK]>();
        let own: [u64; CHUNK] = std::array::from_fn(|lane| steps.lane(lane));
        for group in 0..self.lanes.live / CHUNK {
            // SAFETY: the register has room for all lanes, eight bytes each.
            let lanes = unsafe { &mut *register.add(group) };
            let base = lanes[0];
            for (lane, own) in lanes.iter_mut().zip(&own) {
                *lane = base.wrapping_add(*own);
            }
        }
    }

    /// Loads all lanes through the pointers of a matrix; false, and nothing done, where lanes have to be looked at.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn load_matrix(&mut self, access: &Access) -> bool {
        let Some(Shape::Matrix(steps)) = access.pointer.tag_index().map(|tag| self.lanes.tags[tag].shape) else {
            return false;
        };
        let (size, values) = (i64::from(access.size), access.values.len());
        let in_rows = steps.across == size;
        if !(size == 2 || size == 4) || values > 2 || !(in_rows || steps.down == size) {
            return false;
        }
        let (Some(groups), Some((own_low, high))) = (self.whole_groups(), steps.bounds()) else {
            return false;
        };
        // Rows are read whole, even if lanes want only every other element.
        let bytes = size as u64 * if in_rows { 2 } else { values as u64 };
        let register = self.ptr(access.pointer).cast::<u64>();
        // SAFETY: the register holds a base for each group.
        let base = |group: usize| unsafe { *register.add(group * CHUNK) };
        let (mut first, mut last) = (base(0), base(0));
        let mut bits = (2 * steps.across) as u64 | steps.down as u64;
        for group in 0..groups {
            bits |= base(group);
            first = first.min(base(group));
            last = last.max(base(group));
        }
        // Another object than the last one's is refused for its offset, which ends up far beyond.
        let low = split(first).1 + own_low;
        let span = (last - first).wrapping_add((high - own_low) as u64 + bytes);
        if low < 0 || (access.align > 1 && !bits.is_multiple_of(u64::from(access.align))) {
            return false;
        }
        let Some(start) = self.address((first & !LOW) | low as u64, span, false) else {
            return false;
        };
        let start = start.wrapping_offset(-own_low as isize).cast_const();
        let (one, other) = (access.values[0], access.values[values - 1]);
        let out = [self.dst(one).1, self.dst(other).1];
        let (across, down) = (steps.across as isize, steps.down as isize);
        for group in 0..groups {
            let from = start.wrapping_add((base(group) - first) as usize);
            let at = group * CHUNK * size as usize;
            let out = [out[0].wrapping_add(at), out[1].wrapping_add(at)];
            // SAFETY: the span was checked, registers have room for all lanes.
            unsafe {
                match (in_rows, size) {
                    (true, 4) => rows_of_words(from, down, out, values),
                    (true, _) => rows_of_halves(from, down, out, values),
                    (false, 4) => (0..values).for_each(|k| columns_of_words(from.add(4 * k), across, out[k])),
                    (false, _) => (0..values).for_each(|k| columns_of_halves(from.add(2 * k), across, out[k])),
                }
            }
        }
        true
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn load_matrix(&mut self, _: &Access) -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
use moves::{columns_of_halves, columns_of_words, rows_of_halves, rows_of_words};

/// A matrix from memory to the registers of one SIMD-group. In registers, lane bits b4 and b3 say which vector of eight lanes, half a matrix
/// of rows and half of columns; in a vector, neighbouring lanes are two columns apart, pairs of lanes a row.
#[cfg(target_arch = "x86_64")]
mod moves {
    use std::arch::x86_64::*;

    /// Rows of eight words, `down` bytes apart: even columns to the first register, odd ones to the second if `values` is two.
    ///
    /// # Safety
    /// Eight rows of eight words must be readable at `from`, and 32 words writable at each output that is wanted. SSE2 is part of x86-64.
    pub unsafe fn rows_of_words(from: *const u8, down: isize, out: [*mut u8; 2], values: usize) {
        for b4 in 0..2 {
            for b3 in 0..2 {
                // SAFETY: by the function's contract.
                unsafe {
                    let half = |row: isize| _mm_loadu_ps(from.offset((4 * b4 + row) * down).add(16 * b3).cast());
                    let rows = [half(0), half(1), half(2), half(3)];
                    let at = 32 * (2 * b4 as usize + b3);
                    let even = out[0].add(at).cast::<f32>();
                    _mm_storeu_ps(even, _mm_shuffle_ps::<0x88>(rows[0], rows[1]));
                    _mm_storeu_ps(even.add(4), _mm_shuffle_ps::<0x88>(rows[2], rows[3]));
                    if values == 2 {
                        let odd = out[1].add(at).cast::<f32>();
                        _mm_storeu_ps(odd, _mm_shuffle_ps::<0xdd>(rows[0], rows[1]));
                        _mm_storeu_ps(odd.add(4), _mm_shuffle_ps::<0xdd>(rows[2], rows[3]));
                    }
                }
            }
        }
    }

    /// As [`rows_of_words`] with elements of two bytes.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn rows_of_halves(from: *const u8, down: isize, out: [*mut u8; 2], values: usize) {
        for b4 in 0..2isize {
            // SAFETY: by the function's contract.
            unsafe {
                // Of each row the pairs of columns 0 and 2, 1 and 3, 4 and 6, 5 and 7.
                let row = |row: isize| {
                    let row = _mm_loadu_si128(from.offset((4 * b4 + row) * down).cast());
                    _mm_shufflehi_epi16::<0xd8>(_mm_shufflelo_epi16::<0xd8>(row))
                };
                let rows = [row(0), row(1), row(2), row(3)];
                let low = [
                    _mm_unpacklo_epi32(rows[0], rows[1]),
                    _mm_unpacklo_epi32(rows[2], rows[3]),
                ];
                let high = [
                    _mm_unpackhi_epi32(rows[0], rows[1]),
                    _mm_unpackhi_epi32(rows[2], rows[3]),
                ];
                let at = 32 * b4 as usize;
                _mm_storeu_si128(out[0].add(at).cast(), _mm_unpacklo_epi64(low[0], low[1]));
                _mm_storeu_si128(out[0].add(at + 16).cast(), _mm_unpacklo_epi64(high[0], high[1]));
                if values == 2 {
                    _mm_storeu_si128(out[1].add(at).cast(), _mm_unpackhi_epi64(low[0], low[1]));
                    _mm_storeu_si128(out[1].add(at + 16).cast(), _mm_unpackhi_epi64(high[0], high[1]));
                }
            }
        }
    }

    /// Columns of eight words, `across` bytes apart: every other one, from the first on.
    ///
    /// # Safety
    /// Eight words must be readable at columns 0, 2, 4 and 6, and 32 words writable.
    pub unsafe fn columns_of_words(from: *const u8, across: isize, out: *mut u8) {
        for b4 in 0..2usize {
            for b3 in 0..2isize {
                // SAFETY: by the function's contract.
                unsafe {
                    let half =
                        |column: isize| _mm_loadu_ps(from.offset((4 * b3 + column) * across).add(16 * b4).cast());
                    let (a, b) = (half(0), half(2));
                    let out = out.add(32 * (2 * b4 + b3 as usize)).cast::<f32>();
                    _mm_storeu_ps(out, _mm_unpacklo_ps(a, b));
                    _mm_storeu_ps(out.add(4), _mm_unpackhi_ps(a, b));
                }
            }
        }
    }

    /// As [`columns_of_words`] with elements of two bytes.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn columns_of_halves(from: *const u8, across: isize, out: *mut u8) {
        for b4 in 0..2usize {
            for b3 in 0..2isize {
                // SAFETY: by the function's contract.
                unsafe {
                    let half =
                        |column: isize| _mm_loadl_epi64(from.offset((4 * b3 + column) * across).add(8 * b4).cast());
                    let pairs = _mm_unpacklo_epi16(half(0), half(2));
                    _mm_storeu_si128(out.add(16 * (2 * b4 + b3 as usize)).cast(), pairs);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_matrices_are_found() {
        for (across, down) in [(4, 128), (2, -64), (-8, 4), (260, 4), (0, 0), (0, 16)] {
            let steps = Steps { across, down };
            let base = |group: usize| (5 << 48 | 70_000) + (group * group * 36) as u64;
            let mut lanes: Vec<u64> = (0..4 * CHUNK)
                .map(|lane| base(lane / CHUNK).wrapping_add(steps.lane(lane)))
                .collect();
            assert_eq!(Steps::of(&lanes), Shape::Matrix(steps));
            assert_eq!(Steps::of(&lanes[..CHUNK]), Shape::Matrix(steps));
            assert_eq!(Steps::of(&lanes[..CHUNK + 1]), Shape::Other);
            let (low, high) = steps.bounds().unwrap();
            let own = lanes[..CHUNK].iter().map(|lane| lane.wrapping_sub(lanes[0]) as i64);
            assert_eq!((low, high), (own.clone().min().unwrap(), own.max().unwrap()));
            for wrong in [7, 40, 127] {
                lanes[wrong] += 4;
                assert_eq!(Steps::of(&lanes), Shape::Other);
                lanes[wrong] -= 4;
            }
        }
        // Lines are no matrices.
        let line: Vec<u64> = (0..64).map(|lane| lane * 4).collect();
        assert_eq!(Steps::of(&line), Shape::Other);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn rows_and_columns_go_to_their_lanes() {
        let words: Vec<u32> = (0..400).map(|i| i * 3 + 1).collect();
        let halves: Vec<u16> = (0..400).map(|i| i * 3 + 1).collect();
        const STEP: usize = 19;
        for values in 1..=2 {
            let (mut w, mut h) = ([[0u32; CHUNK]; 2], [[0u16; CHUNK]; 2]);
            let (to_w, to_h) = (
                w.each_mut().map(|w| w.as_mut_ptr().cast()),
                h.each_mut().map(|h| h.as_mut_ptr().cast()),
            );
            // SAFETY: eight rows of 19 elements are there.
            unsafe {
                rows_of_words(words.as_ptr().cast(), 4 * STEP as isize, to_w, values);
                rows_of_halves(halves.as_ptr().cast(), 2 * STEP as isize, to_h, values);
            }
            for e in 0..values {
                for lane in 0..CHUNK {
                    let (row, column) = place(lane);
                    let at = row * STEP + column + e;
                    assert_eq!((w[e][lane], h[e][lane]), (words[at], halves[at]));
                }
            }
            assert!(values == 2 || (w[1] == [0; CHUNK] && h[1] == [0; CHUNK]));
        }
        let (mut w, mut h) = ([0u32; CHUNK], [0u16; CHUNK]);
        // SAFETY: as above.
        unsafe {
            columns_of_words(words.as_ptr().cast(), 4 * STEP as isize, w.as_mut_ptr().cast());
            columns_of_halves(halves.as_ptr().cast(), 2 * STEP as isize, h.as_mut_ptr().cast());
        }
        for lane in 0..CHUNK {
            let (row, column) = place(lane);
            let at = column * STEP + row;
            assert_eq!((w[lane], h[lane]), (words[at], halves[at]));
        }
    }
}
