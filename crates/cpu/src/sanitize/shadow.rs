//! Shadow memory: for each byte (or aligned group of bytes) who wrote it last and who has read it since.
//!
//! Shadow is kept by host address, so that two arguments bound to the same memory share it, in pages that are made when
//! they are first touched. A page starts with cells as large as its first access and is split when a smaller one comes.

use std::collections::HashMap;

use anymetal_ir::LocationId;

use super::order::{Actor, Clock};

/// One access, as a later one needs to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub actor: Actor,
    /// Threadgroup, counted from 1.
    pub group: u32,
    /// Barriers of the threadgroup and of the actor's SIMD-group that had ordered this memory before.
    pub barriers: u32,
    pub simd_barriers: u32,
    /// Watched instructions before this one.
    pub tick: u32,
    pub location: LocationId,
    pub atomic: bool,
}

/// What is known of some bytes.
#[derive(Clone, Copy, Default)]
struct Cell {
    write: Option<Stamp>,
    /// Readers since the last write: of two different actors, of two SIMD-groups if there were.
    reads: [Option<Stamp>; 2],
}

const PAGE: usize = 4096;

struct Page {
    /// Bytes of a cell; 1, 2 or 4.
    granule: usize,
    cells: Vec<Cell>,
}

impl Page {
    fn new(granule: usize) -> Self {
        Page {
            granule,
            cells: vec![Cell::default(); PAGE / granule],
        }
    }

    fn split(&mut self, granule: usize) {
        if granule >= self.granule {
            return;
        }
        let times = self.granule / granule;
        self.cells = self
            .cells
            .iter()
            .flat_map(|&cell| std::iter::repeat_n(cell, times))
            .collect();
        self.granule = granule;
    }
}

/// What an access met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    /// An unordered access by another actor, and whether it was a write.
    pub race: Option<(Stamp, bool)>,
    /// Offset from the access' first byte where the race is.
    pub at: usize,
    /// Some byte had never been written.
    pub fresh: bool,
}

/// How an access touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    /// Read and written at once.
    Both,
}

/// Shadow of a set of addresses.
#[derive(Default)]
pub(crate) struct Shadow {
    pages: HashMap<usize, Page>,
}

impl Shadow {
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// Notes an access to `bytes` bytes and says what it met. `same` answers whether an earlier write of the same instruction
    /// stored the same value.
    pub fn touch(
        &mut self,
        address: usize,
        bytes: usize,
        touch: Touch,
        now: &Stamp,
        clock: &Clock,
        same: &dyn Fn(&Stamp) -> bool,
    ) -> Met {
        let mut met = Met::default();
        let granule = match (address | bytes) & 3 {
            0 => 4,
            2 => 2,
            _ => 1,
        };
        let (mut at, end) = (address, address + bytes);
        while at < end {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Page::new(granule));
            page.split(granule);
            let size = page.granule;
            let last = end.min((at / PAGE + 1) * PAGE);
            let cells = &mut page.cells[at % PAGE / size..(at % PAGE + (last - at)).div_ceil(size)];
            for (i, cell) in cells.iter_mut().enumerate() {
                met.fresh |= cell.write.is_none();
                let unordered = |stamp: &Option<Stamp>| {
                    stamp.filter(|earlier| !(earlier.atomic && now.atomic || clock.ordered(earlier, now)))
                };
                if met.race.is_none() {
                    let mut race = unordered(&cell.write).map(|stamp| (stamp, true));
                    if touch == Touch::Write && race.is_some_and(|(stamp, _)| stamp.tick == now.tick && same(&stamp)) {
                        race = None;
                    }
                    if race.is_none() && touch != Touch::Read {
                        race = cell.reads.iter().find_map(unordered).map(|stamp| (stamp, false));
                    }
                    if race.is_some() {
                        met.race = race;
                        met.at = (at + i * size).saturating_sub(address);
                    }
                }
                if touch == Touch::Read {
                    cell.read(now, clock);
                } else {
                    *cell = Cell {
                        write: Some(*now),
                        ..Cell::default()
                    };
                    if touch == Touch::Both {
                        cell.reads[0] = Some(*now);
                    }
                }
            }
            at = last;
        }
        met
    }
}

impl Cell {
    fn read(&mut self, now: &Stamp, clock: &Clock) {
        let replaceable = |stamp: &Option<Stamp>| {
            stamp.is_none_or(|earlier| earlier.actor == now.actor || clock.ordered(&earlier, now))
        };
        if replaceable(&self.reads[0]) {
            self.reads[0] = Some(*now);
            return;
        }
        // A second reader of another SIMD-group tells more than one of the same.
        let other_group = |stamp: &Option<Stamp>| matches!((stamp, &self.reads[0]), (Some(a), Some(b)) if a.actor.simdgroup() != b.actor.simdgroup());
        if replaceable(&self.reads[1]) || !other_group(&self.reads[1]) {
            self.reads[1] = Some(*now);
        }
    }
}
