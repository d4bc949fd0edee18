//! Paths with template arguments, and template headers.

use super::{PResult, Parser, types};
use crate::ast::{
    BinOp, Expr, ExprKind, Ident, Path, PathRoot, Segment, TemplateArg, TemplateArgKind, TemplateHeader, TemplateParam,
    TemplateParamKind,
};
use crate::source::Span;
use crate::token::{Punct, TokenKind};

use super::scope::NameKind;

impl Parser<'_> {
    /// A path. Where only a type can stand (`as_type`), `<` always begins template arguments; elsewhere the name decides.
    pub(super) fn path(&mut self, as_type: bool) -> PResult<Path> {
        let start = self.span();
        let root = if self.eat(Punct::ColonColon) {
            PathRoot::Global
        } else {
            PathRoot::Scope
        };
        self.path_segments(root, start, as_type)
    }

    /// The rest of a path after `decltype(e)`; the current token is `::`.
    pub(super) fn path_after_root(&mut self, root: PathRoot, start: Span, as_type: bool) -> PResult<Path> {
        self.expect(Punct::ColonColon)?;
        self.path_segments(root, start, as_type)
    }

    fn path_segments(&mut self, root: PathRoot, start: Span, as_type: bool) -> PResult<Path> {
        let mut segments: Vec<Segment> = Vec::new();
        loop {
            self.check_chain(segments.len())?;
            let template_keyword = !segments.is_empty() && self.eat_word("template");
            let ident = if self.at_word("operator") && !as_type {
                let (ident, conversion) = self.operator_name()?;
                if conversion.is_some() {
                    return Err(super::refuse::unsupported(
                        "naming a conversion operator is",
                        ident.span,
                    ));
                }
                ident
            } else {
                self.ident(if as_type { "a type" } else { "a name" })?
            };
            let args = if self.at(Punct::Lt) {
                self.maybe_template_args(&root, &segments, &ident, as_type, template_keyword)?
            } else {
                None
            };
            segments.push(Segment {
                ident,
                args,
                template_keyword,
            });
            let more = self.at(Punct::ColonColon)
                && (self.peek_nth(1).ident().is_some() && !self.peek_nth(1).is_ident("operator") || !as_type);
            if !more || self.nth_is(1, Punct::Star) || self.nth_is(1, Punct::Tilde) {
                return Ok(Path {
                    root,
                    segments,
                    span: self.since(start),
                });
            }
            self.bump();
        }
    }

    /// Template arguments when the `<` at this point begins some.
    fn maybe_template_args(
        &mut self,
        root: &PathRoot,
        before: &[Segment],
        ident: &Ident,
        as_type: bool,
        keyword: bool,
    ) -> PResult<Option<Vec<TemplateArg>>> {
        let mut names: Vec<_> = before.iter().map(|s| &s.ident.name).collect();
        names.push(&ident.name);
        let kind = self.scopes.path_kind(root, &names);
        if keyword || kind.is_template() {
            return self.template_args().map(Some);
        }
        match kind {
            NameKind::Value | NameKind::Namespace => Ok(None),
            _ if as_type => self.template_args().map(Some),
            _ => Ok(self.try_template_args()),
        }
    }

    /// Template arguments after an unknown name: only when they read as such and a call or the like follows.
    pub(super) fn try_template_args(&mut self) -> Option<Vec<TemplateArg>> {
        self.attempt(|p| {
            let args = p.template_args()?;
            if args.iter().any(looks_like_comparison) {
                return Ok(None);
            }
            let follows = matches!(
                p.punct(),
                Some(
                    Punct::LParen
                        | Punct::ColonColon
                        | Punct::LBrace
                        | Punct::RParen
                        | Punct::Comma
                        | Punct::Semi
                        | Punct::RBracket
                        | Punct::Gt
                        | Punct::Shr
                        | Punct::Dot
                )
            );
            Ok(follows.then_some(args))
        })
    }

    /// `<a, b, c>`
    pub(super) fn template_args(&mut self) -> PResult<Vec<TemplateArg>> {
        self.enter()?;
        let open = self.expect(Punct::Lt)?;
        let no_gt = std::mem::replace(&mut self.no_gt, true);
        let mut args = Vec::new();
        while !self.at_close_angle() {
            args.push(self.template_arg()?);
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.no_gt = no_gt;
        self.close_angle(open)?;
        self.leave();
        Ok(args)
    }

    pub(super) fn at_close_angle(&self) -> bool {
        matches!(
            self.punct(),
            Some(Punct::Gt | Punct::Shr | Punct::Ge | Punct::ShrAssign)
        )
    }

    /// Consumes one `>`, which may be the first half of a longer token.
    pub(super) fn close_angle(&mut self, open: Span) -> PResult<()> {
        match self.punct() {
            Some(Punct::Gt) => {
                self.bump();
                Ok(())
            }
            Some(Punct::Shr | Punct::Ge | Punct::ShrAssign) if !self.split => {
                self.split = true;
                Ok(())
            }
            _ => self
                .expected("'>'")
                .map_err(|d| Box::new(d.secondary(open, "to close this"))),
        }
    }

    fn template_arg(&mut self) -> PResult<TemplateArg> {
        let start = self.span();
        let ends = |p: &Self| p.at_close_angle() || p.at(Punct::Comma) || p.at(Punct::Ellipsis);
        let certain = self.at_certain_type();
        let ty = if certain || self.may_begin_type() {
            self.attempt(|p| {
                let ty = p.type_id()?;
                Ok(ends(p).then_some(ty))
            })
        } else {
            None
        };
        let kind = match ty {
            Some(ty) => match Self::bare_path(&ty) {
                Some(path) if !self.tokens_start_with_typename(start) => TemplateArgKind::Path(path.clone()),
                _ => TemplateArgKind::Type(ty),
            },
            None => {
                let e = self.conditional()?;
                match e.kind {
                    ExprKind::Path(path) => TemplateArgKind::Path(path),
                    _ => TemplateArgKind::Expr(e),
                }
            }
        };
        let is_pack = self.eat(Punct::Ellipsis);
        Ok(TemplateArg {
            kind,
            is_pack,
            span: self.since(start),
        })
    }

    /// Did the text from `start` on begin with `typename`?
    fn tokens_start_with_typename(&self, start: Span) -> bool {
        // Found by going back to the token at that place.
        let mut i = self.pos;
        while i > 0 && self.tokens[i - 1].span != start {
            i -= 1;
        }
        i > 0 && self.tokens[i - 1].is_ident("typename")
    }

    /// Could a type begin here at all?
    pub(super) fn may_begin_type(&self) -> bool {
        if self.at(Punct::ColonColon) {
            return true;
        }
        match self.word() {
            Some(w) if types::is_keyword(w) => self.at_certain_type(),
            Some(w) => self.nth_is(1, Punct::ColonColon) || self.scopes.kind(w) != NameKind::Value,
            None => false,
        }
    }

    /// A word that begins a type and nothing else (but for `float(x)`, `decltype(x)::v` and the like).
    pub(super) fn at_certain_type(&self) -> bool {
        self.at_qualifier()
            || self.word().is_some_and(|w| {
                types::is_arithmetic_word(w)
                    || matches!(
                        w,
                        "auto" | "decltype" | "typename" | "struct" | "class" | "union" | "enum"
                    )
            })
    }

    /// `template <…>`; the current token is `<`. Declares the parameters in the innermost scope.
    pub(super) fn template_header(&mut self, start: Span) -> PResult<TemplateHeader> {
        self.enter()?;
        let open = self.expect(Punct::Lt)?;
        let no_gt = std::mem::replace(&mut self.no_gt, true);
        let mut params = Vec::new();
        while !self.at_close_angle() {
            params.push(self.template_param()?);
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.no_gt = no_gt;
        self.close_angle(open)?;
        if self.at_word("requires") {
            super::refuse::keyword("requires", self.span())?;
        }
        self.leave();
        Ok(TemplateHeader {
            params,
            requires: None,
            span: self.since(start),
        })
    }

    fn template_param(&mut self) -> PResult<TemplateParam> {
        let start = self.span();
        if self.at_word("template") {
            return self.template_template_param(start);
        }
        // `typename T` is a type parameter; `typename T::type v` a value parameter.
        let type_param = matches!(self.word(), Some("class" | "typename"))
            && (self.peek_nth(1).ident().is_none_or(|n| !types::is_keyword(n)))
            && !matches!(self.peek_nth(2).kind, TokenKind::Punct(Punct::ColonColon | Punct::Lt))
            && !self.nth_is(1, Punct::ColonColon);
        if type_param {
            self.bump();
            let is_pack = self.eat(Punct::Ellipsis);
            let name = self.optional_name(NameKind::Type, is_pack);
            let default = if self.eat(Punct::Assign) {
                Some(self.type_id()?)
            } else {
                None
            };
            let kind = TemplateParamKind::Type(default);
            return Ok(TemplateParam {
                name,
                kind,
                is_pack,
                span: self.since(start),
            });
        }
        let base = self.type_specifiers_only()?;
        let mut is_pack = self.eat(Punct::Ellipsis);
        let d = self.declarator(base, super::Context::Block, true)?;
        is_pack |= self.eat(Punct::Ellipsis);
        let mut name = d.name.ident;
        if is_pack && name.is_none() {
            name = self.optional_name(NameKind::Value, true);
        }
        if let Some(n) = &name {
            if is_pack {
                self.scopes.declare_pack(&n.name, NameKind::Value);
            } else {
                self.scopes.declare(&n.name, NameKind::Value);
            }
        }
        let default = if self.eat(Punct::Assign) {
            Some(if self.at(Punct::LBrace) {
                self.init_list()?
            } else {
                self.conditional()?
            })
        } else {
            None
        };
        let kind = TemplateParamKind::Value(Box::new(d.ty), default);
        Ok(TemplateParam {
            name,
            kind,
            is_pack,
            span: self.since(start),
        })
    }

    fn template_template_param(&mut self, start: Span) -> PResult<TemplateParam> {
        self.bump();
        self.scopes.push();
        let header = self.template_header(start);
        self.scopes.pop();
        let header = header?;
        if !self.eat_word("class") && !self.eat_word("typename") {
            return self.expected("'class'");
        }
        let is_pack = self.eat(Punct::Ellipsis);
        let name = self.optional_name(NameKind::TypeTemplate, is_pack);
        let default = if self.eat(Punct::Assign) {
            Some(self.path(false)?)
        } else {
            None
        };
        let kind = TemplateParamKind::Template(Box::new(header), default);
        Ok(TemplateParam {
            name,
            kind,
            is_pack,
            span: self.since(start),
        })
    }

    fn optional_name(&mut self, kind: NameKind, is_pack: bool) -> Option<Ident> {
        let name = self.peek().ident().filter(|n| !types::is_keyword(n))?.clone();
        let span = self.bump().span;
        if is_pack {
            self.scopes.declare_pack(&name, kind);
        } else {
            self.scopes.declare(&name, kind);
        }
        Some(Ident { name, span })
    }
}

/// `a < b && c > (d)` reads as template arguments too; a logical operator gives it away.
fn looks_like_comparison(arg: &TemplateArg) -> bool {
    matches!(
        &arg.kind,
        TemplateArgKind::Expr(Expr {
            kind: ExprKind::Binary(
                BinOp::And | BinOp::Or | BinOp::Lt | BinOp::Gt | BinOp::Le | BinOp::Ge | BinOp::Eq | BinOp::Ne,
                ..
            ),
            ..
        })
    )
}
