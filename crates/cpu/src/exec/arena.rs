//! A worker's memory: register areas, masks, tiles, threadgroup and thread memory, one after another.

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Zeroed at first, grown on demand and kept by its thread from one dispatch to the next.
#[derive(Default)]
pub(crate) struct Arena {
    lines: Vec<Line>,
}

impl Arena {
    /// Makes room for `bytes`; contents are whatever was there before, but always initialised.
    pub fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.lines.len() < lines {
            self.lines.clear();
            self.lines.resize(lines, Line([0; 64]));
        }
        self.lines.as_mut_ptr().cast()
    }
}

/// Hands out parts of a total that is summed up first.
#[derive(Default)]
pub(crate) struct Planner {
    bytes: usize,
}

impl Planner {
    /// Offset of a part of the arena, on a line of its own.
    pub fn take(&mut self, bytes: usize) -> usize {
        let at = self.bytes;
        self.bytes = (at + bytes).next_multiple_of(64);
        at
    }

    pub fn total(&self) -> usize {
        self.bytes
    }
}
