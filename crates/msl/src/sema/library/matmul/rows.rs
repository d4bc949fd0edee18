//! The rows of reference 4.4: which element types can be multiplied into which.

use anymetal_formats::ElementFormat;

use crate::sema::context::{Res, Sema};
use crate::source::Span;

/// Every format that some row has as an operand.
const OPERANDS: [ElementFormat; 12] = [
    ElementFormat::F16,
    ElementFormat::BF16,
    ElementFormat::F32,
    ElementFormat::I8,
    ElementFormat::U8,
    ElementFormat::Int4B,
    ElementFormat::UInt4B,
    ElementFormat::Int2B,
    ElementFormat::UInt2B,
    ElementFormat::Fp4E2M1,
    ElementFormat::Fp8E4M3,
    ElementFormat::Fp8E5M2,
];

/// Every format that some row has as a destination.
const DESTINATIONS: [ElementFormat; 4] = [
    ElementFormat::F32,
    ElementFormat::F16,
    ElementFormat::BF16,
    ElementFormat::I32,
];

/// Is this triple of element types supported?
pub fn supported(left: ElementFormat, right: ElementFormat, destination: ElementFormat) -> bool {
    use ElementFormat::*;
    match (left, right) {
        (F16, F16) | (F16, I8 | U8) | (I8 | U8, F16) => matches!(destination, F16 | F32),
        (F16 | F32 | BF16, F32) | (F32, F16 | BF16 | I8 | U8) | (I8 | U8, F32) => destination == F32,
        (I8, I8) | (U8, U8) | (I8, Int4B | Int2B) | (U8, UInt4B | UInt2B) => destination == I32,
        (BF16, BF16) | (BF16, I8 | U8) | (I8 | U8, BF16) => matches!(destination, BF16 | F32),
        (BF16, F16) | (F16, BF16) => matches!(destination, BF16 | F16 | F32),
        (F16, Int4B | UInt4B | Int2B | UInt2B) => matches!(destination, F16 | F32),
        (BF16, Int4B | UInt4B | Int2B | UInt2B) => matches!(destination, BF16 | F32),
        (F16, Fp4E2M1 | Fp8E4M3 | Fp8E5M2) => matches!(destination, F16 | F32),
        (Fp4E2M1, Fp4E2M1) | (Fp8E4M3, Fp8E4M3) | (Fp8E5M2, Fp8E5M2) => {
            matches!(destination, F16 | F32)
        }
        _ => false,
    }
}

/// The release that a pair of operand types came with (reference 4.4).
fn since(left: ElementFormat, right: ElementFormat) -> &'static str {
    use ElementFormat::*;
    let either = |formats: &[ElementFormat]| formats.contains(&left) || formats.contains(&right);
    if either(&[Int2B, UInt2B, Fp4E2M1, Fp8E4M3, Fp8E5M2]) {
        "27.0"
    } else if either(&[U8, Int4B, UInt4B]) {
        "26.4"
    } else if either(&[BF16]) {
        "26.1"
    } else {
        "26.0"
    }
}

/// A pair of operand types with its destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Elements of the left operand.
    pub left: ElementFormat,
    /// Elements of the right operand.
    pub right: ElementFormat,
    /// What the product can be stored as; each is one row of the table.
    pub destinations: Vec<ElementFormat>,
    /// The macOS release that has the rows.
    pub since: &'static str,
}

/// All rows, in the order of the formats.
pub fn pairs() -> Vec<Pair> {
    let mut out = Vec::new();
    for left in OPERANDS {
        for right in OPERANDS {
            let destinations = destinations(left, right);
            if !destinations.is_empty() {
                out.push(Pair {
                    left,
                    right,
                    destinations,
                    since: since(left, right),
                });
            }
        }
    }
    out
}

fn destinations(left: ElementFormat, right: ElementFormat) -> Vec<ElementFormat> {
    let fits = |&destination: &ElementFormat| supported(left, right, destination);
    DESTINATIONS.into_iter().filter(fits).collect()
}

/// Refuses a triple that is no row.
pub(super) fn check(
    sema: &Sema<'_>,
    left: ElementFormat,
    right: ElementFormat,
    destination: ElementFormat,
    span: Span,
) -> Res<()> {
    if supported(left, right, destination) {
        return Ok(());
    }
    let (left_name, right_name, name) = (left.msl_name(), right.msl_name(), destination.msl_name());
    let names: Vec<&str> = destinations(left, right)
        .iter()
        .map(|format| format.msl_name())
        .collect();
    let help = if names.is_empty() {
        "these operand types cannot be multiplied; convert one of them first".to_string()
    } else {
        format!("these operands can have a destination of {}", names.join(" or "))
    };
    sema.err_help(
        "E0880",
        format!(
            "Unsupported type: matmul2d has no row for left '{left_name}', right '{right_name}', destination '{name}'"
        ),
        span,
        help,
    )
}
