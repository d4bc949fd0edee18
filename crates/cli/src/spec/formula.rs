//! Formulas of test files and of `kernel run --expect`: one expression an output element, in f64.
//!
//! `i` is the element's index, `aN[expr]` an element of argument N before the run, `len(aN)` its count of elements. The
//! operators and functions are listed in `docs/test-format.md`.

use std::collections::HashMap;

/// A parsed formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Index(usize, Box<Node>),
    Unary(&'static str, Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
    Choose(Box<Node>, Box<Node>, Box<Node>),
    Call(String, Vec<Node>),
    Length(usize),
    Fold(Fold, String, Box<Node>, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    Sum,
    Product,
    Max,
    Min,
}

/// What a formula may read.
pub struct Scope<'a> {
    /// Arguments by number, as they were before the kernel ran.
    pub arguments: &'a dyn Fn(usize) -> Option<&'a [f64]>,
    /// `i` and the variables of enclosing sums.
    pub names: HashMap<String, f64>,
    /// Terms that sums and products have added up so far.
    pub terms: u64,
}

impl<'a> Scope<'a> {
    /// A scope without names.
    pub fn new(arguments: &'a dyn Fn(usize) -> Option<&'a [f64]>) -> Self {
        Scope {
            arguments,
            names: HashMap::new(),
            terms: 0,
        }
    }
}

const LEVELS: [&[&str]; 5] = [
    &["||"],
    &["&&"],
    &["==", "!=", "<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];
const MAX_DEPTH: usize = 100;
/// Most operators between two operands: each may make the tree one deeper.
const MAX_OPERATORS: usize = 1000;
/// Most terms of all `sum`, `prod`, `maxof` and `minof` of one evaluation of an argument, so that a slip in a range is
/// an error and not a wait without end.
const MAX_TERMS: u64 = 1 << 30;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    operators: usize,
}

impl Formula {
    /// Parses a formula; the error says what was expected and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
            operators: 0,
        };
        let node = parser.choose()?;
        parser.space();
        if parser.at < text.len() {
            return Err(parser.error("an operator or the end"));
        }
        Ok(Formula(node))
    }

    /// The value; the error names what does not exist.
    pub fn evaluate(&self, scope: &mut Scope) -> Result<f64, String> {
        eval(&self.0, scope)
    }
}

impl Parser<'_> {
    fn error(&self, expected: &str) -> String {
        format!(
            "formula `{}`: expected {expected} at column {}",
            super::shortened(self.text),
            self.text[..self.at].chars().count() + 1
        )
    }

    fn space(&mut self) {
        while self.text[self.at..].starts_with(' ') {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.error(&format!("`{token}`")))
        }
    }

    fn choose(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("fewer nested expressions"));
        }
        let condition = self.level(0)?;
        let node = if self.take("?") {
            let then = self.choose()?;
            self.expect(":")?;
            Node::Choose(Box::new(condition), Box::new(then), Box::new(self.choose()?))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    fn level(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut lhs = self.level(level + 1)?;
        while let Some(&operator) = operators.iter().find(|operator| self.take(operator)) {
            self.operators += 1;
            if self.operators > MAX_OPERATORS {
                return Err(self.error("fewer operators"));
            }
            let rhs = self.level(level + 1)?;
            lhs = Node::Binary(operator, Box::new(lhs), Box::new(rhs));
        }
        Ok(lhs)
    }

    fn unary(&mut self) -> Result<Node, String> {
        for operator in ["-", "!"] {
            if self.take(operator) {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(self.error("fewer signs"));
                }
                let node = Node::Unary(operator, Box::new(self.unary()?));
                self.depth -= 1;
                return Ok(node);
            }
        }
        self.atom()
    }

    fn word(&mut self, accept: impl Fn(char) -> bool) -> String {
        self.space();
        let word: String = self.text[self.at..].chars().take_while(|&c| accept(c)).collect();
        self.at += word.len();
        word
    }

    fn atom(&mut self) -> Result<Node, String> {
        if self.take("(") {
            let inner = self.choose()?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.space();
        let start = self.at;
        if self.text[self.at..].starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let mut end = self.at;
            let bytes = self.text.as_bytes();
            while end < bytes.len()
                && (bytes[end].is_ascii_digit()
                    || bytes[end] == b'.'
                    || matches!(bytes[end], b'e' | b'E')
                    || (matches!(bytes[end], b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E')))
            {
                end += 1;
            }
            self.at = end;
            return self.text[start..end].parse().map(Node::Number).map_err(|_| {
                self.at = start;
                self.error("a number")
            });
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(self.error("a number, a name or `(`"));
        }
        if self.take("(") {
            let fold = match name.as_str() {
                "sum" => Some(Fold::Sum),
                "prod" => Some(Fold::Product),
                "maxof" => Some(Fold::Max),
                "minof" => Some(Fold::Min),
                _ => None,
            };
            if name == "len" {
                let argument = self.word(|c| c.is_ascii_alphanumeric());
                let number = argument.strip_prefix('a').and_then(|rest| rest.parse().ok());
                let number = number.ok_or_else(|| self.error("an argument like `a0`"))?;
                self.expect(")")?;
                return Ok(Node::Length(number));
            }
            if let Some(fold) = fold {
                let variable = self.word(|c| c.is_ascii_alphanumeric());
                self.expect(",")?;
                let from = self.choose()?;
                self.expect(",")?;
                let to = self.choose()?;
                self.expect(",")?;
                let body = self.choose()?;
                self.expect(")")?;
                return Ok(Node::Fold(fold, variable, Box::new(from), Box::new(to), Box::new(body)));
            }
            let mut arguments = vec![self.choose()?];
            while self.take(",") {
                arguments.push(self.choose()?);
            }
            self.expect(")")?;
            return Ok(Node::Call(name, arguments));
        }
        if self.take("[") {
            let number = name.strip_prefix('a').and_then(|rest| rest.parse().ok());
            let number = number.ok_or_else(|| self.error("an argument like `a0` before `[`"))?;
            let index = self.choose()?;
            self.expect("]")?;
            return Ok(Node::Index(number, Box::new(index)));
        }
        Ok(Node::Name(name))
    }
}

fn eval(node: &Node, scope: &mut Scope) -> Result<f64, String> {
    let truth = |value: bool| f64::from(u8::from(value));
    Ok(match node {
        Node::Number(value) => *value,
        Node::Name(name) => return lookup(name, scope),
        Node::Index(argument, index) => {
            let index = eval(index, scope)?;
            element(*argument, index, scope)?
        }
        Node::Unary("-", x) => -eval(x, scope)?,
        Node::Unary(_, x) => truth(eval(x, scope)? == 0.0),
        Node::Choose(condition, then, otherwise) => {
            let side = if eval(condition, scope)? != 0.0 {
                then
            } else {
                otherwise
            };
            eval(side, scope)?
        }
        Node::Binary(operator, lhs, rhs) => {
            let (a, b) = (eval(lhs, scope)?, eval(rhs, scope)?);
            match *operator {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                "%" => a % b,
                "==" => truth(a == b),
                "!=" => truth(a != b),
                "<" => truth(a < b),
                "<=" => truth(a <= b),
                ">" => truth(a > b),
                ">=" => truth(a >= b),
                "&&" => truth(a != 0.0 && b != 0.0),
                _ => truth(a != 0.0 || b != 0.0),
            }
        }
        Node::Length(argument) => (scope.arguments)(*argument)
            .ok_or_else(|| format!("a formula reads argument {argument}, which has no values"))?
            .len() as f64,
        Node::Fold(fold, variable, from, to, body) => {
            let (from, to) = (eval(from, scope)? as i64, eval(to, scope)? as i64);
            let before = scope.names.get(variable).copied();
            let mut total = match fold {
                Fold::Sum => 0.0,
                Fold::Product => 1.0,
                Fold::Max => f64::NEG_INFINITY,
                Fold::Min => f64::INFINITY,
            };
            for j in from..to {
                scope.terms += 1;
                if scope.terms > MAX_TERMS {
                    return Err(format!(
                        "a formula adds up more than {MAX_TERMS} terms (the last range is {from}..{to})"
                    ));
                }
                scope.names.insert(variable.clone(), j as f64);
                let value = eval(body, scope)?;
                total = match fold {
                    Fold::Sum => total + value,
                    Fold::Product => total * value,
                    Fold::Max => total.max(value),
                    Fold::Min => total.min(value),
                };
            }
            match before {
                Some(value) => scope.names.insert(variable.clone(), value),
                None => scope.names.remove(variable),
            };
            total
        }
        Node::Call(name, arguments) => {
            let values = arguments
                .iter()
                .map(|x| eval(x, scope))
                .collect::<Result<Vec<_>, _>>()?;
            call(name, &values)?
        }
    })
}

fn lookup(name: &str, scope: &mut Scope) -> Result<f64, String> {
    if let Some(&value) = scope.names.get(name) {
        return Ok(value);
    }
    if let Some(argument) = name.strip_prefix('a').and_then(|rest| rest.parse::<usize>().ok()) {
        let index = scope.names.get("i").copied().unwrap_or(0.0);
        return element(argument, index, scope);
    }
    match name {
        "pi" => Ok(std::f64::consts::PI),
        "e" => Ok(std::f64::consts::E),
        "inf" => Ok(f64::INFINITY),
        "nan" => Ok(f64::NAN),
        _ => Err(format!("a formula has no name `{name}`")),
    }
}

fn element(argument: usize, index: f64, scope: &Scope) -> Result<f64, String> {
    let values = (scope.arguments)(argument)
        .ok_or_else(|| format!("a formula reads argument {argument}, which has no values"))?;
    let inside = index >= 0.0 && (index as usize) < values.len();
    inside.then(|| values[index as usize]).ok_or_else(|| {
        format!(
            "a formula reads element {index} of argument {argument}, which has {}",
            values.len()
        )
    })
}

fn call(name: &str, x: &[f64]) -> Result<f64, String> {
    Ok(match (name, x) {
        ("abs", [a]) => a.abs(),
        ("exp", [a]) => a.exp(),
        ("exp2", [a]) => a.exp2(),
        ("log", [a]) => a.ln(),
        ("log2", [a]) => a.log2(),
        ("sqrt", [a]) => a.sqrt(),
        ("rsqrt", [a]) => 1.0 / a.sqrt(),
        ("sin", [a]) => a.sin(),
        ("cos", [a]) => a.cos(),
        ("tan", [a]) => a.tan(),
        ("tanh", [a]) => a.tanh(),
        ("floor", [a]) => a.floor(),
        ("ceil", [a]) => a.ceil(),
        ("round", [a]) => a.round(),
        ("trunc", [a]) => a.trunc(),
        ("erf", [a]) => erf(*a),
        ("sign", [a]) => {
            if *a == 0.0 || a.is_nan() {
                0.0
            } else {
                a.signum()
            }
        }
        ("clamp", [a, low, high]) => a.max(*low).min(*high),
        ("and", [a, b]) => (*a as i64 & *b as i64) as f64,
        ("or", [a, b]) => (*a as i64 | *b as i64) as f64,
        ("xor", [a, b]) => (*a as i64 ^ *b as i64) as f64,
        ("shl", [a, b]) => (*a as i64).wrapping_shl(*b as u32) as f64,
        ("shr", [a, b]) => (*a as i64).wrapping_shr(*b as u32) as f64,
        ("popcount", [a]) => f64::from((*a as i64).count_ones()),
        ("min", [a, b]) => a.min(*b),
        ("max", [a, b]) => a.max(*b),
        ("pow", [a, b]) => a.powf(*b),
        ("fma", [a, b, c]) => a.mul_add(*b, *c),
        _ => {
            return Err(format!("a formula has no function `{name}` of {} arguments", x.len()));
        }
    })
}

/// The error function by its Maclaurin series (|x| < 3) or the continued fraction of erfc; about 1e-13.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 3.0 {
        let (mut term, mut total) = (a, a);
        for n in 1..80 {
            term *= -a * a / f64::from(n);
            total += term / f64::from(2 * n + 1);
        }
        return (2.0 / std::f64::consts::PI.sqrt() * total).copysign(x);
    }
    let mut fraction = 0.0;
    for k in (1..60).rev() {
        fraction = f64::from(k) / 2.0 / (a + fraction);
    }
    (1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / (a + fraction)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let a0 = [1.0, 2.0, 4.0];
        let arguments = |n: usize| (n == 0).then_some(&a0[..]);
        let mut scope = Scope::new(&arguments);
        scope.names.insert("i".to_string(), 2.0);
        Formula::parse(text)?.evaluate(&mut scope)
    }

    #[test]
    fn values() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("-a0 + a0[i - 1]", -2.0),
            ("i > 1 && !(i == 3) ? 7 : 8", 7.0),
            ("sum(j, 0, 3, a0[j] * j) + prod(j, 1, len(a0), a0[j])", 18.0),
            ("max(min(1, 2), 1e-3)", 1.0),
            ("7 % 4 - 10/4", 0.5),
        ] {
            assert_eq!(value(text).unwrap(), expected, "{text}");
        }
        assert!((value("erf(0.5)").unwrap() - 0.520_499_877_813_046_5).abs() < 1e-13);
        assert!((value("erf(3.5)").unwrap() - 0.999_999_256_901_627_7).abs() < 1e-13);
    }

    #[test]
    fn refusals() {
        assert_eq!(
            value("1 +").unwrap_err(),
            "formula `1 +`: expected a number, a name or `(` at column 4"
        );
        assert_eq!(
            value("a1").unwrap_err(),
            "a formula reads argument 1, which has no values"
        );
        assert_eq!(
            value("a0[5]").unwrap_err(),
            "a formula reads element 5 of argument 0, which has 3"
        );
        assert_eq!(
            value("foo(1)").unwrap_err(),
            "a formula has no function `foo` of 1 arguments"
        );
        assert!(value(&"(".repeat(5000)).is_err());
        assert!(value(&"-".repeat(5000)).is_err());
        let long = format!("1{}", "+1".repeat(60_000));
        assert!(
            value(&long)
                .unwrap_err()
                .ends_with("…`: expected fewer operators at column 2003")
        );
        let nested = format!("{}1{}", "(".repeat(90), "+1)".repeat(90));
        assert_eq!(value(&nested), Ok(91.0));
        let mut scope = Scope::new(&|_| None);
        scope.terms = MAX_TERMS - 2;
        assert_eq!(
            Formula::parse("sum(j, 0, 1e18, j)").unwrap().evaluate(&mut scope),
            Err("a formula adds up more than 1073741824 terms (the last range is 0..1000000000000000000)".to_string())
        );
    }
}
