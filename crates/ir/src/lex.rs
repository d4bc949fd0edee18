//! Tokens of the text form.

use crate::parse::ParseError;

/// A token. Words hold letters, digits, `_` and inner dots (`coop.get`, `fp8_e4m3`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    /// A decimal or hexadecimal number, as written.
    Number(String),
    /// `%3`, `$3`, `@3`, `!3`.
    Id(char, u32),
    Text(String),
    /// One of `{ } [ ] < > , : = ?`.
    Symbol(char),
    /// `..`
    Range,
    End,
}

impl Token {
    /// The token as an error message shows it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(text) | Token::Number(text) => format!("`{}`", shorten(text)),
            Token::Id(sigil, n) => format!("`{sigil}{n}`"),
            Token::Text(text) => format!("\"{}\"", shorten(text)),
            Token::Symbol(c) => format!("`{c}`"),
            Token::Range => "`..`".to_string(),
            Token::End => "the end of the text".to_string(),
        }
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_string();
    }
    let mut out: String = text.chars().take(40).collect();
    out.push('…');
    out
}

/// A token and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Splits a text into tokens; the last one is [`Token::End`]. `//` starts a comment.
pub(crate) fn lex(text: &str) -> Result<Vec<Spanned>, ParseError> {
    let mut lexer = Lexer {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
        column: 1,
    };
    let mut out = Vec::new();
    loop {
        lexer.skip_space();
        let (line, column) = (lexer.line, lexer.column);
        let token = lexer.token().map_err(|message| ParseError { line, column, message })?;
        let end = token == Token::End;
        out.push(Spanned { token, line, column });
        if end {
            return Ok(out);
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: u32,
    column: u32,
}

impl Lexer {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        if c == '\n' {
            self.line = self.line.saturating_add(1);
            self.column = 1;
        } else {
            self.column = self.column.saturating_add(1);
        }
        Some(c)
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            if c.is_whitespace() {
                self.next();
            } else if c == '/' && self.chars.get(self.at + 1) == Some(&'/') {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else {
                break;
            }
        }
    }

    fn take_while(&mut self, mut keep: impl FnMut(char) -> bool) -> String {
        let mut out = String::new();
        while let Some(c) = self.peek().filter(|&c| keep(c)) {
            out.push(c);
            self.next();
        }
        out
    }

    fn token(&mut self) -> Result<Token, String> {
        let Some(c) = self.peek() else {
            return Ok(Token::End);
        };
        match c {
            '{' | '}' | '[' | ']' | '<' | '>' | ',' | ':' | '=' | '?' => {
                self.next();
                Ok(Token::Symbol(c))
            }
            '.' => {
                self.next();
                if self.peek() == Some('.') {
                    self.next();
                    Ok(Token::Range)
                } else {
                    Err("a single `.` means nothing here".to_string())
                }
            }
            '%' | '$' | '@' | '!' => {
                self.next();
                let digits = self.take_while(|c| c.is_ascii_digit());
                match digits.parse() {
                    Ok(n) => Ok(Token::Id(c, n)),
                    Err(_) => Err(format!("`{c}` must be followed by a number below 2^32")),
                }
            }
            '"' => self.text(),
            '-' | '0'..='9' => Ok(Token::Number(self.number())),
            c if c.is_ascii_alphabetic() || c == '_' => Ok(Token::Word(
                self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.'),
            )),
            c => Err(format!("unexpected character {c:?}")),
        }
    }

    /// A number ends before `..`, so that ranges can be written without spaces.
    fn number(&mut self) -> String {
        let mut out = String::new();
        while let Some(c) = self.peek() {
            let exponent = out.ends_with(['e', 'E']) && !out.starts_with("0x");
            let keep = c.is_ascii_alphanumeric()
                || (c == '.' && self.chars.get(self.at + 1) != Some(&'.'))
                || (c == '-' && (out.is_empty() || exponent))
                || (c == '+' && exponent);
            if !keep {
                break;
            }
            out.push(c);
            self.next();
        }
        out
    }

    fn text(&mut self) -> Result<Token, String> {
        self.next();
        let mut out = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("a string is not closed on its line".to_string()),
                Some('"') => return Ok(Token::Text(out)),
                Some('\\') => match self.next() {
                    Some(c @ ('"' | '\\')) => out.push(c),
                    Some('u') if self.next() == Some('{') => {
                        let digits = self.take_while(|c| c.is_ascii_hexdigit());
                        let c = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        match (c, self.next()) {
                            (Some(c), Some('}')) => out.push(c),
                            _ => return Err("a bad `\\u{…}` in a string".to_string()),
                        }
                    }
                    _ => return Err("a bad escape in a string".to_string()),
                },
                Some(c) => out.push(c),
            }
        }
    }
}
