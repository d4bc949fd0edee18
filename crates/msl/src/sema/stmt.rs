//! Statements.

use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::{AddressSpace, Op};

use super::context::*;
use super::library::LibEntity;
use super::types::*;
use super::tyres::has_auto;
use super::value::*;
use crate::ast::{self, Decl, Init, Stmt, StmtKind, TyKind, VarDecl};
use crate::source::Span;

/// The threadgroup memory of every Apple GPU that runs Metal 4.
const MAX_THREADGROUP_BYTES: u64 = 32 << 10;
/// More than any GPU has.
const ABSURD_THREADGROUP_BYTES: u64 = 256 << 10;

impl Sema<'_> {
    /// Lowers statements in a new scope.
    pub fn statements(&mut self, list: &[Stmt]) -> Res<Flow> {
        let scope = Env::names(&self.env.clone());
        let math = self.math;
        let result = self.within(scope, |s| s.statements_here(list));
        self.math = math;
        result
    }

    pub(super) fn statements_here(&mut self, list: &[Stmt]) -> Res<Flow> {
        let mut failed = false;
        for stmt in list {
            match self.statement(stmt) {
                Ok(Flow::Next) => {}
                Ok(flow) => {
                    return if failed { Err(Fail::Reported) } else { Ok(flow) };
                }
                Err(fail) => {
                    if self.const_eval > 0
                        || self.trial > 0
                        || self.unevaluated > 0
                        || self.diagnostics.len() >= self.options.max_errors
                    {
                        return Err(fail);
                    }
                    // Go on with the next statement, so that one run shows several errors.
                    self.report_fail(fail);
                    self.poison(stmt);
                    failed = true;
                }
            }
        }
        if failed { Err(Fail::Reported) } else { Ok(Flow::Next) }
    }

    /// The names that a failed declaration would have bound mean nothing from now on.
    pub(super) fn poison(&mut self, stmt: &Stmt) {
        if let StmtKind::Decl(decls) = &stmt.kind {
            for decl in decls {
                let name = match decl {
                    Decl::Var(v) => v.name.as_ref().map(|n| n.name.clone()),
                    Decl::Alias(a) => Some(a.name.name.clone()),
                    _ => None,
                };
                if let Some(name) = name {
                    let bound = match &self.env.kind {
                        EnvKind::Names(names) => names.borrow().iter().any(|(n, _)| *n == name),
                        _ => true,
                    };
                    if !bound {
                        self.env.bind(name, Entity::Poison);
                    }
                }
            }
        }
    }

    /// Lowers a statement.
    pub fn statement(&mut self, stmt: &Stmt) -> Res<Flow> {
        if self.const_eval > 0 {
            self.step(stmt.span)?;
        }
        let former = self.at(stmt.span);
        let result = self.statement_inner(stmt);
        self.at(former);
        result
    }

    pub(super) fn statement_inner(&mut self, stmt: &Stmt) -> Res<Flow> {
        match &stmt.kind {
            StmtKind::Empty => Ok(Flow::Next),
            StmtKind::Compound(list) => self.statements(list),
            StmtKind::Expr(e) => {
                self.expr(e)?;
                if std::mem::take(&mut self.tail_taken) {
                    return Ok(Flow::Left);
                }
                Ok(Flow::Next)
            }
            StmtKind::Decl(decls) => {
                for decl in decls {
                    self.local_decl(decl)?;
                }
                Ok(Flow::Next)
            }
            StmtKind::If {
                is_constexpr,
                init,
                cond,
                then,
                otherwise,
            } => self.scoped(|s| {
                if let Some(init) = init {
                    s.statement(init)?;
                }
                s.if_statement(*is_constexpr, cond, then, otherwise.as_deref())
            }),
            StmtKind::While { cond, body, hints } => self.scoped(|s| {
                if s.const_eval > 0 {
                    return s.const_loop(Some(cond), None, body);
                }
                let unroll = s.unroll(hints)?;
                s.run_loop(Some(cond), None, body, unroll)
            }),
            StmtKind::DoWhile { body, cond, hints } => self.do_while(body, cond, hints),
            StmtKind::For {
                init,
                cond,
                step,
                body,
                hints,
            } => self.scoped(|s| {
                if s.const_eval > 0 {
                    s.statement(init)?;
                    return s.const_loop(cond.as_ref(), step.as_ref(), body);
                }
                s.statement(init)?;
                let unroll = s.unroll(hints)?;
                s.run_loop(cond.as_ref(), step.as_ref(), body, unroll)
            }),
            StmtKind::RangeFor {
                var,
                range,
                body,
                hints,
            } => self.scoped(|s| s.range_for(var, range, body, hints)),
            StmtKind::Switch { init, cond, body } => self.scoped(|s| {
                if let Some(init) = init {
                    s.statement(init)?;
                }
                s.switch(cond, body)
            }),
            StmtKind::Case(_) | StmtKind::Default => self.err(
                "E0540",
                "a label belongs directly into the body of its 'switch'",
                stmt.span,
            ),
            StmtKind::Break => self.break_statement(stmt.span),
            StmtKind::Continue => self.continue_statement(stmt.span),
            StmtKind::Return(e) => self.return_statement(e.as_ref(), stmt.span),
            StmtKind::FpPragma(pragma) => {
                self.apply_fp_pragma(*pragma);
                Ok(Flow::Next)
            }
        }
    }

    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        let scope = Env::names(&self.env.clone());
        self.within(scope, f)
    }

    /// Runs a step that is inside of control flow for the innermost function.
    pub(super) fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        let at = self.function_control();
        if let Some(i) = at
            && let Control::Function(target) = &mut self.control[i]
        {
            target.depth += 1;
        }
        let result = f(self);
        if let Some(i) = at
            && let Some(Control::Function(target)) = self.control.get_mut(i)
        {
            target.depth -= 1;
        }
        result
    }

    pub(super) fn function_control(&self) -> Option<usize> {
        self.control.iter().rposition(|c| matches!(c, Control::Function(_)))
    }

    /// A declaration inside a function.
    pub(super) fn local_decl(&mut self, decl: &Decl) -> Res<()> {
        match decl {
            Decl::Var(v) => self.local_variable(v),
            Decl::Alias(a) => {
                let entity = match &a.template {
                    Some(_) => {
                        let env = self.env.clone();
                        self.new_template(a.name.name.clone(), &env, TemplateDecl::Alias(a.clone()))
                    }
                    None => Entity::Type(self.resolve_type(&a.ty)?),
                };
                self.env.bind(a.name.name.clone(), entity);
                Ok(())
            }
            Decl::Using(path) => {
                let entity = self.resolve_path(path)?;
                self.env.bind(path.last().ident.name.clone(), entity);
                Ok(())
            }
            Decl::UsingNamespace(path) => {
                let id = self.resolve_namespace(path)?;
                // Later names of the block see the namespace.
                self.env = Env::names(&Env::of(&self.env.clone(), EnvKind::Using(id)));
                Ok(())
            }
            Decl::NamespaceAlias { name, target, .. } => {
                let id = self.resolve_namespace(target)?;
                self.env.bind(name.name.clone(), Entity::Namespace(id));
                Ok(())
            }
            Decl::Record(d) => {
                if let Some(name) = &d.name
                    && d.members.is_some()
                {
                    let env = self.env.clone();
                    let id = self.new_record(d.clone(), &env, None, super::declare::record_name(d));
                    self.env.bind(name.name.clone(), Entity::Type(Type::Record(id).into()));
                    self.complete_record(id)?;
                }
                Ok(())
            }
            Decl::Enum(d) => {
                let env = self.env.clone();
                let id = self.enum_of(d, &env)?;
                if let Some(name) = &d.name {
                    self.env.bind(name.name.clone(), Entity::Type(Type::Enum(id).into()));
                }
                if !d.is_scoped {
                    for (name, c) in self.enums[id.index()].values.clone() {
                        let value = Value::one(Type::Enum(id), Leaf::Const(c));
                        self.env.bind(name, Entity::Operand(value.into()));
                    }
                }
                Ok(())
            }
            Decl::StaticAssert(a) => self.static_assert(a),
            Decl::FpPragma(pragma, _) => {
                self.apply_fp_pragma(*pragma);
                Ok(())
            }
            Decl::Function(f) => {
                if matches!(f.body, ast::Body::None) {
                    return Ok(());
                }
                self.err("E0551", "a function cannot be defined inside another", f.span)
            }
            other => self.err("E0552", "this declaration is not allowed here", other.span()),
        }
    }

    /// `static_assert`
    pub fn static_assert(&mut self, a: &ast::StaticAssert) -> Res<()> {
        let leaf = self.in_const_mode(|s| {
            let operand = s.expr(&a.cond)?;
            s.to_bool(operand, a.cond.span)
        })?;
        match self.const_of(&leaf) {
            Some(c) if c.bits != 0 => Ok(()),
            Some(_) => {
                let message = match &a.message {
                    Some(m) => format!("static assertion failed: {m}"),
                    None => "static assertion failed".to_string(),
                };
                self.err("E0553", message, a.cond.span)
            }
            None => self.err(
                "E0420",
                "this is not a constant expression: its value is known at run time only",
                a.cond.span,
            ),
        }
    }

    /// A variable of a block.
    pub(super) fn local_variable(&mut self, v: &Arc<VarDecl>) -> Res<()> {
        let Some(name) = v.name.clone() else {
            return Ok(());
        };
        let (operand, declared) = self.variable(v)?;
        self.env.bind(name.name.clone(), Entity::Variable(operand, declared));
        Ok(())
    }

    /// The type of a variable declaration and its evaluated initialiser.
    pub(super) fn variable_type(&mut self, v: &VarDecl) -> Res<(QualType, Option<Vec<Arg>>)> {
        if let TyKind::Path(path) = &v.ty.kind
            && v.init.is_some()
        {
            // A class template without arguments: deduced from the initialiser.
            let entity = self.resolve_path(path)?;
            let is_template = matches!(
                entity,
                Entity::Template(_) | Entity::Library(LibEntity::Template { .. })
            );
            if is_template {
                let args = match &v.init {
                    Some(init) => self.init_args(init)?,
                    None => Vec::new(),
                };
                let flat = match args.as_slice() {
                    [Arg::List(items, _)] => items.iter().map(|(_, a)| a.clone()).collect(),
                    _ => args.clone(),
                };
                let ty = match (flat.as_slice(), &v.init) {
                    ([Arg::Operand(o, _)], Some(Init::Copy(_))) if matches!(o.ty(), Type::Object(_)) => o.ty().clone(),
                    _ => self.deduce_class(entity, path, &flat, v.span)?,
                };
                return Ok((super::tyres::qualify(ty.into(), &v.ty.quals), Some(args)));
            }
        }
        if has_auto(&v.ty) {
            let Some(init) = &v.init else {
                return self.err("E0447", "an 'auto' variable must be initialised", v.span);
            };
            let args = self.init_args(init)?;
            let operand = match args.as_slice() {
                [Arg::Operand(operand, _)] => operand.clone(),
                [Arg::List(items, _)] => match items.as_slice() {
                    [(None, Arg::Operand(operand, _))] => operand.clone(),
                    _ => {
                        return self.err("E0447", "'auto' cannot be deduced from a braced list", v.span);
                    }
                },
                _ => return self.err("E0447", "'auto' needs one initialiser", v.span),
            };
            if *operand.ty() == Type::Void {
                return self.err("E0554", "a variable cannot be 'void'", v.span);
            }
            let args = match args.as_slice() {
                [Arg::List(..)] => vec![Arg::Operand(operand.clone(), v.span)],
                _ => args,
            };
            let ty = self.deduce_auto(&v.ty, &operand)?;
            return Ok((ty, Some(args)));
        }
        let mut ty = self.resolve_type(&v.ty)?;
        let args = match &v.init {
            Some(init) => Some(self.init_args(init)?),
            None => None,
        };
        if let Type::Array(element, u64::MAX) = &ty.ty {
            let n = match args.as_deref() {
                Some([Arg::List(items, _)]) => super::aggregate::list_length(items),
                _ => {
                    return self.err(
                        "E0458",
                        "an array without a bound needs an initialiser in braces",
                        v.span,
                    );
                }
            };
            ty.ty = Type::Array(element.clone(), n);
        }
        if ty.ty == Type::Void {
            return self.err("E0554", "a variable cannot be 'void'", v.span);
        }
        Ok((ty, args))
    }

    /// Makes a local variable.
    pub(super) fn variable(&mut self, v: &Arc<VarDecl>) -> Res<(Operand, QualType)> {
        let span = v.span;
        let name = v.name.as_ref().map_or("", |n| n.name.as_str()).to_string();
        let is_constant = v.ty.quals.space.map(|s| s.0) == Some(ast::AddressSpace::Constant)
            && !matches!(v.ty.kind, TyKind::Pointer(_) | TyKind::LRef(_));
        let known = v.specs.is_constexpr || (v.specs.is_static && v.ty.quals.is_const) || is_constant;
        if known && self.const_eval == 0 {
            let attempt = self.in_const_mode(|s| {
                let (ty, args) = s.variable_type(v)?;
                let value = s.variable_value(&ty, args, v)?;
                Ok((ty, value))
            });
            match attempt {
                Ok((mut ty, value)) => {
                    ty.is_const = true;
                    if ty.is_reference() {
                        return self.reference_variable(ty, value, span);
                    }
                    let value = self.frozen(value);
                    let place = self.fixed_variable(&ty.ty, value);
                    let place = self.constant_home(place, &ty)?;
                    return Ok((place.into(), ty));
                }
                // A pointer into the middle of a constant array is a constant of C++, but has no value before the table has an address.
                Err(_) if points_at_constants(v) => {}
                Err(fail) => return Err(fail),
            }
        }
        let late = known && self.const_eval == 0;
        if v.specs.is_static && !late {
            return self.err("E0555", "a 'static' variable inside a function must be constant", span);
        }
        let (mut ty, args) = self.variable_type(v)?;
        ty.is_const |= late;
        match ty.space {
            Some(Space::Threadgroup) if !ty.is_reference() => {
                if args.is_some() {
                    // Metal takes it and sets nothing: the memory is uninitialised.
                    self.warn(
                        "W0404",
                        "the initialiser of a 'threadgroup' variable has no effect",
                        span,
                    );
                }
                return self.threadgroup_variable(&name, ty, span);
            }
            Some(Space::Device) if !ty.is_reference() => {
                return self.err("E0556", "a variable cannot live in 'device' memory", span);
            }
            _ => {}
        }
        let value = self.variable_value(&ty, args, v)?;
        if ty.is_reference() {
            return self.reference_variable(ty, value, span);
        }
        let uses = self.current_uses.clone();
        let key = ast::Name::from(name.as_str());
        let taken = uses.address_taken.contains(&key);
        let assigned = uses.assigned.contains(&key);
        let memory = self.needs_memory(&ty.ty)?;
        let fixed =
            !taken && !memory && (ty.is_const || (!assigned && super::bind::is_bundle(&ty.ty))) && !ty.is_volatile;
        let mut place = if fixed || (ty.is_const && !taken && self.all_known(&value)) {
            let value = self.named_coop(&name, value);
            self.fixed_variable(&ty.ty, value)
        } else {
            let value = self.named_coop(&name, value);
            self.new_variable(&name, &ty.ty, value, taken)?
        };
        place.is_const = ty.is_const;
        place.is_volatile = ty.is_volatile;
        Ok((place.into(), ty))
    }

    /// Names the cooperative tensor of a new variable after the variable.
    pub(super) fn named_coop(&mut self, name: &str, value: Value) -> Value {
        if self.const_eval == 0 {
            for leaf in &value.leaves {
                if let Leaf::Coop(id) = leaf
                    && let Some(coop) = self.builder.kernel_mut().cooperatives.get_mut(id.index())
                    && coop.name.is_empty()
                {
                    coop.name = name.to_string();
                }
            }
        }
        value
    }

    pub(super) fn all_known(&self, value: &Value) -> bool {
        !value.leaves.is_empty() && value.leaves.iter().all(|l| self.const_of(l).is_some())
    }

    /// Cells that a constant refers to are replaced by what they hold.
    pub fn frozen(&self, value: Value) -> Value {
        let leaves = value
            .leaves
            .into_iter()
            .map(|leaf| match &leaf {
                Leaf::Undef(_) => self.const_of(&leaf).map_or(leaf, Leaf::Const),
                _ => leaf,
            })
            .collect();
        Value { ty: value.ty, leaves }
    }

    /// A constant variable in `constant` space has that space.
    pub(super) fn constant_home(&mut self, place: LValue, ty: &QualType) -> Res<LValue> {
        if ty.space == Some(Space::Constant)
            && self.const_eval == 0
            && matches!(ty.ty, Type::Array(..) | Type::Record(_))
            && self.unevaluated == 0
        {
            return self.in_memory(place, self.span);
        }
        Ok(place)
    }

    pub(super) fn variable_value(&mut self, ty: &QualType, args: Option<Vec<Arg>>, v: &VarDecl) -> Res<Value> {
        let Some(args) = args else {
            if ty.is_reference() {
                return self.err("E0463", "a reference must be initialised", v.span);
            }
            if ty.is_const && v.specs.is_constexpr {
                let value = self.default_init(&ty.ty, v.span)?;
                if value.leaves.iter().any(|leaf| matches!(leaf, Leaf::Undef(_))) {
                    return self.err("E0463", "a constant must be initialised", v.span);
                }
                return Ok(value);
            }
            return self.default_init(&ty.ty, v.span);
        };
        let braces = matches!(v.init, Some(Init::Brace(_)));
        match (&v.init, args.as_slice()) {
            (Some(Init::Copy(_)), [arg]) if !ty.is_reference() => self.init(&ty.ty, arg, v.span),
            _ => self.direct_init(ty, &args, braces, v.span),
        }
    }

    pub(super) fn reference_variable(&mut self, ty: QualType, value: Value, span: Span) -> Res<(Operand, QualType)> {
        match value.leaf() {
            Some(Leaf::Place(place)) => Ok(((**place).clone().into(), ty)),
            _ => self.err("E0463", "a reference must be initialised", span),
        }
    }

    pub(super) fn threadgroup_variable(
        &mut self,
        name: &str,
        mut ty: QualType,
        span: Span,
    ) -> Res<(Operand, QualType)> {
        if self.const_eval > 0 {
            return self.foldable().map(|()| (Operand::void(), ty));
        }
        let key = (span.file.0, span.lo, self.type_name(&ty.ty));
        let unique = self.frames.iter().filter(|f| f.decl.is_some()).count();
        let id = match self.threadgroup.get(&(key.clone(), unique)) {
            Some(id) => *id,
            None => {
                self.fits_threadgroup(name, &ty.ty, &key, span)?;
                self.new_memory(name, &ty.ty, AddressSpace::Threadgroup, 16)?;
                let id = anymetal_ir::MemoryId(self.builder.kernel().memory.len() as u32 - 1);
                if self.thrown_away == 0 {
                    self.threadgroup.insert((key, unique), id);
                }
                id
            }
        };
        let align = self.builder.kernel().memory_object(id).align;
        let space = AddressSpace::Threadgroup;
        let pointer = self
            .builder
            .emit(Op::MemoryPointer(id), &[anymetal_ir::Type::Pointer(space)]);
        ty.space = Some(space);
        let place = LValue {
            ty: ty.ty.clone(),
            is_const: ty.is_const,
            is_volatile: ty.is_volatile,
            place: Place::Memory {
                pointer,
                offset: 0,
                space,
                align,
            },
        };
        Ok((place.into(), ty))
    }

    /// Warns of a `threadgroup` variable that does not fit into the memory of a threadgroup, beside those that the kernel has already: no
    /// pipeline can be made of the kernel, but Metal compiles it (MLX has some). What no GPU will have is refused. A variable of
    /// a function that is lowered in several places counts once.
    fn fits_threadgroup(&mut self, name: &str, ty: &Type, key: &(u32, u32, String), span: Span) -> Res<()> {
        let (bytes, _) = self.size_align(ty)?;
        let mut others: Vec<(&(u32, u32, String), u64)> = Vec::new();
        if self.thrown_away == 0 {
            for ((other, _), id) in &self.threadgroup {
                if other != key && others.iter().all(|(seen, _)| *seen != other) {
                    others.push((other, self.builder.kernel().memory_object(*id).size));
                }
            }
        }
        let beside: u64 = others.iter().map(|(_, size)| size.next_multiple_of(16)).sum();
        if bytes.saturating_add(beside) <= MAX_THREADGROUP_BYTES {
            return Ok(());
        }
        let with = match beside {
            0 => String::new(),
            _ => format!(", and the other 'threadgroup' variables of the kernel take {beside}"),
        };
        let message = format!(
            "'{name}' takes {bytes} bytes of threadgroup memory{with}: a threadgroup has {MAX_THREADGROUP_BYTES}"
        );
        if bytes > ABSURD_THREADGROUP_BYTES {
            let help = "keep a tile in threadgroup memory, and the data in device memory";
            return self.err_help("E0495", message, span, help);
        }
        if self.thrown_away == 0 {
            self.warn("W0405", message, span);
        }
        Ok(())
    }

    /// A variable at namespace scope or a static member.
    pub fn global_variable(&mut self, v: &Arc<VarDecl>) -> Res<Entity> {
        let span = v.span;
        if let Some(attr) = v.attrs.iter().find(|a| a.name == "function_constant") {
            return self.function_constant(v, attr);
        }
        let space = v.ty.quals.space.map(|s| s.0);
        let is_constant = v.specs.is_constexpr
            || v.ty.quals.is_const
            || space == Some(ast::AddressSpace::Constant)
            || is_constant_array(&v.ty);
        if !is_constant {
            return self.err_help(
                "E0558",
                "a variable at program scope must be in 'constant' memory",
                span,
                "write 'constant' before its type",
            );
        }
        if v.init.is_none() && !v.specs.is_constexpr {
            let ty = self.resolve_type(&v.ty)?;
            if !matches!(ty.ty, Type::Record(_) | Type::Object(_)) {
                return self.err("E0463", "a constant must be initialised", span);
            }
        }
        let math = self.math;
        let (mut ty, value) = self.in_const_mode(|s| {
            let (ty, args) = s.variable_type(v)?;
            let value = s.variable_value(&ty, args, v)?;
            Ok((ty, value))
        })?;
        self.math = math;
        if ty.is_reference() {
            let (operand, ty) = self.reference_variable(ty, value, span)?;
            return Ok(Entity::Variable(operand, ty));
        }
        ty.is_const = true;
        let value = self.frozen(value);
        let place = self.fixed_variable(&ty.ty, value);
        Ok(Entity::Variable(place.into(), ty))
    }
}

/// Keeps a scope alive while it is used.
pub type Scope = Rc<Env>;

/// Is the innermost element of an array type const or in constant memory?
pub(super) fn is_constant_array(ty: &ast::Ty) -> bool {
    match &ty.kind {
        TyKind::Array(element, _) => {
            element.quals.is_const
                || element.quals.space.map(|s| s.0) == Some(ast::AddressSpace::Constant)
                || is_constant_array(element)
        }
        _ => false,
    }
}

/// Is the type of a variable spelled as a pointer to `constant` memory?
fn points_at_constants(v: &VarDecl) -> bool {
    matches!(&v.ty.kind, TyKind::Pointer(to) if to.quals.space.map(|s| s.0) == Some(ast::AddressSpace::Constant))
}
