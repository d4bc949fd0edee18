//! Primary expressions: literals, names, parentheses and folds, casts by name, constructions.

use super::{PResult, Parser, expr, refuse, types};
use crate::ast::{CastKind, Expr, ExprKind, InitItem, Name, PathRoot, Ty, TyKind};
use crate::diagnostics::Diagnostic;
use crate::lexer;
use crate::source::Span;
use crate::token::{Punct, TokenKind};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> PResult<Expr> {
        let token = self.peek();
        let start = token.span;
        let kind = match &token.kind {
            TokenKind::Number(text) => {
                let kind = lexer::number(text, start)?;
                self.bump();
                kind
            }
            TokenKind::Char(text) => {
                let Some(value) = lexer::char_value(text) else {
                    return Err(Box::new(
                        Diagnostic::error("E0205", format!("invalid character literal {text}"), start)
                            .label("exactly one character is allowed"),
                    ));
                };
                self.bump();
                ExprKind::Char(value)
            }
            TokenKind::Str(_) => ExprKind::Str(self.string()),
            TokenKind::Ident(word) => return self.word_expression(word.as_str(), start),
            TokenKind::Punct(_) => match self.punct() {
                Some(Punct::LParen) => return self.parenthesised(start),
                Some(Punct::LBracket) => return self.lambda(),
                Some(Punct::ColonColon) => return self.path_expression(start),
                _ => return self.expected("an expression"),
            },
            _ => return self.expected("an expression"),
        };
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    /// Adjacent string literals, joined.
    pub(super) fn string(&mut self) -> Name {
        let mut text = String::new();
        while let TokenKind::Str(s) = &self.peek().kind {
            text.push_str(&lexer::unescape(s));
            self.bump();
        }
        Name::new(text)
    }

    fn word_expression(&mut self, word: &str, start: Span) -> PResult<Expr> {
        let kind = match word {
            "true" | "false" => {
                self.bump();
                ExprKind::Bool(word == "true")
            }
            "nullptr" => {
                self.bump();
                ExprKind::Nullptr
            }
            "this" => {
                self.bump();
                ExprKind::This
            }
            "static_cast" => return self.named_cast(CastKind::Static, start),
            "reinterpret_cast" => return self.named_cast(CastKind::Reinterpret, start),
            "const_cast" => return self.named_cast(CastKind::Const, start),
            "typename" => {
                let ty = self.type_specifiers_only()?;
                return self.construct(ty, start);
            }
            "decltype" => {
                let kind = self.decltype()?;
                if let (TyKind::Decltype(e), true) = (&kind, self.at(Punct::ColonColon)) {
                    let root = PathRoot::Decltype(e.clone());
                    let path = self.path_after_root(root, start, false)?;
                    return Ok(Expr {
                        kind: ExprKind::Path(path),
                        span: self.since(start),
                    });
                }
                let ty = self.plain(kind, start);
                return self.construct(ty, start);
            }
            "operator" => return self.path_expression(start),
            _ if types::is_arithmetic_word(word) => {
                let builtin = self.arithmetic()?;
                let ty = self.plain(TyKind::Builtin(builtin), start);
                return self.construct(ty, start);
            }
            _ if types::is_keyword(word) => {
                refuse::keyword(word, start)?;
                return Err(Box::new(
                    Diagnostic::error(
                        "E0301",
                        format!("expected an expression, found the keyword '{word}'"),
                        start,
                    )
                    .label("expected an expression"),
                ));
            }
            _ => return self.path_expression(start),
        };
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    /// An id-expression, or `X{…}`.
    fn path_expression(&mut self, start: Span) -> PResult<Expr> {
        let path = self.path(false)?;
        self.check_library(&path)?;
        if self.at(Punct::LBrace) && !self.kind_of(&path).is_value() {
            let ty = self.plain(TyKind::Path(path), start);
            return self.construct(ty, start);
        }
        Ok(Expr {
            kind: ExprKind::Path(path),
            span: self.since(start),
        })
    }

    /// `T(args)` or `T{items}` after a type.
    fn construct(&mut self, ty: Ty, start: Span) -> PResult<Expr> {
        let (args, braces) = if self.at(Punct::LBrace) {
            (self.braced_items()?, true)
        } else if self.at(Punct::LParen) {
            let args = self.call_args()?;
            (
                args.into_iter()
                    .map(|value| InitItem {
                        designator: None,
                        value,
                    })
                    .collect(),
                false,
            )
        } else {
            return self.expected("'(' or '{' after the type");
        };
        Ok(Expr {
            kind: ExprKind::Construct {
                ty: Box::new(ty),
                args,
                braces,
            },
            span: self.since(start),
        })
    }

    fn named_cast(&mut self, kind: CastKind, start: Span) -> PResult<Expr> {
        self.bump();
        let open = self.expect(Punct::Lt)?;
        let no_gt = std::mem::replace(&mut self.no_gt, true);
        let ty = self.type_id()?;
        self.close_angle(open)?;
        self.no_gt = false;
        let open = self.expect(Punct::LParen)?;
        let e = self.expression()?;
        self.expect_close(Punct::RParen, open)?;
        self.no_gt = no_gt;
        let kind = ExprKind::Cast {
            kind,
            ty: Box::new(ty),
            expr: Box::new(e),
        };
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    /// `(e)` or a fold expression.
    fn parenthesised(&mut self, start: Span) -> PResult<Expr> {
        let open = self.bump().span;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let kind = if self.eat(Punct::Ellipsis) {
            let Some((op, assign)) = self.punct().and_then(expr::fold_op) else {
                return self.expected("an operator after '...'");
            };
            self.bump();
            let pack = Box::new(self.unary()?);
            ExprKind::Fold {
                op,
                assign,
                pack,
                init: None,
                left: true,
            }
        } else {
            let first = self.pos;
            let e = self.expression()?;
            match self.punct().and_then(expr::fold_op) {
                Some((op, assign)) if self.nth_is(1, Punct::Ellipsis) => self.right_fold(e, first, op, assign)?,
                _ => ExprKind::Paren(Box::new(e)),
            }
        };
        self.expect_close(Punct::RParen, open)?;
        self.no_gt = no_gt;
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    /// `e op ...` and `e op ... op e`; the operator is the current token, `e` began at token `first`.
    fn right_fold(&mut self, e: Expr, first: usize, op: crate::ast::BinOp, assign: bool) -> PResult<ExprKind> {
        let has_pack = self.tokens[first..self.pos]
            .iter()
            .any(|t| t.ident().is_some_and(|n| self.scopes.is_pack(n)));
        self.bump();
        self.bump();
        if self.at(Punct::RParen) {
            return Ok(ExprKind::Fold {
                op,
                assign,
                pack: Box::new(e),
                init: None,
                left: false,
            });
        }
        let again = self.punct().and_then(expr::fold_op);
        if again != Some((op, assign)) {
            return self.expected("the same operator on both sides of '...'");
        }
        self.bump();
        let right = self.unary()?;
        let (pack, init, left) = if has_pack { (e, right, false) } else { (right, e, true) };
        Ok(ExprKind::Fold {
            op,
            assign,
            pack: Box::new(pack),
            init: Some(Box::new(init)),
            left,
        })
    }
}
