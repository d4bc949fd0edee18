//! Lambda expressions and calls of their closures.

use super::context::*;
use super::types::*;
use super::tyres::decayed;
use super::value::*;
use crate::ast::{self, Expr, ExprKind, Name, TyKind};
use crate::source::Span;

impl Sema<'_> {
    pub(super) fn lambda(&mut self, l: &std::sync::Arc<ast::LambdaExpr>) -> Res<Operand> {
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
                if let Ok(Some(Entity::Variable(Operand::Place(place), declared))) = self.lookup(&name, l.span)
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
                        let operand = match decayed(&operand).ty {
                            Type::Array(..) => operand,
                            _ => self.decay(operand, init.span)?,
                        };
                        let value = self.rvalue_copy(operand)?;
                        let ty = value.ty.clone();
                        let place = if l.is_mutable {
                            self.new_variable(&name.name, &ty, value, false)?
                        } else {
                            self.fixed_variable(&ty, value)
                        };
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
    pub(super) fn is_local_name(&self, name: &Name) -> bool {
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

    pub(super) fn capture(&mut self, name: &Name, place: LValue, mutable: bool) -> Res<LValue> {
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
        self.count_call(span)?;
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
            let operand = s.function_body(&l.body, ret)?;
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
}

pub(super) fn push(names: &mut Vec<Name>, path: &ast::Path) {
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

pub(super) fn names_in_path(path: &ast::Path) -> Vec<Name> {
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
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) | TyKind::Array(t, _) => names_in_type(t),
        TyKind::Decltype(e) => names_in_expr(e),
        _ => Vec::new(),
    }
}

/// A lambda as a function, for deduction.
pub(super) fn lambda_function(l: &ast::LambdaExpr) -> ast::FunctionDecl {
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
