//! One module a command. Each returns `Ok(true)` when all is well, `Ok(false)` when it has reported a failure itself,
//! and an error otherwise.

pub mod check;
pub mod config;
pub mod demo;
pub mod devices;
pub mod inspect;
pub mod kernel_ptx;
pub mod kernel_run;
pub mod quantize;
pub mod run;
pub mod test;

/// What a command came to.
pub type Outcome = Result<bool, String>;

/// An error as its message.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Writes to a terminal get colours, files and pipes do not.
pub fn colour() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// A duration for people.
pub fn milliseconds(time: std::time::Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 {
        format!("{ms:.2} ms")
    } else {
        format!("{ms:.1} ms")
    }
}

/// `no findings`, `1 finding`, `3 findings`.
pub fn count_findings(count: usize) -> String {
    match count {
        0 => "sanitizer: no findings".to_string(),
        1 => "sanitizer: 1 finding".to_string(),
        _ => format!("sanitizer: {count} findings"),
    }
}

/// Prints findings, and how many there are.
pub fn show_findings(findings: &anymetal::Diagnostics) {
    if !findings.list.is_empty() {
        eprint!("{}", findings.render_with(colour()));
    }
    println!("{}", count_findings(findings.list.len()));
}
