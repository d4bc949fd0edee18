//! The expressions of `#if` and `#elif`.

use super::{Preprocessor, Step, limits};
use crate::ast::ExprKind;
use crate::diagnostics::Diagnostic;
use crate::lexer;
use crate::source::Span;
use crate::token::{Punct, Token, TokenKind};

/// Names that an `#if` understands besides `defined`.
pub(super) fn is_query(name: &str) -> bool {
    matches!(
        name,
        "__has_include"
            | "__has_include_next"
            | "__has_feature"
            | "__has_extension"
            | "__has_attribute"
            | "__has_cpp_attribute"
            | "__has_builtin"
            | "__has_warning"
            | "__is_identifier"
    )
}

/// An integer of the preprocessor: 64 bits, signed or not.
#[derive(Clone, Copy)]
struct Value {
    bits: u64,
    unsigned: bool,
}

impl Value {
    fn signed(v: i64) -> Self {
        Value {
            bits: v as u64,
            unsigned: false,
        }
    }

    fn truth(v: bool) -> Self {
        Value::signed(i64::from(v))
    }

    fn is_true(self) -> bool {
        self.bits != 0
    }
}

impl Preprocessor<'_> {
    /// The value of a condition; false when it is malformed (already reported).
    pub(super) fn condition(&mut self, span: Span, tokens: &[Token]) -> Step<bool> {
        let Some(prepared) = self.queries(tokens)? else {
            return Ok(false);
        };
        let mut expanded = self.expand(prepared)?;
        expanded.iter_mut().for_each(Token::resolve_operator_word);
        if expanded.is_empty() {
            self.report(Diagnostic::error("E0102", "'#if' without an expression", span))?;
            return Ok(false);
        }
        let mut parser = Condition {
            tokens: &expanded,
            pos: 0,
            depth: 0,
            end: span.end(),
        };
        let result = parser.ternary().and_then(|v| match parser.tokens.get(parser.pos) {
            None => Ok(v),
            Some(t) => Err(parser.unexpected(t)),
        });
        match result {
            Ok(v) => Ok(v.is_true()),
            Err(d) => {
                self.report(*d)?;
                Ok(false)
            }
        }
    }

    /// Replaces `defined X`, `__has_include(…)` and their like by numbers, before macros are expanded.
    fn queries(&mut self, tokens: &[Token]) -> Step<Option<Vec<Token>>> {
        let mut out = Vec::with_capacity(tokens.len());
        let mut i = 0;
        while i < tokens.len() {
            let token = &tokens[i];
            let Some(name) = token.ident() else {
                out.push(token.clone());
                i += 1;
                continue;
            };
            let answer;
            if name.as_str() == "defined" {
                let open = tokens.get(i + 1).is_some_and(|t| t.is(Punct::LParen));
                let at = if open { i + 2 } else { i + 1 };
                let closed = !open || tokens.get(at + 1).is_some_and(|t| t.is(Punct::RParen));
                let (Some(name), true) = (tokens.get(at).and_then(Token::ident), closed) else {
                    self.report(
                        Diagnostic::error("E0102", "'defined' needs a macro name", token.span)
                            .help("write 'defined(NAME)'"),
                    )?;
                    return Ok(None);
                };
                answer = self.is_defined(name);
                i = at + if open { 2 } else { 1 };
            } else if is_query(name) {
                let close = close_paren(tokens, i + 1);
                let Some(close) = close else {
                    self.report(Diagnostic::error(
                        "E0102",
                        format!("'{name}' needs an argument in parentheses"),
                        token.span,
                    ))?;
                    return Ok(None);
                };
                let argument = &tokens[i + 2..close];
                answer = match name.as_str() {
                    "__has_include" | "__has_include_next" => match self.header_name(argument)? {
                        Some((header, quoted)) => self.can_include(&header, quoted, token.span.file),
                        None => {
                            self.report(
                                Diagnostic::error("E0102", "'__has_include' needs a header name", token.span)
                                    .help("write '__has_include(<name>)' or '__has_include(\"name\")'"),
                            )?;
                            return Ok(None);
                        }
                    },
                    _ => false,
                };
                i = close + 1;
            } else {
                out.push(token.clone());
                i += 1;
                continue;
            }
            let text = self.interner.intern(if answer { "1" } else { "0" });
            out.push(Token {
                kind: TokenKind::Number(text),
                ..token.clone()
            });
        }
        Ok(Some(out))
    }
}

/// The `)` of a parenthesis that opens at `open`.
fn close_paren(tokens: &[Token], open: usize) -> Option<usize> {
    if !tokens.get(open)?.is(Punct::LParen) {
        return None;
    }
    let mut depth = 0usize;
    for (i, t) in tokens.iter().enumerate().skip(open) {
        if t.is(Punct::LParen) {
            depth += 1;
        } else if t.is(Punct::RParen) {
            depth -= 1;
            if depth == 0 {
                return Some(i);
            }
        }
    }
    None
}

struct Condition<'a> {
    tokens: &'a [Token],
    pos: usize,
    depth: usize,
    end: Span,
}

type Eval = Result<Value, Box<Diagnostic>>;

impl Condition<'_> {
    fn unexpected(&self, token: &Token) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(
            "E0102",
            format!("unexpected {} in '#if'", token.describe()),
            token.span,
        ))
    }

    fn enter(&mut self) -> Result<(), Box<Diagnostic>> {
        self.depth += 1;
        if self.depth <= limits::CONDITION_DEPTH {
            return Ok(());
        }
        let span = self.tokens.get(self.pos).map_or(self.end, |t| t.span);
        Err(Box::new(Diagnostic::error(
            "E0112",
            format!(
                "the expression of '#if' is nested more than {} deep",
                limits::CONDITION_DEPTH
            ),
            span,
        )))
    }

    fn eat(&mut self, punct: Punct) -> bool {
        let hit = self.tokens.get(self.pos).is_some_and(|t| t.is(punct));
        self.pos += usize::from(hit);
        hit
    }

    fn ternary(&mut self) -> Eval {
        self.enter()?;
        let cond = self.binary(0)?;
        let value = if self.eat(Punct::Question) {
            let yes = self.ternary()?;
            if !self.eat(Punct::Colon) {
                return Err(self.missing("':'"));
            }
            let no = self.ternary()?;
            if cond.is_true() { yes } else { no }
        } else {
            cond
        };
        self.depth -= 1;
        Ok(value)
    }

    fn missing(&self, what: &str) -> Box<Diagnostic> {
        match self.tokens.get(self.pos) {
            Some(t) => Box::new(Diagnostic::error(
                "E0102",
                format!("expected {what}, found {}", t.describe()),
                t.span,
            )),
            None => Box::new(Diagnostic::error(
                "E0102",
                format!("expected {what} in '#if'"),
                self.end,
            )),
        }
    }

    fn binary(&mut self, min: u8) -> Eval {
        let mut left = self.unary()?;
        loop {
            let Some(token) = self.tokens.get(self.pos) else {
                return Ok(left);
            };
            let TokenKind::Punct(op) = token.kind else {
                return Ok(left);
            };
            let Some(level) = level(op) else {
                return Ok(left);
            };
            if level < min {
                return Ok(left);
            }
            let span = token.span;
            self.pos += 1;
            let right = self.binary(level + 1)?;
            left = apply(op, left, right)
                .ok_or_else(|| Box::new(Diagnostic::error("E0102", "division by zero in '#if'", span)))?;
        }
    }

    fn unary(&mut self) -> Eval {
        self.enter()?;
        let value = self.unary_inner()?;
        self.depth -= 1;
        Ok(value)
    }

    fn unary_inner(&mut self) -> Eval {
        let Some(token) = self.tokens.get(self.pos) else {
            return Err(self.missing("a value"));
        };
        self.pos += 1;
        match &token.kind {
            TokenKind::Punct(Punct::Bang) => Ok(Value::truth(!self.unary()?.is_true())),
            TokenKind::Punct(Punct::Minus) => {
                let v = self.unary()?;
                Ok(Value {
                    bits: v.bits.wrapping_neg(),
                    ..v
                })
            }
            TokenKind::Punct(Punct::Plus) => self.unary(),
            TokenKind::Punct(Punct::Tilde) => {
                let v = self.unary()?;
                Ok(Value { bits: !v.bits, ..v })
            }
            TokenKind::Punct(Punct::LParen) => {
                let v = self.ternary()?;
                if self.eat(Punct::RParen) {
                    Ok(v)
                } else {
                    Err(self.missing("')'"))
                }
            }
            TokenKind::Ident(name) => Ok(Value::truth(name.as_str() == "true")),
            TokenKind::Char(text) => match lexer::char_value(text) {
                Some(v) => Ok(Value::signed(i64::from(v))),
                None => Err(self.unexpected(token)),
            },
            TokenKind::Number(text) => match lexer::number(text, token.span)? {
                ExprKind::Int(bits, suffix) => Ok(Value {
                    bits,
                    unsigned: suffix.unsigned || bits > i64::MAX as u64,
                }),
                _ => Err(Box::new(
                    Diagnostic::error("E0102", "floating literal in '#if'", token.span).label("only integers here"),
                )),
            },
            _ => Err(self.unexpected(token)),
        }
    }
}

/// Precedence; higher binds tighter.
fn level(op: Punct) -> Option<u8> {
    use Punct::*;
    Some(match op {
        OrOr => 1,
        AndAnd => 2,
        Pipe => 3,
        Caret => 4,
        Amp => 5,
        EqEq | Ne => 6,
        Lt | Gt | Le | Ge => 7,
        Shl | Shr => 8,
        Plus | Minus => 9,
        Star | Slash | Percent => 10,
        _ => return None,
    })
}

/// `None` for a division by zero.
fn apply(op: Punct, a: Value, b: Value) -> Option<Value> {
    use Punct::*;
    let unsigned = a.unsigned || b.unsigned;
    let (x, y) = (a.bits, b.bits);
    let (sx, sy) = (x as i64, y as i64);
    let arith = |bits: u64| Some(Value { bits, unsigned });
    let less = if unsigned { x < y } else { sx < sy };
    match op {
        OrOr => Some(Value::truth(a.is_true() || b.is_true())),
        AndAnd => Some(Value::truth(a.is_true() && b.is_true())),
        Pipe => arith(x | y),
        Caret => arith(x ^ y),
        Amp => arith(x & y),
        EqEq => Some(Value::truth(x == y)),
        Ne => Some(Value::truth(x != y)),
        Lt => Some(Value::truth(less)),
        Ge => Some(Value::truth(!less)),
        Gt => Some(Value::truth(!less && x != y)),
        Le => Some(Value::truth(less || x == y)),
        Shl => Some(Value {
            bits: x.wrapping_shl(y as u32),
            ..a
        }),
        Shr if a.unsigned => Some(Value {
            bits: x.wrapping_shr(y as u32),
            ..a
        }),
        Shr => Some(Value::signed(sx.wrapping_shr(y as u32))),
        Plus => arith(x.wrapping_add(y)),
        Minus => arith(x.wrapping_sub(y)),
        Star => arith(x.wrapping_mul(y)),
        Slash if y == 0 => None,
        Percent if y == 0 => None,
        Slash if unsigned => arith(x / y),
        Slash => arith(sx.wrapping_div(sy) as u64),
        Percent if unsigned => arith(x % y),
        Percent => arith(sx.wrapping_rem(sy) as u64),
        _ => arith(0),
    }
}
