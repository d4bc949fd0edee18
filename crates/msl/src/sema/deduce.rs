//! Template argument deduction: written types matched against types, arguments checked against parameters.

use std::rc::Rc;
use std::sync::Arc;

use super::context::*;
use super::library::{self, LibEntity};
use super::types::*;
use super::tyres::{decayed, has_auto};
use super::value::*;
use crate::ast::{self, Name, TemplateArgKind, TemplateHeader, TemplateParamKind, TyKind};
use crate::source::Span;

/// Template parameters while they are deduced.
#[derive(Debug)]
pub struct Bindings<'h> {
    /// The parameters.
    pub header: &'h TemplateHeader,
    /// What is known of each.
    pub args: Vec<Option<TemplateArg>>,
}

impl Bindings<'_> {
    fn index(&self, name: &Name) -> Option<usize> {
        self.header
            .params
            .iter()
            .position(|p| p.name.as_ref().is_some_and(|n| n.name == *name))
    }

    fn bind(&mut self, i: usize, arg: TemplateArg) -> bool {
        match &self.args[i] {
            None => {
                self.args[i] = Some(arg);
                true
            }
            Some(former) => same_arg(former, &arg),
        }
    }
}

/// Equal, or integers of equal value (a bound deduced as `size_t` for an `int` parameter).
pub(super) fn same_arg(a: &TemplateArg, b: &TemplateArg) -> bool {
    match (a, b) {
        (TemplateArg::Value(x), TemplateArg::Value(y)) => x == y || (x.as_int().is_some() && x.as_int() == y.as_int()),
        _ => a == b,
    }
}

impl Sema<'_> {
    /// Matches a written type against a type and binds template parameters. False on a mismatch.
    pub fn unify(&mut self, p: &ast::Ty, a: &QualType, b: &mut Bindings<'_>) -> bool {
        match &p.kind {
            TyKind::Path(path) => {
                if let Some(ident) = path.as_ident()
                    && let Some(i) = b.index(&ident.name)
                {
                    let mut t = a.clone();
                    if p.quals.is_const {
                        t.is_const = false;
                    }
                    if p.quals.is_volatile || p.quals.is_coherent {
                        t.is_volatile = false;
                    }
                    if let Some((space, _)) = p.quals.space {
                        if a.space_or_thread() != super::tyres::space_of(space) {
                            return false;
                        }
                        t.space = None;
                    }
                    return b.bind(i, TemplateArg::Type(t));
                }
                if let Some((space, _)) = p.quals.space
                    && a.space_or_thread() != super::tyres::space_of(space)
                {
                    return false;
                }
                let segment = path.last();
                match &segment.args {
                    Some(args) if path.as_single().is_some() || path.segments.len() > 1 => {
                        self.unify_template(path, args, a, b)
                    }
                    _ => true,
                }
            }
            TyKind::Pointer(inner) => match &a.ty {
                Type::Pointer(pointee) => self.unify(inner, &pointee.clone(), b),
                _ => false,
            },
            TyKind::LRef(inner) | TyKind::RRef(inner) => self.unify(inner, &a.without_reference(), b),
            TyKind::Array(inner, bound) => {
                let Type::Array(element, n) = &a.ty else {
                    return false;
                };
                let mut element = (**element).clone();
                element.is_const |= a.is_const;
                element.space = a.space;
                let n = *n;
                if let Some(bound) = bound
                    && let ast::ExprKind::Path(path) = &bound.kind
                    && let Some(ident) = path.as_ident()
                    && let Some(i) = b.index(&ident.name)
                    && !b.bind(i, TemplateArg::Value(Constant::int(anymetal_ir::Scalar::U64, n as i64)))
                {
                    return false;
                }
                self.unify(inner, &element, b)
            }
            TyKind::Function(f) => {
                let Type::Function(g) = &a.ty else {
                    return matches!(a.ty, Type::Overloads(_) | Type::Closure(_));
                };
                let g = g.clone();
                f.params.len() == g.params.len()
                    && self.unify(&f.ret, &g.result, b)
                    && f.params.iter().zip(&g.params).all(|(p, a)| self.unify(&p.ty, a, b))
            }
            _ => true,
        }
    }

    fn unify_template(
        &mut self,
        path: &ast::Path,
        args: &[ast::TemplateArg],
        a: &QualType,
        b: &mut Bindings<'_>,
    ) -> bool {
        // A template template parameter takes whatever template the type is an instance of.
        if let Some(segment) = path.as_single()
            && let Some(i) = b.index(&segment.ident.name)
        {
            let Type::Record(id) = a.ty else { return false };
            let Some((template, given)) = self.records[id.index()].template.clone() else {
                return false;
            };
            return b.bind(i, TemplateArg::Template(template)) && self.unify_args(args, &given, b);
        }
        let bare = ast::Path {
            root: path.root.clone(),
            segments: path
                .segments
                .iter()
                .enumerate()
                .map(|(i, s)| ast::Segment {
                    args: if i + 1 == path.segments.len() {
                        None
                    } else {
                        s.args.clone()
                    },
                    ..s.clone()
                })
                .collect(),
            span: path.span,
        };
        let entity = match self.resolve_path(&bare) {
            Ok(entity) => entity,
            Err(_) => return true,
        };
        match entity {
            Entity::Template(id) => {
                if let TemplateDecl::Alias(alias) = self.templates[id.index()].primary.clone() {
                    let env = self.templates[id.index()].env.clone();
                    return self.unify_alias(&alias, env, args, a, b);
                }
                self.unify_instance(id, args, &a.ty, b)
            }
            Entity::Type(QualType {
                ty: Type::Record(own), ..
            }) => match self.records[own.index()].template.clone() {
                Some((id, _)) => self.unify_instance(id, args, &a.ty, b),
                None => true,
            },
            Entity::Library(LibEntity::Template { name, .. }) => {
                let found = match (&a.ty, name) {
                    (Type::Vector { scalar, len, .. }, "vec") => Some(vec![
                        TemplateArg::Type(Type::Scalar(*scalar).into()),
                        TemplateArg::Value(Constant::int(anymetal_ir::Scalar::I32, i64::from(*len))),
                    ]),
                    (Type::Matrix { scalar, columns, rows }, "matrix") => Some(vec![
                        TemplateArg::Type(Type::Scalar(*scalar).into()),
                        TemplateArg::Value(Constant::int(anymetal_ir::Scalar::I32, i64::from(*columns))),
                        TemplateArg::Value(Constant::int(anymetal_ir::Scalar::I32, i64::from(*rows))),
                    ]),
                    (ty, _) => match library::template_of(self, ty) {
                        Some((other, given)) if other == name => Some(given),
                        _ => None,
                    },
                };
                match found {
                    Some(given) => self.unify_args(args, &given, b),
                    None => false,
                }
            }
            _ => true,
        }
    }

    /// `Alias<T>` in a parameter: if the alias only renames its own parameters, deduce through it.
    fn unify_alias(
        &mut self,
        alias: &Arc<ast::AliasDecl>,
        env: Rc<Env>,
        args: &[ast::TemplateArg],
        a: &QualType,
        b: &mut Bindings<'_>,
    ) -> bool {
        let Some(header) = &alias.template else {
            return true;
        };
        let mut inner = Bindings {
            header,
            args: vec![None; header.params.len()],
        };
        if !self.within(env, |s| s.unify(&alias.ty, a, &mut inner)) {
            return false;
        }
        let given: Vec<Option<TemplateArg>> = inner.args;
        for (arg, value) in args.iter().zip(given) {
            if let Some(value) = value
                && !self.unify_arg(arg, &value, b)
            {
                return false;
            }
        }
        true
    }

    fn unify_instance(&mut self, id: TemplateId, args: &[ast::TemplateArg], ty: &Type, b: &mut Bindings<'_>) -> bool {
        let Type::Record(record) = ty else {
            return false;
        };
        if let Some((t, given)) = self.records[record.index()].template.clone()
            && t == id
        {
            return self.unify_args(args, &given, b);
        }
        if self.complete_record(*record).is_err() {
            return false;
        }
        for base in self.records[record.index()].bases.clone() {
            if self.unify_instance(id, args, &Type::Record(base), b) {
                return true;
            }
        }
        false
    }

    /// Matches written template arguments against given ones.
    pub fn unify_args(&mut self, patterns: &[ast::TemplateArg], given: &[TemplateArg], b: &mut Bindings<'_>) -> bool {
        // An instance keeps a pack as one argument; patterns see it flat.
        let flat: Vec<TemplateArg> = given
            .iter()
            .flat_map(|arg| match arg {
                TemplateArg::Pack(items) => items.clone(),
                arg => vec![arg.clone()],
            })
            .collect();
        for (i, pattern) in patterns.iter().enumerate() {
            if pattern.is_pack {
                let rest = flat.get(i..).unwrap_or(&[]).to_vec();
                if let Some(name) = pattern_name(pattern)
                    && let Some(at) = b.index(&name)
                {
                    return b.bind(at, TemplateArg::Pack(rest));
                }
                return true;
            }
            let Some(arg) = flat.get(i) else {
                // The pattern leaves out a defaulted argument, or the other way round.
                return false;
            };
            if !self.unify_arg(pattern, arg, b) {
                return false;
            }
        }
        true
    }

    fn unify_arg(&mut self, p: &ast::TemplateArg, a: &TemplateArg, b: &mut Bindings<'_>) -> bool {
        if let Some(name) = pattern_name(p)
            && let Some(i) = b.index(&name)
        {
            if let TemplateArgKind::Type(ty) = &p.kind
                && let TemplateArg::Type(t) = a
            {
                return self.unify(ty, t, b);
            }
            return b.bind(i, a.clone());
        }
        match (&p.kind, a) {
            (TemplateArgKind::Type(ty), TemplateArg::Type(t)) => {
                // Qualifiers that the pattern asks for must be there.
                if (ty.quals.is_const && !t.is_const)
                    || ty
                        .quals
                        .space
                        .is_some_and(|(s, _)| t.space != Some(super::tyres::space_of(s)))
                {
                    return false;
                }
                let reference = match ty.kind {
                    TyKind::LRef(_) => Reference::Lvalue,
                    TyKind::RRef(_) => Reference::Rvalue,
                    _ => Reference::None,
                };
                if reference != Reference::None && t.reference != reference {
                    return false;
                }
                let mut stripped = t.clone();
                if reference == Reference::None && t.is_reference() {
                    return mentions(ty, b) && self.unify(ty, t, b);
                }
                stripped.reference = Reference::None;
                if mentions(ty, b) {
                    self.unify(ty, &stripped, b)
                } else {
                    match self.attempt(|s| s.resolve_type(ty)) {
                        Some(own) => own == *t,
                        None => false,
                    }
                }
            }
            (TemplateArgKind::Path(path), TemplateArg::Type(t)) => {
                let ty = ast::Ty {
                    kind: TyKind::Path(path.clone()),
                    quals: ast::Quals::default(),
                    span: path.span,
                };
                if mentions(&ty, b) {
                    self.unify(&ty, t, b)
                } else {
                    match self.attempt(|s| s.resolve_type(&ty)) {
                        Some(own) => own == *t,
                        None => false,
                    }
                }
            }
            (TemplateArgKind::Path(_) | TemplateArgKind::Expr(_), TemplateArg::Value(value)) => {
                match self.attempt(|s| s.template_arg(p)) {
                    Some(own) => same_arg(&own, &TemplateArg::Value(value.clone())),
                    // It depends on parameters in a way that cannot be deduced.
                    None => true,
                }
            }
            (TemplateArgKind::Path(path), TemplateArg::Template(id)) => {
                matches!(self.attempt(|s| s.resolve_path(path)), Some(Entity::Template(own)) if own == *id)
            }
            _ => false,
        }
    }

    /// Deduces the template arguments of a function from a call. `None`: the candidate is dropped.
    pub fn deduce_call(&mut self, f: &FunctionRef, explicit: &[TemplateArg], args: &[Arg]) -> Option<Vec<TemplateArg>> {
        let header = f.decl.template.as_ref()?;
        let mut b = Bindings {
            header,
            args: vec![None; header.params.len()],
        };
        let mut at = 0;
        for (i, param) in header.params.iter().enumerate() {
            if param.is_pack {
                if at < explicit.len() {
                    b.args[i] = Some(TemplateArg::Pack(explicit[at..].to_vec()));
                    at = explicit.len();
                }
                break;
            }
            if let Some(arg) = explicit.get(at) {
                b.args[i] = Some(arg.clone());
                at += 1;
            }
        }
        if at < explicit.len() {
            return None;
        }
        let fixed: Vec<bool> = b.args.iter().map(Option::is_some).collect();
        let env = f.env.clone();
        let params = &f.decl.params;
        let matched = self.within(env, |s| {
            s.trial += 1;
            let mut ok = true;
            for (i, param) in params.iter().enumerate() {
                if param.is_pack {
                    ok = s.deduce_pack(param, args.get(i..).unwrap_or(&[]), &mut b, &fixed);
                    break;
                }
                let Some(Arg::Operand(operand, _)) = args.get(i) else {
                    continue;
                };
                if has_auto(&param.ty) {
                    continue;
                }
                if !s.deduce_param(&param.ty, operand, &mut b, &fixed) {
                    ok = false;
                    break;
                }
            }
            s.trial -= 1;
            ok
        });
        if !matched {
            return None;
        }
        let args = std::mem::take(&mut b.args);
        let env = f.env.clone();
        let span = f.decl.name.span;
        self.attempt(|s| s.finish_args(header, args, &env, span))
    }

    fn deduce_param(&mut self, p: &ast::Ty, operand: &Operand, b: &mut Bindings<'_>, fixed: &[bool]) -> bool {
        // A parameter whose template parameters are all given takes conversions.
        if !mentions_unfixed(p, b, fixed) {
            return true;
        }
        match &p.kind {
            TyKind::LRef(inner) => {
                let a = match operand {
                    Operand::Place(place) => place.qual_type(),
                    Operand::Value(value) => QualType::from(value.ty.clone()).with_const(),
                };
                let mut a = a;
                if a.space == Some(Space::Thread) && inner.quals.space.is_none() {
                    a.space = None;
                }
                if a.space == Some(Space::Constant) {
                    a.is_const = a.is_const && inner.quals.is_const;
                }
                self.unify(inner, &a, b)
            }
            TyKind::RRef(inner) => {
                if let TyKind::Path(path) = &inner.kind
                    && let Some(ident) = path.as_ident()
                    && let Some(i) = b.index(&ident.name)
                    && !inner.quals.is_const
                {
                    let t = match operand {
                        Operand::Place(place) => {
                            let mut t = place.qual_type();
                            if t.space == Some(Space::Thread) {
                                t.space = None;
                            }
                            t.lref()
                        }
                        Operand::Value(value) => value.ty.clone().into(),
                    };
                    return b.bind(i, TemplateArg::Type(t));
                }
                let a = QualType::from(operand.ty().clone());
                self.unify(inner, &a, b)
            }
            TyKind::Array(element, _) => {
                // As a parameter it is a pointer; qualifiers before it are the element's.
                let mut pointee = (**element).clone();
                pointee.quals.space = pointee.quals.space.or(p.quals.space);
                pointee.quals.is_const |= p.quals.is_const;
                match decayed(operand).ty {
                    Type::Pointer(a) => self.unify(&pointee, &a, b),
                    _ => false,
                }
            }
            TyKind::Pointer(inner) if matches!(inner.kind, TyKind::Function(_)) => {
                if let Type::Overloads(_) = operand.ty() {
                    return true;
                }
                self.unify(inner, &decayed(operand), b)
            }
            _ => {
                let a = decayed(operand);
                let stripped = ast::Ty {
                    quals: ast::Quals::default(),
                    ..p.clone()
                };
                self.unify(&stripped, &a, b)
            }
        }
    }

    fn deduce_pack(&mut self, param: &ast::Param, args: &[Arg], b: &mut Bindings<'_>, fixed: &[bool]) -> bool {
        let packs: Vec<usize> = (0..b.header.params.len())
            .filter(|i| b.header.params[*i].is_pack && !fixed[*i])
            .filter(|i| {
                b.header.params[*i]
                    .name
                    .as_ref()
                    .is_some_and(|n| ty_mentions(&param.ty, &n.name))
            })
            .collect();
        let mut collected: Vec<Vec<TemplateArg>> = vec![Vec::new(); packs.len()];
        for arg in args {
            let Arg::Operand(operand, _) = arg else {
                return false;
            };
            for i in &packs {
                b.args[*i] = None;
            }
            if !self.deduce_param(&param.ty, operand, b, fixed) {
                return false;
            }
            for (k, i) in packs.iter().enumerate() {
                match b.args[*i].take() {
                    Some(arg) => collected[k].push(arg),
                    None => return false,
                }
            }
        }
        for (k, i) in packs.iter().enumerate() {
            b.args[*i] = Some(TemplateArg::Pack(std::mem::take(&mut collected[k])));
        }
        true
    }

    /// Completes template arguments: defaults, empty packs, conversion of values to their parameter's type.
    pub fn finish_args(
        &mut self,
        header: &TemplateHeader,
        given: Vec<Option<TemplateArg>>,
        env: &Rc<Env>,
        span: Span,
    ) -> Res<Vec<TemplateArg>> {
        let scope = Env::names(env);
        let mut out = Vec::with_capacity(given.len());
        for (param, arg) in header.params.iter().zip(given) {
            let name = param
                .name
                .as_ref()
                .map_or_else(|| "(unnamed)".to_string(), |n| n.name.to_string());
            let arg = match arg {
                Some(TemplateArg::Pack(items)) if param.is_pack => {
                    let items = items
                        .into_iter()
                        .map(|item| self.within(scope.clone(), |s| s.check_arg(param, item, span)))
                        .collect::<Res<Vec<_>>>()?;
                    TemplateArg::Pack(items)
                }
                Some(arg) => self.within(scope.clone(), |s| s.check_arg(param, arg, span))?,
                None if param.is_pack => TemplateArg::Pack(Vec::new()),
                None => {
                    let default = self.within(scope.clone(), |s| match &param.kind {
                        TemplateParamKind::Type(Some(ty)) => s.resolve_type(ty).map(|t| Some(TemplateArg::Type(t))),
                        TemplateParamKind::Value(_, Some(e)) => s.constant_expr(e).map(|c| Some(TemplateArg::Value(c))),
                        TemplateParamKind::Template(_, Some(path)) => match s.resolve_path(path)? {
                            Entity::Template(id) => Ok(Some(TemplateArg::Template(id))),
                            _ => Ok(None),
                        },
                        _ => Ok(None),
                    })?;
                    match default {
                        Some(arg) => self.within(scope.clone(), |s| s.check_arg(param, arg, span))?,
                        None => {
                            return self.err(
                                "E0477",
                                format!("the template parameter '{name}' is neither given nor deduced"),
                                span,
                            );
                        }
                    }
                }
            };
            if let Some(n) = &param.name {
                scope.bind(n.name.clone(), self.entity_of(&arg));
            }
            out.push(arg);
        }
        Ok(out)
    }

    /// Checks one argument against its parameter; a value is converted to the parameter's type.
    fn check_arg(&mut self, param: &ast::TemplateParam, arg: TemplateArg, span: Span) -> Res<TemplateArg> {
        match (&param.kind, arg) {
            (TemplateParamKind::Type(_), arg @ TemplateArg::Type(_)) => Ok(arg),
            (TemplateParamKind::Template(..), arg @ TemplateArg::Template(_)) => Ok(arg),
            (TemplateParamKind::Value(ty, _), TemplateArg::Value(c)) => {
                if has_auto(ty) {
                    return Ok(TemplateArg::Value(c));
                }
                let t = self.resolve_type(ty)?;
                if let Type::Overloads(set) = &c.ty {
                    // It stays the function that it names: a call deduces what its arguments leave open.
                    let target = match &t.ty {
                        Type::Pointer(p) => &p.ty,
                        ty => ty,
                    };
                    if let Type::Function(wanted) = target
                        && !set.clone().iter().any(|f| self.fits_function(f, wanted))
                    {
                        let (name, wanted) = (self.arg_name(&TemplateArg::Value(c.clone())), self.qual_name(&t));
                        return self.err(
                            "E0478",
                            format!("the template argument '{name}' is no function of the type '{wanted}'"),
                            span,
                        );
                    }
                    return Ok(TemplateArg::Value(c));
                }
                if t.ty == c.ty {
                    return Ok(TemplateArg::Value(c));
                }
                let operand = self.operand_of(&c);
                let value = self.in_const_mode(|s| s.convert(operand, &t.ty, false, span))?;
                Ok(TemplateArg::Value(self.constant_value(value, span)?))
            }
            (kind, arg) => {
                let wanted = match kind {
                    TemplateParamKind::Type(_) => "a type",
                    TemplateParamKind::Value(..) => "a value",
                    TemplateParamKind::Template(..) => "a template",
                };
                self.err(
                    "E0478",
                    format!("the template argument '{}' is not {wanted}", self.arg_name(&arg)),
                    span,
                )
            }
        }
    }

    /// Can a function, or an instance of a function template, be called through this type?
    pub(super) fn fits_function(&mut self, g: &FunctionRef, wanted: &FunctionType) -> bool {
        let params = &g.decl.params;
        if params.len() != wanted.params.len() {
            return false;
        }
        let mut env = g.env.clone();
        if let Some(header) = &g.decl.template
            && !header.params.is_empty()
        {
            let mut b = Bindings {
                header,
                args: vec![None; header.params.len()],
            };
            for (slot, arg) in b.args.iter_mut().zip(&g.args) {
                *slot = Some(arg.clone());
            }
            let fixed: Vec<bool> = b.args.iter().map(Option::is_some).collect();
            let matched = self.within(env.clone(), |s| {
                params
                    .iter()
                    .zip(&wanted.params)
                    .all(|(p, a)| !mentions_unfixed(&p.ty, &b, &fixed) || s.unify(&p.ty, a, &mut b))
            });
            let args = std::mem::take(&mut b.args);
            let Some(args) = matched
                .then(|| self.attempt(|s| s.finish_args(header, args, &g.env.clone(), g.decl.name.span)))
                .flatten()
            else {
                return false;
            };
            env = self.template_env(&env, header, &args);
        }
        self.within(env, |s| {
            params.iter().zip(&wanted.params).all(|(p, a)| {
                s.attempt(|s| s.param_type(&p.ty)).is_some_and(|t| {
                    // `const` of a parameter itself is no part of the type.
                    t.ty == a.ty && t.reference == a.reference && t.space == a.space
                })
            })
        })
    }

    /// Do explicit template arguments fit a function template?
    pub(super) fn takes_args(&mut self, f: &FunctionRef, args: &[TemplateArg], span: Span) -> bool {
        let Some(header) = &f.decl.template else {
            return false;
        };
        if header.params.is_empty() || (args.len() > header.params.len() && !header.params.iter().any(|p| p.is_pack)) {
            return false;
        }
        self.attempt(|s| {
            let scope = Env::names(&f.env);
            for (param, arg) in header.params.iter().zip(args) {
                if param.is_pack {
                    break;
                }
                let arg = s.within(scope.clone(), |s| s.check_arg(param, arg.clone(), span))?;
                if let Some(n) = &param.name {
                    scope.bind(n.name.clone(), s.entity_of(&arg));
                }
            }
            Ok(())
        })
        .is_some()
    }
}

fn pattern_name(p: &ast::TemplateArg) -> Option<Name> {
    match &p.kind {
        TemplateArgKind::Path(path) => path.as_ident().map(|i| i.name.clone()),
        TemplateArgKind::Expr(e) => match &e.kind {
            ast::ExprKind::Path(path) => path.as_ident().map(|i| i.name.clone()),
            _ => None,
        },
        TemplateArgKind::Type(ty) => match &ty.kind {
            TyKind::Path(path) => path.as_ident().map(|i| i.name.clone()),
            _ => None,
        },
    }
}

fn mentions(ty: &ast::Ty, b: &Bindings<'_>) -> bool {
    b.header
        .params
        .iter()
        .any(|p| p.name.as_ref().is_some_and(|n| ty_mentions(ty, &n.name)))
}

fn mentions_unfixed(ty: &ast::Ty, b: &Bindings<'_>, fixed: &[bool]) -> bool {
    b.header
        .params
        .iter()
        .zip(fixed)
        .any(|(p, fixed)| !fixed && p.name.as_ref().is_some_and(|n| ty_mentions(ty, &n.name)))
}

/// Does a written type mention a name?
pub fn ty_mentions(ty: &ast::Ty, name: &Name) -> bool {
    match &ty.kind {
        TyKind::Path(path) => path_mentions(path, name),
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) => ty_mentions(t, name),
        TyKind::Array(t, bound) => ty_mentions(t, name) || bound.as_ref().is_some_and(|e| expr_mentions(e, name)),
        TyKind::Function(f) => ty_mentions(&f.ret, name) || f.params.iter().any(|p| ty_mentions(&p.ty, name)),
        TyKind::Decltype(e) => expr_mentions(e, name),
        _ => false,
    }
}

fn path_mentions(path: &ast::Path, name: &Name) -> bool {
    path.segments.iter().any(|s| {
        s.ident.name == *name
            || s.args.iter().flatten().any(|a| match &a.kind {
                TemplateArgKind::Path(p) => path_mentions(p, name),
                TemplateArgKind::Type(t) => ty_mentions(t, name),
                TemplateArgKind::Expr(e) => expr_mentions(e, name),
            })
    })
}

/// Does an expression mention a name? Used for packs and deduction; lambdas are not searched.
pub fn expr_mentions(e: &ast::Expr, name: &Name) -> bool {
    super::uses::any_path(e, &mut |path| path_mentions(path, name))
}
