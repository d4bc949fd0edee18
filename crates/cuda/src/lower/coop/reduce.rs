//! Reductions of the rows or columns of a tile: over a lane's registers, then between the lanes of a row (or column).

use anymetal_ir::{CoopId, ReduceAxis, ReduceOp, Scalar, ValueId};

use super::{LanePlace, Storage, Tile};
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// What combines two numbers.
#[derive(Clone, Copy)]
struct Combine {
    /// The instruction on 32-bit registers.
    instruction: &'static str,
    /// What changes no number.
    neutral: &'static str,
    class: Class,
}

impl Combine {
    fn of(op: ReduceOp, element: Scalar) -> Combine {
        // `max.f32` and `min.f32` give the other operand where one is NaN. −0 + x is x for every x.
        let (instruction, neutral) = match (op, element.is_float()) {
            (ReduceOp::Sum, true) => ("add.rn.f32", "0f80000000"),
            (ReduceOp::Max, true) => ("max.f32", "0fff800000"),
            (ReduceOp::Min, true) => ("min.f32", "0f7f800000"),
            (ReduceOp::Sum, false) => ("add.s32", "0"),
            (ReduceOp::Max, false) => ("max.s32", "-2147483648"),
            (ReduceOp::Min, false) => ("min.s32", "2147483647"),
        };
        Combine {
            instruction,
            neutral,
            class: if element.is_float() { Class::F32 } else { Class::B32 },
        }
    }
}

impl<'k> Lower<'k> {
    pub(super) fn coop_reduce(
        &mut self,
        to: CoopId,
        from: CoopId,
        axis: ReduceAxis,
        op: ReduceOp,
        identity: ValueId,
    ) -> Result {
        let (source, target) = (self.tile(from), self.tile(to));
        if !matches!(source.element, Scalar::F32 | Scalar::F16 | Scalar::BF16 | Scalar::I32) {
            return self.unsupported(format!("a reduction of {} elements", source.element));
        }
        let combine = Combine::of(op, source.element);
        let identity = self.value(identity);
        let identity = self.widen_element(identity, source.element);
        let place = self.lane_place(&source);
        match axis {
            ReduceAxis::Rows => {
                for rb in 0..source.row_blocks {
                    let terms = self.row_terms(&source, from, place, rb, combine);
                    let total = self.combine_all(terms, combine);
                    let total = self.reduce_lanes(total, &[1, 2], combine);
                    self.finish_reduction(to, &target, (rb, 0, 0), total, identity, combine);
                }
            }
            ReduceAxis::Columns => {
                if target.column_map != source.column_map || target.column_blocks != source.column_blocks {
                    return self.unsupported("a reduction into a tensor of another layout");
                }
                for nb in 0..source.column_blocks {
                    for i in 0..2 {
                        let terms = self.column_terms(&source, from, place, (nb, i), combine);
                        let total = self.combine_all(terms, combine);
                        let total = self.reduce_lanes(total, &[4, 8, 16], combine);
                        self.finish_reduction(to, &target, (0, nb, i), total, identity, combine);
                    }
                }
            }
        }
        Ok(())
    }

    /// The elements of a lane's row, as 32-bit numbers; padding is what changes nothing.
    fn row_terms(&mut self, tile: &Tile, from: CoopId, place: LanePlace, rb: u32, combine: Combine) -> Vec<Reg> {
        let mut terms = Vec::new();
        for nb in 0..tile.column_blocks {
            for (i, term) in self.wide_elements(tile, from, rb, nb).into_iter().enumerate() {
                let valid = self.column_valid(tile, place, nb, i as u32);
                terms.push(self.masked(term, valid, combine));
            }
        }
        terms
    }

    /// The elements of a lane's column.
    fn column_terms(
        &mut self,
        tile: &Tile,
        from: CoopId,
        place: LanePlace,
        (nb, i): (u32, u32),
        combine: Combine,
    ) -> Vec<Reg> {
        let mut terms = Vec::new();
        for rb in 0..tile.row_blocks {
            let term = self.wide_elements(tile, from, rb, nb)[i as usize];
            let valid = self.row_valid(tile, place, rb);
            terms.push(self.masked(term, valid, combine));
        }
        terms
    }

    /// The two elements of a block, halves as `f32`.
    fn wide_elements(&mut self, tile: &Tile, from: CoopId, rb: u32, nb: u32) -> [Reg; 2] {
        match tile.storage {
            Storage::Single => [0, 1].map(|i| self.tile_reg(from, rb, nb, i)),
            Storage::Pairs => {
                let pair = self.tile_pair(from, rb, nb);
                let halves = self.unpack(tile, pair);
                halves.map(|half| self.widen_element(half, tile.element))
            }
        }
    }

    fn masked(&mut self, term: Reg, valid: Option<Reg>, combine: Combine) -> Reg {
        let Some(valid) = valid else {
            return term;
        };
        let to = self.reg(combine.class);
        ptx!(
            self,
            "selp.{} {to}, {term}, {}, {valid}",
            combine.class.ptx(),
            combine.neutral
        );
        to
    }

    fn combine_two(&mut self, a: Reg, b: Reg, combine: Combine) -> Reg {
        let to = self.reg(combine.class);
        ptx!(self, "{} {to}, {a}, {b}", combine.instruction);
        to
    }

    /// Combines numbers pairwise, in a tree.
    fn combine_all(&mut self, mut terms: Vec<Reg>, combine: Combine) -> Reg {
        while terms.len() > 1 {
            terms = terms
                .chunks(2)
                .map(|pair| match *pair {
                    [a, b] => self.combine_two(a, b, combine),
                    _ => pair[0],
                })
                .collect();
        }
        match terms.pop() {
            Some(total) => total,
            None => {
                let neutral = self.reg(combine.class);
                ptx!(self, "mov.{} {neutral}, {}", combine.class.ptx(), combine.neutral);
                neutral
            }
        }
    }

    /// Combines the numbers of lanes whose numbers differ in the given bits.
    fn reduce_lanes(&mut self, mut total: Reg, bits: &[u32], combine: Combine) -> Reg {
        for bit in bits {
            let mine = self.bits_of(total);
            let other = self.reg(Class::B32);
            ptx!(self, "shfl.sync.bfly.b32 {other}, {mine}, {bit}, 31, 0xffffffff");
            let other = if combine.class == Class::F32 {
                let float = self.reg(Class::F32);
                ptx!(self, "mov.b32 {float}, {other}");
                float
            } else {
                other
            };
            total = self.combine_two(total, other, combine);
        }
        total
    }

    /// Adds the identity, rounds, and writes the element.
    fn finish_reduction(
        &mut self,
        to: CoopId,
        target: &Tile,
        (rb, nb, i): (u32, u32, u32),
        total: Reg,
        identity: Reg,
        combine: Combine,
    ) {
        let total = self.combine_two(identity, total, combine);
        let rounded = self.narrow_element(total, target.element);
        let register = self.tile_reg(to, rb, nb, i);
        ptx!(self, "mov.{} {register}, {rounded}", register.class.ptx());
    }
}
