//! Initialisation: `T(…)`, `T{…}`, `T x;`, constructors.

use anymetal_ir::Scalar;

use super::context::*;
use super::library;
use super::types::*;
use super::value::*;
use crate::ast::{self, Init};
use crate::source::Span;

impl Sema<'_> {
    /// Copy-initialises a type (never a reference) from an argument.
    pub fn init(&mut self, ty: &Type, arg: &Arg, span: Span) -> Res<Value> {
        match arg {
            Arg::Operand(operand, at) => {
                let former = self.at(*at);
                let result = self.convert(operand.clone(), ty, false, *at);
                self.at(former);
                result
            }
            Arg::List(items, at) => self.list_init(ty, items, *at, span),
        }
    }

    pub(super) fn zero_or_null(&mut self, ty: &Type) -> Res<Value> {
        match ty {
            Type::Pointer(p) => {
                let leaf = self.null_leaf(p.space_or_thread())?;
                Ok(Value::one(ty.clone(), leaf))
            }
            _ => self.zero(ty),
        }
    }

    /// The arguments of an initialiser.
    pub fn init_args(&mut self, init: &Init) -> Res<Vec<Arg>> {
        match init {
            Init::Copy(e) => Ok(vec![self.arg(e)?]),
            Init::Paren(args, _) => self.args(args),
            Init::Brace(e) => Ok(vec![self.arg(e)?]),
        }
    }

    /// Initialises from the arguments of [`Sema::init_args`]; a reference yields its place as a leaf.
    pub fn direct_init(&mut self, ty: &QualType, args: &[Arg], braces: bool, span: Span) -> Res<Value> {
        if ty.is_reference() {
            let [arg] = args else {
                return self.err("E0463", "a reference needs one initialiser", span);
            };
            let place = self.bind_reference(ty, arg, span)?;
            return Ok(Value::one(ty.ty.clone(), Leaf::Place(std::rc::Rc::new(place))));
        }
        match args {
            [arg @ Arg::List(..)] if braces => self.init(&ty.ty, arg, span),
            [Arg::Operand(o, _)] if o.ty() == &ty.ty => self.init(&ty.ty, &args[0], span),
            _ => {
                let operand = self.construct(&ty.ty, args, braces, span)?;
                self.rvalue(operand)
            }
        }
    }

    /// `T{}`
    pub fn value_init(&mut self, ty: &Type, span: Span) -> Res<Value> {
        let operand = self.construct(ty, &[], true, span)?;
        self.rvalue(operand)
    }

    /// `T x;`
    pub fn default_init(&mut self, ty: &Type, span: Span) -> Res<Value> {
        match ty {
            Type::Record(id) => {
                self.complete_record(*id)?;
                let record = &self.records[id.index()];
                let trivial = record.constructors.is_empty() && record.fields.iter().all(|f| f.init.is_none());
                if trivial {
                    let fields = record.fields.clone();
                    if self.is_union(*id) {
                        return self.undefined(ty);
                    }
                    let mut leaves = Vec::new();
                    for field in &fields {
                        if field.ty.is_reference() {
                            return self.err(
                                "E0463",
                                format!("the reference member '{}' must be initialised", field.name),
                                span,
                            );
                        }
                        leaves.extend(self.default_init(&field.ty.ty, span)?.leaves);
                    }
                    return Ok(Value { ty: ty.clone(), leaves });
                }
                self.construct_record(*id, &[], false, true, span)
            }
            Type::Object(_) => {
                let operand = self.construct(ty, &[], false, span)?;
                self.rvalue(operand)
            }
            Type::Array(element, n) => {
                let one = self.default_init(&element.ty, span)?;
                self.has_room(&one, *n, span)?;
                let mut leaves = Vec::with_capacity(one.leaves.len() * *n as usize);
                for _ in 0..*n {
                    leaves.extend(one.leaves.iter().cloned());
                }
                Ok(Value { ty: ty.clone(), leaves })
            }
            Type::Closure(_) | Type::Overloads(_) => self.err("E0463", "this variable must be initialised", span),
            _ => self.undefined(ty),
        }
    }

    /// `T(args)` or `T{args}`
    pub fn construct(&mut self, ty: &Type, args: &[Arg], braces: bool, span: Span) -> Res<Operand> {
        let former = self.at(span);
        let result = self.construct_inner(ty, args, braces, span);
        self.at(former);
        result
    }

    fn construct_inner(&mut self, ty: &Type, args: &[Arg], braces: bool, span: Span) -> Res<Operand> {
        match ty {
            Type::Object(_) => match library::construct(self, ty, args, braces, span) {
                Some(result) => result,
                None => {
                    if let [Arg::Operand(o, _)] = args {
                        return Ok(self.convert(o.clone(), ty, false, span)?.into());
                    }
                    self.err(
                        "E0473",
                        format!(
                            "'{}' has no constructor for {}",
                            self.type_name(ty),
                            self.args_types(args)
                        ),
                        span,
                    )
                }
            },
            Type::Record(id) => {
                self.complete_record(*id)?;
                Ok(self.construct_record(*id, args, braces, true, span)?.into())
            }
            Type::Vector { .. } => Ok(self.construct_vector(ty, args, braces, span)?.into()),
            Type::Matrix { .. } => Ok(self.construct_matrix(ty, args, span)?.into()),
            Type::Array(..) => match args {
                [] => {
                    let Type::Array(element, n) = ty else {
                        return self.err("E0471", "no array", span);
                    };
                    let zero = self.value_init(&element.ty, span)?;
                    let mut leaves = Vec::new();
                    for _ in 0..*n {
                        leaves.extend(zero.leaves.iter().cloned());
                    }
                    Ok(Value { ty: ty.clone(), leaves }.into())
                }
                [arg @ Arg::List(..)] => Ok(self.init(ty, arg, span)?.into()),
                _ => {
                    let items: Vec<_> = args.iter().map(|a| (None, a.clone())).collect();
                    Ok(self.list_init(ty, &items, span, span)?.into())
                }
            },
            Type::Void => {
                for arg in args {
                    if let Arg::Operand(o, _) = arg {
                        let _ = o;
                    }
                }
                Ok(Operand::void())
            }
            _ => match args {
                [] => Ok(self.zero_or_null(ty)?.into()),
                [Arg::Operand(o, at)] => Ok(self.convert(o.clone(), ty, true, *at)?.into()),
                [arg @ Arg::List(..)] => Ok(self.init(ty, arg, span)?.into()),
                _ => self.err(
                    "E0470",
                    format!("too many initialisers for '{}'", self.type_name(ty)),
                    span,
                ),
            },
        }
    }

    fn construct_vector(&mut self, ty: &Type, args: &[Arg], braces: bool, span: Span) -> Res<Value> {
        let (Some(scalar), Some(len)) = (ty.component(), ty.lanes()) else {
            return self.err("E0471", "no vector", span);
        };
        if args.is_empty() {
            return self.zero(ty);
        }
        if let [Arg::List(items, at)] = args {
            let args: Vec<Arg> = items.iter().map(|(_, a)| a.clone()).collect();
            return self.construct_vector(ty, &args, true, *at);
        }
        if let [Arg::Operand(o, at)] = args {
            match o.ty() {
                Type::Vector { len: n, .. } if *n != len => {}
                _ => return self.convert(o.clone(), ty, true, *at),
            }
        }
        let mut leaves = Vec::new();
        for arg in args {
            let Arg::Operand(o, at) = arg else {
                return self.err("E0474", "a braced list is no vector component", arg.span());
            };
            let lanes = match o.ty() {
                Type::Vector { .. } => o.ty().clone(),
                _ => Type::Scalar(scalar),
            };
            let to = lanes.with_component(scalar).unwrap_or(Type::Scalar(scalar));
            leaves.extend(self.convert(o.clone(), &to, true, *at)?.leaves);
        }
        if braces {
            // A braced list may be shorter than the vector: zeros follow, as in an array.
            let zero = self.zero(&Type::Scalar(scalar))?;
            while leaves.len() < len as usize {
                leaves.extend(zero.leaves.iter().cloned());
            }
        }
        if leaves.len() != len as usize {
            return self.err(
                "E0474",
                format!(
                    "'{}' needs {len} components, and {} are given",
                    self.type_name(ty),
                    leaves.len()
                ),
                span,
            );
        }
        Ok(Value { ty: ty.clone(), leaves })
    }

    fn construct_matrix(&mut self, ty: &Type, args: &[Arg], span: Span) -> Res<Value> {
        let Type::Matrix { scalar, columns, rows } = *ty else {
            return self.err("E0471", "no matrix", span);
        };
        if args.is_empty() {
            return self.zero(ty);
        }
        if let [Arg::List(items, at)] = args {
            let args: Vec<Arg> = items.iter().map(|(_, a)| a.clone()).collect();
            return self.construct_matrix(ty, &args, *at);
        }
        if let [Arg::Operand(o, at)] = args {
            if let Type::Matrix { .. } = o.ty() {
                return self.convert(o.clone(), ty, true, *at);
            }
            let x = self.convert(o.clone(), &Type::Scalar(scalar), false, *at)?;
            let mut value = self.zero(ty)?;
            for i in 0..columns.min(rows) as usize {
                value.leaves[i * rows as usize + i] = x.leaves[0].clone();
            }
            return Ok(value);
        }
        let mut leaves = Vec::new();
        for arg in args {
            match arg {
                Arg::Operand(o, at) => {
                    let to = o.ty().with_component(scalar).unwrap_or(Type::Scalar(scalar));
                    leaves.extend(self.convert(o.clone(), &to, true, *at)?.leaves);
                }
                Arg::List(_, at) => {
                    let column = Type::vector(scalar, rows);
                    leaves.extend(
                        self.construct_vector(&column, std::slice::from_ref(arg), true, *at)?
                            .leaves,
                    );
                }
            }
        }
        if leaves.len() != columns as usize * rows as usize {
            return self.err(
                "E0474",
                format!(
                    "'{}' needs {} components, and {} are given",
                    self.type_name(ty),
                    columns * rows,
                    leaves.len()
                ),
                span,
            );
        }
        Ok(Value { ty: ty.clone(), leaves })
    }

    /// Constructs a record; `explicit` admits explicit constructors.
    pub fn construct_record(
        &mut self,
        id: RecordId,
        args: &[Arg],
        braces: bool,
        explicit: bool,
        span: Span,
    ) -> Res<Value> {
        self.complete_record(id)?;
        let ty = Type::Record(id);
        if let [Arg::Operand(o, _)] = args
            && (o.ty() == &ty || self.derives(&o.ty().clone(), id))
        {
            return if o.ty() == &ty {
                self.rvalue_copy(o.clone())
            } else {
                self.convert(o.clone(), &ty, false, span)
            };
        }
        let constructors: Vec<FunctionRef> = self.records[id.index()]
            .constructors
            .iter()
            .filter(|c| explicit || !c.decl.specs.is_explicit)
            .cloned()
            .collect();
        if constructors.is_empty() {
            if !self.records[id.index()].constructors.is_empty() {
                return self.err(
                    "E0475",
                    format!("'{}' has explicit constructors only", self.type_name(&ty)),
                    span,
                );
            }
            if !explicit {
                return self.err(
                    "E0466",
                    format!(
                        "{} does not convert to '{}'",
                        self.args_types(args),
                        self.type_name(&ty)
                    ),
                    span,
                );
            }
            if let [arg @ Arg::List(..)] = args {
                return self.init(&ty, arg, span);
            }
            let items: Vec<_> = args.iter().map(|a| (None, a.clone())).collect();
            let mut at = 0;
            let value = self.aggregate(&ty, &items, &mut at, span)?;
            self.all_used(&ty, items.len(), at, span)?;
            return Ok(value);
        }
        if !braces
            && let [arg @ Arg::List(..)] = args
            && self.records[id.index()]
                .constructors
                .iter()
                .all(|c| c.decl.params.len() != 1)
        {
            return self.init(&ty, arg, span);
        }
        let what = self.type_name(&ty);
        let chosen = self.choose(&constructors, args, &[], None, &what, span)?;
        self.run_constructor(id, &chosen.0, &chosen.1, args, span)
    }

    fn run_constructor(
        &mut self,
        id: RecordId,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        args: &[Arg],
        span: Span,
    ) -> Res<Value> {
        let ty = Type::Record(id);
        // Leaves are built in cells, which hold run-time leaves too: member initialisers are straight code.
        let kinds = self.leaf_kinds(&ty)?;
        let slots: Vec<Slot> = kinds
            .iter()
            .map(|kind| {
                let leaf = match kind {
                    LeafKind::Value(ir) => Leaf::Undef(*ir),
                    _ => Leaf::Undef(Scalar::U8.into()),
                };
                Slot::Cell(self.cell(leaf))
            })
            .collect();
        let this = LValue {
            ty: ty.clone(),
            is_const: false,
            is_volatile: false,
            place: Place::Slots(slots),
        };
        if matches!(f.decl.body, ast::Body::Delete) {
            return self.err(
                "E0476",
                format!("this constructor of '{}' is deleted", self.type_name(&ty)),
                span,
            );
        }
        let is_union = self.is_union(id);
        let result = self.enter_function(f, template_args, Some(this.clone()), args.to_vec(), span, |s| {
            if !is_union {
                s.member_inits(id, f, &this, span)?;
            }
            Ok(())
        })?;
        let body_empty = match &f.decl.body {
            ast::Body::Block(ast::Stmt {
                kind: ast::StmtKind::Compound(list),
                ..
            }) => list.is_empty(),
            _ => true,
        };
        let env = result;
        if body_empty {
            return self.load(&this);
        }
        let object = if self.const_eval > 0 {
            this
        } else {
            let value = self.load(&this)?;
            self.new_variable("this", &ty, value, true)?
        };
        self.run_constructor_body(f, env, object.clone(), span)?;
        self.load(&object)
    }

    fn member_inits(&mut self, id: RecordId, f: &FunctionRef, this: &LValue, span: Span) -> Res<()> {
        let fields = self.records[id.index()].fields.clone();
        let bases = self.records[id.index()].bases.clone();
        for init in &f.decl.member_inits {
            // Delegation to another constructor.
            let own = self.records[id.index()].decl.name.clone();
            if init.member.last().ident.name == own.as_ref().map_or("", |n| n.name.as_str())[..] {
                let args = self.init_args(&init.init)?;
                let args = flatten_braces(args, &init.init);
                let value = self.construct_record(id, &args, false, true, span)?;
                return self.store(this, &value);
            }
        }
        for (i, field) in fields.iter().enumerate() {
            let written = f.decl.member_inits.iter().find(|m| {
                let name = &m.member.last().ident.name;
                if i < bases.len() {
                    let base = &self.records[bases[i].index()];
                    base.decl.name.as_ref().is_some_and(|n| n.name == *name)
                } else {
                    field.name == *name
                }
            });
            let value = match written {
                Some(m) => {
                    let args = self.init_args(&m.init)?;
                    let braces = matches!(m.init, Init::Brace(_));
                    self.direct_init(&field.ty, &args, braces, span)?
                }
                None if field.init.is_some() => self.field_default(id, field, this.clone(), span)?,
                None if field.ty.is_reference() => {
                    return self.err(
                        "E0463",
                        format!("the reference member '{}' must be initialised", field.name),
                        span,
                    );
                }
                None => self.default_init(&field.ty.ty, span)?,
            };
            if let Place::Slots(slots) = &this.place {
                let part = &slots[field.leaf..field.leaf + value.leaves.len()];
                for (slot, leaf) in part.iter().zip(&value.leaves) {
                    if let Slot::Cell(cell) = slot {
                        self.cells[cell.index()] = leaf.clone();
                    }
                }
            }
        }
        Ok(())
    }

    /// `(int, float4)`
    pub fn args_types(&self, args: &[Arg]) -> String {
        let parts: Vec<String> = args
            .iter()
            .map(|arg| match arg {
                Arg::Operand(Operand::Place(p), _) => {
                    let mut t = p.qual_type();
                    t.is_volatile = false;
                    self.qual_name(&t)
                }
                Arg::Operand(o, _) => self.type_name(o.ty()),
                Arg::List(..) => "{…}".into(),
            })
            .collect();
        format!("({})", parts.join(", "))
    }
}

fn flatten_braces(args: Vec<Arg>, init: &Init) -> Vec<Arg> {
    match (init, args.as_slice()) {
        (Init::Brace(_), [Arg::List(items, _)]) => items.iter().map(|(_, a)| a.clone()).collect(),
        _ => args,
    }
}
