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
//! Functions, records, enums, aliases, variables and lambdas are behind [`Arc`](std::sync::Arc), so that an
//! instantiation can hold on to its template without a lifetime.

mod decl;
mod expr;
mod name;
mod stmt;
mod ty;

pub use decl::*;
pub use expr::*;
pub use name::*;
pub use stmt::*;
pub use ty::*;
