//! Findings of the sanitizer, and how they are shown.

use anymetal_ir::{Finding, FindingCode, SourcePoint, checks};
use anymetal_msl::diagnostics::Label;
use anymetal_msl::source::{FileId, SourceMap, Span};
use anymetal_msl::{Diagnostic, Diagnostics, Severity};

use crate::error::Result;
use crate::library::{INSPECTED, Library};
use crate::pipeline::FunctionConstants;

impl Library {
    /// Looks for mistakes in a kernel without running it: the static part of the sanitizer. (What needs a run is found with
    /// [`ExecutionOptions::sanitize`](crate::ExecutionOptions::sanitize).)
    ///
    /// ```
    /// use anymetal::{CompileOptions, Device, FunctionConstants};
    ///
    /// let source = "kernel void copy(device float *to, device const float *from, uint i [[thread_position_in_grid]]) {
    ///     to[i] = from[i];
    /// }";
    /// let library = Device::cpu().new_library(source, "copy.metal", &CompileOptions::default())?;
    /// assert!(library.check("copy", &FunctionConstants::new())?.is_empty());
    /// # Ok::<(), anymetal::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`kernel`](Self::kernel).
    pub fn check(&self, kernel: &str, constants: &FunctionConstants) -> Result<Vec<Finding>> {
        let mut findings = checks::run(&self.kernel_as_written(kernel, constants, INSPECTED)?);
        // The identity of a reduction may be 0 on purpose; the front end knows whether it was written.
        let warnings = self.warnings();
        let defaulted: Vec<SourcePoint> = warnings
            .list
            .iter()
            .filter(|warning| warning.code == "W0873")
            .filter_map(|warning| {
                let file = warnings.sources.get(warning.primary.span.file)?;
                let (line, column) = file.line_col(warning.primary.span.lo);
                Some(SourcePoint {
                    file: file.name.clone(),
                    line,
                    column,
                })
            })
            .collect();
        findings.retain(|finding| {
            finding.code != FindingCode::ReductionIdentity
                || defaulted.iter().any(|point| {
                    let at = finding.spot.point();
                    (&at.file, at.line) == (&point.file, point.line)
                })
        });
        Ok(findings)
    }

    /// Findings in this library's kernels as diagnostics, which render with the source lines and have a JSON form.
    pub fn diagnostics(&self, findings: &[Finding]) -> Diagnostics {
        let sources = self.warnings().sources;
        let list = findings.iter().map(|finding| diagnostic(&sources, finding)).collect();
        Diagnostics { sources, list }
    }
}

/// Findings that may be meant are warnings.
fn severity(code: FindingCode) -> Severity {
    match code {
        FindingCode::ReductionIdentity | FindingCode::OverwrittenProduct => Severity::Warning,
        _ => Severity::Error,
    }
}

fn diagnostic(sources: &SourceMap, finding: &Finding) -> Diagnostic {
    let place = |point: &SourcePoint| span(sources, point).unwrap_or_default();
    let mut notes = finding.notes.clone();
    if span(sources, finding.spot.point()).is_none() {
        notes.insert(0, format!("at {}", finding.spot.point()));
    }
    notes.extend(
        finding.spot.chain[1..]
            .iter()
            .map(|point| format!("called from {point}")),
    );
    for spot in &finding.related {
        let called = spot.chain[1..]
            .iter()
            .filter(|point| !finding.spot.chain.contains(point));
        notes.extend(called.map(|point| format!("{}: called from {point}", spot.point())));
    }
    if finding.count > 1 {
        notes.push(format!("seen {} times at these lines", finding.count));
    }
    Diagnostic {
        severity: severity(finding.code),
        code: finding.code.as_str(),
        message: format!("{} (kernel `{}`)", finding.message, finding.kernel),
        primary: Label {
            span: place(finding.spot.point()),
            text: finding.spot.label.clone(),
        },
        secondary: finding
            .related
            .iter()
            .map(|spot| Label {
                span: place(spot.point()),
                text: spot.label.clone(),
            })
            .collect(),
        notes,
        help: Some(finding.help.clone()),
        instantiation_chain: Vec::new(),
    }
}

/// The place in the sources, one character wide.
fn span(sources: &SourceMap, point: &SourcePoint) -> Option<Span> {
    let (index, file) = sources
        .files()
        .iter()
        .enumerate()
        .find(|(_, file)| file.name == point.file)?;
    if point.line == 0 || point.line > file.line_count() {
        return None;
    }
    let start: usize = file
        .text
        .split_inclusive('\n')
        .take(point.line as usize - 1)
        .map(str::len)
        .sum();
    let column: usize = file
        .line(point.line)
        .chars()
        .take((point.column as usize).saturating_sub(1))
        .map(char::len_utf8)
        .sum();
    let lo = (start + column) as u32;
    Some(Span::new(FileId(index as u32), lo, lo + 1))
}
