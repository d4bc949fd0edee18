//! The syntax tree of a Metal translation unit.
//!
//! The tree says what was written, not what it means: names are not resolved and types are not checked. Three
//! conventions matter to a reader:
//!
//! - `X(…)` where `X` is an id-expression is always [`ExprKind::Call`], also when `X` turns out to be a type (a
//!   functional cast or a constructor call). `X{…}` and the keyword types (`float(…)`, `decltype(e)(…)`,
//!   `typename T::type(…)`) are [`ExprKind::Construct`].
//! - A template argument that is nothing but a path is [`TemplateArgKind::Path`], whether it names a type, a template or
//!   a value: whoever resolves the path knows. [`TemplateArgKind::Type`] and [`TemplateArgKind::Expr`] are for what cannot be the other.
//! - `case` and `default` are label statements in the flat list of the `switch` body.
//!
//! Functions, records, enums, aliases, variables and lambdas are behind [`Arc`], so that an instantiation can hold on to
//! its template without a lifetime.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::source::Span;

/// An identifier's text; cheap to clone, compared by text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// A name with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Name(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Name(text.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// An identifier at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ident {
    /// The text. Operator functions are named `operator+`, `operator[]`, `operator()`, …; a conversion operator is
    /// `operator T` with the type in [`FunctionKind::Conversion`]; a destructor is `~X`.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
}

/// Metal's address spaces (MSL specification, chapter 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressSpace {
    /// `device`
    Device,
    /// `constant`
    Constant,
    /// `threadgroup`
    Threadgroup,
    /// `thread`
    Thread,
}

impl AddressSpace {
    /// The keyword.
    pub fn keyword(self) -> &'static str {
        match self {
            AddressSpace::Device => "device",
            AddressSpace::Constant => "constant",
            AddressSpace::Threadgroup => "threadgroup",
            AddressSpace::Thread => "thread",
        }
    }
}

/// Qualifiers of one level of a type, or of a member function's `this`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quals {
    /// `const`
    pub is_const: bool,
    /// `volatile`
    pub is_volatile: bool,
    /// `coherent` or `coherent(device)`
    pub is_coherent: bool,
    /// The address space and where it was written.
    pub space: Option<(AddressSpace, Span)>,
}

/// One segment of a [`Path`]: `name` or `name<args>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The name.
    pub ident: Ident,
    /// Template arguments when `<…>` was written (`Some(vec![])` for `<>`).
    pub args: Option<Vec<TemplateArg>>,
    /// Written after the keyword `template`.
    pub template_keyword: bool,
}

/// What a path starts from.
#[derive(Clone, Debug, PartialEq)]
pub enum PathRoot {
    /// The scopes around it.
    Scope,
    /// `::`, the global namespace.
    Global,
    /// `decltype(e)::`
    Decltype(Box<Expr>),
}

/// A possibly qualified name: `a::b<int>::c`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Where lookup starts.
    pub root: PathRoot,
    /// One or more segments.
    pub segments: Vec<Segment>,
    /// The whole path.
    pub span: Span,
}

impl Path {
    /// The last segment.
    pub fn last(&self) -> &Segment {
        &self.segments[self.segments.len() - 1]
    }

    /// The single unqualified segment, when the path is nothing more.
    pub fn as_single(&self) -> Option<&Segment> {
        match (&self.root, self.segments.as_slice()) {
            (PathRoot::Scope, [one]) => Some(one),
            _ => None,
        }
    }

    /// The single unqualified identifier without template arguments, when the path is nothing more.
    pub fn as_ident(&self) -> Option<&Ident> {
        self.as_single().filter(|s| s.args.is_none()).map(|s| &s.ident)
    }
}

impl fmt::Display for Path {
    /// The names joined by `::`, template arguments left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.root {
            PathRoot::Scope => {}
            PathRoot::Global => f.write_str("::")?,
            PathRoot::Decltype(_) => f.write_str("decltype(…)::")?,
        }
        for (i, s) in self.segments.iter().enumerate() {
            if i > 0 {
                f.write_str("::")?;
            }
            f.write_str(&s.ident.name)?;
        }
        Ok(())
    }
}

/// A template argument.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateArg {
    /// What it is.
    pub kind: TemplateArgKind,
    /// Followed by `...`.
    pub is_pack: bool,
    /// Where it stands.
    pub span: Span,
}

/// The three shapes of a template argument.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateArgKind {
    /// Nothing but a path: a type, a template or a value.
    Path(Path),
    /// Certainly a type.
    Type(Ty),
    /// Certainly an expression.
    Expr(Expr),
}

/// The types that are keywords in C++. `half`, `uint`, `float4`, `size_t` and the like are paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinTy {
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `char` (signed in Metal), `signed char`
    Char,
    /// `unsigned char`
    UChar,
    /// `short`
    Short,
    /// `unsigned short`
    UShort,
    /// `int`
    Int,
    /// `unsigned int`
    UInt,
    /// `long`, 64 bits
    Long,
    /// `unsigned long`, 64 bits
    ULong,
    /// `float`
    Float,
    /// `double`, which Metal does not have: kept for the error
    Double,
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Ty {
    /// What it is.
    pub kind: TyKind,
    /// The qualifiers of this level: for `device float *const p` the outer pointer is const, the inner `float` is `device`.
    pub quals: Quals,
    /// Where it stands.
    pub span: Span,
}

/// The forms of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TyKind {
    /// A keyword type.
    Builtin(BuiltinTy),
    /// A named type, with or without `typename`.
    Path(Path),
    /// `auto`
    Auto,
    /// `decltype(auto)`
    DecltypeAuto,
    /// `decltype(e)`
    Decltype(Box<Expr>),
    /// `T *`
    Pointer(Box<Ty>),
    /// `T &`
    LRef(Box<Ty>),
    /// `T &&`
    RRef(Box<Ty>),
    /// `T [n]`; `None` for `T []`.
    Array(Box<Ty>, Option<Box<Expr>>),
    /// A function type, as in `void (*f)(int)`.
    Function(Box<FunctionTy>),
    /// `T C::*`, kept for the error.
    MemberPointer(Box<Ty>, Path),
    /// A struct, class or union defined where its type is used.
    Record(Arc<RecordDecl>),
    /// An enum defined where its type is used.
    Enum(Arc<EnumDecl>),
}

/// A function type.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTy {
    /// The returned type.
    pub ret: Ty,
    /// The parameters.
    pub params: Vec<Param>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// The suffix and base of an integer literal, which decide its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntSuffix {
    /// `u`
    pub unsigned: bool,
    /// `l`, `ll` or `z`
    pub long: bool,
    /// Not hexadecimal, octal or binary: such a literal never becomes unsigned by itself.
    pub decimal: bool,
}

/// The suffix of a floating literal. Without one it is `double` in C++ and `float` in Metal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatSuffix {
    /// none
    None,
    /// `f`
    Float,
    /// `h`
    Half,
    /// `bf`
    BFloat,
}

/// A binary operator that yields a value; assignments are [`ExprKind::Assign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `>`
    Gt,
    /// `<=`
    Le,
    /// `>=`
    Ge,
    /// `,`
    Comma,
}

impl BinOp {
    /// The operator's spelling.
    pub fn spelling(self) -> &'static str {
        use BinOp::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Rem => "%",
            Shl => "<<",
            Shr => ">>",
            BitAnd => "&",
            BitOr => "|",
            BitXor => "^",
            And => "&&",
            Or => "||",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Gt => ">",
            Le => "<=",
            Ge => ">=",
            Comma => ",",
        }
    }
}

/// A unary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// `+e`
    Plus,
    /// `-e`
    Neg,
    /// `!e`
    Not,
    /// `~e`
    BitNot,
    /// `*e`
    Deref,
    /// `&e`
    AddrOf,
    /// `++e`
    PreInc,
    /// `--e`
    PreDec,
    /// `e++`
    PostInc,
    /// `e--`
    PostDec,
}

impl UnOp {
    /// The operator's spelling.
    pub fn spelling(self) -> &'static str {
        use UnOp::*;
        match self {
            Plus => "+",
            Neg => "-",
            Not => "!",
            BitNot => "~",
            Deref => "*",
            AddrOf => "&",
            PreInc | PostInc => "++",
            PreDec | PostDec => "--",
        }
    }
}

/// How a cast was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastKind {
    /// `(T)e`
    CStyle,
    /// `static_cast<T>(e)`
    Static,
    /// `reinterpret_cast<T>(e)`
    Reinterpret,
    /// `const_cast<T>(e)`
    Const,
}

/// A designator in a braced list.
#[derive(Clone, Debug, PartialEq)]
pub enum Designator {
    /// `.field =`
    Field(Ident),
    /// `[i] =`
    Index(Box<Expr>),
    /// `[first ... last] =`, an extension of clang's that Metal has.
    Range(Box<Expr>, Box<Expr>),
}

/// One item of a braced list.
#[derive(Clone, Debug, PartialEq)]
pub struct InitItem {
    /// The designator, when one was written.
    pub designator: Option<Designator>,
    /// The value; may itself be an [`ExprKind::InitList`] or an [`ExprKind::PackExpansion`].
    pub value: Expr,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal.
    Int(u64, IntSuffix),
    /// A floating literal, as the nearest `f64`.
    Float(f64, FloatSuffix),
    /// A character literal.
    Char(u32),
    /// A string literal, only good as an attribute argument or a `static_assert` message.
    Str(Name),
    /// `true`, `false`
    Bool(bool),
    /// `nullptr`
    Nullptr,
    /// `this`
    This,
    /// An id-expression.
    Path(Path),
    /// `(e)`
    Paren(Box<Expr>),
    /// A unary operator.
    Unary(UnOp, Box<Expr>),
    /// A binary operator.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `l = r` (`None`) or `l op= r`
    Assign(Option<BinOp>, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `f(args)`; see the module's first convention.
    Call {
        /// A path, a member access, or any other expression.
        callee: Box<Expr>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `b[i, j, …]`
    Index {
        /// The subscripted expression.
        base: Box<Expr>,
        /// One or more subscripts.
        indices: Vec<Expr>,
    },
    /// `b.m`, `b->m`, `b.template m<…>`, `b.Base::m`; swizzles too.
    Member {
        /// The object.
        base: Box<Expr>,
        /// Written `->`.
        arrow: bool,
        /// The member; more than one segment only for `b.Base::m`.
        member: Path,
    },
    /// A cast written with an operator.
    Cast {
        /// How.
        kind: CastKind,
        /// To what.
        ty: Box<Ty>,
        /// Of what.
        expr: Box<Expr>,
    },
    /// `T(args)` for keyword types or `T{items}` for any type.
    Construct {
        /// The type.
        ty: Box<Ty>,
        /// The arguments or the items.
        args: Vec<InitItem>,
        /// Written with braces.
        braces: bool,
    },
    /// `{ items }` as an initialiser, an argument or a returned value.
    InitList(Vec<InitItem>),
    /// `sizeof(T)`
    SizeofType(Box<Ty>),
    /// `sizeof e`. `sizeof(name)` where the name may be a type or a value is here as a path in parentheses.
    SizeofExpr(Box<Expr>),
    /// `sizeof...(pack)`
    SizeofPack(Ident),
    /// `alignof(T)`
    AlignofType(Box<Ty>),
    /// A lambda.
    Lambda(Arc<LambdaExpr>),
    /// `e...` in an argument list.
    PackExpansion(Box<Expr>),
    /// A fold over a pack.
    Fold {
        /// The operator.
        op: BinOp,
        /// `Some(assignment)` operators such as `+=` fold too.
        assign: bool,
        /// The operand that contains the pack.
        pack: Box<Expr>,
        /// The other operand of a binary fold.
        init: Option<Box<Expr>>,
        /// `(... op pack)` or `(init op ... op pack)`.
        left: bool,
    },
}

/// A lambda expression.
#[derive(Clone, Debug, PartialEq)]
pub struct LambdaExpr {
    /// `[&]` (`Some(true)`), `[=]` (`Some(false)`) or neither.
    pub default_by_ref: Option<bool>,
    /// Named captures.
    pub captures: Vec<Capture>,
    /// `<…>` after the captures.
    pub template: Option<TemplateHeader>,
    /// The parameters; `auto` ones make it generic.
    pub params: Vec<Param>,
    /// The returned type when written.
    pub ret: Option<Ty>,
    /// `mutable`
    pub is_mutable: bool,
    /// `constexpr`
    pub is_constexpr: bool,
    /// The body, a [`StmtKind::Compound`].
    pub body: Stmt,
    /// The whole lambda.
    pub span: Span,
}

/// One capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// The variable; `None` for `this` and `*this`.
    pub name: Option<Ident>,
    /// `&x`
    pub by_ref: bool,
    /// `x = e`
    pub init: Option<Expr>,
    /// `x...`
    pub is_pack: bool,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
}

/// The condition of `if`, `while`, `for`, `switch`.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// An expression.
    Expr(Expr),
    /// `if (auto x = e)`
    Var(Arc<VarDecl>),
}

/// What an unroll pragma asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Unroll {
    /// `unroll` without a count, `unroll(full)`.
    Full,
    /// `unroll(n)`, `unroll_count(n)`.
    Count(Box<Expr>),
    /// `unroll(enable)`: as the compiler sees fit.
    Enable,
    /// `unroll(disable)`, `nounroll`.
    Disable,
}

/// Hints that stand before a loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopHints {
    /// The unroll pragma and its place.
    pub unroll: Option<(Unroll, Span)>,
}

/// `#pragma METAL fp …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FpPragma {
    /// `math_mode(safe)`
    MathSafe,
    /// `math_mode(relaxed)`
    MathRelaxed,
    /// `math_mode(fast)`
    MathFast,
    /// `contract(off)`
    ContractOff,
    /// `contract(fast)` or `contract(on)`
    ContractOn,
}

/// The forms of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// `{ … }`
    Compound(Vec<Stmt>),
    /// An expression statement.
    Expr(Expr),
    /// A declaration; `int a, *b;` gives two.
    Decl(Vec<Decl>),
    /// `if`
    If {
        /// `if constexpr`
        is_constexpr: bool,
        /// `if (init; …)`
        init: Option<Box<Stmt>>,
        /// The condition.
        cond: Condition,
        /// Taken when true.
        then: Box<Stmt>,
        /// Taken when false.
        otherwise: Option<Box<Stmt>>,
    },
    /// `while`
    While {
        /// The condition.
        cond: Condition,
        /// The body.
        body: Box<Stmt>,
        /// Pragmas before it.
        hints: LoopHints,
    },
    /// `do … while`
    DoWhile {
        /// The body.
        body: Box<Stmt>,
        /// The condition.
        cond: Expr,
        /// Pragmas before it.
        hints: LoopHints,
    },
    /// `for (init; cond; step)`
    For {
        /// A declaration, an expression statement or `Empty`.
        init: Box<Stmt>,
        /// The condition; none means true.
        cond: Option<Condition>,
        /// The step.
        step: Option<Expr>,
        /// The body.
        body: Box<Stmt>,
        /// Pragmas before it.
        hints: LoopHints,
    },
    /// `for (var : range)`
    RangeFor {
        /// The variable, without an initialiser.
        var: Arc<VarDecl>,
        /// The array.
        range: Expr,
        /// The body.
        body: Box<Stmt>,
        /// Pragmas before it.
        hints: LoopHints,
    },
    /// `switch`
    Switch {
        /// `switch (init; …)`
        init: Option<Box<Stmt>>,
        /// The value.
        cond: Condition,
        /// The body: a flat compound with label statements.
        body: Box<Stmt>,
    },
    /// `case e:`
    Case(Expr),
    /// `default:`
    Default,
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `return e;`
    Return(Option<Expr>),
    /// `#pragma METAL fp …` inside a block.
    FpPragma(FpPragma),
}

/// `[[name(args)]]`, `[[scope::name(args)]]`, `__attribute__((name(args)))` (scope `gnu`), `alignas(e)` (name `alignas`).
#[derive(Clone, Debug, PartialEq)]
pub struct Attr {
    /// The scope before `::`.
    pub scope: Option<Name>,
    /// The name.
    pub name: Name,
    /// The arguments. `alignas(T)` has [`ExprKind::AlignofType`].
    pub args: Vec<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// A declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Decl {
    /// `namespace a::b { … }` is two of these.
    Namespace(NamespaceDecl),
    /// `namespace a = b::c;`
    NamespaceAlias {
        /// The new name.
        name: Ident,
        /// The namespace.
        target: Path,
        /// Where it stands.
        span: Span,
    },
    /// `using namespace a::b;`
    UsingNamespace(Path),
    /// `using a::b;`
    Using(Path),
    /// `using X = T;`, `typedef T X;`, alias templates.
    Alias(Arc<AliasDecl>),
    /// A variable, a constant, or a data member inside a record.
    Var(Arc<VarDecl>),
    /// A function, a kernel, a member function.
    Function(Arc<FunctionDecl>),
    /// A struct, class or union.
    Record(Arc<RecordDecl>),
    /// An enum.
    Enum(Arc<EnumDecl>),
    /// `static_assert`
    StaticAssert(StaticAssert),
    /// `template kernel void f<float>(…);`
    Instantiation(Instantiation),
    /// `#pragma METAL fp …` at namespace scope.
    FpPragma(FpPragma, Span),
}

impl Decl {
    /// Where the declaration stands.
    pub fn span(&self) -> Span {
        match self {
            Decl::Namespace(d) => d.span,
            Decl::NamespaceAlias { span, .. } => *span,
            Decl::UsingNamespace(p) | Decl::Using(p) => p.span,
            Decl::Alias(d) => d.span,
            Decl::Var(d) => d.span,
            Decl::Function(d) => d.span,
            Decl::Record(d) => d.span,
            Decl::Enum(d) => d.span,
            Decl::StaticAssert(d) => d.span,
            Decl::Instantiation(d) => d.span,
            Decl::FpPragma(_, span) => *span,
        }
    }
}

/// A namespace block.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceDecl {
    /// The name; `None` for an unnamed namespace.
    pub name: Option<Ident>,
    /// `inline namespace`
    pub is_inline: bool,
    /// What it holds.
    pub decls: Vec<Decl>,
    /// The whole block.
    pub span: Span,
}

/// A type alias or alias template.
#[derive(Clone, Debug, PartialEq)]
pub struct AliasDecl {
    /// The new name.
    pub name: Ident,
    /// `template <…>` before it.
    pub template: Option<TemplateHeader>,
    /// The type.
    pub ty: Ty,
    /// Where it stands.
    pub span: Span,
}

/// `static_assert(cond, message)`
#[derive(Clone, Debug, PartialEq)]
pub struct StaticAssert {
    /// The condition.
    pub cond: Expr,
    /// The message when written.
    pub message: Option<Name>,
    /// Where it stands.
    pub span: Span,
}

/// An initialiser.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// `= e` or `= {…}`
    Copy(Expr),
    /// `(a, b)`
    Paren(Vec<Expr>, Span),
    /// `{a, b}`: an [`ExprKind::InitList`]
    Brace(Expr),
}

/// Specifiers of a variable or function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Specifiers {
    /// `static`
    pub is_static: bool,
    /// `extern`
    pub is_extern: bool,
    /// `inline`
    pub is_inline: bool,
    /// `constexpr` or `consteval`
    pub is_constexpr: bool,
    /// `friend`
    pub is_friend: bool,
    /// `explicit`
    pub is_explicit: bool,
    /// `mutable`
    pub is_mutable: bool,
    /// `noexcept`
    pub is_noexcept: bool,
}

/// A variable or data member.
#[derive(Clone, Debug, PartialEq)]
pub struct VarDecl {
    /// The name; `None` for an unnamed bit-field or an anonymous struct/union member.
    pub name: Option<Ident>,
    /// `X::` before the name: an out-of-class definition of a static member.
    pub qualifier: Vec<Segment>,
    /// The type with the declarator applied; the address space is in the qualifiers of the element for arrays.
    pub ty: Ty,
    /// The initialiser.
    pub init: Option<Init>,
    /// Specifiers.
    pub specs: Specifiers,
    /// Attributes.
    pub attrs: Vec<Attr>,
    /// `template <…>` before it: a variable template.
    pub template: Option<TemplateHeader>,
    /// `<…>` after the name: a specialisation of a variable template.
    pub spec_args: Option<Vec<TemplateArg>>,
    /// `: width`
    pub bit_width: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// A function parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The name.
    pub name: Option<Ident>,
    /// The type.
    pub ty: Ty,
    /// The default argument.
    pub default: Option<Expr>,
    /// Attributes: `buffer`, `threadgroup`, `thread_position_in_grid`, …
    pub attrs: Vec<Attr>,
    /// `T... x`
    pub is_pack: bool,
    /// Where it stands.
    pub span: Span,
}

/// What kind of function a [`FunctionDecl`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionKind {
    /// A function or member function, operators included.
    Plain,
    /// A constructor; the returned type is `void`.
    Constructor,
    /// A destructor.
    Destructor,
    /// `operator T()`
    Conversion(Box<Ty>),
    /// `X(…) -> X<…>;`
    DeductionGuide,
}

/// A member initialiser of a constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberInit {
    /// The member or base.
    pub member: Path,
    /// The initialiser: [`Init::Paren`] or [`Init::Brace`].
    pub init: Init,
}

/// The body of a function.
// Most functions have one: boxing it would gain nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A declaration only.
    None,
    /// A block: a [`StmtKind::Compound`].
    Block(Stmt),
    /// `= default`
    Default,
    /// `= delete`
    Delete,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDecl {
    /// The name.
    pub name: Ident,
    /// `X<T>::` before the name: an out-of-class definition.
    pub qualifier: Vec<Segment>,
    /// What kind.
    pub kind: FunctionKind,
    /// Its own `template <…>`; an empty list for an explicit specialisation (`template <>`).
    pub template: Option<TemplateHeader>,
    /// Headers of the enclosing class templates, for an out-of-class definition.
    pub outer_templates: Vec<TemplateHeader>,
    /// `<…>` after the name: an explicit specialisation.
    pub spec_args: Option<Vec<TemplateArg>>,
    /// `kernel` or `[[kernel]]`, and where.
    pub kernel: Option<Span>,
    /// The returned type (a trailing one is here); `auto` when deduced.
    pub ret: Ty,
    /// The parameters.
    pub params: Vec<Param>,
    /// Qualifiers of `this`.
    pub this_quals: Quals,
    /// Specifiers.
    pub specs: Specifiers,
    /// Attributes: `host_name`, `max_total_threads_per_threadgroup`, …
    pub attrs: Vec<Attr>,
    /// Member initialisers.
    pub member_inits: Vec<MemberInit>,
    /// The body.
    pub body: Body,
    /// From the first specifier to the end of the parameter list (the body is not part of it).
    pub span: Span,
}

/// `template <…>`
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateHeader {
    /// The parameters.
    pub params: Vec<TemplateParam>,
    /// `requires e` after it.
    pub requires: Option<Box<Expr>>,
    /// Where it stands.
    pub span: Span,
}

/// A template parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateParam {
    /// The name.
    pub name: Option<Ident>,
    /// Type, value or template.
    pub kind: TemplateParamKind,
    /// `class... T`
    pub is_pack: bool,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of template parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateParamKind {
    /// `class T = X`
    Type(Option<Ty>),
    /// `int N = 3`, `matmul2d_descriptor D`, `auto V`, `void (*f)(int)`
    Value(Box<Ty>, Option<Expr>),
    /// `template <class> class C = X`
    Template(Box<TemplateHeader>, Option<Path>),
}

/// Struct, class or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// `struct`
    Struct,
    /// `class`
    Class,
    /// `union`
    Union,
}

/// Access of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `public`
    Public,
    /// `protected`
    Protected,
    /// `private`
    Private,
}

/// A base class.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Its access.
    pub access: Access,
    /// The class.
    pub ty: Ty,
    /// `B...`
    pub is_pack: bool,
}

/// A member of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its access.
    pub access: Access,
    /// The member.
    pub decl: Decl,
}

/// A struct, class or union.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordDecl {
    /// Which.
    pub kind: RecordKind,
    /// The name.
    pub name: Option<Ident>,
    /// `X::` before the name.
    pub qualifier: Vec<Segment>,
    /// `template <…>` before it; an empty list for an explicit specialisation.
    pub template: Option<TemplateHeader>,
    /// `<…>` after the name: a specialisation.
    pub spec_args: Option<Vec<TemplateArg>>,
    /// The bases.
    pub bases: Vec<Base>,
    /// The members; `None` for a forward declaration.
    pub members: Option<Vec<Member>>,
    /// Attributes.
    pub attrs: Vec<Attr>,
    /// From the keyword to the name.
    pub span: Span,
}

/// An enum.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumDecl {
    /// The name.
    pub name: Option<Ident>,
    /// `enum class`
    pub is_scoped: bool,
    /// `: T`
    pub underlying: Option<Ty>,
    /// The enumerators; `None` for a forward declaration.
    pub enumerators: Option<Vec<Enumerator>>,
    /// From the keyword to the name.
    pub span: Span,
}

/// An enumerator.
#[derive(Clone, Debug, PartialEq)]
pub struct Enumerator {
    /// The name.
    pub name: Ident,
    /// `= e`
    pub value: Option<Expr>,
}

/// An explicit instantiation.
#[derive(Clone, Debug, PartialEq)]
pub struct Instantiation {
    /// Attributes: `host_name("x")` names the kernel for the host.
    pub attrs: Vec<Attr>,
    /// `kernel` or `[[kernel]]`, and where.
    pub kernel: Option<Span>,
    /// What is instantiated.
    pub target: InstantiationTarget,
    /// Where it stands.
    pub span: Span,
}

/// What an [`Instantiation`] instantiates.
#[derive(Clone, Debug, PartialEq)]
pub enum InstantiationTarget {
    /// `R f<args>(params)`: the path, the returned type and the parameter types. The template arguments may be left out when the
    /// parameters determine them.
    Function {
        /// `f<args>`
        path: Path,
        /// The returned type.
        ret: Ty,
        /// The parameters.
        params: Vec<Param>,
    },
    /// `decltype(f<args>) f<args>;` (or any other type name before the path): the declared type says nothing new.
    FunctionByType {
        /// `f<args>`
        path: Path,
        /// The type written before it.
        ty: Ty,
    },
    /// `struct X<args>`
    Record(Path),
}
