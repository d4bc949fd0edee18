//! Block scales: the sum of each block of K is multiplied by the scales of its row and column.

use super::emit::{Wide, Word, advance, both, def, step};
use super::lines::Map;
use super::region::{Region, ScaleRegion, load_bits};
use super::unit::decode_scale;
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// The scales of one operand's lines.
#[derive(Clone, Debug)]
pub(super) struct ScaleLines {
    scales: ScaleRegion,
    outer: usize,
    k: usize,
    /// The lines that a lane sums.
    map: Map,
    count: u32,
    inside: Word,
    /// The scale of the tile's first line and K = 0.
    base: Reg,
    /// Where in its block K = 0 is.
    phase: Word,
}

/// The scales of both operands.
#[derive(Clone, Debug, Default)]
pub(super) struct Scales {
    pub left: Option<ScaleLines>,
    pub right: Option<ScaleLines>,
}

/// The scales of a block for this lane's sums.
pub(super) struct Loaded {
    left: Option<Vec<Reg>>,
    right: Option<Vec<Reg>>,
}

impl ScaleLines {
    /// The scales of lines `start`… of a region, for sums under a map; `None` if they do not run along K.
    pub fn new(
        l: &mut Lower,
        region: &Region,
        outer: usize,
        map: Map,
        count: u32,
        start: Word,
        inside: Word,
    ) -> Option<ScaleLines> {
        let scales = region.scales.clone()?;
        let k = 1 - outer;
        let block = scales.block[k];
        if scales.block[outer] != 1 || block != 32 {
            return None;
        }
        let origin = region.origin[k];
        let (first, phase) = match origin {
            Wide::Known(origin) => (Wide::Known(origin >> 5), Word::Known((origin & 31) as i32)),
            Wide::Reg(origin) => {
                let first = def!(l, B64, "shr.s64", "{origin}, 5");
                let low = def!(l, B32, "cvt.u32.u64", "{origin}");
                (Wide::Reg(first), Word::Reg(def!(l, B32, "and.b32", "{low}, 31")))
            }
        };
        let along = first.mul(l, scales.strides[k]);
        let line = start.widen(l);
        let line = region.origin[outer].add(l, line);
        let across = line.mul(l, scales.strides[outer]);
        let offset = along.add(l, across);
        let base = advance(l, scales.pointer, offset);
        Some(ScaleLines {
            scales,
            outer,
            k,
            map,
            count,
            inside,
            base,
            phase,
        })
    }

    /// The byte offset of a block's line.
    fn line(&self, l: &mut Lower, block: u32) -> Wide {
        let line = self.map.line(l, block);
        let last = self.inside.add(l, Word::Known(-1));
        let line = def!(l, B32, "min.s32", "{line}, {last}");
        let line = Word::Reg(line).widen(l);
        line.mul(l, self.scales.strides[self.outer])
    }

    fn load(&self, l: &mut Lower, base: Reg, offsets: &[Wide]) -> Vec<Reg> {
        offsets
            .iter()
            .map(|&offset| {
                let address = advance(l, base, offset);
                let code = load_bits(l, self.scales.space, address, 0, 8, None);
                decode_scale(l, code)
            })
            .collect()
    }

    fn offsets(&self, l: &mut Lower) -> Vec<Wide> {
        (0..self.count).map(|block| self.line(l, block)).collect()
    }
}

/// Scales with addresses that move from block to block.
pub(super) struct FastScales<'a> {
    parts: [Option<(&'a ScaleLines, Reg, Vec<Wide>)>; 2],
}

impl Scales {
    /// Whole windows need blocks that begin where they do.
    pub fn fast_condition(&self, l: &mut Lower, window: u32) -> Option<Option<Reg>> {
        let mut all = None;
        for side in [&self.left, &self.right].into_iter().flatten() {
            match side.phase {
                Word::Known(0) => {}
                Word::Known(_) => return None,
                Word::Reg(phase) => {
                    let none = def!(l, Pred, "setp.eq.u32", "{phase}, 0");
                    all = both(l, all, Some(none));
                }
            }
        }
        (window == 32).then_some(all)
    }

    /// Sets up addresses.
    pub fn fast(&self, l: &mut Lower) -> FastScales<'_> {
        FastScales {
            parts: [&self.left, &self.right].map(|side| {
                side.as_ref().map(|side| {
                    let base = l.reg(side.base.class);
                    ptx!(l, "mov.{} {base}, {}", base.class.ptx(), side.base);
                    let offsets = side.offsets(l);
                    (side, base, offsets)
                })
            }),
        }
    }

    /// The end of the block that K lies in, if it is before `next`.
    pub fn boundary(&self, l: &mut Lower, k: Reg, next: Reg) -> Reg {
        let mut next = next;
        for side in [&self.left, &self.right].into_iter().flatten() {
            let at = Word::Reg(k).add(l, side.phase).reg(l);
            let last = def!(l, B32, "or.b32", "{at}, 31");
            let end = def!(l, B32, "add.s32", "{last}, 1");
            let end = match side.phase {
                Word::Known(phase) => def!(l, B32, "sub.s32", "{end}, {phase}"),
                Word::Reg(phase) => def!(l, B32, "sub.s32", "{end}, {phase}"),
            };
            next = def!(l, B32, "min.s32", "{next}, {end}");
        }
        next
    }

    /// The scales of the block that K lies in.
    pub fn load_at(&self, l: &mut Lower, k: Reg) -> Loaded {
        let mut load = |side: &Option<ScaleLines>| {
            side.as_ref().map(|side| {
                let at = Word::Reg(k).add(l, side.phase).reg(l);
                let block = def!(l, B32, "shr.u32", "{at}, 5");
                let block = Word::Reg(block).widen(l);
                let along = block.mul(l, side.scales.strides[side.k]);
                let base = advance(l, side.base, along);
                let offsets = side.offsets(l);
                side.load(l, base, &offsets)
            })
        };
        Loaded {
            left: load(&self.left),
            right: load(&self.right),
        }
    }
}

impl FastScales<'_> {
    /// The scales of the current block.
    pub fn load(&self, l: &mut Lower) -> Loaded {
        let mut load = |part: &Option<(&ScaleLines, Reg, Vec<Wide>)>| {
            part.as_ref().map(|(side, base, offsets)| side.load(l, *base, offsets))
        };
        Loaded {
            left: load(&self.parts[0]),
            right: load(&self.parts[1]),
        }
    }

    /// Moves to the next block.
    pub fn advance(&self, l: &mut Lower) {
        for (side, base, _) in self.parts.iter().flatten() {
            step(l, *base, side.scales.strides[side.k]);
        }
    }
}

impl Loaded {
    /// `to += partial · scales` for row block `row` and column (nb, i) = 2·nb + i.
    pub fn add(&self, l: &mut Lower, to: Reg, partial: Reg, row: u32, column: u32) {
        let left = self.left.as_ref().map(|scales| scales[row as usize]);
        let right = self.right.as_ref().map(|scales| scales[column as usize]);
        match (left, right) {
            (Some(a), Some(b)) => {
                // The smaller one first: the product of both may be out of range where the result is not.
                let low = l.reg(Class::F32);
                ptx!(l, "min.NaN.f32 {low}, {a}, {b}");
                let high = def!(l, F32, "max.NaN.f32", "{a}, {b}");
                let scaled = def!(l, F32, "mul.rn.f32", "{partial}, {low}");
                ptx!(l, "fma.rn.f32 {to}, {scaled}, {high}, {to}");
            }
            (Some(scale), None) | (None, Some(scale)) => ptx!(l, "fma.rn.f32 {to}, {partial}, {scale}, {to}"),
            (None, None) => ptx!(l, "add.rn.f32 {to}, {to}, {partial}"),
        }
    }
}
