//! Operators: arithmetic with the usual conversions, vectors, matrices, pointers, user-defined ones; assignment; `?:`, `&&`, `||`.

use anymetal_ir::{BinaryOp, Block, CompareOp, Op, Scalar, Type as IrType, UnaryOp};

use super::context::*;
use super::library;
use super::types::*;
use super::value::*;
use crate::ast::{self, BinOp, Expr, Name, UnOp};
use crate::source::Span;

/// Blocks that may be open at once. (The text form of the IR takes 200.)
const MAX_BLOCKS: usize = 180;

impl Sema<'_> {
    /// `a op b`
    pub fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, span: Span) -> Res<Operand> {
        match op {
            BinOp::Comma => {
                self.expr(a)?;
                self.expr(b)
            }
            BinOp::And | BinOp::Or => self.logical(op, a, b, span),
            _ => {
                let x = self.expr(a)?;
                // The value is taken now: the right side may change the variable.
                let x = match x {
                    Operand::Place(place) if is_plain(&place.ty) => {
                        self.at(a.span);
                        self.load(&place)?.into()
                    }
                    x => x,
                };
                let y = self.expr(b)?;
                self.at(span);
                self.binary_op(op, x, y, span)
            }
        }
    }

    /// An operator on operands.
    pub fn binary_op(&mut self, op: BinOp, a: Operand, b: Operand, span: Span) -> Res<Operand> {
        if op == BinOp::Comma {
            return Ok(b);
        }
        let classy = |t: &Type| matches!(t, Type::Record(_) | Type::Enum(_));
        if classy(a.ty()) || classy(b.ty()) {
            let name = format!("operator{}", op.spelling());
            if let Some(result) = self.user_operator(&name, &[a.clone(), b.clone()], span) {
                return result;
            }
        }
        if matches!(a.ty(), Type::Object(_)) || matches!(b.ty(), Type::Object(_)) {
            let operands = [a.clone(), b.clone()];
            if let Some(result) = library::operator(self, op.spelling(), &operands, span) {
                return result;
            }
        }
        if is_comparison(op)
            && let (Type::Enum(x), Type::Enum(y)) = (a.ty(), b.ty())
            && x == y
        {
            let (x, y) = (self.rvalue(a)?, self.rvalue(b)?);
            let leaf = self.compare_leaf(compare_op(op), &x.leaves[0], &y.leaves[0])?;
            return Ok(Value::one(Type::BOOL, leaf).into());
        }
        let a = self.decay(a, span)?;
        let b = self.decay(b, span)?;
        if is_pointer(a.ty()) || is_pointer(b.ty()) {
            return self.pointer_op(op, a, b, span);
        }
        let (ta, tb) = (a.ty().clone(), b.ty().clone());
        let a = self.arithmetic(a, span)?;
        let b = self.arithmetic(b, span)?;
        if matches!(a.ty(), Type::Matrix { .. }) || matches!(b.ty(), Type::Matrix { .. }) {
            return self.matrix_op(op, a, b, span);
        }
        let Some((common, shift_left)) = self.common(op, a.ty(), b.ty()) else {
            return self.bad_operands(op, &ta, &tb, span);
        };
        let component = common.component().unwrap_or(Scalar::I32);
        if component.is_float()
            && matches!(
                op,
                BinOp::Rem | BinOp::Shl | BinOp::Shr | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor
            )
        {
            let d = self.diagnostic(
                "E0530",
                format!(
                    "'{}' is not defined for '{}' and '{}'",
                    op.spelling(),
                    self.type_name(&ta),
                    self.type_name(&tb)
                ),
                span,
            );
            let d = if op == BinOp::Rem { d.help("use 'fmod'") } else { d };
            return Err(Fail::Error(Box::new(d)));
        }
        let x = self.convert(a, &common, true, span)?;
        let y = if shift_left {
            // The count takes the type of the shifted value.
            self.convert(b, &common, true, span)?
        } else {
            self.convert(b, &common, true, span)?
        };
        Ok(self.componentwise(op, &x, &y, span)?.into())
    }

    pub(super) fn bad_operands<T>(&self, op: BinOp, a: &Type, b: &Type, span: Span) -> Res<T> {
        let d = self.diagnostic(
            "E0531",
            format!(
                "'{}' is not defined for '{}' and '{}'",
                op.spelling(),
                self.type_name(a),
                self.type_name(b)
            ),
            span,
        );
        let d = match (a, b) {
            (Type::Vector { scalar, len, .. }, Type::Vector { scalar: s, len: n, .. }) if len == n && scalar != s => d
                .note("vectors of different component types do not mix")
                .help(format!("convert one: '{}(…)'", self.type_name(a))),
            (Type::Vector { len, .. }, Type::Vector { len: n, .. }) if len != n => {
                d.note("the vectors differ in length")
            }
            _ => d,
        };
        Err(Fail::Error(Box::new(d)))
    }

    /// The type in which an operator computes.
    pub(super) fn common(&self, op: BinOp, a: &Type, b: &Type) -> Option<(Type, bool)> {
        let shift = matches!(op, BinOp::Shl | BinOp::Shr);
        Some(match (a, b) {
            (Type::Scalar(x), Type::Scalar(y)) => {
                if shift {
                    (Type::Scalar(promote(*x)), true)
                } else {
                    (Type::Scalar(usual(*x, *y)), false)
                }
            }
            (Type::Vector { scalar, len, .. }, Type::Vector { scalar: s, len: n, .. }) => {
                if len != n || (scalar != s && !shift) {
                    return None;
                }
                (Type::vector(*scalar, *len), shift)
            }
            (Type::Vector { scalar, len, .. }, Type::Scalar(_)) => (Type::vector(*scalar, *len), shift),
            (Type::Scalar(_), Type::Vector { scalar, len, .. }) => (Type::vector(*scalar, *len), shift),
            _ => return None,
        })
    }

    /// An operator on two values of one scalar or vector type.
    pub fn componentwise(&mut self, op: BinOp, x: &Value, y: &Value, span: Span) -> Res<Value> {
        let mode = self.math;
        let scalar = x.ty.component().unwrap_or(Scalar::I32);
        let mut leaves = Vec::with_capacity(x.leaves.len());
        for (a, b) in x.leaves.iter().zip(&y.leaves) {
            let leaf = if is_comparison(op) {
                self.compare_leaf(compare_op(op), a, b)?
            } else {
                let operation = match op {
                    BinOp::Add => BinaryOp::Add,
                    BinOp::Sub => BinaryOp::Sub,
                    BinOp::Mul => BinaryOp::Mul,
                    BinOp::Div => BinaryOp::Div,
                    BinOp::Rem => BinaryOp::Rem,
                    BinOp::Shl => BinaryOp::Shl,
                    BinOp::Shr => BinaryOp::Shr,
                    BinOp::BitAnd | BinOp::And => BinaryOp::And,
                    BinOp::BitOr | BinOp::Or => BinaryOp::Or,
                    _ => BinaryOp::Xor,
                };
                if matches!(operation, BinaryOp::Div | BinaryOp::Rem) && !scalar.is_float() && self.int_of(b) == Some(0)
                {
                    if self.const_eval > 0 {
                        return self.err("E0423", "division by zero in a constant expression", span);
                    }
                    self.warn("W0403", "division by zero", span);
                }
                self.binary_leaf(operation, a, b, mode)?
            };
            leaves.push(leaf);
        }
        let component = if is_comparison(op) { Scalar::Bool } else { scalar };
        let ty = x.ty.with_component(component).unwrap_or(x.ty.clone());
        Ok(Value { ty, leaves })
    }

    /// A scalar, vector or matrix behind an operand: enums become integers, classes are converted by their conversion function.
    pub fn arithmetic(&mut self, operand: Operand, span: Span) -> Res<Operand> {
        match operand.ty().clone() {
            Type::Enum(id) if !self.enums[id.index()].is_scoped => {
                let scalar = self.enums[id.index()].underlying;
                let value = self.rvalue(operand)?;
                Ok(Value {
                    ty: scalar.into(),
                    leaves: value.leaves,
                }
                .into())
            }
            Type::Record(id) => {
                self.complete_record(id)?;
                let mut ids = vec![id];
                while let Some(id) = ids.pop() {
                    self.complete_record(id)?;
                    ids.extend(self.records[id.index()].bases.iter().copied());
                    for f in self.records[id.index()].conversions.clone() {
                        let ast::FunctionKind::Conversion(ty) = &f.decl.kind else {
                            continue;
                        };
                        if f.decl.template.is_some() {
                            continue;
                        }
                        let env = f.env.clone();
                        let Some(t) = self.attempt(|s| s.within(env, |s| s.resolve_type(ty))) else {
                            continue;
                        };
                        if matches!(t.ty, Type::Scalar(_) | Type::Vector { .. } | Type::Enum(_)) {
                            let this = self.place_of(operand)?;
                            let result = self.inline_call(&f, &[], Some(this), Vec::new(), span)?;
                            return self.arithmetic(result, span);
                        }
                    }
                }
                Ok(operand)
            }
            Type::Object(_) => {
                // Objects such as atomics or packed numbers may convert to a scalar.
                for scalar in [Scalar::F32, Scalar::I32, Scalar::U32] {
                    if let Some(Ok(value)) = library::convert(self, &operand, &scalar.into(), false, span) {
                        return Ok(value.into());
                    }
                }
                Ok(operand)
            }
            _ => Ok(operand),
        }
    }

    /// A user-defined operator; `None` if there is none for these operands.
    pub fn user_operator(&mut self, name: &str, operands: &[Operand], span: Span) -> Option<Res<Operand>> {
        let key = Name::from(name);
        let args: Vec<Arg> = operands.iter().map(|o| Arg::Operand(o.clone(), span)).collect();
        let (mut members, mut this) = (Vec::new(), None);
        if let Type::Record(id) = *operands[0].ty() {
            if let Err(fail) = self.complete_record(id) {
                return Some(Err(fail));
            }
            let place = match self.place_of(operands[0].clone()) {
                Ok(place) => place,
                Err(fail) => return Some(Err(fail)),
            };
            if let Ok(Some(Entity::Functions(set))) = self.record_member(id, &key, Some(&place), span) {
                members = set.user;
            }
            this = Some(place);
        }
        let mut free = Vec::new();
        if name != "operator=" && name != "operator->" {
            if let Ok(Some(Entity::Functions(set))) = self.lookup(&key, span) {
                free = set.user;
            }
            self.add_associated(&mut free, &key, &args);
            free.retain(|f| f.record.is_none());
        }
        // One set: the object of a member is the first argument of a free function.
        let mut viable = self.viable_among(&members, &args[1..], &[], this.as_ref());
        let of_members = viable.len();
        for mut candidate in self.viable_among(&free, &args, &[], None) {
            candidate.fits.remove(0);
            viable.push(candidate);
        }
        if viable.is_empty() {
            return self.operator_of_other_space(name, &members, &args, this.as_ref(), span);
        }
        let best = match self.best_of(&viable) {
            Ok(best) => best,
            Err(rivals) => {
                let rivals: Vec<&FunctionRef> = rivals.iter().map(|i| &viable[*i].function).collect();
                return Some(self.ambiguous(&rivals, &args, name, span));
            }
        };
        let found = viable.swap_remove(best);
        if best < of_members {
            let args = args[1..].to_vec();
            return Some(self.inline_call(&found.function, &found.template_args, this, args, span));
        }
        let spec = self.specialisation(&found.function, &free, &found.template_args, &args);
        Some(match spec {
            Some(spec) => self.inline_call(&spec, &[], None, args, span),
            None => self.inline_call(&found.function, &found.template_args, None, args, span),
        })
    }

    /// The error of an operator that the object's class has, but not for objects where this one is. A class that converts to something
    /// else may still have the operator of that.
    fn operator_of_other_space<T>(
        &mut self,
        name: &str,
        members: &[FunctionRef],
        args: &[Arg],
        this: Option<&LValue>,
        span: Span,
    ) -> Option<Res<T>> {
        let Type::Record(id) = this?.ty else { return None };
        if matches!(name, "operator&" | "operator,") || !self.records[id.index()].conversions.is_empty() {
            return None;
        }
        let mut fitting = self.viable_among(members, &args[1..], &[], None);
        fitting.retain(|c| !matches!(c.function.decl.body, ast::Body::Default));
        if fitting.is_empty() {
            return None;
        }
        let functions: Vec<FunctionRef> = fitting.into_iter().map(|c| c.function).collect();
        Some(self.no_match(&functions, &args[1..], &[], this, name, span))
    }

    pub(super) fn pointer_op(&mut self, op: BinOp, a: Operand, b: Operand, span: Span) -> Res<Operand> {
        let (ta, tb) = (a.ty().clone(), b.ty().clone());
        if is_comparison(op) {
            let (a, b) = match (&ta, &tb) {
                (Type::Pointer(_), Type::Nullptr) => {
                    let b = self.convert(b, &ta, false, span)?;
                    (self.rvalue(a)?, b)
                }
                (Type::Nullptr, Type::Pointer(_)) => {
                    let a = self.convert(a, &tb, false, span)?;
                    let b = self.rvalue(b)?;
                    (a, b)
                }
                (Type::Nullptr, Type::Nullptr) => {
                    return Ok(self.bool_value(op == BinOp::Eq).into());
                }
                (Type::Pointer(x), Type::Pointer(y)) if x.space == y.space => (self.rvalue(a)?, self.rvalue(b)?),
                _ => return self.bad_operands(op, &ta, &tb, span),
            };
            let leaf = self.compare_leaf(compare_op(op), &a.leaves[0], &b.leaves[0])?;
            return Ok(Value::one(Type::BOOL, leaf).into());
        }
        match (op, &ta, &tb) {
            (BinOp::Add | BinOp::Sub, Type::Pointer(p), _) if !is_pointer(&tb) => {
                let index = self.arithmetic(b, span)?;
                let index = self.index_leaf(index, op, &ta, &tb, span)?;
                let value = self.rvalue(a)?;
                Ok(self.pointer_add(&value, p, &index, op == BinOp::Sub, span)?.into())
            }
            (BinOp::Add, _, Type::Pointer(p)) if !is_pointer(&ta) => {
                let index = self.arithmetic(a, span)?;
                let index = self.index_leaf(index, op, &ta, &tb, span)?;
                let value = self.rvalue(b)?;
                Ok(self.pointer_add(&value, p, &index, false, span)?.into())
            }
            (BinOp::Sub, Type::Pointer(p), Type::Pointer(q)) if p.ty == q.ty && p.space == q.space => {
                let (size, _) = self.size_align(&p.ty)?;
                let (x, y) = (self.rvalue(a)?, self.rvalue(b)?);
                let lhs = self.materialize(&x.leaves[0])?;
                let rhs = self.materialize(&y.leaves[0])?;
                let bytes = self.emit1(Op::PointerDiff { lhs, rhs }, Scalar::I64)?;
                let size = Self::int_leaf(Scalar::I64, size.max(1).into());
                let mode = self.math;
                let n = self.binary_leaf(BinaryOp::Div, &bytes, &size, mode)?;
                Ok(Value::one(Scalar::I64, n).into())
            }
            _ => self.bad_operands(op, &ta, &tb, span),
        }
    }

    pub(super) fn index_leaf(&mut self, index: Operand, op: BinOp, ta: &Type, tb: &Type, span: Span) -> Res<Leaf> {
        let value = self.rvalue(index)?;
        match &value.ty {
            Type::Scalar(s) if !s.is_float() => Ok(value.leaves[0].clone()),
            _ => self.bad_operands(op, ta, tb, span),
        }
    }

    /// A pointer plus (or minus) elements.
    pub fn pointer_add(
        &mut self,
        pointer: &Value,
        pointee: &QualType,
        index: &Leaf,
        negative: bool,
        _span: Span,
    ) -> Res<Value> {
        if self.int_of(index) == Some(0) {
            return Ok(pointer.clone());
        }
        let size = match pointee.ty {
            Type::Void => 1,
            _ => self.size_align(&pointee.ty)?.0,
        };
        let wide = matches!(self.leaf_type(index), Some(IrType::Scalar(s)) if s.bits() == 64);
        let mut index = self.convert_leaf(index, Scalar::I64)?;
        let mode = self.math;
        if wide && size > 1 {
            // The product with the size must not wrap around to an element that exists. No object has this many bytes.
            let limit = 1i64 << 47;
            for (op, limit) in [(BinaryOp::Min, limit), (BinaryOp::Max, -limit)] {
                index = self.binary_leaf(op, &index, &Self::int_leaf(Scalar::I64, limit.into()), mode)?;
            }
        }
        if negative {
            index = self.unary_leaf(UnaryOp::Neg, &index, mode)?;
        }
        let Some(leaf) = pointer.leaf().cloned() else {
            return Ok(pointer.clone());
        };
        let base = self.materialize(&leaf)?;
        let moved = self.advance(base, &index, size)?;
        Ok(Value::one(pointer.ty.clone(), Leaf::Value(moved)))
    }

    /// `-x`, `+x`, `!x`, `~x`
    pub fn unary_op(&mut self, op: UnOp, operand: Operand, span: Span) -> Res<Operand> {
        if matches!(operand.ty(), Type::Record(_) | Type::Enum(_)) {
            let name = format!("operator{}", op.spelling());
            if let Some(result) = self.user_operator(&name, std::slice::from_ref(&operand), span) {
                return result;
            }
        }
        if matches!(operand.ty(), Type::Object(_))
            && let Some(result) = library::operator(self, op.spelling(), std::slice::from_ref(&operand), span)
        {
            return result;
        }
        if op == UnOp::Not && !matches!(operand.ty(), Type::Vector { .. }) {
            let leaf = self.to_bool(operand, span)?;
            let mode = self.math;
            let leaf = self.unary_leaf(UnaryOp::Not, &leaf, mode)?;
            return Ok(Value::one(Type::BOOL, leaf).into());
        }
        let ty = operand.ty().clone();
        let operand = self.arithmetic(operand, span)?;
        let value = self.rvalue(operand)?;
        let mode = self.math;
        let (value, what) = match (op, &value.ty) {
            (_, Type::Scalar(s)) => {
                let to = Type::Scalar(promote(*s));
                let value = self.convert(value.into(), &to, false, span)?;
                (value, op)
            }
            (_, Type::Vector { .. }) | (UnOp::Neg | UnOp::Plus, Type::Matrix { .. }) => (value, op),
            _ => {
                return self.err(
                    "E0531",
                    format!("'{}' is not defined for '{}'", op.spelling(), self.type_name(&ty)),
                    span,
                );
            }
        };
        let component = match value.ty {
            Type::Matrix { scalar, .. } => scalar,
            _ => value.ty.component().unwrap_or(Scalar::I32),
        };
        let operation = match what {
            UnOp::Plus => return Ok(value.into()),
            UnOp::Neg => UnaryOp::Neg,
            UnOp::BitNot if component.is_float() => {
                return self.err(
                    "E0531",
                    format!("'~' is not defined for '{}'", self.type_name(&ty)),
                    span,
                );
            }
            UnOp::Not if component != Scalar::Bool => {
                // A vector of truth values.
                let zero = self.zero(&value.ty)?;
                return Ok(self.componentwise(BinOp::Eq, &value, &zero, span)?.into());
            }
            _ => UnaryOp::Not,
        };
        let leaves = value
            .leaves
            .iter()
            .map(|leaf| self.unary_leaf(operation, leaf, mode))
            .collect::<Res<Vec<_>>>()?;
        Ok(Value { ty: value.ty, leaves }.into())
    }

    pub(super) fn common_type(&mut self, x: &Operand, y: &Operand, span: Span) -> Res<Type> {
        let (a, b) = (super::tyres::decayed(x).ty, super::tyres::decayed(y).ty);
        if a == b {
            return Ok(a);
        }
        match (&a, &b) {
            (Type::Scalar(x), Type::Scalar(y)) => return Ok(Type::Scalar(usual(*x, *y))),
            (Type::Pointer(_), Type::Nullptr) => return Ok(a),
            (Type::Nullptr, Type::Pointer(_)) => return Ok(b),
            (Type::Enum(e), Type::Scalar(s)) | (Type::Scalar(s), Type::Enum(e)) if !self.enums[e.index()].is_scoped => {
                return Ok(Type::Scalar(usual(self.enums[e.index()].underlying, *s)));
            }
            (Type::Pointer(p), Type::Pointer(q)) if p.ty == q.ty && p.space == q.space => {
                return Ok(if p.is_const { a } else { b });
            }
            _ => {}
        }
        let to_b = self.rank_operand(x, &b);
        let to_a = self.rank_operand(y, &a);
        match (to_b, to_a) {
            (Some(_), None) => Ok(b),
            (None, Some(_)) => Ok(a),
            (Some(r), Some(q)) => Ok(if r <= q { b } else { a }),
            (None, None) => self.err(
                "E0536",
                format!(
                    "the two sides of '?:' are '{}' and '{}', which have no common type",
                    self.type_name(&a),
                    self.type_name(&b)
                ),
                span,
            ),
        }
    }

    pub(super) fn matrix_op(&mut self, op: BinOp, a: Operand, b: Operand, span: Span) -> Res<Operand> {
        let (ta, tb) = (a.ty().clone(), b.ty().clone());
        let x = self.rvalue(a)?;
        let y = self.rvalue(b)?;
        let mode = self.math;
        match (op, &ta, &tb) {
            (BinOp::Add | BinOp::Sub, _, _) if ta == tb => {
                let operation = if op == BinOp::Add { BinaryOp::Add } else { BinaryOp::Sub };
                let leaves = x
                    .leaves
                    .iter()
                    .zip(&y.leaves)
                    .map(|(a, b)| self.binary_leaf(operation, a, b, mode))
                    .collect::<Res<Vec<_>>>()?;
                Ok(Value { ty: ta, leaves }.into())
            }
            (BinOp::Mul | BinOp::Div, Type::Matrix { scalar, .. }, Type::Scalar(_)) => {
                let s = self.convert_leaf(&y.leaves[0], *scalar)?;
                let operation = if op == BinOp::Mul { BinaryOp::Mul } else { BinaryOp::Div };
                let leaves = x
                    .leaves
                    .iter()
                    .map(|a| self.binary_leaf(operation, a, &s, mode))
                    .collect::<Res<Vec<_>>>()?;
                Ok(Value { ty: ta, leaves }.into())
            }
            (BinOp::Mul, Type::Scalar(_), Type::Matrix { .. }) => self.matrix_op(op, y.into(), x.into(), span),
            (BinOp::Mul, Type::Matrix { scalar, columns, rows }, Type::Vector { scalar: s, len, .. })
                if scalar == s && columns == len =>
            {
                let leaves = self.dot_rows(&x.leaves, &y.leaves, *rows as usize, *columns as usize, 1)?;
                Ok(Value {
                    ty: Type::vector(*scalar, *rows),
                    leaves,
                }
                .into())
            }
            (BinOp::Mul, Type::Vector { scalar: s, len, .. }, Type::Matrix { scalar, columns, rows })
                if scalar == s && rows == len =>
            {
                let leaves = self.dot_rows(&x.leaves, &y.leaves, 1, *rows as usize, *columns as usize)?;
                Ok(Value {
                    ty: Type::vector(*scalar, *columns),
                    leaves,
                }
                .into())
            }
            (
                BinOp::Mul,
                Type::Matrix {
                    scalar,
                    columns: k,
                    rows,
                },
                Type::Matrix {
                    scalar: s,
                    columns,
                    rows: k2,
                },
            ) if scalar == s && k == k2 => {
                let leaves = self.dot_rows(&x.leaves, &y.leaves, *rows as usize, *k as usize, *columns as usize)?;
                Ok(Value {
                    ty: Type::Matrix {
                        scalar: *scalar,
                        columns: *columns,
                        rows: *rows,
                    },
                    leaves,
                }
                .into())
            }
            _ => self.bad_operands(op, &ta, &tb, span),
        }
    }

    /// Column-major product of (rows × k) and (k × columns).
    pub(super) fn dot_rows(&mut self, a: &[Leaf], b: &[Leaf], rows: usize, k: usize, columns: usize) -> Res<Vec<Leaf>> {
        let mode = self.math;
        let mut out = Vec::with_capacity(rows * columns);
        for c in 0..columns {
            for r in 0..rows {
                let mut sum = self.binary_leaf(BinaryOp::Mul, &a[r], &b[c * k], mode)?;
                for i in 1..k {
                    let p = self.binary_leaf(BinaryOp::Mul, &a[i * rows + r], &b[c * k + i], mode)?;
                    sum = self.binary_leaf(BinaryOp::Add, &sum, &p, mode)?;
                }
                out.push(sum);
            }
        }
        Ok(out)
    }

    /// `(... op pack)` and its relatives.
    pub fn fold(
        &mut self,
        op: BinOp,
        assign: bool,
        pack: &Expr,
        init: Option<&Expr>,
        left: bool,
        span: Span,
    ) -> Res<Operand> {
        let mut exprs: Vec<(Expr, std::rc::Rc<Env>)> = Vec::new();
        self.expand(pack, span, |s, pattern| {
            exprs.push((pattern.clone(), s.env.clone()));
            Ok(())
        })?;
        let here = self.env.clone();
        if let Some(init) = init {
            let item = (init.clone(), here);
            if left {
                exprs.insert(0, item);
            } else {
                exprs.push(item);
            }
        }
        let mut items = exprs.into_iter();
        if matches!(op, BinOp::And | BinOp::Or) && !assign {
            return self.fold_logical(op, items.collect(), span);
        }
        if !left && op != BinOp::Comma {
            // From the right.
            let list: Vec<_> = items.collect();
            let mut operands = Vec::new();
            for (e, env) in &list {
                operands.push(self.within(env.clone(), |s| s.expr(e))?);
            }
            let Some(mut result) = operands.pop() else {
                return self.err("E0523", "this fold over an empty pack has no value", span);
            };
            while let Some(x) = operands.pop() {
                result = if assign {
                    self.assign_op(op, x, result, span)?
                } else {
                    self.binary_op(op, x, result, span)?
                };
            }
            return Ok(result);
        }
        let Some((first, env)) = items.next() else {
            return if op == BinOp::Comma {
                Ok(Operand::void())
            } else {
                self.err("E0523", "this fold over an empty pack has no value", span)
            };
        };
        let mut result = self.within(env, |s| s.expr(&first))?;
        for (e, env) in items {
            let y = self.within(env, |s| s.expr(&e))?;
            self.at(span);
            result = match (op, assign) {
                (BinOp::Comma, _) => y,
                (op, true) => self.assign_op(op, result, y, span)?,
                (op, false) => self.binary_op(op, result, y, span)?,
            };
        }
        Ok(result)
    }

    pub(super) fn fold_logical(&mut self, op: BinOp, items: Vec<(Expr, std::rc::Rc<Env>)>, span: Span) -> Res<Operand> {
        let mut result = Self::int_leaf(Scalar::Bool, i128::from(op == BinOp::And));
        for (e, env) in items {
            if let Some(c) = self.const_of(&result)
                && (c.bits != 0) == (op == BinOp::Or)
            {
                break;
            }
            let operand = self.within(env, |s| s.expr(&e))?;
            let y = self.to_bool(operand, e.span)?;
            let mode = self.math;
            let operation = if op == BinOp::And { BinaryOp::And } else { BinaryOp::Or };
            self.at(span);
            result = self.binary_leaf(operation, &result, &y, mode)?;
        }
        Ok(Value::one(Type::BOOL, result).into())
    }

    /// Lowers into a block of its own. The block is closed also on an error.
    pub fn block_of<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<(Block, T)> {
        if self.builder.open_blocks() > MAX_BLOCKS {
            return self.err_help(
                "E0557",
                format!("loops, branches and the functions called in them are nested more than {MAX_BLOCKS} levels deep"),
                self.span,
                "this is a limit of the compiler, not of Metal: join nested loops into one over the product of their counts, or leave with 'continue' or 'return' instead of opening another branch",
            );
        }
        self.builder.push_block();
        let result = f(self);
        let block = self.builder.pop_block();
        result.map(|value| (block, value))
    }

    /// Lowers more into a closed block.
    pub fn extend<T>(&mut self, block: Block, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<(Block, T)> {
        self.block_of(|s| {
            s.builder.append(block);
            f(s)
        })
    }
}

/// Types whose values are taken at once when an expression reads them.
pub fn is_plain(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Scalar(_) | Type::Vector { .. } | Type::Pointer(_) | Type::Enum(_)
    )
}

pub(super) fn is_pointer(ty: &Type) -> bool {
    matches!(ty, Type::Pointer(_) | Type::Nullptr)
}

pub(super) fn is_comparison(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Gt | BinOp::Le | BinOp::Ge
    )
}

pub(super) fn compare_op(op: BinOp) -> CompareOp {
    match op {
        BinOp::Eq => CompareOp::Eq,
        BinOp::Ne => CompareOp::Ne,
        BinOp::Lt => CompareOp::Lt,
        BinOp::Gt => CompareOp::Gt,
        BinOp::Le => CompareOp::Le,
        _ => CompareOp::Ge,
    }
}

/// Integral promotion.
pub fn promote(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Bool | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => Scalar::I32,
        other => other,
    }
}

/// The usual arithmetic conversions.
pub fn usual(a: Scalar, b: Scalar) -> Scalar {
    if a.is_float() || b.is_float() {
        return match (a.is_float(), b.is_float()) {
            (true, false) => a,
            (false, true) => b,
            _ if a == b => a,
            // half with bfloat, or either with float.
            _ => Scalar::F32,
        };
    }
    let (a, b) = (promote(a), promote(b));
    if a == b {
        return a;
    }
    match a.size().cmp(&b.size()) {
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Equal => {
            if a.is_signed() {
                b
            } else {
                a
            }
        }
    }
}
