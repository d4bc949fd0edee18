//! Compares what the sanitizer found with what a test expects.

use anymetal::{Diagnostic, Diagnostics};

use super::header::Wanted;

/// Every expected finding must be there, and no other. A fault that the test expects may show as a finding.
pub fn check(found: &Diagnostics, wanted: &[Wanted], fault: Option<&str>) -> Result<(), String> {
    let line = |span: anymetal::Span| {
        let file = found.sources.get(span.file);
        file.map_or(0, |file| file.line_col(span.lo).0)
    };
    let matches = |finding: &Diagnostic, wanted: &Wanted| {
        let text = wanted.text.as_str();
        let mut lines = wanted.lines.iter();
        let others: Vec<u32> = finding.secondary.iter().map(|label| line(label.span)).collect();
        finding.code == wanted.code
            && lines.next().is_none_or(|&first| first == line(finding.primary.span))
            && lines.all(|other| others.contains(other))
            && (finding.message.contains(text)
                || finding.primary.text.contains(text)
                || finding.secondary.iter().any(|label| label.text.contains(text))
                || finding.notes.iter().any(|note| note.contains(text))
                || finding.help.as_deref().is_some_and(|help| help.contains(text)))
    };
    let all = || match found.list.is_empty() {
        true => "nothing was found".to_string(),
        false => found.render(),
    };
    for expected in wanted {
        if !found.list.iter().any(|finding| matches(finding, expected)) {
            let lines: Vec<String> = expected.lines.iter().map(u32::to_string).collect();
            return Err(format!(
                "no finding is `{} at {}: {}`:\n{}",
                expected.code,
                lines.join(", "),
                expected.text,
                all()
            ));
        }
    }
    let is_fault = |finding: &Diagnostic| fault.is_some_and(|text| finding.message.contains(text));
    if let Some(text) = fault
        && !found.list.iter().any(is_fault)
    {
        return Err(format!("no finding contains `{text}`:\n{}", all()));
    }
    let stray = found
        .list
        .iter()
        .find(|finding| !is_fault(finding) && !wanted.iter().any(|expected| matches(finding, expected)));
    match stray {
        Some(finding) => Err(format!("an unexpected finding, {}:\n{}", finding.code, all())),
        None => Ok(()),
    }
}
