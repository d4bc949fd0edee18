//! Registers namespace-scope declarations; most are resolved only when first used.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::{MathMode, Scalar};

use super::context::*;
use super::types::*;
use super::value::*;
use crate::ast::{self, Decl, FpPragma, Name, TyKind};
use crate::source::Span;

/// What the declarations of a translation unit ask to be lowered or checked.
#[derive(Debug, Default)]
pub struct Roots {
    /// Functions that are no templates and no kernels.
    pub functions: Vec<FunctionRef>,
    /// Kernels that are no templates.
    pub kernels: Vec<FunctionRef>,
    /// Explicit instantiations.
    pub instantiations: Vec<(ast::Instantiation, Rc<Env>)>,
    /// `static_assert`s.
    pub asserts: Vec<(ast::StaticAssert, Rc<Env>)>,
}

impl Sema<'_> {
    /// Registers declarations of a namespace.
    pub fn declare_all(&mut self, decls: &[Decl], ns: NamespaceId, roots: &mut Roots) {
        for decl in decls {
            if let Err(fail) = self.declare(decl, ns, roots) {
                self.report_fail(fail);
            }
        }
    }

    fn ns_env(&self, ns: NamespaceId) -> Rc<Env> {
        match &self.namespaces[ns.index()].env {
            Some(env) => env.clone(),
            None => self.global.clone(),
        }
    }

    fn ns_bind(&mut self, ns: NamespaceId, name: &Name, entity: Entity) {
        self.namespaces[ns.index()]
            .names
            .entry(name.clone())
            .or_default()
            .push(entity);
    }

    fn ns_bind_function(&mut self, ns: NamespaceId, f: FunctionRef) {
        let name = f.decl.name.name.clone();
        let list = self.namespaces[ns.index()].names.entry(name).or_default();
        add_function(list, f);
    }

    /// A deferred declaration, as an entity.
    pub fn defer(&mut self, env: &Rc<Env>, decl: DeferredDecl) -> Entity {
        self.deferred.push(Deferred {
            env: env.clone(),
            decl,
            entity: None,
            busy: false,
            touched: Vec::new(),
            unset: Vec::new(),
        });
        Entity::Deferred(self.deferred.len() as u32 - 1)
    }

    /// Finds or makes a namespace inside another.
    pub fn child_namespace(&mut self, parent: NamespaceId, name: Option<&Name>) -> NamespaceId {
        let key = name.cloned().unwrap_or_else(|| Name::from(""));
        if let Some(list) = self.namespaces[parent.index()].names.get(&key)
            && let Some(Entity::Namespace(id)) = list.iter().find(|e| matches!(e, Entity::Namespace(_)))
        {
            return *id;
        }
        let id = NamespaceId(self.namespaces.len() as u32);
        let outer = &self.namespaces[parent.index()].path;
        let path = match (outer.is_empty(), key.is_empty()) {
            (_, true) => format!("{outer}::(unnamed)"),
            (true, _) => key.to_string(),
            (false, _) => format!("{outer}::{key}"),
        };
        let env = Env::of(&self.ns_env(parent), EnvKind::Namespace(id));
        self.namespaces.push(Namespace {
            path,
            names: HashMap::new(),
            using: Vec::new(),
            env: Some(env),
        });
        self.ns_bind(parent, &key, Entity::Namespace(id));
        id
    }

    /// The namespace that a path names.
    pub fn resolve_namespace(&mut self, path: &ast::Path) -> Res<NamespaceId> {
        match self.resolve_path(path)? {
            Entity::Namespace(id) => Ok(id),
            _ => self.err("E0439", format!("'{path}' is not a namespace"), path.span),
        }
    }

    fn declare(&mut self, decl: &Decl, ns: NamespaceId, roots: &mut Roots) -> Res<()> {
        let env = self.ns_env(ns);
        match decl {
            Decl::Namespace(d) => {
                let id = self.child_namespace(ns, d.name.as_ref().map(|n| &n.name));
                if (d.is_inline || d.name.is_none()) && !self.namespaces[ns.index()].using.contains(&id) {
                    self.namespaces[ns.index()].using.push(id);
                }
                self.declare_all(&d.decls, id, roots);
            }
            Decl::NamespaceAlias { name, target, .. } => {
                let id = self.within(env, |s| s.resolve_namespace(target))?;
                self.ns_bind(ns, &name.name, Entity::Namespace(id));
            }
            Decl::UsingNamespace(path) => {
                let id = self.within(env, |s| s.resolve_namespace(path))?;
                self.namespaces[ns.index()].using.push(id);
            }
            Decl::Using(path) => {
                let entity = self.within(env, |s| s.resolve_path(path))?;
                let name = path.last().ident.name.clone();
                self.ns_bind(ns, &name, entity);
            }
            Decl::Alias(d) => {
                self.declare_inline(&d.ty, ns, &env);
                let entity = match &d.template {
                    Some(_) => self.new_template(d.name.name.clone(), &env, TemplateDecl::Alias(d.clone())),
                    None => self.defer(&env, DeferredDecl::Alias(d.clone())),
                };
                self.ns_bind(ns, &d.name.name, entity);
            }
            Decl::Var(d) => {
                self.declare_inline(&d.ty, ns, &env);
                let Some(name) = &d.name else {
                    return Ok(());
                };
                if let Some(class) = d.qualifier.last() {
                    self.out_of_class_vars
                        .insert((class.ident.name.clone(), name.name.clone()), (d.clone(), env));
                    return Ok(());
                }
                if d.template.is_some() || d.spec_args.is_some() {
                    let list = self.namespaces[ns.index()].names.get(&name.name).cloned();
                    if let Some(Entity::Template(id)) = list.and_then(|l| l.first().cloned()) {
                        self.templates[id.index()]
                            .specialisations
                            .push(TemplateDecl::Var(d.clone()));
                        return Ok(());
                    }
                    let entity = self.new_template(name.name.clone(), &env, TemplateDecl::Var(d.clone()));
                    self.ns_bind(ns, &name.name, entity);
                    return Ok(());
                }
                if d.specs.is_extern && d.init.is_none() {
                    return Ok(());
                }
                let entity = self.defer(&env, DeferredDecl::Var(d.clone()));
                self.ns_bind(ns, &name.name, entity);
            }
            Decl::Function(d) => self.declare_function(d, ns, env, roots)?,
            Decl::Record(d) => self.declare_record(d, ns, &env)?,
            Decl::Enum(d) => self.declare_enum(d, ns, &env),
            Decl::StaticAssert(d) => roots.asserts.push((d.clone(), env)),
            Decl::Instantiation(d) => roots.instantiations.push((d.clone(), env)),
            Decl::FpPragma(pragma, _) => self.apply_fp_pragma(*pragma),
        }
        Ok(())
    }

    /// `#pragma METAL fp …`
    pub fn apply_fp_pragma(&mut self, pragma: FpPragma) {
        match pragma {
            FpPragma::MathSafe => self.math = MathMode::Precise,
            FpPragma::MathRelaxed | FpPragma::MathFast => self.math = MathMode::Fast,
            FpPragma::ContractOff | FpPragma::ContractOn => {}
        }
    }

    fn declare_function(
        &mut self,
        d: &Arc<ast::FunctionDecl>,
        ns: NamespaceId,
        env: Rc<Env>,
        roots: &mut Roots,
    ) -> Res<()> {
        if matches!(d.kind, ast::FunctionKind::DeductionGuide) {
            let list = self.namespaces[ns.index()].names.get(&d.name.name).cloned();
            if let Some(Entity::Template(id)) = list.and_then(|l| l.first().cloned()) {
                self.templates[id.index()].guides.push(d.clone());
            }
            return Ok(());
        }
        if let Some(class) = d.qualifier.last() {
            let key = (class.ident.name.clone(), d.name.name.clone());
            // `ns::f` outside of its namespace is rare; a class is far more likely.
            self.out_of_class.entry(key).or_default().push((d.clone(), env));
            return Ok(());
        }
        let f = FunctionRef {
            decl: d.clone(),
            env,
            record: None,
            args: Vec::new(),
        };
        let has_body = matches!(d.body, ast::Body::Block(_));
        if d.template.is_none() && has_body {
            if d.kernel.is_some() {
                roots.kernels.push(f.clone());
            } else {
                roots.functions.push(f.clone());
            }
        }
        self.ns_bind_function(ns, f);
        Ok(())
    }

    /// A new template, as an entity.
    pub fn new_template(&mut self, name: Name, env: &Rc<Env>, primary: TemplateDecl) -> Entity {
        self.templates.push(Template {
            name,
            env: env.clone(),
            primary,
            specialisations: Vec::new(),
            guides: Vec::new(),
            instances: HashMap::new(),
            values: HashMap::new(),
        });
        Entity::Template(TemplateId(self.templates.len() as u32 - 1))
    }

    fn declare_record(&mut self, d: &Arc<ast::RecordDecl>, ns: NamespaceId, env: &Rc<Env>) -> Res<()> {
        let Some(name) = &d.name else {
            return Ok(());
        };
        let list = self.namespaces[ns.index()].names.get(&name.name).cloned();
        if d.spec_args.is_some() {
            let existing = match list.and_then(|l| l.first().cloned()) {
                Some(Entity::Template(id)) => Some(id),
                _ => match self.within(env.clone(), |s| s.lookup(&name.name, name.span))? {
                    Some(Entity::Template(id)) => Some(id),
                    _ => None,
                },
            };
            let Some(id) = existing else {
                return self.err(
                    "E0441",
                    format!("there is no class template '{}' to specialise", name.name),
                    name.span,
                );
            };
            if d.members.is_some() {
                self.templates[id.index()]
                    .specialisations
                    .push(TemplateDecl::Record(d.clone()));
            }
            return Ok(());
        }
        if d.template.is_some() {
            if let Some(Entity::Template(id)) = list.and_then(|l| l.first().cloned()) {
                if d.members.is_some() {
                    let t = &mut self.templates[id.index()];
                    t.primary = TemplateDecl::Record(with_defaults(d, &t.primary));
                }
                return Ok(());
            }
            let entity = self.new_template(name.name.clone(), env, TemplateDecl::Record(d.clone()));
            self.ns_bind(ns, &name.name, entity);
            return Ok(());
        }
        if let Some(Entity::Deferred(at)) = list.and_then(|l| l.first().cloned())
            && let DeferredDecl::Record(former) = &self.deferred[at as usize].decl
        {
            if former.members.is_none() && d.members.is_some() {
                self.deferred[at as usize].decl = DeferredDecl::Record(d.clone());
            }
            return Ok(());
        }
        let entity = self.defer(env, DeferredDecl::Record(d.clone()));
        self.ns_bind(ns, &name.name, entity);
        Ok(())
    }

    fn declare_enum(&mut self, d: &Arc<ast::EnumDecl>, ns: NamespaceId, env: &Rc<Env>) {
        let entity = self.defer(env, DeferredDecl::Enum(d.clone()));
        let name = d.name.as_ref().map_or_else(|| enum_key(d), |n| n.name.clone());
        self.ns_bind(ns, &name, entity);
        if !d.is_scoped {
            for (i, e) in d.enumerators.iter().flatten().enumerate() {
                let entity = self.defer(env, DeferredDecl::Enumerator(d.clone(), i));
                self.ns_bind(ns, &e.name.name, entity);
            }
        }
    }

    /// Records and enums that are defined inside the type of another declaration.
    fn declare_inline(&mut self, ty: &ast::Ty, ns: NamespaceId, env: &Rc<Env>) {
        match &ty.kind {
            TyKind::Record(d) if d.name.is_some() && d.members.is_some() => {
                if let Err(fail) = self.declare_record(d, ns, env) {
                    self.report_fail(fail);
                }
            }
            TyKind::Enum(d) if d.enumerators.is_some() => self.declare_enum(d, ns, env),
            TyKind::Pointer(t) | TyKind::Array(t, _) => self.declare_inline(t, ns, env),
            _ => {}
        }
    }

    /// Resolves a deferred declaration.
    pub fn resolve_deferred(&mut self, at: u32, span: Span) -> Res<Entity> {
        let entity = self.resolve_deferred_value(at, span)?;
        self.reads_unset(at, span);
        Ok(entity)
    }

    fn resolve_deferred_value(&mut self, at: u32, span: Span) -> Res<Entity> {
        let d = &mut self.deferred[at as usize];
        if let Some(entity) = &d.entity {
            let result = match entity {
                Entity::Poison => Err(Fail::Reported),
                entity => Ok(entity.clone()),
            };
            let touched = &self.deferred[at as usize].touched;
            for i in touched {
                if !self.touched.contains(i) {
                    self.touched.push(*i);
                }
            }
            return result;
        }
        if d.busy {
            return self.err("E0442", "this declaration depends on itself", span);
        }
        d.busy = true;
        let (env, decl) = (d.env.clone(), d.decl.clone());
        let trial = std::mem::take(&mut self.trial);
        let outer = std::mem::take(&mut self.touched);
        // What its value depends on is the same wherever it is used first.
        let outer_reads = std::mem::take(&mut self.unset.reads);
        let thrown_away = std::mem::take(&mut self.thrown_away);
        let result = self.within(env.clone(), |s| match &decl {
            DeferredDecl::Alias(d) => s.resolve_type(&d.ty).map(Entity::Type),
            DeferredDecl::Var(d) => s.global_variable(d),
            DeferredDecl::Record(d) => {
                let id = s.new_record(d.clone(), &env, None, record_name(d));
                Ok(Entity::Type(Type::Record(id).into()))
            }
            DeferredDecl::Enum(d) => {
                let id = s.enum_of(d, &env)?;
                Ok(Entity::Type(Type::Enum(id).into()))
            }
            DeferredDecl::Enumerator(d, i) => {
                let id = s.enum_of(d, &env)?;
                let c = s.enums[id.index()].values[*i].1;
                Ok(Entity::Operand(Value::one(Type::Enum(id), Leaf::Const(c)).into()))
            }
        });
        self.trial = trial;
        let touched = std::mem::replace(&mut self.touched, outer);
        for i in &touched {
            if !self.touched.contains(i) {
                self.touched.push(*i);
            }
        }
        let d = &mut self.deferred[at as usize];
        d.busy = false;
        d.unset = std::mem::replace(&mut self.unset.reads, outer_reads);
        self.thrown_away = thrown_away;
        d.touched = touched;
        match result {
            Ok(entity) => {
                d.entity = Some(entity.clone());
                Ok(entity)
            }
            Err(Fail::Error(e)) => {
                d.entity = Some(Entity::Poison);
                self.report(*e);
                Err(Fail::Reported)
            }
            Err(fail) => Err(fail),
        }
    }

    /// The enum of a declaration in a scope; made on first use.
    pub fn enum_of(&mut self, d: &Arc<ast::EnumDecl>, env: &Rc<Env>) -> Res<EnumId> {
        let key = (Arc::as_ptr(d) as usize, Rc::as_ptr(env) as usize);
        if let Some(id) = self.enum_ids.get(&key) {
            return Ok(*id);
        }
        let underlying = match &d.underlying {
            Some(ty) => match self.resolve_type(ty)?.ty.as_scalar() {
                Some(scalar) if !scalar.is_float() => scalar,
                _ => {
                    return self.err(
                        "E0443",
                        "the underlying type of an enum must be an integer type",
                        ty.span,
                    );
                }
            },
            None => Scalar::I32,
        };
        let id = EnumId(self.enums.len() as u32);
        let name = d
            .name
            .as_ref()
            .map_or_else(|| "(unnamed enum)".to_string(), |n| n.name.to_string());
        self.enums.push(Enum {
            name,
            decl: d.clone(),
            underlying,
            is_scoped: d.is_scoped,
            values: Vec::new(),
            namespace: env.namespace(),
        });
        self.enum_ids.insert(key, id);
        let scope = Env::names(env);
        let mut next: i128 = 0;
        let mut unsigned = false;
        let mut numbers = Vec::new();
        for e in d.enumerators.iter().flatten() {
            if let Some(value) = &e.value {
                let c = self.within(scope.clone(), |s| s.constant_expr(value))?;
                next = match c.as_int() {
                    Some(n) => n,
                    None => {
                        return self.err("E0444", "an enumerator must be an integer", value.span);
                    }
                };
                if let Some(n) = c.number() {
                    unsigned |= n.ty == Scalar::U32;
                }
            }
            numbers.push((e.name.name.clone(), next));
            let leaf = Self::int_leaf(underlying, next);
            let value = Value::one(Type::Enum(id), leaf);
            scope.bind(e.name.name.clone(), Entity::Operand(value.into()));
            next += 1;
        }
        let e = &mut self.enums[id.index()];
        if d.underlying.is_none() && !d.is_scoped {
            let fits = |low: i128, high: i128| numbers.iter().all(|(_, n)| *n >= low && *n <= high);
            e.underlying = if unsigned && fits(0, u32::MAX.into()) {
                Scalar::U32
            } else if fits(i32::MIN.into(), i32::MAX.into()) {
                Scalar::I32
            } else if fits(0, u32::MAX.into()) {
                Scalar::U32
            } else {
                Scalar::I64
            };
        }
        let ty = e.underlying;
        for (name, n) in numbers {
            let mask = if ty.bits() >= 64 {
                u64::MAX
            } else {
                (1 << ty.bits()) - 1
            };
            e.values.push((
                name,
                anymetal_ir::Const {
                    ty,
                    bits: n as u64 & mask,
                },
            ));
        }
        Ok(id)
    }
}

/// A name for an unnamed enum that no source can spell.
pub fn enum_key(d: &Arc<ast::EnumDecl>) -> Name {
    Name::new(format!("(enum {})", d.span.lo))
}

/// The name of a record that is no template instance.
pub fn record_name(d: &ast::RecordDecl) -> String {
    match (&d.name, d.kind) {
        (Some(name), _) => name.name.to_string(),
        (None, ast::RecordKind::Union) => "(unnamed union)".into(),
        (None, _) => "(unnamed struct)".into(),
    }
}

/// Adds a function to the functions of a scope's list. A definition replaces its declaration.
pub fn add_function(list: &mut Vec<Entity>, f: FunctionRef) {
    for entity in list.iter_mut() {
        if let Entity::Functions(set) = entity {
            if let Some(former) = set
                .user
                .iter_mut()
                .find(|g| matches!(g.decl.body, ast::Body::None) && same_signature(&g.decl, &f.decl))
            {
                if !matches!(f.decl.body, ast::Body::None) {
                    *former = f;
                }
                return;
            }
            if matches!(f.decl.body, ast::Body::None) && set.user.iter().any(|g| same_signature(&g.decl, &f.decl)) {
                return;
            }
            set.user.push(f);
            return;
        }
    }
    list.push(Entity::Functions(FunctionSet {
        user: vec![f],
        ..FunctionSet::default()
    }));
}

/// Do two declarations look alike, apart from spans, names of parameters and default arguments?
fn same_signature(a: &ast::FunctionDecl, b: &ast::FunctionDecl) -> bool {
    fn ty(t: &ast::Ty) -> String {
        let mut out = String::new();
        if t.quals.is_const {
            out.push('c');
        }
        if let Some((space, _)) = t.quals.space {
            out.push_str(space.keyword());
        }
        match &t.kind {
            TyKind::Pointer(inner) => format!("{out}*{}", ty(inner)),
            TyKind::LRef(inner) => format!("{out}&{}", ty(inner)),
            TyKind::Array(inner, _) => format!("{out}[]{}", ty(inner)),
            TyKind::Path(path) => {
                let args: Vec<String> = path
                    .segments
                    .iter()
                    .map(|s| format!("{}{}", s.ident.name, s.args.as_ref().map_or(0, Vec::len)))
                    .collect();
                format!("{out}{}", args.join("::"))
            }
            TyKind::Builtin(b) => format!("{out}{b:?}"),
            _ => format!("{out}{:?}", t.span.lo),
        }
    }
    a.params.len() == b.params.len()
        && a.template.as_ref().map(|t| t.params.len()) == b.template.as_ref().map(|t| t.params.len())
        && a.spec_args.is_some() == b.spec_args.is_some()
        && a.params.iter().zip(&b.params).all(|(x, y)| ty(&x.ty) == ty(&y.ty))
}

/// A class template's definition with the default arguments of its forward declaration.
fn with_defaults(d: &Arc<ast::RecordDecl>, former: &TemplateDecl) -> Arc<ast::RecordDecl> {
    let TemplateDecl::Record(former) = former else {
        return d.clone();
    };
    let (Some(new), Some(old)) = (&d.template, &former.template) else {
        return d.clone();
    };
    let has_default = |p: &ast::TemplateParam| match &p.kind {
        ast::TemplateParamKind::Type(d) => d.is_some(),
        ast::TemplateParamKind::Value(_, d) => d.is_some(),
        ast::TemplateParamKind::Template(_, d) => d.is_some(),
    };
    if !old.params.iter().any(has_default) || new.params.len() != old.params.len() {
        return d.clone();
    }
    let mut merged = (**d).clone();
    if let Some(header) = &mut merged.template {
        for (p, q) in header.params.iter_mut().zip(&old.params) {
            if has_default(q) && !has_default(p) {
                p.kind = q.kind.clone();
            }
        }
    }
    Arc::new(merged)
}
