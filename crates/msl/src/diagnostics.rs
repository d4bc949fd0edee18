//! Errors and warnings, and how they are shown.
//!
//! A [`Diagnostic`] says what is wrong (a stable code and a sentence), where (a primary span with a label and any number of
//! secondary ones), which rule it breaks (notes), what to do (a help line) and, inside templates, the chain of
//! instantiations. [`Diagnostics`] owns the source map, so it can be rendered long after the compilation.
//!
//! ```text
//! error[E0301]: expected ';' after expression
//!  --> k.metal:3:12
//!   |
//! 3 |     x = 1
//!   |          ^ expected ';'
//!   = note: …
//!   = help: …
//! ```

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::source::{ExpansionId, FileOrigin, SourceMap, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Compilation goes on.
    Warning,
    /// Compilation fails.
    Error,
}

impl Severity {
    /// `error` or `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A place and what to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The text beside the caret; may be empty.
    pub text: String,
}

/// One step of a chain of template instantiations.
#[derive(Clone, Debug, PartialEq)]
pub struct InstantiationFrame {
    /// What was instantiated, as the user would write it: `f<float, 4>`.
    pub what: String,
    /// Where it was asked for.
    pub span: Span,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable code such as `E0301`.
    pub code: &'static str,
    /// One sentence without a full stop.
    pub message: String,
    /// Where it is.
    pub primary: Label,
    /// Other places that matter.
    pub secondary: Vec<Label>,
    /// The rule, the reason.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
    /// Innermost instantiation first.
    pub instantiation_chain: Vec<InstantiationFrame>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Label {
                span,
                text: String::new(),
            },
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
            instantiation_chain: Vec::new(),
        }
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, message, span)
        }
    }

    /// Sets the text beside the caret.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// Adds another place.
    pub fn secondary(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// Adds a note.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Sets the help line.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Adds a frame to the instantiation chain, innermost first.
    pub fn instantiated(mut self, what: impl Into<String>, span: Span) -> Self {
        self.instantiation_chain.push(InstantiationFrame {
            what: what.into(),
            span,
        });
        self
    }

    /// Is it an error?
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Plain text as shown at the top of this module, with a final line end.
    pub fn render(&self, sources: &SourceMap) -> String {
        self.render_with(sources, false)
    }

    /// As [`Diagnostic::render`], with ANSI colours when asked.
    pub fn render_with(&self, sources: &SourceMap, colour: bool) -> String {
        Renderer {
            sources,
            colour,
            out: String::new(),
        }
        .diagnostic(self)
    }
}

/// What a compilation had to say, with the sources to show it.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// The files the spans point into.
    pub sources: Arc<SourceMap>,
    /// Errors and warnings in the order they were found.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Any error among them?
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// All of them as plain text, separated by empty lines.
    pub fn render(&self) -> String {
        self.render_with(false)
    }

    /// As [`Diagnostics::render`], with ANSI colours when asked.
    pub fn render_with(&self, colour: bool) -> String {
        let parts: Vec<String> = self.list.iter().map(|d| d.render_with(&self.sources, colour)).collect();
        parts.join("\n")
    }

    /// A JSON array, one object a diagnostic, for editors and CI.
    ///
    /// Keys: `severity`, `code`, `message`, `span` (`file`, `line`, `column`, `end_line`, `end_column`, `label`), `secondary` (array of
    /// spans), `notes`, `help` (or null), `instantiations` (array of `what` and span).
    pub fn to_json(&self) -> String {
        let items: Vec<String> = self.list.iter().map(|d| json_diagnostic(d, &self.sources)).collect();
        format!("[{}]", items.join(","))
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl std::error::Error for Diagnostics {}

struct Renderer<'a> {
    sources: &'a SourceMap,
    colour: bool,
    out: String,
}

/// A chain of more instantiations than this shows its ends only.
const LONG_CHAIN: usize = 10;
/// As many instantiations at either end.
const CHAIN_ENDS: usize = 4;

/// Characters of a source line that are shown.
const LONG_LINE: usize = 200;

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

impl Renderer<'_> {
    fn paint(&self, style: &str, text: &str) -> String {
        if self.colour {
            format!("{style}{text}{RESET}")
        } else {
            text.to_string()
        }
    }

    fn diagnostic(mut self, d: &Diagnostic) -> String {
        let style = if d.is_error() { RED } else { YELLOW };
        let head = self.paint(style, &format!("{}[{}]", d.severity.as_str(), d.code));
        let message = self.paint(BOLD, &format!(": {}", d.message));
        let _ = writeln!(self.out, "{head}{message}");
        let width = self.gutter(d);
        self.snippets(&d.primary, &d.secondary, style, width);
        for note in &d.notes {
            self.remark(width, "note", note);
        }
        if let Some(help) = &d.help {
            self.remark(width, "help", help);
        }
        self.expansion_notes(d.primary.span, width);
        let chain = &d.instantiation_chain;
        let shown = if chain.len() > LONG_CHAIN {
            CHAIN_ENDS
        } else {
            chain.len()
        };
        for (i, frame) in chain.iter().enumerate() {
            if i == shown && chain.len() > LONG_CHAIN {
                let left_out = chain.len() - 2 * CHAIN_ENDS;
                self.remark(width, "note", &format!("({left_out} more instantiations)"));
            }
            if i >= shown && i < chain.len() - shown {
                continue;
            }
            let at = self.sources.location(frame.span);
            self.remark(
                width,
                "note",
                &format!("in instantiation of '{}' requested at {at}", frame.what),
            );
        }
        self.out
    }

    fn remark(&mut self, width: usize, kind: &str, text: &str) {
        let kind = self.paint(BOLD, kind);
        let mut lines = text.lines();
        let _ = writeln!(self.out, "{:width$} = {kind}: {}", "", lines.next().unwrap_or(""));
        for line in lines {
            let _ = writeln!(self.out, "{:width$}         {line}", "");
        }
    }

    /// Digits of the largest line number shown.
    fn gutter(&self, d: &Diagnostic) -> usize {
        std::iter::once(&d.primary)
            .chain(&d.secondary)
            .filter_map(|l| self.sources.get(l.span.file).map(|f| f.line_col(l.span.lo).0))
            .max()
            .unwrap_or(1)
            .to_string()
            .len()
    }

    /// The primary place and, below it, the secondary ones: those of the same file in one block by line.
    fn snippets(&mut self, primary: &Label, secondary: &[Label], style: &str, width: usize) {
        let Some(file) = self.sources.get(primary.span.file) else {
            return;
        };
        let arrow = self.paint(BLUE, "-->");
        let _ = writeln!(self.out, "{:width$}{arrow} {}", "", self.sources.location(primary.span));
        let bar = self.paint(BLUE, "|");
        let _ = writeln!(self.out, "{:width$} {bar}", "");
        let mut labels: Vec<(&Label, bool)> = vec![(primary, true)];
        labels.extend(
            secondary
                .iter()
                .filter(|l| l.span.file == primary.span.file)
                .map(|l| (l, false)),
        );
        labels.sort_by_key(|(l, is_primary)| (file.line_col(l.span.lo).0, !is_primary, l.span.lo));
        self.block(&labels, style, width);
        for other in secondary.iter().filter(|l| l.span.file != primary.span.file) {
            if self.sources.get(other.span.file).is_none() {
                continue;
            }
            let arrow = self.paint(BLUE, ":::");
            let _ = writeln!(self.out, "{:width$}{arrow} {}", "", self.sources.location(other.span));
            let _ = writeln!(self.out, "{:width$} {bar}", "");
            self.block(&[(other, false)], style, width);
        }
    }

    /// Source lines with their carets; all labels are of one file and sorted by line.
    fn block(&mut self, labels: &[(&Label, bool)], style: &str, width: usize) {
        let bar = self.paint(BLUE, "|");
        let mut last_line = 0;
        for (label, is_primary) in labels {
            let Some(file) = self.sources.get(label.span.file) else {
                continue;
            };
            let (line, col) = file.line_col(label.span.lo);
            let text = file.line(line);
            // A very long line (generated code) is shown as a window around the label.
            let length = text.chars().count();
            let skip = if length <= LONG_LINE {
                0
            } else {
                (col as usize - 1).saturating_sub(LONG_LINE / 3)
            };
            let (ellipsis, skip) = if skip > 0 { ("…", skip + 1) } else { ("", 0) };
            let shown: String = text.chars().skip(skip).take(LONG_LINE).collect();
            if line != last_line || skip > 0 {
                if last_line != 0 && line > last_line + 1 {
                    let _ = writeln!(self.out, "{}", self.paint(BLUE, "..."));
                }
                let number = self.paint(BLUE, &format!("{line:>width$}"));
                let more = if skip + LONG_LINE < length { "…" } else { "" };
                let _ = writeln!(
                    self.out,
                    "{number} {bar} {ellipsis}{}{more}",
                    shown.replace('\t', "    ")
                );
                last_line = line;
            }
            let before = shown.chars().take((col as usize - 1).saturating_sub(skip));
            let indent: usize = before.map(|c| if c == '\t' { 4 } else { 1 }).sum();
            let indent = indent + ellipsis.chars().count();
            let (end_line, end_col) = file.line_col(label.span.hi.max(label.span.lo));
            let last = if end_line == line { end_col as usize } else { length + 1 };
            let room = (skip + LONG_LINE + 1).saturating_sub(col as usize);
            let carets = last.saturating_sub(col as usize).min(room).max(1);
            let mark = if *is_primary { "^" } else { "-" }.repeat(carets);
            let mark = self.paint(
                if *is_primary { style } else { BLUE },
                format!("{mark} {}", label.text).trim_end(),
            );
            let _ = writeln!(self.out, "{:width$} {bar} {:indent$}{mark}", "", "");
        }
    }

    /// Where the macros that produced the primary token are defined.
    fn expansion_notes(&mut self, span: Span, width: usize) {
        let mut id = span.expansion;
        let mut seen = 0;
        while id != ExpansionId::NONE && seen < 4 {
            let Some(e) = self.sources.expansion(id) else {
                return;
            };
            let system = self
                .sources
                .get(e.definition.file)
                .is_none_or(|f| f.origin != FileOrigin::User);
            let text = if system {
                format!("in expansion of macro '{}'", e.name)
            } else {
                format!(
                    "in expansion of macro '{}' defined at {}",
                    e.name,
                    self.sources.location(e.definition)
                )
            };
            id = e.parent;
            seen += 1;
            self.remark(width, "note", &text);
        }
    }
}

fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn json_span(span: Span, label: &str, sources: &SourceMap) -> String {
    let Some(file) = sources.get(span.file) else {
        return "null".to_string();
    };
    let (line, column) = file.line_col(span.lo);
    let (end_line, end_column) = file.line_col(span.hi);
    format!(
        "{{\"file\":{},\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column},\"label\":{}}}",
        json_string(&file.name),
        json_string(label)
    )
}

fn json_diagnostic(d: &Diagnostic, sources: &SourceMap) -> String {
    let secondary: Vec<String> = d
        .secondary
        .iter()
        .map(|l| json_span(l.span, &l.text, sources))
        .collect();
    let notes: Vec<String> = d.notes.iter().map(|n| json_string(n)).collect();
    let chain: Vec<String> = d
        .instantiation_chain
        .iter()
        .map(|f| {
            format!(
                "{{\"what\":{},\"span\":{}}}",
                json_string(&f.what),
                json_span(f.span, "", sources)
            )
        })
        .collect();
    format!(
        "{{\"severity\":{},\"code\":{},\"message\":{},\"span\":{},\"secondary\":[{}],\"notes\":[{}],\"help\":{},\"instantiations\":[{}]}}",
        json_string(d.severity.as_str()),
        json_string(d.code),
        json_string(&d.message),
        json_span(d.primary.span, &d.primary.text, sources),
        secondary.join(","),
        notes.join(","),
        d.help.as_deref().map_or("null".to_string(), json_string),
        chain.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Arc<SourceMap>, Diagnostic) {
        let mut map = SourceMap::new();
        let id = map.add_file("k.metal", "int a;\nint b;\n\tint a = x;\n", FileOrigin::User);
        let d = Diagnostic::error("E0001", "'a' is declared twice", Span::new(id, 19, 20))
            .label("declared again here")
            .secondary(Span::new(id, 4, 5), "first declared here")
            .note("one name, one meaning")
            .help("rename one of them")
            .instantiated("f<float>", Span::new(id, 0, 3));
        (Arc::new(map), d)
    }

    #[test]
    fn text_form() {
        let (map, d) = sample();
        let expected = "\
error[E0001]: 'a' is declared twice
 --> k.metal:3:6
  |
1 | int a;
  |     - first declared here
...
3 |     int a = x;
  |         ^ declared again here
  = note: one name, one meaning
  = help: rename one of them
  = note: in instantiation of 'f<float>' requested at k.metal:1:1
";
        assert_eq!(d.render(&map), expected);
    }

    #[test]
    fn long_chains_show_their_ends() {
        let (map, mut d) = sample();
        for depth in 1..LONG_CHAIN {
            d = d.instantiated(format!("f<{depth}>"), Span::default());
        }
        assert_eq!(d.render(&map).matches("in instantiation of").count(), LONG_CHAIN);
        let text = d.instantiated("outermost", Span::default()).render(&map);
        assert_eq!(text.matches("in instantiation of").count(), 2 * CHAIN_ENDS);
        assert!(text.contains("= note: (3 more instantiations)\n"), "{text}");
        assert!(text.contains("'f<float>'") && text.contains("'outermost'"), "{text}");
    }

    #[test]
    fn long_lines_are_cut() {
        let mut map = SourceMap::new();
        let id = map.add_file("k.metal", "x".repeat(100_000), FileOrigin::User);
        let text = Diagnostic::error("E0001", "m", Span::new(id, 50_000, 50_010)).render(&map);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3].chars().count(), "1 | ".len() + LONG_LINE + 2);
        assert!(lines[4].ends_with(" ^^^^^^^^^^"));
        let whole = Diagnostic::error("E0001", "m", Span::new(id, 0, 100_000)).render(&map);
        assert!(whole.len() < 1000);
    }

    #[test]
    fn json_form() {
        let (map, d) = sample();
        let json = Diagnostics {
            sources: map,
            list: vec![d],
        }
        .to_json();
        assert!(json.starts_with("[{\"severity\":\"error\",\"code\":\"E0001\""));
        assert!(json.contains("\"line\":3,\"column\":6,\"end_line\":3,\"end_column\":7"));
    }
}
