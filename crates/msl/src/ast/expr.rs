//! Expressions, lambdas among them.

use std::sync::Arc;

use super::{Ident, Name, Param, Path, Stmt, TemplateHeader, Ty};
use crate::source::Span;

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
    /// `f(args)`; see the first convention of the [syntax tree](super).
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
    /// The body, a [`StmtKind::Compound`](super::StmtKind::Compound).
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
