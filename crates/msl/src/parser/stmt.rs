//! Statements.

use super::{Context, PResult, Parser, refuse, types};
use crate::ast::{Condition, Decl, Expr, LoopHints, Stmt, StmtKind, Unroll};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Pragma, Punct, Token, TokenKind};

use super::scope::NameKind;

impl Parser<'_> {
    /// `{ … }` with a scope of its own. Errors inside are reported one statement at a time.
    pub(super) fn compound(&mut self) -> PResult<Stmt> {
        self.enter()?;
        let scopes = self.scopes.mark();
        self.scopes.push();
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let result = self.compound_inner();
        self.no_gt = no_gt;
        self.scopes.reset(scopes);
        self.leave();
        result
    }

    fn compound_inner(&mut self) -> PResult<Stmt> {
        let start = self.expect(Punct::LBrace)?;
        let mut body = Vec::new();
        while !self.at(Punct::RBrace) {
            if self.at_eof() {
                self.expect_close(Punct::RBrace, start)?;
            }
            let mark = self.mark();
            let scopes = self.scopes.mark();
            match self.statement() {
                Ok(stmt) => body.push(stmt),
                Err(d) => {
                    let hopeless = matches!(d.code, "E0302" | "E0303");
                    if hopeless || self.errors + 1 >= self.max_errors {
                        return Err(d);
                    }
                    self.report(*d);
                    self.depth = mark.depth;
                    self.scopes.reset(scopes);
                    let at = self.pos;
                    self.recover_statement(mark.pos);
                    if self.pos == at && self.pos == mark.pos {
                        self.bump();
                    }
                }
            }
        }
        self.bump();
        Ok(Stmt {
            kind: StmtKind::Compound(body),
            span: self.since(start),
        })
    }

    /// After an error in a statement: goes back to its start and skips to its end.
    fn recover_statement(&mut self, start: usize) {
        let failed = self.pos;
        self.pos = start;
        self.split = false;
        self.no_gt = false;
        let mut parens = 0usize;
        loop {
            if self.at_eof() {
                return;
            }
            match self.punct() {
                Some(Punct::LParen | Punct::LBracket) => {
                    parens += 1;
                    self.bump();
                }
                Some(Punct::RParen | Punct::RBracket) => {
                    parens = parens.saturating_sub(1);
                    self.bump();
                }
                // A missing ')' must not swallow the rest of the block.
                Some(Punct::Semi) if parens == 0 || self.pos >= failed => {
                    self.bump();
                    return;
                }
                Some(Punct::RBrace) => return,
                Some(Punct::LBrace) => {
                    self.skip_group();
                    if parens == 0 && self.pos > failed && !self.at(Punct::RParen) && !self.at(Punct::Comma) {
                        self.eat(Punct::Semi);
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    /// One statement or declaration.
    pub(super) fn statement(&mut self) -> PResult<Stmt> {
        self.enter()?;
        let result = self.statement_inner();
        self.leave();
        result
    }

    fn statement_inner(&mut self) -> PResult<Stmt> {
        let start = self.span();
        if let TokenKind::Pragma(pragma) = &self.peek().kind {
            if let Pragma::Fp(fp) = **pragma {
                self.bump();
                return Ok(Stmt {
                    kind: StmtKind::FpPragma(fp),
                    span: start,
                });
            }
            return self.hinted_loop();
        }
        if self.at(Punct::LBracket) && self.nth_is(1, Punct::LBracket) && !self.attributes_before_declaration() {
            let mut attrs = Vec::new();
            self.attributes(&mut attrs)?;
            return self.statement();
        }
        match self.punct() {
            Some(Punct::LBrace) => return self.compound(),
            Some(Punct::Semi) => {
                self.bump();
                return Ok(Stmt {
                    kind: StmtKind::Empty,
                    span: start,
                });
            }
            _ => {}
        }
        let kind = match self.word() {
            Some("if") => self.if_statement()?,
            Some("while" | "for" | "do") => self.loop_statement(LoopHints::default())?,
            Some("switch") => self.switch_statement()?,
            Some("case") => {
                self.bump();
                let e = self.conditional()?;
                self.expect(Punct::Colon)?;
                StmtKind::Case(e)
            }
            Some("default") if self.nth_is(1, Punct::Colon) => {
                self.bump();
                self.bump();
                StmtKind::Default
            }
            Some("break") => {
                self.bump();
                self.expect(Punct::Semi)?;
                StmtKind::Break
            }
            Some("continue") => {
                self.bump();
                self.expect(Punct::Semi)?;
                StmtKind::Continue
            }
            Some("return") => {
                self.bump();
                let value = match self.punct() {
                    Some(Punct::Semi) => None,
                    Some(Punct::LBrace) => Some(self.init_list()?),
                    _ => Some(self.expression()?),
                };
                self.expect(Punct::Semi)?;
                StmtKind::Return(value)
            }
            Some(word @ ("goto" | "try" | "throw" | "asm" | "__asm" | "__asm__" | "delete" | "new" | "co_return")) => {
                refuse::keyword(word, start)?;
                return self.expected("a statement");
            }
            Some("else") => {
                return Err(Box::new(
                    Diagnostic::error("E0306", "'else' without 'if'", start).label("no 'if' before it"),
                ));
            }
            Some(word) if self.nth_is(1, Punct::Colon) && !types::is_keyword(word) => {
                return Err(refuse::unsupported_help(
                    "a label is",
                    start,
                    "use a loop with 'break' or 'continue'",
                ));
            }
            _ if self.at_declaration() => StmtKind::Decl(self.block_declaration()?),
            _ => {
                let e = self.expression()?;
                self.expect(Punct::Semi)?;
                StmtKind::Expr(e)
            }
        };
        Ok(Stmt {
            kind,
            span: self.since(start),
        })
    }

    fn attributes_before_declaration(&mut self) -> bool {
        let mark = self.mark();
        while self.at(Punct::LBracket) && self.nth_is(1, Punct::LBracket) {
            self.skip_group();
        }
        let declares = self.at_declaration();
        self.reset(mark);
        declares
    }

    /// Loops with unroll pragmas before them.
    fn hinted_loop(&mut self) -> PResult<Stmt> {
        let start = self.span();
        let mut hints = LoopHints::default();
        while let TokenKind::Pragma(pragma) = &self.peek().kind {
            let span = self.span();
            let unroll = match &**pragma {
                Pragma::UnrollFull => Unroll::Full,
                Pragma::UnrollEnable => Unroll::Enable,
                Pragma::UnrollDisable => Unroll::Disable,
                Pragma::UnrollCount(tokens) => Unroll::Count(Box::new(self.pragma_expression(tokens, span)?)),
                Pragma::Fp(_) => break,
            };
            self.bump();
            hints.unroll = Some((unroll, span));
        }
        if matches!(self.word(), Some("for" | "while" | "do")) {
            let kind = self.loop_statement(hints)?;
            return Ok(Stmt {
                kind,
                span: self.since(start),
            });
        }
        if let Some((_, span)) = hints.unroll {
            self.report(
                Diagnostic::warning("W0301", "this pragma stands before something that is not a loop", span)
                    .label("ignored"),
            );
        }
        if self.at(Punct::RBrace) {
            return Ok(Stmt {
                kind: StmtKind::Empty,
                span: start,
            });
        }
        self.statement()
    }

    /// The count in an unroll pragma.
    fn pragma_expression(&mut self, tokens: &[Token], span: Span) -> PResult<Expr> {
        let mut list: Vec<Token> = tokens.to_vec();
        list.push(Token::new(TokenKind::Eof, span.end()));
        let mut inner = Parser {
            tokens: &list,
            pos: 0,
            split: false,
            no_gt: false,
            depth: self.depth,
            fuel: self.fuel,
            steps: 0,
            scopes: std::mem::replace(&mut self.scopes, super::scope::Scopes::new()),
            available: self.available,
            diagnostics: Vec::new(),
            errors: 0,
            max_errors: 1,
            pending: Vec::new(),
            record_headers: Vec::new(),
        };
        let result = inner.conditional();
        let finished = inner.at_eof();
        self.scopes = std::mem::replace(&mut inner.scopes, super::scope::Scopes::new());
        self.fuel = inner.fuel;
        self.steps += inner.steps;
        let e = result?;
        if !finished {
            return Err(Box::new(Diagnostic::error(
                "E0301",
                "the unroll count is not one expression",
                span,
            )));
        }
        Ok(e)
    }

    fn loop_statement(&mut self, hints: LoopHints) -> PResult<StmtKind> {
        let scopes = self.scopes.mark();
        self.scopes.push();
        let word = self.word();
        let result = match word {
            Some("while") => self.while_statement(hints),
            Some("do") => self.do_statement(hints),
            _ => self.for_statement(hints),
        };
        self.scopes.reset(scopes);
        result
    }

    fn while_statement(&mut self, hints: LoopHints) -> PResult<StmtKind> {
        self.bump();
        let open = self.expect(Punct::LParen)?;
        let cond = self.condition()?;
        self.expect_close(Punct::RParen, open)?;
        let body = Box::new(self.statement()?);
        Ok(StmtKind::While { cond, body, hints })
    }

    fn do_statement(&mut self, hints: LoopHints) -> PResult<StmtKind> {
        self.bump();
        let body = Box::new(self.statement()?);
        if !self.eat_word("while") {
            return self.expected("'while' after the body of 'do'");
        }
        let open = self.expect(Punct::LParen)?;
        let cond = self.expression()?;
        self.expect_close(Punct::RParen, open)?;
        self.expect(Punct::Semi)?;
        Ok(StmtKind::DoWhile { body, cond, hints })
    }

    fn for_statement(&mut self, hints: LoopHints) -> PResult<StmtKind> {
        self.bump();
        let open = self.expect(Punct::LParen)?;
        let start = self.span();
        let init_kind = if self.eat(Punct::Semi) {
            StmtKind::Empty
        } else if self.at_declaration() {
            let decls = self.declaration_without_semicolon(Context::Block)?;
            if self.at(Punct::Colon) {
                return self.range_for(open, &decls, hints);
            }
            self.expect(Punct::Semi)?;
            StmtKind::Decl(decls)
        } else {
            let e = self.expression()?;
            self.expect(Punct::Semi)?;
            StmtKind::Expr(e)
        };
        let init = Box::new(Stmt {
            kind: init_kind,
            span: self.since(start),
        });
        let cond = if self.at(Punct::Semi) {
            None
        } else {
            Some(self.condition()?)
        };
        self.expect(Punct::Semi)?;
        let step = if self.at(Punct::RParen) {
            None
        } else {
            Some(self.expression()?)
        };
        self.expect_close(Punct::RParen, open)?;
        let body = Box::new(self.statement()?);
        Ok(StmtKind::For {
            init,
            cond,
            step,
            body,
            hints,
        })
    }

    /// `: range) body` of a `for` over the elements of an array.
    fn range_for(&mut self, open: Span, decls: &[Decl], hints: LoopHints) -> PResult<StmtKind> {
        let [Decl::Var(var)] = decls else {
            return self.expected("one variable before ':'");
        };
        if var.init.is_some() {
            return self.expected("';': a variable before ':' has no initialiser");
        }
        self.expect(Punct::Colon)?;
        let range = if self.at(Punct::LBrace) {
            self.init_list()?
        } else {
            self.expression()?
        };
        self.expect_close(Punct::RParen, open)?;
        let body = Box::new(self.statement()?);
        Ok(StmtKind::RangeFor {
            var: var.clone(),
            range,
            body,
            hints,
        })
    }

    /// The condition of `if`, `while`, `for`, `switch`.
    fn condition(&mut self) -> PResult<Condition> {
        if !self.at_declaration() {
            return self.expression().map(Condition::Expr);
        }
        let decls = self.declaration_without_semicolon(Context::Block)?;
        match decls.as_slice() {
            [Decl::Var(var)] => Ok(Condition::Var(var.clone())),
            _ => self.expected("one variable in the condition"),
        }
    }

    /// `init;` before the condition, when there is one.
    fn init_statement(&mut self) -> PResult<Option<Box<Stmt>>> {
        let start = self.span();
        if self.eat(Punct::Semi) {
            return Ok(Some(Box::new(Stmt {
                kind: StmtKind::Empty,
                span: start,
            })));
        }
        let mark = self.mark();
        let mut depth = 0usize;
        let found = loop {
            match self.punct() {
                _ if self.at_eof() => break false,
                Some(Punct::LParen | Punct::LBracket | Punct::LBrace) => depth += 1,
                Some(Punct::RParen | Punct::RBracket | Punct::RBrace) if depth == 0 => break false,
                Some(Punct::RParen | Punct::RBracket | Punct::RBrace) => depth -= 1,
                Some(Punct::Semi) if depth == 0 => break true,
                _ => {}
            }
            self.bump();
        };
        self.reset(mark);
        if !found {
            return Ok(None);
        }
        let kind = if self.at_declaration() {
            StmtKind::Decl(self.block_declaration()?)
        } else {
            let e = self.expression()?;
            self.expect(Punct::Semi)?;
            StmtKind::Expr(e)
        };
        Ok(Some(Box::new(Stmt {
            kind,
            span: self.since(start),
        })))
    }

    fn if_statement(&mut self) -> PResult<StmtKind> {
        let scopes = self.scopes.mark();
        self.scopes.push();
        self.bump();
        let is_constexpr = self.eat_word("constexpr");
        let open = self.expect(Punct::LParen)?;
        let init = self.init_statement()?;
        let cond = self.condition()?;
        self.expect_close(Punct::RParen, open)?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.eat_word("else") {
            Some(Box::new(self.statement()?))
        } else {
            None
        };
        self.scopes.reset(scopes);
        Ok(StmtKind::If {
            is_constexpr,
            init,
            cond,
            then,
            otherwise,
        })
    }

    fn switch_statement(&mut self) -> PResult<StmtKind> {
        let scopes = self.scopes.mark();
        self.scopes.push();
        self.bump();
        let open = self.expect(Punct::LParen)?;
        let init = self.init_statement()?;
        let cond = self.condition()?;
        self.expect_close(Punct::RParen, open)?;
        let start = self.span();
        let body = if self.at(Punct::LBrace) {
            self.compound()?
        } else {
            // `switch (x) case 1: f();`
            let mut list = Vec::new();
            loop {
                let stmt = self.statement()?;
                let label = matches!(stmt.kind, StmtKind::Case(_) | StmtKind::Default);
                list.push(stmt);
                if !label {
                    break;
                }
            }
            Stmt {
                kind: StmtKind::Compound(list),
                span: self.since(start),
            }
        };
        self.scopes.reset(scopes);
        Ok(StmtKind::Switch {
            init,
            cond,
            body: Box::new(body),
        })
    }

    /// Does a declaration begin here, rather than an expression?
    pub(super) fn at_declaration(&mut self) -> bool {
        if self.at(Punct::LBracket) {
            return self.nth_is(1, Punct::LBracket) && self.attributes_before_declaration();
        }
        if self.at(Punct::ColonColon) {
            return self.path_begins_declaration();
        }
        let Some(word) = self.word() else {
            return false;
        };
        if self.at_qualifier() {
            return true;
        }
        match word {
            "static" | "constexpr" | "inline" | "extern" | "struct" | "class" | "union" | "enum" | "typedef"
            | "using" | "namespace" | "static_assert" | "_Static_assert" | "template" | "auto" | "friend"
            | "alignas" | "__attribute__" | "kernel" => true,
            "typename" | "decltype" => self.type_begins_declaration(),
            _ if types::is_arithmetic_word(word) => self.type_begins_declaration(),
            _ if types::is_keyword(word) => matches!(word, "thread_local" | "register" | "virtual"),
            _ => self.path_begins_declaration(),
        }
    }

    /// A type that may also begin an expression (`float(x) * y;`): what follows decides.
    fn type_begins_declaration(&mut self) -> bool {
        let mark = self.mark();
        let parsed = self.type_specifiers_only().is_ok();
        let result = parsed && self.declarator_follows(NameKind::Type);
        self.reset(mark);
        result
    }

    fn path_begins_declaration(&mut self) -> bool {
        if let (Some(w), false) = (self.word(), self.nth_is(1, Punct::ColonColon))
            && self.scopes.kind(w) == NameKind::Value
        {
            return false;
        }
        let mark = self.mark();
        let path = self.path(false);
        let result = match path {
            Ok(path) => {
                let kind = self.kind_of(&path);
                // A function template with arguments is no type, nor is anything known as a value.
                !kind.is_value() && self.declarator_follows(kind)
            }
            Err(_) => false,
        };
        self.reset(mark);
        result
    }

    /// After something that may be a type: does a declarator follow?
    fn declarator_follows(&mut self, kind: NameKind) -> bool {
        if self.at_qualifier() {
            return true;
        }
        if let Some(word) = self.word() {
            // After a type any word is meant as a name, also where it is a keyword: the error says so.
            return !types::is_keyword(word) || kind.is_type();
        }
        match self.punct() {
            Some(Punct::Star | Punct::Amp | Punct::AndAnd) => {
                // `T *p`, `T &r`: a product or a conjunction as a statement would be useless.
                let mut i = 1;
                while matches!(
                    self.peek_nth(i).kind,
                    TokenKind::Punct(Punct::Star | Punct::Amp | Punct::AndAnd)
                ) || self.peek_nth(i).ident().is_some_and(|w| {
                    matches!(
                        w.as_str(),
                        "const" | "volatile" | "device" | "constant" | "threadgroup" | "thread"
                    )
                }) {
                    i += 1;
                }
                let named = self.peek_nth(i).ident().is_some_and(|w| !types::is_keyword(w));
                let ended = matches!(
                    self.peek_nth(i + 1).kind,
                    TokenKind::Punct(
                        Punct::Assign
                            | Punct::Semi
                            | Punct::Comma
                            | Punct::LBrace
                            | Punct::LBracket
                            | Punct::LParen
                            | Punct::Colon
                    )
                );
                named && (ended || kind.is_type())
            }
            Some(Punct::LParen) => {
                // `T (*f)(int)`, `T (&a)[4]`
                kind.is_type()
                    && matches!(self.peek_nth(1).kind, TokenKind::Punct(Punct::Star | Punct::Amp))
                    && self.peek_nth(2).ident().is_some()
                    && self.nth_is(3, Punct::RParen)
                    && (self.nth_is(4, Punct::LParen) || self.nth_is(4, Punct::LBracket))
            }
            // `T [[attr]] x` does not occur; `auto [a, b]` is refused where it is parsed.
            _ => false,
        }
    }

    /// A declaration inside a block, with its `;`.
    fn block_declaration(&mut self) -> PResult<Vec<Decl>> {
        let mut decls = Vec::new();
        self.declaration(Context::Block, &mut decls)?;
        Ok(decls)
    }
}
