//! The annotations at the top of a test file; `docs/test-format.md` is their reference.

use std::collections::BTreeMap;

use crate::spec::reference::Expectation;
use crate::spec::{Argument, Scan, parse_type, shortened};
use anymetal::ElementFormat;

/// The variants of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct TestFile {
    /// One for each `run` line, or a single one.
    pub runs: Vec<Run>,
}

/// One run of a kernel, or one refusal.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Run {
    /// The label after `run:`; empty if the file has no such line.
    pub label: String,
    /// Kernel name; `None` means the only one.
    pub kernel: Option<String>,
    /// Language version, as `-std=` takes it.
    pub std: Option<String>,
    /// Compiler flags.
    pub flags: Vec<String>,
    /// Bound arguments by buffer index.
    pub arguments: BTreeMap<usize, Argument>,
    /// Dynamic threadgroup memory by index.
    pub threadgroup: BTreeMap<usize, usize>,
    /// Function constants by id.
    pub constants: BTreeMap<usize, (ElementFormat, Vec<f64>)>,
    /// The grid; `true` means exact threads, `false` threadgroups.
    pub grid: Option<([usize; 3], bool)>,
    /// Threads of a threadgroup.
    pub threads: Option<[usize; 3]>,
    /// Options.
    pub options: Vec<String>,
    /// Backends.
    pub only: Vec<String>,
    /// Expectations.
    pub expects: Vec<Expect>,
    /// Tolerance.
    pub tolerance: Option<Tolerance>,
    /// Expected diagnostics: code (`*` for any) and text.
    pub errors: Vec<(String, String)>,
    /// Expected run-time error.
    pub fault: Option<String>,
    /// Expected findings of the sanitizer.
    pub findings: Vec<Wanted>,
}

/// A `finding` line: `CODE at LINE, LINE: text`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// `S0101` and so on.
    pub code: String,
    /// Lines that the finding must name, the first one as its own place.
    pub lines: Vec<u32>,
    /// Contained in the message, a label, a note or the help.
    pub text: String,
}

impl Wanted {
    fn parse(value: &str) -> Result<Self, String> {
        let usage = "write `CODE at LINE, LINE: text`";
        let (code, rest) = value.split_once(' ').unwrap_or((value, ""));
        let known = anymetal::FindingCode::ALL.iter().any(|known| known.as_str() == code);
        if !known {
            return Err(format!("`{code}` is no code of a finding (docs/sanitizer.md); {usage}"));
        }
        let (lines, text) = match rest.trim().strip_prefix("at ") {
            Some(rest) => rest.split_once(':').unwrap_or((rest, "")),
            None => ("", rest),
        };
        let lines = lines
            .split(',')
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| line.parse().map_err(|_| format!("`{line}` is no line number; {usage}")))
            .collect::<Result<_, _>>()?;
        Ok(Wanted {
            code: code.to_string(),
            lines,
            text: text.trim().to_string(),
        })
    }
}

/// An `expect` line.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// Argument number.
    pub argument: usize,
    /// Elements that count, all if absent.
    pub range: Option<std::ops::Range<usize>>,
    /// The rule.
    pub rule: Expectation,
}

/// How far a result may be from its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Bit equality after rounding the reference to the element's format.
    Exact,
    /// |got − want| ≤ abs + rel · |want|.
    Within {
        /// Absolute part.
        abs: f64,
        /// Relative part.
        rel: f64,
    },
}

impl Tolerance {
    /// The default of a format.
    pub fn of(format: ElementFormat) -> Self {
        match format {
            ElementFormat::F32 => Tolerance::Within { abs: 1e-5, rel: 1e-5 },
            ElementFormat::F16 => Tolerance::Within { abs: 1e-3, rel: 2e-3 },
            ElementFormat::BF16 => Tolerance::Within { abs: 1e-2, rel: 1e-2 },
            _ => Tolerance::Exact,
        }
    }

    /// Parses `exact` or `abs X rel Y` (either part may be missing).
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut scan = Scan::new(text);
        if scan.take_word("exact") {
            scan.end()?;
            return Ok(Tolerance::Exact);
        }
        let (mut abs, mut rel) = (0.0, 0.0);
        while !scan.rest_of_line().is_empty() {
            if scan.take_word("abs") {
                abs = scan.number()?;
            } else if scan.take_word("rel") {
                rel = scan.number()?;
            } else {
                return Err(scan.error("`exact`, `abs X` or `rel Y`"));
            }
        }
        Ok(Tolerance::Within { abs, rel })
    }
}

const KEYS: [&str; 16] = [
    "kernel",
    "std",
    "flags",
    "arg",
    "threadgroup",
    "constant",
    "grid",
    "threads",
    "option",
    "only",
    "expect",
    "tolerance",
    "error",
    "fault",
    "finding",
    "run",
];

/// One annotation: key, number, range and value.
struct Line {
    key: &'static str,
    target: String,
    value: String,
    line: usize,
}

impl TestFile {
    /// Reads the header of a file. `Ok(None)` if it has no annotation; an error names the line.
    pub fn parse(source: &str) -> Result<Option<Self>, String> {
        let lines = annotations(source);
        if lines.is_empty() {
            return Ok(None);
        }
        let mut common = Run::default();
        let mut runs: Vec<Run> = Vec::new();
        for line in &lines {
            let place = |error: String| format!("line {}: {}: {error}", line.line, line.key);
            if line.key == "run" {
                let mut run = common.clone();
                run.label = line.value.clone();
                runs.push(run);
                continue;
            }
            let run = runs.last_mut().unwrap_or(&mut common);
            run.apply(line).map_err(place)?;
        }
        if runs.is_empty() {
            runs.push(common);
        }
        Ok(Some(TestFile { runs }))
    }
}

fn annotations(source: &str) -> Vec<Line> {
    let mut out: Vec<Line> = Vec::new();
    for (number, raw) in source.lines().enumerate() {
        let Some(text) = raw.strip_prefix("//") else {
            break;
        };
        if text.starts_with("    ")
            && let Some(last) = out.last_mut()
            && last.line + last.value.matches('\n').count() + 1 == number + 1
        {
            last.value.push('\n');
            last.value.push_str(text.trim());
            continue;
        }
        let Some((head, value)) = text.split_once(':') else {
            continue;
        };
        let head = head.trim();
        let (key, target) = head
            .split_once([' ', '['])
            .map_or((head, ""), |(key, _)| (key, head[key.len()..].trim()));
        // Only these have a number; `kernel name: …` is prose.
        let numbered = matches!(key, "arg" | "threadgroup" | "constant" | "expect");
        if !numbered && !target.is_empty() {
            continue;
        }
        if let Some(key) = KEYS.into_iter().find(|&known| known == key) {
            out.push(Line {
                key,
                target: target.to_string(),
                value: value.trim().to_string(),
                line: number + 1,
            });
        }
    }
    for line in &mut out {
        line.value = line.value.replace('\n', " ");
    }
    out
}

/// `X Y Z`, trailing ones left out.
pub fn size(text: &str) -> Result<[usize; 3], String> {
    triple(&mut Scan::new(text))
}

/// `threadgroups X Y Z` (false) or `threads X Y Z` (true).
pub fn grid(text: &str) -> Result<([usize; 3], bool), String> {
    let mut scan = Scan::new(text);
    let exact = scan.take_word("threads");
    if !exact && !scan.take_word("threadgroups") && !text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "`{}` is no grid: write threads X Y Z or threadgroups X Y Z",
            shortened(text)
        ));
    }
    Ok((triple(&mut scan)?, exact))
}

fn triple(scan: &mut Scan) -> Result<[usize; 3], String> {
    let mut out = [1; 3];
    for (at, extent) in out.iter_mut().enumerate() {
        if at > 0 && scan.rest_of_line().is_empty() {
            break;
        }
        *extent = scan.integer()?;
    }
    scan.end()?;
    Ok(out)
}

impl Run {
    fn apply(&mut self, line: &Line) -> Result<(), String> {
        let value = line.value.as_str();
        let words = || value.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let number = || {
            let digits = line.target.split(['[', ' ']).next().unwrap_or("");
            digits
                .parse::<usize>()
                .map_err(|_| format!("a number after `{}` is missing", line.key))
        };
        match line.key {
            "kernel" => self.kernel = Some(value.to_string()),
            "std" => self.std = Some(value.to_string()),
            "flags" => self.flags.extend(words()),
            "option" => self.options.extend(words()),
            "only" => self.only = words(),
            "arg" => {
                self.arguments.insert(number()?, Argument::parse(value)?);
            }
            "threadgroup" => {
                let bytes = Scan::new(value).integer()?;
                self.threadgroup.insert(number()?, bytes);
            }
            "constant" => {
                self.constants.insert(number()?, constant(value)?);
            }
            "grid" => self.grid = Some(grid(value)?),
            "threads" => self.threads = Some(size(value)?),
            "tolerance" => self.tolerance = Some(Tolerance::parse(value)?),
            "fault" => self.fault = Some(value.to_string()),
            "finding" => self.findings.push(Wanted::parse(value)?),
            "error" => {
                let (code, text) = value.split_once(' ').unwrap_or((value, ""));
                self.errors.push((code.to_string(), text.trim().to_string()));
            }
            _ => {
                let argument = number()?;
                let range = match line.target.split_once('[') {
                    Some((_, range)) => Some(part(range)?),
                    None => None,
                };
                let rule = Expectation::parse(value)?;
                // A run's line replaces the common one for the same argument and part.
                self.expects
                    .retain(|expect| expect.argument != argument || expect.range != range);
                self.expects.push(Expect { argument, range, rule });
            }
        }
        Ok(())
    }
}

/// `a..b]`.
fn part(text: &str) -> Result<std::ops::Range<usize>, String> {
    let bounds = text.trim_end_matches(']').split_once("..");
    bounds
        .and_then(|(from, to)| Some(from.trim().parse().ok()?..to.trim().parse().ok()?))
        .ok_or_else(|| format!("`[{text}` is no part: write `[0..10]`"))
}

/// `TYPE VALUE`, or the components of a vector.
pub fn constant(text: &str) -> Result<(ElementFormat, Vec<f64>), String> {
    let mut scan = Scan::new(text);
    let name = scan.word()?;
    let (format, components) = parse_type(&name).ok_or_else(|| format!("`{name}` is no type"))?;
    let values = (0..components).map(|_| scan.number()).collect::<Result<_, _>>()?;
    scan.end()?;
    Ok((format, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_with_variants() {
        let source = "// Text: not a key.\n// kernel name: prose\n//\n// kernel: f\n// arg 0: buffer float[4] = iota\n// arg 1: buffer float[4]\n\
                      // expect 1: formula \"a0[i] +\n//     1\"\n// run: small\n// grid: threads 4\n// run: part\n\
                      // expect 1[0..2]: [1, 2]\n// expect 1: same\n// error: E0102 text here\nkernel void f() {}\n";
        let file = TestFile::parse(source).unwrap().unwrap();
        assert_eq!(file.runs.len(), 2);
        assert_eq!(file.runs[0].grid, Some(([4, 1, 1], true)));
        assert_eq!(
            file.runs[0].expects[0].rule,
            Expectation::Formula("a0[i] + 1".to_string())
        );
        assert_eq!(file.runs[1].expects.len(), 2);
        assert_eq!(file.runs[1].expects[0].range, Some(0..2));
        assert_eq!(file.runs[1].errors, [("E0102".to_string(), "text here".to_string())]);
        assert_eq!(TestFile::parse("// nothing here\nkernel void f() {}\n").unwrap(), None);
    }

    #[test]
    fn refusals_name_the_line() {
        let error = TestFile::parse("// kernel: f\n// arg 0: bufer float[4]\n").unwrap_err();
        assert_eq!(
            error,
            "line 2: arg: `bufer` is no kind of argument: buffer, tensor, bytes, struct, handles or null"
        );
        let error = TestFile::parse("// expect 1[0-2]: same\n").unwrap_err();
        assert_eq!(error, "line 1: expect: `[0-2]` is no part: write `[0..10]`");
        assert_eq!(
            grid("grids 100").unwrap_err(),
            "`grids 100` is no grid: write threads X Y Z or threadgroups X Y Z"
        );
        assert_eq!(grid("threadgroups 2 3"), Ok(([2, 3, 1], false)));
    }
}
