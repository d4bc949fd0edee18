//! Expressions.

use super::lambda::{names_in_expr, names_in_path, names_in_type};
use std::rc::Rc;

use anymetal_ir::Scalar;

use super::context::*;
use super::library::{self, LibEntity};
use super::types::*;
use super::tyres::pointer_to;
use super::value::*;
use crate::ast::{self, Expr, ExprKind, FloatSuffix, Name, TyKind, UnOp};
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
        self.steps(1, span)
    }

    /// Counts work of the constant evaluator that is worth several steps.
    pub fn steps(&mut self, steps: u64, span: Span) -> Res<()> {
        if self.const_steps < steps {
            self.const_steps = 0;
            return self.err_help(
                "E0422",
                format!("the constant expressions take more than {MAX_CONST_STEPS} steps to evaluate"),
                span,
                "this is a limit of the compiler, not of Metal: compute less at compile time, or write the table out",
            );
        }
        self.const_steps -= steps;
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

    pub(super) fn expr_inner(&mut self, e: &Expr) -> Res<Operand> {
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
            ExprKind::Char(c) => Value::one(Scalar::I8, Self::int_leaf(Scalar::I8, i128::from(*c))).into(),
            ExprKind::Str(text) => self.string(text)?,
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
                self.subscript(base, indices, span)?
            }
            ExprKind::Member { base, arrow, member } => {
                let object = self.member_object(base, *arrow, span)?;
                self.member(object, member, span)?
            }
            ExprKind::Cast { kind, ty, expr } => self.cast(*kind, ty, expr, span)?,
            ExprKind::Construct { ty, args, braces } => self.construct_expr(ty, args, *braces, span)?,
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
                        return self.err("E0504", format!("'{}' is not a parameter pack", ident.name), ident.span);
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

    /// `base[indices]`
    fn subscript(&mut self, base: Operand, indices: &[Expr], span: Span) -> Res<Operand> {
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
        self.index(base, args, span)
    }

    /// The operand of `&`. A constant that the source declares in `constant` memory is held as values; where an address inside of it is
    /// asked for, the whole of it is put into a table, so that the pointer reaches the elements beside.
    fn addressed(&mut self, e: &Expr) -> Res<Operand> {
        let span = e.span;
        match &e.kind {
            ExprKind::Paren(inner) => self.addressed(inner),
            ExprKind::Index { base, indices } => {
                let base = self.addressed(base)?;
                self.subscript(base, indices, span)
            }
            ExprKind::Member {
                base,
                arrow: false,
                member,
            } => {
                let object = self.addressed(base)?;
                self.at(span);
                let object = self.object_itself(object, span)?;
                self.member(object, member, span)
            }
            ExprKind::Path(path) => match self.resolve_path(path)? {
                Entity::Variable(Operand::Place(place), ty)
                    if place.is_known() && (ty.space == Some(Space::Constant) || place.space() == Space::Constant) =>
                {
                    Ok(self.in_memory(place, span)?.into())
                }
                _ => self.expr(e),
            },
            _ => self.expr(e),
        }
    }

    /// A string: an array of its characters and a final zero in constant memory.
    fn string(&mut self, text: &str) -> Res<Operand> {
        let characters = text.bytes().chain([0]);
        let leaves: Vec<Leaf> = characters
            .map(|c| Self::int_leaf(Scalar::I8, i128::from(c as i8)))
            .collect();
        let element = QualType::from(Type::Scalar(Scalar::I8));
        let ty = super::tyres::array_of(element, leaves.len() as u64).ty;
        let mut place = self.fixed_variable(&ty, Value { ty: ty.clone(), leaves });
        if self.const_eval == 0 && self.unevaluated == 0 {
            place = self.in_memory(place, self.span)?;
        }
        Ok(place.into())
    }

    pub(super) fn size_value(&mut self, ty: &Type) -> Res<Operand> {
        let (size, _) = self.size_align(ty)?;
        Ok(self.int_value(Scalar::U64, size as i64).into())
    }

    pub(super) fn path_expr(&mut self, path: &ast::Path) -> Res<Operand> {
        match self.resolve_path(path)? {
            Entity::Variable(operand, _) | Entity::Operand(operand) => {
                if let (true, Operand::Place(place)) = (self.const_eval > 0, &operand)
                    && let Place::Slots(slots) = &place.place
                {
                    // Large objects are work.
                    self.steps(slots.len() as u64 / 8, path.span)?;
                }
                Ok(operand)
            }
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

    pub(super) fn unary(&mut self, op: UnOp, inner: &Expr, span: Span) -> Res<Operand> {
        match op {
            UnOp::AddrOf => {
                let operand = if self.const_eval == 0 && self.unevaluated == 0 {
                    self.addressed(inner)?
                } else {
                    self.expr(inner)?
                };
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
                    && let Some(result) = self.user_operator("operator&", &[place.clone().into()], span)
                {
                    return result;
                }
                let ty = pointer_to(place.qual_type());
                let leaf = match &place.place {
                    Place::Memory { .. } if self.const_eval == 0 => self.address_leaf(&place, span)?,
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
            return self.err("E0510", "a pointer to 'void' cannot be dereferenced", self.span);
        }
        let Some(leaf) = value.leaf().cloned() else {
            return self.err("E0510", "this pointer is not known", self.span);
        };
        let pointer = self.materialize(&leaf)?;
        self.deref(pointer, pointee)
    }

    pub(super) fn call(&mut self, callee: &Expr, args: &[Expr], span: Span) -> Res<Operand> {
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
            ExprKind::Member { base, arrow, member } => {
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
                                ty: Type::Record(base), ..
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

    pub(super) fn call_associated(&mut self, path: &ast::Path, args: &[Expr], span: Span, fail: Fail) -> Res<Operand> {
        if matches!(fail, Fail::Reported) {
            return Err(fail);
        }
        let args = self.args(args)?;
        let name = path.last().ident.name.clone();
        let set = FunctionSet {
            library: self.associated_library(&name, &args),
            ..FunctionSet::default()
        };
        if set.library.is_none() && self.associated(&args).is_empty() {
            return Err(fail);
        }
        match self.call_set(&set, &name, args, None, span) {
            Err(Fail::Error(d)) if d.code == "E0482" && d.secondary.is_empty() => Err(fail),
            result => result,
        }
    }

    /// Runs `f` for each element of the packs that a pattern mentions.
    pub fn expand(&mut self, pattern: &Expr, span: Span, mut f: impl FnMut(&mut Self, &Expr) -> Res<()>) -> Res<()> {
        let names = names_in_expr(pattern);
        let packs = self.packs(names, span)?;
        let Some(n) = packs.iter().map(|(_, items)| items.len()).max() else {
            return self.err("E0522", "there is no parameter pack to expand here", span);
        };
        if packs.iter().any(|(_, items)| items.len() != n) {
            return self.err("E0522", "the packs of this expansion differ in length", span);
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

    pub(super) fn packs(&mut self, names: Vec<Name>, span: Span) -> Res<Vec<(Name, Vec<Entity>)>> {
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
    pub fn expand_template_arg(&mut self, arg: &ast::TemplateArg, out: &mut Vec<TemplateArg>) -> Res<()> {
        let names = match &arg.kind {
            ast::TemplateArgKind::Path(path) => names_in_path(path),
            ast::TemplateArgKind::Type(ty) => names_in_type(ty),
            ast::TemplateArgKind::Expr(e) => names_in_expr(e),
        };
        let packs = self.packs(names, arg.span)?;
        let Some(n) = packs.iter().map(|(_, items)| items.len()).max() else {
            return self.err("E0522", "there is no parameter pack to expand here", arg.span);
        };
        for i in 0..n {
            let scope = Env::names(&self.env.clone());
            for (name, items) in &packs {
                match items.get(i) {
                    Some(item) => scope.bind(name.clone(), item.clone()),
                    None => {
                        return self.err("E0522", "the packs of this expansion differ in length", arg.span);
                    }
                }
            }
            out.push(self.within(scope, |s| s.template_arg(arg))?);
        }
        Ok(())
    }
}

/// `T[n]` read as the expression that it may be.
pub(super) fn type_as_expr(ty: &ast::Ty) -> Option<Expr> {
    let kind = match &ty.kind {
        TyKind::Path(path) => ExprKind::Path(path.clone()),
        TyKind::Array(inner, Some(index)) => ExprKind::Index {
            base: Box::new(type_as_expr(inner)?),
            indices: vec![(**index).clone()],
        },
        _ => return None,
    };
    Some(Expr { kind, span: ty.span })
}

/// The type of an integer literal.
pub(super) fn int_type(n: u64, suffix: ast::IntSuffix) -> Scalar {
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

/// The characters of a string literal, in parentheses or not.
pub(super) fn string_length(expr: &ast::Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Paren(inner) => string_length(inner),
        ExprKind::Str(text) => Some(text.len()),
        _ => None,
    }
}
