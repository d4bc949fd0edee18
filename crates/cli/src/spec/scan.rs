//! A small scanner over one line of text, with errors that name the column.

/// A text for a message: its beginning, if it is long.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        None => text.to_string(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A position in a line.
pub struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// At the start of a line.
    pub fn new(text: &'a str) -> Self {
        Scan { text, at: 0 }
    }

    /// An error at this position.
    pub fn error(&self, expected: &str) -> String {
        let column = self.text[..self.at].chars().count() + 1;
        format!("`{}`: expected {expected} at column {column}", shortened(self.text))
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    /// What is left of the line.
    pub fn rest_of_line(&mut self) -> &'a str {
        self.rest()
    }

    /// Takes a token if it is next.
    pub fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Takes a whole word if it is next.
    pub fn take_word(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.word().is_ok_and(|found| found == word) {
            return true;
        }
        self.at = before;
        false
    }

    /// Takes a token or says that it is missing.
    pub fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.error(&format!("`{token}`")))
        }
    }

    /// The end of the line, or an error.
    pub fn end(&mut self) -> Result<(), String> {
        if self.rest().is_empty() {
            Ok(())
        } else {
            Err(self.error("the end"))
        }
    }

    /// A word of letters, digits and `_`.
    pub fn word(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error("a word"));
        }
        self.at += length;
        Ok(rest[..length].to_string())
    }

    /// Everything up to a space or the end.
    pub fn until_space(&mut self) -> &'a str {
        let rest = self.rest();
        let length = rest.find(' ').unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A non-negative whole number, decimal or `0x…`.
    pub fn integer(&mut self) -> Result<usize, String> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let digits = &rest[..length];
        let value = match digits.strip_prefix("0x") {
            Some(hex) => usize::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        };
        let value = value.ok_or_else(|| self.error("a whole number"))?;
        self.at += length;
        Ok(value)
    }

    /// A number: decimal, `0x…`, `inf`, `-inf`, `nan`, `true`, `false`.
    pub fn number(&mut self) -> Result<f64, String> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let (sign, digits) = word.strip_prefix('-').map_or((1.0, word), |digits| (-1.0, digits));
        let value = match digits {
            "true" => Some(1.0),
            "false" => Some(0.0),
            "inf" | "INFINITY" => Some(f64::INFINITY),
            "nan" | "NAN" => Some(f64::NAN),
            _ => match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok().map(|bits| bits as f64),
                None => digits.parse().ok(),
            },
        };
        let value = value.ok_or_else(|| self.error("a number"))?;
        self.at += length;
        Ok(sign * value)
    }

    /// Text between double quotes.
    pub fn quoted(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let rest = &self.text[self.at..];
        let length = rest.find('"').ok_or_else(|| self.error("a closing `\"`"))?;
        self.at += length + 1;
        Ok(rest[..length].to_string())
    }

    /// `(a, b, …)` of whole numbers.
    pub fn integers(&mut self) -> Result<Vec<usize>, String> {
        self.expect("(")?;
        let mut out = vec![self.integer()?];
        while self.take(",") {
            out.push(self.integer()?);
        }
        self.expect(")")?;
        Ok(out)
    }

    /// `(a, b, …)` of numbers, or nothing.
    pub fn optional_numbers(&mut self) -> Result<Vec<f64>, String> {
        let mut out = Vec::new();
        if self.take("(") && !self.take(")") {
            out.push(self.number()?);
            while self.take(",") {
                out.push(self.number()?);
            }
            self.expect(")")?;
        }
        Ok(out)
    }
}
