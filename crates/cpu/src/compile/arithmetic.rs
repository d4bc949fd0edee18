//! Lowering of arithmetic: which loop an operation runs, what stays affine, and what fast-math code contracts.

use anymetal_ir::{BinaryOp, MathMode, Scalar, UnaryOp, ValueId};

use super::classify::Class;
use super::lower::Lower;
use super::program::{AffineKind, Inst, Lanes, Reg};
use crate::fault::CompileError;
use crate::lanes::float::Plan;
use crate::lanes::{Fn2, convert, exponential, float, int};

/// A fused multiplication that an addition may still take over.
#[derive(Clone, Copy)]
pub(super) struct Product {
    at: usize,
    a: Reg,
    b: Reg,
}

impl Lower<'_> {
    /// `a op b` on `i64` registers, folded, remembered, and affine where the operands are.
    pub fn int2(&mut self, op: BinaryOp, a: Reg, b: Reg) -> Result<Reg, CompileError> {
        if let (Some(x), Some(y)) = (self.as_constant(a), self.as_constant(b)) {
            let (x, y) = (x as i64, y as i64);
            let value = match op {
                BinaryOp::Add => Some(x.wrapping_add(y)),
                BinaryOp::Sub => Some(x.wrapping_sub(y)),
                BinaryOp::Mul => Some(x.wrapping_mul(y)),
                BinaryOp::Min => Some(x.min(y)),
                _ => None,
            };
            if let Some(value) = value {
                return Ok(self.constant(8, value as u64));
            }
        }
        let is = |lower: &Self, reg: Reg, bits: u64| lower.as_constant(reg) == Some(bits);
        match op {
            BinaryOp::Add if is(self, a, 0) => return Ok(b),
            BinaryOp::Add | BinaryOp::Sub if is(self, b, 0) => return Ok(a),
            BinaryOp::Mul if is(self, a, 1) || is(self, b, 0) => return Ok(b),
            BinaryOp::Mul if is(self, b, 1) || is(self, a, 0) => return Ok(a),
            _ => {}
        }
        if let Some(&known) = self.memo.get(&(op, a.at, b.at)) {
            return Ok(known);
        }
        let out = self.binary(op, Scalar::I64, a, b)?;
        self.memo.insert((op, a.at, b.at), out);
        Ok(out)
    }

    /// An integer operation into a new register.
    pub fn binary(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg) -> Result<Reg, CompileError> {
        let class = self.joined(&[a, b]);
        let kind = affine_kind(op);
        let class = if class == Class::Affine && kind.is_none() {
            Class::Plain
        } else {
            class
        };
        let out = self.register(ty.size() as u8, class, false);
        let f = int::binary(op, ty, self.isa).ok_or_else(|| self.malformed(format!("{op:?} of {ty}")))?;
        self.push_binary(kind, ty, f, out, a, b);
        Ok(out)
    }

    pub(super) fn push_binary(&mut self, kind: Option<AffineKind>, ty: Scalar, f: Fn2, out: Reg, a: Reg, b: Reg) {
        match kind {
            Some(kind) if self.class(out) == Class::Affine => self.push(Inst::Affine {
                kind,
                ty,
                lanes: Lanes::Two(f),
                out,
                a,
                b,
            }),
            _ => self.push(Inst::Op2 { f, out, a, b }),
        }
    }

    /// `pointer + offset`.
    pub fn pointer_offset(&mut self, pointer: Reg, offset: Reg) -> Reg {
        if self.as_constant(offset) == Some(0) {
            return pointer;
        }
        let class = self.joined(&[pointer, offset]);
        let out = self.register(8, class, false);
        let f = convert::pointer_offset(self.isa);
        self.push_binary(Some(AffineKind::PointerOffset), Scalar::U64, f, out, pointer, offset);
        out
    }

    /// The loop and operands of an exponential whose argument is the difference just computed, for it alone.
    fn of_difference(&self, op: UnaryOp, ty: Scalar, operand: ValueId, a: Reg) -> Option<(Fn2, Reg, Reg)> {
        let f = match (op, ty) {
            (UnaryOp::Exp, Scalar::F32) => exponential::exp_of_difference(self.isa),
            (UnaryOp::Exp2, Scalar::F32) => exponential::exp2_of_difference(self.isa),
            _ => return None,
        };
        let (
            Inst::Op2 {
                f: last,
                out,
                a: x,
                b: y,
            },
            _,
        ) = self.out.insts.last()?
        else {
            return None;
        };
        let Some(Plan::Own(subtract)) = float::binary(BinaryOp::Sub, ty, self.isa) else {
            return None;
        };
        (*out == a && self.positions.uses(operand) == 1 && std::ptr::fn_addr_eq(*last, subtract)).then_some((f, *x, *y))
    }

    pub(super) fn unary(
        &mut self,
        result: ValueId,
        op: UnaryOp,
        ty: Scalar,
        mode: MathMode,
        operand: ValueId,
        a: Reg,
    ) -> Result<(), CompileError> {
        let plan = if ty.is_float() {
            float::unary(op, ty, mode == MathMode::Fast, self.isa)
        } else {
            int::unary(op, ty, self.isa).map(Plan::Own)
        };
        if let Some((f, first, second)) = self.of_difference(op, ty, operand, a) {
            self.out.insts.pop();
            let out = self.define(result);
            self.push(Inst::Op2 {
                f,
                out,
                a: first,
                b: second,
            });
            return Ok(());
        }
        match plan {
            Some(Plan::Own(f)) => {
                let out = self.define(result);
                self.push(Inst::Op1 { f, out, a });
            }
            Some(Plan::Widened(f)) => {
                let a = self.widened(a, ty);
                let wide = self.like(a);
                self.push(Inst::Op1 { f, out: wide, a });
                self.narrowed(result, wide, ty);
            }
            None => return Err(self.malformed(format!("{op:?} of {ty}"))),
        }
        Ok(())
    }

    /// An `f32` register that varies as another does.
    fn like(&mut self, reg: Reg) -> Reg {
        let class = match self.class(reg) {
            Class::Uniform => Class::Uniform,
            _ => Class::Plain,
        };
        self.register(4, class, false)
    }

    fn widened(&mut self, a: Reg, ty: Scalar) -> Reg {
        let out = self.like(a);
        let f = convert::convert(ty, Scalar::F32, self.isa);
        self.push(Inst::Op1 { f, out, a });
        out
    }

    fn narrowed(&mut self, result: ValueId, a: Reg, ty: Scalar) {
        let out = self.define(result);
        let f = convert::convert(Scalar::F32, ty, self.isa);
        self.push(Inst::Op1 { f, out, a });
    }

    /// Lets the register of an operand stand for a result of the same bits, its only use. False where it has to be copied: a local's
    /// register may change.
    pub(super) fn same_bits(&mut self, result: ValueId, operand: ValueId) -> Result<bool, CompileError> {
        if self.watch.is_some() || self.positions.uses(operand) != 1 {
            return Ok(false);
        }
        let reg = self.value(operand)?;
        let known = self.vregs[reg.at as usize];
        let same = !known.permanent
            && known.in_map == (self.map != 0)
            && known.class == self.classes.values[result.index()]
            && known.class != Class::Uniform;
        if same {
            self.bind(result, reg);
        }
        Ok(same)
    }

    pub(super) fn conversion(
        &mut self,
        result: ValueId,
        operand: ValueId,
        from: Scalar,
        to: Scalar,
        f: crate::lanes::Fn1,
    ) -> Result<(), CompileError> {
        let a = self.value(operand)?;
        let out = self.define(result);
        if self.class(out) == Class::Affine {
            self.push(Inst::Affine {
                kind: AffineKind::Convert(from, to),
                ty: to,
                lanes: Lanes::One(f),
                out,
                a,
                b: a,
            });
        } else {
            self.push(Inst::Op1 { f, out, a });
        }
        Ok(())
    }

    pub(super) fn ir_binary(
        &mut self,
        result: ValueId,
        op: BinaryOp,
        lhs: ValueId,
        rhs: ValueId,
        mode: MathMode,
    ) -> Result<(), CompileError> {
        let ty = self.scalar(lhs);
        let (a, b) = (self.value(lhs)?, self.value(rhs)?);
        if ty == Scalar::F32 && mode == MathMode::Fast {
            if self.contract(result, op, (lhs, a), (rhs, b)) {
                return Ok(());
            }
            if op == BinaryOp::Mul && self.positions.uses(result) == 1 {
                let at = self.out.insts.len();
                self.products.insert(result, Product { at, a, b });
            }
        }
        let plan = if ty.is_float() {
            float::binary(op, ty, self.isa)
        } else {
            int::binary(op, ty, self.isa).map(Plan::Own)
        };
        match plan {
            Some(Plan::Own(f)) => {
                let out = self.define(result);
                let kind = if ty.is_integer() { affine_kind(op) } else { None };
                self.push_binary(kind, ty, f, out, a, b);
            }
            Some(Plan::Widened(f)) => {
                let (a, b) = (self.widened(a, ty), self.widened(b, ty));
                let class = self.joined(&[a, b]);
                let wide = self.register(4, class, false);
                self.push(Inst::Op2 { f, out: wide, a, b });
                self.narrowed(result, wide, ty);
            }
            None => return Err(self.malformed(format!("{op:?} of {ty}"))),
        }
        Ok(())
    }

    /// Turns a product and a sum of fast-math code into one instruction; the product must stand in the same block, with no
    /// local set since.
    fn contract(&mut self, result: ValueId, op: BinaryOp, (lhs, a): (ValueId, Reg), (rhs, b): (ValueId, Reg)) -> bool {
        let left = self.products.get(&lhs).copied();
        let right = self.products.get(&rhs).copied();
        let (product, value, f, other) = match (op, left, right) {
            (BinaryOp::Add, Some(product), _) => (product, lhs, float::contracted(self.isa), b),
            (BinaryOp::Add, None, Some(product)) => (product, rhs, float::contracted(self.isa), a),
            (BinaryOp::Sub, Some(product), _) => (product, lhs, float::contracted_subtract(self.isa), b),
            (BinaryOp::Sub, None, Some(product)) => (product, rhs, float::contracted_from(self.isa), a),
            _ => return false,
        };
        let Some(f) = f else { return false };
        self.products.remove(&value);
        // The product has no other use.
        let at = product.at;
        self.out.insts.remove(at);
        for later in self.products.values_mut() {
            if later.at > at {
                later.at -= 1;
            }
        }
        let out = self.define(result);
        self.push(Inst::Op3 {
            f,
            out,
            a: product.a,
            b: product.b,
            c: other,
        });
        true
    }
}

fn affine_kind(op: BinaryOp) -> Option<AffineKind> {
    Some(match op {
        BinaryOp::Add => AffineKind::Add,
        BinaryOp::Sub => AffineKind::Sub,
        BinaryOp::Mul => AffineKind::Mul,
        BinaryOp::Shl => AffineKind::Shl,
        BinaryOp::Div => AffineKind::Div,
        BinaryOp::Rem => AffineKind::Rem,
        BinaryOp::Shr => AffineKind::Shr,
        BinaryOp::And => AffineKind::And,
        BinaryOp::Min => AffineKind::Min,
        BinaryOp::Max => AffineKind::Max,
        _ => return None,
    })
}
