//! Tokens, shared by the lexer, the preprocessor and the parser.

use std::sync::Arc;

use crate::ast::{FpPragma, Name};
use crate::source::Span;

macro_rules! puncts {
    ($($name:ident $text:literal,)*) => {
        /// A punctuator.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Punct { $($name,)* }

        impl Punct {
            /// The spelling.
            pub fn spelling(self) -> &'static str {
                match self { $(Punct::$name => $text,)* }
            }
        }

        /// All punctuators with their spellings, longest first.
        pub(crate) const PUNCTS: &[(Punct, &str)] = &[$((Punct::$name, $text),)*];
    };
}

puncts! {
    ShlAssign "<<=", ShrAssign ">>=", Ellipsis "...", ArrowStar "->*", Spaceship "<=>",
    ColonColon "::", Arrow "->", DotStar ".*", AddAssign "+=", SubAssign "-=", MulAssign "*=", DivAssign "/=",
    RemAssign "%=", AndAssign "&=", OrAssign "|=", XorAssign "^=", Shl "<<", Shr ">>", EqEq "==", Ne "!=",
    Le "<=", Ge ">=", AndAnd "&&", OrOr "||", PlusPlus "++", MinusMinus "--", HashHash "##",
    LParen "(", RParen ")", LBracket "[", RBracket "]", LBrace "{", RBrace "}", Semi ";", Comma ",", Colon ":",
    Question "?", Dot ".", Plus "+", Minus "-", Star "*", Slash "/", Percent "%", Amp "&", Pipe "|", Caret "^",
    Tilde "~", Bang "!", Assign "=", Lt "<", Gt ">", Hash "#",
}

/// A pragma that the parser acts on.
#[derive(Clone, Debug, PartialEq)]
pub enum Pragma {
    /// `unroll`, `unroll(full)`
    UnrollFull,
    /// `unroll(n)`, `clang loop unroll_count(n)`: the tokens of `n`, macro-expanded.
    UnrollCount(Vec<Token>),
    /// `clang loop unroll(enable)`
    UnrollEnable,
    /// `nounroll`, `clang loop unroll(disable)`
    UnrollDisable,
    /// `METAL fp …`
    Fp(FpPragma),
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// An identifier or keyword.
    Ident(Name),
    /// A preprocessing number, as spelled.
    Number(Name),
    /// A string literal, as spelled, with prefix and quotes.
    Str(Name),
    /// A character literal, as spelled.
    Char(Name),
    /// A punctuator.
    Punct(Punct),
    /// A pragma; only in the preprocessor's output.
    Pragma(Arc<Pragma>),
    /// A character that is no token of the language; an error when the parser meets it.
    Stray(char),
    /// The end of a macro's replacement while it is being rescanned; only inside the preprocessor.
    EndMacro(Name),
    /// Stands for an empty macro argument beside `##`; only inside the preprocessor.
    Placemarker,
    /// The end of the input.
    Eof,
}

/// A token at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it stands.
    pub span: Span,
    /// First on its line.
    pub line_start: bool,
    /// White space before it.
    pub space_before: bool,
    /// An identifier that must not be expanded again: it came out of a macro of its own name.
    pub no_expand: bool,
}

impl Token {
    /// A token in the middle of a line.
    pub fn new(kind: TokenKind, span: Span) -> Self {
        Token {
            kind,
            span,
            line_start: false,
            space_before: false,
            no_expand: false,
        }
    }

    /// Is it this punctuator?
    pub fn is(&self, punct: Punct) -> bool {
        matches!(self.kind, TokenKind::Punct(p) if p == punct)
    }

    /// Is it this identifier or keyword?
    pub fn is_ident(&self, text: &str) -> bool {
        matches!(&self.kind, TokenKind::Ident(n) if n.as_str() == text)
    }

    /// The identifier, if it is one.
    pub fn ident(&self) -> Option<&Name> {
        match &self.kind {
            TokenKind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// C++'s alternative spellings of operators (`and`, `not`, …) become the operators. To the preprocessor they are names:
    /// they can be pasted.
    pub(crate) fn resolve_operator_word(&mut self) {
        let TokenKind::Ident(name) = &self.kind else {
            return;
        };
        let punct = match name.as_str() {
            "and" => Punct::AndAnd,
            "or" => Punct::OrOr,
            "not" => Punct::Bang,
            "xor" => Punct::Caret,
            "bitand" => Punct::Amp,
            "bitor" => Punct::Pipe,
            "compl" => Punct::Tilde,
            "not_eq" => Punct::Ne,
            _ => return,
        };
        self.kind = TokenKind::Punct(punct);
    }

    /// The spelling.
    pub fn text(&self) -> String {
        match &self.kind {
            TokenKind::Ident(n) | TokenKind::Number(n) | TokenKind::Str(n) | TokenKind::Char(n) => n.to_string(),
            TokenKind::Punct(p) => p.spelling().to_string(),
            TokenKind::Stray(c) => c.to_string(),
            TokenKind::Pragma(_) => "#pragma".to_string(),
            TokenKind::EndMacro(_) | TokenKind::Placemarker | TokenKind::Eof => String::new(),
        }
    }

    /// How an error names it: `'x'`, `end of file`.
    pub fn describe(&self) -> String {
        match self.kind {
            TokenKind::Eof => "end of file".to_string(),
            _ => format!("'{}'", self.text()),
        }
    }
}
