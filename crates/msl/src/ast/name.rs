//! Names, paths and the template arguments in them.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Expr, Ty};
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
    /// `operator T` with the type in [`FunctionKind::Conversion`](super::FunctionKind::Conversion); a destructor is `~X`.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
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
