//! Instances of class, alias and variable templates: arguments completed, the best specialisation picked.

use std::rc::Rc;
use std::sync::Arc;

use super::context::*;
use super::deduce::{Bindings, same_arg};
use super::types::*;
use crate::ast::{self, Name, TemplateArgKind, TemplateHeader, TyKind};
use crate::source::Span;

impl Sema<'_> {
    /// A scope where template parameters are bound to arguments.
    pub fn template_env(&mut self, env: &Rc<Env>, header: &TemplateHeader, args: &[TemplateArg]) -> Rc<Env> {
        let scope = Env::names(env);
        for (param, arg) in header.params.iter().zip(args) {
            if let Some(name) = &param.name {
                scope.bind(name.name.clone(), self.entity_of(arg));
            }
        }
        scope
    }

    /// All arguments of a class, alias or variable template from the written ones.
    pub(super) fn complete_args(
        &mut self,
        id: TemplateId,
        args: Vec<TemplateArg>,
        span: Span,
    ) -> Res<Vec<TemplateArg>> {
        let template = &self.templates[id.index()];
        let (name, env) = (template.name.clone(), template.env.clone());
        let header = match &template.primary {
            TemplateDecl::Record(d) => d.template.clone(),
            TemplateDecl::Alias(d) => d.template.clone(),
            TemplateDecl::Var(d) => d.template.clone(),
        };
        let Some(header) = header else {
            return self.err("E0436", format!("'{name}' is not a template"), span);
        };
        let mut given: Vec<Option<TemplateArg>> = Vec::new();
        let mut rest = args.into_iter();
        for param in &header.params {
            if param.is_pack {
                given.push(Some(TemplateArg::Pack(rest.by_ref().collect())));
            } else {
                given.push(rest.next());
            }
        }
        if rest.next().is_some() {
            return self.err(
                "E0479",
                format!(
                    "too many template arguments for '{name}', which takes {}",
                    header.params.len()
                ),
                span,
            );
        }
        self.finish_args(&header, given, &env, span)
    }

    /// Instantiates a template: a class or alias gives a type, a variable template its value.
    pub fn instantiate(&mut self, id: TemplateId, args: Vec<TemplateArg>, span: Span) -> Res<Entity> {
        let template = &self.templates[id.index()];
        let (name, env) = (template.name.clone(), template.env.clone());
        let primary = template.primary.clone();
        let header = match &primary {
            TemplateDecl::Record(d) => d.template.clone(),
            TemplateDecl::Alias(d) => d.template.clone(),
            TemplateDecl::Var(d) => d.template.clone(),
        };
        let Some(header) = header else {
            return self.err("E0436", format!("'{name}' is not a template"), span);
        };
        let args = self.complete_args(id, args, span)?;
        match primary {
            TemplateDecl::Alias(d) => {
                let scope = self.template_env(&env, &header, &args);
                let t = self.within(scope, |s| s.resolve_type(&d.ty))?;
                Ok(Entity::Type(t))
            }
            TemplateDecl::Record(d) => {
                if let Some(record) = self.templates[id.index()].instances.get(&args) {
                    return Ok(Entity::Type(Type::Record(*record).into()));
                }
                if self.records.len() > 20_000 {
                    return self.err("E0480", "too many template instances", span);
                }
                let (decl, scope) = self.pick(id, &args, &env, &header, &d)?;
                let full = format!("{name}{}", self.args_name(&args));
                let record = self.new_record(decl, &scope, Some((id, args.clone())), full);
                self.templates[id.index()].instances.insert(args, record);
                Ok(Entity::Type(Type::Record(record).into()))
            }
            TemplateDecl::Var(d) => {
                if let Some(operand) = self.templates[id.index()].values.get(&args) {
                    return Ok(Entity::Operand(operand.clone()));
                }
                let mut decl = d.clone();
                let mut scope = self.template_env(&env, &header, &args);
                let mut best = 0;
                for spec in self.templates[id.index()].specialisations.clone() {
                    let TemplateDecl::Var(v) = &spec else {
                        continue;
                    };
                    let (Some(patterns), Some(own)) = (&v.spec_args, &v.template) else {
                        continue;
                    };
                    if let Some((s, score)) = self.matches(id, patterns, own, &args, &env)
                        && score > best
                    {
                        (decl, scope, best) = (v.clone(), s, score);
                    }
                }
                let entity = self.within(scope, |s| s.global_variable(&decl))?;
                if let Entity::Variable(operand, _) | Entity::Operand(operand) = &entity {
                    self.templates[id.index()].values.insert(args, operand.clone());
                }
                Ok(entity)
            }
        }
    }

    /// The specialisation of a class template that fits best, and its scope.
    fn pick(
        &mut self,
        id: TemplateId,
        args: &[TemplateArg],
        env: &Rc<Env>,
        header: &TemplateHeader,
        primary: &Arc<ast::RecordDecl>,
    ) -> Res<(Arc<ast::RecordDecl>, Rc<Env>)> {
        let mut best: Option<(u32, Arc<ast::RecordDecl>, Rc<Env>)> = None;
        for spec in self.templates[id.index()].specialisations.clone() {
            let TemplateDecl::Record(d) = &spec else {
                continue;
            };
            let (Some(patterns), Some(own)) = (&d.spec_args, &d.template) else {
                continue;
            };
            if let Some((scope, score)) = self.matches(id, patterns, own, args, env)
                && best.as_ref().is_none_or(|(s, ..)| score > *s)
            {
                best = Some((score, d.clone(), scope));
            }
        }
        match best {
            Some((_, d, scope)) => Ok((d, scope)),
            None => Ok((primary.clone(), self.template_env(env, header, args))),
        }
    }

    /// Does a specialisation fit? Its scope and how special it is.
    fn matches(
        &mut self,
        id: TemplateId,
        patterns: &[ast::TemplateArg],
        header: &TemplateHeader,
        args: &[TemplateArg],
        env: &Rc<Env>,
    ) -> Option<(Rc<Env>, u32)> {
        let mut b = Bindings {
            header,
            args: vec![None; header.params.len()],
        };
        let flat: Vec<TemplateArg> = args
            .iter()
            .flat_map(|a| match a {
                TemplateArg::Pack(items) => items.clone(),
                a => vec![a.clone()],
            })
            .collect();
        let open = patterns.last().is_some_and(|p| p.is_pack);
        // Fewer patterns than arguments: the primary template's defaults stand for the rest.
        if patterns.len() > flat.len() && !(open && flat.len() + 1 >= patterns.len()) {
            return None;
        }
        let ok = self.within(env.clone(), |s| s.unify_args(patterns, &flat, &mut b));
        if !ok {
            return None;
        }
        let given = std::mem::take(&mut b.args);
        let span = self.span;
        let own = self.attempt(|s| s.finish_args(header, given, env, span))?;
        let scope = self.template_env(env, header, &own);
        // What could not be deduced through must agree now: `X<T, enable_if_t<…>>`, `X<T, N + 1>`.
        let inner = scope.clone();
        let written = self.attempt(|s| {
            let written = s.within(inner, |s| s.template_args(patterns))?;
            if written.len() < flat.len() && !open {
                return s.complete_args(id, written, span);
            }
            Ok(written)
        })?;
        if written.len() != flat.len() || !written.iter().zip(&flat).all(|(a, b)| same_arg(a, b)) {
            return None;
        }
        if let Some(e) = &header.requires {
            let inner = scope.clone();
            let c = self.attempt(|s| s.within(inner, |s| s.constant_expr(e)))?;
            if c.as_int() == Some(0) {
                return None;
            }
        }
        let score =
            1 + 100 * u32::from(header.params.is_empty()) + patterns.iter().map(|p| speciality(p, header)).sum::<u32>();
        Some((scope, score))
    }
}

/// How special a pattern of a partial specialisation is.
fn speciality(p: &ast::TemplateArg, header: &TemplateHeader) -> u32 {
    let is_param = |name: &Name| {
        header
            .params
            .iter()
            .any(|q| q.name.as_ref().is_some_and(|n| n.name == *name))
    };
    match &p.kind {
        TemplateArgKind::Path(path) => match path.as_ident() {
            Some(ident) if is_param(&ident.name) => u32::from(!p.is_pack),
            _ => 4,
        },
        TemplateArgKind::Type(ty) => 3 + ty_speciality(ty),
        TemplateArgKind::Expr(_) => 4,
    }
}

/// How special a written type is.
pub fn ty_speciality(ty: &ast::Ty) -> u32 {
    let own = u32::from(ty.quals.is_const) + u32::from(ty.quals.space.is_some());
    own + match &ty.kind {
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) | TyKind::Array(t, _) => 1 + ty_speciality(t),
        TyKind::Path(path) => match &path.last().args {
            Some(args) => 2 + args.len() as u32,
            None => 0,
        },
        _ => 3,
    }
}
