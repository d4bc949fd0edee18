//! The codes of diagnostics: the page lists each of them once, and no two parts of the compiler share one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            // Test modules name codes that they expect.
            if path.file_name().is_none_or(|name| name != "tests") {
                files(&path, out);
            }
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_name().is_none_or(|name| name != "tests.rs")
        {
            out.push(path);
        }
    }
}

/// `E0123` or `W0123` at the start of a text.
fn code(text: &str) -> Option<&str> {
    let code = text.get(..5)?;
    let digits = code.strip_prefix(['E', 'W'])?;
    digits.bytes().all(|b| b.is_ascii_digit()).then_some(code)
}

/// The parts of the compiler: a path below `src`, or its start, and the hundreds of its codes.
const PARTS: &[(&str, &str, &[&str])] = &[
    ("library", "sema/library/", &["08", "09"]),
    ("meaning", "sema/", &["04", "05", "06", "07"]),
    ("syntax", "parser/", &["02", "03"]),
    ("lexer", "lexer.rs", &["02"]),
    ("preprocessor", "preprocessor/", &["01"]),
];

/// Each code in the sources with the files that use it.
fn used() -> BTreeMap<String, BTreeSet<String>> {
    let src = crate_path("src");
    let mut list = Vec::new();
    files(&src, &mut list);
    let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in list {
        let text = std::fs::read_to_string(&path).expect("a source");
        let tests = text.find("#[cfg(test)]\nmod tests {");
        let text = &text[..tests.unwrap_or(text.len())];
        let name = path.strip_prefix(&src).expect("below src");
        let name = name.to_string_lossy().replace('\\', "/");
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for part in line.split('"').filter(|part| part.len() == 5) {
                if let Some(code) = code(part) {
                    out.entry(code.into()).or_default().insert(name.clone());
                }
            }
        }
    }
    out
}

/// The codes of the page's tables, in order; `E0110–E0114` means all between.
fn listed() -> Vec<String> {
    let page = crate_path("../../docs/diagnostics.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut out = Vec::new();
    for line in page.lines() {
        let Some(cell) = line.strip_prefix("| ").and_then(|l| l.split('|').next()) else {
            continue;
        };
        for item in cell.split(',').map(str::trim) {
            let Some(first) = code(item) else { continue };
            let last = item.split_once('–').and_then(|(_, last)| code(last));
            let number = |code: &str| code[1..].parse::<u32>().expect("digits");
            for n in number(first)..=number(last.unwrap_or(first)) {
                out.push(format!("{}{n:04}", &first[..1]));
            }
        }
    }
    out
}

#[test]
fn page_lists_every_code_once() {
    let (used, listed) = (used(), listed());
    let unique: BTreeSet<&String> = listed.iter().collect();
    let twice: Vec<&String> = unique
        .iter()
        .copied()
        .filter(|code| listed.iter().filter(|other| other == code).count() > 1)
        .collect();
    let missing: Vec<&String> = used.keys().filter(|code| !unique.contains(code)).collect();
    let unused: Vec<&&String> = unique.iter().filter(|code| !used.contains_key(**code)).collect();
    assert!(used.len() > 250, "the sources are missing");
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    assert!(unused.is_empty(), "on the page only: {unused:?}");
    assert!(twice.is_empty(), "twice on the page: {twice:?}");
}

#[test]
fn parts_of_the_compiler_share_no_code() {
    for (code, files) in used() {
        for file in &files {
            let part = PARTS.iter().find(|(_, path, _)| file.starts_with(path));
            let Some((part, _, hundreds)) = part else {
                panic!("{file} uses {code} and belongs to no part");
            };
            assert!(
                hundreds.contains(&&code[1..3]),
                "{file} ({part}) uses {code}, which belongs to another part"
            );
        }
    }
}

/// A code that several files of one part use stands for one cause; the list says which were looked at.
#[test]
fn codes_of_several_files() {
    // One cause each: what is said depends on where it is found.
    const SHARED: &[&str] = &[
        "E0104", "E0112", "E0115", "E0301", "E0302", "E0303", "E0310", "E0311", "E0312", "E0420", "E0433", "E0434",
        "E0436", "E0445", "E0447", "E0458", "E0463", "E0466", "E0468", "E0470", "E0471", "E0472", "E0476", "E0481",
        "E0482", "E0484", "E0485", "E0486", "E0488", "E0491", "E0492", "E0495", "E0531", "E0536", "E0810", "E0811",
        "E0812", "E0813", "E0815", "E0829", "E0831", "E0842", "E0848", "E0854", "E0859", "E0860", "E0866", "E0879",
        "E0884", "E0892", "E0893", "E0895", "E0897", "E0908", "E0910",
    ];
    let several: Vec<String> = used()
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(code, _)| code)
        .collect();
    let new: Vec<&String> = several.iter().filter(|code| !SHARED.contains(&code.as_str())).collect();
    assert!(
        new.is_empty(),
        "used by a second file: {new:?}; take a new code if the cause is another"
    );
}
