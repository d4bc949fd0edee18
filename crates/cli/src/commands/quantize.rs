//! `anymetal quantize` and `anymetal dequantize`: safetensors files to multi-plane tensors and back (docs/quantize.md).

use std::path::PathBuf;
use std::time::Instant;

use anymetal::ElementFormat;
use anymetal::quantise::{ErrorMetrics, FORMATS};
use anymetal::weights::{Converted, DequantiseOptions, QuantiseFileOptions, Report, dequantise_file, quantise_file};

use super::{Outcome, bytes, text};

/// Options of `quantize`.
#[derive(clap::Args)]
pub struct Options {
    /// The weights (a safetensors file)
    input: PathBuf,
    /// Where the quantised weights go
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// mxfp4, mxfp8 (E4M3), mxfp8_e5m2, int8, int4 or int2
    #[arg(long, short, value_parser = format)]
    format: ElementFormat,
    /// Elements that share a scale, along the last dimension. Metal's tensors know only 32
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(32..=32))]
    block: u64,
    /// Quantise only tensors whose name fits (`*` any text, `?` any character), of two or more dimensions; may be repeated.
    /// Without it: every matrix
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave tensors whose name fits as they are; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// How to report what quantisation lost
    #[arg(long, default_value = "text", value_parser = ["text", "json", "none"])]
    report: String,
}

/// Options of `dequantize`.
#[derive(clap::Args)]
pub struct BackOptions {
    /// The quantised weights (a safetensors file)
    input: PathBuf,
    /// Where the plain weights go
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The type to write: f32, f16 or bf16; without it, the type that each tensor had before
    #[arg(long, value_parser = wide_format)]
    dtype: Option<ElementFormat>,
    /// How to report what was done
    #[arg(long, default_value = "text", value_parser = ["text", "json", "none"])]
    report: String,
}

fn format(name: &str) -> Result<ElementFormat, String> {
    let format = match name {
        "mxfp4" => Some(ElementFormat::Fp4E2M1),
        "mxfp8" | "mxfp8_e4m3" => Some(ElementFormat::Fp8E4M3),
        "mxfp8_e5m2" => Some(ElementFormat::Fp8E5M2),
        "mxint8" => Some(ElementFormat::I8),
        other => other.parse().ok().filter(|format| FORMATS.contains(format)),
    };
    format.ok_or_else(|| "use mxfp4, mxfp8, mxfp8_e5m2, int8, int4 or int2 (unsigned integers need a zero point, which Metal's planes do not have)".to_owned())
}

fn wide_format(name: &str) -> Result<ElementFormat, String> {
    use ElementFormat::{BF16, F16, F32};
    let format = name.parse().ok().filter(|format| matches!(format, F32 | F16 | BF16));
    format.ok_or_else(|| "use f32, f16 or bf16".to_owned())
}

/// Quantises a file.
pub fn run(options: &Options) -> Outcome {
    let mut what = QuantiseFileOptions::new(options.format);
    what.include.clone_from(&options.include);
    what.exclude.clone_from(&options.exclude);
    let start = Instant::now();
    let report = quantise_file(&options.input, &options.output, &what).map_err(text)?;
    show(&options.report, &report, start);
    for tensor in &report.tensors {
        if let Some(metrics) = tensor.metrics
            && metrics.non_finite > 0
        {
            eprintln!(
                "warning: tensor `{}`: {} elements are in blocks with a NaN or an infinity; those blocks are NaN now",
                tensor.name, metrics.non_finite
            );
        }
    }
    Ok(true)
}

/// Turns a file back.
pub fn run_back(options: &BackOptions) -> Outcome {
    let what = options
        .dtype
        .map_or_else(DequantiseOptions::default, DequantiseOptions::to);
    let start = Instant::now();
    let report = dequantise_file(&options.input, &options.output, &what).map_err(text)?;
    show(&options.report, &report, start);
    Ok(true)
}

fn show(how: &str, report: &Report, start: Instant) {
    match how {
        "none" => {}
        "json" => println!("{}", json(report, start)),
        _ => table(report, start),
    }
}

/// Bytes of the plain values, whichever side they are on.
fn plain_bytes(tensor: &Converted) -> usize {
    let wide = if tensor.metrics.is_some() {
        tensor.from
    } else {
        tensor.to
    };
    wide.bytes_for(tensor.shape.iter().product())
}

fn speed(report: &Report) -> f64 {
    let plain: usize = report.tensors.iter().map(plain_bytes).sum();
    plain as f64 / 1e9 / report.converting.as_secs_f64().max(1e-9)
}

fn decibels(metrics: &ErrorMetrics) -> String {
    if metrics.sqnr_db.is_infinite() {
        "exact".to_owned()
    } else {
        format!("{:.1} dB", metrics.sqnr_db)
    }
}

/// A name from a file, which may hold anything, on one line and without what a terminal would obey.
fn printable(name: &str) -> String {
    let escape = |c: char| match c {
        c if c.is_control() => c.escape_default().collect(),
        c => String::from(c),
    };
    name.chars().map(escape).collect()
}

fn table(report: &Report, start: Instant) {
    let width = report
        .tensors
        .iter()
        .map(|t| printable(&t.name).chars().count())
        .max()
        .unwrap_or(0)
        .max(6);
    let quantised = report.tensors.iter().any(|t| t.metrics.is_some());
    let heads = if quantised {
        "       SQNR   rms error   max error"
    } else {
        ""
    };
    println!("{:<width$}  {:<16} {:<18}{heads}", "tensor", "shape", "type");
    for tensor in &report.tensors {
        let shape = format!("{:?}", tensor.shape);
        let types = format!("{} to {}", tensor.from, tensor.to);
        match tensor.metrics {
            Some(m) => println!(
                "{:<width$}  {shape:<16} {types:<18} {:>10}  {:>10.3e}  {:>10.3e}",
                printable(&tensor.name),
                decibels(&m),
                m.rms_error,
                m.max_error
            ),
            None => println!("{:<width$}  {shape:<16} {types}", printable(&tensor.name)),
        }
    }
    if let (Some(m), true) = (report.metrics(), report.tensors.len() > 1) {
        println!(
            "{:<width$}  {:<16} {:<18} {:>10}  {:>10.3e}  {:>10.3e}",
            "all",
            "",
            "",
            decibels(&m),
            m.rms_error,
            m.max_error
        );
    }
    println!(
        "{} tensors converted, {} copied; {} became {}; {:.2} s, conversion at {:.1} GB/s of plain values",
        report.tensors.len(),
        report.copied,
        bytes(report.bytes_before as u64),
        bytes(report.bytes_after as u64),
        start.elapsed().as_secs_f64(),
        speed(report)
    );
}

fn json(report: &Report, start: Instant) -> serde_json::Value {
    let metrics = |m: ErrorMetrics| {
        serde_json::json!({
            "elements": m.elements, "non_finite": m.non_finite, "max_error": m.max_error, "rms_error": m.rms_error,
            "rms_value": m.rms_value,
            // JSON has no infinity: null where nothing was lost.
            "sqnr_db": m.sqnr_db.is_finite().then_some(m.sqnr_db),
        })
    };
    let tensors: Vec<serde_json::Value> = report
        .tensors
        .iter()
        .map(|t| {
            serde_json::json!({
                "name": t.name, "shape": t.shape, "from": t.from.short_name(), "to": t.to.short_name(),
                "bytes_before": t.bytes_before, "bytes_after": t.bytes_after, "metrics": t.metrics.map(metrics),
            })
        })
        .collect();
    serde_json::json!({
        "tensors": tensors,
        "copied": report.copied,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "metrics": report.metrics().map(metrics),
        "seconds": start.elapsed().as_secs_f64(),
        "gigabytes_per_second": speed(report),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_printed_on_one_line() {
        assert_eq!(super::printable("a/ü\n\u{1b}[2J\""), "a/ü\\n\\u{1b}[2J\"");
    }
}
