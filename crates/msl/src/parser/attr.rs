//! Attributes: `[[…]]`, `__attribute__((…))`, `alignas(…)`.

use super::{PResult, Parser, refuse};
use crate::ast::{Attr, Expr, ExprKind, Name};
use crate::token::{Punct, TokenKind};

impl Parser<'_> {
    pub(super) fn at_attribute(&self) -> bool {
        (self.at(Punct::LBracket) && self.nth_is(1, Punct::LBracket))
            || matches!(
                self.word(),
                Some("__attribute__" | "__attribute" | "alignas" | "_Alignas")
            )
    }

    /// All attributes at this point.
    pub(super) fn attributes(&mut self, out: &mut Vec<Attr>) -> PResult<()> {
        while self.at_attribute() {
            if self.at(Punct::LBracket) {
                self.bracket_attributes(out)?;
            } else if matches!(self.word(), Some("alignas" | "_Alignas")) {
                self.alignas(out)?;
            } else {
                self.gnu_attributes(out)?;
            }
        }
        Ok(())
    }

    /// `[[a, b(c), d::e]]`
    fn bracket_attributes(&mut self, out: &mut Vec<Attr>) -> PResult<()> {
        let open = self.bump().span;
        self.bump();
        let mut prefix: Option<Name> = None;
        if self.at_word("using") && self.nth_is(2, Punct::Colon) {
            self.bump();
            prefix = self.peek().ident().cloned();
            self.bump();
            self.bump();
        }
        loop {
            while self.eat(Punct::Comma) {}
            if self.at(Punct::RBracket) {
                break;
            }
            let attr = self.one_attribute(prefix.clone())?;
            if attr.scope.is_none() {
                refuse::attribute(&attr.name, attr.span)?;
            }
            out.push(attr);
            if !self.at(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RBracket, open)?;
        self.expect_close(Punct::RBracket, open)?;
        Ok(())
    }

    fn one_attribute(&mut self, mut scope: Option<Name>) -> PResult<Attr> {
        let start = self.span();
        // Keywords are good names here: `[[kernel]]`, `[[threadgroup(0)]]`.
        let Some(mut name) = self.peek().ident().cloned() else {
            return self.expected("an attribute");
        };
        self.bump();
        if self.eat(Punct::ColonColon) {
            let Some(second) = self.peek().ident().cloned() else {
                return self.expected("an attribute");
            };
            self.bump();
            scope = Some(name);
            name = second;
        }
        let args = self.attribute_arguments()?;
        self.eat(Punct::Ellipsis);
        Ok(Attr {
            scope,
            name,
            args,
            span: self.since(start),
        })
    }

    /// The arguments when there are any. Those that are no expressions are left out.
    fn attribute_arguments(&mut self) -> PResult<Vec<Expr>> {
        let mut args = Vec::new();
        if !self.at(Punct::LParen) {
            return Ok(args);
        }
        let mark = self.mark();
        let open = self.bump().span;
        self.no_gt = false;
        while !self.at(Punct::RParen) {
            match self.assignment() {
                Ok(e) => args.push(e),
                Err(d) => {
                    // Attributes of other compilers take other things than expressions.
                    if matches!(self.peek().kind, TokenKind::Eof) {
                        return Err(d);
                    }
                    self.reset(mark);
                    self.skip_group();
                    return Ok(Vec::new());
                }
            }
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RParen, open)?;
        self.no_gt = mark.no_gt;
        Ok(args)
    }

    /// `__attribute__((a, b(c)))`
    fn gnu_attributes(&mut self, out: &mut Vec<Attr>) -> PResult<()> {
        self.bump();
        let open = self.expect(Punct::LParen)?;
        self.expect(Punct::LParen)?;
        while !self.at(Punct::RParen) {
            if self.eat(Punct::Comma) {
                continue;
            }
            out.push(self.one_attribute(Some(Name::from("gnu")))?);
        }
        self.expect_close(Punct::RParen, open)?;
        self.expect_close(Punct::RParen, open)?;
        Ok(())
    }

    /// `alignas(16)`, `alignas(T)`
    fn alignas(&mut self, out: &mut Vec<Attr>) -> PResult<()> {
        let start = self.bump().span;
        let open = self.expect(Punct::LParen)?;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let inner = self.span();
        let ty = self.attempt(|p| {
            let ty = p.type_id()?;
            Ok((p.at(Punct::RParen) && p.is_certainly_type(&ty)).then_some(ty))
        });
        let arg = match ty {
            Some(ty) => Expr {
                kind: ExprKind::AlignofType(Box::new(ty)),
                span: self.since(inner),
            },
            None => self.assignment()?,
        };
        self.no_gt = no_gt;
        self.expect_close(Punct::RParen, open)?;
        out.push(Attr {
            scope: None,
            name: Name::from("alignas"),
            args: vec![arg],
            span: self.since(start),
        });
        Ok(())
    }
}
