//! Results of a test run as JUnit XML, for continuous integration.

use std::fmt::Write;

/// One run of one file.
pub struct Case {
    /// File name, as given.
    pub file: String,
    /// Run label; the kernel's name or "default" without one.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// What happened.
    pub outcome: Outcome,
}

/// What happened.
pub enum Outcome {
    /// As expected.
    Passed,
    /// Not as expected, and why.
    Failed(String),
    /// Not run, and why.
    Skipped(String),
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The XML text.
pub fn render(cases: &[Case]) -> String {
    let failed = cases
        .iter()
        .filter(|case| matches!(case.outcome, Outcome::Failed(_)))
        .count();
    let skipped = cases
        .iter()
        .filter(|case| matches!(case.outcome, Outcome::Skipped(_)))
        .count();
    let seconds: f64 = cases.iter().map(|case| case.seconds).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<testsuite name=\"anymetal\" tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">",
        cases.len()
    );
    for case in cases {
        let _ = write!(
            out,
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            escape(&case.file),
            escape(&case.name),
            case.seconds
        );
        let _ = match &case.outcome {
            Outcome::Passed => writeln!(out, "/>"),
            Outcome::Failed(why) => writeln!(
                out,
                ">\n    <failure message=\"{}\">{}</failure>\n  </testcase>",
                escape(why.lines().next().unwrap_or("")),
                escape(why)
            ),
            Outcome::Skipped(why) => writeln!(out, ">\n    <skipped message=\"{}\"/>\n  </testcase>", escape(why)),
        };
    }
    out.push_str("</testsuite>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_counts() {
        let case = |outcome| Case {
            file: "a<b>.metal".into(),
            name: "x".into(),
            seconds: 0.5,
            outcome,
        };
        let text = render(&[case(Outcome::Passed), case(Outcome::Failed("1 < 2\n& more".into()))]);
        assert!(text.contains("tests=\"2\" failures=\"1\" skipped=\"0\" time=\"1.000\""));
        assert!(text.contains("classname=\"a&lt;b&gt;.metal\""));
        assert!(text.contains("<failure message=\"1 &lt; 2\">1 &lt; 2\n&amp; more</failure>"));
    }
}
