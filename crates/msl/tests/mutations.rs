//! Damaged kernels are refused or compiled, never a panic or a hang: tokens of real kernels are swapped, dropped, doubled
//! and replaced by others, which gets past the parser far more often than damaged bytes do.

use std::path::Path;
use std::time::{Duration, Instant};

use anymetal_msl::{CompileOptions, Library};

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }
}

/// Words, numbers and single punctuation characters; white space stays with what follows it.
fn tokens(source: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut word = false;
    for c in source.chars() {
        let is_word = c.is_alphanumeric() || c == '_' || c == '.';
        match out.last_mut() {
            Some(last) if (word && is_word) || last.trim().is_empty() => last.push(c),
            _ => out.push(c.to_string()),
        }
        word = is_word;
    }
    out
}

const EXTRA: &[&str] = &[
    "0",
    "1",
    "-1",
    "2147483648",
    "1e30f",
    "0.5h",
    "float",
    "half",
    "int",
    "uint",
    "bool",
    "float4",
    "const",
    "device",
    "thread",
    "threadgroup",
    "constant",
    "auto",
    "&",
    "*",
    "/",
    "%",
    "<",
    ">",
    "<<",
    "==",
    "=",
    "+=",
    "++",
    "!",
    "~",
    ",",
    ";",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ".",
    "->",
    "?",
    ":",
    "return",
    "break",
    "if",
    "else",
    "for",
    "while",
    "this",
    "static",
    "constexpr",
    "template",
    "typename",
    "decltype",
    "sizeof",
    "T",
    "N",
    "x",
    "i",
    "true",
    "nullptr",
];

fn mutate(words: &[String], random: &mut Random) -> String {
    let mut words = words.to_vec();
    for _ in 0..=random.next(3) {
        let at = random.next(words.len());
        match random.next(5) {
            0 => {
                words.remove(at);
            }
            1 => words.insert(at, format!(" {}", EXTRA[random.next(EXTRA.len())])),
            2 => words[at] = format!(" {}", EXTRA[random.next(EXTRA.len())]),
            3 => {
                let other = random.next(words.len());
                words.swap(at, other);
            }
            _ => words[at] = words[random.next(words.len())].clone(),
        }
    }
    words.concat()
}

#[test]
fn damaged_kernels_do_not_break_the_compiler() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rounds: usize = std::env::var("MUTATION_ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(1);
    let seed: u64 = std::env::var("MUTATION_SEED")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(1);
    let mut files = Vec::new();
    for dir in ["tests/talk", "tests/kernels", "tests/errors"] {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            files.push(entry.unwrap().path());
        }
    }
    files.retain(|p| p.extension().is_some_and(|e| e == "metal"));
    files.sort();
    let options = CompileOptions {
        allow_files: false,
        max_errors: 5,
        ..Default::default()
    };
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
    let mut broken = Vec::new();
    for path in &files {
        let source = std::fs::read_to_string(path).unwrap();
        // Attention kernels come in many shapes: one instantiation is enough here.
        if source.len() > 20_000 {
            continue;
        }
        let words = tokens(&source);
        for _ in 0..rounds {
            let text = mutate(&words, &mut random);
            let start = Instant::now();
            let result = std::panic::catch_unwind(|| match Library::compile(&text, "m.metal", &options) {
                Ok(_) => true,
                Err(d) => d.render().is_empty() || d.to_json().is_empty(),
            });
            let slow = start.elapsed() > Duration::from_secs(30);
            if result.is_err() || slow {
                let kept = std::env::temp_dir().join(format!("mutation_{}.metal", broken.len()));
                let _ = std::fs::write(&kept, &text);
                let what = if slow { "takes too long" } else { "panics" };
                broken.push(format!("{} {what}: {}", path.display(), kept.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
