//! `--os`: what a release of macOS does not have yet (reference 0.3, 4.4, 4.5). The whole version map is in this file.
//!
//! Code that a release lacks is a warning with the code W0990, so that one run names every such line; the compilation goes on
//! with the meaning of the newest release. Restrictions that a release does not have yet are not applied.

use anymetal_formats::ElementFormat;
use anymetal_ir::CoopRole;

use super::Call;
use crate::diagnostics::Diagnostic;
use crate::options::OsRelease;
use crate::sema::context::Sema;
use crate::sema::types::{Object, Type};
use crate::source::{FileOrigin, SourceMap};
use crate::token::{Token, TokenKind};

const fn release(major: u8, minor: u8) -> OsRelease {
    OsRelease { major, minor }
}

/// Names that a release adds, with what they are.
const NAMES: &[(&str, OsRelease)] = &[
    ("int2b_format", release(27, 0)),
    ("uint2b_format", release(27, 0)),
    ("metal_fp4_e2m1_format", release(27, 0)),
    ("metal_fp8_e4m3_format", release(27, 0)),
    ("metal_fp8_e5m2_format", release(27, 0)),
    ("metal_fp8_ue8m0_format", release(27, 0)),
    ("tensor_blockwise", release(27, 0)),
    ("tensor_plane_scales", release(27, 0)),
    ("get_left_input_cooperative_tensor", release(26, 3)),
    ("get_right_input_cooperative_tensor", release(26, 3)),
    ("cooperative_tensor_left_input_t", release(26, 3)),
    ("cooperative_tensor_right_input_t", release(26, 3)),
    ("is_compatible_as_left_input", release(26, 3)),
    ("is_compatible_as_right_input", release(26, 3)),
];

/// Restrictions that a release adds, by the code of their refusal.
const RESTRICTIONS: &[(&str, OsRelease)] = &[
    // K must be dynamic or a multiple of 16.
    ("E0879", release(26, 6)),
    // M and N must be multiples of 8, and one of them of 16.
    ("E0892", release(26, 4)),
    ("E0893", release(26, 4)),
    // Two cooperative inputs: sizes of 16 and 32.
    ("E0908", release(26, 6)),
];

/// The release that has products of these operands (reference 4.4).
fn row(left: ElementFormat, right: ElementFormat) -> OsRelease {
    use ElementFormat::*;
    let either = |formats: &[ElementFormat]| formats.contains(&left) || formats.contains(&right);
    if either(&[Int2B, UInt2B, Fp4E2M1, Fp8E4M3, Fp8E5M2]) {
        release(27, 0)
    } else if either(&[U8, Int4B, UInt4B]) {
        release(26, 4)
    } else if either(&[BF16]) {
        release(26, 1)
    } else {
        release(26, 0)
    }
}

/// A sentence about something that needs a later release than the one that is asked for.
fn message(what: &str, since: OsRelease, asked: OsRelease) -> String {
    format!("{what} needs macOS {since}; this does not compile on macOS {asked}")
}

/// Names of the program's own text that the release does not have, each place once.
pub fn names(tokens: &[Token], sources: &SourceMap, asked: OsRelease) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = Vec::new();
    for token in tokens {
        let TokenKind::Ident(name) = &token.kind else { continue };
        let known = NAMES.iter().find(|(known, _)| *known == name.as_str());
        let Some(&(name, since)) = known.filter(|(_, since)| *since > asked) else {
            continue;
        };
        let own = sources
            .get(token.span.file)
            .is_some_and(|file| file.origin == FileOrigin::User);
        if own && !out.iter().any(|other| other.primary.span == token.span) {
            let text = message(&format!("'{name}'"), since, asked);
            out.push(Diagnostic::warning("W0990", text, token.span).label(format!("since macOS {since}")));
        }
    }
    out
}

/// Looks at a call of a member function of `matmul2d`: the row of element types, operands that are cooperative, scales.
pub(super) fn matmul(sema: &mut Sema<'_>, call: &Call<'_>) {
    let Some(asked) = sema.options.os else { return };
    if call.name != "run" {
        return;
    }
    let mut formats = Vec::new();
    let mut findings: Vec<(String, OsRelease)> = Vec::new();
    for (at, arg) in call.args.iter().enumerate() {
        let Some(ty) = arg.operand().map(|operand| operand.ty().clone()) else {
            return;
        };
        match object(&ty) {
            Some(Object::Tensor(tensor)) => {
                if tensor.plane.is_some() {
                    findings.push(("an operand with scales".to_string(), release(27, 0)));
                }
                formats.push(tensor.format);
            }
            Some(Object::Coop(coop)) => {
                if at < 2 && matches!(coop.role, CoopRole::Left | CoopRole::Right) {
                    findings.push(("a cooperative tensor as an input".to_string(), release(26, 3)));
                }
                formats.push(coop.element);
            }
            _ => return,
        }
    }
    if let [left, right, destination] = formats[..] {
        let what = format!(
            "a product of '{}' and '{}' into '{}'",
            left.msl_name(),
            right.msl_name(),
            destination.msl_name()
        );
        findings.push((what, row(left, right)));
    }
    for (what, since) in findings {
        if since > asked {
            sema.warn("W0990", message(&what, since, asked), call.span);
        }
    }
}

fn object(ty: &Type) -> Option<&Object> {
    ty.as_object()
}

/// Does the release that is asked for have this restriction already?
pub fn restricts(asked: Option<OsRelease>, code: &str) -> bool {
    let since = RESTRICTIONS.iter().find(|(known, _)| *known == code);
    match (asked, since) {
        (Some(asked), Some((_, since))) => asked >= *since,
        _ => true,
    }
}

/// Where a restriction comes from, for its message.
pub fn since_note(code: &str) -> Option<String> {
    let (_, since) = RESTRICTIONS.iter().find(|(known, _)| *known == code)?;
    Some(format!("macOS {since} and later ask for this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_with_their_newest_operand() {
        use ElementFormat::*;
        assert_eq!(row(F16, F32), release(26, 0));
        assert_eq!(row(I8, BF16), release(26, 1));
        assert_eq!(row(BF16, U8), release(26, 4));
        assert_eq!(row(I8, Int4B), release(26, 4));
        assert_eq!(row(BF16, UInt2B), release(27, 0));
        assert_eq!(row(Fp8E4M3, Fp8E4M3), release(27, 0));
    }
}
