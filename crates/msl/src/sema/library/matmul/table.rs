//! The tables of docs/tensorops.md, written from the rules themselves.

use std::fmt::Write as _;

use super::rows::{self, Pair};
use super::rules::{self, THREAD};
use crate::sema::types::Space;

/// The tables in Markdown: rows of element types, operand kinds by scope, and sizes by scope.
pub fn tables() -> String {
    let mut out = String::new();
    let pairs = rows::pairs();
    let count: usize = pairs.iter().map(|pair| pair.destinations.len()).sum();
    let _ = writeln!(
        out,
        "### Element types\n\n{count} rows of left, right and destination:\n"
    );
    out.push_str("| Left | Right | Destination | Since macOS |\n|---|---|---|---|\n");
    for Pair {
        left,
        right,
        destinations,
        since,
    } in &pairs
    {
        let names: Vec<String> = destinations
            .iter()
            .map(|format| format!("`{}`", format.msl_name()))
            .collect();
        let _ = writeln!(
            out,
            "| `{}` | `{}` | {} | {since} |",
            left.msl_name(),
            right.msl_name(),
            names.join(", ")
        );
    }
    out.push_str("\n### Operands by scope\n\n");
    out.push_str("| Operand | `execution_thread` | `execution_simdgroup` | `execution_simdgroups<N>`, N > 1 |\n|---|---|---|---|\n");
    let scopes = [THREAD, 1, 2];
    let mut line = |name: &str, allowed: &dyn Fn(u32) -> bool| {
        let cells = scopes.map(|scope| if allowed(scope) { "yes" } else { "no" });
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    };
    for (space, name) in [
        (Space::Device, "device"),
        (Space::Constant, "constant"),
        (Space::Threadgroup, "threadgroup"),
        (Space::Thread, "thread"),
    ] {
        for destination in [false, true] {
            let what = if destination { "destination" } else { "input" };
            line(&format!("{what} in {name} memory"), &|scope| {
                rules::space_allowed(scope, space, destination)
            });
        }
    }
    line("cooperative input", &|scope| rules::cooperative_allowed(scope, false));
    line("cooperative destination", &|scope| {
        rules::cooperative_allowed(scope, true)
    });
    out.push_str(
        "\n### Sizes by scope\n\nM, N and K of descriptors up to 48 that are accepted without `--lenient`:\n\n",
    );
    out.push_str("| Scope | Inputs | M × N | K |\n|---|---|---|---|\n");
    for (scope, name) in [(THREAD, "`execution_thread`"), (1, "SIMD-groups")] {
        let memory = sizes(&|m, n| rules::memory_rule(scope, m, n).is_none());
        let inner = inner(&|k| rules::inner_rule(scope, Some(k)).is_none());
        let _ = writeln!(out, "| {name} | in memory | {memory} | {inner}, or dynamic |");
    }
    let inner_of_one = inner(&|k| rules::inner_rule(1, Some(k)).is_none());
    let _ = writeln!(
        out,
        "| `execution_simdgroup` | one cooperative | any | {inner_of_one} |"
    );
    let both: Vec<String> = [16, 32, 48]
        .into_iter()
        .flat_map(|m| [16, 32, 48].map(|n| (m, n)))
        .flat_map(|(m, n)| [16, 32, 48].map(|k| (m, n, k)))
        .filter(|&(m, n, k)| rules::cooperative_rule(m, n, k).is_none())
        .map(|(m, n, k)| format!("{m}×{n}×{k}"))
        .collect();
    let _ = writeln!(
        out,
        "| `execution_simdgroup` | both cooperative | M×N×K: {} | as listed |",
        both.join(", ")
    );
    out
}

/// The sizes that a rule lets through, in words or listed.
fn sizes(allowed: &dyn Fn(u32, u32) -> bool) -> String {
    if (1..=48).all(|m| (1..=48).all(|n| allowed(m, n))) {
        return "any".to_string();
    }
    let list: Vec<String> = (1..=48)
        .flat_map(|m| (m..=48).map(move |n| (m, n)))
        .filter(|&(m, n)| allowed(m, n) && allowed(n, m))
        .map(|(m, n)| format!("{m}×{n}"))
        .collect();
    format!("either way: {}", list.join(", "))
}

fn inner(allowed: &dyn Fn(u32) -> bool) -> String {
    if (1..=48).all(allowed) {
        return "any".to_string();
    }
    let list: Vec<String> = (1..=48).filter(|&k| allowed(k)).map(|k| k.to_string()).collect();
    list.join(", ")
}
