//! The loop over K.
//!
//! What is read when decides how many registers a product takes beside its sums. Fused multiply-adds use a line's words as soon as they are there, since every lane
//! reads all lines; tensor cores take a window's words together. A loop that cannot use wide loads is a real one, also where an
//! operand is in registers, which then go round: unrolled, its addresses alone would take more registers than there are.

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

/// Multiply-adds in the body of a loop over registers, at most.
const MULTIPLY_ADDS: u32 = 512;

/// Sums of a thread that leave few registers for what they are made of, and the words that are then read ahead.
const MANY_SUMS: usize = 64;
const WORDS_AHEAD: usize = 64;

/// An operand's words in one window.
struct Window<'a> {
    source: Source<'a>,
    /// Elements of a lane.
    n: u32,
    unit: Unit,
}

enum Source<'a> {
    /// Wide loads, so far from where the loop stands.
    Fast(&'a FastLines, u32),
    /// Elements one by one: where the window begins, where K ends, neighbours of a lane.
    Slow(&'a Lines, Word, Word, u32),
    /// Registers from so far on.
    Registers(&'a Fragments, u32),
}

impl Window<'_> {
    /// The words of all lines.
    fn all(&self, l: &mut Lower) -> Vec<Vec<Reg>> {
        match self.source {
            Source::Registers(fragments, k) if self.unit != Unit::Fma => fragments.words(l, k, self.n, self.unit),
            _ => (0..self.groups()).flat_map(|group| self.group(l, group)).collect(),
        }
    }

    /// Groups of lines whose words come together.
    fn groups(&self) -> u32 {
        match self.source {
            Source::Fast(lines, _) => lines.groups(),
            Source::Slow(lines, ..) => lines.blocks,
            Source::Registers(fragments, _) => fragments.lines(),
        }
    }

    fn group(&self, l: &mut Lower, group: u32) -> Vec<Vec<Reg>> {
        match self.source {
            Source::Fast(lines, k) => lines.words(l, group, k, self.n, self.unit),
            Source::Slow(lines, k, end, run) => vec![lines.slow_words(l, group, k, end, run, self.n, self.unit)],
            Source::Registers(fragments, k) => vec![fragments.shuffled(l, group, k, self.n)],
        }
    }
}

impl Side {
    /// Registers that it takes for all of K.
    fn registers(&self, l: &Lower) -> usize {
        match self {
            Side::Memory(_) => 0,
            Side::Registers(fragments) => l.tile_registers(fragments.id).len(),
        }
    }
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
            let [a, b] = [&left, &right].map(|lines| self.window_of(Source::Fast(lines, 0), self.elements));
            self.accumulate(l, &a, &b, |l| {
                let loaded = scales.as_ref().map(|scales| scales.load(l));
                for lines in [&left, &right] {
                    lines.advance(l, window);
                }
                if let Some(scales) = &scales {
                    scales.advance(l);
                }
                loaded
            });
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
            let [a, b] = [left, right].map(|lines| self.window_of(Source::Slow(lines, Word::Reg(k), end, run), n));
            self.accumulate(l, &a, &b, |l| self.scales.map(|scales| scales.load_at(l, k)));
            ptx!(l, "mov.b32 {k}, {next}");
            ptx!(l, "bra.uni {again}");
        }
        l.writer.place(done);
    }

    fn window_of<'a>(&self, source: Source<'a>, n: u32) -> Window<'a> {
        let unit = self.unit;
        Window { source, n, unit }
    }

    /// With an operand in registers, K is known.
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
            let windows = k_length.div_ceil(window);
            let held: usize = [self.left, self.right].map(|side| side.registers(l)).iter().sum();
            let crowded = held + self.sums.regs.len() >= 2 * MANY_SUMS && l.has_many_tile_registers();
            let most = match self.unit {
                Unit::Fma => (MULTIPLY_ADDS / (self.sums.regs.len() as u32 * n)).max(1),
                _ if crowded => 2,
                _ => windows,
            };
            let together = (1..=windows.min(most)).rev().find(|&n| windows.is_multiple_of(n));
            let together = together.unwrap_or(windows);
            self.round(l, windows, together, window, |l, at| {
                let [a, b] = [self.left, self.right].map(|side| match (side, &lines) {
                    (Side::Registers(fragments), _) => self.window_of(Source::Registers(fragments, at), n),
                    (_, Some(lines)) => self.window_of(Source::Fast(lines, at), n),
                    (Side::Memory(_), None) => unreachable!("its addresses are set up"),
                });
                self.accumulate(l, &a, &b, |l| {
                    if let Some(lines) = &lines
                        && together < windows
                        && at == (together - 1) * window
                    {
                        lines.advance(l, together * window);
                    }
                    None
                });
            });
            if condition.is_none() {
                return;
            }
            ptx!(l, "bra.uni {done}");
        }
        l.writer.place(slow);
        let k = l.u32(0);
        self.round(l, k_length.div_ceil(window), 1, window, |l, _| {
            let [a, b] = [self.left, self.right].map(|side| match side {
                Side::Registers(fragments) => self.window_of(Source::Registers(fragments, 0), n),
                Side::Memory(lines) => self.window_of(Source::Slow(lines, Word::Reg(k), self.end, run), n),
            });
            self.accumulate(l, &a, &b, |l| {
                ptx!(l, "add.s32 {k}, {k}, {window}");
                None
            });
        });
        l.writer.place(done);
    }

    /// A loop over windows, so many `together` in its body, which is told where each begins in it. Operands in registers go round meanwhile, so that the
    /// body finds those of its windows in the same registers each time.
    fn round(&self, l: &mut Lower, windows: u32, together: u32, window: u32, body: impl Fn(&mut Lower, u32)) {
        if windows == 0 {
            return;
        }
        let loops = windows > together;
        let rings: Vec<Vec<Vec<Reg>>> = [self.left, self.right]
            .into_iter()
            .filter_map(|side| match side {
                Side::Registers(fragments) if loops => Some(fragments.ring(l, windows * window / 8)),
                _ => None,
            })
            .collect();
        let left = l.u32(windows);
        let again = l.writer.label();
        l.writer.place(again);
        for at in 0..together {
            body(l, at * window);
        }
        if loops {
            for ring in &rings {
                rotate(l, ring, (together * window / 8) as usize);
            }
            ptx!(l, "sub.s32 {left}, {left}, {together}");
            let more = def!(l, Pred, "setp.gt.s32", "{left}, 0");
            branch_if(l, more, again);
        }
    }

    /// Multiplies the words of a window: those of row blocks by those of column blocks. `then` comes when all are read, and brings the scales.
    fn accumulate(
        &self,
        l: &mut Lower,
        a: &Window<'_>,
        b: &Window<'_>,
        then: impl FnOnce(&mut Lower) -> Option<super::scales::Loaded>,
    ) {
        let (sums, n) = (self.sums, a.n);
        if self.unit == Unit::Fma {
            l.multiply_adds = true;
            let a = a.all(l);
            // The assembler would read all lines first, which takes more registers than there are if most have sums.
            let sparing = matches!(b.source, Source::Slow(..)) || sums.regs.len() >= MANY_SUMS;
            let (mut column, mut words) = (0, 0);
            for group in 0..b.groups() {
                if sparing && words >= WORDS_AHEAD {
                    // Loads are not moved over this.
                    ptx!(l, "bar.warp.sync 0xffffffff");
                    words = 0;
                }
                for line in b.group(l, group) {
                    words += line.len();
                    for (e, y) in line.iter().enumerate() {
                        for rb in 0..sums.row_blocks {
                            let (d, x) = (sums.at(rb, column / 2, column % 2), a[rb as usize][e]);
                            ptx!(l, "fma.rn.f32 {d}, {x}, {y}, {d}");
                        }
                    }
                    column += 1;
                }
            }
            then(l);
            return;
        }
        let (a, b) = (&a.all(l), &b.all(l));
        let scales = then(l);
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
        if let Some(scales) = &scales {
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

/// Moves each block of registers to the one so many before it, the first ones to the end.
fn rotate(l: &mut Lower, ring: &[Vec<Reg>], by: usize) {
    let first: Vec<Vec<Reg>> = ring[..by]
        .iter()
        .map(|block| block.iter().map(|&reg| l.copy(reg)).collect())
        .collect();
    for (to, from) in ring.iter().zip(ring[by..].iter().chain(&first)) {
        for (to, from) in to.iter().zip(from) {
            ptx!(l, "mov.{} {to}, {from}", to.class.ptx());
        }
    }
}
