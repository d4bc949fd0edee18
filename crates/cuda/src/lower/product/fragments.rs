//! Operands in registers: cooperative tensors as lines along K.

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopId, Scalar};

use super::emit::def;
use super::unit::{Unit, widen};
use crate::lower::coop::{Storage, Tile};
use crate::lower::{ColumnMap, Lower};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A cooperative operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragments {
    pub id: CoopId,
    pub tile: Tile,
    /// Lines are rows of the tile, K its columns; else the other way.
    pub by_rows: bool,
    /// The right operand.
    pub right: bool,
    /// Lines are wanted in the order of layout R's columns ([`super::lines::Map::R`]), not the natural one.
    pub wants_r: bool,
    /// Neighbours along K of a lane: 2, or 4.
    pub run: u32,
}

impl Fragments {
    /// How many neighbours along K a lane has without an exchange.
    pub fn natural_run(tile: &Tile, by_rows: bool) -> u32 {
        if by_rows && tile.column_map == ColumnMap::R {
            4
        } else {
            2
        }
    }

    fn blocks(&self) -> u32 {
        if self.by_rows {
            self.tile.row_blocks
        } else {
            self.tile.column_blocks
        }
    }

    fn lines_are_r(&self) -> bool {
        !self.by_rows && self.tile.column_map == ColumnMap::R
    }

    /// The words of all blocks for `n` elements of a lane from `k` on.
    pub fn words(&self, l: &mut Lower, k: u32, n: u32, unit: Unit) -> Vec<Vec<Reg>> {
        let mut lines: Vec<Vec<[Reg; 2]>> = (0..self.blocks())
            .map(|block| (0..n / 2).map(|p| self.pair(l, block, k / 8 + p)).collect())
            .collect();
        if self.run != Self::natural_run(&self.tile, self.by_rows) {
            for line in &mut lines {
                *line = line.chunks(2).flat_map(|pairs| spread_k(l, pairs)).collect();
            }
        }
        if self.wants_r != self.lines_are_r() {
            lines = exchange_lines(l, &lines, self.wants_r);
        }
        lines.into_iter().map(|pairs| self.finish(l, &pairs, unit)).collect()
    }

    /// What a lane holds of a block of lines and of 8 K: in one word twice, or an element a word.
    fn pair(&self, l: &mut Lower, block: u32, k_block: u32) -> [Reg; 2] {
        let (rb, nb) = if self.by_rows {
            (block, k_block)
        } else {
            (k_block, block)
        };
        if rb >= self.tile.row_blocks || nb >= self.tile.column_blocks {
            return [l.u32(0); 2];
        }
        let transposed = |l: &mut Lower, word: Reg| def!(l, B32, "movmatrix.sync.aligned.m8n8.trans.b16", "{word}");
        match self.tile.storage {
            Storage::Pairs => {
                let word = l.tile_pair(self.id, rb, nb);
                let word = if self.by_rows { word } else { transposed(l, word) };
                [word; 2]
            }
            Storage::Single => {
                let words = [0, 1].map(|i| {
                    let reg = l.tile_reg(self.id, rb, nb, i);
                    def!(l, B32, "mov.b32", "{reg}")
                });
                if self.by_rows {
                    return words;
                }
                // By halves.
                let [a, b] = words;
                let low = def!(l, B32, "prmt.b32", "{a}, {b}, 0x5410");
                let high = def!(l, B32, "prmt.b32", "{a}, {b}, 0x7632");
                let (low, high) = (transposed(l, low), transposed(l, high));
                let first = def!(l, B32, "prmt.b32", "{low}, {high}, 0x5410");
                [first, def!(l, B32, "prmt.b32", "{low}, {high}, 0x7632")]
            }
        }
    }

    /// Words of the unit from pairs.
    fn finish(&self, l: &mut Lower, pairs: &[[Reg; 2]], unit: Unit) -> Vec<Reg> {
        let element = self.tile.element;
        if self.tile.storage == Storage::Single {
            let words: Vec<Reg> = pairs.iter().flatten().copied().collect();
            return widen(l, &words, words.len() as u32, ElementFormat::F32, unit);
        }
        let words: Vec<Reg> = pairs.iter().map(|pair| pair[0]).collect();
        match element {
            Scalar::F16 => widen(l, &words, 2 * words.len() as u32, ElementFormat::F16, unit),
            Scalar::BF16 => widen(l, &words, 2 * words.len() as u32, ElementFormat::BF16, unit),
            _ => {
                // The low bytes of halves.
                let bytes: Vec<Reg> = words
                    .chunks(2)
                    .map(|pair| {
                        let second = pair.get(1).unwrap_or(&pair[0]);
                        def!(l, B32, "prmt.b32", "{}, {second}, 0x6420", pair[0])
                    })
                    .collect();
                let format = if element == Scalar::I8 {
                    ElementFormat::I8
                } else {
                    ElementFormat::U8
                };
                widen(l, &bytes, 2 * words.len() as u32, format, unit)
            }
        }
    }

    /// The lines that a lane sums by fused multiply-adds: rows g, or columns 2·t + i.
    pub fn lines(&self) -> u32 {
        if self.right { 2 * self.blocks() } else { self.blocks() }
    }

    /// For fused multiply-adds: of one of these lines, `n` elements from `k` on.
    pub fn shuffled(&self, l: &mut Lower, line: u32, k: u32, n: u32) -> Vec<Reg> {
        let (g, t) = (l.geometry.fragment_row, l.geometry.fragment_pair);
        (k..k + n)
            .map(|k| {
                let (k_block, in_block) = (k / 8, k % 8);
                let (block, i) = if self.right { (line / 2, line % 2) } else { (line, 0) };
                match (self.by_rows, self.right) {
                    (true, false) => {
                        let lane = def!(l, B32, "mad.lo.u32", "{g}, 4, {}", in_block / 2);
                        self.fetch(l, block, k_block, in_block % 2, lane)
                    }
                    (true, true) => {
                        let lane = def!(l, B32, "mad.lo.u32", "{t}, 8, {}", 4 * i + in_block / 2);
                        self.fetch(l, block, k_block, in_block % 2, lane)
                    }
                    (false, true) => {
                        let lane = def!(l, B32, "add.u32", "{t}, {}", 4 * in_block);
                        self.fetch(l, k_block, block, i, lane)
                    }
                    (false, false) => {
                        let half = def!(l, B32, "shr.u32", "{g}, 1");
                        let lane = def!(l, B32, "add.u32", "{half}, {}", 4 * in_block);
                        let low = self.fetch(l, k_block, block, 0, lane);
                        let high = self.fetch(l, k_block, block, 1, lane);
                        let odd = def!(l, B32, "and.b32", "{g}, 1");
                        let odd = def!(l, Pred, "setp.ne.u32", "{odd}, 0");
                        def!(l, F32, "selp.f32", "{high}, {low}, {odd}")
                    }
                }
            })
            .collect()
    }

    /// The registers of each block of 8 K, of so many blocks: where the tile has none, registers of zero.
    pub fn ring(&self, l: &mut Lower, k_blocks: u32) -> Vec<Vec<Reg>> {
        let registers = l.tile_registers(self.id);
        let tile = &self.tile;
        let each = match tile.storage {
            Storage::Single => 2,
            Storage::Pairs => 1,
        };
        let (own, others) = if self.by_rows {
            (tile.column_blocks, tile.row_blocks)
        } else {
            (tile.row_blocks, tile.column_blocks)
        };
        (0..k_blocks)
            .map(|k_block| {
                let at = |other: u32, i: u32| {
                    let block = if self.by_rows {
                        other * own + k_block
                    } else {
                        k_block * others + other
                    };
                    (block * each + i) as usize
                };
                let all = (0..others).flat_map(|other| (0..each).map(move |i| (other, i)));
                if k_block < own {
                    all.map(|(other, i)| registers[at(other, i)]).collect()
                } else {
                    all.map(|_| {
                        let zero = l.reg(registers[0].class);
                        ptx!(
                            l,
                            "mov.{} {zero}, 0{}",
                            zero.class.ptx(),
                            if zero.class == Class::F32 { "f00000000" } else { "" }
                        );
                        zero
                    })
                    .collect()
                }
            })
            .collect()
    }

    /// The element (rb, nb, i) of a lane as `f32`.
    fn fetch(&self, l: &mut Lower, rb: u32, nb: u32, i: u32, lane: Reg) -> Reg {
        if rb >= self.tile.row_blocks || nb >= self.tile.column_blocks {
            return def!(l, F32, "mov.f32", "0f00000000");
        }
        match self.tile.storage {
            Storage::Single => {
                let reg = l.tile_reg(self.id, rb, nb, i);
                let from = def!(l, B32, "mov.b32", "{reg}");
                let word = shuffle(l, from, lane);
                def!(l, F32, "mov.b32", "{word}")
            }
            Storage::Pairs => {
                let pair = l.tile_pair(self.id, rb, nb);
                let word = shuffle(l, pair, lane);
                let half = if i == 0 {
                    word
                } else {
                    def!(l, B32, "shr.u32", "{word}, 16")
                };
                let format = match self.tile.element {
                    Scalar::F16 => ElementFormat::F16,
                    Scalar::BF16 => ElementFormat::BF16,
                    Scalar::I8 => ElementFormat::I8,
                    _ => ElementFormat::U8,
                };
                super::unit::floats(l, &[half], 1, format)[0]
            }
        }
    }
}

fn shuffle(l: &mut Lower, word: Reg, lane: Reg) -> Reg {
    def!(l, B32, "shfl.sync.idx.b32", "{word}, {lane}, 31, 0xffffffff")
}

/// A word of another lane, the first or the second one as a condition of this lane says.
fn choose(l: &mut Lower, words: [Reg; 2], lane: Reg, second: Reg) -> Reg {
    let a = shuffle(l, words[0], lane);
    let b = shuffle(l, words[1], lane);
    def!(l, B32, "selp.b32", "{b}, {a}, {second}")
}

/// From K 8·p + 2·t + i of two pairs to K 4·t + 2·p + i.
fn spread_k(l: &mut Lower, pairs: &[[Reg; 2]]) -> Vec<[Reg; 2]> {
    let (g, t) = (l.geometry.fragment_row, l.geometry.fragment_pair);
    let upper = def!(l, Pred, "setp.gt.u32", "{t}, 1");
    let zero = l.u32(0);
    (0..2)
        .map(|j| {
            let twice = def!(l, B32, "mad.lo.u32", "{t}, 2, {j}");
            let of_row = def!(l, B32, "and.b32", "{twice}, 3");
            let lane = def!(l, B32, "mad.lo.u32", "{g}, 4, {of_row}");
            let second = pairs.get(1).copied().unwrap_or([zero; 2]);
            let first = choose(l, [pairs[0][0], second[0]], lane, upper);
            if pairs[0][0] == pairs[0][1] {
                return [first; 2];
            }
            [first, choose(l, [pairs[0][1], second[1]], lane, upper)]
        })
        .collect()
}

/// Exchanges lines between lanes in groups of 16: to the order of layout R, or from it to the natural one.
fn exchange_lines(l: &mut Lower, lines: &[Vec<[Reg; 2]>], to_r: bool) -> Vec<Vec<[Reg; 2]>> {
    let (g, t) = (l.geometry.fragment_row, l.geometry.fragment_pair);
    let zero = l.u32(0);
    let mut out = Vec::new();
    for group in lines.chunks(2) {
        for j in 0..2 {
            let (row, second) = if to_r {
                // Line 4·(g / 2) + 2·j + g % 2 lies in block line / 8 at row line % 8.
                let half = def!(l, B32, "shr.u32", "{g}, 1");
                let odd = def!(l, B32, "and.b32", "{g}, 1");
                let line = def!(l, B32, "mad.lo.u32", "{half}, 4, {odd}");
                let line = def!(l, B32, "add.u32", "{line}, {}", 2 * j);
                let second = def!(l, Pred, "setp.gt.u32", "{line}, 7");
                (def!(l, B32, "and.b32", "{line}, 7"), second)
            } else {
                // Line 8·j + g lies in block (g / 2) % 2 at row 2·(line / 4) + g % 2.
                let quarter = def!(l, B32, "shr.u32", "{g}, 2");
                let odd = def!(l, B32, "and.b32", "{g}, 1");
                let row = def!(l, B32, "mad.lo.u32", "{quarter}, 2, {odd}");
                let row = def!(l, B32, "add.u32", "{row}, {}", 4 * j);
                let bit = def!(l, B32, "and.b32", "{g}, 2");
                (row, def!(l, Pred, "setp.ne.u32", "{bit}, 0"))
            };
            let lane = def!(l, B32, "mad.lo.u32", "{row}, 4, {t}");
            let line = (0..group[0].len())
                .map(|p| {
                    let first = group[0][p];
                    let other = group.get(1).map_or([zero; 2], |line| line[p]);
                    let low = choose(l, [first[0], other[0]], lane, second);
                    if first[0] == first[1] {
                        return [low; 2];
                    }
                    [low, choose(l, [first[1], other[1]], lane, second)]
                })
                .collect();
            out.push(line);
        }
    }
    out.truncate(lines.len().next_multiple_of(2));
    out
}
