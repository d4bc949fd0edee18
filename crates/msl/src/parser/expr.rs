//! Expressions: operators and what comes after a primary.

use super::{PResult, Parser, library, types};
use crate::ast::{BinOp, CastKind, Expr, ExprKind, Ident, InitItem, Path, PathRoot, Segment, UnOp};
use crate::source::Span;
use crate::token::{Punct, TokenKind};

/// Precedence of binary operators; higher binds tighter.
fn binary_op(p: Punct) -> Option<(u8, BinOp)> {
    Some(match p {
        Punct::OrOr => (1, BinOp::Or),
        Punct::AndAnd => (2, BinOp::And),
        Punct::Pipe => (3, BinOp::BitOr),
        Punct::Caret => (4, BinOp::BitXor),
        Punct::Amp => (5, BinOp::BitAnd),
        Punct::EqEq => (6, BinOp::Eq),
        Punct::Ne => (6, BinOp::Ne),
        Punct::Lt => (7, BinOp::Lt),
        Punct::Gt => (7, BinOp::Gt),
        Punct::Le => (7, BinOp::Le),
        Punct::Ge => (7, BinOp::Ge),
        Punct::Shl => (8, BinOp::Shl),
        Punct::Shr => (8, BinOp::Shr),
        Punct::Plus => (9, BinOp::Add),
        Punct::Minus => (9, BinOp::Sub),
        Punct::Star => (10, BinOp::Mul),
        Punct::Slash => (10, BinOp::Div),
        Punct::Percent => (10, BinOp::Rem),
        _ => return None,
    })
}

/// `=` (`Some(None)`) and the compound assignments.
pub(super) fn assign_op(p: Punct) -> Option<Option<BinOp>> {
    Some(match p {
        Punct::Assign => None,
        Punct::AddAssign => Some(BinOp::Add),
        Punct::SubAssign => Some(BinOp::Sub),
        Punct::MulAssign => Some(BinOp::Mul),
        Punct::DivAssign => Some(BinOp::Div),
        Punct::RemAssign => Some(BinOp::Rem),
        Punct::AndAssign => Some(BinOp::BitAnd),
        Punct::OrAssign => Some(BinOp::BitOr),
        Punct::XorAssign => Some(BinOp::BitXor),
        Punct::ShlAssign => Some(BinOp::Shl),
        Punct::ShrAssign => Some(BinOp::Shr),
        _ => return None,
    })
}

/// The operator of a fold expression, and whether it assigns.
pub(super) fn fold_op(p: Punct) -> Option<(BinOp, bool)> {
    if p == Punct::Comma {
        return Some((BinOp::Comma, false));
    }
    if let Some((_, op)) = binary_op(p) {
        return Some((op, false));
    }
    assign_op(p).flatten().map(|op| (op, true))
}

impl Parser<'_> {
    /// An expression with commas.
    pub(super) fn expression(&mut self) -> PResult<Expr> {
        let mut left = self.assignment()?;
        let mut length = 0;
        while self.at(Punct::Comma) && !self.nth_is(1, Punct::Ellipsis) {
            length += 1;
            self.check_chain(length)?;
            self.bump();
            let right = self.assignment()?;
            left = binary(BinOp::Comma, left, right);
        }
        Ok(left)
    }

    /// An expression without commas at its top.
    pub(super) fn assignment(&mut self) -> PResult<Expr> {
        self.enter()?;
        let left = self.conditional()?;
        let result = match self.punct().and_then(assign_op) {
            Some(op) if !(self.nth_is(1, Punct::Ellipsis) || self.no_gt && self.at(Punct::ShrAssign)) => {
                self.bump();
                let right = if self.at(Punct::LBrace) {
                    self.init_list()?
                } else {
                    self.assignment()?
                };
                let span = left.span.to(right.span);
                Expr {
                    kind: ExprKind::Assign(op, Box::new(left), Box::new(right)),
                    span,
                }
            }
            _ => left,
        };
        self.leave();
        Ok(result)
    }

    /// `c ? a : b` and all that binds tighter.
    pub(super) fn conditional(&mut self) -> PResult<Expr> {
        self.enter()?;
        let cond = self.binary_from(1)?;
        if !self.at(Punct::Question) {
            self.leave();
            return Ok(cond);
        }
        let open = self.bump().span;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let yes = self.expression()?;
        self.no_gt = no_gt;
        if !self.at(Punct::Colon) {
            return self
                .expected("':'")
                .map_err(|d: Box<crate::Diagnostic>| Box::new(d.secondary(open, "the conditional begins here")));
        }
        self.bump();
        let no = self.assignment()?;
        self.leave();
        let span = cond.span.to(no.span);
        Ok(Expr {
            kind: ExprKind::Conditional(Box::new(cond), Box::new(yes), Box::new(no)),
            span,
        })
    }

    /// Binary operators of at least this precedence.
    fn binary_from(&mut self, min: u8) -> PResult<Expr> {
        let mut left = self.unary()?;
        let mut length = 0;
        while let Some((level, op)) = self.punct().and_then(binary_op) {
            if level < min || (self.no_gt && self.at_close_angle()) || self.nth_is(1, Punct::Ellipsis) {
                break;
            }
            length += 1;
            self.check_chain(length)?;
            self.bump();
            let right = self.binary_from(level + 1)?;
            left = binary(op, left, right);
        }
        Ok(left)
    }

    /// Prefix operators, casts and `sizeof`.
    pub(super) fn unary(&mut self) -> PResult<Expr> {
        self.enter()?;
        let result = self.unary_inner();
        self.leave();
        result
    }

    fn unary_inner(&mut self) -> PResult<Expr> {
        let start = self.span();
        if let Some(p) = self.punct() {
            let op = match p {
                Punct::Plus => Some(UnOp::Plus),
                Punct::Minus => Some(UnOp::Neg),
                Punct::Bang => Some(UnOp::Not),
                Punct::Tilde => Some(UnOp::BitNot),
                Punct::Star => Some(UnOp::Deref),
                Punct::Amp => Some(UnOp::AddrOf),
                Punct::PlusPlus => Some(UnOp::PreInc),
                Punct::MinusMinus => Some(UnOp::PreDec),
                _ => None,
            };
            if let Some(op) = op {
                self.bump();
                let operand = self.unary()?;
                let span = start.to(operand.span);
                return Ok(Expr {
                    kind: ExprKind::Unary(op, Box::new(operand)),
                    span,
                });
            }
            if p == Punct::LParen
                && let Some(cast) = self.c_cast()?
            {
                return Ok(cast);
            }
        }
        match self.word() {
            Some("__extension__") => {
                self.bump();
                self.unary()
            }
            Some("sizeof") => self.sizeof(start),
            Some("alignof" | "_Alignof" | "__alignof__") => {
                self.bump();
                let open = self.expect(Punct::LParen)?;
                let no_gt = std::mem::replace(&mut self.no_gt, false);
                let ty = self.type_id()?;
                self.no_gt = no_gt;
                self.expect_close(Punct::RParen, open)?;
                Ok(Expr {
                    kind: ExprKind::AlignofType(Box::new(ty)),
                    span: self.since(start),
                })
            }
            _ => {
                let primary = self.primary()?;
                self.postfix(primary)
            }
        }
    }

    /// `sizeof(T)`, `sizeof e`, `sizeof...(P)`
    fn sizeof(&mut self, start: Span) -> PResult<Expr> {
        self.bump();
        if self.eat(Punct::Ellipsis) {
            let open = self.expect(Punct::LParen)?;
            let name = self.ident("a parameter pack")?;
            self.expect_close(Punct::RParen, open)?;
            return Ok(Expr {
                kind: ExprKind::SizeofPack(name),
                span: self.since(start),
            });
        }
        if self.at(Punct::LParen) {
            let no_gt = self.no_gt;
            let ty = self.attempt(|p| {
                p.bump();
                p.no_gt = false;
                let named = p.peek().is_ident("typename");
                let ty = p.type_id()?;
                Ok((p.eat(Punct::RParen) && (named || p.is_certainly_type(&ty))).then_some(ty))
            });
            self.no_gt = no_gt;
            if let Some(ty) = ty {
                return Ok(Expr {
                    kind: ExprKind::SizeofType(Box::new(ty)),
                    span: self.since(start),
                });
            }
        }
        let e = self.unary()?;
        Ok(Expr {
            kind: ExprKind::SizeofExpr(Box::new(e)),
            span: self.since(start),
        })
    }

    /// `(T)e` when the parentheses hold a type.
    fn c_cast(&mut self) -> PResult<Option<Expr>> {
        let start = self.span();
        let next = self.peek_nth(1);
        let may = match next.ident() {
            Some(w) if types::is_keyword(w) => {
                self.pos += 1;
                let certain = self.at_certain_type();
                self.pos -= 1;
                certain
            }
            Some(w) => self.nth_is(2, Punct::ColonColon) || !self.scopes.kind(w).is_value(),
            None => next.is(Punct::ColonColon),
        };
        if !may {
            return Ok(None);
        }
        let no_gt = self.no_gt;
        let ty = self.attempt(|p| {
            p.bump();
            p.no_gt = false;
            let named = p.peek().is_ident("typename");
            let ty = p.type_id()?;
            if !p.eat(Punct::RParen) {
                return Ok(None);
            }
            let known = named || p.is_certainly_type(&ty);
            let next = p.peek();
            let operand = match &next.kind {
                TokenKind::Ident(w) => !matches!(w.as_str(), "and" | "or" | "xor"),
                TokenKind::Number(_) | TokenKind::Char(_) | TokenKind::Str(_) => true,
                TokenKind::Punct(Punct::Bang | Punct::Tilde) => true,
                TokenKind::Punct(
                    Punct::LParen
                    | Punct::Plus
                    | Punct::Minus
                    | Punct::Star
                    | Punct::Amp
                    | Punct::LBrace
                    | Punct::PlusPlus
                    | Punct::MinusMinus
                    | Punct::ColonColon
                    | Punct::LBracket,
                ) => known,
                _ => false,
            };
            Ok(operand.then_some(ty))
        });
        self.no_gt = no_gt;
        let Some(ty) = ty else { return Ok(None) };
        if self.at(Punct::LBrace) {
            // `(T){…}`: a compound literal means the same as `T{…}`.
            let args = self.braced_items()?;
            let kind = ExprKind::Construct {
                ty: Box::new(ty),
                args,
                braces: true,
            };
            let e = Expr {
                kind,
                span: self.since(start),
            };
            return self.postfix(e).map(Some);
        }
        let operand = self.unary()?;
        let span = start.to(operand.span);
        let kind = ExprKind::Cast {
            kind: CastKind::CStyle,
            ty: Box::new(ty),
            expr: Box::new(operand),
        };
        Ok(Some(Expr { kind, span }))
    }

    /// Calls, subscripts, members, `++` and `--` after a primary.
    pub(super) fn postfix(&mut self, mut e: Expr) -> PResult<Expr> {
        let mut length = 0;
        loop {
            length += 1;
            self.check_chain(length)?;
            let start = e.span;
            let kind = match self.punct() {
                Some(Punct::LParen) => {
                    let args = self.call_args()?;
                    ExprKind::Call {
                        callee: Box::new(e),
                        args,
                    }
                }
                Some(Punct::LBracket) => {
                    let indices = self.subscripts()?;
                    ExprKind::Index {
                        base: Box::new(e),
                        indices,
                    }
                }
                Some(Punct::Dot | Punct::Arrow) if self.peek_nth(1).is_ident("operator") => {
                    e = self.operator_call(e)?;
                    continue;
                }
                Some(Punct::Dot) => {
                    self.bump();
                    let member = self.member_name()?;
                    ExprKind::Member {
                        base: Box::new(e),
                        arrow: false,
                        member,
                    }
                }
                Some(Punct::Arrow) => {
                    self.bump();
                    let member = self.member_name()?;
                    ExprKind::Member {
                        base: Box::new(e),
                        arrow: true,
                        member,
                    }
                }
                Some(Punct::DotStar | Punct::ArrowStar) => {
                    return Err(super::refuse::unsupported("pointers to members are", self.span()));
                }
                Some(Punct::PlusPlus) => {
                    self.bump();
                    ExprKind::Unary(UnOp::PostInc, Box::new(e))
                }
                Some(Punct::MinusMinus) => {
                    self.bump();
                    ExprKind::Unary(UnOp::PostDec, Box::new(e))
                }
                _ => return Ok(e),
            };
            e = Expr {
                kind,
                span: self.since(start),
            };
        }
    }

    /// `x.operator+` names a member; `x.operator T()` is a conversion, the same as `static_cast<T>(x)`.
    fn operator_call(&mut self, base: Expr) -> PResult<Expr> {
        let start = base.span;
        let arrow = self.bump().is(Punct::Arrow);
        let (ident, conversion) = self.operator_name()?;
        let Some(ty) = conversion else {
            let args = if self.at(Punct::Lt) {
                self.try_template_args()
            } else {
                None
            };
            let span = self.since(ident.span);
            let segments = vec![Segment {
                ident,
                args,
                template_keyword: false,
            }];
            let member = Path {
                root: PathRoot::Scope,
                segments,
                span,
            };
            let kind = ExprKind::Member {
                base: Box::new(base),
                arrow,
                member,
            };
            return Ok(Expr {
                kind,
                span: self.since(start),
            });
        };
        let open = self.expect(Punct::LParen)?;
        self.expect_close(Punct::RParen, open)?;
        let object = if arrow {
            let span = base.span;
            Expr {
                kind: ExprKind::Unary(UnOp::Deref, Box::new(base)),
                span,
            }
        } else {
            base
        };
        let kind = ExprKind::Cast {
            kind: CastKind::Static,
            ty,
            expr: Box::new(object),
        };
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    /// `(a, {b}, c...)`
    pub(super) fn call_args(&mut self) -> PResult<Vec<Expr>> {
        let open = self.expect(Punct::LParen)?;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let mut args = Vec::new();
        while !self.at(Punct::RParen) {
            args.push(self.argument()?);
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RParen, open)?;
        self.no_gt = no_gt;
        Ok(args)
    }

    /// One argument: an expression, a braced list, a pack expansion.
    pub(super) fn argument(&mut self) -> PResult<Expr> {
        let e = if self.at(Punct::LBrace) {
            self.init_list()?
        } else {
            self.assignment()?
        };
        if self.at(Punct::Ellipsis) {
            let start = e.span;
            self.bump();
            return Ok(Expr {
                kind: ExprKind::PackExpansion(Box::new(e)),
                span: self.since(start),
            });
        }
        Ok(e)
    }

    fn subscripts(&mut self) -> PResult<Vec<Expr>> {
        let open = self.expect(Punct::LBracket)?;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let mut indices = Vec::new();
        while !self.at(Punct::RBracket) {
            indices.push(self.argument()?);
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        if indices.is_empty() {
            return self.expected("a subscript");
        }
        self.expect_close(Punct::RBracket, open)?;
        self.no_gt = no_gt;
        Ok(indices)
    }

    /// What follows `.` or `->`.
    fn member_name(&mut self) -> PResult<Path> {
        let start = self.span();
        let keyword = self.eat_word("template");
        if self.at(Punct::Tilde) {
            return Err(super::refuse::unsupported("calling a destructor is", self.span()));
        }
        let ident: Ident = self.ident("the name of a member")?;
        if self.at(Punct::ColonColon) && self.scopes.kind(&ident.name).is_type() {
            let mut path = self.path_after_root(PathRoot::Scope, start, false)?;
            path.segments.insert(
                0,
                Segment {
                    ident,
                    args: None,
                    template_keyword: keyword,
                },
            );
            return Ok(path);
        }
        let args = if !self.at(Punct::Lt) {
            None
        } else if keyword {
            Some(self.template_args()?)
        } else {
            match self.scopes.member_is_template(&ident.name) {
                Some(true) => Some(self.template_args()?),
                Some(false) if !library::member_template(&ident.name) => None,
                _ => self.try_template_args(),
            }
        };
        let segment = Segment {
            ident,
            args,
            template_keyword: keyword,
        };
        Ok(Path {
            root: PathRoot::Scope,
            segments: vec![segment],
            span: self.since(start),
        })
    }

    /// `{a, .x = b, [2] = c, {d}}`
    pub(super) fn init_list(&mut self) -> PResult<Expr> {
        let start = self.span();
        let items = self.braced_items()?;
        Ok(Expr {
            kind: ExprKind::InitList(items),
            span: self.since(start),
        })
    }

    pub(super) fn braced_items(&mut self) -> PResult<Vec<InitItem>> {
        self.enter()?;
        let open = self.expect(Punct::LBrace)?;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let mut items = Vec::new();
        while !self.at(Punct::RBrace) {
            let designator = self.designator()?;
            items.push(InitItem {
                designator,
                value: self.argument()?,
            });
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RBrace, open)?;
        self.no_gt = no_gt;
        self.leave();
        Ok(items)
    }

    fn designator(&mut self) -> PResult<Option<crate::ast::Designator>> {
        use crate::ast::Designator;
        if self.at(Punct::Dot) && self.peek_nth(1).ident().is_some() {
            self.bump();
            let name = self.ident("the name of a member")?;
            if !self.at(Punct::LBrace) {
                self.expect(Punct::Assign)?;
            }
            return Ok(Some(Designator::Field(name)));
        }
        if self.at(Punct::LBracket) {
            // `[2] = x` is a designator, `[](…)` and `[&]` begin a lambda.
            return Ok(self.attempt(|p| {
                p.bump();
                let first = p.conditional()?;
                let last = if p.eat(Punct::Ellipsis) {
                    Some(p.conditional()?)
                } else {
                    None
                };
                let closed = p.eat(Punct::RBracket) && p.eat(Punct::Assign);
                Ok(closed.then(|| match last {
                    Some(last) => Designator::Range(Box::new(first), Box::new(last)),
                    None => Designator::Index(Box::new(first)),
                }))
            }));
        }
        Ok(None)
    }
}

pub(super) fn binary(op: BinOp, left: Expr, right: Expr) -> Expr {
    let span = left.span.to(right.span);
    Expr {
        kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
        span,
    }
}
