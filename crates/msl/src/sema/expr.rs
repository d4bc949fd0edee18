//! Expressions.

use std::rc::Rc;

use anymetal_ir::{Op, Scalar, Type as IrType};

use super::context::*;
use super::library::{self, LibEntity};
use super::types::*;
use super::tyres::{decayed, pointer_to};
use super::value::*;
use crate::ast::{self, CastKind, Expr, ExprKind, FloatSuffix, Name, TyKind, UnOp};
use crate::source::Span;

impl Sema<'_> {
    /// Lowers an expression.
    pub fn expr(&mut self, e: &Expr) -> Res<Operand> {
        if self.const_eval > 0 {
            self.step(e.span)?;
        }
        self.nesting += 1;
        if self.nesting > 1200 {
            self.nesting -= 1;
            return self.err("E0501", "this expression is nested too deeply", e.span);
        }
        let former = self.at(e.span);
        let result = self.expr_inner(e);
        self.at(former);
        self.nesting -= 1;
        result
    }

    /// Counts a step of the constant evaluator.
    pub fn step(&mut self, span: Span) -> Res<()> {
        if self.const_steps == 0 {
            return self.err(
                "E0422",
                "the constant expression takes too many steps to evaluate",
                span,
            );
        }
        self.const_steps -= 1;
        Ok(())
    }

    /// An rvalue of an expression.
    pub fn expr_value(&mut self, e: &Expr) -> Res<Value> {
        let operand = self.expr(e)?;
        let former = self.at(e.span);
        let value = self.rvalue(operand);
        self.at(former);
        value
    }

    /// A constant expression.
    pub fn constant_expr(&mut self, e: &Expr) -> Res<Constant> {
        let value = self.in_const_mode(|s| s.expr_value(e))?;
        self.constant_value(value, e.span)
    }

    fn expr_inner(&mut self, e: &Expr) -> Res<Operand> {
        let span = e.span;
        Ok(match &e.kind {
            ExprKind::Int(n, suffix) => {
                let scalar = int_type(*n, *suffix);
                Value::one(scalar, Self::int_leaf(scalar, i128::from(*n))).into()
            }
            ExprKind::Float(x, suffix) => {
                let scalar = match suffix {
                    FloatSuffix::None | FloatSuffix::Float => Scalar::F32,
                    FloatSuffix::Half => Scalar::F16,
                    FloatSuffix::BFloat => Scalar::BF16,
                };
                Value::one(scalar, Self::float_leaf(scalar, *x)).into()
            }
            ExprKind::Char(c) => {
                Value::one(Scalar::I8, Self::int_leaf(Scalar::I8, i128::from(*c))).into()
            }
            ExprKind::Str(_) => {
                return self.err("E0502", "strings are not supported in kernels", span);
            }
            ExprKind::Bool(b) => self.bool_value(*b).into(),
            ExprKind::Nullptr => Value::empty(Type::Nullptr).into(),
            ExprKind::This => match self.this_object() {
                Some(this) => {
                    let ty = pointer_to(this.qual_type());
                    Value::one(ty, Leaf::Place(Rc::new(this))).into()
                }
                None => return self.err("E0503", "there is no 'this' here", span),
            },
            ExprKind::Path(path) => self.path_expr(path)?,
            ExprKind::Paren(inner) => self.expr_inner(inner)?,
            ExprKind::Unary(op, inner) => self.unary(*op, inner, span)?,
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, span)?,
            ExprKind::Assign(op, a, b) => self.assign(*op, a, b, span)?,
            ExprKind::Conditional(c, a, b) => self.conditional(c, a, b, span)?,
            ExprKind::Call { callee, args } => self.call(callee, args, span)?,
            ExprKind::Index { base, indices } => {
                let base = self.expr(base)?;
                let mut args = Vec::new();
                for arg in self.args(indices)? {
                    match arg {
                        Arg::Operand(operand, _) => args.push(operand),
                        Arg::List(_, at) => {
                            return self.err("E0491", "a braced list is not expected here", at);
                        }
                    }
                }
                self.at(span);
                self.index(base, args, span)?
            }
            ExprKind::Member {
                base,
                arrow,
                member,
            } => {
                let object = self.member_object(base, *arrow, span)?;
                self.member(object, member, span)?
            }
            ExprKind::Cast { kind, ty, expr } => self.cast(*kind, ty, expr, span)?,
            ExprKind::Construct { ty, args, braces } => {
                self.construct_expr(ty, args, *braces, span)?
            }
            ExprKind::InitList(_) => {
                return self.err(
                    "E0491",
                    "a braced list is not expected here: its type is not known",
                    span,
                );
            }
            ExprKind::SizeofType(ty) => {
                // `sizeof(a[0])` reads like an array type.
                if let TyKind::Array(..) = ty.kind
                    && let Some(e) = type_as_expr(ty)
                    && let Ok(operand) = self.unevaluated(|s| s.expr(&e))
                {
                    return self.size_value(&operand.ty().clone());
                }
                let t = self.resolve_type(ty)?;
                self.size_value(&t.ty)?
            }
            ExprKind::SizeofExpr(inner) if string_length(inner).is_some() => {
                // A string is an array of its characters and a final zero; it has a size, but no value here.
                let length = string_length(inner).unwrap_or(0) as i64 + 1;
                self.int_value(Scalar::U64, length).into()
            }
            ExprKind::SizeofExpr(inner) => {
                if let ExprKind::Paren(p) = &inner.kind
                    && let ExprKind::Path(path) = &p.kind
                    && let Ok(Entity::Type(t)) = self.resolve_path(path)
                {
                    return self.size_value(&t.ty);
                }
                let operand = self.unevaluated(|s| s.expr(inner))?;
                self.size_value(&operand.ty().clone())?
            }
            ExprKind::SizeofPack(ident) => {
                let n = match self.lookup(&ident.name, ident.span)? {
                    Some(Entity::Pack(items)) => items.len(),
                    Some(Entity::OperandPack(items)) => items.len(),
                    _ => {
                        return self.err(
                            "E0504",
                            format!("'{}' is not a parameter pack", ident.name),
                            ident.span,
                        );
                    }
                };
                self.int_value(Scalar::U64, n as i64).into()
            }
            ExprKind::AlignofType(ty) => {
                let t = self.resolve_type(ty)?;
                let (_, align) = self.size_align(&t.ty)?;
                self.int_value(Scalar::U64, align.into()).into()
            }
            ExprKind::Lambda(l) => self.lambda(l)?,
            ExprKind::PackExpansion(_) => {
                return self.err("E0505", "a pack cannot be expanded here", span);
            }
            ExprKind::Fold {
                op,
                assign,
                pack,
                init,
                left,
            } => self.fold(*op, *assign, pack, init.as_deref(), *left, span)?,
        })
    }

    fn size_value(&mut self, ty: &Type) -> Res<Operand> {
        let (size, _) = self.size_align(ty)?;
        Ok(self.int_value(Scalar::U64, size as i64).into())
    }

    fn path_expr(&mut self, path: &ast::Path) -> Res<Operand> {
        match self.resolve_path(path)? {
            Entity::Variable(operand, _) | Entity::Operand(operand) => Ok(operand),
            Entity::Library(LibEntity::Value(value)) => Ok(value.into()),
            Entity::Functions(set) => {
                let functions: Vec<FunctionRef> = set
                    .user
                    .into_iter()
                    .map(|mut f| {
                        if !set.args.is_empty() {
                            f.args = set.args.clone();
                        }
                        f
                    })
                    .collect();
                if functions.is_empty() {
                    return self.err(
                        "E0506",
                        format!("the library function '{path}' can only be called"),
                        path.span,
                    );
                }
                Ok(Value::empty(Type::Overloads(Rc::new(functions))).into())
            }
            Entity::OperandPack(_) | Entity::Pack(_) => self.err(
                "E0445",
                format!("the parameter pack '{path}' is not expanded: write '{path}...'"),
                path.span,
            ),
            Entity::Type(_) | Entity::Template(_) | Entity::Library(_) => self.err(
                "E0507",
                format!("'{path}' is a type, and a value is expected here"),
                path.span,
            ),
            _ => self.err("E0508", format!("'{path}' is not a value"), path.span),
        }
    }

    fn unary(&mut self, op: UnOp, inner: &Expr, span: Span) -> Res<Operand> {
        match op {
            UnOp::AddrOf => {
                let operand = self.expr(inner)?;
                self.at(span);
                self.address_of(operand, span)
            }
            UnOp::Deref => {
                let operand = self.expr(inner)?;
                self.at(span);
                self.deref_operand(operand, span)
            }
            UnOp::PreInc | UnOp::PreDec | UnOp::PostInc | UnOp::PostDec => {
                let operand = self.expr(inner)?;
                self.at(span);
                self.increment(op, operand, span)
            }
            UnOp::Plus | UnOp::Neg | UnOp::Not | UnOp::BitNot => {
                let operand = self.expr(inner)?;
                self.at(span);
                self.unary_op(op, operand, span)
            }
        }
    }

    /// `&x`
    pub fn address_of(&mut self, operand: Operand, span: Span) -> Res<Operand> {
        match operand {
            Operand::Place(place) => {
                if let Type::Record(_) = place.ty
                    && let Some(result) =
                        self.user_operator("operator&", &[place.clone().into()], span)
                {
                    return result;
                }
                let ty = pointer_to(place.qual_type());
                let leaf = match &place.place {
                    Place::Memory { .. } if self.const_eval == 0 => {
                        self.address_leaf(&place, span)?
                    }
                    Place::TensorElement { .. } => self.address_leaf(&place, span)?,
                    Place::Slots(_) | Place::Memory { .. } => Leaf::Place(Rc::new(place)),
                    Place::CoopElement { .. } => {
                        return Ok(Value::one(ty, Leaf::Place(Rc::new(place))).into());
                    }
                    _ => {
                        return self.err("E0468", "this expression has no address", span);
                    }
                };
                Ok(Value::one(ty, leaf).into())
            }
            Operand::Value(value) if matches!(value.ty, Type::Overloads(_)) => Ok(value.into()),
            Operand::Value(_) => self.err("E0468", "a temporary has no address", span),
        }
    }

    /// `*p`
    pub fn deref_operand(&mut self, operand: Operand, span: Span) -> Res<Operand> {
        let operand = self.decay(operand, span)?;
        match operand.ty().clone() {
            Type::Pointer(pointee) => {
                let value = self.rvalue(operand)?;
                Ok(self.pointee(&value, &pointee)?.into())
            }
            Type::Overloads(_) | Type::Function(_) => Ok(operand),
            Type::Object(_) => match library::operator(self, "*", &[operand], span) {
                Some(result) => result,
                None => self.err("E0509", "this object cannot be dereferenced", span),
            },
            ty => match self.user_operator("operator*", &[operand], span) {
                Some(result) => result,
                None => self.err(
                    "E0509",
                    format!("'{}' cannot be dereferenced", self.type_name(&ty)),
                    span,
                ),
            },
        }
    }

    /// What a pointer value points at.
    pub fn pointee(&mut self, value: &Value, pointee: &QualType) -> Res<LValue> {
        if let Some(Leaf::Place(place)) = value.leaf() {
            if place.ty == pointee.ty {
                let mut place = (**place).clone();
                place.is_const |= pointee.is_const;
                return Ok(place);
            }
            if let Type::Record(base) = pointee.ty
                && let Some(part) = self.upcast(&(**place).clone(), base)?
            {
                return Ok(part);
            }
        }
        if pointee.ty == Type::Void {
            return self.err(
                "E0510",
                "a pointer to 'void' cannot be dereferenced",
                self.span,
            );
        }
        let Some(leaf) = value.leaf().cloned() else {
            return self.err("E0510", "this pointer is not known", self.span);
        };
        let pointer = self.materialize(&leaf)?;
        self.deref(pointer, pointee)
    }

    /// The object of a member access; `->` is followed.
    pub fn member_object(&mut self, base: &Expr, arrow: bool, span: Span) -> Res<Operand> {
        let mut object = self.expr(base)?;
        self.at(span);
        if arrow {
            let mut steps = 0;
            while let Type::Record(_) = object.ty() {
                match self.user_operator("operator->", &[object.clone()], span) {
                    Some(result) if steps < 16 => object = result?,
                    _ => {
                        return self.err(
                            "E0511",
                            format!("'{}' is no pointer: use '.'", self.type_name(object.ty())),
                            span,
                        );
                    }
                }
                steps += 1;
            }
            object = self.deref_operand(object, span)?;
        } else if let Type::Pointer(_) = object.ty() {
            return self.err_help(
                "E0511",
                format!("'{}' is a pointer", self.type_name(object.ty())),
                span,
                "use '->'",
            );
        }
        Ok(object)
    }

    /// `object.member`
    pub fn member(&mut self, object: Operand, member: &ast::Path, span: Span) -> Res<Operand> {
        let name = member.last().ident.name.clone();
        match object.ty().clone() {
            Type::Record(id) => {
                let place = match object {
                    Operand::Place(place) => place,
                    Operand::Value(value) => {
                        let ty = value.ty.clone();
                        if self.const_eval == 0 && self.is_union(id) {
                            self.new_variable("temporary", &ty, value, false)?
                        } else {
                            self.place_of(value.into())?
                        }
                    }
                };
                if member.segments.len() > 1 {
                    let mut path = member.clone();
                    path.segments.pop();
                    if let Entity::Type(QualType {
                        ty: Type::Record(base),
                        ..
                    }) = self.resolve_path(&path)?
                        && let Some(part) = self.upcast(&place, base)?
                        && let Some(Entity::Variable(operand, _) | Entity::Operand(operand)) =
                            self.record_member(base, &name, Some(&part), span)?
                    {
                        return Ok(operand);
                    }
                }
                match self.record_member(id, &name, Some(&place), span)? {
                    Some(Entity::Variable(operand, _) | Entity::Operand(operand)) => Ok(operand),
                    Some(Entity::Functions(_)) => self.err(
                        "E0512",
                        format!("the member function '{name}' can only be called"),
                        span,
                    ),
                    Some(_) => self.err(
                        "E0512",
                        format!("'{name}' is a type, not a member of the object"),
                        span,
                    ),
                    None => self.err(
                        "E0472",
                        format!("'{}' has no member '{name}'", self.type_name(&place.ty)),
                        member.span,
                    ),
                }
            }
            Type::Vector { scalar, len, .. } => self.swizzle(object, &name, scalar, len, span),
            Type::Object(_) => match library::field(self, &object, &name, span) {
                Some(result) => result,
                None => self.err(
                    "E0472",
                    format!("'{}' has no member '{name}'", self.type_name(object.ty())),
                    member.span,
                ),
            },
            ty => self.err(
                "E0472",
                format!("'{}' has no members", self.type_name(&ty)),
                member.span,
            ),
        }
    }

    fn swizzle(
        &mut self,
        object: Operand,
        name: &str,
        scalar: Scalar,
        len: u8,
        span: Span,
    ) -> Res<Operand> {
        let Some(lanes) = swizzle_lanes(name, len) else {
            return self.err(
                "E0513",
                format!(
                    "'{}' has no component '{name}'",
                    self.type_name(object.ty())
                ),
                span,
            );
        };
        self.lanes(object, lanes, scalar)
    }

    /// Components of a vector.
    pub fn lanes(&mut self, object: Operand, lanes: Vec<u8>, scalar: Scalar) -> Res<Operand> {
        let ty = Type::vector(scalar, lanes.len() as u8);
        match object {
            Operand::Value(value) => {
                let leaves = lanes
                    .iter()
                    .map(|&l| value.leaves[l as usize].clone())
                    .collect();
                Ok(Value { ty, leaves }.into())
            }
            Operand::Place(base) => {
                let mut repeated = lanes.clone();
                repeated.sort_unstable();
                repeated.dedup();
                let is_const = base.is_const || repeated.len() != lanes.len();
                let is_volatile = base.is_volatile;
                let place = match (&base.place, lanes.as_slice()) {
                    (
                        Place::Memory {
                            pointer,
                            offset,
                            space,
                            align,
                        },
                        [lane],
                    ) => {
                        let bytes = u64::from(*lane) * u64::from(scalar.size());
                        Place::Memory {
                            pointer: *pointer,
                            offset: offset + bytes as i64,
                            space: *space,
                            align: super::emit::aligned(*align, bytes),
                        }
                    }
                    (Place::Slots(slots), [lane]) => {
                        Place::Slots(vec![slots[*lane as usize].clone()])
                    }
                    (
                        Place::Swizzle {
                            base: inner,
                            lanes: outer,
                        },
                        _,
                    ) => Place::Swizzle {
                        base: inner.clone(),
                        lanes: lanes.iter().map(|&l| outer[l as usize]).collect(),
                    },
                    _ => Place::Swizzle {
                        base: Box::new(base),
                        lanes,
                    },
                };
                Ok(LValue {
                    ty,
                    is_const,
                    is_volatile,
                    place,
                }
                .into())
            }
        }
    }

    /// `base[i, …]`
    pub fn index(&mut self, base: Operand, mut indices: Vec<Operand>, span: Span) -> Res<Operand> {
        match base.ty().clone() {
            Type::Object(_) => {
                let mut operands = vec![base];
                operands.append(&mut indices);
                return match library::operator(self, "[]", &operands, span) {
                    Some(result) => result,
                    None => self.err(
                        "E0514",
                        format!("'{}' cannot be indexed", self.type_name(operands[0].ty())),
                        span,
                    ),
                };
            }
            Type::Record(_) => {
                let args = indices.into_iter().map(|o| Arg::Operand(o, span)).collect();
                return self.call_member(base, "operator[]", Vec::new(), args, span);
            }
            _ => {}
        }
        let (Some(index), true) = (indices.pop(), indices.is_empty()) else {
            return self.err(
                "E0515",
                format!("'{}' takes one index", self.type_name(base.ty())),
                span,
            );
        };
        let index = self.integer_index(index, span)?;
        match base.ty().clone() {
            Type::Array(element, n) => self.index_array(base, &element, n, &index, span),
            Type::Pointer(pointee) => {
                let value = self.rvalue(base)?;
                if let Some(Leaf::Place(_)) = value.leaf()
                    && self.int_of(&index) == Some(0)
                {
                    return Ok(self.pointee(&value, &pointee)?.into());
                }
                let moved = self.pointer_add(&value, &pointee, &index, false, span)?;
                Ok(self.pointee(&moved, &pointee)?.into())
            }
            Type::Vector { scalar, len, .. } => self.index_vector(base, scalar, len, &index, span),
            Type::Matrix {
                scalar,
                columns,
                rows,
            } => self.index_matrix(base, scalar, columns, rows, &index, span),
            ty => self.err(
                "E0514",
                format!("'{}' cannot be indexed", self.type_name(&ty)),
                span,
            ),
        }
    }

    fn integer_index(&mut self, index: Operand, span: Span) -> Res<Leaf> {
        let index = match index.ty() {
            Type::Record(_) | Type::Enum(_) => self.arithmetic(index, span)?,
            _ => index,
        };
        let value = self.rvalue(index)?;
        match &value.ty {
            Type::Scalar(scalar) if !scalar.is_float() => Ok(value.leaves[0].clone()),
            ty => self.err(
                "E0516",
                format!(
                    "an index must be an integer, and this is '{}'",
                    self.type_name(ty)
                ),
                span,
            ),
        }
    }

    fn index_array(
        &mut self,
        base: Operand,
        element: &QualType,
        n: u64,
        index: &Leaf,
        span: Span,
    ) -> Res<Operand> {
        let mut place = self.place_of(base)?;
        let known = self.int_of(index);
        if let Some(i) = known
            && n != u64::MAX
            && (i < 0 || i >= i128::from(n))
        {
            if self.const_eval > 0 {
                return self.err(
                    "E0517",
                    format!("index {i} is outside of an array of {n} elements"),
                    span,
                );
            }
            self.warn(
                "W0402",
                format!("index {i} is outside of an array of {n} elements"),
                span,
            );
        }
        if let (Place::Slots(_), Some(i)) = (&place.place, known)
            && i >= 0
            && i < i128::from(n)
        {
            let count = if element.is_reference() {
                1
            } else {
                self.leaf_kinds(&element.ty)?.len()
            };
            return Ok(self.part(&place, element, i as usize * count, 0)?.into());
        }
        if let Place::Slots(slots) = &place.place {
            if self.const_eval > 0 {
                return self.err(
                    "E0420",
                    "this is not a constant expression: its value is known at run time only",
                    span,
                );
            }
            if !place.is_const && slots.iter().any(|s| matches!(s, Slot::Local(_))) {
                return self.err(
                    "E0518",
                    "this array is held in registers and cannot be indexed at run time",
                    span,
                );
            }
            place = self.in_memory(place, span)?;
        }
        let (size, align) = self.size_align(&element.ty)?;
        let is_const = place.is_const || element.is_const;
        let Place::Memory {
            pointer,
            offset,
            space,
            align: known_align,
        } = place.place
        else {
            return self.err("E0514", "this array cannot be indexed", span);
        };
        let target = match known {
            Some(i) => Place::Memory {
                pointer,
                offset: offset + i as i64 * size as i64,
                space,
                align: super::emit::aligned(known_align, (i as u64).wrapping_mul(size)),
            },
            None => {
                let pointer = self.address(pointer, offset);
                let pointer = self.advance(pointer, index, size)?;
                Place::Memory {
                    pointer,
                    offset: 0,
                    space,
                    align: align.min(known_align).max(1),
                }
            }
        };
        Ok(LValue {
            ty: element.ty.clone(),
            is_const,
            is_volatile: place.is_volatile,
            place: target,
        }
        .into())
    }

    /// A pointer plus `index` elements of `size` bytes.
    pub fn advance(
        &mut self,
        pointer: anymetal_ir::ValueId,
        index: &Leaf,
        size: u64,
    ) -> Res<anymetal_ir::ValueId> {
        let index = self.convert_leaf(index, Scalar::I64)?;
        let size = Self::int_leaf(Scalar::I64, size.into());
        let math = self.math;
        let bytes = self.binary_leaf(anymetal_ir::BinaryOp::Mul, &index, &size, math)?;
        let bytes = self.materialize(&bytes)?;
        Ok(self.builder.offset(pointer, bytes))
    }

    fn index_vector(
        &mut self,
        base: Operand,
        scalar: Scalar,
        len: u8,
        index: &Leaf,
        span: Span,
    ) -> Res<Operand> {
        if let Some(i) = self.int_of(index) {
            if i < 0 || i >= i128::from(len) {
                return self.err("E0517", format!("component {i} of a vector of {len}"), span);
            }
            return self.lanes(base, vec![i as u8], scalar);
        }
        self.runtime_only()?;
        let place = self.place_of(base)?;
        let ty = Type::Scalar(scalar);
        let is_const = place.is_const;
        let is_volatile = place.is_volatile;
        let target = match &place.place {
            Place::Memory {
                pointer,
                offset,
                space,
                ..
            } => {
                let pointer = self.address(*pointer, *offset);
                let pointer = self.advance(pointer, index, scalar.size().into())?;
                Place::Memory {
                    pointer,
                    offset: 0,
                    space: *space,
                    align: scalar.size(),
                }
            }
            _ => {
                let index = self.convert_leaf(index, Scalar::I32)?;
                let index = self.materialize(&index)?;
                Place::VectorElement {
                    base: Box::new(place),
                    index,
                }
            }
        };
        Ok(LValue {
            ty,
            is_const,
            is_volatile,
            place: target,
        }
        .into())
    }

    fn index_matrix(
        &mut self,
        base: Operand,
        scalar: Scalar,
        columns: u8,
        rows: u8,
        index: &Leaf,
        span: Span,
    ) -> Res<Operand> {
        let column: QualType = Type::vector(scalar, rows).into();
        let (size, _) = self.size_align(&column.ty)?;
        let place = self.place_of(base)?;
        if let Some(i) = self.int_of(index) {
            if i < 0 || i >= i128::from(columns) {
                return self.err("E0517", format!("column {i} of {columns}"), span);
            }
            let leaf = i as usize * rows as usize;
            return Ok(self.part(&place, &column, leaf, i as u64 * size)?.into());
        }
        let place = match &place.place {
            Place::Slots(slots)
                if slots.iter().any(|s| matches!(s, Slot::Local(_))) && !place.is_const =>
            {
                // Reading is all that a register matrix allows here.
                let value = self.load(&place)?;
                let fixed = self.place_of(value.into())?;
                self.in_memory(fixed, span)?
            }
            _ => self.in_memory(place, span)?,
        };
        let array = array_like(&column, columns);
        let as_array = LValue {
            ty: array.clone(),
            ..place
        };
        self.index_array(as_array.into(), &column, columns.into(), index, span)
    }

    fn cast(&mut self, kind: CastKind, ty: &ast::Ty, e: &Expr, span: Span) -> Res<Operand> {
        if let ExprKind::InitList(_) = e.kind {
            let t = self.resolve_type(ty)?;
            let arg = self.arg(e)?;
            return Ok(self.init(&t.ty, &arg, span)?.into());
        }
        let operand = self.expr(e)?;
        self.at(span);
        let t = if super::tyres::has_auto(ty) {
            self.deduce_auto(ty, &operand)?
        } else {
            self.resolve_type(ty)?
        };
        if t.is_reference() {
            return self.cast_reference(kind, &t, operand, span);
        }
        match kind {
            CastKind::Reinterpret => self.reinterpret(&t.ty, operand, span),
            CastKind::Const => {
                let decayed = self.decay(operand, span)?;
                let value = self.rvalue(decayed)?;
                match (&value.ty, &t.ty) {
                    (Type::Pointer(a), Type::Pointer(b)) if a.ty == b.ty && a.space == b.space => {
                        Ok(Value {
                            ty: t.ty.clone(),
                            leaves: value.leaves,
                        }
                        .into())
                    }
                    _ => self.err(
                        "E0519",
                        format!(
                            "'const_cast' from '{}' to '{}' changes more than 'const'",
                            self.type_name(&value.ty),
                            self.qual_name(&t)
                        ),
                        span,
                    ),
                }
            }
            CastKind::CStyle | CastKind::Static => {
                if let Type::Object(_) = t.ty
                    && operand.ty() != &t.ty
                {
                    return self.construct(&t.ty, &[Arg::Operand(operand, span)], false, span);
                }
                if kind == CastKind::CStyle
                    && let (Type::Pointer(_) | Type::Array(..), Type::Pointer(_)) =
                        (operand.ty(), &t.ty)
                {
                    return self.reinterpret(&t.ty, operand, span);
                }
                Ok(self.convert(operand, &t.ty, true, span)?.into())
            }
        }
    }

    fn cast_reference(
        &mut self,
        kind: CastKind,
        t: &QualType,
        operand: Operand,
        span: Span,
    ) -> Res<Operand> {
        let place = match operand {
            Operand::Place(place) => place,
            Operand::Value(value) if t.reference == Reference::Rvalue || t.is_const => {
                let value = self.convert(value.into(), &t.ty, true, span)?;
                return Ok(value.into());
            }
            Operand::Value(_) => {
                return self.err("E0485", "a temporary cannot be cast to a reference", span);
            }
        };
        if place.ty == t.ty {
            let mut place = place;
            place.is_const = t.is_const
                || (place.is_const && kind != CastKind::Const && kind != CastKind::CStyle);
            return Ok(place.into());
        }
        if let Type::Record(base) = t.ty
            && self.derives(&place.ty.clone(), base)
            && let Some(part) = self.upcast(&place, base)?
        {
            return Ok(part.into());
        }
        if matches!(kind, CastKind::Reinterpret | CastKind::CStyle) {
            if let Some(space) = t.space
                && space != place.space()
            {
                return self.err(
                    "E0484",
                    format!(
                        "a reference to '{space}' memory cannot be bound to an object in '{}' memory",
                        place.space()
                    ),
                    span,
                );
            }
            return match place.place {
                Place::Memory { .. } => Ok(LValue {
                    ty: t.ty.clone(),
                    is_const: t.is_const || place.is_const,
                    ..place
                }
                .into()),
                _ => self.reinterpret_slots(place, t, span),
            };
        }
        if t.is_const || t.reference == Reference::Rvalue {
            return Ok(self.convert(place.into(), &t.ty, true, span)?.into());
        }
        self.err(
            "E0466",
            format!(
                "'{}' does not convert to '{}'",
                self.type_name(&place.ty),
                self.qual_name(t)
            ),
            span,
        )
    }

    /// A reinterpreted reference to an object in registers: possible where the leaves are the same.
    fn reinterpret_slots(&mut self, place: LValue, t: &QualType, span: Span) -> Res<Operand> {
        let same = match (self.leaf_kinds(&place.ty), self.leaf_kinds(&t.ty)) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        let same_offsets = same && self.leaf_offsets(&place.ty)? == self.leaf_offsets(&t.ty)?;
        if same_offsets && matches!(place.place, Place::Slots(_)) {
            return Ok(LValue {
                ty: t.ty.clone(),
                is_const: t.is_const || place.is_const,
                ..place
            }
            .into());
        }
        if t.is_const || place.is_const {
            let value = self.load(&place)?;
            let ty = value.ty.clone();
            let temporary = self.new_memory("temporary", &ty, Space::Thread, 16)?;
            self.store(&temporary, &value)?;
            return Ok(LValue {
                ty: t.ty.clone(),
                is_const: true,
                ..temporary
            }
            .into());
        }
        self.err(
            "E0520",
            "this object is held in registers and cannot be reinterpreted as another type",
            span,
        )
    }

    fn reinterpret(&mut self, to: &Type, operand: Operand, span: Span) -> Res<Operand> {
        let operand = self.decay(operand, span)?;
        let from = operand.ty().clone();
        match (&from, to) {
            (Type::Pointer(a), Type::Pointer(b)) => {
                if a.space_or_thread() != b.space_or_thread() {
                    return Ok(self.convert(operand, to, true, span)?.into());
                }
                let mut value = self.rvalue(operand)?;
                if a.ty != b.ty
                    && let Some(Leaf::Place(place)) = value.leaf()
                {
                    let place = (**place).clone();
                    let moved = match &place.place {
                        Place::Memory { .. } => place,
                        _ => match self.reinterpret_slots(place, b, span)? {
                            Operand::Place(place) => {
                                return Ok(
                                    Value::one(to.clone(), Leaf::Place(Rc::new(place))).into()
                                );
                            }
                            Operand::Value(_) => return Err(Fail::Reported),
                        },
                    };
                    value.leaves = vec![self.address_leaf(&moved, span)?];
                }
                Ok(Value {
                    ty: to.clone(),
                    leaves: value.leaves,
                }
                .into())
            }
            _ => Ok(self.convert(operand, to, true, span)?.into()),
        }
    }

    fn construct_expr(
        &mut self,
        ty: &ast::Ty,
        items: &[ast::InitItem],
        braces: bool,
        span: Span,
    ) -> Res<Operand> {
        let list = ast::Expr {
            kind: ExprKind::InitList(items.to_vec()),
            span,
        };
        let list = self.arg(&list)?;
        let Arg::List(named, _) = &list else {
            return Err(Fail::Reported);
        };
        let args: Vec<Arg> = named.iter().map(|(_, arg)| arg.clone()).collect();
        if let TyKind::Path(path) = &ty.kind {
            let entity = self.resolve_path(path)?;
            if !matches!(entity, Entity::Type(_)) {
                return self.construct_entity(entity, path, args, braces, span);
            }
        }
        let t = self.resolve_type(ty)?;
        self.at(span);
        if braces && !matches!(t.ty, Type::Object(_)) {
            return Ok(self.init(&t.ty, &list, span)?.into());
        }
        self.construct(&t.ty, &args, braces, span)
    }

    /// `X(args)` where `X` may be a class template whose arguments are deduced.
    fn construct_entity(
        &mut self,
        entity: Entity,
        path: &ast::Path,
        args: Vec<Arg>,
        braces: bool,
        span: Span,
    ) -> Res<Operand> {
        let ty = match entity {
            Entity::Type(t) => t.ty,
            Entity::Library(LibEntity::Type(t)) => t.ty,
            other => self.deduce_class(other, path, &args, span)?,
        };
        if braces && !matches!(ty, Type::Object(_)) {
            let items = args.into_iter().map(|a| (None, a)).collect();
            return Ok(self.init(&ty, &Arg::List(items, span), span)?.into());
        }
        self.construct(&ty, &args, braces, span)
    }

    /// Class template argument deduction.
    pub fn deduce_class(
        &mut self,
        entity: Entity,
        path: &ast::Path,
        args: &[Arg],
        span: Span,
    ) -> Res<Type> {
        if let Entity::Library(LibEntity::Template { name, .. }) = &entity
            && let Some(refused) = library::refused_class(self, name, span)
        {
            return refused;
        }
        match entity {
            Entity::Library(LibEntity::Template {
                deduce: Some(deduce),
                ..
            }) => deduce(self, args, span),
            Entity::Template(id) => {
                if let [Arg::Operand(o, _)] = args
                    && let Type::Record(r) = o.ty()
                    && self.records[r.index()]
                        .template
                        .as_ref()
                        .is_some_and(|(t, _)| *t == id)
                {
                    return Ok(o.ty().clone());
                }
                self.deduce_record(id, args, span)
            }
            _ => self.err(
                "E0521",
                format!(
                    "'{path}' cannot be constructed from {}",
                    self.args_types(args)
                ),
                span,
            ),
        }
    }

    fn deduce_record(&mut self, id: TemplateId, args: &[Arg], span: Span) -> Res<Type> {
        let template = &self.templates[id.index()];
        let (name, env) = (template.name.clone(), template.env.clone());
        let guides = template.guides.clone();
        let primary = template.primary.clone();
        let TemplateDecl::Record(decl) = &primary else {
            return self.err("E0521", format!("'{name}' is no class template"), span);
        };
        for guide in guides {
            let f = FunctionRef {
                decl: guide.clone(),
                env: env.clone(),
                record: None,
                args: Vec::new(),
            };
            if let Some((template_args, _)) = self.viable(&f, args, None) {
                let scope = match &guide.template {
                    Some(header) => self.template_env(&env, header, &template_args),
                    None => env.clone(),
                };
                return Ok(self.within(scope, |s| s.resolve_type(&guide.ret))?.ty);
            }
        }
        let header = decl.template.clone();
        let mut candidates = Vec::new();
        for member in decl.members.iter().flatten() {
            if let ast::Decl::Function(f) = &member.decl
                && matches!(f.kind, ast::FunctionKind::Constructor)
                && f.template.is_none()
            {
                candidates.push(f.params.clone());
            }
        }
        // An aggregate deduces from its data members.
        let data: Vec<ast::Param> = decl
            .members
            .iter()
            .flatten()
            .filter_map(|m| match &m.decl {
                ast::Decl::Var(v) if !v.specs.is_static => Some(ast::Param {
                    name: None,
                    ty: v.ty.clone(),
                    default: None,
                    attrs: Vec::new(),
                    is_pack: false,
                    span: v.span,
                }),
                _ => None,
            })
            .collect();
        if candidates.is_empty() {
            candidates.push(data);
        }
        for params in candidates {
            if args.len() > params.len() {
                continue;
            }
            let Some(header) = &header else { continue };
            let fake = ast::FunctionDecl {
                name: ast::Ident {
                    name: name.clone(),
                    span,
                },
                qualifier: Vec::new(),
                kind: ast::FunctionKind::Plain,
                template: Some(header.clone()),
                outer_templates: Vec::new(),
                spec_args: None,
                kernel: None,
                ret: ast::Ty {
                    kind: TyKind::Builtin(ast::BuiltinTy::Void),
                    quals: ast::Quals::default(),
                    span,
                },
                params,
                this_quals: ast::Quals::default(),
                specs: ast::Specifiers::default(),
                attrs: Vec::new(),
                member_inits: Vec::new(),
                body: ast::Body::None,
                span,
            };
            let f = FunctionRef {
                decl: std::sync::Arc::new(fake),
                env: env.clone(),
                record: None,
                args: Vec::new(),
            };
            if let Some(template_args) = self.deduce_call(&f, &[], args) {
                return match self.instantiate(id, template_args, span)? {
                    Entity::Type(t) => Ok(t.ty),
                    _ => Err(Fail::Reported),
                };
            }
        }
        self.err(
            "E0521",
            format!(
                "the template arguments of '{name}' cannot be deduced from {}",
                self.args_types(args)
            ),
            span,
        )
    }

    fn call(&mut self, callee: &Expr, args: &[Expr], span: Span) -> Res<Operand> {
        let mut target = callee;
        while let ExprKind::Paren(inner) = &target.kind {
            target = inner;
        }
        match &target.kind {
            ExprKind::Path(path) if path.last().ident.name == "is_function_constant_defined" => {
                self.is_constant_defined(args, span)
            }
            ExprKind::Path(path) => {
                let associated = path.as_single().is_some();
                let entity = match self.resolve_path(path) {
                    Ok(entity) => entity,
                    Err(fail) if associated && path.as_ident().is_some() => {
                        // A function that only its arguments' namespaces know.
                        return self.call_associated(path, args, span, fail);
                    }
                    Err(fail) => return Err(fail),
                };
                match entity {
                    Entity::Functions(set) => {
                        let args = self.args(args)?;
                        self.at(span);
                        let member = set.user.iter().any(|f| f.record.is_some());
                        let this = if member { self.this_object() } else { None };
                        let name = path.last().ident.name.clone();
                        self.call_set(&set, &name, args, this, span)
                    }
                    Entity::Variable(operand, _) | Entity::Operand(operand) => {
                        let args = self.args(args)?;
                        self.at(span);
                        self.call_value(operand, args, span)
                    }
                    Entity::Type(QualType { ty, .. }) => {
                        let args = self.args(args)?;
                        self.construct(&ty, &args, false, span)
                    }
                    other @ (Entity::Library(_) | Entity::Template(_)) => {
                        let args = self.args(args)?;
                        self.construct_entity(other, path, args, false, span)
                    }
                    _ => self.err("E0492", format!("'{path}' cannot be called"), span),
                }
            }
            ExprKind::Member {
                base,
                arrow,
                member,
            } => {
                let object = self.member_object(base, *arrow, span)?;
                let segment = member.last();
                let template_args = match &segment.args {
                    Some(given) => self.template_args(given)?,
                    None => Vec::new(),
                };
                let args = self.args(args)?;
                self.at(span);
                let object = if member.segments.len() > 1 {
                    let mut path = member.clone();
                    path.segments.pop();
                    match (self.resolve_path(&path)?, object) {
                        (
                            Entity::Type(QualType {
                                ty: Type::Record(base),
                                ..
                            }),
                            Operand::Place(place),
                        ) => match self.upcast(&place, base)? {
                            Some(part) => part.into(),
                            None => place.into(),
                        },
                        (_, object) => object,
                    }
                } else {
                    object
                };
                self.call_member(object, &segment.ident.name, template_args, args, span)
            }
            _ => {
                let operand = self.expr(target)?;
                let args = self.args(args)?;
                self.at(span);
                self.call_value(operand, args, span)
            }
        }
    }

    fn call_associated(
        &mut self,
        path: &ast::Path,
        args: &[Expr],
        span: Span,
        fail: Fail,
    ) -> Res<Operand> {
        if matches!(fail, Fail::Reported) {
            return Err(fail);
        }
        let has_records = {
            let args = self.args(args)?;
            let any = args
                .iter()
                .any(|a| matches!(a.operand().map(Operand::ty), Some(Type::Record(_))));
            any.then_some(args)
        };
        match has_records {
            Some(args) => {
                let name = path.last().ident.name.clone();
                let set = FunctionSet::default();
                match self.call_set(&set, &name, args, None, span) {
                    Err(Fail::Error(d)) if d.code == "E0482" && d.secondary.is_empty() => Err(fail),
                    result => result,
                }
            }
            None => Err(fail),
        }
    }

    fn lambda(&mut self, l: &std::sync::Arc<ast::LambdaExpr>) -> Res<Operand> {
        let scope = Env::names(&self.env.clone());
        if l.default_by_ref == Some(false) {
            let mut names = Vec::new();
            super::uses::stmt(&l.body, &mut |e| {
                if let ExprKind::Path(path) = &e.kind
                    && let Some(ident) = path.as_ident()
                    && !names.contains(&ident.name)
                {
                    names.push(ident.name.clone());
                }
            });
            for name in names {
                if l.captures
                    .iter()
                    .any(|c| c.name.as_ref().is_some_and(|n| n.name == name))
                {
                    continue;
                }
                if let Ok(Some(Entity::Variable(Operand::Place(place), declared))) =
                    self.lookup(&name, l.span)
                    && place.space() == Space::Thread
                    && self.is_local_name(&name)
                {
                    let copy = self.capture(&name, place, l.is_mutable)?;
                    scope.bind(name, Entity::Variable(copy.into(), declared));
                }
            }
        }
        for capture in &l.captures {
            let Some(name) = &capture.name else { continue };
            match &capture.init {
                Some(init) => {
                    let operand = self.expr(init)?;
                    if capture.by_ref {
                        let declared = decayed(&operand);
                        scope.bind(name.name.clone(), Entity::Variable(operand, declared));
                    } else {
                        let operand = self.decay(operand, init.span)?;
                        let value = self.rvalue_copy(operand)?;
                        let ty = value.ty.clone();
                        let place = self.fixed_variable(&ty, value);
                        scope.bind(name.name.clone(), Entity::Variable(place.into(), ty.into()));
                    }
                }
                None if capture.by_ref => {}
                None => {
                    if let Some(Entity::Variable(Operand::Place(place), declared)) =
                        self.lookup(&name.name, name.span)?
                    {
                        let copy = self.capture(&name.name, place, l.is_mutable)?;
                        scope.bind(name.name.clone(), Entity::Variable(copy.into(), declared));
                    }
                }
            }
        }
        self.closures.push(Closure {
            expr: l.clone(),
            env: scope,
        });
        let id = ClosureId(self.closures.len() as u32 - 1);
        Ok(Value::empty(Type::Closure(id)).into())
    }

    /// Is the name bound in a block or parameter list (not in a class or namespace)?
    fn is_local_name(&self, name: &Name) -> bool {
        let mut env = Some(self.env.clone());
        while let Some(e) = env {
            match &e.kind {
                EnvKind::Names(names) if names.borrow().iter().any(|(n, _)| n == name) => {
                    return true;
                }
                EnvKind::Namespace(_) => return false,
                _ => {}
            }
            env = e.parent.clone();
        }
        false
    }

    fn capture(&mut self, name: &Name, place: LValue, mutable: bool) -> Res<LValue> {
        let value = self.rvalue_copy(place.into())?;
        let ty = value.ty.clone();
        if mutable || self.needs_memory(&ty)? {
            return self.new_variable(name, &ty, value, false);
        }
        Ok(self.fixed_variable(&ty, value))
    }

    /// Calls a lambda.
    pub fn call_closure(
        &mut self,
        id: ClosureId,
        explicit: &[TemplateArg],
        args: Vec<Arg>,
        span: Span,
    ) -> Res<Operand> {
        let closure = &self.closures[id.index()];
        let (l, mut env) = (closure.expr.clone(), closure.env.clone());
        if let Some(header) = &l.template {
            let fake = FunctionRef {
                decl: std::sync::Arc::new(lambda_function(&l)),
                env: env.clone(),
                record: None,
                args: Vec::new(),
            };
            let Some(template_args) = self.deduce_call(&fake, explicit, &args) else {
                return self.err(
                    "E0482",
                    format!(
                        "the template arguments of this lambda cannot be deduced from {}",
                        self.args_types(&args)
                    ),
                    span,
                );
            };
            env = self.template_env(&env, header, &template_args);
        }
        let env = Env::names(&env);
        if self.frames.len() >= 400 {
            return self.err("E0486", "calls are nested too deep", span);
        }
        let inlined_at = if self.const_eval == 0 {
            self.span = span;
            self.locate();
            Some(self.builder.location())
        } else {
            None
        };
        self.frames.push(Frame {
            what: "lambda".into(),
            span,
            decl: None,
            record: None,
            inlined_at,
        });
        let uses = self.uses_of(&l.body);
        let former_uses = std::mem::replace(&mut self.current_uses, uses);
        let former = self.span;
        let pending = self.copy_back.len();
        let result = self.within(env.clone(), |s| {
            s.bind_params(&l.params, args, &env, span)?;
            let ret = match &l.ret {
                Some(ty) if !super::tyres::has_auto(ty) => Some(s.resolve_type(ty)?),
                _ => None,
            };
            let operand = s.function_body(&l.body, ret, false)?;
            s.write_back(pending)?;
            Ok(operand)
        });
        self.copy_back.truncate(pending);
        self.current_uses = former_uses;
        self.frames.pop();
        self.span = former;
        if self.const_eval == 0 {
            self.locate();
        }
        result
    }

    /// Runs `f` for each element of the packs that a pattern mentions.
    pub fn expand(
        &mut self,
        pattern: &Expr,
        span: Span,
        mut f: impl FnMut(&mut Self, &Expr) -> Res<()>,
    ) -> Res<()> {
        let names = names_in_expr(pattern);
        let packs = self.packs(names, span)?;
        let Some(n) = packs.iter().map(|(_, items)| items.len()).max() else {
            return self.err("E0522", "there is no parameter pack to expand here", span);
        };
        if packs.iter().any(|(_, items)| items.len() != n) {
            return self.err(
                "E0522",
                "the packs of this expansion differ in length",
                span,
            );
        }
        for i in 0..n {
            let scope = Env::names(&self.env.clone());
            for (name, items) in &packs {
                scope.bind(name.clone(), items[i].clone());
            }
            self.within(scope, |s| f(s, pattern))?;
        }
        Ok(())
    }

    fn packs(&mut self, names: Vec<Name>, span: Span) -> Res<Vec<(Name, Vec<Entity>)>> {
        let mut packs = Vec::new();
        for name in names {
            match self.lookup(&name, span) {
                Ok(Some(Entity::Pack(items))) => {
                    let items = items.iter().map(|a| self.entity_of(a)).collect();
                    packs.push((name, items));
                }
                Ok(Some(Entity::OperandPack(items))) => {
                    let items = items
                        .into_iter()
                        .map(|o| {
                            let declared = match &o {
                                Operand::Place(p) => {
                                    let mut t = p.qual_type();
                                    t.space = t.space.filter(|s| *s != Space::Thread);
                                    t
                                }
                                Operand::Value(v) => v.ty.clone().into(),
                            };
                            Entity::Variable(o, declared)
                        })
                        .collect();
                    packs.push((name, items));
                }
                _ => {}
            }
        }
        Ok(packs)
    }

    /// `Pattern...` in a template argument list.
    pub fn expand_template_arg(
        &mut self,
        arg: &ast::TemplateArg,
        out: &mut Vec<TemplateArg>,
    ) -> Res<()> {
        let names = match &arg.kind {
            ast::TemplateArgKind::Path(path) => names_in_path(path),
            ast::TemplateArgKind::Type(ty) => names_in_type(ty),
            ast::TemplateArgKind::Expr(e) => names_in_expr(e),
        };
        let packs = self.packs(names, arg.span)?;
        let Some(n) = packs.iter().map(|(_, items)| items.len()).max() else {
            return self.err(
                "E0522",
                "there is no parameter pack to expand here",
                arg.span,
            );
        };
        for i in 0..n {
            let scope = Env::names(&self.env.clone());
            for (name, items) in &packs {
                match items.get(i) {
                    Some(item) => scope.bind(name.clone(), item.clone()),
                    None => {
                        return self.err(
                            "E0522",
                            "the packs of this expansion differ in length",
                            arg.span,
                        );
                    }
                }
            }
            out.push(self.within(scope, |s| s.template_arg(arg))?);
        }
        Ok(())
    }

    /// The bits of a scalar as another scalar of the same size.
    pub fn bitcast_leaf(&mut self, leaf: &Leaf, to: Scalar) -> Res<Leaf> {
        if let Some(c) = self.const_of(leaf) {
            return Ok(Leaf::Const(anymetal_ir::Const {
                ty: to,
                bits: c.bits,
            }));
        }
        let operand = self.materialize(leaf)?;
        self.emit1(
            Op::Bitcast {
                operand,
                to: IrType::Scalar(to),
            },
            to,
        )
    }
}

/// `T[n]` read as the expression that it may be.
fn type_as_expr(ty: &ast::Ty) -> Option<Expr> {
    let kind = match &ty.kind {
        TyKind::Path(path) => ExprKind::Path(path.clone()),
        TyKind::Array(inner, Some(index)) => ExprKind::Index {
            base: Box::new(type_as_expr(inner)?),
            indices: vec![(**index).clone()],
        },
        _ => return None,
    };
    Some(Expr {
        kind,
        span: ty.span,
    })
}

fn array_like(column: &QualType, columns: u8) -> Type {
    Type::Array(Rc::new(column.clone()), columns.into())
}

/// The components that a swizzle names, or `None`.
pub fn swizzle_lanes(name: &str, len: u8) -> Option<Vec<u8>> {
    let all: Vec<u8> = match name {
        "lo" => (0..len.div_ceil(2)).collect(),
        "hi" if len == 3 => return None,
        "hi" => (len / 2..len).collect(),
        "even" => (0..len).step_by(2).collect(),
        "odd" => (1..len).step_by(2).collect(),
        _ if (name.starts_with('s') || name.starts_with('S')) && name.len() > 1 => name[1..]
            .chars()
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect::<Option<_>>()?,
        _ => {
            let table = if name.chars().all(|c| "xyzw".contains(c)) {
                "xyzw"
            } else if name.chars().all(|c| "rgba".contains(c)) {
                "rgba"
            } else {
                return None;
            };
            name.chars()
                .map(|c| table.find(c).map(|i| i as u8))
                .collect::<Option<_>>()?
        }
    };
    let fits = matches!(all.len(), 1 | 2 | 3 | 4 | 8 | 16) && all.iter().all(|&l| l < len);
    fits.then_some(all)
}

/// The type of an integer literal.
fn int_type(n: u64, suffix: ast::IntSuffix) -> Scalar {
    match (suffix.unsigned, suffix.long) {
        (true, true) => Scalar::U64,
        (true, false) if n <= u64::from(u32::MAX) => Scalar::U32,
        (true, false) => Scalar::U64,
        (false, true) if n > i64::MAX as u64 => Scalar::U64,
        (false, true) => Scalar::I64,
        (false, false) if n <= i32::MAX as u64 => Scalar::I32,
        (false, false) if !suffix.decimal && n <= u64::from(u32::MAX) => Scalar::U32,
        (false, false) if n <= i64::MAX as u64 => Scalar::I64,
        (false, false) => Scalar::U64,
    }
}

fn push(names: &mut Vec<Name>, path: &ast::Path) {
    for segment in &path.segments {
        if !names.contains(&segment.ident.name) {
            names.push(segment.ident.name.clone());
        }
        for arg in segment.args.iter().flatten() {
            let inner = match &arg.kind {
                ast::TemplateArgKind::Path(p) => names_in_path(p),
                ast::TemplateArgKind::Type(t) => names_in_type(t),
                ast::TemplateArgKind::Expr(e) => names_in_expr(e),
            };
            for name in inner {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
}

fn names_in_path(path: &ast::Path) -> Vec<Name> {
    let mut names = Vec::new();
    push(&mut names, path);
    names
}

/// The names that an expression mentions.
pub fn names_in_expr(e: &Expr) -> Vec<Name> {
    let mut names = Vec::new();
    super::uses::any_path(e, &mut |path| {
        push(&mut names, path);
        false
    });
    names
}

/// The names that a type mentions.
pub fn names_in_type(ty: &ast::Ty) -> Vec<Name> {
    match &ty.kind {
        TyKind::Path(path) => names_in_path(path),
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) | TyKind::Array(t, _) => {
            names_in_type(t)
        }
        TyKind::Decltype(e) => names_in_expr(e),
        _ => Vec::new(),
    }
}

/// A lambda as a function, for deduction.
fn lambda_function(l: &ast::LambdaExpr) -> ast::FunctionDecl {
    ast::FunctionDecl {
        name: ast::Ident {
            name: Name::from("lambda"),
            span: l.span,
        },
        qualifier: Vec::new(),
        kind: ast::FunctionKind::Plain,
        template: l.template.clone(),
        outer_templates: Vec::new(),
        spec_args: None,
        kernel: None,
        ret: ast::Ty {
            kind: TyKind::Auto,
            quals: ast::Quals::default(),
            span: l.span,
        },
        params: l.params.clone(),
        this_quals: ast::Quals::default(),
        specs: ast::Specifiers::default(),
        attrs: Vec::new(),
        member_inits: Vec::new(),
        body: ast::Body::None,
        span: l.span,
    }
}

/// The characters of a string literal, in parentheses or not.
fn string_length(expr: &ast::Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Paren(inner) => string_length(inner),
        ExprKind::Str(text) => Some(text.len()),
        _ => None,
    }
}
