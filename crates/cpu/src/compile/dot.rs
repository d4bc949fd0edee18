//! Chains of multiply-adds with codes cut out of words become one instruction ([`crate::lanes::dot`]).
//!
//! The parts of a code, `float((word >> shift) & mask)`, are not lowered where they stand but where they are used; a
//! multiply-add that uses one begins a chain, or goes on with the chain that its sum is. What anything else asks for is lowered
//! then. A local's register may stand for a value read before, so nothing waits across a set or past the end of a block.

use std::collections::HashMap;

use anymetal_ir::{BinaryOp, Inst as IrInst, Op, Scalar, ValueId};

use super::classify::Class;
use super::lower::Lower;
use super::program::{DotTerm, Inst, Reg};
use crate::fault::CompileError;
use crate::lanes::dot;

/// What waits for its use.
#[derive(Default)]
pub(super) struct Waiting<'k> {
    /// Parts of codes, each used once.
    codes: HashMap<ValueId, &'k IrInst>,
    chains: HashMap<ValueId, Chain>,
}

struct Chain {
    sum: Reg,
    terms: Vec<DotTerm>,
    location: anymetal_ir::LocationId,
}

/// Bits cut out of a word.
struct Cut {
    word: ValueId,
    shift: u32,
    mask: u32,
}

impl<'k> Lower<'k> {
    /// Takes an instruction that can wait. True if it did.
    pub(super) fn wait(&mut self, inst: &'k IrInst) -> Result<bool, CompileError> {
        let result = inst.first;
        let varies = |lower: &Self| lower.classes.values[result.index()] == Class::Plain;
        match &inst.op {
            Op::Binary {
                op: BinaryOp::Shr | BinaryOp::And,
                lhs,
                rhs,
                ..
            } if varies(self)
                && self.positions.uses(result) == 1
                && matches!(self.scalar(*lhs), Scalar::U32 | Scalar::I32)
                && self.known(*rhs).is_some() =>
            {
                self.waiting.codes.insert(result, inst);
                Ok(true)
            }
            Op::Convert {
                operand,
                to: Scalar::F32,
                ..
            } if varies(self) && self.positions.uses(result) == 1 && self.cut(*operand).is_some() => {
                self.waiting.codes.insert(result, inst);
                Ok(true)
            }
            Op::Ternary {
                op: anymetal_ir::TernaryOp::Fma,
                a,
                b,
                c,
                ..
            } if varies(self) && self.scalar(*a) == Scalar::F32 => {
                let (a, b, c) = (*a, *b, *c);
                let (code, x) = match (self.code(a), self.code(b)) {
                    (_, Some(cut)) => (cut, a),
                    (Some(cut), None) => (cut, b),
                    (None, None) => return Ok(false),
                };
                for value in [a, b].into_iter().filter(|&value| value != x) {
                    self.drop_code(value);
                }
                let term = DotTerm {
                    word: self.value(code.word)?,
                    x: self.value(x)?,
                    shift: code.shift,
                    mask: code.mask,
                };
                let room = |chain: &Chain| chain.terms.len() < dot::MAX_TERMS;
                let going_on = if self.positions.uses(c) == 1 && self.waiting.chains.get(&c).is_some_and(room) {
                    self.waiting.chains.remove(&c)
                } else {
                    None
                };
                let mut chain = match going_on {
                    Some(chain) => chain,
                    None => Chain {
                        sum: self.value(c)?,
                        terms: Vec::new(),
                        location: inst.location,
                    },
                };
                chain.terms.push(term);
                self.waiting.chains.insert(result, chain);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Lowers a value that waits, if it does.
    pub(super) fn force(&mut self, value: ValueId) -> Result<(), CompileError> {
        if let Some(inst) = self.waiting.codes.remove(&value) {
            let location = self.location;
            self.lower_now(inst)?;
            self.location = location;
        } else if let Some(chain) = self.waiting.chains.remove(&value) {
            let out = self.define(value);
            let f = dot::dot(self.isa);
            let location = std::mem::replace(&mut self.location, chain.location);
            self.push(Inst::Dot {
                f,
                out,
                sum: chain.sum,
                terms: chain.terms,
            });
            self.location = location;
        }
        Ok(())
    }

    /// Lowers all that waits, in the order of the source.
    pub(super) fn force_all(&mut self) -> Result<(), CompileError> {
        if self.waiting.codes.is_empty() && self.waiting.chains.is_empty() {
            return Ok(());
        }
        let mut values: Vec<ValueId> = self
            .waiting
            .codes
            .keys()
            .chain(self.waiting.chains.keys())
            .copied()
            .collect();
        values.sort_by_key(|value| value.0);
        values.into_iter().try_for_each(|value| self.force(value))
    }

    fn known(&self, value: ValueId) -> Option<u64> {
        let reg = self.lowered(value)?;
        self.as_constant(reg)
    }

    /// The bits that a waiting shift or mask cuts out, if as a number they are below 2³¹.
    fn cut(&self, value: ValueId) -> Option<Cut> {
        let Op::Binary { op, lhs, rhs, .. } = &self.waiting.codes.get(&value)?.op else {
            return None;
        };
        let (lhs, bits) = (*lhs, self.known(*rhs)? as u32);
        if *op == BinaryOp::Shr {
            let logical = self.scalar(lhs) == Scalar::U32;
            let shift = bits % 32;
            return (logical && shift > 0).then_some(Cut {
                word: lhs,
                shift,
                mask: u32::MAX >> shift,
            });
        }
        if bits > i32::MAX as u32 {
            return None;
        }
        let shifted = self.waiting.codes.get(&lhs).and_then(|inst| match &inst.op {
            Op::Binary {
                op: BinaryOp::Shr,
                lhs: word,
                rhs,
                ..
            } => {
                let shift = self.known(*rhs)? as u32 % 32;
                // An arithmetic shift differs above the bits that came from the word.
                let logical = self.scalar(*word) == Scalar::U32 || bits <= u32::MAX >> shift;
                logical.then_some(Cut {
                    word: *word,
                    shift,
                    mask: bits,
                })
            }
            _ => None,
        });
        Some(shifted.unwrap_or(Cut {
            word: lhs,
            shift: 0,
            mask: bits,
        }))
    }

    /// The bits behind a waiting conversion to `float`.
    fn code(&self, value: ValueId) -> Option<Cut> {
        match &self.waiting.codes.get(&value)?.op {
            Op::Convert { operand, .. } => self.cut(*operand),
            _ => None,
        }
    }

    /// Forgets the parts of a code that a chain took over.
    fn drop_code(&mut self, value: ValueId) {
        let Some(inst) = self.waiting.codes.remove(&value) else {
            return;
        };
        match &inst.op {
            Op::Convert { operand, .. } => self.drop_code(*operand),
            Op::Binary {
                op: BinaryOp::And, lhs, ..
            } if matches!(
                self.waiting.codes.get(lhs).map(|inst| &inst.op),
                Some(Op::Binary { op: BinaryOp::Shr, .. })
            ) && self.takes_shift(inst) =>
            {
                self.drop_code(*lhs);
            }
            _ => {}
        }
    }

    /// Does the cut of a mask include the shift below it?
    fn takes_shift(&self, inst: &IrInst) -> bool {
        let Op::Binary { lhs, rhs, .. } = &inst.op else {
            return false;
        };
        let Some(Op::Binary { lhs: word, rhs: by, .. }) = self.waiting.codes.get(lhs).map(|inst| &inst.op) else {
            return false;
        };
        let (Some(mask), Some(shift)) = (self.known(*rhs), self.known(*by)) else {
            return false;
        };
        self.scalar(*word) == Scalar::U32 || mask as u32 <= u32::MAX >> (shift as u32 % 32)
    }
}
