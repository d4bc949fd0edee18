//! Operands in memory as lines along K: a lane holds some elements of some lines.
//!
//! A *line* is one row of the left operand or one column of the right one. A lane holds line `map(block)` for each block of 8 lines, and of
//! the K elements of a window of `4 · n` it holds `n`: runs of `run` neighbours, lane pair `t` the `t`-th run of each four. Which K an instruction
//! multiplies where does not matter as long as both operands agree, so runs are as long as a wide load.

use anymetal_formats::ElementFormat;

use super::emit::{Wide, Word, advance, def, state_space};
use super::region::{Region, load_bits, load_code};
use super::unit::{Unit, pack_bits, widen};
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Which line a lane holds for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Map {
    /// Block b holds lines 8·b + g.
    Natural,
    /// Block 2·c + j holds lines 16·c + 4·(g / 2) + 2·j + g % 2: the columns of a tile in layout R.
    R,
    /// Blocks in groups of so many: block v of group G holds lines 8·n·G + n·g + v. A lane's lines follow each other in memory.
    Run(u32),
    /// Block (n, i) = 2·n + i holds lines 8·n + 2·t + i: what a lane accumulates.
    Pairs,
    /// Likewise in layout R: block (2·c + j, i) holds lines 16·c + 4·t + 2·j + i.
    PairsR,
    /// Block (n, i) of columns that were multiplied under [`Map::Run`].
    PairsRun(u32),
}

impl Map {
    /// The line, as a multiple of a lane part and a constant: (part, factor, constant).
    pub fn parts(self, block: u32) -> (Part, u32, u32) {
        match self {
            Map::Natural => (Part::Row, 1, 8 * block),
            Map::R => (Part::RowOfR, 1, 16 * (block / 2) + 2 * (block % 2)),
            Map::Run(n) => (Part::Row, n, 8 * n * (block / n) + block % n),
            Map::Pairs => (Part::Pair, 2, 8 * (block / 2) + block % 2),
            Map::PairsR => (Part::Pair, 4, 16 * (block / 4) + block % 4),
            Map::PairsRun(n) => {
                let (column, i) = (block / 2, block % 2);
                (Part::Pair, 2 * n, 8 * n * (column / n) + n * i + column % n)
            }
        }
    }

    /// The map of what a lane accumulates where columns are multiplied under this one.
    pub fn accumulated(self) -> Map {
        match self {
            Map::Natural => Map::Pairs,
            Map::R => Map::PairsR,
            Map::Run(n) => Map::PairsRun(n),
            other => other,
        }
    }

    /// How many blocks from a multiple of as many on hold lines that follow each other.
    pub fn neighbours(self) -> u32 {
        match self {
            Map::Run(n) => n,
            Map::Pairs => 2,
            Map::PairsR => 4,
            _ => 1,
        }
    }

    /// The line of this lane for a block, in its tile.
    pub fn line(self, l: &mut Lower, block: u32) -> Reg {
        let (part, factor, constant) = self.parts(block);
        let part = match part {
            Part::Row => l.geometry.fragment_row,
            Part::Pair => l.geometry.fragment_pair,
            Part::RowOfR => {
                let row = l.geometry.fragment_row;
                let half = def!(l, B32, "shr.u32", "{row}, 1");
                let odd = def!(l, B32, "and.b32", "{row}, 1");
                def!(l, B32, "mad.lo.u32", "{half}, 4, {odd}")
            }
        };
        match (factor, constant) {
            (1, 0) => part,
            (1, constant) => def!(l, B32, "add.u32", "{part}, {constant}"),
            (factor, constant) => def!(l, B32, "mad.lo.u32", "{part}, {factor}, {constant}"),
        }
    }
}

/// A part of the lane index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// g, the row in a fragment.
    Row,
    /// t, the pair in a fragment.
    Pair,
    /// 4·(g / 2) + g % 2.
    RowOfR,
}

/// How the loop over whole windows reads an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Feed {
    /// Lines lie along memory: loads of a whole run.
    Along,
    /// Lines lie across memory: loads of the neighbouring lines of a [`Map::Run`].
    Across(u32),
    /// Lines of 16-bit elements lie across memory under a map that must stay: loads of pairs, transposed among the lanes.
    Transposed,
    /// Element by element.
    Single,
}

/// An operand in memory, for the lines of one tile.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub region: Region,
    /// Dimension of the region that lines are counted along; K is the other.
    pub outer: usize,
    pub k: usize,
    pub map: Map,
    pub blocks: u32,
    /// First line of the tile.
    pub start: Word,
    /// Lines of the tile that are inside; at least 1 where anything is read.
    pub inside: Word,
    /// All lines of the tile.
    pub lines: u32,
    /// Every element of a line that is not inside is taken as zero (else it has some value). Whole windows need all lines inside then.
    pub masked: bool,
    /// Where the lines of this lane's blocks begin (element numbers), and masks of all ones where they are inside, if that is not as map, outer
    /// stride and start say.
    pub places: Option<Vec<(Reg, Reg)>>,
    pub feed: Feed,
    /// Elements are multiplied by their scales one by one; only for [`Unit::Fma`].
    pub scaled: bool,
    /// K runs are shared by all lanes of a fragment row ([`Unit::Fma`]).
    pub whole: bool,
}

impl Lines {
    fn size(&self) -> i64 {
        i64::from(self.region.bits() / 8)
    }

    fn element_bytes(&self, l: &mut Lower, elements: Wide) -> Wide {
        let bits = self.region.bits();
        match elements {
            _ if bits >= 8 => elements.mul(l, Wide::Known((bits / 8).into())),
            Wide::Known(n) => Wide::Known(n * i64::from(bits) / 8),
            Wide::Reg(n) => {
                let shift = (8 / bits).trailing_zeros();
                Wide::Reg(def!(l, B64, "shr.s64", "{n}, {shift}"))
            }
        }
    }

    fn k_stride(&self) -> Wide {
        self.region.strides[self.k]
    }

    fn outer_stride(&self) -> Wide {
        self.region.strides[self.outer]
    }

    /// Element number of the tile's first line at K = 0.
    fn tile_index(&self, l: &mut Lower) -> Wide {
        let start = self.start.widen(l);
        let offset = start.mul(l, self.outer_stride());
        self.region.first.add(l, offset)
    }

    /// This lane's line of a block, moved inside, and whether it was inside (as a mask of all ones, if masked).
    fn clamped(&self, l: &mut Lower, block: u32, together: u32, masks: bool) -> (Reg, Option<Reg>) {
        let line = self.map.line(l, block);
        if self.inside == Word::Known(self.lines as i32) && self.lines.is_multiple_of(8) {
            return (line, None);
        }
        let last = self.inside.add(l, Word::Known(-(together as i32)));
        let clamped = def!(l, B32, "min.s32", "{line}, {last}");
        let clamped = if together > 1 {
            def!(l, B32, "max.s32", "{clamped}, 0")
        } else {
            clamped
        };
        let mask = (self.masked && masks).then(|| {
            let inside = def!(l, Pred, "setp.le.s32", "{line}, {last}");
            def!(l, B32, "selp.b32", "-1, 0, {inside}")
        });
        (clamped, mask)
    }

    /// Element number of a block's line at K = 0, and its mask.
    fn begin(&self, l: &mut Lower, block: u32, together: u32, masks: bool) -> (Wide, Option<Reg>) {
        if let Some(places) = &self.places {
            let (index, mask) = places[block as usize];
            return (Wide::Reg(index), Some(mask));
        }
        let (line, mask) = self.clamped(l, block, together, masks);
        let line = Word::Reg(line).widen(l);
        let offset = line.mul(l, self.outer_stride());
        let tile = self.tile_index(l);
        (tile.add(l, offset), mask)
    }

    /// The condition for [`FastLines`] to work: strides, alignment and lines (`None`: always; `Err`: never).
    pub fn fast_condition(&self, l: &mut Lower, run: u32) -> Result<Option<Reg>, ()> {
        if self.scaled {
            return Err(());
        }
        let bits = self.region.bits();
        let (contiguous, vector_bits) = match self.feed {
            Feed::Along => (self.k, (run * bits).min(128)),
            Feed::Across(n) => (self.outer, n * bits),
            Feed::Transposed => (self.outer, 32),
            Feed::Single => (self.k, bits),
        };
        if self.feed != Feed::Single && !(vector_bits.is_power_of_two() && (8..=128).contains(&vector_bits)) {
            return Err(());
        }
        let mut all = None;
        if self.masked && self.places.is_none() {
            match self.inside {
                Word::Known(n) if n as u32 == self.lines => {}
                Word::Known(_) => return Err(()),
                Word::Reg(inside) => all = Some(def!(l, Pred, "setp.eq.s32", "{inside}, {}", self.lines)),
            }
        }
        if self.feed == Feed::Single {
            return Ok(all);
        }
        match self.region.strides[contiguous] {
            Wide::Known(1) => {}
            Wide::Known(_) => return Err(()),
            Wide::Reg(stride) => {
                let one = def!(l, Pred, "setp.eq.s64", "{stride}, 1");
                all = super::emit::both(l, all, Some(one));
            }
        }
        // Every address is a sum of multiples of these.
        let index = self.tile_index(l);
        let mut addends = vec![index];
        addends.extend(
            self.region
                .strides
                .iter()
                .enumerate()
                .filter(|&(d, _)| d != contiguous)
                .map(|(_, &s)| s),
        );
        let elements_mask = i64::from(vector_bits / bits.min(vector_bits)) - 1;
        let mut parts = Vec::new();
        for part in addends {
            match part {
                Wide::Known(n) if n & elements_mask != 0 => return Err(()),
                Wide::Known(_) => {}
                Wide::Reg(part) => parts.push(part),
            }
        }
        if elements_mask != 0 {
            for part in parts {
                let low = def!(l, B32, "cvt.u32.u64", "{part}");
                let low = def!(l, B32, "and.b32", "{low}, {elements_mask}");
                let fits = def!(l, Pred, "setp.eq.u32", "{low}, 0");
                all = super::emit::both(l, all, Some(fits));
            }
        }
        let pointer = self.region.pointer;
        let low = match pointer.class {
            Class::B64 => def!(l, B32, "cvt.u32.u64", "{pointer}"),
            _ => pointer,
        };
        let low = def!(l, B32, "and.b32", "{low}, {}", vector_bits / 8 - 1);
        let aligned = def!(l, Pred, "setp.eq.u32", "{low}, 0");
        all = super::emit::both(l, all, Some(aligned));
        // Neighbouring lines that are read together are inside together.
        let together = match self.feed {
            Feed::Across(n) => n,
            Feed::Transposed => 2,
            _ => 1,
        };
        if together > 1 {
            match self.inside {
                Word::Known(n) if (n as u32).is_multiple_of(together) => {}
                Word::Known(_) => return Err(()),
                Word::Reg(inside) => {
                    let rest = def!(l, B32, "and.b32", "{inside}, {}", together - 1);
                    let whole = def!(l, Pred, "setp.eq.u32", "{rest}, 0");
                    all = super::emit::both(l, all, Some(whole));
                }
            }
        }
        Ok(all)
    }

    /// Element `e` of a lane's `n`: its K in the window, without the lane's part.
    fn offset(run: u32, e: u32, whole: bool) -> u32 {
        if whole { e } else { 4 * run * (e / run) + e % run }
    }

    /// The lane's part of K in a window.
    fn lane_k(&self, l: &mut Lower, run: u32) -> Word {
        if self.whole {
            return Word::Known(0);
        }
        let pair = l.geometry.fragment_pair;
        Word::Reg(def!(l, B32, "mul.lo.u32", "{pair}, {run}"))
    }

    /// Elements of a window for one block, wherever they lie: words of the unit. `k` is the window's start, elements from `end` on are zero.
    pub fn slow_words(&self, l: &mut Lower, block: u32, k: Word, end: Word, run: u32, n: u32, unit: Unit) -> Vec<Reg> {
        let bits = self.region.bits();
        // Lines that differ by a number share an address.
        let apart = if bits >= 8 {
            self.bytes_from_first(self.map, block)
        } else {
            None
        };
        let (begin, mask) = self.begin(l, if apart.is_some() { 0 } else { block }, 1, true);
        let apart = apart.unwrap_or(0);
        let lane_k = self.lane_k(l, run);
        let first_k = k.add(l, lane_k);
        let along = first_k.widen(l);
        let along = along.mul(l, self.k_stride());
        let index = begin.add(l, along);
        let address = (bits >= 8).then(|| {
            let bytes = self.element_bytes(l, index);
            advance(l, self.region.pointer, bytes)
        });
        let mut codes = Vec::new();
        for e in 0..n {
            let offset = Self::offset(run, e, self.whole);
            let inside = match (first_k, end) {
                (Word::Known(k), Word::Known(end)) if k + offset as i32 >= end => {
                    codes.push(l.u32(0));
                    continue;
                }
                (Word::Known(_), Word::Known(_)) => None,
                _ => {
                    let at = first_k.add(l, Word::Known(offset as i32)).reg(l);
                    Some(def!(l, Pred, "setp.lt.s32", "{at}, {end}"))
                }
            };
            let elements = self.k_stride().mul(l, Wide::Known(offset.into()));
            let code = match address {
                Some(address) => match elements {
                    Wide::Known(elements) => load_bits(
                        l,
                        self.region.space,
                        address,
                        apart + elements * self.size(),
                        bits,
                        inside,
                    ),
                    elements => {
                        let bytes = self.element_bytes(l, elements);
                        let address = advance(l, address, bytes);
                        load_bits(l, self.region.space, address, apart, bits, inside)
                    }
                },
                None => {
                    let at = index.add(l, elements);
                    load_code(l, &self.region, at, inside)
                }
            };
            codes.push(code);
        }
        let mut words = pack_bits(l, &codes, bits);
        if let Some(mask) = mask {
            for word in &mut words {
                *word = def!(l, B32, "and.b32", "{word}, {mask}");
            }
        }
        let mut values = widen(l, &words, n, self.region.format, unit);
        if self.scaled {
            for (e, value) in values.iter_mut().enumerate() {
                let offset = Self::offset(run, e as u32, self.whole);
                let at = first_k.add(l, Word::Known(offset as i32));
                // A position past the end has no scale; its element is zero.
                let last = end.add(l, Word::Known(-1));
                let at = at.min(l, last);
                let scale = self.element_scale(l, block, at, end);
                *value = def!(l, F32, "mul.rn.f32", "{value}, {scale}");
            }
        }
        values
    }

    /// The scale of an element of this lane's line.
    fn element_scale(&self, l: &mut Lower, block: u32, k: Word, end: Word) -> Reg {
        let Some(scales) = &self.region.scales else {
            return def!(l, F32, "mov.f32", "0f3F800000");
        };
        let (line, _) = self.clamped(l, block, 1, false);
        let line = self.start.add(l, Word::Reg(line));
        let mut number = Wide::Known(0);
        for (d, at) in [(self.outer, line), (self.k, k)] {
            let at = at.widen(l);
            let at = self.region.origin[d].add(l, at);
            let per_scale = i64::from(scales.block[d]);
            let at = match at {
                _ if per_scale == 1 => at,
                Wide::Known(at) => Wide::Known(at / per_scale),
                Wide::Reg(at) => Wide::Reg(def!(l, B64, "div.u64", "{at}, {per_scale}")),
            };
            let offset = at.mul(l, scales.strides[d]);
            number = number.add(l, offset);
        }
        let address = advance(l, scales.pointer, number);
        let something = match end {
            Word::Known(end) if end > 0 => None,
            end => {
                let end = end.reg(l);
                Some(def!(l, Pred, "setp.gt.s32", "{end}, 0"))
            }
        };
        let code = load_bits(l, scales.space, address, 0, 8, something);
        super::unit::decode_scale(l, code)
    }

    /// Bytes from this lane's line of block 0 to that of another one, where they are the same in all lanes.
    fn bytes_from_first(&self, map: Map, block: u32) -> Option<i64> {
        let all_inside = self.inside == Word::Known(self.lines as i32) && self.lines.is_multiple_of(8);
        let lines = i64::from(map.parts(block).2) - i64::from(map.parts(0).2);
        let bits = lines * self.outer_stride().known()? * i64::from(self.region.bits());
        (all_inside && self.places.is_none() && bits % 8 == 0).then_some(bits / 8)
    }

    /// Sets up addresses for whole windows.
    pub fn fast(&self, l: &mut Lower, run: u32) -> FastLines {
        let lane_k = match self.feed {
            Feed::Transposed => {
                // The lane that gets K pair t reads rows 2·t and 2·t + 1.
                let row = l.geometry.fragment_row;
                let half = def!(l, B32, "shr.u32", "{row}, 1");
                let odd = def!(l, B32, "and.b32", "{row}, 1");
                Word::Reg(def!(l, B32, "mad.lo.u32", "{half}, {run}, {odd}"))
            }
            _ => self.lane_k(l, run),
        };
        let along = lane_k.widen(l);
        let along = along.mul(l, self.k_stride());
        let (step_blocks, together) = match self.feed {
            Feed::Across(n) => (n, n),
            _ => (1, 1),
        };
        let mut addresses: Vec<(Reg, i64)> = Vec::new();
        let mut masks = Vec::new();
        for block in (0..self.blocks).step_by(step_blocks as usize) {
            let apart = match self.feed {
                Feed::Transposed => self.bytes_from_first(self.map.accumulated(), 2 * block),
                _ => self.bytes_from_first(self.map, block),
            };
            if let (Some(&(first, _)), Some(bytes)) = (addresses.first(), apart) {
                addresses.push((first, bytes));
                masks.push(None);
                continue;
            }
            let (begin, mask) = match self.feed {
                Feed::Transposed => {
                    // Pairs of lines of the block as the fragment's columns: 2·t and the next.
                    let mut pairs = self.clone();
                    pairs.map = self.map.accumulated();
                    pairs.begin(l, 2 * block, 2, false)
                }
                _ => self.begin(l, block, together, false),
            };
            let index = begin.add(l, along);
            let bytes = self.element_bytes(l, index);
            let address = advance(l, self.region.pointer, bytes);
            // Loops move it.
            let own = l.reg(address.class);
            ptx!(l, "mov.{} {own}, {address}", address.class.ptx());
            addresses.push((own, 0));
            masks.push(mask);
        }
        FastLines {
            lines: self.clone(),
            run,
            addresses,
            masks,
        }
    }
}

/// Lines with addresses for the loop over whole windows.
#[derive(Debug)]
pub(super) struct FastLines {
    lines: Lines,
    run: u32,
    /// Of each group of lines that are read together: a register and a constant number of bytes. Groups may share the first one's register.
    addresses: Vec<(Reg, i64)>,
    masks: Vec<Option<Reg>>,
}

impl FastLines {
    /// Moves on by some K.
    pub fn advance(&self, l: &mut Lower, k: u32) {
        let elements = self.lines.k_stride().mul(l, Wide::Known(k.into()));
        let bytes = self.lines.element_bytes(l, elements);
        for (at, &(address, _)) in self.addresses.iter().enumerate() {
            if at == 0 || address != self.addresses[0].0 {
                super::emit::step(l, address, bytes);
            }
        }
    }

    /// Groups of lines that are read together.
    pub fn groups(&self) -> u32 {
        self.addresses.len() as u32
    }

    /// The address of a group some K further, as a register and a constant number of bytes.
    fn place(&self, l: &mut Lower, (address, first): (Reg, i64), k: u32) -> (Reg, i64) {
        let elements = self.lines.k_stride().mul(l, Wide::Known(k.into()));
        match self.lines.element_bytes(l, elements) {
            Wide::Known(bytes) => (address, first + bytes),
            bytes => (advance(l, address, bytes), first),
        }
    }

    /// The words of a group's blocks for `n` elements of a lane that begin `k` after the current window's start.
    pub fn words(&self, l: &mut Lower, group: u32, k: u32, n: u32, unit: Unit) -> Vec<Vec<Reg>> {
        let lines = &self.lines;
        let format = lines.region.format;
        let address = self.addresses[group as usize];
        let raw = match lines.feed {
            Feed::Along => vec![self.raw_along(l, address, k, n)],
            Feed::Across(v) => self.raw_across(l, address, k, n, v),
            Feed::Transposed => vec![self.raw_transposed(l, address, k, n)],
            Feed::Single => vec![self.raw_single(l, address, k, n)],
        };
        raw.into_iter()
            .map(|mut raw| {
                if let Some(mask) = self.masks[group as usize] {
                    for word in &mut raw {
                        *word = def!(l, B32, "and.b32", "{word}, {mask}");
                    }
                }
                widen(l, &raw, n, format, unit)
            })
            .collect()
    }

    fn raw_along(&self, l: &mut Lower, (address, first): (Reg, i64), k: u32, n: u32) -> Vec<Reg> {
        let lines = &self.lines;
        let bits = lines.region.bits();
        let run = self.run.min(n);
        let mut words: Vec<Reg> = Vec::new();
        let mut parts: Vec<Reg> = Vec::new();
        for chunk in (0..n).step_by(run as usize) {
            let offset = first + i64::from((k + Lines::offset(self.run, chunk, lines.whole)) * bits / 8);
            let chunk_bits = run * bits;
            if chunk_bits >= 32 {
                for (i, piece) in (0..chunk_bits).step_by(128).enumerate() {
                    let count = ((chunk_bits - piece).min(128) / 32) as usize;
                    words.extend(load_words(l, lines, address, offset + 16 * i as i64, count));
                }
            } else {
                parts.push(load_bits(l, lines.region.space, address, offset, chunk_bits, None));
            }
        }
        if parts.is_empty() {
            words
        } else {
            pack_bits(l, &parts, run * bits)
        }
    }

    /// Runs of `v` neighbouring lines for each K, sorted into words of each line.
    fn raw_across(&self, l: &mut Lower, address: (Reg, i64), k: u32, n: u32, v: u32) -> Vec<Vec<Reg>> {
        let lines = &self.lines;
        let bits = lines.region.bits();
        let rows: Vec<Vec<Reg>> = (0..n)
            .map(|e| {
                let (address, offset) = self.place(l, address, k + Lines::offset(self.run, e, lines.whole));
                match v * bits {
                    narrow @ (8 | 16) => vec![load_bits(l, lines.region.space, address, offset, narrow, None)],
                    wide => load_words(l, lines, address, offset, (wide / 32) as usize),
                }
            })
            .collect();
        (0..v)
            .map(|line| {
                let at = line * bits;
                let (word, shift) = ((at / 32) as usize, at % 32);
                match bits {
                    32 => rows.iter().map(|row| row[word]).collect(),
                    16 => rows
                        .chunks(2)
                        .map(|pair| {
                            let selector = if shift == 0 { 0x5410 } else { 0x7632 };
                            let (low, high) = (pair[0][word], pair.get(1).unwrap_or(&pair[0])[word]);
                            def!(l, B32, "prmt.b32", "{low}, {high}, {selector}")
                        })
                        .collect(),
                    _ => rows
                        .chunks(4)
                        .map(|four| {
                            let byte = shift / 8;
                            let selector = byte | (4 + byte) << 4;
                            let pair = |l: &mut Lower, a: usize| {
                                let (low, high) = (four[a][word], four.get(a + 1).unwrap_or(&four[a])[word]);
                                def!(l, B32, "prmt.b32", "{low}, {high}, {selector}")
                            };
                            let low = pair(l, 0);
                            let high = if four.len() > 2 { pair(l, 2) } else { low };
                            def!(l, B32, "prmt.b32", "{low}, {high}, 0x5410")
                        })
                        .collect(),
                }
            })
            .collect()
    }

    fn raw_transposed(&self, l: &mut Lower, address: (Reg, i64), k: u32, n: u32) -> Vec<Reg> {
        let lines = &self.lines;
        (0..n)
            .step_by(2)
            .map(|e| {
                let (address, offset) = self.place(l, address, k + Lines::offset(self.run, e, false));
                let pair = load_bits(l, lines.region.space, address, offset, 32, None);
                def!(l, B32, "movmatrix.sync.aligned.m8n8.trans.b16", "{pair}")
            })
            .collect()
    }

    fn raw_single(&self, l: &mut Lower, address: (Reg, i64), k: u32, n: u32) -> Vec<Reg> {
        let lines = &self.lines;
        let bits = lines.region.bits();
        let codes: Vec<Reg> = (0..n)
            .map(|e| {
                let (address, offset) = self.place(l, address, k + Lines::offset(self.run, e, lines.whole));
                load_bits(l, lines.region.space, address, offset, bits, None)
            })
            .collect();
        pack_bits(l, &codes, bits)
    }
}

/// Loads 1, 2 or 4 words.
fn load_words(l: &mut Lower, lines: &Lines, address: Reg, offset: i64, count: usize) -> Vec<Reg> {
    let state = state_space(lines.region.space);
    let words: Vec<Reg> = (0..count).map(|_| l.reg(Class::B32)).collect();
    match count {
        1 => ptx!(l, "ld.{state}.b32 {}, [{address}+{offset}]", words[0]),
        _ => {
            let list: Vec<String> = words.iter().map(ToString::to_string).collect();
            ptx!(
                l,
                "ld.{state}.v{count}.b32 {{{}}}, [{address}+{offset}]",
                list.join(", ")
            );
        }
    }
    words
}

/// The best way to read an operand in whole windows, and a map for its lines if it may be chosen. `summed` is the map of the lines that a lane
/// sums, which is how fused multiply-adds read the right operand.
pub(super) fn feed_for(
    format: ElementFormat,
    along: bool,
    free_map: bool,
    lines: u32,
    unit: Unit,
    summed: Option<Map>,
) -> (Feed, Option<Map>) {
    let bits = format.bits() as u32;
    if along {
        return (Feed::Along, None);
    }
    if let (Unit::Fma, 8.., Some(map)) = (unit, bits, summed) {
        let run = map.neighbours();
        if run > 1 && lines.is_multiple_of(4 * run) {
            return (Feed::Across(run), None);
        }
    }
    if free_map && bits >= 8 && unit != Unit::Fma {
        let most = if bits == 8 { 8 } else { 128 / bits };
        let run = [8, 4, 2]
            .into_iter()
            .find(|&n| n <= most && lines.is_multiple_of(8 * n));
        if let Some(run) = run {
            return (Feed::Across(run), Some(Map::Run(run)));
        }
    }
    if bits == 16 && unit != Unit::Fma {
        return (Feed::Transposed, None);
    }
    if bits < 8 {
        // Codes inside bytes are found one by one in the other loop.
        return (Feed::Along, None);
    }
    (Feed::Single, None)
}
