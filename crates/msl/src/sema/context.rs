//! The state of one lowering: tables, scopes, the kernel being built, errors.
//!
//! One [`Sema`] lowers one kernel. Lowering *is* checking: the tree is walked once, each expression yields an
//! [`Operand`], and instructions are emitted on the way. In *constant mode* ([`Sema::const_eval`] > 0) the same walk
//! runs as an interpreter: variables are compile-time cells, branches are taken, loops run, and whatever cannot be folded is an error.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::{Builder, Location, LocationId, MathMode, MemoryId};

use super::library::{LibEntity, LibFunction, LibraryState, availability};
use super::types::*;
use super::uses::Uses;
use super::value::*;
use crate::ast::{self, Name};
use crate::diagnostics::Diagnostic;
use crate::options::CompileOptions;
use crate::source::{SourceMap, Span};

/// Most leaves (scalars, vectors and pointers) of one array.
pub const MAX_LEAVES: u64 = 1 << 20;
/// Most calls of one kernel, those inside the functions it calls counted each time.
pub const MAX_CALLS: u32 = 1 << 14;
/// Steps of the constant evaluator for one kernel.
pub const MAX_CONST_STEPS: u64 = 1_000_000;

/// Why a construct could not be lowered.
#[derive(Debug)]
pub enum Fail {
    /// An error that is not yet reported.
    Error(Box<Diagnostic>),
    /// Something that depends on an error that has been reported.
    Reported,
}

/// The result of lowering.
pub type Res<T> = Result<T, Fail>;

/// What a name means.
#[derive(Clone, Debug)]
pub enum Entity {
    /// A namespace.
    Namespace(NamespaceId),
    /// A type (typedefs resolved).
    Type(QualType),
    /// A class template, alias template or variable template.
    Template(TemplateId),
    /// Functions of one name.
    Functions(FunctionSet),
    /// A variable or parameter, with its declared type.
    Variable(Operand, QualType),
    /// An enumerator or constant.
    Operand(Operand),
    /// A parameter pack of a function.
    OperandPack(Vec<Operand>),
    /// A parameter pack of a template.
    Pack(Vec<TemplateArg>),
    /// A type, template or constant of the library.
    Library(LibEntity),
    /// A namespace-scope declaration that is resolved when first used.
    Deferred(u32),
    /// The name of something that had an error.
    Poison,
}

/// The functions that a name denotes.
#[derive(Clone, Debug, Default)]
pub struct FunctionSet {
    /// The user's (and the prelude's).
    pub user: Vec<FunctionRef>,
    /// The library's, and its namespace.
    pub library: Option<(LibFunction, &'static str)>,
    /// `f<args>`
    pub args: Vec<TemplateArg>,
}

/// A scope around a construct.
#[derive(Debug)]
pub struct Env {
    /// The scope around it.
    pub parent: Option<Rc<Env>>,
    /// What it holds.
    pub kind: EnvKind,
}

/// The kinds of scope.
#[derive(Debug)]
pub enum EnvKind {
    /// A namespace.
    Namespace(NamespaceId),
    /// The members of a class instance.
    Record(RecordId),
    /// Names bound one by one: blocks, parameters, template parameters.
    Names(RefCell<Vec<(Name, Entity)>>),
    /// Using-directives of a block.
    Using(NamespaceId),
    /// A function body's `this`.
    This(Box<LValue>),
}

impl Env {
    /// An empty scope of names.
    pub fn names(parent: &Rc<Env>) -> Rc<Env> {
        Rc::new(Env {
            parent: Some(parent.clone()),
            kind: EnvKind::Names(RefCell::default()),
        })
    }

    /// A scope of a kind.
    pub fn of(parent: &Rc<Env>, kind: EnvKind) -> Rc<Env> {
        Rc::new(Env {
            parent: Some(parent.clone()),
            kind,
        })
    }

    /// The innermost namespace around it.
    pub fn namespace(&self) -> Option<NamespaceId> {
        let mut env = Some(self);
        while let Some(e) = env {
            if let EnvKind::Namespace(id) = e.kind {
                return Some(id);
            }
            env = e.parent.as_deref();
        }
        None
    }

    /// Binds a name; only in a scope of names.
    pub fn bind(&self, name: Name, entity: Entity) {
        if let EnvKind::Names(names) = &self.kind {
            names.borrow_mut().push((name, entity));
        }
    }
}

/// A namespace.
#[derive(Debug, Default)]
pub struct Namespace {
    /// Its qualified name: `mpp::tensor_ops`; empty for the global one.
    pub path: String,
    /// Declarations by name.
    pub names: HashMap<Name, Vec<Entity>>,
    /// Using-directives and inline or unnamed namespaces inside.
    pub using: Vec<NamespaceId>,
    /// Its scope.
    pub env: Option<Rc<Env>>,
}

/// A declaration at namespace scope that is resolved when first used.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// Where it was declared.
    pub env: Rc<Env>,
    /// The declaration.
    pub decl: DeferredDecl,
    /// What it turned out to be; `None` while not resolved.
    pub entity: Option<Entity>,
    /// It is being resolved now.
    pub busy: bool,
    /// The function constants that it depends on.
    pub touched: Vec<usize>,
    /// Those without a value that it reads, and where.
    pub unset: Vec<(usize, Span)>,
}

/// See [`Deferred`].
#[derive(Clone, Debug)]
pub enum DeferredDecl {
    /// A typedef.
    Alias(Arc<ast::AliasDecl>),
    /// A variable.
    Var(Arc<ast::VarDecl>),
    /// A non-template record.
    Record(Arc<ast::RecordDecl>),
    /// An enum.
    Enum(Arc<ast::EnumDecl>),
    /// An enumerator of an unscoped enum.
    Enumerator(Arc<ast::EnumDecl>, usize),
}

/// A class, alias or variable template.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its name.
    pub name: Name,
    /// Where it was declared.
    pub env: Rc<Env>,
    /// The primary declaration.
    pub primary: TemplateDecl,
    /// Explicit and partial specialisations.
    pub specialisations: Vec<TemplateDecl>,
    /// Deduction guides.
    pub guides: Vec<Arc<ast::FunctionDecl>>,
    /// Instances of a class template by their arguments.
    pub instances: HashMap<Vec<TemplateArg>, RecordId>,
    /// Values of a variable template by its arguments.
    pub values: HashMap<Vec<TemplateArg>, Operand>,
}

/// See [`Template`].
#[derive(Clone, Debug)]
pub enum TemplateDecl {
    /// A class template.
    Record(Arc<ast::RecordDecl>),
    /// An alias template.
    Alias(Arc<ast::AliasDecl>),
    /// A variable template.
    Var(Arc<ast::VarDecl>),
}

/// A data member.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name; empty for an anonymous union or struct.
    pub name: Name,
    /// Its type.
    pub ty: QualType,
    /// Bytes from the start.
    pub offset: u64,
    /// The first of its leaves.
    pub leaf: usize,
    /// `alignas` or 0.
    pub align: u32,
    /// The default initialiser.
    pub init: Option<Arc<ast::VarDecl>>,
}

/// An instantiated struct, class or union.
#[derive(Debug)]
pub struct Record {
    /// The declaration.
    pub decl: Arc<ast::RecordDecl>,
    /// The scope of its members.
    pub env: Rc<Env>,
    /// `S<float, 4>`
    pub name: String,
    /// The template that it is an instance of, and the arguments.
    pub template: Option<(TemplateId, Vec<TemplateArg>)>,
    /// Base classes, as the first fields.
    pub bases: Vec<RecordId>,
    /// Data members in order (those of bases are not repeated; a base is a field without a name).
    pub fields: Vec<Field>,
    /// Names of members: functions, types, static members, enumerators.
    pub names: HashMap<Name, Vec<Entity>>,
    /// Constructors.
    pub constructors: Vec<FunctionRef>,
    /// Conversion functions.
    pub conversions: Vec<FunctionRef>,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// Leaves.
    pub leaves: Rc<[LeafKind]>,
    /// Offsets of the leaves in memory.
    pub offsets: Rc<[u64]>,
    /// Its members are known.
    pub complete: bool,
    /// Its members are being collected.
    pub busy: bool,
}

/// An enum.
#[derive(Debug)]
pub struct Enum {
    /// Its name.
    pub name: String,
    /// The declaration.
    pub decl: Arc<ast::EnumDecl>,
    /// Underlying type.
    pub underlying: anymetal_ir::Scalar,
    /// `enum class`
    pub is_scoped: bool,
    /// Enumerators.
    pub values: Vec<(Name, anymetal_ir::Const)>,
    /// The namespace that it stands in.
    pub namespace: Option<NamespaceId>,
}

/// One evaluation of a lambda expression.
#[derive(Debug)]
pub struct Closure {
    /// The expression.
    pub expr: Arc<ast::LambdaExpr>,
    /// The scopes that its body sees: its captures and what is around it.
    pub env: Rc<Env>,
}

/// A function being inlined or a template being instantiated.
#[derive(Clone, Debug)]
pub struct Frame {
    /// `f<float>`
    pub what: String,
    /// Where it was asked for.
    pub span: Span,
    /// The function, to find recursion.
    pub decl: Option<Arc<ast::FunctionDecl>>,
    /// The class instance that it is a member of.
    pub record: Option<RecordId>,
    /// Its call site as a location of the kernel.
    pub inlined_at: Option<LocationId>,
}

/// What `break`, `continue` and `return` leave.
#[derive(Debug)]
pub enum Control {
    /// A loop of the source.
    Loop,
    /// The body of a `do` loop: `continue` leaves it.
    DoBody,
    /// The scope of a `switch`.
    Switch,
    /// One step of an unrolled loop.
    Unrolled,
    /// The body of an inlined function.
    Function(ReturnTarget),
}

/// Where a returned value goes.
#[derive(Debug, Default)]
pub struct ReturnTarget {
    /// The declared type; `None` when deduced.
    pub ty: Option<QualType>,
    /// The value, when a return was reached without control flow around it.
    pub value: Option<Operand>,
    /// The locals that hold it otherwise.
    pub slots: Option<(Type, Vec<Slot>)>,
    /// A break to the function's scope was emitted.
    pub used: bool,
    /// Blocks of control flow (if, loop, switch) open inside the function.
    pub depth: u32,
    /// It is a kernel: `return` ends the lane.
    pub is_kernel: bool,
}

/// How lowering went on after a statement.
#[derive(Debug)]
pub enum Flow {
    /// To the next statement.
    Next,
    /// It does not: a return, break or continue was lowered.
    Left,
    /// Constant mode: `break`.
    Break,
    /// Constant mode: `continue`.
    Continue,
    /// Constant mode: `return`.
    Return(Operand),
}

/// What is known of a value bound to a function constant.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionConstant {
    /// Its name.
    pub name: String,
    /// `[[function_constant(n)]]`
    pub index: u32,
    /// Its type.
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// A member function that is defined outside of its class, and where.
pub type OutOfClass = (Arc<ast::FunctionDecl>, Rc<Env>);

/// The lowering of one kernel.
pub struct Sema<'a> {
    /// The kernel so far.
    pub builder: Builder,
    /// Options.
    pub options: &'a CompileOptions,
    /// The files.
    pub sources: &'a Arc<SourceMap>,
    /// Namespaces; 0 is the global one.
    pub namespaces: Vec<Namespace>,
    /// Deferred declarations.
    pub deferred: Vec<Deferred>,
    /// Templates.
    pub templates: Vec<Template>,
    /// Records.
    pub records: Vec<Record>,
    /// Enums.
    pub enums: Vec<Enum>,
    /// Closures.
    pub closures: Vec<Closure>,
    /// Enums by declaration and scope.
    pub enum_ids: HashMap<(usize, usize), EnumId>,
    /// Records defined inside a type, by declaration and scope.
    pub record_ids: HashMap<(usize, usize), RecordId>,
    /// Cells of the constant evaluator.
    pub cells: Vec<Leaf>,
    /// Errors and warnings so far.
    pub diagnostics: Vec<Diagnostic>,
    /// Functions being inlined, outermost first.
    pub frames: Vec<Frame>,
    /// Loops, switches and functions that are open.
    pub control: Vec<Control>,
    /// The innermost scope.
    pub env: Rc<Env>,
    /// The global scope.
    pub global: Rc<Env>,
    /// Above 0: constant mode.
    pub const_eval: u32,
    /// Above 0: inside `decltype` or `sizeof`; what is emitted is thrown away.
    pub unevaluated: u32,
    /// Above 0: errors mean that a candidate is dropped.
    pub trial: u32,
    /// Steps left for the constant evaluator.
    pub const_steps: u64,
    /// Calls that the kernel may still make: every call becomes instructions of the kernel.
    pub calls_left: u32,
    /// The construct being lowered.
    pub span: Span,
    /// Fast or precise.
    pub math: MathMode,
    /// Locations already added, by place and call site.
    pub locations: HashMap<(u32, u32, u32), LocationId>,
    /// Function constants bound for this kernel, by index.
    pub constants: super::function_constant::FunctionConstantValues,
    /// Function constants seen.
    pub function_constants: Vec<FunctionConstant>,
    /// Those that the kernel being lowered depends on.
    pub touched: Vec<usize>,
    /// Those that have no value and are read.
    pub unset: super::function_constant::Unset,
    /// Constant tables by variable declaration, and by content.
    pub tables: HashMap<Vec<u8>, MemoryId>,
    /// Files of the source map in the kernel's table of locations.
    pub files: HashMap<u32, u32>,
    /// Declarations that were lowered at least once.
    pub visited: std::collections::HashSet<usize>,
    /// Out-of-class definitions of member functions, by the last segment of the qualifier and the name.
    pub out_of_class: HashMap<(Name, Name), Vec<OutOfClass>>,
    /// Out-of-class definitions of static members.
    pub out_of_class_vars: HashMap<(Name, Name), (Arc<ast::VarDecl>, Rc<Env>)>,
    /// How function bodies use their variables, by body.
    pub uses: HashMap<usize, Rc<Uses>>,
    /// How the function being lowered uses its variables.
    pub current_uses: Rc<Uses>,
    /// Memory of `threadgroup` variables, by declaration and depth of inlining.
    pub threadgroup: HashMap<((u32, u32, String), usize), MemoryId>,
    /// Variables in registers, and the memory that stands for them inside a function which takes their address.
    pub copy_back: Vec<(LValue, LValue)>,
    /// Above 0: a converting constructor is being sought.
    pub converting_depth: u32,
    /// Functions being lowered whose last act may be a call of themselves.
    pub tails: Vec<super::tail::TailLoop>,
    /// A call was just lowered as a step of such a function's loop: nothing after it runs.
    pub tail_taken: bool,
    /// Expressions open around this one.
    pub nesting: u32,
    /// Above 0: what is lowered is checked and thrown away: code that never runs, operands of `decltype` and `sizeof`.
    pub thrown_away: u32,
    /// The library's own state.
    pub library: LibraryState,
}

impl<'a> Sema<'a> {
    /// A lowering without declarations yet.
    pub fn new(
        name: &str,
        options: &'a CompileOptions,
        sources: &'a Arc<SourceMap>,
        constants: super::function_constant::FunctionConstantValues,
    ) -> Self {
        let global = Rc::new(Env {
            parent: None,
            kind: EnvKind::Namespace(NamespaceId(0)),
        });
        Sema {
            builder: Builder::new(name),
            options,
            sources,
            namespaces: vec![Namespace {
                env: Some(global.clone()),
                ..Namespace::default()
            }],
            deferred: Vec::new(),
            templates: Vec::new(),
            records: Vec::new(),
            enums: Vec::new(),
            closures: Vec::new(),
            enum_ids: HashMap::new(),
            record_ids: HashMap::new(),
            cells: Vec::new(),
            diagnostics: Vec::new(),
            frames: Vec::new(),
            control: Vec::new(),
            env: global.clone(),
            global,
            const_eval: 0,
            unevaluated: 0,
            trial: 0,
            const_steps: MAX_CONST_STEPS,
            calls_left: MAX_CALLS,
            span: Span::default(),
            math: if options.fast_math {
                MathMode::Fast
            } else {
                MathMode::Precise
            },
            locations: HashMap::new(),
            constants,
            function_constants: Vec::new(),
            touched: Vec::new(),
            unset: Default::default(),
            tables: HashMap::new(),
            files: HashMap::new(),
            visited: std::collections::HashSet::new(),
            out_of_class: HashMap::new(),
            out_of_class_vars: HashMap::new(),
            uses: HashMap::new(),
            current_uses: Rc::default(),
            threadgroup: HashMap::new(),
            copy_back: Vec::new(),
            converting_depth: 0,
            tails: Vec::new(),
            tail_taken: false,
            nesting: 0,
            thrown_away: 0,
            library: LibraryState::default(),
        }
    }
}

impl Sema<'_> {
    /// Begins another kernel; declarations and instances stay.
    pub fn next_kernel(&mut self) -> Builder {
        let finished = std::mem::replace(&mut self.builder, Builder::new(""));
        self.frames.clear();
        self.control.clear();
        self.env = self.global.clone();
        self.const_eval = 0;
        self.unevaluated = 0;
        self.trial = 0;
        self.calls_left = MAX_CALLS;
        self.const_steps = MAX_CONST_STEPS;
        self.span = Span::default();
        self.locations.clear();
        self.touched.clear();
        self.unset = Default::default();
        self.tables.clear();
        self.files.clear();
        self.current_uses = Rc::default();
        self.threadgroup.clear();
        self.nesting = 0;
        self.copy_back.clear();
        self.thrown_away = 0;
        self.converting_depth = 0;
        self.library = LibraryState::default();
        finished
    }

    /// An error at a place, with the chain of instantiations around it.
    pub fn diagnostic(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        let mut d = Diagnostic::error(code, message, span);
        self.attach_chain(&mut d);
        d
    }

    /// Adds the chain of instantiations and inlined calls.
    pub fn attach_chain(&self, d: &mut Diagnostic) {
        let n = self.frames.len();
        for (i, frame) in self.frames.iter().rev().enumerate() {
            if i >= 12 && i + 3 < n {
                continue;
            }
            d.instantiation_chain.push(crate::diagnostics::InstantiationFrame {
                what: frame.what.clone(),
                span: frame.span,
            });
        }
    }

    /// An error at a place, as a `Fail`.
    pub fn fail(&self, code: &'static str, message: impl Into<String>, span: Span) -> Fail {
        Fail::Error(Box::new(self.diagnostic(code, message, span)))
    }

    /// An error at a place, as a result.
    pub fn err<T>(&self, code: &'static str, message: impl Into<String>, span: Span) -> Res<T> {
        Err(self.fail(code, message, span))
    }

    /// An error with a help line.
    pub fn err_help<T>(
        &self,
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        help: impl Into<String>,
    ) -> Res<T> {
        Err(Fail::Error(Box::new(self.diagnostic(code, message, span).help(help))))
    }

    /// A refusal that has a meaning here: an error, or a warning under `--lenient`.
    pub fn refuse(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        note: impl Into<String>,
    ) -> Res<()> {
        if !availability::restricts(self.options.os, code) {
            return Ok(());
        }
        let mut d = self.diagnostic(code, message, span).note(note);
        if self.options.os.is_some()
            && let Some(since) = availability::since_note(code)
        {
            d = d.note(since);
        }
        if self.options.lenient {
            self.report(Diagnostic {
                severity: crate::diagnostics::Severity::Warning,
                ..d
            });
            Ok(())
        } else {
            Err(Fail::Error(Box::new(d)))
        }
    }

    /// A warning; dropped while a candidate is on trial.
    pub fn warn(&mut self, code: &'static str, message: impl Into<String>, span: Span) {
        if self.trial == 0 && self.unevaluated == 0 {
            let mut d = Diagnostic::warning(code, message, span);
            self.attach_chain(&mut d);
            self.report(d);
        }
    }

    /// Keeps a diagnostic, once.
    pub fn report(&mut self, d: Diagnostic) {
        let same = |o: &Diagnostic| o.code == d.code && o.primary.span == d.primary.span && o.message == d.message;
        if !self.diagnostics.iter().any(same) {
            self.diagnostics.push(d);
        }
    }

    /// Keeps the error behind a `Fail`.
    pub fn report_fail(&mut self, fail: Fail) {
        if let Fail::Error(d) = fail {
            self.report(*d);
        }
    }

    /// Goes to a construct: errors and instructions are placed there. Returns the former place.
    pub fn at(&mut self, span: Span) -> Span {
        let former = self.span;
        if former != span {
            self.span = span;
            if self.const_eval == 0 {
                self.locate();
            }
        }
        former
    }

    /// Sets the builder's location from [`Sema::span`].
    pub fn locate(&mut self) {
        let span = self.span;
        let inlined_at = self.frames.iter().rev().find_map(|f| f.inlined_at);
        let key = (span.file.0, span.lo, inlined_at.map_or(0, |l| l.0));
        let id = match self.locations.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.add_location(span, inlined_at);
                self.locations.insert(key, id);
                id
            }
        };
        self.builder.set_location(id);
    }

    fn add_location(&mut self, span: Span, inlined_at: Option<LocationId>) -> LocationId {
        let Some(file) = self.sources.get(span.file) else {
            return LocationId::default();
        };
        let (line, column) = file.line_col(span.lo);
        let index = match self.files.get(&span.file.0) {
            Some(index) => *index,
            None => {
                let files = &mut self.builder.kernel_mut().locations.files;
                files.push(file.name.clone());
                let index = files.len() as u32 - 1;
                self.files.insert(span.file.0, index);
                index
            }
        };
        self.builder.add_location(Location {
            file: index,
            line,
            column,
            inlined_at,
        })
    }

    /// Runs a step in constant mode.
    pub fn in_const_mode<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.const_eval += 1;
        let unevaluated = std::mem::take(&mut self.unevaluated);
        let result = f(self);
        self.unevaluated = unevaluated;
        self.const_eval -= 1;
        result
    }

    /// Runs a step for its type only; what it emits is thrown away.
    pub fn unevaluated<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        let const_eval = std::mem::take(&mut self.const_eval);
        self.unevaluated += 1;
        self.thrown_away += 1;
        self.builder.push_block();
        let memory = self.builder.kernel().memory.len();
        let cooperatives = self.builder.kernel().cooperatives.len();
        let result = f(self);
        self.builder.pop_block();
        if self.tables.values().all(|id| id.index() < memory) {
            self.builder.kernel_mut().memory.truncate(memory);
        }
        self.builder.kernel_mut().cooperatives.truncate(cooperatives);
        self.unevaluated -= 1;
        self.thrown_away -= 1;
        self.const_eval = const_eval;
        result
    }

    /// Runs a step whose error only means "no".
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Option<T> {
        self.trial += 1;
        let env = self.env.clone();
        let frames = self.frames.len();
        let control = self.control.len();
        let result = f(self);
        self.trial -= 1;
        self.env = env;
        self.frames.truncate(frames);
        self.control.truncate(control);
        result.ok()
    }

    /// Runs a step inside another scope.
    pub fn within<T>(&mut self, env: Rc<Env>, f: impl FnOnce(&mut Self) -> T) -> T {
        let former = std::mem::replace(&mut self.env, env);
        let result = f(self);
        self.env = former;
        result
    }

    /// The record behind an id.
    pub fn record(&self, id: RecordId) -> &Record {
        &self.records[id.index()]
    }

    /// A new cell of the constant evaluator.
    pub fn cell(&mut self, leaf: Leaf) -> CellId {
        self.cells.push(leaf);
        CellId(self.cells.len() as u32 - 1)
    }
}
