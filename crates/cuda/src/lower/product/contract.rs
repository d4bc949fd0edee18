//! The loop over K.

use super::emit::{Word, both, branch_if, branch_unless, def};
use super::fragments::Fragments;
use super::lines::{FastLines, Lines};
use super::scales::Scales;
use super::unit::{Unit, multiply};
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// An operand of a tile.
pub(super) enum Side {
    /// In memory.
    Memory(Box<Lines>),
    /// In registers, for all of K.
    Registers(Fragments),
}

/// The sums of a tile in `mma` order: register (rb, nb, i) of a lane.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    pub row_blocks: u32,
    pub column_blocks: u32,
    pub regs: Vec<Reg>,
}

impl Sums {
    /// New sums of zero.
    pub fn zero(l: &mut Lower, row_blocks: u32, column_blocks: u32, class: Class) -> Sums {
        let regs = (0..row_blocks * column_blocks * 2).map(|_| l.reg(class)).collect();
        let sums = Sums {
            row_blocks,
            column_blocks,
            regs,
        };
        sums.clear(l);
        sums
    }

    /// Sets all to zero.
    pub fn clear(&self, l: &mut Lower) {
        for reg in &self.regs {
            match reg.class {
                Class::F32 => ptx!(l, "mov.f32 {reg}, 0f00000000"),
                _ => ptx!(l, "mov.b32 {reg}, 0"),
            }
        }
    }

    pub fn at(&self, rb: u32, nb: u32, i: u32) -> Reg {
        self.regs[((rb * self.column_blocks + nb) * 2 + i) as usize]
    }

    /// The registers of a 16 × 8 block; rows that do not exist are `spare`.
    fn block(&self, mb: u32, nb: u32, spare: &[Reg; 2]) -> [Reg; 4] {
        let high = 2 * mb + 1 < self.row_blocks;
        let at = |half: u32, i: u32| match half {
            1 if !high => spare[i as usize],
            half => self.at(2 * mb + half, nb, i),
        };
        [at(0, 0), at(0, 1), at(1, 0), at(1, 1)]
    }
}

/// One tile's product: `sums += left · right` over K below `end`.
pub(super) struct Contraction<'a> {
    pub unit: Unit,
    pub left: &'a Side,
    pub right: &'a Side,
    pub sums: &'a Sums,
    /// Where K ends, for operands in memory: what lies past it counts as zero.
    pub end: Word,
    /// K as a number: needed for operands in registers.
    pub known: Option<u32>,
    /// Neighbours along K of a lane.
    pub run: u32,
    /// Elements of a lane in a window of the fast loop.
    pub elements: u32,
    /// Block scales.
    pub scales: Option<&'a Scales>,
}

impl Contraction<'_> {
    /// K of a window of `n` elements of a lane.
    fn window(&self, n: u32) -> u32 {
        if self.unit == Unit::Fma { n } else { 4 * n }
    }

    /// Elements and run of a window of the loop that looks at every element.
    fn slow(&self) -> (u32, u32) {
        let registers = [self.left, self.right]
            .iter()
            .any(|side| matches!(side, Side::Registers(_)));
        match self.unit {
            Unit::Fma if registers => (8, 8),
            Unit::Fma => (2, 2),
            _ if registers => (self.unit.per_lane().max(self.run), self.run),
            unit => (unit.per_lane(), unit.per_lane()),
        }
    }

    /// Emits the loop.
    pub fn emit(&self, l: &mut Lower) {
        match (self.left, self.right) {
            (Side::Memory(left), Side::Memory(right)) => self.rolled(l, left, right),
            _ => self.unrolled(l),
        }
    }

    fn rolled(&self, l: &mut Lower, left: &Lines, right: &Lines) {
        let k = l.u32(0);
        let done = l.writer.label();
        let conditions = match (left.fast_condition(l, self.run), right.fast_condition(l, self.run)) {
            (Ok(a), Ok(b)) => Some(both(l, a, b)),
            _ => None,
        };
        let condition = match (conditions, self.scales) {
            (Some(condition), Some(scales)) => scales
                .fast_condition(l, self.window(self.elements))
                .map(|scaled| both(l, condition, scaled)),
            (condition, _) => condition,
        };
        let window = self.window(self.elements);
        let slow = l.writer.label();
        let known_short = matches!(self.end, Word::Known(end) if (end as u32) < window);
        if let Some(condition) = condition.filter(|_| !known_short) {
            if let Some(condition) = condition {
                branch_unless(l, condition, slow);
            }
            let end = self.end.reg(l);
            let whole = def!(l, B32, "and.b32", "{end}, {}", -(window as i32));
            let none = def!(l, Pred, "setp.lt.s32", "{end}, {window}");
            branch_if(l, none, slow);
            let left = left.fast(l, self.run);
            let right = right.fast(l, self.run);
            let scales = self.scales.map(|scales| scales.fast(l));
            let again = l.writer.label();
            l.writer.place(again);
            let a = left.words(l, 0, self.elements, self.unit);
            let b = right.words(l, 0, self.elements, self.unit);
            let loaded = scales.as_ref().map(|scales| scales.load(l));
            advance(l, &[&left, &right], window);
            if let Some(scales) = &scales {
                scales.advance(l);
            }
            self.accumulate(l, &a, &b, self.elements, loaded.as_ref());
            ptx!(l, "add.s32 {k}, {k}, {window}");
            let more = def!(l, Pred, "setp.lt.s32", "{k}, {whole}");
            branch_if(l, more, again);
        }
        l.writer.place(slow);
        let whole_windows = matches!(self.end, Word::Known(end) if (end as u32).is_multiple_of(window));
        if !(whole_windows && matches!(condition, Some(None)) && !known_short) {
            let (n, run) = self.slow();
            let again = l.writer.label();
            l.writer.place(again);
            let finished = def!(l, Pred, "setp.ge.s32", "{k}, {}", self.end);
            branch_if(l, finished, done);
            let window = self.window(n);
            let next = def!(l, B32, "add.s32", "{k}, {window}");
            let next = match self.scales {
                Some(scales) => scales.boundary(l, k, next),
                None => next,
            };
            let end = self.end.min(l, Word::Reg(next));
            let words = |l: &mut Lower, lines: &Lines| -> Vec<Vec<Reg>> {
                (0..lines.blocks)
                    .map(|block| lines.slow_words(l, block, Word::Reg(k), end, run, n, self.unit))
                    .collect()
            };
            let a = words(l, left);
            let b = words(l, right);
            let loaded = self.scales.map(|scales| scales.load_at(l, k));
            self.accumulate(l, &a, &b, n, loaded.as_ref());
            ptx!(l, "mov.b32 {k}, {next}");
            ptx!(l, "bra.uni {again}");
        }
        l.writer.place(done);
    }

    /// With an operand in registers every window is code of its own.
    fn unrolled(&self, l: &mut Lower) {
        let k_length = self.known.unwrap_or(0);
        let (n, run) = self.slow();
        let window = self.window(n);
        let memory = match (self.left, self.right) {
            (Side::Memory(lines), _) | (_, Side::Memory(lines)) => Some(lines),
            _ => None,
        };
        let slow = l.writer.label();
        let done = l.writer.label();
        let fast = match memory {
            Some(lines) if k_length.is_multiple_of(window) => lines.fast_condition(l, run).ok(),
            Some(_) => None,
            None => Some(None),
        };
        if let Some(condition) = fast {
            let whole = match self.end {
                _ if memory.is_none() => None,
                Word::Known(end) if end as u32 == k_length => None,
                end => {
                    let end = end.reg(l);
                    Some(def!(l, Pred, "setp.eq.s32", "{end}, {k_length}"))
                }
            };
            let condition = both(l, condition, whole);
            if let Some(condition) = condition {
                branch_unless(l, condition, slow);
            }
            let lines = memory.map(|lines| lines.fast(l, run));
            for k in (0..k_length).step_by(window as usize) {
                let words = |l: &mut Lower, side: &Side| match (side, &lines) {
                    (Side::Registers(fragments), _) => fragments.words(l, k, n, self.unit),
                    (_, Some(lines)) => lines.words(l, k, n, self.unit),
                    _ => Vec::new(),
                };
                let a = words(l, self.left);
                let b = words(l, self.right);
                self.accumulate(l, &a, &b, n, None);
            }
            if condition.is_none() {
                return;
            }
            ptx!(l, "bra.uni {done}");
        }
        l.writer.place(slow);
        for k in (0..k_length).step_by(window as usize) {
            let words = |l: &mut Lower, side: &Side| match side {
                Side::Registers(fragments) => fragments.words(l, k, n, self.unit),
                Side::Memory(lines) => (0..lines.blocks)
                    .map(|block| lines.slow_words(l, block, Word::Known(k as i32), self.end, run, n, self.unit))
                    .collect(),
            };
            let a = words(l, self.left);
            let b = words(l, self.right);
            self.accumulate(l, &a, &b, n, None);
        }
        l.writer.place(done);
    }

    /// Multiplies a window's words: those of row blocks by those of column blocks.
    fn accumulate(
        &self,
        l: &mut Lower,
        a: &[Vec<Reg>],
        b: &[Vec<Reg>],
        n: u32,
        scales: Option<&super::scales::Loaded>,
    ) {
        let sums = self.sums;
        if self.unit == Unit::Fma {
            for e in 0..n as usize {
                for rb in 0..sums.row_blocks {
                    for nb in 0..sums.column_blocks {
                        for i in 0..2 {
                            let d = sums.at(rb, nb, i);
                            let (x, y) = (a[rb as usize][e], b[(2 * nb + i) as usize][e]);
                            ptx!(l, "fma.rn.f32 {d}, {x}, {y}, {d}");
                        }
                    }
                }
            }
            return;
        }
        let class = sums.regs[0].class;
        let steps = (n / self.unit.per_lane()) as usize;
        let nothing = (!sums.row_blocks.is_multiple_of(2)).then(|| [l.u32(0); 2]);
        let clear = |l: &mut Lower| {
            let reg = l.reg(class);
            match class {
                Class::F32 => ptx!(l, "mov.f32 {reg}, 0f00000000"),
                _ => ptx!(l, "mov.b32 {reg}, 0"),
            }
            reg
        };
        let spare = if nothing.is_some() {
            [clear(l), clear(l)]
        } else {
            [sums.regs[0]; 2]
        };
        let words = |lines: &[Vec<Reg>], block: u32, step: usize| -> [Reg; 2] {
            match (lines.get(block as usize), nothing) {
                (Some(words), _) => [words[2 * step], words[2 * step + 1]],
                (None, Some(nothing)) => nothing,
                (None, None) => unreachable!("lines of all blocks were loaded"),
            }
        };
        let row_pairs = sums.row_blocks.div_ceil(2);
        if let Some(scales) = scales {
            for mb in 0..row_pairs {
                for nb in 0..sums.column_blocks {
                    let partial = [clear(l), clear(l), clear(l), clear(l)];
                    for step in 0..steps {
                        let (low, high) = (words(a, 2 * mb, step), words(a, 2 * mb + 1, step));
                        multiply(l, self.unit, partial, &low, &high, &words(b, nb, step));
                    }
                    for half in 0..2 {
                        if 2 * mb + half < sums.row_blocks {
                            for i in 0..2 {
                                let to = sums.at(2 * mb + half, nb, i);
                                scales.add(l, to, partial[(2 * half + i) as usize], 2 * mb + half, 2 * nb + i);
                            }
                        }
                    }
                }
            }
            return;
        }
        for step in 0..steps {
            for mb in 0..row_pairs {
                let (low, high) = (words(a, 2 * mb, step), words(a, 2 * mb + 1, step));
                for nb in 0..sums.column_blocks {
                    let d = sums.block(mb, nb, &spare);
                    multiply(l, self.unit, d, &low, &high, &words(b, nb, step));
                }
            }
        }
    }
}

fn advance(l: &mut Lower, sides: &[&FastLines], k: u32) {
    for side in sides {
        side.advance(l, k);
    }
}
