//! Text to tokens: comments and line splices go, punctuators are taken greedily.
//!
//! One lexer serves the preprocessor (which reads numbers as spelled) and the parser (which reads their values with
//! [`number`]).

use std::collections::HashSet;
use std::sync::Arc;

use crate::ast::{ExprKind, FloatSuffix, IntSuffix, Name};
use crate::diagnostics::Diagnostic;
use crate::source::{FileId, Span};
use crate::token::{PUNCTS, Token, TokenKind};

/// Shares the text of equal identifiers.
#[derive(Debug, Default)]
pub struct Interner {
    names: HashSet<Name>,
}

impl Interner {
    /// The shared name of this text.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let name = Name::new(Arc::<str>::from(text));
        self.names.insert(name.clone());
        name
    }
}

/// Splits a whole file into tokens, without an end marker.
///
/// Errors (an unterminated comment or literal) are pushed to `errors`; the tokens are complete all the same.
pub fn lex(file: FileId, text: &str, interner: &mut Interner, errors: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut lexer = Lexer {
        file,
        bytes: text.as_bytes(),
        text,
        pos: 0,
        interner,
        errors,
        spliced: text.contains("\\\n") || text.contains("\\\r\n"),
    };
    if text.starts_with('\u{feff}') {
        lexer.pos = 3;
    }
    lexer.run()
}

struct Lexer<'a> {
    file: FileId,
    bytes: &'a [u8],
    text: &'a str,
    pos: usize,
    interner: &'a mut Interner,
    errors: &'a mut Vec<Diagnostic>,
    /// Does the file have any backslash before a line end?
    spliced: bool,
}

/// Can the byte begin an identifier? Of a character beyond ASCII it is only the first byte: see
/// [`Lexer::identifier_char`].
fn is_ident_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b >= 0x80
}

fn is_ident_continue(b: u8) -> bool {
    is_ident_start(b) || b.is_ascii_digit()
}

impl Lexer<'_> {
    /// The byte at `pos`, or 0 at the end. A NUL in the text is an ordinary stray character, told apart by `pos`.
    fn peek_at(&self, pos: usize) -> u8 {
        self.bytes.get(pos).copied().unwrap_or(0)
    }

    /// Length of the line splice at `pos`, 0 when there is none.
    fn splice_at(&self, pos: usize) -> usize {
        if !self.spliced || self.peek_at(pos) != b'\\' {
            return 0;
        }
        match (self.peek_at(pos + 1), self.peek_at(pos + 2)) {
            (b'\n', _) => 2,
            (b'\r', b'\n') => 3,
            _ => 0,
        }
    }

    /// Skips splices in the middle of a token.
    fn skip_splices(&mut self) {
        while let n @ 1.. = self.splice_at(self.pos) {
            self.pos += n;
        }
    }

    fn peek(&mut self) -> u8 {
        self.skip_splices();
        self.peek_at(self.pos)
    }

    fn at_end(&self) -> bool {
        self.pos >= self.bytes.len()
    }

    fn span(&self, start: usize) -> Span {
        Span::new(self.file, start as u32, self.pos as u32)
    }

    /// The text since `start` without line splices.
    fn slice(&mut self, start: usize) -> Name {
        let raw = self.text.get(start..self.pos).unwrap_or("");
        if self.spliced && raw.contains('\\') {
            let clean = raw.replace("\\\r\n", "").replace("\\\n", "");
            self.interner.intern(&clean)
        } else {
            self.interner.intern(raw)
        }
    }

    fn run(&mut self) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(self.bytes.len() / 4);
        let mut line_start = true;
        let mut space = false;
        loop {
            let before = self.pos;
            if self.blank(&mut line_start) {
                space = true;
            }
            space |= self.pos != before;
            if self.at_end() {
                return tokens;
            }
            let start = self.pos;
            let kind = self.token();
            let mut token = Token::new(kind, self.span(start));
            token.line_start = line_start;
            token.space_before = space;
            tokens.push(token);
            line_start = false;
            space = false;
        }
    }

    /// Skips white space, comments and splices; says whether it skipped a line end.
    fn blank(&mut self, line_start: &mut bool) -> bool {
        let mut newline = false;
        loop {
            let splice = self.splice_at(self.pos);
            if splice > 0 {
                self.pos += splice;
                continue;
            }
            match self.peek_at(self.pos) {
                b'\n' => {
                    self.pos += 1;
                    *line_start = true;
                    newline = true;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.pos += 1,
                b'/' if self.peek_at(self.pos + 1) == b'/' => {
                    while !self.at_end() && self.peek() != b'\n' {
                        self.pos += 1;
                    }
                }
                b'/' if self.peek_at(self.pos + 1) == b'*' => {
                    let start = self.pos;
                    self.pos += 2;
                    match self.text.get(self.pos..).and_then(|rest| rest.find("*/")) {
                        Some(n) => self.pos += n + 2,
                        None => {
                            self.pos = self.bytes.len();
                            let at = Span::new(self.file, start as u32, start as u32 + 2);
                            self.errors.push(
                                Diagnostic::error("E0201", "unterminated comment", at)
                                    .label("starts here")
                                    .help("close it with '*/'"),
                            );
                        }
                    }
                }
                _ => return newline,
            }
        }
    }

    fn token(&mut self) -> TokenKind {
        let start = self.pos;
        let first = self.peek_at(start);
        let second = self.peek_at(start + 1);
        if is_ident_start(first) && (first < 0x80 || self.identifier_char(start) > 0) {
            return self.identifier(start);
        }
        if first.is_ascii_digit() || (first == b'.' && second.is_ascii_digit()) {
            return self.number_token(start);
        }
        match first {
            b'"' => return self.quoted(start, b'"'),
            b'\'' => return self.quoted(start, b'\''),
            _ => {}
        }
        for (punct, spelling) in PUNCTS {
            if self.bytes[start..].starts_with(spelling.as_bytes()) {
                self.pos += spelling.len();
                return TokenKind::Punct(*punct);
            }
        }
        let c = self
            .text
            .get(start..)
            .and_then(|s| s.chars().next())
            .unwrap_or('\u{fffd}');
        self.pos += c.len_utf8();
        TokenKind::Stray(c)
    }

    /// Bytes of the character at `pos` beyond ASCII if an identifier may hold it, else 0: letters, digits and combining
    /// accents. Invisible characters and those that turn the direction of the text would make two names look alike.
    fn identifier_char(&self, pos: usize) -> usize {
        match self.text.get(pos..).and_then(|rest| rest.chars().next()) {
            Some(c) if c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c) => c.len_utf8(),
            _ => 0,
        }
    }

    fn identifier(&mut self, start: usize) -> TokenKind {
        loop {
            let b = self.peek();
            if self.at_end() || !is_ident_continue(b) {
                break;
            }
            let length = if b < 0x80 { 1 } else { self.identifier_char(self.pos) };
            if length == 0 {
                break;
            }
            self.pos += length;
        }
        let name = self.slice(start);
        let quote = self.peek_at(self.pos);
        if quote == b'"' && name.as_str() == "R" {
            return self.raw_string(start);
        }
        if matches!(quote, b'"' | b'\'') && matches!(name.as_str(), "L" | "u8" | "u" | "U") {
            return self.quoted(start, quote);
        }
        TokenKind::Ident(name)
    }

    /// A preprocessing number: digits, letters, dots, digit separators, signs after an exponent.
    fn number_token(&mut self, start: usize) -> TokenKind {
        let hex = self.peek_at(start) == b'0' && matches!(self.peek_at(start + 1), b'x' | b'X');
        loop {
            let b = self.peek();
            if self.at_end() {
                break;
            }
            let previous = self.bytes[self.pos - usize::from(self.pos > start)];
            let exponent = if hex {
                matches!(previous, b'p' | b'P')
            } else {
                matches!(previous, b'e' | b'E')
            };
            let separator = b == b'\'' && is_ident_continue(self.peek_at(self.pos + 1));
            if is_ident_continue(b) || b == b'.' || separator || (exponent && matches!(b, b'+' | b'-')) {
                self.pos += 1;
            } else {
                break;
            }
        }
        TokenKind::Number(self.slice(start))
    }

    /// A string or character literal; `pos` is at the opening quote.
    fn quoted(&mut self, start: usize, quote: u8) -> TokenKind {
        self.pos += 1;
        loop {
            let b = self.peek();
            if self.at_end() || b == b'\n' {
                let what = if quote == b'"' { "string" } else { "character literal" };
                let at = Span::new(self.file, start as u32, start as u32 + 1);
                self.errors
                    .push(Diagnostic::error("E0202", format!("unterminated {what}"), at).label("starts here"));
                break;
            }
            self.pos += 1;
            if b == quote {
                break;
            }
            if b == b'\\' && !self.at_end() && self.peek() != b'\n' {
                self.pos += 1;
            }
        }
        // An escape may have stopped inside a character of several bytes.
        while !self.text.is_char_boundary(self.pos) {
            self.pos += 1;
        }
        let name = self.slice(start);
        if quote == b'"' {
            TokenKind::Str(name)
        } else {
            TokenKind::Char(name)
        }
    }

    /// `R"tag(…)tag"`; kept as an ordinary string with its quotes.
    fn raw_string(&mut self, start: usize) -> TokenKind {
        let rest = &self.text[self.pos + 1..];
        let tag_len = rest.bytes().take(17).position(|b| b == b'(');
        let Some(tag_len) = tag_len else {
            return self.quoted(start, b'"');
        };
        let tag = &rest[..tag_len];
        let close = format!("){tag}\"");
        match rest[tag_len..].find(&close) {
            Some(n) => {
                let body = &rest[tag_len + 1..tag_len + n];
                let quoted = format!(
                    "\"{}\"",
                    body.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
                );
                self.pos += 1 + tag_len + n + close.len();
                TokenKind::Str(self.interner.intern(&quoted))
            }
            None => {
                self.pos = self.bytes.len();
                let at = Span::new(self.file, start as u32, start as u32 + 2);
                self.errors
                    .push(Diagnostic::error("E0202", "unterminated string", at).label("starts here"));
                TokenKind::Str(self.interner.intern("\"\""))
            }
        }
    }
}

/// The value of a number token, as a literal expression.
///
/// Accepts decimal, hexadecimal, binary and octal integers, decimal and hexadecimal floats, `'` separators and the suffixes
/// `u l ul ll z f h bf` in either case (MSL specification 2.1: `h` is half, `bf` is bfloat).
///
/// # Errors
/// A diagnostic when the digits or the suffix are not valid, or an integer needs more than 64 bits.
pub fn number(text: &str, span: Span) -> Result<ExprKind, Box<Diagnostic>> {
    let clean: String = text.chars().filter(|c| *c != '\'').collect();
    let lower = clean.to_ascii_lowercase();
    let bad = |why: String| Box::new(Diagnostic::error("E0203", format!("invalid number '{text}'"), span).label(why));
    if let Some(digits) = lower.strip_prefix("0x") {
        if digits.contains(['.', 'p']) {
            return hex_float(digits).ok_or_else(|| bad("not a hexadecimal floating literal".into()));
        }
        return integer(digits, 16, &bad);
    }
    if let Some(digits) = lower.strip_prefix("0b") {
        return integer(digits, 2, &bad);
    }
    let is_float =
        lower.contains('.') || lower.bytes().any(|b| b == b'e') || lower.ends_with('f') || lower.ends_with('h');
    if !is_float {
        let octal = lower.len() > 1 && lower.starts_with('0') && lower.as_bytes()[1].is_ascii_digit();
        return if octal {
            integer(&lower[1..], 8, &bad)
        } else {
            integer(&lower, 10, &bad)
        };
    }
    let (digits, suffix) = if let Some(d) = lower.strip_suffix("bf") {
        (d, FloatSuffix::BFloat)
    } else if let Some(d) = lower.strip_suffix('f') {
        (d, FloatSuffix::Float)
    } else if let Some(d) = lower.strip_suffix('h') {
        (d, FloatSuffix::Half)
    } else {
        (lower.as_str(), FloatSuffix::None)
    };
    let valid = digits
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-'));
    match digits.parse::<f64>() {
        Ok(value) if valid => Ok(ExprKind::Float(value, suffix)),
        _ => Err(bad("not a floating literal: the suffixes are f, h and bf".into())),
    }
}

fn integer(text: &str, radix: u32, bad: &dyn Fn(String) -> Box<Diagnostic>) -> Result<ExprKind, Box<Diagnostic>> {
    let end = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (unsigned, long) = match suffix {
        "" => (false, false),
        "u" => (true, false),
        "l" | "ll" | "z" => (false, true),
        "ul" | "ull" | "lu" | "llu" | "uz" | "zu" => (true, true),
        _ => return Err(bad(format!("'{suffix}' is not an integer suffix"))),
    };
    if digits.is_empty() {
        return Err(bad("no digits".into()));
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| bad("does not fit in 64 bits".into()))?;
    Ok(ExprKind::Int(
        value,
        IntSuffix {
            unsigned,
            long,
            decimal: radix == 10,
        },
    ))
}

fn hex_float(text: &str) -> Option<ExprKind> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (exponent, suffix) = if let Some(e) = exponent.strip_suffix("bf") {
        (e, FloatSuffix::BFloat)
    } else if let Some(e) = exponent.strip_suffix('f') {
        (e, FloatSuffix::Float)
    } else if let Some(e) = exponent.strip_suffix('h') {
        (e, FloatSuffix::Half)
    } else {
        (exponent, FloatSuffix::None)
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 32 {
        return None;
    }
    let value = u128::from_str_radix(&digits, 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let exponent = exponent.clamp(-5000, 5000) - 4 * fraction.len() as i32;
    // Two steps, so that a large mantissa with a small exponent does not underflow on the way.
    let half = exponent / 2;
    Some(ExprKind::Float(
        value as f64 * 2f64.powi(half) * 2f64.powi(exponent - half),
        suffix,
    ))
}

/// The characters of a string literal as spelled, escapes resolved.
pub fn unescape(spelling: &str) -> String {
    let open = spelling.find('"').map_or(0, |i| i + 1);
    let body = spelling.get(open..).unwrap_or("");
    let body = body.strip_suffix('"').unwrap_or(body);
    let mut out = String::with_capacity(body.len());
    let mut chars = body.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
        } else if let Some(value) = escape(&mut chars) {
            out.push(char::from_u32(value).unwrap_or('\u{fffd}'));
        }
    }
    out
}

/// The value of a character literal as spelled; `None` when it is not exactly one character.
pub fn char_value(spelling: &str) -> Option<u32> {
    let open = spelling.find('\'')? + 1;
    let body = spelling.get(open..)?.strip_suffix('\'')?;
    let mut chars = body.chars().peekable();
    let value = match chars.next()? {
        '\\' => escape(&mut chars)?,
        c => c as u32,
    };
    chars.next().is_none().then_some(value)
}

/// The character after a backslash.
fn escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<u32> {
    Some(match chars.next()? {
        'n' => 10,
        't' => 9,
        'r' => 13,
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'v' => 11,
        'x' => {
            let mut value = 0u32;
            while let Some(d) = chars.peek().and_then(|c| c.to_digit(16)) {
                value = value.wrapping_mul(16).wrapping_add(d);
                chars.next();
            }
            value
        }
        c @ '0'..='7' => {
            let mut value = c as u32 - '0' as u32;
            for _ in 0..2 {
                let Some(d) = chars.peek().and_then(|c| c.to_digit(8)) else {
                    break;
                };
                value = value * 8 + d;
                chars.next();
            }
            value
        }
        c => c as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        let mut errors = Vec::new();
        let tokens = lex(FileId(0), source, &mut Interner::default(), &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        tokens.iter().map(Token::text).collect()
    }

    #[test]
    fn tokens() {
        assert_eq!(
            texts("a<b>>=c // x\n/* y */->d"),
            ["a", "<", "b", ">>=", "c", "->", "d"]
        );
        assert_eq!(texts("x\\\ny 1.5e-3f .5h 1..2"), ["xy", "1.5e-3f", ".5h", "1..2"]);
        assert_eq!(texts("0x1p-3f+1"), ["0x1p-3f", "+", "1"]);
        assert_eq!(
            texts("1'000 'a' \"b\\\"c\" R\"(d\"e)\""),
            ["1'000", "'a'", "\"b\\\"c\"", "\"d\\\"e\""]
        );
    }

    #[test]
    fn flags() {
        let tokens = lex(FileId(0), "a b\n#c", &mut Interner::default(), &mut Vec::new());
        let flags: Vec<_> = tokens.iter().map(|t| (t.line_start, t.space_before)).collect();
        assert_eq!(flags, [(true, false), (false, true), (true, true), (false, false)]);
    }

    #[test]
    fn numbers() {
        let span = Span::default();
        let int = |v, unsigned, long, decimal| {
            ExprKind::Int(
                v,
                IntSuffix {
                    unsigned,
                    long,
                    decimal,
                },
            )
        };
        assert_eq!(number("1'000'000", span), Ok(int(1_000_000, false, false, true)));
        assert_eq!(number("0xFFu", span), Ok(int(255, true, false, false)));
        assert_eq!(number("0b101UL", span), Ok(int(5, true, true, false)));
        assert_eq!(number("017", span), Ok(int(15, false, false, false)));
        assert_eq!(number("0.5h", span), Ok(ExprKind::Float(0.5, FloatSuffix::Half)));
        assert_eq!(number("1.0bf", span), Ok(ExprKind::Float(1.0, FloatSuffix::BFloat)));
        assert_eq!(
            number("1e999f", span),
            Ok(ExprKind::Float(f64::INFINITY, FloatSuffix::Float))
        );
        assert_eq!(number("1.f", span), Ok(ExprKind::Float(1.0, FloatSuffix::Float)));
        assert_eq!(number("0x1.8p1", span), Ok(ExprKind::Float(3.0, FloatSuffix::None)));
        assert_eq!(
            number("0x1p-149f", span),
            Ok(ExprKind::Float(2f64.powi(-149), FloatSuffix::Float))
        );
        for bad in ["1q", "0x", "99999999999999999999", "1.0ff", "0b2", "08", "1e", "inff"] {
            assert!(number(bad, span).is_err(), "{bad}");
        }
    }

    #[test]
    fn literals() {
        assert_eq!(unescape("\"a\\n\\x41\\\"\""), "a\nA\"");
        assert_eq!(char_value("'a'"), Some(97));
        assert_eq!(char_value("'\\0'"), Some(0));
        assert_eq!(char_value("'ab'"), None);
    }

    #[test]
    fn invisible_characters_are_no_letters() {
        let mut interner = Interner::default();
        let mut kinds = |source: &str| {
            let mut errors = Vec::new();
            let tokens = lex(FileId(0), source, &mut interner, &mut errors);
            tokens.into_iter().map(|token| token.kind).collect::<Vec<_>>()
        };
        let stray = |c| TokenKind::Stray(c);
        assert!(matches!(kinds("größe日")[0], TokenKind::Ident(_)));
        assert_eq!(kinds("f\u{202e}")[1], stray('\u{202e}'));
        assert_eq!(kinds("\u{200b}f")[0], stray('\u{200b}'));
        assert_eq!(kinds("a😀")[1], stray('😀'));
    }

    #[test]
    fn unterminated() {
        for source in ["/* a", "\"a", "'", "R\"(a", "\"\\", "'\\\n", "\"\\é"] {
            let mut errors = Vec::new();
            lex(FileId(0), source, &mut Interner::default(), &mut errors);
            assert_eq!(errors.len(), 1, "{source:?}");
        }
    }
}
