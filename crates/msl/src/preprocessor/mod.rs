//! The preprocessor: text with directives in, one flat list of tokens out.
//!
//! Files are tokenised whole. Lines between directives form a run, which is macro-expanded and appended to the output.
//! Everything a hostile source could blow up (nesting of includes, their number and size, macro expansion) has a limit in
//! [`limits`] and ends with an error.

mod condition;
mod include;
mod macros;
mod pragma;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use crate::ast::Name;
use crate::diagnostics::Diagnostic;
use crate::lexer::{self, Interner};
use crate::options::{CompileOptions, MetalStd};
use crate::source::{FileId, FileOrigin, SourceMap, Span};
use crate::token::{Punct, Token, TokenKind};

use include::FilePlace;
use macros::Macro;

/// Limits that no honest kernel comes near.
pub mod limits {
    /// Files inside files.
    pub const INCLUDE_DEPTH: usize = 64;
    /// Files read in one compilation.
    pub const INCLUDE_COUNT: usize = 4096;
    /// Bytes of one file.
    pub const FILE_BYTES: usize = 16 << 20;
    /// Tokens that reach the parser.
    pub const OUTPUT_TOKENS: usize = 8_000_000;
    /// Tokens that macro expansion may produce in one compilation.
    pub const EXPANSION_TOKENS: usize = 4_000_000;
    /// Macro calls inside arguments of macro calls.
    pub const ARGUMENT_DEPTH: usize = 200;
    /// Parentheses and operators inside one `#if`.
    pub const CONDITION_DEPTH: usize = 200;
    /// `#if` inside `#if`.
    pub const CONDITIONAL_DEPTH: usize = 1000;
}

/// What the preprocessor hands to the parser.
pub struct Output {
    /// The tokens, ended by one [`TokenKind::Eof`].
    pub tokens: Vec<Token>,
    /// Embedded headers that were included.
    pub system_headers: BTreeSet<String>,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Stops the work at once: a limit was hit or there are too many errors.
struct Stop;

type Step<T = ()> = Result<T, Stop>;

struct Conditional {
    /// The `#if`, for the error about a missing `#endif`.
    span: Span,
    /// Was the enclosing region active?
    outer_active: bool,
    /// Is this branch active?
    active: bool,
    /// Has any branch been taken?
    taken: bool,
    /// Has `#else` been seen?
    in_else: bool,
}

struct Preprocessor<'a> {
    options: &'a CompileOptions,
    sources: &'a mut SourceMap,
    interner: Interner,
    macros: HashMap<Name, Rc<Macro>>,
    once: HashSet<FilePlace>,
    places: HashMap<FileId, FilePlace>,
    system_headers: BTreeSet<String>,
    out: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    includes: usize,
    include_depth: usize,
    expanded: usize,
    counter: u64,
}

/// Runs the preprocessor over a source text.
pub fn preprocess(source: &str, file_name: &str, options: &CompileOptions, sources: &mut SourceMap) -> Output {
    let mut pp = Preprocessor {
        options,
        sources,
        interner: Interner::default(),
        macros: HashMap::new(),
        once: HashSet::new(),
        places: HashMap::new(),
        system_headers: BTreeSet::new(),
        out: Vec::new(),
        diagnostics: Vec::new(),
        errors: 0,
        includes: 0,
        include_depth: 0,
        expanded: 0,
        counter: 0,
    };
    // The main file is added first, so that it is file 0.
    let main = pp.sources.add_file(file_name, source, FileOrigin::User);
    pp.places.insert(main, FilePlace::of_main(file_name, options));
    let _ = pp.main(main, source);
    let end = source.len() as u32;
    let last = Token::new(TokenKind::Eof, Span::new(main, end, end));
    pp.out.push(last);
    Output {
        tokens: pp.out,
        system_headers: pp.system_headers,
        diagnostics: pp.diagnostics,
    }
}

/// Macros that are defined before the first line, by language version (reference 0.3).
fn predefined(options: &CompileOptions) -> String {
    let std = options.std;
    let mut lines = vec![
        "__METAL__ 1".to_string(),
        format!("__METAL_VERSION__ {}", std.version()),
        "__METAL_MACOS__ 1".into(),
        "__METAL_OS_MACOS__ 1".into(),
        "__ANYMETAL__ 1".into(),
        "__cplusplus 201703L".into(),
        "__STDC_HOSTED__ 0".into(),
        "__CHAR_BIT__ 8".into(),
        "__clang__ 1".into(),
        "__DATE__ \"Jan  1 1970\"".into(),
        "__TIME__ \"00:00:00\"".into(),
    ];
    if options.fast_math {
        lines.push("__FAST_MATH__ 1".into());
        lines.push("__METAL_FAST_MATH__ 1".into());
    }
    let mut gates = Vec::new();
    if std >= MetalStd::Metal3_1 {
        gates.push("BFLOAT");
    }
    if std >= MetalStd::Metal4_0 {
        gates.extend([
            "TENSOR",
            "TENSOR_VECTOR_ACCESSOR",
            "EXECUTION_UNIT",
            "COOPERATIVE_TENSOR",
            "INT4B_FORMAT_TYPE",
            "PACKED_NUMERIC",
            "PACKED_NUMERIC_TYPE",
        ]);
    }
    if std >= MetalStd::Metal4_1 {
        gates.extend([
            "TENSOR_MULTIPLANE",
            "TENSOR_GET_STRIDE_BYTES",
            "INT2B_FORMAT_TYPE",
            "INT8B_FORMAT_TYPE",
            "METAL_FP4_E2M1_FORMAT_TYPE",
            "METAL_FP8_E4M3_FORMAT_TYPE",
            "METAL_FP8_E5M2_FORMAT_TYPE",
            "METAL_FP8_UE8M0_FORMAT_TYPE",
            "PACKED_NUMERIC_TYPE_PACK_UNPACK",
        ]);
    }
    lines.extend(gates.iter().map(|g| format!("__HAVE_{g}__ 1")));
    lines.iter().map(|l| format!("#define {l}\n")).collect()
}

/// `-D`, `-U` and `-include` as directives.
fn command_line(options: &CompileOptions) -> String {
    let mut text = String::new();
    let include = |file: &String| format!("#include \"{}\"\n", file.replace(['\n', '\r', '"'], " "));
    // The compiler's own declarations come before macros that could change their words (`-D T=float`).
    let own = |file: &&String| file.starts_with("anymetal/prelude");
    text.extend(options.force_includes.iter().filter(own).map(include));
    for (name, value) in &options.defines {
        let value = value.as_deref().unwrap_or("1").replace(['\n', '\r'], " ");
        text.push_str(&format!("#define {} {value}\n", name.replace(['\n', '\r'], " ")));
    }
    for name in &options.undefines {
        text.push_str(&format!("#undef {}\n", name.replace(['\n', '\r'], " ")));
    }
    text.extend(options.force_includes.iter().filter(|file| !own(file)).map(include));
    text
}

impl Preprocessor<'_> {
    fn main(&mut self, main: FileId, source: &str) -> Step {
        for (name, text) in [
            ("<built-in>", predefined(self.options)),
            ("<command line>", command_line(self.options)),
        ] {
            let id = self.sources.add_file(name, text.as_str(), FileOrigin::Internal);
            self.places.insert(id, FilePlace::of_main("", self.options));
            self.file(id, &text)?;
        }
        self.file(main, source)
    }

    /// Reports, and stops when there are too many errors.
    fn report(&mut self, diagnostic: Diagnostic) -> Step {
        if diagnostic.is_error() {
            self.errors += 1;
        }
        self.diagnostics.push(diagnostic);
        if self.errors >= self.options.max_errors.max(1) {
            Err(Stop)
        } else {
            Ok(())
        }
    }

    /// Reports an error after which nothing more can be done.
    fn fatal<T>(&mut self, diagnostic: Diagnostic) -> Step<T> {
        self.diagnostics.push(diagnostic);
        Err(Stop)
    }

    /// Tokenises and processes one file.
    fn file(&mut self, id: FileId, text: &str) -> Step {
        if text.len() > limits::FILE_BYTES {
            return self.fatal(Diagnostic::error(
                "E0110",
                format!("source file is larger than {} bytes", limits::FILE_BYTES),
                Span::new(id, 0, 0),
            ));
        }
        let mut errors = Vec::new();
        let tokens = lexer::lex(id, text, &mut self.interner, &mut errors);
        for error in errors {
            self.report(error)?;
        }
        let mut conditionals: Vec<Conditional> = Vec::new();
        let mut pos = 0;
        let mut run: Vec<Token> = Vec::new();
        while pos < tokens.len() {
            let active = conditionals.last().is_none_or(|c| c.active);
            let end = line_end(&tokens, pos);
            if tokens[pos].line_start && tokens[pos].is(Punct::Hash) {
                let line = &tokens[pos + 1..end];
                let hash = tokens[pos].span;
                self.flush(&mut run)?;
                self.directive(hash, line, active, &mut conditionals)?;
            } else if active {
                run.extend_from_slice(&tokens[pos..end]);
            }
            pos = end;
        }
        self.flush(&mut run)?;
        for c in conditionals.iter().rev() {
            self.report(
                Diagnostic::error("E0106", "unterminated conditional directive", c.span).label("this has no '#endif'"),
            )?;
        }
        Ok(())
    }

    /// Expands the lines gathered so far into the output.
    fn flush(&mut self, run: &mut Vec<Token>) -> Step {
        if run.is_empty() {
            return Ok(());
        }
        let mut expanded = self.expand(std::mem::take(run))?;
        expanded.iter_mut().for_each(Token::resolve_operator_word);
        self.out.append(&mut expanded);
        if self.out.len() > limits::OUTPUT_TOKENS {
            let span = self.out.last().map_or(Span::default(), |t| t.span);
            return self.fatal(Diagnostic::error(
                "E0111",
                format!(
                    "the source has more than {} tokens after preprocessing",
                    limits::OUTPUT_TOKENS
                ),
                span,
            ));
        }
        Ok(())
    }

    fn directive(&mut self, hash: Span, line: &[Token], active: bool, stack: &mut Vec<Conditional>) -> Step {
        let Some(first) = line.first() else {
            return Ok(());
        };
        let name = first.text();
        let span = hash.to(first.span);
        let rest = &line[1..];
        match name.as_str() {
            "if" | "ifdef" | "ifndef" => {
                if stack.len() >= limits::CONDITIONAL_DEPTH {
                    return self.fatal(Diagnostic::error(
                        "E0112",
                        format!("'#if' is nested more than {} deep", limits::CONDITIONAL_DEPTH),
                        span,
                    ));
                }
                let value = active && self.test(&name, span, rest)?;
                stack.push(Conditional {
                    span,
                    outer_active: active,
                    active: value,
                    taken: value,
                    in_else: false,
                });
            }
            "elif" | "elifdef" | "elifndef" | "else" => {
                let Some(top) = stack.last() else {
                    return self.report(Diagnostic::error("E0105", format!("'#{name}' without '#if'"), span));
                };
                if top.in_else {
                    let start = top.span;
                    return self.report(
                        Diagnostic::error("E0105", format!("'#{name}' after '#else'"), span)
                            .secondary(start, "the conditional starts here"),
                    );
                }
                let try_it = top.outer_active && !top.taken;
                let value = try_it && (name == "else" || self.test(&name[2..], span, rest)?);
                if let Some(top) = stack.last_mut() {
                    top.in_else = name == "else";
                    top.active = value;
                    top.taken |= value;
                }
            }
            "endif" => {
                if stack.pop().is_none() {
                    return self.report(Diagnostic::error("E0105", "'#endif' without '#if'", span));
                }
            }
            _ if !active => {}
            "define" => self.define(span, rest)?,
            "undef" => match rest.first().and_then(Token::ident) {
                Some(name) => {
                    self.macros.remove(name);
                }
                None => {
                    self.report(Diagnostic::error("E0104", "macro name missing after '#undef'", span))?;
                }
            },
            "include" | "import" => self.include(span, rest, name == "import")?,
            "error" => {
                let text = self.rest_of_line(rest);
                self.report(Diagnostic::error("E0107", format!("#error {text}"), span).label("reached"))?;
            }
            "warning" => {
                let text = self.rest_of_line(rest);
                self.report(Diagnostic::warning("W0107", format!("#warning {text}"), span))?;
            }
            "pragma" => self.pragma(span, rest)?,
            // Line numbers stay those of the file: nothing here is generated from another language.
            "line" | "ident" => {}
            _ if matches!(first.kind, TokenKind::Number(_)) => {}
            _ => {
                let mut d = Diagnostic::error("E0103", format!("unknown directive '#{name}'"), span);
                if name.starts_with("elseif") || name == "elsif" {
                    d = d.help("write '#elif'");
                }
                self.report(d)?;
            }
        }
        Ok(())
    }

    /// The value of an `#if`, `#ifdef` or `#ifndef`.
    fn test(&mut self, kind: &str, span: Span, rest: &[Token]) -> Step<bool> {
        if kind == "if" {
            return self.condition(span, rest);
        }
        let Some(name) = rest.first().and_then(Token::ident) else {
            self.report(Diagnostic::error(
                "E0104",
                format!("macro name missing after '#{kind}'"),
                span,
            ))?;
            return Ok(false);
        };
        let defined = self.is_defined(name);
        Ok(defined == matches!(kind, "ifdef" | "def"))
    }

    /// Is it a macro, or one of the operators and dynamic macros that count as defined?
    fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || macros::is_dynamic(name) || condition::is_query(name)
    }

    /// The text of the rest of a directive line as written.
    fn rest_of_line(&self, rest: &[Token]) -> String {
        match (rest.first(), rest.last()) {
            (Some(a), Some(b)) => self.sources.snippet(a.span.to(b.span)).trim().to_string(),
            _ => String::new(),
        }
    }
}

/// The end of the line that starts at `pos`.
fn line_end(tokens: &[Token], pos: usize) -> usize {
    tokens[pos + 1..]
        .iter()
        .position(|t| t.line_start)
        .map_or(tokens.len(), |n| pos + 1 + n)
}
