//! Structs, classes and unions: instantiation, layout, member access, construction.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::{Scalar, Type as IrType};

use super::context::*;
use super::declare::{add_function, enum_key};
use super::emit::aligned;
use super::types::*;
use super::value::*;
use crate::ast::{self, Decl, FunctionKind, Name, RecordKind, TyKind};
use crate::source::Span;

impl Sema<'_> {
    /// A new record; its members are collected when first needed.
    pub fn new_record(
        &mut self,
        decl: Arc<ast::RecordDecl>,
        env: &Rc<Env>,
        template: Option<(TemplateId, Vec<TemplateArg>)>,
        name: String,
    ) -> RecordId {
        let id = RecordId(self.records.len() as u32);
        let scope = Env::of(env, EnvKind::Record(id));
        let mut names = HashMap::new();
        if let Some(own) = &decl.name {
            names.insert(own.name.clone(), vec![Entity::Type(Type::Record(id).into())]);
        }
        self.records.push(Record {
            decl,
            env: scope,
            name: shortened(name),
            template,
            bases: Vec::new(),
            fields: Vec::new(),
            names,
            constructors: Vec::new(),
            conversions: Vec::new(),
            size: 0,
            align: 1,
            leaves: Rc::from([]),
            offsets: Rc::from([]),
            complete: false,
            busy: false,
        });
        id
    }

    /// Makes sure that a record's members are known.
    pub fn complete_record(&mut self, id: RecordId) -> Res<()> {
        let record = &mut self.records[id.index()];
        if record.complete {
            return Ok(());
        }
        if record.busy || record.decl.members.is_none() {
            let name = record.name.clone();
            return self.err("E0430", format!("'{name}' is not completely defined here"), self.span);
        }
        record.busy = true;
        let (decl, env) = (record.decl.clone(), record.env.clone());
        let is_instance = record.template.is_some();
        if is_instance {
            let frame = Frame {
                what: record.name.clone(),
                span: self.span,
                decl: None,
                record: None,
                inlined_at: None,
            };
            self.frames.push(frame);
        }
        let former = self.span;
        let result = self.within(env.clone(), |s| s.collect_members(id, &decl, &env));
        self.at(former);
        if is_instance {
            self.frames.pop();
        }
        self.records[id.index()].busy = false;
        result
    }

    fn collect_members(&mut self, id: RecordId, decl: &Arc<ast::RecordDecl>, env: &Rc<Env>) -> Res<()> {
        let mut fields: Vec<Field> = Vec::new();
        for base in &decl.bases {
            let t = self.resolve_type(&base.ty)?;
            let Type::Record(base_id) = t.ty else {
                return self.err(
                    "E0453",
                    format!("'{}' cannot be a base class", self.qual_name(&t)),
                    base.ty.span,
                );
            };
            self.complete_record(base_id)?;
            self.records[id.index()].bases.push(base_id);
            fields.push(field_named(Name::from(""), t, None));
        }
        let members = decl.members.as_deref().unwrap_or(&[]);
        let mut asserts = Vec::new();
        let mut data = Vec::new();
        for member in members {
            self.collect_member(id, env, &member.decl, &mut data, &mut asserts)?;
        }
        for var in data {
            let ty = self.field_decl_type(&var)?;
            if var.bit_width.is_some() {
                return self.err("E0454", "bit-fields are not supported", var.span);
            }
            let name = var.name.as_ref().map_or_else(|| Name::from(""), |n| n.name.clone());
            let mut field = field_named(name, ty, var.init.is_some().then(|| var.clone()));
            for attr in var.attrs.iter().filter(|a| a.name == "alignas") {
                field.align = field.align.max(self.alignas(attr)?);
            }
            if fields.iter().any(|f| f.name == field.name && !f.name.is_empty()) {
                return self.err(
                    "E0455",
                    format!("the member '{}' is declared twice", field.name),
                    var.span,
                );
            }
            fields.push(field);
        }
        // Constructors that are all `= default` leave the class an aggregate, as in C++17.
        let constructors = &mut self.records[id.index()].constructors;
        if constructors.iter().all(|c| matches!(c.decl.body, ast::Body::Default)) {
            constructors.clear();
        }
        self.lay_out(id, decl, fields)?;
        self.records[id.index()].complete = true;
        for assert in asserts {
            self.static_assert(&assert)?;
        }
        Ok(())
    }

    fn alignas(&mut self, attr: &ast::Attr) -> Res<u32> {
        let Some(arg) = attr.args.first() else {
            return Ok(0);
        };
        let n = self.constant_expr(arg)?.as_int().unwrap_or(0);
        if n > 0 && n <= 1 << 16 && (n as u32).is_power_of_two() {
            return Ok(n as u32);
        }
        self.err("E0456", format!("{n} is no valid alignment"), attr.span)
    }

    fn field_decl_type(&mut self, var: &Arc<ast::VarDecl>) -> Res<QualType> {
        if super::tyres::has_auto(&var.ty) {
            return self.err("E0447", "a data member cannot be 'auto'", var.ty.span);
        }
        let ty = self.resolve_type(&var.ty)?;
        match &ty.ty {
            Type::Void => self.err("E0457", "a data member cannot be 'void'", var.span),
            Type::Array(_, n) if *n == u64::MAX => self.err("E0458", "a member array needs a bound", var.span),
            _ => Ok(ty),
        }
    }

    fn collect_member(
        &mut self,
        id: RecordId,
        env: &Rc<Env>,
        decl: &Decl,
        data: &mut Vec<Arc<ast::VarDecl>>,
        asserts: &mut Vec<ast::StaticAssert>,
    ) -> Res<()> {
        match decl {
            Decl::Var(v) if v.specs.is_static || v.template.is_some() => {
                let Some(name) = &v.name else { return Ok(()) };
                let mut v = v.clone();
                if v.init.is_none()
                    && let Some(class) = &self.records[id.index()].decl.name
                    && let Some((outer, _)) = self.out_of_class_vars.get(&(class.name.clone(), name.name.clone()))
                {
                    v = outer.clone();
                }
                let entity = if v.template.is_some() {
                    self.new_template(name.name.clone(), env, TemplateDecl::Var(v.clone()))
                } else {
                    self.defer(env, DeferredDecl::Var(v.clone()))
                };
                self.member_bind(id, &name.name, entity);
            }
            Decl::Var(v) => {
                if let TyKind::Record(d) = &v.ty.kind
                    && let Some(name) = &d.name
                {
                    let inner = self.inline_record(d, env);
                    self.member_bind(id, &name.name, Entity::Type(Type::Record(inner).into()));
                }
                data.push(v.clone());
            }
            Decl::Function(f) => self.collect_function(id, env, f),
            Decl::Alias(a) => {
                let entity = match &a.template {
                    Some(_) => self.new_template(a.name.name.clone(), env, TemplateDecl::Alias(a.clone())),
                    None => self.defer(env, DeferredDecl::Alias(a.clone())),
                };
                self.member_bind(id, &a.name.name, entity);
            }
            Decl::Record(r) => {
                let Some(name) = &r.name else { return Ok(()) };
                if r.spec_args.is_some() {
                    let found = self.records[id.index()].names.get(&name.name).cloned();
                    if let Some(Entity::Template(t)) = found.and_then(|l| l.first().cloned()) {
                        self.templates[t.index()]
                            .specialisations
                            .push(TemplateDecl::Record(r.clone()));
                    }
                    return Ok(());
                }
                let entity = if r.template.is_some() {
                    self.new_template(name.name.clone(), env, TemplateDecl::Record(r.clone()))
                } else {
                    let inner = self.inline_record(r, env);
                    Entity::Type(Type::Record(inner).into())
                };
                self.member_bind(id, &name.name, entity);
            }
            Decl::Enum(e) => {
                let entity = self.defer(env, DeferredDecl::Enum(e.clone()));
                let name = e.name.as_ref().map_or_else(|| enum_key(e), |n| n.name.clone());
                self.member_bind(id, &name, entity);
                if !e.is_scoped {
                    for (i, item) in e.enumerators.iter().flatten().enumerate() {
                        let entity = self.defer(env, DeferredDecl::Enumerator(e.clone(), i));
                        self.member_bind(id, &item.name.name, entity);
                    }
                }
            }
            Decl::Using(path) => {
                if let Ok(entity) = self.resolve_path(path) {
                    let name = path.last().ident.name.clone();
                    if let Entity::Variable(..) = entity {
                        // A base's data member: lookup finds it anyway.
                        return Ok(());
                    }
                    self.member_bind(id, &name, entity);
                }
            }
            Decl::StaticAssert(a) => asserts.push(a.clone()),
            _ => {}
        }
        Ok(())
    }

    /// `template <> void X<float>::f() { … }` for this instance of `X` and this `f`.
    fn member_specialisation(
        &mut self,
        id: RecordId,
        env: &Rc<Env>,
        f: &Arc<ast::FunctionDecl>,
    ) -> Option<Arc<ast::FunctionDecl>> {
        let record = &self.records[id.index()];
        let (template, own) = record.template.clone()?;
        let class = record.decl.name.as_ref()?.name.clone();
        let list = self.out_of_class.get(&(class, f.name.name.clone()))?.clone();
        for (outer, scope) in list {
            if !specialises_member(&outer) || outer.params.len() != f.params.len() {
                continue;
            }
            let patterns = outer.qualifier.last().and_then(|s| s.args.clone())?;
            let fits = self.attempt(|s| {
                let given = s.within(scope.clone(), |s| s.template_args(&patterns))?;
                if s.complete_args(template, given, outer.span)? != own {
                    return Ok(false);
                }
                for (p, q) in outer.params.iter().zip(&f.params) {
                    let (p, q) = s.within(env.clone(), |s| Ok((s.param_type(&p.ty)?, s.param_type(&q.ty)?)))?;
                    if p != q {
                        return Ok(false);
                    }
                }
                Ok(outer.this_quals.is_const == f.this_quals.is_const)
            });
            if fits != Some(true) {
                continue;
            }
            let mut merged = (*outer).clone();
            for (p, q) in merged.params.iter_mut().zip(&f.params) {
                p.default = q.default.clone();
            }
            merged.specs.is_static |= f.specs.is_static;
            merged.specs.is_constexpr |= f.specs.is_constexpr;
            return Some(Arc::new(merged));
        }
        None
    }

    fn collect_function(&mut self, id: RecordId, env: &Rc<Env>, f: &Arc<ast::FunctionDecl>) {
        let mut f = f.clone();
        if matches!(f.body, ast::Body::None)
            && let Some(class) = &self.records[id.index()].decl.name
        {
            let key = (class.name.clone(), f.name.name.clone());
            if let Some(list) = self.out_of_class.get(&key)
                && let Some((outer, _)) = list
                    .iter()
                    .find(|(o, _)| !specialises_member(o) && o.params.len() == f.params.len())
            {
                let mut merged = (**outer).clone();
                for (p, q) in merged.params.iter_mut().zip(&f.params) {
                    p.default = q.default.clone();
                }
                merged.specs.is_static |= f.specs.is_static;
                merged.specs.is_constexpr |= f.specs.is_constexpr;
                f = Arc::new(merged);
            }
        }
        if let Some(special) = self.member_specialisation(id, env, &f) {
            f = special;
        }
        let r = FunctionRef {
            decl: f.clone(),
            env: env.clone(),
            record: Some(id),
            args: Vec::new(),
        };
        let record = &mut self.records[id.index()];
        match &f.kind {
            FunctionKind::Constructor => record.constructors.push(r),
            FunctionKind::Conversion(_) => record.conversions.push(r),
            FunctionKind::Destructor | FunctionKind::DeductionGuide => {}
            FunctionKind::Plain if f.specs.is_friend => {
                // A friend function belongs to the namespace around; found by its arguments.
                let free = FunctionRef { record: None, ..r };
                let mut at = Some(env.clone());
                while let Some(e) = at {
                    if let EnvKind::Namespace(ns) = e.kind {
                        let list = self.namespaces[ns.index()]
                            .names
                            .entry(f.name.name.clone())
                            .or_default();
                        add_function(list, free);
                        return;
                    }
                    at = e.parent.clone();
                }
            }
            FunctionKind::Plain => {
                let list = record.names.entry(f.name.name.clone()).or_default();
                if let Some(Entity::Functions(set)) = list.iter_mut().find(|e| matches!(e, Entity::Functions(_))) {
                    set.user.push(r);
                } else {
                    list.push(Entity::Functions(FunctionSet {
                        user: vec![r],
                        ..FunctionSet::default()
                    }));
                }
            }
        }
    }

    fn member_bind(&mut self, id: RecordId, name: &Name, entity: Entity) {
        self.records[id.index()]
            .names
            .entry(name.clone())
            .or_default()
            .push(entity);
    }

    fn lay_out(&mut self, id: RecordId, decl: &ast::RecordDecl, mut fields: Vec<Field>) -> Res<()> {
        let is_union = decl.kind == RecordKind::Union;
        let mut size = 0u64;
        let mut align = 1u32;
        let mut leaves = Vec::new();
        let mut offsets = Vec::new();
        for (i, field) in fields.iter_mut().enumerate() {
            let is_base = i < self.records[id.index()].bases.len();
            let (mut bytes, mut a, kinds, inner): (u64, u32, Rc<[LeafKind]>, Rc<[u64]>) = if field.ty.is_reference() {
                (8, 8, vec![LeafKind::Place].into(), vec![0].into())
            } else {
                let (bytes, a) = self.size_align(&field.ty.ty)?;
                let kinds = self.leaf_kinds(&field.ty.ty)?;
                let offsets = self.leaf_offsets(&field.ty.ty)?;
                (bytes, a, kinds, offsets)
            };
            if is_base && kinds.is_empty() {
                (bytes, a) = (0, 1);
            }
            a = a.max(field.align);
            align = align.max(a);
            if is_union {
                field.offset = 0;
                field.leaf = 0;
                size = size.max(bytes);
                continue;
            }
            size = size.next_multiple_of(u64::from(a));
            field.offset = size;
            field.leaf = leaves.len();
            leaves.extend_from_slice(&kinds);
            offsets.extend(inner.iter().map(|o| o + size));
            size += bytes;
            if leaves.len() as u64 > MAX_LEAVES || size >= 1 << 40 {
                return self.err_help(
                    "E0495",
                    "this class is too large",
                    decl.span,
                    "a class has at most 1048576 scalars and less than 1 TiB here; keep large parts in device or threadgroup memory",
                );
            }
        }
        for attr in decl.attrs.iter().filter(|a| a.name == "alignas") {
            align = align.max(self.alignas(attr)?);
        }
        size = size.max(1).next_multiple_of(u64::from(align));
        if is_union {
            let (word, bytes) = match align {
                1 => (Scalar::U8, 1),
                2 => (Scalar::U16, 2),
                _ => (Scalar::U32, 4),
            };
            for i in 0..size / bytes {
                leaves.push(LeafKind::Value(word.into()));
                offsets.push(i * bytes);
            }
        }
        let record = &mut self.records[id.index()];
        record.fields = fields;
        record.size = size;
        record.align = align;
        record.leaves = leaves.into();
        record.offsets = offsets.into();
        Ok(())
    }

    /// Is it a union?
    pub fn is_union(&self, id: RecordId) -> bool {
        self.records[id.index()].decl.kind == RecordKind::Union
    }

    /// Must variables of the type live in memory (arrays, matrices, unions)?
    pub fn needs_memory(&mut self, ty: &Type) -> Res<bool> {
        Ok(match ty {
            Type::Array(..) | Type::Matrix { .. } => true,
            Type::Record(id) => {
                self.complete_record(*id)?;
                if self.is_union(*id) {
                    return Ok(true);
                }
                let fields: Vec<QualType> = self.records[id.index()].fields.iter().map(|f| f.ty.clone()).collect();
                for f in fields {
                    if !f.is_reference() && self.needs_memory(&f.ty)? {
                        return Ok(true);
                    }
                }
                false
            }
            _ => false,
        })
    }

    fn find_field(&self, id: RecordId, name: &Name) -> Option<Vec<usize>> {
        let record = &self.records[id.index()];
        for (i, field) in record.fields.iter().enumerate().skip(record.bases.len()) {
            if field.name == *name && !name.is_empty() {
                return Some(vec![i]);
            }
            if field.name.is_empty()
                && let Type::Record(inner) = field.ty.ty
                && let Some(mut path) = self.find_field(inner, name)
            {
                path.insert(0, i);
                return Some(path);
            }
        }
        None
    }

    /// Has the record itself (not a base) this data member?
    pub fn has_field(&self, id: RecordId, name: &Name) -> bool {
        self.find_field(id, name).is_some()
    }

    /// The declared type of a data member of the record itself.
    pub fn field_type(&self, id: RecordId, name: &Name) -> Option<QualType> {
        let path = self.find_field(id, name)?;
        let mut at = id;
        let mut ty = None;
        for i in path {
            let field = &self.records[at.index()].fields[i];
            ty = Some(field.ty.clone());
            if let Type::Record(inner) = field.ty.ty {
                at = inner;
            }
        }
        ty
    }

    /// A part of an object: `count` leaves from `leaf` on, `offset` bytes in.
    pub fn part(&mut self, object: &LValue, ty: &QualType, leaf: usize, offset: u64) -> Res<LValue> {
        let is_const = object.is_const || ty.is_const;
        let is_volatile = object.is_volatile || ty.is_volatile;
        let place = match &object.place {
            Place::Slots(slots) => {
                if ty.is_reference() {
                    return match slots.get(leaf).map(|s| self.read_slot(s)) {
                        Some(Ok(Leaf::Place(place))) => Ok((*place).clone()),
                        Some(Err(fail)) => Err(fail),
                        _ => self.err(
                            "E0459",
                            "this reference member is not bound to an object that is known here",
                            self.span,
                        ),
                    };
                }
                let count = self.leaf_kinds(&ty.ty)?.len();
                match slots.get(leaf..leaf + count) {
                    Some(part) => Place::Slots(part.to_vec()),
                    None => {
                        return self.err(
                            "E0460",
                            "a member of a union cannot be reached in a constant expression",
                            self.span,
                        );
                    }
                }
            }
            Place::Memory {
                pointer,
                offset: o,
                space,
                align,
            } => {
                if ty.is_reference() {
                    return self.err("E0459", "a reference member in memory cannot be followed", self.span);
                }
                Place::Memory {
                    pointer: *pointer,
                    offset: o + offset as i64,
                    space: *space,
                    align: aligned(*align, offset),
                }
            }
            _ => {
                return self.err("E0461", "this object has no members", self.span);
            }
        };
        Ok(LValue {
            ty: ty.ty.clone(),
            is_const,
            is_volatile,
            place,
        })
    }

    /// A data member of an object; `None` if its class (bases aside) has no such member.
    pub fn field_of(&mut self, object: &LValue, name: &Name, _span: Span) -> Res<Option<LValue>> {
        let Type::Record(id) = object.ty else {
            return Ok(None);
        };
        self.complete_record(id)?;
        let Some(path) = self.find_field(id, name) else {
            for base in self.records[id.index()].bases.clone() {
                let object = self.base_of(object, id, base)?;
                if let Some(found) = self.field_of(&object, name, _span)? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        };
        let mut at = object.clone();
        for i in path {
            let Type::Record(id) = at.ty else {
                return Ok(None);
            };
            let field = self.records[id.index()].fields[i].clone();
            at = self.part(&at, &field.ty, field.leaf, field.offset)?;
        }
        Ok(Some(at))
    }

    /// The base-class part of an object.
    pub fn base_of(&mut self, object: &LValue, id: RecordId, base: RecordId) -> Res<LValue> {
        let record = &self.records[id.index()];
        let Some(i) = record.bases.iter().position(|b| *b == base) else {
            return self.err("E0462", "not a base class", self.span);
        };
        let field = record.fields[i].clone();
        self.part(object, &field.ty, field.leaf, field.offset)
    }

    /// Is `base` a base class of a type (or the type itself)?
    pub fn derives(&mut self, ty: &Type, base: RecordId) -> bool {
        let Type::Record(id) = ty else { return false };
        if *id == base {
            return true;
        }
        if self.complete_record(*id).is_err() {
            return false;
        }
        let bases = self.records[id.index()].bases.clone();
        bases.into_iter().any(|b| self.derives(&Type::Record(b), base))
    }

    /// The part of an object that is an indirect base.
    pub fn upcast(&mut self, object: &LValue, base: RecordId) -> Res<Option<LValue>> {
        let Type::Record(id) = object.ty else {
            return Ok(None);
        };
        if id == base {
            return Ok(Some(object.clone()));
        }
        for b in self.records[id.index()].bases.clone() {
            if self.derives(&Type::Record(b), base) {
                let inner = self.base_of(object, id, b)?;
                return self.upcast(&inner, base);
            }
        }
        Ok(None)
    }

    /// A place of a type for `decltype` and checks: undefined contents.
    pub fn declval(&mut self, ty: &QualType) -> Res<Operand> {
        let leaves = match self.undefined(&ty.ty) {
            Ok(value) => value.leaves,
            Err(_) if self.unevaluated > 0 => Vec::new(),
            Err(fail) => return Err(fail),
        };
        let slots = leaves.into_iter().map(Slot::Fixed).collect();
        Ok(LValue {
            ty: ty.ty.clone(),
            is_const: ty.is_const,
            is_volatile: ty.is_volatile,
            place: Place::Slots(slots),
        }
        .into())
    }

    /// A value of a type with undefined scalars.
    pub fn undefined(&mut self, ty: &Type) -> Res<Value> {
        let kinds = self.leaf_kinds(ty)?;
        let mut leaves = Vec::with_capacity(kinds.len());
        for kind in kinds.iter() {
            leaves.push(match kind {
                LeafKind::Value(ir) => Leaf::Undef(*ir),
                LeafKind::Coop => Leaf::Coop(anymetal_ir::CoopId(0)),
                _ => {
                    return self.err(
                        "E0463",
                        format!("'{}' must be initialised", self.type_name(ty)),
                        self.span,
                    );
                }
            });
        }
        Ok(Value { ty: ty.clone(), leaves })
    }

    /// A value of a type whose scalars are zero.
    pub fn zero(&mut self, ty: &Type) -> Res<Value> {
        let mut value = self.undefined(ty)?;
        for leaf in &mut value.leaves {
            if let Leaf::Undef(IrType::Scalar(scalar)) = leaf {
                *leaf = Self::int_leaf(*scalar, 0);
            }
        }
        Ok(value)
    }
}

fn field_named(name: Name, ty: QualType, init: Option<Arc<ast::VarDecl>>) -> Field {
    Field {
        name,
        ty,
        offset: 0,
        leaf: 0,
        align: 0,
        init,
    }
}

/// Is a definition outside of its class for one instance of a class template?
fn specialises_member(f: &ast::FunctionDecl) -> bool {
    f.outer_templates.last().is_some_and(|h| h.params.is_empty())
}

/// The name of a class as messages show it. Names of instances hold those of their arguments, so they can double with each level of
/// nesting: past a length no one reads they are cut. Classes are told apart by their number, never by this name.
fn shortened(mut name: String) -> String {
    const LONGEST: usize = 400;
    if name.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
        name.truncate(end);
        name.push_str("…>");
    }
    name
}
