//! Name lookup: scopes, namespaces, class members, paths with template arguments.

use std::rc::Rc;

use super::builtins::builtin_entity;
use super::context::*;
use super::library::{self, LibEntity};
use super::types::*;
use super::value::*;
use crate::ast::{self, Name, Path, PathRoot, Segment};
use crate::source::Span;

/// Adds what one scope says about a name to what was found before.
fn merge(found: &mut Option<Entity>, entity: Entity) {
    match (found.as_mut(), entity) {
        (None, entity) => *found = Some(entity),
        (Some(Entity::Functions(a)), Entity::Functions(b)) => {
            for f in b.user {
                if !a.user.contains(&f) {
                    a.user.push(f);
                }
            }
            a.library = a.library.or(b.library);
        }
        _ => {}
    }
}

impl Sema<'_> {
    /// Looks an unqualified name up in the scopes around the current place.
    pub fn lookup(&mut self, name: &Name, span: Span) -> Res<Option<Entity>> {
        self.lookup_where(name, span, |_| true)
    }

    /// Looks up a name that stands before `::`: only namespaces and types count, so a variable of the same name hides none of them.
    fn lookup_qualifier(&mut self, name: &Name, span: Span) -> Res<Option<Entity>> {
        self.lookup_where(name, span, |entity| {
            !matches!(
                entity,
                Entity::Variable(..) | Entity::Operand(_) | Entity::OperandPack(_) | Entity::Functions(_)
            )
        })
    }

    /// Looks a name up in the scopes around the current place, past everything that `counts` refuses.
    fn lookup_where(&mut self, name: &Name, span: Span, counts: fn(&Entity) -> bool) -> Res<Option<Entity>> {
        let mut this: Option<LValue> = None;
        let mut using: Vec<NamespaceId> = Vec::new();
        let mut env = Some(self.env.clone());
        while let Some(e) = env {
            match &e.kind {
                EnvKind::Names(names) => {
                    let hit = names
                        .borrow()
                        .iter()
                        .rev()
                        .find(|(n, entity)| n == name && counts(entity))
                        .map(|(_, entity)| entity.clone());
                    if let Some(entity) = hit {
                        return self.resolved(entity, span).map(Some);
                    }
                }
                EnvKind::This(place) => this = this.or_else(|| Some((**place).clone())),
                EnvKind::Using(id) => using.push(*id),
                EnvKind::Record(id) => {
                    if let Some(entity) = self.record_member(*id, name, this.as_ref(), span)?
                        && counts(&entity)
                    {
                        return Ok(Some(entity));
                    }
                    this = None;
                }
                EnvKind::Namespace(id) => {
                    let mut found = self.namespace_member(*id, name, span)?;
                    for other in using.clone() {
                        if let Some(entity) = self.namespace_member(other, name, span)? {
                            merge(&mut found, entity);
                        }
                    }
                    if found.as_ref().is_some_and(counts) {
                        return Ok(found);
                    }
                }
            }
            env = e.parent.clone();
        }
        if let Some(entity) = library::lookup(self, "", name) {
            return Ok(Some(lib_entity(entity)));
        }
        Ok(builtin_entity(name))
    }

    /// Looks a name up in a namespace and the namespaces that it uses.
    pub fn namespace_member(&mut self, id: NamespaceId, name: &Name, span: Span) -> Res<Option<Entity>> {
        let mut seen = vec![id];
        let mut found = None;
        let mut i = 0;
        while i < seen.len() {
            let ns = seen[i];
            i += 1;
            let own = self.namespaces[ns.index()].names.get(name).cloned();
            for entity in own.unwrap_or_default() {
                let entity = self.resolved(entity, span)?;
                merge(&mut found, entity);
            }
            let path = self.namespaces[ns.index()].path.clone();
            if (path.starts_with("metal") || path.starts_with("mpp"))
                && (found.is_none() || matches!(found, Some(Entity::Functions(_))))
            {
                if let Some(entity) = library::lookup(self, &path, name) {
                    merge(&mut found, lib_entity(entity));
                } else if path == "metal"
                    && let Some(entity) = builtin_entity(name)
                {
                    merge(&mut found, entity);
                }
            }
            for next in &self.namespaces[ns.index()].using {
                if !seen.contains(next) {
                    seen.push(*next);
                }
            }
        }
        Ok(found)
    }

    /// Resolves a declaration that waited for its first use.
    pub fn resolved(&mut self, entity: Entity, span: Span) -> Res<Entity> {
        match entity {
            Entity::Deferred(at) => self.resolve_deferred(at, span),
            Entity::Poison => Err(Fail::Reported),
            entity => Ok(entity),
        }
    }

    /// A member of a class (bases included) by name. `this` is the object for data members, if there is one.
    pub fn record_member(
        &mut self,
        id: RecordId,
        name: &Name,
        this: Option<&LValue>,
        span: Span,
    ) -> Res<Option<Entity>> {
        if !self.records[id.index()].complete {
            // While a class is being completed, the members so far are visible.
            if !self.records[id.index()].busy {
                self.complete_record(id)?;
            }
        }
        let mut found = None;
        if let Some(own) = self.records[id.index()].names.get(name).cloned() {
            for entity in own {
                let entity = self.resolved(entity, span)?;
                merge(&mut found, entity);
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        if self.has_field(id, name) {
            return match this {
                Some(object) => {
                    let field = self.field_of(object, name, span)?;
                    Ok(field.map(|place| {
                        let declared = place.qual_type();
                        Entity::Variable(Operand::Place(place), declared)
                    }))
                }
                None => {
                    // Named without an object: good for `decltype` and `sizeof` only.
                    let Some(ty) = self.field_type(id, name) else {
                        return Ok(None);
                    };
                    if self.unevaluated > 0 {
                        let place = self.declval(&ty)?;
                        return Ok(Some(Entity::Variable(place, ty)));
                    }
                    let class = self.records[id.index()].name.clone();
                    self.err(
                        "E0432",
                        format!("'{name}' is a member of an object of '{class}', and there is no object here"),
                        span,
                    )
                }
            };
        }
        for base in self.records[id.index()].bases.clone() {
            let object = this.map(|t| self.base_of(t, id, base)).transpose()?;
            if let Some(entity) = self.record_member(base, name, object.as_ref(), span)? {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }

    /// The `this` object of the member function being lowered.
    pub fn this_object(&self) -> Option<LValue> {
        let mut env = Some(self.env.clone());
        while let Some(e) = env {
            if let EnvKind::This(place) = &e.kind {
                return Some((**place).clone());
            }
            env = e.parent.clone();
        }
        None
    }

    /// The class instance around the current place.
    pub fn current_record(&self) -> Option<RecordId> {
        let mut env = Some(self.env.clone());
        while let Some(e) = env {
            if let EnvKind::Record(id) = e.kind {
                return Some(id);
            }
            env = e.parent.clone();
        }
        None
    }

    /// A member of a type named with `::`.
    pub fn type_member(&mut self, ty: &QualType, name: &Name, span: Span) -> Res<Option<Entity>> {
        match &ty.ty {
            Type::Record(id) => {
                self.complete_record(*id)?;
                let this = self.this_object();
                let this = this.filter(|t| t.ty == ty.ty || self.derives(&t.ty, *id));
                let this = match this {
                    Some(t) if t.ty != ty.ty => self.upcast(&t, *id)?,
                    this => this,
                };
                self.record_member(*id, name, this.as_ref(), span)
            }
            Type::Enum(id) => {
                let e = &self.enums[id.index()];
                let value = e.values.iter().find(|(n, _)| n == name).map(|(_, c)| *c);
                Ok(value.map(|c| Entity::Operand(Value::one(ty.ty.clone(), Leaf::Const(c)).into())))
            }
            other => match library::static_member(self, other, name, span) {
                Some(entity) => Ok(Some(lib_entity(entity?))),
                None => Ok(None),
            },
        }
    }

    /// What a path denotes. An error if there is no such thing.
    pub fn resolve_path(&mut self, path: &Path) -> Res<Entity> {
        let mut segments = path.segments.iter();
        let mut entity = match &path.root {
            PathRoot::Scope => {
                let Some(first) = segments.next() else {
                    return self.err("E0433", "empty name", path.span);
                };
                let (name, span) = (&first.ident.name, first.ident.span);
                let found = if path.segments.len() > 1 {
                    self.lookup_qualifier(name, span)?
                } else {
                    None
                };
                // Without a namespace or type, the error says what the name is.
                let found = match found {
                    Some(entity) => Some(entity),
                    None => self.lookup(name, span)?,
                };
                match found {
                    Some(entity) => self.apply_args(entity, first, path.span)?,
                    None => return self.unknown(first, path),
                }
            }
            PathRoot::Global => Entity::Namespace(NamespaceId(0)),
            PathRoot::Decltype(e) => {
                let ty = self.decltype(e)?;
                Entity::Type(ty.without_reference())
            }
        };
        for segment in segments {
            let name = &segment.ident.name;
            let next = match &entity {
                Entity::Namespace(id) => {
                    let global = id.0 == 0;
                    match self.namespace_member(*id, name, segment.ident.span)? {
                        None if global => match library::lookup(self, "", name) {
                            Some(entity) => Some(lib_entity(entity)),
                            None => builtin_entity(name),
                        },
                        found => found,
                    }
                }
                Entity::Type(ty) => self.type_member(&ty.clone(), name, segment.ident.span)?,
                Entity::Library(LibEntity::Template { name, .. }) => {
                    return self.err(
                        "E0434",
                        format!("'{name}' needs template arguments before '::'"),
                        path.span,
                    );
                }
                _ => None,
            };
            entity = match next {
                Some(entity) => self.apply_args(entity, segment, path.span)?,
                None => {
                    let whole = match &entity {
                        Entity::Type(ty) => format!("type '{}'", self.qual_name(ty)),
                        Entity::Namespace(id) if id.0 == 0 => "the global namespace".into(),
                        Entity::Namespace(id) => {
                            format!("namespace '{}'", self.namespaces[id.index()].path)
                        }
                        _ => "what stands before '::'".into(),
                    };
                    return self.err("E0435", format!("there is no '{name}' in {whole}"), segment.ident.span);
                }
            };
        }
        Ok(entity)
    }

    fn unknown<T>(&mut self, first: &Segment, path: &Path) -> Res<T> {
        let name = &first.ident.name;
        let metal = Name::from("metal");
        let in_metal = match self.namespaces[0].names.get(&metal).and_then(|v| v.first()) {
            Some(Entity::Namespace(id)) => {
                let id = *id;
                self.namespace_member(id, name, path.span)?.is_some()
            }
            _ => false,
        };
        let d = self.diagnostic("E0433", format!("unknown name '{name}'"), first.ident.span);
        let d = if in_metal {
            d.help(format!("write 'metal::{name}' or add 'using namespace metal;'"))
        } else if let Some(near) = self.nearest_local(name) {
            d.help(format!("did you mean '{near}'?"))
        } else {
            d
        };
        Err(Fail::Error(Box::new(d)))
    }

    /// The visible local name that looks most like one that does not exist.
    fn nearest_local(&self, name: &str) -> Option<Name> {
        let mut best: Option<(usize, Name)> = None;
        let mut env = Some(self.env.clone());
        while let Some(e) = env {
            if let EnvKind::Names(names) = &e.kind {
                for (known, _) in names.borrow().iter() {
                    let contained = name.len() > 2 && (known.contains(name) || name.contains(&**known));
                    let distance = super::spelling::edit_distance(known, name);
                    let score = if contained && known.len() > 2 { 1 } else { distance };
                    let close = score <= 1 + name.len() / 5;
                    if close && best.as_ref().is_none_or(|(former, _)| score < *former) {
                        best = Some((score, known.clone()));
                    }
                }
            }
            env = e.parent.clone();
        }
        best.map(|(_, name)| name)
    }

    /// A library template named without its arguments.
    pub(super) fn bare_template<T>(&self, name: &str, span: Span) -> Res<T> {
        let message = format!("'{name}' needs template arguments here");
        if name == "execution_simdgroups" {
            return self.err_help(
                "E0434",
                message,
                span,
                "write 'execution_simdgroups<N>' for N SIMD-groups, or 'execution_simdgroup' for one",
            );
        }
        self.err("E0434", message, span)
    }

    /// Applies the template arguments of a segment.
    fn apply_args(&mut self, entity: Entity, segment: &Segment, span: Span) -> Res<Entity> {
        let Some(args) = &segment.args else {
            return Ok(entity);
        };
        match entity {
            Entity::Template(id) => {
                let args = self.template_args(args)?;
                self.instantiate(id, args, span)
            }
            Entity::Type(QualType {
                ty: Type::Record(id), ..
            }) if self.records[id.index()].template.is_some() => {
                // The injected class name with arguments names the template.
                let template = self.records[id.index()].template.as_ref().map(|t| t.0);
                let args = self.template_args(args)?;
                match template {
                    Some(template) => self.instantiate(template, args, span),
                    None => self.err("E0436", "not a template", span),
                }
            }
            Entity::Library(LibEntity::Template { instantiate, .. }) => {
                let args = self.template_args(args)?;
                Ok(Entity::Type(instantiate(self, &args, span)?))
            }
            Entity::Functions(mut set) => {
                set.args = self.template_args(args)?;
                Ok(Entity::Functions(set))
            }
            _ => self.err(
                "E0436",
                format!("'{}' is not a template", segment.ident.name),
                segment.ident.span,
            ),
        }
    }

    /// Evaluates template arguments; packs are flattened.
    pub fn template_args(&mut self, args: &[ast::TemplateArg]) -> Res<Vec<TemplateArg>> {
        let mut out = Vec::with_capacity(args.len());
        for arg in args {
            if arg.is_pack {
                self.expand_template_arg(arg, &mut out)?;
            } else {
                let value = self.template_arg(arg)?;
                match value {
                    TemplateArg::Pack(items) => out.extend(items),
                    value => out.push(value),
                }
            }
        }
        Ok(out)
    }

    /// One template argument.
    pub fn template_arg(&mut self, arg: &ast::TemplateArg) -> Res<TemplateArg> {
        let former = self.at(arg.span);
        let result = match &arg.kind {
            ast::TemplateArgKind::Type(ty) => self.resolve_type(ty).map(TemplateArg::Type),
            ast::TemplateArgKind::Expr(e) => self.constant_expr(e).map(TemplateArg::Value),
            ast::TemplateArgKind::Path(path) => self.path_arg(path),
        };
        self.at(former);
        result
    }

    fn path_arg(&mut self, path: &Path) -> Res<TemplateArg> {
        Ok(match self.resolve_path(path)? {
            Entity::Type(ty) => TemplateArg::Type(ty),
            Entity::Template(id) => TemplateArg::Template(id),
            Entity::Pack(items) => TemplateArg::Pack(items),
            Entity::Operand(operand) | Entity::Variable(operand, _) => {
                TemplateArg::Value(self.constant_operand(operand, path.span)?)
            }
            Entity::Library(LibEntity::Value(value)) => {
                TemplateArg::Value(self.constant_operand(value.into(), path.span)?)
            }
            Entity::Library(LibEntity::Type(ty)) => TemplateArg::Type(ty),
            Entity::Library(LibEntity::Template { name, .. }) => {
                return self.bare_template(name, path.span);
            }
            Entity::Functions(set) => {
                // `f<g>` of several templates: those whose parameters the arguments fit.
                let mut fitting = set.user.clone();
                if fitting.len() > 1 && !set.args.is_empty() {
                    fitting.retain(|f| self.takes_args(f, &set.args, path.span));
                }
                let [f] = fitting.as_slice() else {
                    return self.err(
                        "E0437",
                        format!("'{path}' is overloaded: the template argument is ambiguous"),
                        path.span,
                    );
                };
                let mut f = f.clone();
                f.args = set.args;
                TemplateArg::Value(Constant {
                    ty: Type::Overloads(Rc::new(vec![f])),
                    leaves: Vec::new(),
                })
            }
            _ => {
                return self.err("E0438", format!("'{path}' is no type, template or constant"), path.span);
            }
        })
    }

    /// The constant behind an operand; an error if it is not one.
    pub fn constant_operand(&mut self, operand: Operand, span: Span) -> Res<Constant> {
        let former = self.at(span);
        let value = self.in_const_mode(|s| s.rvalue(operand));
        self.at(former);
        self.constant_value(value?, span)
    }

    /// The constant behind a value; an error if it is not one.
    pub fn constant_value(&mut self, value: Value, span: Span) -> Res<Constant> {
        let mut leaves = Vec::with_capacity(value.leaves.len());
        for leaf in &value.leaves {
            leaves.push(match leaf {
                Leaf::Function(f) => ConstLeaf::Function(f.clone()),
                other => match self.const_of(other) {
                    Some(c) => ConstLeaf::Number(c),
                    None => {
                        return self.err(
                            "E0420",
                            "this is not a constant expression: its value is known at run time only",
                            span,
                        );
                    }
                },
            });
        }
        Ok(Constant { ty: value.ty, leaves })
    }

    /// A constant as an operand.
    pub fn operand_of(&self, c: &Constant) -> Operand {
        let leaves = c
            .leaves
            .iter()
            .map(|leaf| match leaf {
                ConstLeaf::Number(c) => Leaf::Const(*c),
                ConstLeaf::Function(f) => Leaf::Function(f.clone()),
            })
            .collect::<Vec<_>>();
        match &c.ty {
            // Class-type template arguments are constant objects with an identity.
            Type::Record(_) | Type::Array(..) => LValue {
                ty: c.ty.clone(),
                is_const: true,
                is_volatile: false,
                place: Place::Slots(leaves.into_iter().map(Slot::Fixed).collect()),
            }
            .into(),
            _ => Value {
                ty: c.ty.clone(),
                leaves,
            }
            .into(),
        }
    }

    /// The entity that a template argument binds its parameter to.
    pub fn entity_of(&self, arg: &TemplateArg) -> Entity {
        match arg {
            TemplateArg::Type(ty) => Entity::Type(ty.clone()),
            TemplateArg::Value(c) => Entity::Operand(self.operand_of(c)),
            TemplateArg::Template(id) => Entity::Template(*id),
            TemplateArg::Pack(items) => Entity::Pack(items.clone()),
        }
    }
}

/// A library entity as an entity.
pub fn lib_entity(entity: LibEntity) -> Entity {
    match entity {
        LibEntity::Function(f, namespace) => Entity::Functions(FunctionSet {
            user: Vec::new(),
            library: Some((f, namespace)),
            args: Vec::new(),
        }),
        LibEntity::Type(ty) => Entity::Type(ty),
        LibEntity::Value(value) => Entity::Operand(value.into()),
        entity => Entity::Library(entity),
    }
}
