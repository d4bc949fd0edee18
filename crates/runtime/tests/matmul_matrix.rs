//! Every row of element types of `matmul2d`, with both transposes where they are allowed, scaled or not, over all kinds of
//! operands and all scopes, on every tile path of the machine, against sums in `f64`.

#[path = "common/products.rs"]
mod products;

use anymetal::ElementFormat::{self, *};
use anymetal::{Device, ExecutionOptions, TilePath};
use products::{Case, Inner, Kind, Random};

/// The 69 rows of the specification's table, written as there: left and right, then destinations.
fn rows() -> Vec<[ElementFormat; 3]> {
    let half: &[ElementFormat] = &[F16, F32];
    let bfloat: &[ElementFormat] = &[BF16, F32];
    let float: &[ElementFormat] = &[F32];
    let int: &[ElementFormat] = &[I32];
    let mixed: &[ElementFormat] = &[BF16, F16, F32];
    let table: &[(ElementFormat, ElementFormat, &[ElementFormat])] = &[
        (F16, F16, half),
        (F16, F32, float),
        (F32, F16, float),
        (F32, F32, float),
        (F16, I8, half),
        (I8, F16, half),
        (F32, I8, float),
        (I8, F32, float),
        (I8, I8, int),
        (BF16, BF16, bfloat),
        (BF16, F32, float),
        (F32, BF16, float),
        (BF16, I8, bfloat),
        (I8, BF16, bfloat),
        (BF16, F16, mixed),
        (F16, BF16, mixed),
        (F16, U8, half),
        (U8, F16, half),
        (F32, U8, float),
        (U8, F32, float),
        (U8, U8, int),
        (BF16, U8, bfloat),
        (U8, BF16, bfloat),
        (F16, Int4B, half),
        (F16, UInt4B, half),
        (BF16, Int4B, bfloat),
        (BF16, UInt4B, bfloat),
        (I8, Int4B, int),
        (U8, UInt4B, int),
        (F16, Int2B, half),
        (F16, UInt2B, half),
        (BF16, Int2B, bfloat),
        (BF16, UInt2B, bfloat),
        (I8, Int2B, int),
        (U8, UInt2B, int),
        (F16, Fp4E2M1, half),
        (F16, Fp8E4M3, half),
        (F16, Fp8E5M2, half),
        (Fp4E2M1, Fp4E2M1, half),
        (Fp8E4M3, Fp8E4M3, half),
        (Fp8E5M2, Fp8E5M2, half),
    ];
    table
        .iter()
        .flat_map(|&(left, right, destinations)| destinations.iter().map(move |&to| [left, right, to]))
        .collect()
}

fn paths() -> Vec<TilePath> {
    let paths = Device::cpu().available_tile_paths();
    paths.iter().map(|path| path.parse().expect("a path")).collect()
}

fn options(path: TilePath) -> ExecutionOptions {
    ExecutionOptions::new().with_tile_path(path).with_threads(1)
}

const TRANSPOSES: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Kinds of left, right and destination, the scope, and the descriptor's K, that go together.
fn arrangements() -> Vec<([Kind; 3], u32, Inner)> {
    use Kind::*;
    vec![
        ([Handle, Handle, Handle], 4, Inner::Extent),
        ([Slice, Inline, Cooperative], 1, Inner::Length),
        ([Threadgroup, Slice, Inline], 2, Inner::Zero),
        ([Constant, Threadgroup, Threadgroup], 8, Inner::Extent),
        ([Inline, Constant, Slice], 16, Inner::Static(48)),
        ([Cooperative, Inline, Cooperative], 1, Inner::Static(48)),
        ([Threadgroup, Cooperative, Inline], 1, Inner::Static(48)),
        ([Cooperative, Cooperative, Cooperative], 1, Inner::Static(32)),
        ([Cooperative, Cooperative, Threadgroup], 1, Inner::Static(32)),
        ([Thread, Inline, Thread], 0, Inner::Extent),
        ([Handle, Thread, Inline], 0, Inner::Static(48)),
        ([Thread, Thread, Thread], 0, Inner::Length),
    ]
}

fn case(row: [ElementFormat; 3], transposed: [bool; 2], (kinds, scope, inner): ([Kind; 3], u32, Inner)) -> Case {
    let k = match inner {
        Inner::Static(k) => k as usize,
        _ => 45,
    };
    let both = kinds[0] == Kind::Cooperative && kinds[1] == Kind::Cooperative;
    // Tiles overhang; threads take any size.
    let (tile, sizes) = match (scope, both) {
        (0, _) => ([7, 5], [7, 5, k]),
        (_, true) => ([16, 32], [13, 29, k]),
        _ => ([32, 16], [27, 13, k]),
    };
    let mut case = Case {
        formats: row,
        transposed,
        scaled: [false; 2],
        kinds,
        scope,
        tile,
        inner,
        sizes,
        accumulate: false,
        relaxed: false,
    };
    // Tensors of format types have dimension 0 in multiples of 32 elements on the host.
    for at in 0..2 {
        if row[at].is_format_type() && matches!(kinds[at], Kind::Handle | Kind::Slice) {
            case.kinds[at] = Kind::Inline;
        }
    }
    case
}

#[test]
fn every_row_in_every_arrangement() {
    let rows = rows();
    assert_eq!(rows.len(), 69);
    let (paths, arrangements) = (paths(), arrangements());
    let mut round = 0;
    for (r, &row) in rows.iter().enumerate() {
        for (a, &arrangement) in arrangements.iter().enumerate() {
            // Each arrangement with one or two of the transposes of a row, all over the rows and destinations.
            for transposed in [TRANSPOSES[(r + a) % 4], TRANSPOSES[(r + a / 3 + 2) % 4]] {
                let mut case = case(row, transposed, arrangement);
                case.accumulate = round % 3 == 0;
                case.relaxed = round % 2 == 0;
                case.check(round as u64, &options(paths[round % paths.len()]));
                round += 1;
            }
        }
    }
}

#[test]
fn scaled_operands() {
    let paths = paths();
    let mut round = 0;
    for row in rows() {
        if row[2] == I32 || row.iter().all(|format| format.bits() > 8) {
            continue;
        }
        for scaled in [[true, false], [false, true], [true, true]] {
            // Elements of one byte at most can have scales.
            if (0..2).any(|at| scaled[at] && row[at].bits() > 8) {
                continue;
            }
            for free in [false, true] {
                let transposed = [free && !scaled[0], scaled[1] || free];
                for kinds in [
                    [Kind::Inline, Kind::Inline, Kind::Inline],
                    [Kind::Handle, Kind::Slice, Kind::Cooperative],
                    [Kind::Slice, Kind::Handle, Kind::Threadgroup],
                    [Kind::Threadgroup, Kind::Inline, Kind::Handle],
                ] {
                    let mut case = case(row, transposed, (kinds, 2, Inner::Length));
                    case.scaled = scaled;
                    // Handles of format types and scaled ones: whole multiples of 32 along dimension 0.
                    case.kinds = kinds;
                    case.sizes = [32, 32, 96];
                    case.tile = [32, 32];
                    for at in 0..2 {
                        if scaled[at] && kinds[at] == Kind::Threadgroup {
                            case.kinds[at] = Kind::Inline;
                        }
                    }
                    if (0..2).any(|at| row[at].is_format_type() && case.kinds[at] == Kind::Slice) {
                        // The slice's origin would leave dimension 0 without a multiple of 32.
                        let k_first = [!transposed[0], transposed[1]];
                        for at in 0..2 {
                            if row[at].is_format_type() && case.kinds[at] == Kind::Slice && !k_first[at] {
                                case.kinds[at] = Kind::Handle;
                            }
                        }
                    }
                    case.accumulate = round % 2 == 0;
                    case.check(1000 + round as u64, &options(paths[round % paths.len()]));
                    round += 1;
                }
            }
        }
    }
    assert!(round > 100);
}

/// All scopes, with tiles that have fewer rows or columns than there are SIMD-groups for.
#[test]
fn scopes() {
    for scope in [1, 2, 4, 8, 16] {
        for tile in [[16, 16], [64, 32], [16, 128], [8, 16]] {
            for destination in [Kind::Inline, Kind::Cooperative] {
                let mut case = case(
                    [F16, F16, F32],
                    [false, true],
                    ([Kind::Inline, Kind::Inline, destination], scope, Inner::Extent),
                );
                case.tile = tile;
                case.sizes = [tile[0] as usize - 1, tile[1] as usize - 2, 77];
                case.check(u64::from(scope), &options(paths()[0]));
            }
        }
    }
}

/// Sizes that only threads take.
#[test]
fn threads_take_any_size() {
    for (tile, k) in [([1, 17], 19), ([29, 1], 3), ([1, 1], 1), ([3, 5], 64)] {
        for transposed in TRANSPOSES {
            let arrangement = ([Kind::Thread, Kind::Inline, Kind::Thread], 0, Inner::Extent);
            let mut case = case([F16, F16, F16], transposed, arrangement);
            (case.tile, case.sizes) = (tile, [tile[0] as usize, tile[1] as usize, k]);
            case.check(k as u64, &options(paths()[0]));
        }
    }
}

/// A value of a hard kind: tiny, subnormal, huge for its format, a power of two, or an ordinary one.
fn hard_code(random: &mut Random, format: ElementFormat) -> u64 {
    let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
    let value = match (random.below(6), format) {
        (0, BF16 | F32) => 1e-39 * (1 + random.below(9)) as f64,
        (0, _) => 6e-8 * (1 + random.below(9)) as f64,
        (1, BF16 | F32) => 3e14 * (1.0 + random.unit().abs()),
        (1, _) => 3e4 * (1.0 + random.unit().abs()),
        (2, BF16 | F32) => 2f64.powi(random.below(60) as i32 - 40),
        (2, _) => 2f64.powi(random.below(24) as i32 - 12),
        _ => random.unit(),
    };
    format.encode(sign * value)
}

/// Large beside small, sums that cancel, subnormals of every format that has them: within the bound for `float` sums.
#[test]
fn hard_values() {
    let paths = paths();
    for (r, row) in rows().into_iter().enumerate() {
        if row[2] != F32 || row[0].is_format_type() {
            continue;
        }
        for (p, &path) in paths.iter().enumerate() {
            for relaxed in [false, true] {
                // Relaxed floats are rounded, which this bound does not know of.
                if relaxed && row.iter().take(2).any(|&format| format == F32) {
                    continue;
                }
                let arrangement = ([Kind::Inline; 3], 1, Inner::Extent);
                let mut case = case(row, TRANSPOSES[(r + p) % 4], arrangement);
                case.relaxed = relaxed;
                case.sizes[2] = 150;
                let mut data = case.data(77);
                let mut random = Random((r * 10 + p) as u64);
                for matrix in data.iter_mut().take(2) {
                    if !matrix.format.is_float() || matrix.format.is_format_type() {
                        continue;
                    }
                    // Neighbours cancel, more or less.
                    let mut last = 0;
                    let sign = 1u64 << (matrix.format.bits() - 1);
                    for code in &mut matrix.codes {
                        *code = match random.below(3) {
                            0 => last ^ sign,
                            1 => (last ^ sign).wrapping_add(1) & !(0x40 << 9),
                            _ => hard_code(&mut random, matrix.format),
                        };
                        if !matrix.format.decode(*code).is_finite() || matrix.format.decode(*code).abs() > 1e15 {
                            *code = hard_code(&mut random, matrix.format);
                        }
                        last = *code;
                    }
                }
                let got = case.run(&data, &options(path)).unwrap();
                if let Err(why) = case.compare(&data, &got) {
                    panic!("{case:?} on {path:?}: {why}");
                }
            }
        }
    }
}

/// Infinities and NaN go where the sums in `f64` say, and nowhere else.
#[test]
fn infinities_and_nan() {
    for row in [
        [F16, F16, F32],
        [BF16, BF16, F32],
        [F32, F32, F32],
        [BF16, F16, BF16],
        [F16, Fp8E5M2, F16],
        [I8, BF16, F32],
    ] {
        for path in paths() {
            let mut case = case(row, [false, true], ([Kind::Inline; 3], 1, Inner::Extent));
            case.sizes[2] = 21;
            let mut data = case.data(3);
            for (at, matrix) in data.iter_mut().take(2).enumerate() {
                for (place, value) in [(5, f64::INFINITY), (33, f64::NAN), (70, f64::NEG_INFINITY), (71, 0.0)] {
                    if matrix.format.is_float() && (value.is_finite() || at == 0 || place != 33) {
                        matrix.codes[place] = matrix.format.encode(value);
                    }
                }
            }
            let got = case.run(&data, &options(path)).unwrap();
            if let Err(why) = case.compare(&data, &got) {
                panic!("{case:?} on {path:?}: {why}");
            }
        }
    }
}

#[test]
fn integers_wrap_and_are_exact() {
    for row in [[I8, I8, I32], [U8, U8, I32]] {
        let mut case = case(row, [false, true], ([Kind::Inline; 3], 1, Inner::Extent));
        (case.tile, case.sizes) = ([16, 16], [3, 3, 140_000]);
        for path in paths() {
            let mut data = case.data(5);
            let extreme = if row[0] == I8 { 0x80 } else { 0xff };
            data[0].codes.fill(extreme);
            data[1].codes.fill(extreme);
            let got = case.run(&data, &options(path)).unwrap();
            case.compare(&data, &got).unwrap();
            assert!(row[0] == I8 || f64::from(got[0] as u32 as i32) < 2f64.powi(31));
        }
    }
}
