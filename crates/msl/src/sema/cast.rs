//! Casts, and construction by a type name.

use super::context::*;
use super::library::LibEntity;
use super::types::*;
use super::value::*;
use crate::ast::{self, CastKind, Expr, ExprKind, TyKind};
use crate::source::Span;
use anymetal_ir::{Op, Scalar, Type as IrType};
use std::rc::Rc;

impl Sema<'_> {
    pub(super) fn cast(&mut self, kind: CastKind, ty: &ast::Ty, e: &Expr, span: Span) -> Res<Operand> {
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
                    (Type::Pointer(a), Type::Pointer(b)) if a.ty == b.ty && a.space == b.space => Ok(Value {
                        ty: t.ty.clone(),
                        leaves: value.leaves,
                    }
                    .into()),
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
                    && let (Type::Pointer(_) | Type::Array(..), Type::Pointer(_)) = (operand.ty(), &t.ty)
                {
                    return self.reinterpret(&t.ty, operand, span);
                }
                Ok(self.convert(operand, &t.ty, true, span)?.into())
            }
        }
    }

    pub(super) fn cast_reference(
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
            place.is_const = t.is_const || (place.is_const && kind != CastKind::Const && kind != CastKind::CStyle);
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
    pub(super) fn reinterpret_slots(&mut self, place: LValue, t: &QualType, span: Span) -> Res<Operand> {
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

    pub(super) fn reinterpret(&mut self, to: &Type, operand: Operand, span: Span) -> Res<Operand> {
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
                                return Ok(Value::one(to.clone(), Leaf::Place(Rc::new(place))).into());
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

    pub(super) fn construct_expr(
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
    pub(super) fn construct_entity(
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
    pub fn deduce_class(&mut self, entity: Entity, path: &ast::Path, args: &[Arg], span: Span) -> Res<Type> {
        match entity {
            Entity::Library(LibEntity::Template {
                deduce: Some(deduce), ..
            }) => deduce(self, args, span),
            Entity::Template(id) => {
                if let [Arg::Operand(o, _)] = args
                    && let Type::Record(r) = o.ty()
                    && self.records[r.index()].template.as_ref().is_some_and(|(t, _)| *t == id)
                {
                    return Ok(o.ty().clone());
                }
                self.deduce_record(id, args, span)
            }
            _ => self.err(
                "E0521",
                format!("'{path}' cannot be constructed from {}", self.args_types(args)),
                span,
            ),
        }
    }

    pub(super) fn deduce_record(&mut self, id: TemplateId, args: &[Arg], span: Span) -> Res<Type> {
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

    /// The bits of a scalar as another scalar of the same size.
    pub fn bitcast_leaf(&mut self, leaf: &Leaf, to: Scalar) -> Res<Leaf> {
        if let Some(c) = self.const_of(leaf) {
            return Ok(Leaf::Const(anymetal_ir::Const { ty: to, bits: c.bits }));
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
