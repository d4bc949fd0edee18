//! Pragmas: those that mean something here become tokens, the others are dropped.

use std::sync::Arc;

use super::{Preprocessor, Step};
use crate::ast::FpPragma;
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Pragma, Punct, Token, TokenKind};

impl Preprocessor<'_> {
    /// `#pragma`; `rest` is what follows.
    pub(super) fn pragma(&mut self, span: Span, rest: &[Token]) -> Step {
        if rest.first().is_some_and(|t| t.is_ident("once")) {
            self.mark_once(span.file);
            return Ok(());
        }
        let at = rest.last().map_or(span, |t| span.to(t.span));
        if let Some(token) = self.parse_pragma(at, rest)? {
            self.out.push(token);
        }
        Ok(())
    }

    /// The token of a pragma, or `None` when it has no meaning here.
    pub(super) fn parse_pragma(&mut self, span: Span, tokens: &[Token]) -> Step<Option<Token>> {
        let word = |i: usize| tokens.get(i).and_then(Token::ident).map(|n| n.as_str());
        let pragma = match (word(0), word(1), word(2)) {
            (Some("unroll"), ..) => self.unroll(span, &tokens[1..])?,
            (Some("nounroll"), ..) => Some(Pragma::UnrollDisable),
            (Some("clang"), Some("loop"), Some("unroll")) => self.unroll(span, &tokens[3..])?,
            (Some("clang"), Some("loop"), Some("unroll_count")) => self.unroll(span, &tokens[3..])?,
            (Some("METAL"), Some("fp"), Some(what)) => {
                let value = if tokens.get(3).is_some_and(|t| t.is(Punct::LParen)) {
                    word(4)
                } else {
                    None
                };
                self.fp(span, what, value)?
            }
            (Some("STDC"), Some("FP_CONTRACT"), Some(value)) => match value {
                "OFF" => Some(Pragma::Fp(FpPragma::ContractOff)),
                _ => Some(Pragma::Fp(FpPragma::ContractOn)),
            },
            // Metal's `#pragma METAL internals`, clang's diagnostic control, marks for editors: no meaning here.
            _ => None,
        };
        Ok(pragma.map(|p| Token::new(TokenKind::Pragma(Arc::new(p)), span)))
    }

    /// `(full)`, `(4)`, `4`, or nothing, after the word `unroll`.
    fn unroll(&mut self, span: Span, rest: &[Token]) -> Step<Option<Pragma>> {
        let inner = match (rest.first(), rest.iter().rposition(|t| t.is(Punct::RParen))) {
            (None, _) => return Ok(Some(Pragma::UnrollFull)),
            (Some(first), Some(close)) if first.is(Punct::LParen) => &rest[1..close],
            (Some(first), None) if first.is(Punct::LParen) => {
                self.report(Diagnostic::error("E0115", "')' missing in the unroll pragma", span))?;
                return Ok(None);
            }
            _ => rest,
        };
        match inner.first().and_then(Token::ident).map(|n| n.as_str()) {
            Some("full") => return Ok(Some(Pragma::UnrollFull)),
            Some("enable") => return Ok(Some(Pragma::UnrollEnable)),
            Some("disable") => return Ok(Some(Pragma::UnrollDisable)),
            _ => {}
        }
        if inner.is_empty() {
            self.report(
                Diagnostic::error("E0115", "the unroll pragma has empty parentheses", span)
                    .help("write 'unroll', 'unroll(full)' or 'unroll(4)'"),
            )?;
            return Ok(None);
        }
        let count = self.expand(inner.to_vec())?;
        Ok(Some(Pragma::UnrollCount(count)))
    }

    fn fp(&mut self, span: Span, what: &str, value: Option<&str>) -> Step<Option<Pragma>> {
        let pragma = match (what, value) {
            ("math_mode", Some("safe")) => FpPragma::MathSafe,
            ("math_mode", Some("relaxed")) => FpPragma::MathRelaxed,
            ("math_mode", Some("fast")) => FpPragma::MathFast,
            ("contract", Some("off")) => FpPragma::ContractOff,
            ("contract", Some("on" | "fast")) => FpPragma::ContractOn,
            _ => {
                self.report(
                    Diagnostic::warning("W0115", "unknown '#pragma METAL fp' is ignored", span)
                        .help("known are math_mode(safe|relaxed|fast) and contract(off|on|fast)"),
                )?;
                return Ok(None);
            }
        };
        Ok(Some(Pragma::Fp(pragma)))
    }
}
