//! The Metal Shading Language front end: source text in, kernel IR out.
//!
//! Text goes through the preprocessor and the lexer to the parser, which yields the tree of [`ast`].
//! Everything a user may see goes through [`diagnostics`].

pub mod ast;
pub mod diagnostics;
pub mod headers;
pub mod lexer;
pub mod options;
pub mod preprocessor;
pub mod sema;
pub mod source;
pub mod token;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use options::{CompileOptions, MetalStd};

/// A parsed translation unit.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The declarations of the source and of every file it includes, in order.
    pub decls: Vec<ast::Decl>,
    /// The files and macro expansions the spans point into.
    pub sources: Arc<source::SourceMap>,
    /// The embedded headers that were included, directly or through another, by the name between the brackets: `metal_tensor`.
    pub system_headers: BTreeSet<String>,
    /// Warnings so far.
    pub warnings: Vec<Diagnostic>,
    /// The options it was parsed with.
    pub options: CompileOptions,
}
