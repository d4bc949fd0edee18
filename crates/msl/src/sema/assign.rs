//! Assignment, increments, and the operators that choose: logical, conditional.

use super::context::*;
use super::library;
use super::ops::is_plain;
use super::types::*;
use super::value::*;
use crate::ast::{BinOp, Expr, UnOp};
use crate::source::Span;
use anymetal_ir::{BinaryOp, Block, Op, Scalar, UnaryOp};

impl Sema<'_> {
    /// `++x`, `x++`, `--x`, `x--`
    pub fn increment(&mut self, op: UnOp, operand: Operand, span: Span) -> Res<Operand> {
        let post = matches!(op, UnOp::PostInc | UnOp::PostDec);
        if let Type::Record(_) = operand.ty() {
            let name = format!("operator{}", op.spelling());
            let mut operands = vec![operand.clone()];
            if post {
                operands.push(self.int_value(Scalar::I32, 0).into());
            }
            if let Some(result) = self.user_operator(&name, &operands, span) {
                return result;
            }
        }
        if let Type::Object(_) = operand.ty() {
            let spelled = match op {
                UnOp::PreInc => "++",
                UnOp::PreDec => "--",
                UnOp::PostInc => "p++",
                _ => "p--",
            };
            if let Some(result) = library::operator(self, spelled, std::slice::from_ref(&operand), span) {
                return result;
            }
        }
        let Operand::Place(place) = operand else {
            return self.err("E0532", format!("'{}' needs a variable", op.spelling()), span);
        };
        let old = self.load(&place)?;
        let down = matches!(op, UnOp::PreDec | UnOp::PostDec);
        let new = match &old.ty {
            Type::Pointer(pointee) => {
                let one = Self::int_leaf(Scalar::I32, 1);
                self.pointer_add(&old, &pointee.clone(), &one, down, span)?
            }
            Type::Scalar(_) | Type::Vector { .. } => {
                let one = self.int_value(Scalar::I32, 1);
                let ty = old.ty.clone();
                let one = self.convert(one.into(), &ty, true, span)?;
                let op = if down { BinOp::Sub } else { BinOp::Add };
                self.componentwise(op, &old, &one, span)?
            }
            ty => {
                return self.err(
                    "E0531",
                    format!("'{}' is not defined for '{}'", op.spelling(), self.type_name(ty)),
                    span,
                );
            }
        };
        self.assign_place(&place, &new, span)?;
        Ok(if post { old.into() } else { place.into() })
    }

    /// Writes a place after checking that it may be written.
    pub fn assign_place(&mut self, place: &LValue, value: &Value, span: Span) -> Res<()> {
        if place.space() == Space::Constant {
            return self.err("E0533", "'constant' memory cannot be written", span);
        }
        if place.is_const {
            return self.err("E0534", "this object is 'const' and cannot be written", span);
        }
        self.store(place, value)
    }

    /// `a = b`, `a op= b`
    pub fn assign(&mut self, op: Option<BinOp>, a: &Expr, b: &Expr, span: Span) -> Res<Operand> {
        let arg = self.arg(b)?;
        let arg = match arg {
            Arg::Operand(Operand::Place(place), at) if is_plain(&place.ty) => {
                self.at(at);
                Arg::Operand(self.load(&place)?.into(), at)
            }
            arg => arg,
        };
        let target = self.expr(a)?;
        self.at(span);
        match op {
            None => self.assign_plain(target, arg, span),
            Some(op) => {
                let Arg::Operand(value, _) = arg else {
                    return self.err("E0491", "a braced list is not expected here", span);
                };
                self.assign_op(op, target, value, span)
            }
        }
    }

    pub(super) fn assign_plain(&mut self, target: Operand, arg: Arg, span: Span) -> Res<Operand> {
        if let Type::Record(_) = target.ty()
            && let Arg::Operand(value, _) = &arg
            && let Some(result) = self.user_operator("operator=", &[target.clone(), value.clone()], span)
        {
            return result;
        }
        if let Type::Object(_) = target.ty()
            && let Arg::Operand(value, _) = &arg
            && let Some(result) = library::operator(self, "=", &[target.clone(), value.clone()], span)
        {
            return result;
        }
        let Operand::Place(place) = target else {
            return self.err("E0535", "a temporary cannot be assigned", span);
        };
        let value = match &arg {
            Arg::Operand(Operand::Place(from), _)
                if from.ty == place.ty
                    && matches!(from.place, Place::Slots(_))
                    && matches!(place.ty, Type::Object(_)) =>
            {
                // No copy of a cooperative tensor on the way.
                self.load(from)?
            }
            arg => self.init(&place.ty, arg, span)?,
        };
        self.assign_place(&place, &value, span)?;
        Ok(place.into())
    }

    /// `a op= b` on operands.
    pub fn assign_op(&mut self, op: BinOp, target: Operand, value: Operand, span: Span) -> Res<Operand> {
        let spelling = format!("{}=", op.spelling());
        let classy = |t: &Type| matches!(t, Type::Record(_));
        if classy(target.ty()) || classy(value.ty()) {
            let name = format!("operator{spelling}");
            if let Some(result) = self.user_operator(&name, &[target.clone(), value.clone()], span) {
                return result;
            }
        }
        if matches!(target.ty(), Type::Object(_))
            && let Some(result) = library::operator(self, &spelling, &[target.clone(), value.clone()], span)
        {
            return result;
        }
        let Operand::Place(place) = target else {
            return self.err("E0535", "a temporary cannot be assigned", span);
        };
        if let (Some(len), Some(n)) = (place.ty.lanes(), value.ty().lanes())
            && len == 1
            && n > 1
        {
            return self.bad_operands(op, &place.ty, value.ty(), span);
        }
        let old = self.load(&place)?;
        let result = self.binary_op(op, old.into(), value, span)?;
        let ty = place.ty.clone();
        let result = self.convert(result, &ty, true, span)?;
        self.assign_place(&place, &result, span)?;
        Ok(place.into())
    }

    pub(super) fn logical(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span) -> Res<Operand> {
        let x = self.expr(a)?;
        if let Type::Vector { .. } = x.ty() {
            let y = self.expr(b)?;
            self.at(span);
            let ty = x.ty().with_component(Scalar::Bool).unwrap_or(Type::BOOL);
            let x = self.convert(x, &ty, true, span)?;
            let y = self.convert(y, &ty, true, span)?;
            return Ok(self.componentwise(op, &x, &y, span)?.into());
        }
        if let Type::Record(_) = x.ty() {
            let y = self.unevaluated(|s| s.expr(b));
            if let Ok(y) = y {
                let name = format!("operator{}", op.spelling());
                let exists = self
                    .attempt(|s| {
                        s.unevaluated(|s| match s.user_operator(&name, &[x.clone(), y.clone()], span) {
                            Some(result) => result.map(|_| ()),
                            None => Err(Fail::Reported),
                        })
                    })
                    .is_some();
                if exists && let Ok(y) = self.expr(b) {
                    self.at(span);
                    if let Some(result) = self.user_operator(&name, &[x.clone(), y], span) {
                        return result;
                    }
                }
            }
        }
        let x = self.to_bool(x, a.span)?;
        let decided = op == BinOp::Or;
        if let Some(c) = self.const_of(&x) {
            if (c.bits != 0) == decided {
                if self.const_eval == 0 {
                    // The other side is checked and thrown away.
                    let y = self.unevaluated(|s| s.expr(b))?;
                    self.unevaluated(|s| s.to_bool(y, b.span))?;
                }
                return Ok(self.bool_value(decided).into());
            }
            let y = self.expr(b)?;
            let y = self.to_bool(y, b.span)?;
            return Ok(Value::one(Type::BOOL, y).into());
        }
        let (block, y) = self.block_of(|s| {
            let y = s.expr(b)?;
            s.to_bool(y, b.span)
        })?;
        self.at(span);
        if is_pure(&block) {
            self.builder.append(block);
            let mode = self.math;
            let op = if decided { BinaryOp::Or } else { BinaryOp::And };
            let leaf = self.binary_leaf(op, &x, &y, mode)?;
            return Ok(Value::one(Type::BOOL, leaf).into());
        }
        let local = self.builder.local("logical", Scalar::Bool);
        let condition = self.materialize(&x)?;
        self.builder.set(local, condition);
        // The block is open again to store its value.
        self.builder.push_block();
        self.builder.append(block);
        let y = self.materialize(&y)?;
        self.builder.set(local, y);
        let block = self.builder.pop_block();
        if decided {
            self.builder.if_(condition, Block::default(), block);
        } else {
            self.builder.if_(condition, block, Block::default());
        }
        let value = self.builder.get(local);
        Ok(Value::one(Type::BOOL, Leaf::Value(value)).into())
    }

    /// `c ? a : b`
    pub fn conditional(&mut self, c: &Expr, a: &Expr, b: &Expr, span: Span) -> Res<Operand> {
        let condition = self.expr(c)?;
        if let Type::Vector { .. } = condition.ty() {
            let (x, y) = (self.expr(a)?, self.expr(b)?);
            self.at(span);
            return self.vector_select(condition, x, y, span);
        }
        let condition = self.to_bool(condition, c.span)?;
        if let Some(known) = self.const_of(&condition) {
            let (taken, other) = if known.bits != 0 { (a, b) } else { (b, a) };
            let operand = self.expr(taken)?;
            self.at(span);
            let unused = self.unevaluated(|s| s.expr(other))?;
            if operand.ty() == unused.ty() {
                return Ok(operand);
            }
            let common = self.common_type(&operand, &unused, span)?;
            return Ok(self.convert(operand, &common, false, span)?.into());
        }
        self.foldable()?;
        let (then, x) = self.block_of(|s| {
            let x = s.expr(a)?;
            s.settled(x)
        })?;
        let (otherwise, y) = self.block_of(|s| {
            let y = s.expr(b)?;
            s.settled(y)
        })?;
        self.at(span);
        if *x.ty() == Type::Void || *y.ty() == Type::Void {
            let condition = self.materialize(&condition)?;
            self.builder.if_(condition, then, otherwise);
            return Ok(Operand::void());
        }
        let common = self.common_type(&x, &y, span)?;
        let place_pair = match (&x, &y) {
            (Operand::Place(p), Operand::Place(q)) if p.ty == q.ty => Some((p.clone(), q.clone())),
            _ => None,
        };
        if let Some((p, q)) = &place_pair
            && is_memory(p)
            && is_memory(q)
            && p.space() == q.space()
            && is_pure(&then)
            && is_pure(&otherwise)
            && !is_plain(&p.ty)
        {
            // An lvalue of either object.
            self.builder.append(then);
            self.builder.append(otherwise);
            let x = self.address_leaf(p, span)?;
            let y = self.address_leaf(q, span)?;
            let leaf = self.select_leaf(&condition, &x, &y)?;
            let pointer = self.materialize(&leaf)?;
            let mut pointee = p.qual_type();
            pointee.is_const |= q.is_const;
            return Ok(self.deref(pointer, &pointee)?.into());
        }
        let (then, x) = self.extend(then, |s| s.convert(x, &common, false, span))?;
        let (otherwise, y) = self.extend(otherwise, |s| s.convert(y, &common, false, span))?;
        if is_pure(&then) && is_pure(&otherwise) {
            self.builder.append(then);
            self.builder.append(otherwise);
            let leaves = x
                .leaves
                .iter()
                .zip(&y.leaves)
                .map(|(x, y)| self.select_leaf(&condition, x, y))
                .collect::<Res<Vec<_>>>()?;
            return Ok(Value { ty: common, leaves }.into());
        }
        let slots = self.new_slots("conditional", &common)?;
        let place = super::bind::slots_place(&common, slots);
        let (then, ()) = self.extend(then, |s| s.store(&place, &x))?;
        let (otherwise, ()) = self.extend(otherwise, |s| s.store(&place, &y))?;
        let condition = self.materialize(&condition)?;
        self.builder.if_(condition, then, otherwise);
        Ok(self.load(&place)?.into())
    }

    /// The value of an operand that is a plain place; others stay.
    pub(super) fn settled(&mut self, operand: Operand) -> Res<Operand> {
        match operand {
            Operand::Place(place) if is_plain(&place.ty) => Ok(self.load(&place)?.into()),
            operand => Ok(operand),
        }
    }

    pub(super) fn vector_select(&mut self, c: Operand, x: Operand, y: Operand, span: Span) -> Res<Operand> {
        let c = self.rvalue(c)?;
        let ty = match (x.ty(), y.ty()) {
            (t @ Type::Vector { .. }, _) | (_, t @ Type::Vector { .. }) => t.clone(),
            (t, _) => t
                .as_scalar()
                .map_or(t.clone(), |s| Type::vector(s, c.leaves.len() as u8)),
        };
        let x = self.convert(x, &ty, false, span)?;
        let y = self.convert(y, &ty, false, span)?;
        if x.leaves.len() != c.leaves.len() {
            return self.err("E0536", "the vectors of '?:' differ in length", span);
        }
        let mut leaves = Vec::with_capacity(x.leaves.len());
        for i in 0..x.leaves.len() {
            let condition = self.convert_leaf(&c.leaves[i], Scalar::Bool)?;
            leaves.push(self.select_leaf(&condition, &x.leaves[i], &y.leaves[i])?);
        }
        Ok(Value { ty, leaves }.into())
    }
}

pub(super) fn is_memory(place: &LValue) -> bool {
    matches!(place.place, Place::Memory { .. })
}

/// May the block run although the source would not run it? Small, without effects, faults or loads.
pub fn is_pure(block: &Block) -> bool {
    block.insts.len() <= 12
        && block.insts.iter().all(|inst| match &inst.op {
            Op::Const(_)
            | Op::Builtin(_)
            | Op::Compare { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Bitcast { .. }
            | Op::LocalGet(_)
            | Op::MemoryPointer(_)
            | Op::ArgumentPointer(_)
            | Op::ArgumentTensor(_)
            | Op::TensorQuery { .. }
            | Op::NullPointer(_)
            | Op::PointerOffset { .. }
            | Op::PointerDiff { .. } => true,
            Op::Unary { op, .. } => matches!(
                op,
                UnaryOp::Neg
                    | UnaryOp::Not
                    | UnaryOp::Abs
                    | UnaryOp::Floor
                    | UnaryOp::Ceil
                    | UnaryOp::IsNan
                    | UnaryOp::IsInf
            ),
            Op::Binary { op, .. } => !matches!(op, BinaryOp::Pow | BinaryOp::Powr | BinaryOp::Atan2),
            Op::Ternary { .. } => true,
            _ => false,
        })
}
