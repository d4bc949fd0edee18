//! Declarations: namespaces, variables, functions, templates, records, enums, instantiations, and their attributes.

use std::sync::Arc;

use super::{Expr, FpPragma, Ident, Name, Path, Quals, Segment, Stmt, TemplateArg, Ty};
use crate::source::Span;

/// `[[name(args)]]`, `[[scope::name(args)]]`, `__attribute__((name(args)))` (scope `gnu`), `alignas(e)` (name `alignas`).
#[derive(Clone, Debug, PartialEq)]
pub struct Attr {
    /// The scope before `::`.
    pub scope: Option<Name>,
    /// The name.
    pub name: Name,
    /// The arguments. `alignas(T)` has [`ExprKind::AlignofType`](super::ExprKind::AlignofType).
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
    /// `{a, b}`: an [`ExprKind::InitList`](super::ExprKind::InitList)
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
    /// A block: a [`StmtKind::Compound`](super::StmtKind::Compound).
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
