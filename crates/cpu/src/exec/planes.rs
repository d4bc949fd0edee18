//! Loads and stores through planes: each row of lanes is a line, and rows lie a fixed distance apart.
//!
//! Where neighbouring rows are neighbouring elements, as when a tile is read by columns, elements are moved by transposing them in
//! registers.

use super::affine::Plane;
use super::gather::{eight_halves, four_words};
use super::memory::{gather_strided, scatter_strided};
use super::objects::split;
use super::{Worker, read, splat, write};
use crate::compile::program::Access;
use crate::lanes::load_dot::Rows;

/// The low bits of a pointer are its offset.
const LOW: u64 = (1 << 48) - 1;

/// Bytes of a row up to which the next ones are asked for: those of the tile beside this one, which neighbouring threadgroups
/// read soon.
const NEXT: usize = 512;

/// The memory of a plane, checked: lane (column, row) lies at `start + column · across + row · down`.
#[derive(Clone, Copy)]
struct Rectangle {
    start: *mut u8,
    across: isize,
    down: isize,
    columns: usize,
    rows: usize,
}

impl Rectangle {
    /// Address of the first element of a row.
    fn row(&self, row: usize) -> *mut u8 {
        self.start.wrapping_offset(row as isize * self.down)
    }

    /// Whether no two lanes share a byte.
    fn is_apart(&self, bytes: usize) -> bool {
        let (across, down) = (self.across.unsigned_abs(), self.down.unsigned_abs());
        let fits = |inner: usize, count: usize, outer: usize| {
            inner >= bytes && (count - 1).checked_mul(inner).is_some_and(|span| outer >= span + bytes)
        };
        fits(across, self.columns, down) || fits(down, self.rows, across)
    }
}

impl Worker<'_> {
    /// The memory behind a plane of pointers, if all of its rectangle is inside one shared object.
    fn rectangle(&mut self, plane: Plane, bytes: u64, align: u32, write: bool) -> Option<Rectangle> {
        let (columns, rows) = self.lanes.rectangle(true);
        let across = plane.stride as i64;
        let down = plane
            .stride
            .wrapping_mul(self.lanes.width as u64)
            .wrapping_add(plane.row) as i64;
        if align > 1 && !(plane.base | across as u64 | down as u64).is_multiple_of(u64::from(align)) {
            return None;
        }
        let own = split(plane.base).1;
        let (low, high) = super::affine::corners(own, across, down, (columns, rows))?;
        if low < 0 {
            return None;
        }
        let span = (high - low) as u64 + bytes;
        let address = self.address((plane.base & !LOW) | low as u64, span, write)?;
        Some(Rectangle {
            start: address.wrapping_offset((own - low) as isize),
            across: across as isize,
            down: down as isize,
            columns,
            rows,
        })
    }

    /// A plane of pointers as rows for chains, if all of its rectangle is inside one shared object.
    pub(super) fn plane_rows(&mut self, plane: Plane, bytes: u64, align: u32) -> Option<Rows> {
        let memory = self.rectangle(plane, bytes, align, false)?;
        Some(Rows::Plane {
            from: memory.start,
            across: memory.across,
            down: memory.down,
            width: self.lanes.width,
        })
    }

    /// Loads all live lanes through a plane; false, and nothing done, where lanes have to be looked at.
    pub(super) fn load_plane(&mut self, access: &Access, plane: Plane) -> bool {
        let size = access.size as usize;
        let bytes = size * access.values.len();
        let Some(memory) = self.rectangle(plane, bytes as u64, access.align, false) else {
            return false;
        };
        let (live, width) = (self.lanes.live, self.lanes.width);
        let count = |row: usize| width.min(live - row * width);
        let row_bytes = memory.columns * size;
        let next = memory.across == size as isize && row_bytes <= NEXT && self.is_device(plane.base);
        if let [value] = access.values[..] {
            let to = self.dst(value).1;
            // Rows that go together by transposing; the last row may have fewer lanes.
            let mut row = match memory.down == size as isize && memory.across != size as isize {
                true => self.load_columns(memory, to, size),
                false => 0,
            };
            while row < memory.rows {
                // SAFETY: the rectangle was checked; the register has room for all lanes.
                unsafe {
                    let (from, to) = (memory.row(row), to.add(row * width * size));
                    if memory.across == size as isize {
                        if next {
                            super::stream::prefetch(from.wrapping_add(row_bytes), row_bytes);
                        }
                        if next {
                            super::stream::prefetch(from.add(row_bytes), row_bytes);
                        }
                        std::ptr::copy_nonoverlapping(from, to, count(row) * size);
                    } else if memory.across == 0 {
                        splat(to, access.size, count(row), read(from, access.size));
                    } else {
                        gather_strided(to, from, memory.across, count(row), access.size);
                    }
                }
                row += 1;
            }
            return true;
        }
        for row in 0..memory.rows {
            let from = memory.row(row);
            let lane = |lane: usize| from.wrapping_offset(lane as isize * memory.across).cast_const();
            // SAFETY: the rectangle was checked; registers have room for all lanes.
            unsafe {
                let done = self.load_joined(access, row * width, count(row), lane);
                for (k, &out) in access.values.iter().enumerate().skip(done) {
                    let to = self.dst(out).1.add(row * width * size);
                    gather_strided(to, from.add(k * size), memory.across, count(row), access.size);
                }
            }
        }
        true
    }

    /// Loads rows whose elements are neighbours of those of the row before, several at a time; says how many rows these are.
    fn load_columns(&self, memory: Rectangle, to: *mut u8, size: usize) -> usize {
        let (live, width) = (self.lanes.live, self.lanes.width);
        let whole = live / width;
        let mut row = 0;
        let together = match size {
            2 => 8,
            4 => 4,
            _ => return 0,
        };
        while row + together <= whole {
            let from = |lane: usize| {
                memory
                    .row(row)
                    .wrapping_offset(lane as isize * memory.across)
                    .cast_const()
            };
            // SAFETY: `together` rows follow each other in memory, all inside the checked rectangle and the register.
            unsafe {
                if size == 2 {
                    let to = std::array::from_fn(|k| to.add((row + k) * width * size).cast());
                    eight_halves(to, width, from);
                } else {
                    let to = std::array::from_fn(|k| to.add((row + k) * width * size).cast());
                    four_words(to, width, from);
                }
            }
            row += together;
        }
        row
    }

    /// Stores all live lanes through a plane; false, and nothing done, where lanes have to be looked at.
    pub(super) fn store_plane(&mut self, access: &Access, plane: Plane) -> bool {
        let size = access.size as usize;
        let bytes = size * access.values.len();
        let Some(memory) = self.rectangle(plane, bytes as u64, access.align, true) else {
            return false;
        };
        // Overlapping elements need the order of lanes.
        if !memory.is_apart(bytes) {
            return false;
        }
        let streams = self.streams(plane.base);
        let (live, width) = (self.lanes.live, self.lanes.width);
        // Rows that are transposed as a whole are left to the loop below.
        if access.values.len() > 1 && memory.across != size as isize && memory.down != size as isize {
            let mut joined = true;
            for row in 0..memory.rows {
                let to = |lane: usize| memory.row(row).wrapping_offset(lane as isize * memory.across);
                // SAFETY: the rectangle was checked.
                joined &= unsafe { self.store_joined(access, row * width, width.min(live - row * width), to) };
            }
            if joined {
                return true;
            }
        }
        for (k, &value) in access.values.iter().enumerate() {
            let from = self.src(value);
            let mut column = 0;
            if from.step != 0
                && memory.down == size as isize
                && memory.across != size as isize
                && live == width * memory.rows
            {
                column = store_columns(memory, from.ptr, k * size, size);
            }
            for row in 0..memory.rows {
                let count = width.min(live - row * width);
                if column >= count {
                    continue;
                }
                // SAFETY: the rectangle was checked; the register holds all lanes, or one chunk if its step is 0.
                unsafe {
                    let to = memory.row(row).offset(column as isize * memory.across).add(k * size);
                    let count = count - column;
                    if from.step == 0 {
                        let value = read(from.ptr, access.size);
                        for lane in 0..count {
                            write(to.offset(lane as isize * memory.across), access.size, value);
                        }
                        continue;
                    }
                    let from = from.ptr.add((row * width + column) * size);
                    if memory.across == size as isize {
                        super::stream::copy(to, from, count * size, streams);
                    } else {
                        scatter_strided(to, from, memory.across, count, access.size);
                    }
                }
            }
        }
        true
    }
}

/// Stores columns of full rows whose elements are neighbours in memory from row to row, several at a time; says how many columns
/// these are. `skip` bytes are added to each address.
fn store_columns(memory: Rectangle, from: *const u8, skip: usize, size: usize) -> usize {
    let together = match size {
        2 => 8,
        4 => 4,
        _ => return 0,
    };
    let mut column = 0;
    while column + together <= memory.columns {
        let row = |row: usize| from.wrapping_add((row * memory.columns + column) * size);
        let to = |k: usize| {
            memory
                .start
                .wrapping_offset((column + k) as isize * memory.across)
                .wrapping_add(skip)
        };
        // SAFETY: the register holds full rows; each destination has room for an element of every row.
        unsafe {
            if size == 2 {
                eight_halves(std::array::from_fn(|k| to(k).cast()), memory.rows, row);
            } else {
                four_words(std::array::from_fn(|k| to(k).cast()), memory.rows, row);
            }
        }
        column += together;
    }
    column
}
