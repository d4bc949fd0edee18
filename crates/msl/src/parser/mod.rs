//! Tokens to syntax tree, by recursive descent.
//!
//! C++ cannot be parsed without knowing which names are types and templates, so the parser keeps a table of declared names
//! ([`scope`]) beside what the Metal library declares ([`library`]). Where a name is not known (a member of a
//! template parameter, say) it tries one reading and goes back to the other. Going back costs fuel, and nesting is counted:
//! a hostile source runs out of either and gets an error.
//!
//! Bodies of member functions are read after the whole record, as the language wants it.

mod attr;
mod decl;
mod declarator;
mod expr;
mod function;
mod lambda;
mod library;
mod primary;
mod record;
mod refuse;
mod scope;
mod stmt;
mod template;
#[cfg(test)]
mod tests;
mod types;

use crate::ast::{Decl, Ident, Name, Path};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Punct, Token, TokenKind};

pub(crate) use refuse::Available;
use scope::Scopes;

/// Nesting of expressions, types, statements and declarations, and length of operator chains.
pub const MAX_DEPTH: usize = 400;

pub(crate) type PResult<T> = Result<T, Box<Diagnostic>>;

/// Where a declaration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Namespace,
    Record,
    Block,
}

/// A point to go back to.
#[derive(Clone, Copy)]
struct Mark {
    pos: usize,
    split: bool,
    no_gt: bool,
    depth: usize,
}

pub(crate) struct Parser<'t> {
    tokens: &'t [Token],
    pos: usize,
    /// The first half of the current `>>`, `>=` or `>>=` has been consumed as a closing angle bracket.
    split: bool,
    /// Inside template arguments: `>` closes.
    no_gt: bool,
    depth: usize,
    fuel: usize,
    steps: u64,
    scopes: Scopes,
    available: Available,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    max_errors: usize,
    /// Bodies of member functions of the records being read.
    pending: Vec<record::Pending>,
    /// Template headers of the declaration whose specifiers are being read, for a record among them.
    record_headers: decl::Headers,
}

/// Parses a whole token list, which ends with [`TokenKind::Eof`].
pub(crate) fn parse_tokens(tokens: &[Token], available: Available, max_errors: usize) -> (Vec<Decl>, Vec<Diagnostic>) {
    let (decls, diagnostics, _) = parse_counted(tokens, available, max_errors);
    (decls, diagnostics)
}

/// The same with the work that it took: tokens consumed and levels entered, those of readings that were given up among them.
fn parse_counted(tokens: &[Token], available: Available, max_errors: usize) -> (Vec<Decl>, Vec<Diagnostic>, u64) {
    let mut parser = Parser {
        tokens,
        pos: 0,
        split: false,
        no_gt: false,
        depth: 0,
        fuel: fuel(tokens.len()),
        steps: 0,
        scopes: Scopes::new(),
        available,
        diagnostics: Vec::new(),
        errors: 0,
        max_errors: max_errors.max(1),
        pending: Vec::new(),
        record_headers: Vec::new(),
    };
    let mut decls = Vec::new();
    while !parser.at_eof() && parser.errors < parser.max_errors {
        parser.namespace_member(&mut decls);
    }
    (decls, parser.diagnostics, parser.steps)
}

/// How many tokens may be consumed, again and again, before an ambiguous source is given up. (Real sources consume each of their tokens
/// about twice.)
fn fuel(tokens: usize) -> usize {
    tokens.saturating_mul(60).saturating_add(100_000)
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &'t Token {
        &self.tokens[self.pos.min(self.tokens.len() - 1)]
    }

    fn peek_nth(&self, n: usize) -> &'t Token {
        &self.tokens[(self.pos + n).min(self.tokens.len() - 1)]
    }

    fn at_eof(&self) -> bool {
        matches!(self.peek().kind, TokenKind::Eof)
    }

    /// The current punctuator, with a half-consumed `>>` seen as `>`.
    fn punct(&self) -> Option<Punct> {
        let TokenKind::Punct(p) = self.peek().kind else {
            return None;
        };
        Some(match (self.split, p) {
            (false, p) => p,
            (true, Punct::Shr) => Punct::Gt,
            (true, Punct::ShrAssign) => Punct::Ge,
            (true, _) => Punct::Assign,
        })
    }

    fn at(&self, punct: Punct) -> bool {
        self.punct() == Some(punct)
    }

    fn nth_is(&self, n: usize, punct: Punct) -> bool {
        self.peek_nth(n).is(punct)
    }

    /// Is the current token this word?
    fn at_word(&self, word: &str) -> bool {
        self.peek().is_ident(word)
    }

    /// The current identifier or keyword.
    fn word(&self) -> Option<&'t str> {
        self.peek().ident().map(Name::as_str)
    }

    fn bump(&mut self) -> &'t Token {
        let token = self.peek();
        self.split = false;
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
        self.fuel = self.fuel.saturating_sub(1);
        self.steps += 1;
        token
    }

    fn eat(&mut self, punct: Punct) -> bool {
        let hit = self.at(punct);
        if hit {
            self.bump();
        }
        hit
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let hit = self.at_word(word);
        if hit {
            self.bump();
        }
        hit
    }

    fn span(&self) -> Span {
        self.peek().span
    }

    /// The span of the last consumed token.
    fn last_span(&self) -> Span {
        self.tokens[self.pos.saturating_sub(1)].span
    }

    /// From a start to the last consumed token.
    fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    fn mark(&self) -> Mark {
        Mark {
            pos: self.pos,
            split: self.split,
            no_gt: self.no_gt,
            depth: self.depth,
        }
    }

    fn reset(&mut self, mark: Mark) {
        self.pos = mark.pos;
        self.split = mark.split;
        self.no_gt = mark.no_gt;
        self.depth = mark.depth;
    }

    /// Runs `f`; goes back when it gives nothing.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> PResult<Option<T>>) -> Option<T> {
        let mark = self.mark();
        let scopes = self.scopes.mark();
        match f(self) {
            Ok(Some(value)) => Some(value),
            _ => {
                self.reset(mark);
                self.scopes.reset(scopes);
                None
            }
        }
    }

    /// Counts one level of nesting; pair with [`Parser::leave`].
    fn enter(&mut self) -> PResult<()> {
        self.depth += 1;
        self.steps += 1;
        if self.fuel == 0 {
            return Err(Box::new(
                Diagnostic::error("E0302", "this source is too ambiguous to parse", self.span())
                    .label("gave up here")
                    .help("break up deeply nested template arguments and casts"),
            ));
        }
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn too_deep(&self) -> Box<Diagnostic> {
        Box::new(
            Diagnostic::error(
                "E0303",
                format!("the source is nested more than {MAX_DEPTH} levels deep"),
                self.span(),
            )
            .label("at this point")
            .help("this is a limit of the compiler, not of Metal: name parts of the expression, or move inner blocks into functions"),
        )
    }

    /// A chain of operators grows the tree as nesting does.
    fn check_chain(&self, length: usize) -> PResult<()> {
        if self.depth + length > MAX_DEPTH {
            Err(self.too_deep())
        } else {
            Ok(())
        }
    }

    /// The error for a token that does not fit. A missing closing token is reported at the end of the one before.
    fn expected<T>(&self, what: &str) -> PResult<T> {
        let token = self.peek();
        let found = token.describe();
        let missing = matches!(what, "';'" | "')'" | "']'" | "'}'" | "'>'" | "','");
        let previous = self.last_span();
        if missing && self.pos > 0 && (token.line_start || matches!(token.kind, TokenKind::Eof)) {
            return Err(Box::new(
                Diagnostic::error("E0301", format!("expected {what}, found {found}"), previous.end())
                    .label(format!("{what} is missing here")),
            ));
        }
        if let TokenKind::Stray(c) = token.kind {
            return Err(Box::new(
                Diagnostic::error(
                    "E0204",
                    format!("stray character '{}' in the source", c.escape_debug()),
                    token.span,
                )
                .label("not part of the language"),
            ));
        }
        Err(Box::new(
            Diagnostic::error("E0301", format!("expected {what}, found {found}"), token.span)
                .label(format!("expected {what}")),
        ))
    }

    fn expect(&mut self, punct: Punct) -> PResult<Span> {
        if self.at(punct) {
            Ok(self.bump().span)
        } else {
            let what = format!("'{}'", punct.spelling());
            self.expected(&what)
        }
    }

    /// A closing bracket, with the opening one shown when it is missing.
    fn expect_close(&mut self, punct: Punct, open: Span) -> PResult<Span> {
        self.expect(punct)
            .map_err(|d| Box::new(d.secondary(open, "to close this")))
    }

    /// An identifier that is no keyword.
    fn ident(&mut self, what: &str) -> PResult<Ident> {
        match self.peek().ident() {
            Some(name) if !types::is_keyword(name) => {
                let span = self.bump().span;
                Ok(Ident {
                    name: name.clone(),
                    span,
                })
            }
            Some(name) => {
                refuse::keyword(name, self.span())?;
                Err(Box::new(
                    Diagnostic::error(
                        "E0301",
                        format!("expected {what}, found the keyword '{name}'"),
                        self.span(),
                    )
                    .label(format!("expected {what}")),
                ))
            }
            None => self.expected(what),
        }
    }

    /// Refuses a path of the library that cannot be used: by name, or for want of its header.
    fn check_library(&self, path: &Path) -> PResult<()> {
        let (Some(first), last) = (path.segments.first(), path.last()) else {
            return Ok(());
        };
        let library = path.segments.len() == 1 || matches!(first.ident.name.as_str(), "metal" | "mpp" | "tensor_ops");
        if !library || self.scopes.is_declared(&last.ident.name) {
            return Ok(());
        }
        refuse::type_name(&last.ident.name, path.span)?;
        self.available.check(&last.ident.name, path.span)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if diagnostic.is_error() {
            self.errors += 1;
        }
        self.diagnostics.push(diagnostic);
    }

    /// Skips a balanced group whose opening bracket is the current token; stops at the end of the input.
    fn skip_group(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.punct() {
                Some(Punct::LParen | Punct::LBracket | Punct::LBrace) => depth += 1,
                Some(Punct::RParen | Punct::RBracket | Punct::RBrace) => depth = depth.saturating_sub(1),
                _ => {}
            }
            if self.at_eof() {
                return;
            }
            self.bump();
            if depth == 0 {
                return;
            }
        }
    }

    /// After an error in a declaration that began at token `start`: skips it as a whole, up to its `;` or its block. Stops
    /// before a `}` of the level around it.
    fn recover(&mut self, start: usize) {
        self.pos = start;
        self.split = false;
        self.no_gt = false;
        loop {
            if self.at_eof() {
                return;
            }
            match self.punct() {
                Some(Punct::Semi) => {
                    self.bump();
                    return;
                }
                Some(Punct::RBrace) => return,
                Some(Punct::LBrace) => {
                    self.skip_group();
                    // `struct X { … } x;` goes on, a function does not.
                    let goes_on = self.at(Punct::Semi) || self.at(Punct::Comma) || self.at(Punct::Assign);
                    let declarator = self.peek().ident().is_some_and(|n| !types::is_keyword(n))
                        && (self.nth_is(1, Punct::Semi) || self.nth_is(1, Punct::Assign));
                    if !goes_on && !declarator {
                        return;
                    }
                }
                Some(Punct::LParen | Punct::LBracket) => self.skip_group(),
                _ => {
                    self.bump();
                }
            }
        }
    }
}
