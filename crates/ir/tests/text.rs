//! The text form: every operation goes to text and back, and hostile text gives an error with its place.

#[path = "common/random.rs"]
mod random;

use anymetal_ir::parse::MAX_NESTING;
use anymetal_ir::{parse, verify};
use random::Rng;

/// A kernel with every operation of the IR.
const EVERYTHING: &str = include_str!("snapshots/everything.ir");

#[test]
fn every_operation_round_trips() {
    let kernel = parse(EVERYTHING).unwrap();
    verify(&kernel).unwrap();
    assert_eq!(kernel.to_string(), EVERYTHING);
}

#[track_caller]
fn error(text: &str, expected: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), expected);
}

#[test]
fn errors_have_places() {
    error("", "1:1: expected `kernel`, found the end of the text");
    error("kernel k", "1:8: expected a string, found `k`");
    error("kernel \"k", "1:8: a string is not closed on its line");
    error(
        "kernel \"k\" {\n  body {\n    %0: i32 = frob %1\n",
        "3:15: expected an operation, found `frob`",
    );
    error(
        "kernel \"k\" { body { %0: i32 = neg %1 } }",
        "1:35: %1 is not defined above",
    );
    error(
        "kernel \"k\" { body { %0: i8 = const i8 256 } }",
        "1:39: expected a constant of type i8, found `256`",
    );
    error(
        "kernel \"k\" { body { %0: i8 = const i8 1 %0: i8 = const i8 1 } }",
        "1:61: %0 is defined twice",
    );
    error(
        "kernel \"k\" { body { %4000000000: i8 = const i8 1 } }",
        "1:50: %4000000000 is out of range for a text of this length",
    );
    error(
        "kernel \"k\" { body { %99999999999: i8 = const i8 1 } }",
        "1:21: `%` must be followed by a number below 2^32",
    );
    error(
        "kernel \"k\" { body { coop.init coop0 } }",
        "1:31: there is no cooperative tensor coop0",
    );
    error("kernel \"k\" { body { set $0, %0 } }", "1:25: there is no local $0");
    error("kernel \"k\" { loc !1 5 1 1", "1:26: there is no file 5");
    error("kernel \"k\" { body { return !3 } }", "1:28: there is no location !3");
    error(
        "kernel \"k\" { body { } } x",
        "1:25: expected the end of the text, found `x`",
    );
    error("kernel \"k\" { body { é } }", "1:21: unexpected character 'é'");
}

#[test]
fn nesting_is_limited() {
    let nested = |n: usize| {
        format!(
            "kernel \"k\" {{ body {{ {} {} }} }}",
            "scope {".repeat(n),
            "}".repeat(n)
        )
    };
    assert!(parse(&nested(MAX_NESTING - 1)).is_ok());
    let message = parse(&nested(100_000)).unwrap_err().message;
    assert_eq!(message, format!("blocks are nested deeper than {MAX_NESTING}"));
}

#[test]
fn damaged_text_never_panics() {
    let mut rng = Rng::new(7);
    let kernels: Vec<String> = (0..20)
        .map(|seed| random::kernel(seed).to_string())
        .chain([EVERYTHING.to_string()])
        .collect();
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        "%0",
        "%4294967295",
        "$9",
        "!7",
        "\"",
        "..",
        "-",
        "0x",
        "\\u{110000}",
        "load",
        "x9999999999",
        "\n",
        "é",
        "loop",
        "coop",
        "1e999",
    ];
    for round in 0..1500 {
        let text = &kernels[round % kernels.len()];
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(chars.len());
            match rng.below(3) {
                0 => {
                    let end = (at + 1 + rng.below(40)).min(chars.len());
                    chars.drain(at..end);
                }
                1 => {
                    let piece = pieces[rng.below(pieces.len())];
                    chars.splice(at..at, piece.chars());
                }
                _ => chars.truncate(at.max(1)),
            }
        }
        let text: String = chars.into_iter().collect();
        // What parses may still be nonsense, which the verifier must see without panicking.
        if let Ok(kernel) = parse(&text) {
            let _ = verify(&kernel);
            let again = kernel.to_string();
            assert_eq!(parse(&again).map(|kernel| kernel.to_string()), Ok(again));
        }
    }
}
