//! Lambda expressions.

use std::sync::Arc;

use super::{PResult, Parser};
use crate::ast::{Capture, Expr, ExprKind, LambdaExpr};
use crate::token::Punct;

use super::scope::NameKind;

impl Parser<'_> {
    /// `[captures] <template> (params) specifiers -> T { body }`
    pub(super) fn lambda(&mut self) -> PResult<Expr> {
        self.enter()?;
        let scopes = self.scopes.mark();
        self.scopes.push();
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let result = self.lambda_inner();
        self.no_gt = no_gt;
        self.scopes.reset(scopes);
        self.leave();
        result
    }

    fn lambda_inner(&mut self) -> PResult<Expr> {
        let start = self.span();
        let open = self.expect(Punct::LBracket)?;
        let mut default_by_ref = None;
        let mut captures = Vec::new();
        while !self.at(Punct::RBracket) {
            if self.at(Punct::Amp) && matches!(self.peek_nth(1).text().as_str(), "]" | ",") {
                self.bump();
                default_by_ref = Some(true);
            } else if self.at(Punct::Assign) {
                self.bump();
                default_by_ref = Some(false);
            } else {
                let capture = self.capture()?;
                captures.push(capture);
            }
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RBracket, open)?;
        let template = if self.at(Punct::Lt) {
            Some(self.template_header(open)?)
        } else {
            None
        };
        let params = if self.at(Punct::LParen) {
            self.parameters()?
        } else {
            Vec::new()
        };
        let (mut is_mutable, mut is_constexpr) = (false, false);
        let mut attrs = Vec::new();
        loop {
            if self.eat_word("mutable") {
                is_mutable = true;
            } else if self.eat_word("constexpr") {
                is_constexpr = true;
            } else if self.eat_word("noexcept") {
                if self.at(Punct::LParen) {
                    self.skip_group();
                }
            } else if self.at_attribute() {
                self.attributes(&mut attrs)?;
            } else if self.at_qualifier() {
                // Metal lets a lambda's call operator carry an address space; it changes nothing here.
                self.qualifiers(&mut crate::ast::Quals::default())?;
            } else {
                break;
            }
        }
        let ret = if self.eat(Punct::Arrow) {
            Some(self.type_id()?)
        } else {
            None
        };
        if !self.at(Punct::LBrace) {
            return self.expected("the body of the lambda");
        }
        let body = self.compound()?;
        let span = self.since(start);
        let lambda = LambdaExpr {
            default_by_ref,
            captures,
            template,
            params,
            ret,
            is_mutable,
            is_constexpr,
            body,
            span,
        };
        Ok(Expr {
            kind: ExprKind::Lambda(Arc::new(lambda)),
            span,
        })
    }

    fn capture(&mut self) -> PResult<Capture> {
        if self.eat(Punct::Star) {
            if !self.eat_word("this") {
                return self.expected("'this'");
            }
            return Ok(Capture {
                name: None,
                by_ref: false,
                init: None,
                is_pack: false,
            });
        }
        if self.eat_word("this") {
            return Ok(Capture {
                name: None,
                by_ref: true,
                init: None,
                is_pack: false,
            });
        }
        let by_ref = self.eat(Punct::Amp);
        let mut is_pack = self.eat(Punct::Ellipsis);
        let name = self.ident("a captured variable")?;
        is_pack |= self.eat(Punct::Ellipsis);
        let init = if self.eat(Punct::Assign) {
            Some(self.assignment()?)
        } else if self.at(Punct::LBrace) {
            Some(self.init_list()?)
        } else {
            None
        };
        if init.is_some() {
            self.scopes.declare(&name.name, NameKind::Value);
        }
        Ok(Capture {
            name: Some(name),
            by_ref,
            init,
            is_pack,
        })
    }
}
