//! Where sums go.

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopId, Scalar};

use super::contract::Sums;
use super::emit::{Wide, Word, advance, both, branch_if, branch_unless, def, state_space};
use super::lines::Map;
use super::region::{Region, load_bits};
use super::unit::{floats, narrow_pair, widen_pair};
use crate::lower::Lower;
use crate::lower::coop::Storage;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A tile of a destination in memory.
pub(super) struct Target<'a> {
    pub region: &'a Region,
    /// Which row a lane's row block is.
    pub rows: Map,
    /// Which column a lane's (nb, i) is.
    pub columns: Map,
    /// First row and column of the tile in the region.
    pub start: [Word; 2],
    /// Rows and columns of the tile.
    pub size: [u32; 2],
    pub accumulate: bool,
    /// For rows that are no line of the region: of each row block the element number of its first element, and whether it is inside.
    pub places: Option<Vec<(Reg, Reg)>>,
}

/// Sums whose lines were not inside count as zero: `inside` lines of `lines` by map. For rows, then for columns.
pub(super) fn clear_outside(l: &mut Lower, sums: &Sums, maps: [Map; 2], inside: [Word; 2], lines: [u32; 2]) {
    let whole = |side: usize| inside[side] == Word::Known(lines[side] as i32);
    if whole(0) && whole(1) {
        return;
    }
    let skip = l.writer.label();
    let mut all = None;
    for side in 0..2 {
        if !whole(side) {
            let inside = inside[side].reg(l);
            let full = def!(l, Pred, "setp.ge.s32", "{inside}, {}", lines[side]);
            all = both(l, all, Some(full));
        }
    }
    if let Some(all) = all {
        branch_if(l, all, skip);
    }
    let zero = if sums.regs[0].class == Class::F32 {
        "0f00000000"
    } else {
        "0"
    };
    let class = sums.regs[0].class;
    for rb in 0..sums.row_blocks {
        if !whole(0) {
            let row = maps[0].line(l, rb);
            let keep = def!(l, Pred, "setp.lt.s32", "{row}, {}", inside[0]);
            for nb in 0..sums.column_blocks {
                for i in 0..2 {
                    let sum = sums.at(rb, nb, i);
                    ptx!(l, "selp.{} {sum}, {sum}, {zero}, {keep}", class.ptx());
                }
            }
        }
    }
    if !whole(1) {
        for nb in 0..sums.column_blocks {
            for i in 0..2 {
                let column = maps[1].line(l, 2 * nb + i);
                let keep = def!(l, Pred, "setp.lt.s32", "{column}, {}", inside[1]);
                for rb in 0..sums.row_blocks {
                    let sum = sums.at(rb, nb, i);
                    ptx!(l, "selp.{} {sum}, {sum}, {zero}, {keep}", class.ptx());
                }
            }
        }
    }
    l.writer.place(skip);
}

/// A sum in the class of what is stored, as 32 bits or an `f16`'s in the low half: rounded once, after `old` (the bits that were there)
/// is added.
fn finish(l: &mut Lower, sum: Reg, old: Option<Reg>, format: ElementFormat) -> Reg {
    use ElementFormat as E;
    let integers = sum.class == Class::B32;
    match (integers, format) {
        (true, E::I32 | E::U32) => match old {
            Some(old) => def!(l, B32, "add.s32", "{sum}, {old}"),
            None => sum,
        },
        (true, _) => {
            // Through f64, which has every sum exactly: the result is rounded once.
            let mut value = def!(l, B64, "cvt.rn.f64.s32", "{sum}");
            if let Some(old) = old {
                let old = floats(l, &[old], 1, format)[0];
                let old = def!(l, B64, "cvt.f64.f32", "{old}");
                value = def!(l, B64, "add.rn.f64", "{value}, {old}");
            }
            match format {
                E::F16 => {
                    let half = def!(l, B16, "cvt.rn.f16.f64", "{value}");
                    def!(l, B32, "cvt.u32.u16", "{half}")
                }
                E::BF16 => {
                    let float = def!(l, F32, "cvt.rn.f32.f64", "{value}");
                    let half = def!(l, B16, "cvt.rn.bf16.f32", "{float}");
                    def!(l, B32, "cvt.u32.u16", "{half}")
                }
                _ => {
                    let float = def!(l, F32, "cvt.rn.f32.f64", "{value}");
                    def!(l, B32, "mov.b32", "{float}")
                }
            }
        }
        (false, _) => {
            let value = match old {
                Some(old) => {
                    let old = floats(l, &[old], 1, format)[0];
                    def!(l, F32, "add.rn.f32", "{sum}, {old}")
                }
                None => sum,
            };
            match format {
                E::F16 => {
                    let half = def!(l, B16, "cvt.rn.f16.f32", "{value}");
                    def!(l, B32, "cvt.u32.u16", "{half}")
                }
                E::BF16 => {
                    let half = def!(l, B16, "cvt.rn.bf16.f32", "{value}");
                    def!(l, B32, "cvt.u32.u16", "{half}")
                }
                E::I32 | E::U32 => def!(l, B32, "cvt.rzi.s32.f32", "{value}"),
                _ => def!(l, B32, "mov.b32", "{value}"),
            }
        }
    }
}

/// Writes one sum as the element of a number.
pub(super) fn store_one(l: &mut Lower, region: &Region, index: Wide, sum: Reg, accumulate: bool) {
    let bits = region.bits();
    let bytes = index.mul(l, Wide::Known((bits / 8).into()));
    let address = advance(l, region.pointer, bytes);
    let old = accumulate.then(|| load_bits(l, region.space, address, 0, bits, None));
    let value = finish(l, sum, old, region.format);
    let state = state_space(region.space);
    ptx!(
        l,
        "st.{state}.{} [{address}], {value}",
        if bits == 16 { "b16" } else { "b32" }
    );
}

impl Target<'_> {
    /// Groups of (nb, i) whose columns follow each other.
    fn groups(&self, column_blocks: u32) -> Vec<Vec<(u32, u32)>> {
        let mut out = Vec::new();
        match self.columns {
            Map::PairsR if column_blocks.is_multiple_of(2) => {
                for c in 0..column_blocks / 2 {
                    out.push((0..4).map(|e| (2 * c + e / 2, e % 2)).collect());
                }
            }
            Map::PairsRun(n) => {
                for group in 0..column_blocks / n {
                    for i in 0..2 {
                        out.push((0..n).map(|v| (group * n + v, i)).collect());
                    }
                }
            }
            _ => {
                for nb in 0..column_blocks {
                    out.push(vec![(nb, 0), (nb, 1)]);
                }
            }
        }
        out
    }

    /// Writes a tile's sums, clipped to the region.
    pub fn store(&self, l: &mut Lower, sums: &Sums) {
        let region = self.region;
        let bits = region.bits();
        let size = Wide::Known((bits / 8).into());
        let inside: Vec<Word> = [(1, 0), (0, 1)]
            .into_iter()
            .map(|(dimension, side)| region.inside(l, dimension, self.start[side], Some(self.size[side])))
            .collect();
        let [row_stride, column_stride] = [region.strides[1], region.strides[0]];
        let column_start = self.start[1].widen(l);
        let mut first = column_start.mul(l, column_stride);
        if self.places.is_none() {
            let row_start = self.start[0].widen(l);
            let rows = row_start.mul(l, row_stride);
            first = first.add(l, rows);
            first = region.first.add(l, first);
        }
        let groups = self.groups(sums.column_blocks);
        let width = groups[0].len() as u32;
        // Whole groups at once, where they are inside as wholes and aligned.
        let single = l.writer.label();
        let done = l.writer.label();
        let vector = self.vector_condition(l, first, inside[1], width);
        let rows: Vec<(Reg, Option<Reg>)> = (0..sums.row_blocks)
            .map(|rb| {
                let (index, condition) = match &self.places {
                    Some(places) => {
                        let (index, mask) = places[rb as usize];
                        let there = def!(l, Pred, "setp.ne.s32", "{mask}, 0");
                        (Wide::Reg(index).add(l, first), Some(there))
                    }
                    None => {
                        let row = self.rows.line(l, rb);
                        let condition = (inside[0] != Word::Known(self.size[0] as i32)
                            || !self.size[0].is_multiple_of(8))
                        .then(|| def!(l, Pred, "setp.lt.s32", "{row}, {}", inside[0]));
                        let row = Word::Reg(row).widen(l);
                        let offset = row.mul(l, row_stride);
                        (first.add(l, offset), condition)
                    }
                };
                let bytes = index.mul(l, size);
                (advance(l, region.pointer, bytes), condition)
            })
            .collect();
        if let Some(condition) = vector {
            if let Some(condition) = condition {
                branch_unless(l, condition, single);
            }
            self.store_groups(l, sums, &groups, &rows, inside[1]);
            if condition.is_none() {
                return;
            }
            ptx!(l, "bra.uni {done}");
        }
        l.writer.place(single);
        for (rb, &(address, row_inside)) in rows.iter().enumerate() {
            for &(nb, i) in groups.iter().flatten() {
                let column = self.columns.line(l, 2 * nb + i);
                let there = (inside[1] != Word::Known(self.size[1] as i32) || !self.size[1].is_multiple_of(8))
                    .then(|| def!(l, Pred, "setp.lt.s32", "{column}, {}", inside[1]));
                let there = both(l, row_inside, there);
                let column = Word::Reg(column).widen(l);
                let offset = column.mul(l, column_stride);
                let bytes = offset.mul(l, size);
                let address = advance(l, address, bytes);
                let old = self
                    .accumulate
                    .then(|| load_bits(l, region.space, address, 0, bits, there));
                let value = finish(l, sums.at(rb as u32, nb, i), old, region.format);
                let state = state_space(region.space);
                let guard = there.map_or(String::new(), |there| format!("@{there} "));
                ptx!(
                    l,
                    "{guard}st.{state}.{} [{address}], {value}",
                    if bits == 16 { "b16" } else { "b32" }
                );
            }
        }
        l.writer.place(done);
    }

    /// When groups can be stored at once (`None`: never).
    fn vector_condition(&self, l: &mut Lower, first: Wide, inside: Word, width: u32) -> Option<Option<Reg>> {
        let region = self.region;
        let group_bits = width * region.bits();
        if !(32..=256).contains(&group_bits) || !group_bits.is_power_of_two() {
            return None;
        }
        let mut all = None;
        match region.strides[0] {
            Wide::Known(1) => {}
            Wide::Known(_) => return None,
            Wide::Reg(stride) => all = Some(def!(l, Pred, "setp.eq.s64", "{stride}, 1")),
        }
        let bytes = (group_bits / 8).min(16);
        let elements = bytes * 8 / region.bits();
        let mut low = None;
        let mut gather = |l: &mut Lower, part: Reg, scale: u32| {
            let part = match part.class {
                Class::B64 => def!(l, B32, "cvt.u32.u64", "{part}"),
                _ => part,
            };
            let part = match scale {
                1 => part,
                scale => def!(l, B32, "mul.lo.u32", "{part}, {scale}"),
            };
            low = Some(match low {
                None => part,
                Some(low) => def!(l, B32, "or.b32", "{low}, {part}"),
            });
        };
        gather(l, region.pointer, 1);
        let mut strides: Vec<Wide> = region.strides[1..].to_vec();
        strides.push(first);
        for stride in strides {
            match stride {
                Wide::Known(n) if n % i64::from(elements) != 0 => return None,
                Wide::Known(_) => {}
                Wide::Reg(stride) => gather(l, stride, region.bits() / 8),
            }
        }
        if self.places.is_some() && region.first != Wide::Known(0) {
            let first = region.first.reg(l);
            gather(l, first, region.bits() / 8);
        }
        if let Some(low) = low {
            let rest = def!(l, B32, "and.b32", "{low}, {}", bytes - 1);
            let aligned = def!(l, Pred, "setp.eq.u32", "{rest}, 0");
            all = both(l, all, Some(aligned));
        }
        match inside {
            Word::Known(n) if (n as u32).is_multiple_of(width) => {}
            Word::Known(_) => return None,
            Word::Reg(inside) => {
                let rest = def!(l, B32, "and.b32", "{inside}, {}", width - 1);
                let whole = def!(l, Pred, "setp.eq.u32", "{rest}, 0");
                all = both(l, all, Some(whole));
            }
        }
        Some(all)
    }

    fn store_groups(
        &self,
        l: &mut Lower,
        sums: &Sums,
        groups: &[Vec<(u32, u32)>],
        rows: &[(Reg, Option<Reg>)],
        inside: Word,
    ) {
        let region = self.region;
        let bits = region.bits();
        let state = state_space(region.space);
        let (part, factor, _) = self.columns.parts(0);
        debug_assert_eq!(part, super::lines::Part::Pair);
        let pair = l.geometry.fragment_pair;
        let lane_bytes = def!(l, B32, "mul.lo.u32", "{pair}, {}", factor * bits / 8);
        let lane_bytes = Word::Reg(lane_bytes).widen(l);
        for (rb, &(address, row_inside)) in rows.iter().enumerate() {
            let address = advance(l, address, lane_bytes);
            for group in groups {
                let (nb, i) = group[0];
                let (_, _, constant) = self.columns.parts(2 * nb + i);
                let there = match inside {
                    Word::Known(n) if n as u32 == self.size[1] => None,
                    inside => {
                        let column = self.columns.line(l, 2 * nb + i);
                        Some(def!(l, Pred, "setp.lt.s32", "{column}, {inside}"))
                    }
                };
                let there = both(l, row_inside, there);
                let guard = there.map_or(String::new(), |there| format!("@{there} "));
                let values: Vec<Reg> = group.iter().map(|&(nb, i)| sums.at(rb as u32, nb, i)).collect();
                let per_word = 32 / bits;
                let words_in_all = values.len() as u32 / per_word;
                let mut words = Vec::new();
                let offset = i64::from(constant * bits / 8);
                let old: Option<Vec<Reg>> = self.accumulate.then(|| {
                    (0..words_in_all)
                        .map(|w| load_bits(l, region.space, address, offset + 4 * i64::from(w), 32, there))
                        .collect()
                });
                for w in 0..words_in_all {
                    let old = old.as_ref().map(|old| old[w as usize]);
                    if bits == 32 {
                        words.push(finish(l, values[w as usize], old, region.format));
                        continue;
                    }
                    let [mut low, mut high] = [values[2 * w as usize], values[2 * w as usize + 1]];
                    let scalar = match region.format {
                        ElementFormat::BF16 => Scalar::BF16,
                        _ => Scalar::F16,
                    };
                    if low.class != Class::F32 {
                        let upper = old.map(|old| def!(l, B32, "shr.u32", "{old}, 16"));
                        let low = finish(l, low, old, region.format);
                        let high = finish(l, high, upper, region.format);
                        words.push(def!(l, B32, "prmt.b32", "{low}, {high}, 0x5410"));
                        continue;
                    }
                    if let Some(old) = old {
                        let [a, b] = widen_pair(l, old, scalar);
                        low = def!(l, F32, "add.rn.f32", "{low}, {a}");
                        high = def!(l, F32, "add.rn.f32", "{high}, {b}");
                    }
                    words.push(narrow_pair(l, low, high, scalar));
                }
                for (i, words) in words.chunks(4).enumerate() {
                    let offset = offset + 16 * i as i64;
                    match words {
                        [word] => ptx!(l, "{guard}st.{state}.b32 [{address}+{offset}], {word}"),
                        words => {
                            let list: Vec<String> = words.iter().map(ToString::to_string).collect();
                            let count = words.len();
                            ptx!(
                                l,
                                "{guard}st.{state}.v{count}.b32 [{address}+{offset}], {{{}}}",
                                list.join(", ")
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Writes sums into a cooperative tensor whose registers they are not.
pub(super) fn store_to_tile(l: &mut Lower, id: CoopId, sums: &Sums, accumulate: bool) {
    let tile = l.tile(id);
    for rb in 0..sums.row_blocks {
        for nb in 0..sums.column_blocks {
            let values = [sums.at(rb, nb, 0), sums.at(rb, nb, 1)];
            match tile.storage {
                Storage::Single => {
                    for i in 0..2 {
                        let to = l.tile_reg(id, rb, nb, i);
                        let value = values[i as usize];
                        match (value.class, to.class) {
                            (Class::F32, Class::F32) if accumulate => ptx!(l, "add.rn.f32 {to}, {to}, {value}"),
                            (Class::F32, Class::F32) => ptx!(l, "mov.f32 {to}, {value}"),
                            (Class::B32, Class::B32) if accumulate => ptx!(l, "add.s32 {to}, {to}, {value}"),
                            (Class::B32, Class::B32) => ptx!(l, "mov.b32 {to}, {value}"),
                            (_, to_class) => {
                                let format = if to_class == Class::F32 {
                                    ElementFormat::F32
                                } else {
                                    ElementFormat::I32
                                };
                                let old = accumulate.then(|| def!(l, B32, "mov.b32", "{to}"));
                                let word = finish(l, value, old, format);
                                ptx!(l, "mov.b32 {to}, {word}");
                            }
                        }
                    }
                }
                Storage::Pairs => {
                    let to = l.tile_pair(id, rb, nb);
                    let [mut low, mut high] = values;
                    if low.class == Class::F32 {
                        if accumulate {
                            let [a, b] = widen_pair(l, to, tile.element);
                            low = def!(l, F32, "add.rn.f32", "{low}, {a}");
                            high = def!(l, F32, "add.rn.f32", "{high}, {b}");
                        }
                        let word = narrow_pair(l, low, high, tile.element);
                        ptx!(l, "mov.b32 {to}, {word}");
                    } else {
                        let format = match tile.element {
                            Scalar::BF16 => ElementFormat::BF16,
                            _ => ElementFormat::F16,
                        };
                        let upper = accumulate.then(|| def!(l, B32, "shr.u32", "{to}, 16"));
                        let low = finish(l, low, accumulate.then_some(to), format);
                        let high = finish(l, high, upper, format);
                        ptx!(l, "prmt.b32 {to}, {low}, {high}, 0x5410");
                    }
                }
            }
        }
    }
}
