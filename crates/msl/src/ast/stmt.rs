//! Statements, and the pragmas that stand among them.

use std::sync::Arc;

use super::{Decl, Expr, VarDecl};
use crate::source::Span;

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
