//! How large the tile of a SIMD-group is.

use super::unit::Unit;
use crate::lower::Lower;

/// The tile that a SIMD-group computes at a time: rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub lines: [u32; 2],
}

/// Threads of a threadgroup at most, which decides how many registers there are.
fn thread_limit(l: &Lower) -> u32 {
    let required = l.kernel.required_simdgroups.iter().map(|&(n, _)| 32 * n).max();
    let declared = l.kernel.max_threads.unwrap_or(1024);
    required.unwrap_or(declared).min(l.options.threads).clamp(32, 1024)
}

/// Chooses a tile for a destination of some size that so many SIMD-groups compute. A side whose operand is in `registers` is not cut.
/// Scales take registers of their own.
pub(super) fn tile(
    l: &Lower,
    unit: Unit,
    size: [u32; 2],
    simdgroups: u32,
    registers: [bool; 2],
    scaled: bool,
) -> Shape {
    // Sums a lane: 64 leave room for operands in 168 registers, 32 in 64.
    let most = match thread_limit(l) {
        ..=384 => 64,
        385..=512 => 48,
        _ => 32,
    };
    choose(unit, size, simdgroups, registers, if scaled { most / 2 } else { most })
}

fn choose(unit: Unit, size: [u32; 2], simdgroups: u32, registers: [bool; 2], most: u32) -> Shape {
    let whole = size.map(|lines| lines.next_multiple_of(8));
    let candidates = |side: usize, steps: &'static [u32]| -> Vec<u32> {
        if registers[side] {
            return vec![whole[side]];
        }
        let mut out: Vec<u32> = steps.iter().copied().filter(|&step| step < whole[side]).collect();
        out.push(whole[side].min(64));
        out
    };
    let mut best = (u64::MAX, Shape { lines: whole });
    for &rows in &candidates(0, &[8, 16, 32, 64]) {
        for &columns in &candidates(1, &[8, 16, 32, 64]) {
            let sums = rows.next_multiple_of(if unit == Unit::Fma { 8 } else { 16 }) * columns / 32;
            let smallest = registers[0] || registers[1] || rows.min(columns) <= 8;
            if sums > most && !(smallest && sums <= 256) {
                continue;
            }
            let tiles = size[0].div_ceil(rows) * size[1].div_ceil(columns);
            let rounds = u64::from(tiles.div_ceil(simdgroups));
            // Each block of lines costs its loads, each block of sums its instructions.
            let blocks = u64::from(rows.div_ceil(if unit == Unit::Fma { 8 } else { 16 }) * columns.div_ceil(8));
            let loads = u64::from(rows.div_ceil(8) + columns.div_ceil(8));
            let cost = rounds * (4 * blocks + 6 * loads + 8);
            if cost < best.0 {
                best = (cost, Shape { lines: [rows, columns] });
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_the_registers_and_share_out_the_work() {
        let shape = choose(Unit::F16, [128, 128], 4, [false; 2], 64);
        assert!(shape.lines[0] * shape.lines[1] / 32 <= 64, "{shape:?}");
        // Few rows: every SIMD-group has columns of its own.
        let shape = choose(Unit::F16, [16, 128], 4, [false; 2], 64);
        assert_eq!(shape.lines, [16, 32]);
        // A tile smaller than a fragment.
        assert_eq!(choose(Unit::F16, [8, 16], 1, [false; 2], 64).lines[0], 8);
    }

    #[test]
    fn operands_in_registers_are_not_cut() {
        let shape = choose(Unit::F16, [32, 64], 1, [true, false], 32);
        assert_eq!(shape.lines[0], 32);
    }
}
