//! The registers and the nested blocks of an instruction.

use super::program::{Block, Dot, DotTerm, Factor, Inst, Place, Reach, Reg, RowOperand, TileOperand, View, ViewExtent};
use crate::lanes::dot::After;

/// How an instruction touches a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Use,
    Def,
    /// A local, which keeps its register for good.
    Local,
}

impl View {
    pub fn visit(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        f(&mut self.pointer, Role::Use);
        for reg in self
            .base_extents
            .iter_mut()
            .chain(&mut self.strides)
            .chain(&mut self.origin)
        {
            f(reg, Role::Use);
        }
        for extent in &mut self.extents {
            if let ViewExtent::Dynamic(reg) = extent {
                f(reg, Role::Use);
            }
        }
        if let Some(scales) = &mut self.scales {
            f(&mut scales.pointer, Role::Use);
            scales.strides.iter_mut().for_each(|reg| f(reg, Role::Use));
        }
    }
}

impl TileOperand {
    fn visit(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        if let TileOperand::View(view) = self {
            view.visit(f);
        }
    }
}

impl Inst {
    /// Calls `f` for each register of the instruction itself, uses before definitions; not for those in nested blocks.
    pub fn visit(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        use Role::{Def, Local, Use};
        match self {
            Inst::Op1 { out, a, .. } => {
                f(a, Use);
                f(out, Def);
            }
            Inst::Op2 { out, a, b, .. } | Inst::Affine { out, a, b, .. } => {
                f(a, Use);
                f(b, Use);
                f(out, Def);
            }
            Inst::Op3 { out, a, b, c, .. } => {
                f(a, Use);
                f(b, Use);
                f(c, Use);
                f(out, Def);
            }
            Inst::Dot(dot) => dot.visit(f),
            Inst::Digits(digits) => {
                digits.numbers.iter_mut().flatten().for_each(|reg| f(reg, Use));
                f(&mut digits.out, Def);
            }
            Inst::LoadDot(load) => {
                f(&mut load.access.pointer, Use);
                load.access.values.iter_mut().for_each(|reg| f(reg, Def));
                load.dots.iter_mut().for_each(|dot| dot.visit(f));
            }
            Inst::OfMemory {
                access, out, operands, ..
            } => {
                f(&mut access.pointer, Use);
                access.values.iter_mut().for_each(|reg| f(reg, Def));
                operands.iter_mut().for_each(|reg| f(reg, Use));
                f(out, Def);
            }
            Inst::Copy(copies) => {
                for copy in copies {
                    f(&mut copy.load.pointer, Use);
                    copy.load.values.iter_mut().for_each(|reg| f(reg, Def));
                    f(&mut copy.store.pointer, Use);
                    copy.store.values.iter_mut().for_each(|reg| f(reg, Use));
                }
            }
            Inst::SetLocal { direct, apart, sets } => {
                direct.visit(f);
                apart.visit(f);
                for set in sets {
                    f(&mut set.value, Use);
                    f(&mut set.local, Local);
                }
            }
            Inst::LocalSet { local, value, .. } => {
                f(value, Use);
                f(local, Local);
            }
            Inst::LocalGet { out, local, .. } => {
                f(local, Local);
                f(out, Def);
            }
            Inst::Load(access) => {
                f(&mut access.pointer, Use);
                access.predicate.iter_mut().for_each(|reg| f(reg, Use));
                access.values.iter_mut().for_each(|reg| f(reg, Def));
            }
            Inst::Store(access) => {
                f(&mut access.pointer, Use);
                access.predicate.iter_mut().for_each(|reg| f(reg, Use));
                access.values.iter_mut().for_each(|reg| f(reg, Use));
            }
            Inst::StoreBits {
                pointer,
                bit,
                value,
                predicate,
                ..
            } => {
                f(pointer, Use);
                f(bit, Use);
                f(value, Use);
                predicate.iter_mut().for_each(|reg| f(reg, Use));
            }
            Inst::Atomic {
                pointer,
                values,
                out,
                success,
                ..
            } => {
                f(pointer, Use);
                values.iter_mut().for_each(|reg| f(reg, Use));
                out.iter_mut().chain(success).for_each(|reg| f(reg, Def));
            }
            Inst::CheckIndex { indices, extents, .. } => indices.iter_mut().chain(extents).for_each(|reg| f(reg, Use)),
            Inst::CheckReach(reach) => reach.visit(&mut |reg| f(reg, Use)),
            Inst::InRange { out, indices, extents } => {
                indices.iter_mut().chain(extents).for_each(|reg| f(reg, Use));
                f(out, Def);
            }
            Inst::TensorQuery { handle, out, .. } => {
                f(handle, Use);
                f(out, Def);
            }
            Inst::Group { out, a, .. } => {
                f(a, Use);
                f(out, Def);
            }
            Inst::Shuffle { out, a, index, .. } => {
                f(a, Use);
                f(index, Use);
                f(out, Def);
            }
            Inst::Vote { out, a, .. } => {
                a.iter_mut().for_each(|reg| f(reg, Use));
                f(out, Def);
            }
            Inst::SimdgroupMatrixMultiply { operands, out, .. } => {
                let (a, b, c) = &mut **operands;
                for operand in [Some(a), Some(b), c.as_mut()].into_iter().flatten() {
                    operand.values.iter_mut().for_each(|reg| f(reg, Use));
                }
                out.iter_mut().for_each(|reg| f(reg, Def));
            }
            Inst::CoopGet { slot, out, .. }
            | Inst::CoopValid { slot, out, .. }
            | Inst::CoopMapSlot { slot, out, .. } => {
                f(slot, Use);
                f(out, Def);
            }
            Inst::CoopSet { slot, value, .. } => {
                f(slot, Use);
                f(value, Use);
            }
            Inst::CoopIndex { slot, column, row, .. } => {
                f(slot, Use);
                f(column, Def);
                row.iter_mut().for_each(|reg| f(reg, Def));
            }
            Inst::CoopLoad { view, .. } | Inst::CoopStore { view, .. } => view.visit(f),
            Inst::CoopCompatible { out, .. } | Inst::CoopElement { out, .. } => f(out, Def),
            Inst::CoopReduce { identity, .. } => f(identity, Use),
            Inst::CoopMap { captures, .. } => {
                for (outside, inside) in captures {
                    f(outside, Use);
                    f(inside, Def);
                }
            }
            Inst::RowMap(map) => {
                for operand in [&mut map.factor, &mut map.addend] {
                    if let Some(RowOperand::Value(reg)) = operand {
                        f(reg, Use);
                    }
                }
                if let Some((_, identity)) = &mut map.sums {
                    f(identity, Use);
                }
            }
            Inst::CoopElementSet { value, .. } => f(value, Use),
            Inst::Map1 { out, a, .. } => {
                a.visit(Use, f);
                out.visit(Def, f);
            }
            Inst::Map2 { out, a, b, .. } => {
                a.visit(Use, f);
                b.visit(Use, f);
                out.visit(Def, f);
            }
            Inst::Map3 { out, a, b, c, .. } => {
                a.visit(Use, f);
                b.visit(Use, f);
                c.visit(Use, f);
                out.visit(Def, f);
            }
            Inst::CoopElementIndex { column, row, .. } => {
                f(column, Def);
                row.iter_mut().for_each(|reg| f(reg, Def));
            }
            Inst::Matmul {
                left,
                right,
                destination,
                ..
            } => {
                left.visit(f);
                right.visit(f);
                destination.visit(f);
            }
            Inst::Convolution(conv) => {
                conv.offsets.iter_mut().for_each(|reg| f(reg, Use));
                conv.activation.visit(f);
                conv.weights.visit(f);
                conv.destination.visit(f);
            }
            Inst::If { condition, compare, .. } => match compare {
                Some(compare) => {
                    f(&mut compare.a, Use);
                    f(&mut compare.b, Use);
                    f(condition, Def);
                }
                None => f(condition, Use),
            },
            Inst::Watched(watched) => watched.inst.visit(f),
            Inst::WatchIndex { a, b, .. } => {
                f(a, Use);
                f(b, Use);
            }
            Inst::Barrier(_)
            | Inst::Fence
            | Inst::CoopInit(_)
            | Inst::CoopCopy { .. }
            | Inst::Loop { .. }
            | Inst::Scope { .. }
            | Inst::Break(_)
            | Inst::Continue(_)
            | Inst::Return => {}
        }
    }

    /// Makes the steps of chains for their loop, once registers are placed.
    pub fn place_steps(&mut self) {
        match self {
            Inst::Dot(dot) => dot.place_steps(),
            Inst::LoadDot(load) => load.place_steps(),
            Inst::Digits(digits) => {
                digits.places = digits.numbers.iter().map(|four| four.map(Reg::place)).collect();
            }
            Inst::SetLocal { direct, apart, sets: _ } => {
                direct.place_steps();
                apart.place_steps();
            }
            Inst::Watched(watched) => watched.inst.place_steps(),
            _ => {}
        }
    }

    /// The nested blocks.
    pub fn blocks(&mut self) -> Vec<&mut Block> {
        match self {
            Inst::If { then, otherwise, .. } => vec![then, otherwise],
            Inst::Loop { body, latch, .. } => vec![body, latch],
            Inst::Scope { body, .. } => vec![body],
            Inst::CoopMap { body, of_chunks, .. } => std::iter::once(body)
                .chain(of_chunks)
                .map(|block| &mut **block)
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Dot {
    pub(super) fn visit(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        f(&mut self.sum, Role::Use);
        for term in &mut self.terms {
            f(&mut term.word, Role::Use);
            f(&mut term.x, Role::Use);
        }
        for factor in self.after.iter_mut().flat_map(After::factors) {
            f(factor.reg(), Role::Use);
        }
        self.digits.iter_mut().for_each(|reg| f(reg, Role::Use));
        f(&mut self.out, Role::Def);
    }

    /// The words that halves are cut out of.
    pub(super) fn halves(&self) -> Vec<Reg> {
        let after = self.after.iter().flat_map(|after| after.operands());
        let halves = after.filter_map(|factor| match factor {
            Factor::Half { word, .. } => Some(word),
            Factor::Reg(_) => None,
        });
        halves.collect()
    }

    pub(super) fn place_steps(&mut self) {
        self.steps = self.terms.iter().map(DotTerm::placed).collect();
        self.ends = self.after.iter().map(|after| after.map(Factor::placed)).collect();
        for word in self.terms.iter().map(|term| term.word).chain(self.halves()) {
            if word.tag_index().is_some() && !self.tagged.contains(&word) {
                self.tagged.push(word);
            }
        }
    }
}

impl Place {
    fn visit(&mut self, role: Role, f: &mut dyn FnMut(&mut Reg, Role)) {
        if let Place::Reg(reg) = self {
            f(reg, role);
        }
    }
}

impl Reach {
    fn visit(&mut self, f: &mut impl FnMut(&mut Reg)) {
        f(&mut self.pointer);
        let lists = [&mut self.indices, &mut self.origin, &mut self.strides];
        lists.into_iter().flatten().for_each(&mut *f);
        self.extents.iter_mut().flatten().for_each(&mut *f);
        self.predicate.iter_mut().for_each(f);
    }
}
