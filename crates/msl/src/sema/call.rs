//! Calls: arguments, inlining of bodies, objects that can be called.

use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::Op;

use super::bind::slots_place;
use super::context::*;
use super::library::{self, Call};
use super::types::*;
use super::tyres::has_auto;
use super::uses::Uses;
use super::value::*;
use crate::ast::{self, Body, Expr, ExprKind, StmtKind};
use crate::source::Span;

/// Frames that may be open at once.
const MAX_DEPTH: usize = 200;

impl Sema<'_> {
    /// Evaluates the arguments of a call; packs are expanded.
    pub fn args(&mut self, args: &[Expr]) -> Res<Vec<Arg>> {
        let mut out = Vec::with_capacity(args.len());
        for e in args {
            if let ExprKind::PackExpansion(pattern) = &e.kind {
                self.expand(pattern, e.span, |s, pattern| {
                    let arg = s.arg(pattern)?;
                    out.push(arg);
                    Ok(())
                })?;
            } else if let ExprKind::Path(path) = &e.kind
                && let Some(ident) = path.as_ident()
                && let Ok(Some(Entity::OperandPack(items))) = self.lookup(&ident.name, ident.span)
            {
                // The pattern of an expansion that is already at one element binds it as a variable.
                out.extend(items.into_iter().map(|o| Arg::Operand(o, e.span)));
            } else {
                out.push(self.arg(e)?);
            }
        }
        Ok(out)
    }

    /// Evaluates one argument.
    pub fn arg(&mut self, e: &Expr) -> Res<Arg> {
        match &e.kind {
            ExprKind::InitList(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    let name = match &item.designator {
                        None => None,
                        Some(ast::Designator::Field(ident)) => Some(Designator::Field(ident.name.clone())),
                        Some(ast::Designator::Index(index)) => {
                            let i = self.element_number(index)?;
                            Some(Designator::Elements(i, i))
                        }
                        Some(ast::Designator::Range(first, last)) => {
                            let (from, to) = (self.element_number(first)?, self.element_number(last)?);
                            if to < from {
                                return self.err("E0481", "this range of array elements is empty", first.span);
                            }
                            Some(Designator::Elements(from, to))
                        }
                    };
                    if let ExprKind::PackExpansion(pattern) = &item.value.kind {
                        self.expand(pattern, item.value.span, |s, pattern| {
                            let arg = s.arg(pattern)?;
                            list.push((None, arg));
                            Ok(())
                        })?;
                    } else {
                        list.push((name, self.arg(&item.value)?));
                    }
                }
                Ok(Arg::List(list, e.span))
            }
            _ => Ok(Arg::Operand(self.expr(e)?, e.span)),
        }
    }

    /// The constant in `[i] =` of a braced list.
    fn element_number(&mut self, e: &Expr) -> Res<u64> {
        match self.constant_expr(e)?.as_int() {
            Some(n) if n >= 0 => Ok(n as u64),
            _ => self.err("E0481", "the number of an array element is a constant from 0", e.span),
        }
    }

    /// The uses of the variables of a body, computed once.
    pub fn uses_of(&mut self, body: &ast::Stmt) -> Rc<Uses> {
        let key = std::ptr::from_ref(body) as usize;
        if let Some(uses) = self.uses.get(&key) {
            return uses.clone();
        }
        let uses = Rc::new(Uses::of(body));
        self.uses.insert(key, uses.clone());
        uses
    }

    /// Opens a function: binds template and value parameters, runs `f` inside, returns the scope.
    pub fn enter_function(
        &mut self,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        this: Option<LValue>,
        args: Vec<Arg>,
        span: Span,
        inside: impl FnOnce(&mut Self) -> Res<()>,
    ) -> Res<Rc<Env>> {
        let env = self.function_env(f, template_args, this);
        let uses = match &f.decl.body {
            Body::Block(body) => {
                let mut uses = self.uses_of(body);
                if self.const_eval == 0 && !super::tail::sites(body, &f.decl.name.name).is_empty() {
                    Rc::make_mut(&mut uses).tail_params = true;
                }
                uses
            }
            _ => Rc::default(),
        };
        self.push_frame(f, template_args, span)?;
        let former_uses = std::mem::replace(&mut self.current_uses, uses);
        let former = self.span;
        let pending = self.copy_back.len();
        let result = self.within(env.clone(), |s| {
            s.bind_params(&f.decl.params, args, &env, span)?;
            inside(s)?;
            s.write_back(pending)
        });
        self.copy_back.truncate(pending);
        self.current_uses = former_uses;
        self.frames.pop();
        self.span = former;
        if self.const_eval == 0 {
            self.locate();
        }
        result.map(|()| env)
    }

    pub(super) fn function_env(
        &mut self,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        this: Option<LValue>,
    ) -> Rc<Env> {
        let mut env = f.env.clone();
        if let Some(this) = this {
            env = Env::of(&env, EnvKind::This(Box::new(this)));
        }
        if let Some(header) = &f.decl.template {
            env = self.template_env(&env, header, template_args);
        }
        Env::names(&env)
    }

    pub(super) fn push_frame(&mut self, f: &FunctionRef, template_args: &[TemplateArg], span: Span) -> Res<()> {
        let limit = if self.const_eval > 0 { 400 } else { MAX_DEPTH };
        let name = match f.record {
            Some(id) => format!("{}::{}", self.records[id.index()].name, f.decl.name.name),
            None => f.decl.name.name.to_string(),
        };
        let recursive = self.const_eval == 0
            && f.decl.template.as_ref().is_none_or(|t| t.params.is_empty())
            && self
                .frames
                .iter()
                .any(|frame| frame.record == f.record && frame.decl.as_ref().is_some_and(|d| Arc::ptr_eq(d, &f.decl)));
        if recursive {
            return self.err(
                "E0486",
                format!("'{name}' calls itself: recursion is not supported in Metal"),
                span,
            );
        }
        if self.frames.len() >= limit {
            return self.err(
                "E0486",
                format!("calls are nested more than {limit} deep at '{name}'"),
                span,
            );
        }
        self.count_call(span)?;
        let what = if template_args.is_empty() {
            name
        } else {
            format!("{name}{}", self.args_name(template_args))
        };
        self.span = span;
        let inlined_at = if self.const_eval == 0 {
            self.locate();
            Some(self.builder.location())
        } else {
            None
        };
        self.frames.push(Frame {
            what,
            span,
            decl: Some(f.decl.clone()),
            record: f.record,
            inlined_at,
        });
        Ok(())
    }

    /// Every call is work of the constant evaluator, or becomes a part of the kernel.
    pub(super) fn count_call(&mut self, span: Span) -> Res<()> {
        if self.const_eval > 0 {
            self.steps(20, span)?;
        } else {
            // Functions that each call the next one twice would double the kernel with every level.
            if self.calls_left == 0 {
                return self.err_help(
                    "E0486",
                    format!("the kernel makes more than {MAX_CALLS} calls, each of which becomes a part of it"),
                    span,
                    "this is a limit of the compiler, not of Metal: call in a loop instead of writing or instantiating the calls one by one",
                );
            }
            self.calls_left -= 1;
        }
        Ok(())
    }

    /// Lowers a call of a chosen function in place.
    pub fn inline_call(
        &mut self,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        this: Option<LValue>,
        args: Vec<Arg>,
        span: Span,
    ) -> Res<Operand> {
        let this = match this {
            Some(this) if f.record.is_some() && !f.decl.specs.is_static => self.this_for(f, this)?,
            _ => None,
        };
        match &f.decl.body {
            Body::Delete => {
                return self.err("E0476", format!("'{}' is deleted", f.decl.name.name), span);
            }
            Body::None if self.unevaluated == 0 => {
                let name = &f.decl.name.name;
                let d = self
                    .diagnostic("E0488", format!("'{name}' is declared but not defined"), span)
                    .secondary(f.decl.span, "declared here");
                return Err(Fail::Error(Box::new(d)));
            }
            _ => {}
        }
        if self.tail_call(f, template_args, this.as_ref(), &args, span)? {
            return Ok(Operand::void());
        }
        if self.unevaluated > 0 && !has_auto(&f.decl.ret) {
            let env = self.function_env(f, template_args, this);
            let written = match &f.decl.kind {
                ast::FunctionKind::Conversion(ty) => ty,
                _ => &f.decl.ret,
            };
            let ret = self.within(env, |s| s.resolve_type(written))?;
            return self.declared(&ret);
        }
        if self.const_eval == 0
            && self.unevaluated == 0
            && f.decl.specs.is_constexpr
            && this.as_ref().is_none_or(is_constant_place)
            && args.iter().all(is_constant_arg)
        {
            let (t, a) = (this.clone(), args.clone());
            let folded = self.attempt(|s| {
                s.in_const_mode(|s| {
                    let operand = s.inline_body(f, template_args, t, a, span)?;
                    let value = s.rvalue(operand)?;
                    let known = value.leaves.iter().all(|leaf| matches!(leaf, Leaf::Const(_)));
                    if known { Ok(value) } else { Err(Fail::Reported) }
                })
            });
            let keeps =
                !has_auto(&f.decl.ret) && !matches!(f.decl.ret.kind, ast::TyKind::LRef(_) | ast::TyKind::RRef(_));
            if let Some(value) = folded
                && (keeps || matches!(value.ty, Type::Scalar(_) | Type::Enum(_)))
                && value.ty != Type::Void
            {
                return Ok(value.into());
            }
        }
        self.inline_body(f, template_args, this, args, span)
    }

    /// The result of a call of which only the type matters.
    pub fn declared(&mut self, ret: &QualType) -> Res<Operand> {
        if ret.is_reference() {
            return self.declval(ret);
        }
        match self.undefined(&ret.ty) {
            Ok(value) => Ok(value.into()),
            Err(_) => Ok(Value::empty(ret.ty.clone()).into()),
        }
    }

    /// The object as the class that declares the member.
    pub(super) fn this_for(&mut self, f: &FunctionRef, this: LValue) -> Res<Option<LValue>> {
        match f.record {
            Some(id) if this.ty != Type::Record(id) => {
                if self.derives(&this.ty.clone(), id) {
                    self.upcast(&this, id)
                } else {
                    Ok(Some(this))
                }
            }
            _ => Ok(Some(this)),
        }
    }

    pub(super) fn inline_body(
        &mut self,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        this: Option<LValue>,
        args: Vec<Arg>,
        span: Span,
    ) -> Res<Operand> {
        self.visited.insert(Arc::as_ptr(&f.decl) as usize);
        let mut result = None;
        let mut this = this;
        if let Some(t) = &mut this
            && f.decl.this_quals.is_const
        {
            t.is_const = true;
        }
        let sites = match &f.decl.body {
            Body::Block(body) if self.const_eval == 0 && self.unevaluated == 0 => {
                super::tail::sites(body, &f.decl.name.name)
            }
            _ => Vec::new(),
        };
        let object = this.clone();
        self.enter_function(f, template_args, this, args, span, |s| {
            let ret = if has_auto(&f.decl.ret) {
                None
            } else if let ast::FunctionKind::Conversion(ty) = &f.decl.kind {
                Some(s.resolve_type(ty)?)
            } else {
                Some(s.resolve_type(&f.decl.ret)?)
            };
            let Body::Block(body) = &f.decl.body else {
                return s.err("E0488", "this function has no body", span);
            };
            if !sites.is_empty() {
                result = Some(s.tail_body(f, template_args, object, sites, body, ret)?);
                return Ok(());
            }
            result = Some(s.function_body(body, ret)?);
            Ok(())
        })?;
        match result {
            Some(operand) => Ok(operand),
            None => Err(Fail::Reported),
        }
    }

    /// Runs the body of a constructor in its open scope.
    pub fn run_constructor_body(&mut self, f: &FunctionRef, env: Rc<Env>, this: LValue, span: Span) -> Res<()> {
        let Body::Block(body) = &f.decl.body else {
            return Ok(());
        };
        // The scope of the parameters, around a new `this`.
        let env = Env::names(&Env::of(&env, EnvKind::This(Box::new(this))));
        let uses = self.uses_of(body);
        self.push_frame(f, &[], span)?;
        let former_uses = std::mem::replace(&mut self.current_uses, uses);
        let former = self.span;
        let result = self.within(env, |s| s.function_body(body, Some(Type::Void.into())));
        self.current_uses = former_uses;
        self.frames.pop();
        self.span = former;
        if self.const_eval == 0 {
            self.locate();
        }
        result.map(|_| ())
    }

    /// Lowers a function's body; the value that it returns.
    pub fn function_body(&mut self, body: &ast::Stmt, ret: Option<QualType>) -> Res<Operand> {
        self.function_body_in(body, ret, false)
    }

    /// As [`Sema::function_body`]; `looped`: inside a loop that the end of the body leaves.
    pub(super) fn function_body_in(&mut self, body: &ast::Stmt, ret: Option<QualType>, looped: bool) -> Res<Operand> {
        let StmtKind::Compound(list) = &body.kind else {
            return self.err("E0488", "this function has no body", body.span);
        };
        let errors = self.diagnostics.len();
        self.control.push(Control::Function(ReturnTarget {
            ty: ret.clone(),
            depth: looped.into(),
            used: looped,
            ..ReturnTarget::default()
        }));
        let depth = self.control.len();
        if self.const_eval > 0 {
            let flow = self.statements(list);
            self.control.truncate(depth - 1);
            return match flow? {
                Flow::Return(operand) => Ok(operand),
                _ if ret.as_ref().is_none_or(|t| t.ty == Type::Void) => Ok(Operand::void()),
                _ => self.err(
                    "E0489",
                    "a constant expression calls a function that returns no value",
                    body.span,
                ),
            };
        }
        let lowered = self.block_of(|s| s.statements(list));
        let target = match self.control.drain(depth - 1..).next() {
            Some(Control::Function(target)) => target,
            _ => ReturnTarget::default(),
        };
        let (block, flow) = lowered?;
        if looped {
            self.builder.push_block();
            self.builder.emit_void(Op::Scope { body: block });
            self.builder.emit_void(Op::Break(0));
            let turn = self.builder.pop_block();
            self.builder
                .loop_(turn, anymetal_ir::Block::default(), anymetal_ir::Unroll::Never);
        } else if target.used {
            self.builder.emit_void(Op::Scope { body: block });
        } else {
            self.builder.append(block);
        }
        if let Some((ty, slots)) = target.slots {
            let mut place = slots_place(&ty, slots);
            if let Some(QualType {
                reference: Reference::Lvalue,
                ..
            }) = &ret
                && let Type::Pointer(pointee) = &ty
            {
                let value = self.load(&place)?;
                let pointer = self.materialize(&value.leaves[0])?;
                place = self.deref(pointer, &pointee.clone())?;
                return Ok(place.into());
            }
            return Ok(self.load(&place)?.into());
        }
        if let Some(operand) = target.value {
            return Ok(operand);
        }
        match ret {
            Some(t) if t.ty != Type::Void => {
                if self.diagnostics.len() > errors {
                    return Err(Fail::Reported);
                }
                if matches!(flow, Flow::Next) {
                    self.warn("W0401", "this function ends without returning a value", body.span.end());
                }
                Ok(self.undefined(&t.ty)?.into())
            }
            _ => Ok(Operand::void()),
        }
    }

    /// Calls an object: a lambda, a pointer to function, an object with `operator()`.
    pub fn call_value(&mut self, callee: Operand, args: Vec<Arg>, span: Span) -> Res<Operand> {
        match callee.ty().clone() {
            Type::Closure(id) => self.call_closure(id, &[], args, span),
            Type::Overloads(set) => {
                let set = FunctionSet {
                    user: set.to_vec(),
                    ..FunctionSet::default()
                };
                let name = set
                    .user
                    .first()
                    .map_or_else(String::new, |f| f.decl.name.name.to_string());
                let args_of = set.user.first().map(|f| f.args.clone()).unwrap_or_default();
                let set = FunctionSet { args: args_of, ..set };
                self.call_among(&set, &name, args, None, span)
            }
            Type::Function(_) => {
                let value = self.rvalue(callee)?;
                match value.leaf() {
                    Some(Leaf::Function(f)) => {
                        let f = f.clone();
                        let what = f.decl.name.name.to_string();
                        let own = f.args.clone();
                        let (f, template_args) = self.choose(&[f], &args, &own, None, &what, span)?;
                        self.inline_call(&f, &template_args, None, args, span)
                    }
                    _ => self.err(
                        "E0490",
                        "the function behind this pointer is not known at compile time",
                        span,
                    ),
                }
            }
            Type::Record(_) => self.call_member(callee, "operator()", Vec::new(), args, span),
            Type::Object(_) => {
                let mut operands = vec![callee];
                for arg in &args {
                    match arg {
                        Arg::Operand(operand, _) => operands.push(operand.clone()),
                        Arg::List(_, at) => {
                            return self.err("E0491", "a braced list is not expected here", *at);
                        }
                    }
                }
                match library::operator(self, "()", &operands, span) {
                    Some(result) => result,
                    None => self.err("E0492", "this object cannot be called", span),
                }
            }
            ty => self.err("E0492", format!("'{}' cannot be called", self.type_name(&ty)), span),
        }
    }

    /// Calls a member function by name.
    pub fn call_member(
        &mut self,
        object: Operand,
        name: &str,
        template_args: Vec<TemplateArg>,
        args: Vec<Arg>,
        span: Span,
    ) -> Res<Operand> {
        if let Type::Record(id) = *object.ty() {
            let this = match object {
                Operand::Place(place) => place,
                Operand::Value(value) => {
                    let ty = value.ty.clone();
                    if self.const_eval == 0 && self.needs_memory(&ty)? {
                        self.new_variable("temporary", &ty, value, false)?
                    } else {
                        self.place_of(value.into())?
                    }
                }
            };
            let member = self.record_member(id, &ast::Name::from(name), Some(&this), span)?;
            return match member {
                Some(Entity::Functions(mut set)) => {
                    if !template_args.is_empty() {
                        set.args = template_args;
                    }
                    self.call_set(&set, name, args, Some(this), span)
                }
                Some(Entity::Variable(operand, _) | Entity::Operand(operand)) => self.call_value(operand, args, span),
                _ => self.err(
                    "E0472",
                    format!("'{}' has no member function '{name}'", self.type_name(&this.ty)),
                    span,
                ),
            };
        }
        if let Type::Array(element, n) = object.ty().clone()
            && args.is_empty()
        {
            match name {
                "size" | "max_size" => {
                    let n = self.int_value(anymetal_ir::Scalar::U64, n as i64);
                    return Ok(n.into());
                }
                "empty" => return Ok(self.bool_value(n == 0).into()),
                "data" => return self.decay(object, span),
                "front" | "back" if n > 0 => {
                    let at = if name == "front" { 0 } else { n as i64 - 1 };
                    let at = self.int_value(anymetal_ir::Scalar::I64, at);
                    let _ = element;
                    return self.index(object, vec![at.into()], span);
                }
                _ => {}
            }
        }
        if let Type::Closure(id) = *object.ty()
            && name == "operator()"
        {
            return self.call_closure(id, &template_args, args, span);
        }
        let former = self.at(span);
        let result = library::call_method(
            self,
            &object,
            &Call {
                name,
                namespace: "",
                span,
                template_args: &template_args,
                args: &args,
            },
        );
        self.at(former);
        match result {
            Some(result) => result,
            None => self.err(
                "E0472",
                format!("'{}' has no member function '{name}'", self.type_name(object.ty())),
                span,
            ),
        }
    }
}

pub(super) fn is_constant_place(place: &LValue) -> bool {
    match &place.place {
        Place::Slots(slots) => slots.iter().all(|slot| matches!(slot, Slot::Fixed(Leaf::Const(_)))),
        _ => false,
    }
}

pub(super) fn is_constant_arg(arg: &Arg) -> bool {
    match arg {
        Arg::Operand(Operand::Value(value), _) => value.leaves.iter().all(|leaf| matches!(leaf, Leaf::Const(_))),
        Arg::Operand(Operand::Place(place), _) => is_constant_place(place),
        Arg::List(items, _) => items.iter().all(|(_, arg)| is_constant_arg(arg)),
    }
}
