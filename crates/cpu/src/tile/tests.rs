//! Every path of this machine against sums in `f64`.

use anymetal_formats::ElementFormat::{self, *};

use super::*;

mod few;

/// A small generator (xorshift64*): the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// About normally distributed.
    fn normal(&mut self) -> f64 {
        let sum: f64 = (0..6).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
        (sum - 3.0) * 1.4
    }
}

/// How values are spread.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Spread {
    Normal,
    /// Signs and magnitudes that cancel: large pairs with small remainders.
    Cancelling,
    /// Down to the format's subnormals.
    Tiny,
    /// With a few infinities and NaNs.
    Special,
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    Rows,
    Columns,
    PaddedRows,
    PaddedColumns,
    Strided,
    OneRow,
    OneColumn,
}

const LIES: [Lie; 7] = [
    Lie::Rows,
    Lie::Columns,
    Lie::PaddedRows,
    Lie::PaddedColumns,
    Lie::Strided,
    Lie::OneRow,
    Lie::OneColumn,
];

/// A matrix and what it means.
struct Matrix {
    bytes: Vec<u8>,
    codes: Vec<u8>,
    format: ElementFormat,
    rows: usize,
    cols: usize,
    valid: (usize, usize),
    strides: (i64, i64),
    origin: i64,
    /// Rows and columns of a scale block, and the phase along K.
    scales: Option<((usize, usize), (usize, usize))>,
    /// The codes of a column lie together, not those of a row.
    scales_by_columns: bool,
}

impl Matrix {
    fn new(
        random: &mut Random,
        format: ElementFormat,
        (rows, cols): (usize, usize),
        valid: (usize, usize),
        lie: Lie,
        spread: Spread,
    ) -> Matrix {
        let (r, c) = (rows as i64, cols as i64);
        let strides = match lie {
            Lie::Rows => (c, 1),
            Lie::Columns => (1, r),
            Lie::PaddedRows => (c + 5, 1),
            Lie::PaddedColumns => (1, r + 3),
            Lie::Strided => (3 * c + 1, 3),
            Lie::OneRow => (0, 1),
            Lie::OneColumn => (1, 0),
        };
        let origin = random.below(4) as i64;
        let (vr, vc) = valid;
        let count = if vr == 0 || vc == 0 {
            1
        } else {
            (origin + (vr as i64 - 1) * strides.0 + (vc as i64 - 1) * strides.1 + 1) as usize
        };
        let scale = 2f64.powi(random.below(9) as i32 - 4);
        let mut bytes = vec![0u8; format.bytes_for(count)];
        for i in 0..count {
            let code = loop {
                let code = if format.bits() <= 8 {
                    random.next() & ((1 << format.bits()) - 1)
                } else {
                    let x = random.normal() * scale;
                    let x = match spread {
                        Spread::Normal => x,
                        Spread::Cancelling => {
                            let big = [1.0, 1000.0, 30000.0][random.below(3)];
                            if i % 2 == 0 { big + x } else { -big + x }
                        }
                        Spread::Tiny => {
                            let low = if format == F16 { 24 } else { 70 };
                            x * 2f64.powi(-(random.below(2 * low) as i32))
                        }
                        Spread::Special => match random.below(97) {
                            0 => f64::INFINITY,
                            1 => f64::NEG_INFINITY,
                            2 => f64::NAN,
                            3 => 0.0,
                            _ => x,
                        },
                    };
                    format.encode(x)
                };
                if spread == Spread::Special || format.decode(code).is_finite() {
                    break code;
                }
            };
            assert!(format.store(&mut bytes, i, code));
        }
        Matrix {
            bytes,
            codes: Vec::new(),
            format,
            rows,
            cols,
            valid,
            strides,
            origin,
            scales: None,
            scales_by_columns: false,
        }
    }

    /// Adds scales with blocks of 32 along rows or columns of the matrix.
    fn with_scales(mut self, random: &mut Random, along_rows: bool, codes: impl Fn(&mut Random) -> u8) -> Self {
        let block = if along_rows { (32, 1) } else { (1, 32) };
        let phase = random.below(32);
        let phase = if along_rows { (phase, 0) } else { (0, phase) };
        let count = (self.rows + 64) * (self.cols + 64);
        self.codes = (0..count).map(|_| codes(random)).collect();
        self.scales = Some((block, phase));
        self
    }

    fn scale_strides(&self) -> (i64, i64) {
        match self.scales_by_columns {
            true => (1, self.rows as i64 + 64),
            false => (self.cols as i64 + 64, 1),
        }
    }

    fn view(&self) -> OperandView<'_> {
        // SAFETY: the bytes and codes were made to hold every valid element.
        unsafe {
            let view = OperandView::new(self.bytes.as_ptr(), self.format, (self.rows, self.cols), self.strides)
                .origin(self.origin)
                .valid(self.valid.0, self.valid.1);
            match self.scales {
                None => view,
                Some((block, phase)) => view
                    .scales(ScaleView::new(self.codes.as_ptr(), block, self.scale_strides()).phase(phase.0, phase.1)),
            }
        }
    }

    fn value(&self, r: usize, c: usize) -> f64 {
        if r >= self.valid.0 || c >= self.valid.1 {
            return 0.0;
        }
        let index = self.origin + r as i64 * self.strides.0 + c as i64 * self.strides.1;
        let value = self
            .format
            .decode(self.format.load(&self.bytes, index as usize).unwrap());
        match self.scales {
            None => value,
            Some(((rb, cb), (rp, cp))) => {
                let strides = self.scale_strides();
                let at = (r + rp) / rb * strides.0 as usize + (c + cp) / cb * strides.1 as usize;
                // What a float holds: a scaled value past its range overflows.
                f64::from((value * Fp8UE8M0.decode(self.codes[at].into())) as f32)
            }
        }
    }
}

/// The exact product over the K that both operands have, and the sum of finite magnitudes.
fn reference(left: &Matrix, right: &Matrix, m: usize, n: usize) -> (f64, f64) {
    let k = left.valid.1.min(right.valid.0);
    if m >= left.valid.0 || n >= right.valid.1 {
        return (0.0, 0.0);
    }
    (0..k).fold((0.0, 0.0), |(sum, size), k| {
        let product = left.value(m, k) * right.value(k, n);
        let magnitude = if product.is_finite() { product.abs() } else { 0.0 };
        (sum + product, size + magnitude)
    })
}

fn close(got: f32, want: f64, size: f64, k: usize) -> bool {
    // Partial sums may overflow where the magnitudes do.
    if size > f64::from(f32::MAX) * 0.99 {
        return true;
    }
    if want.is_nan() {
        return got.is_nan();
    }
    if want.is_infinite() {
        return f64::from(got) == want;
    }
    let bound = (k as f64 + 1.0) * 2f64.powi(-24) * size + k as f64 * 2f64.powi(-149);
    let error = (f64::from(got) - want).abs();
    error <= bound
}

/// Runs a product every way there is and compares.
fn check(left: &Matrix, right: &Matrix, relaxed: bool, note: &str) {
    let (m, n, k) = (left.rows, right.cols, left.cols);
    let wanted: Vec<_> = (0..m * n).map(|i| reference(left, right, i / n, i % n)).collect();
    let mut scratch = Scratch::default();
    for &path in available_paths() {
        let product = Product::choose(path, left.format, right.format, relaxed).unwrap();
        let stride = n + 3;
        let say = |way: &str, i: usize, got: String| {
            panic!(
                "{path} {way} {note}: {} {}x{k} (valid {:?}) by {} {k}x{n} (valid {:?}), ({}, {}): {got}, wanted {:?}",
                left.format,
                m,
                left.valid,
                right.format,
                right.valid,
                i / n,
                i % n,
                wanted[i]
            )
        };
        let mut packed = (PackedLeft::default(), PackedRight::default());
        let kinds = (left.view().kind(), right.view().kind());
        let product = Product::choose(path, kinds.0, kinds.1, relaxed).unwrap_or(product);
        packed.0.pack(&product, &left.view(), &mut scratch);
        packed.1.pack(&product, &right.view(), &mut scratch);
        match product.accumulation {
            Accumulation::F32 => {
                for accumulate in [false, true] {
                    let start = if accumulate { 0.5f32 } else { f32::NAN };
                    let mut one = vec![start; m * stride];
                    let mut two = one.clone();
                    matmul(
                        &mut scratch,
                        path,
                        &left.view(),
                        &right.view(),
                        relaxed,
                        &mut one[..],
                        stride,
                        accumulate,
                    )
                    .unwrap();
                    multiply(&packed.0, &packed.1, &mut two[..], stride, accumulate).unwrap();
                    let mut three = vec![start; m * stride];
                    multiply_view(
                        &mut scratch,
                        &product,
                        &left.view(),
                        &packed.1,
                        &mut three[..],
                        stride,
                        accumulate,
                    )
                    .unwrap();
                    for (way, sums) in [("matmul", &one), ("packed", &two), ("view", &three)] {
                        for i in 0..m * n {
                            let got = sums[i / n * stride + i % n];
                            let (mut want, mut size) = wanted[i];
                            if accumulate {
                                want += 0.5;
                                // A growing sum is rounded once for each block of K.
                                size += 0.5 + if want.is_finite() { want.abs() } else { 0.0 };
                            }
                            if relaxed {
                                size *= 2f64.powi(24 - 7);
                            }
                            if !close(got, want, size, k.max(2)) {
                                say(way, i, format!("{got}"));
                            }
                        }
                        let gaps = (0..m).flat_map(|r| &sums[r * stride + n..(r + 1) * stride]);
                        assert!(gaps.into_iter().all(|x| x.to_bits() == start.to_bits()));
                    }
                }
            }
            Accumulation::I32 => {
                for accumulate in [false, true] {
                    let mut one = vec![77i32; m * stride];
                    let mut two = one.clone();
                    matmul(
                        &mut scratch,
                        path,
                        &left.view(),
                        &right.view(),
                        relaxed,
                        &mut one[..],
                        stride,
                        accumulate,
                    )
                    .unwrap();
                    multiply(&packed.0, &packed.1, &mut two[..], stride, accumulate).unwrap();
                    for (way, sums) in [("matmul", &one), ("packed", &two)] {
                        for i in 0..m * n {
                            let got = sums[i / n * stride + i % n];
                            let want = wanted[i].0 as i64 + if accumulate { 77 } else { 0 };
                            if got != want as i32 {
                                say(way, i, format!("{got}"));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The pairs of reference 4.4, without those that only differ in the destination.
const PAIRS: [(ElementFormat, ElementFormat); 35] = [
    (F16, F16),
    (F16, F32),
    (F32, F16),
    (F32, F32),
    (F16, I8),
    (I8, F16),
    (F32, I8),
    (I8, F32),
    (I8, I8),
    (BF16, BF16),
    (BF16, F32),
    (F32, BF16),
    (BF16, I8),
    (I8, BF16),
    (BF16, F16),
    (F16, BF16),
    (F16, U8),
    (U8, F16),
    (F32, U8),
    (U8, F32),
    (U8, U8),
    (BF16, U8),
    (U8, BF16),
    (F16, Int4B),
    (BF16, UInt4B),
    (I8, Int4B),
    (U8, UInt4B),
    (F16, Int2B),
    (BF16, UInt2B),
    (I8, Int2B),
    (U8, UInt2B),
    (F16, Fp4E2M1),
    (F16, Fp8E4M3),
    (Fp8E4M3, Fp8E4M3),
    (Fp8E5M2, Fp8E5M2),
];

fn shape(random: &mut Random) -> (usize, usize, usize) {
    let k = match random.below(6) {
        0 => 200 + random.below(800),
        _ => 1 + random.below(70),
    };
    (1 + random.below(70), 1 + random.below(70), k)
}

/// Names what this machine cannot run, so that a log shows it.
fn name_skipped_paths() {
    for path in TilePath::ALL {
        match path.missing() {
            None => eprintln!("tile path {path}: tested"),
            Some(missing) => eprintln!("tile path {path}: SKIPPED, this machine lacks {missing}"),
        }
    }
}

#[test]
fn every_pair_in_every_lie() {
    name_skipped_paths();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (left, right) in PAIRS {
        for round in 0..7 {
            let (m, n, k) = shape(&mut random);
            let lies = (LIES[round % 7], LIES[random.below(7)]);
            let a = Matrix::new(&mut random, left, (m, k), (m, k), lies.0, Spread::Normal);
            let b = Matrix::new(&mut random, right, (k, n), (k, n), lies.1, Spread::Normal);
            check(&a, &b, false, &format!("{lies:?}"));
        }
    }
}

#[test]
fn parts_that_are_not_valid_are_zero() {
    let mut random = Random(17);
    for (left, right) in PAIRS {
        for round in 0..8 {
            let (m, n, k) = shape(&mut random);
            let mut cut = |full: usize| match random.below(5) {
                0 => 0,
                1 => full,
                _ => random.below(full + 1),
            };
            let valid = ((cut(m), cut(k)), (cut(k), cut(n)));
            let lies = (LIES[round % 7], LIES[(round + 3) % 7]);
            let a = Matrix::new(&mut random, left, (m, k), valid.0, lies.0, Spread::Special);
            let b = Matrix::new(&mut random, right, (k, n), valid.1, lies.1, Spread::Special);
            check(&a, &b, false, &format!("{lies:?} with parts missing"));
        }
    }
}

#[test]
fn hard_values() {
    let mut random = Random(23);
    for (left, right) in [
        (F32, F32),
        (F16, F16),
        (BF16, BF16),
        (F16, BF16),
        (BF16, F32),
        (F16, I8),
        (BF16, U8),
    ] {
        for spread in [Spread::Cancelling, Spread::Tiny, Spread::Special] {
            for other in [Spread::Normal, spread] {
                for lies in [(Lie::Rows, Lie::Rows), (Lie::Columns, Lie::Columns)] {
                    let (m, n, k) = shape(&mut random);
                    let a = Matrix::new(&mut random, left, (m, k), (m, k), lies.0, spread);
                    let b = Matrix::new(&mut random, right, (k, n), (k, n), lies.1, other);
                    check(&a, &b, false, &format!("{spread:?}"));
                }
            }
        }
    }
}

#[test]
fn block_scales() {
    let mut random = Random(29);
    for (left, right) in [
        (Fp8E4M3, Fp8E4M3),
        (Fp8E5M2, Fp8E5M2),
        (Fp4E2M1, Fp4E2M1),
        (F16, Fp8E4M3),
        (F16, Fp4E2M1),
    ] {
        for round in 0..16 {
            let (m, n, k) = shape(&mut random);
            let spread = if round == 5 { Spread::Special } else { Spread::Normal };
            let a = Matrix::new(&mut random, left, (m, k), (m, k), Lie::Rows, spread);
            let lie = [Lie::Columns, Lie::Rows][round % 2];
            let b = Matrix::new(&mut random, right, (k, n), (k, n), lie, spread);
            let codes = |random: &mut Random| match round {
                3 => [0, 1, 2, 254][random.below(4)],
                5 => [0, 1, 127, 254, 255][random.below(5)],
                7 => random.below(255) as u8,
                _ => 117 + random.below(20) as u8,
            };
            let a = if left == F16 || round % 4 == 2 {
                a
            } else {
                a.with_scales(&mut random, false, codes)
            };
            // Blocks along K, as Metal has them, and along the other axis, as the lenient mode has them.
            let b = b.with_scales(&mut random, round % 3 != 1, |random| match round {
                3 => [126, 127][random.below(2)],
                5 => 127,
                _ => codes(random),
            });
            check(&a, &b, false, &format!("scaled, round {round}"));
        }
    }
}

#[test]
fn relaxed_floats_stay_close() {
    let mut random = Random(31);
    for (left, right) in [(F32, F32), (F32, BF16), (F16, F32), (BF16, F32)] {
        for lies in [(Lie::Rows, Lie::Rows), (Lie::Columns, Lie::Columns)] {
            let (m, n, k) = shape(&mut random);
            let a = Matrix::new(&mut random, left, (m, k), (m, k), lies.0, Spread::Normal);
            let b = Matrix::new(&mut random, right, (k, n), (k, n), lies.1, Spread::Normal);
            check(&a, &b, true, "relaxed");
        }
    }
}

#[test]
fn larger_products() {
    let mut random = Random(37);
    for (left, right) in [(F32, F32), (F16, F16), (BF16, BF16), (I8, I8), (U8, U8), (I8, Int4B)] {
        let (m, n, k) = (205 + random.below(20), 150, 600 + random.below(9));
        let a = Matrix::new(&mut random, left, (m, k), (m, k), Lie::Rows, Spread::Normal);
        let b = Matrix::new(&mut random, right, (k, n), (k, n), Lie::Columns, Spread::Normal);
        check(&a, &b, false, "larger");
    }
}

#[test]
fn integers_wrap() {
    let k = 140_000;
    let (left, right) = (vec![0u8; k], vec![255u8; k]);
    let left: Vec<u8> = left.iter().map(|_| 255).collect();
    for &path in available_paths() {
        let a = OperandView::from_bytes(&left, U8, 1, k).unwrap();
        let b = OperandView::from_bytes(&right, U8, k, 1).unwrap();
        let mut sums = [0i32];
        matmul(&mut Scratch::default(), path, &a, &b, false, &mut sums[..], 1, false).unwrap();
        assert_eq!(sums[0], (255i64 * 255 * k as i64) as i32, "{path}");
    }
}

#[test]
fn parts_of_a_product() {
    let mut random = Random(41);
    for (left, right) in [(F32, F32), (BF16, BF16), (F16, F16)] {
        let (m, n, k) = (90, 200, 70);
        let a = Matrix::new(&mut random, left, (m, k), (m, k), Lie::Rows, Spread::Normal);
        let b = Matrix::new(&mut random, right, (k, n), (k, n), Lie::Rows, Spread::Normal);
        let mut scratch = Scratch::default();
        for &path in available_paths() {
            let product = Product::choose(path, left, right, false).unwrap();
            let mut packed = (PackedLeft::default(), PackedRight::default());
            packed.0.pack(&product, &a.view(), &mut scratch);
            packed.1.pack(&product, &b.view(), &mut scratch);
            let mut whole = vec![0.0f32; m * n];
            multiply(&packed.0, &packed.1, &mut whole[..], n, false).unwrap();
            for (rows, cols) in [(0..16, 64..128), (32..90, 128..200), (17..40, 0..30)] {
                let (height, width) = (rows.len(), cols.len());
                let mut part = vec![0.0f32; height * width];
                let at = (rows.start, cols.start);
                multiply_part(&packed.0, rows, &packed.1, cols, &mut part[..], width, false).unwrap();
                for i in 0..part.len() {
                    let want = whole[(at.0 + i / width) * n + at.1 + i % width];
                    assert!((part[i] - want).abs() <= 1e-4 * want.abs().max(1.0), "{path}");
                }
            }
        }
    }
}

#[test]
fn misuse_is_refused() {
    let values = [1.0f32; 64];
    let a = OperandView::from_f32(&values, 8, 8).unwrap();
    let b = OperandView::from_f32(&values, 4, 16).unwrap();
    let mut scratch = Scratch::default();
    let mut sums = [0.0f32; 64];
    let path = TilePath::Portable;
    let error = matmul(&mut scratch, path, &a, &b, false, &mut sums[..], 16, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the left operand has 8 columns but the right one 4 rows"
    );
    let error = matmul(&mut scratch, path, &a, &a, false, &mut sums[..63], 8, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an accumulator of 8 × 8 elements with rows 8 apart does not fit in 63 elements"
    );
    let mut wrong = [0i32; 64];
    let error = matmul(&mut scratch, path, &a, &a, false, &mut wrong[..], 8, false).unwrap_err();
    assert_eq!(error.to_string(), "this product accumulates in F32");
}

/// Packing into tile lanes, and the loops around the tiles, where AMX itself is missing: the tests of this crate emulate
/// its instructions then.
#[cfg(target_arch = "x86_64")]
#[test]
fn tile_lanes_by_emulation() {
    // A machine with AMX has AVX-512, which packing for it uses.
    if !TilePath::Avx512.is_available() || TilePath::Amx.is_available() {
        return;
    }
    let mut random = Random(43);
    let lane = |format: ElementFormat, integers: bool| match format {
        F16 => Lane::Bf16Pair,
        _ if !integers => Lane::Bf16,
        _ if format.is_signed() => Lane::I8,
        _ => Lane::U8,
    };
    for (left, right) in PAIRS {
        if left == F32 || right == F32 {
            continue;
        }
        let integers = left.is_integer() && right.is_integer();
        let product = Product {
            path: TilePath::Amx,
            left: lane(left, integers),
            right: lane(right, integers),
            accumulation: Accumulation::F32,
        };
        for round in 0..6 {
            let (m, n, mut k) = shape(&mut random);
            if round == 5 {
                k += 1024;
            }
            let spread = [Spread::Normal, Spread::Special, Spread::Tiny, Spread::Normal][round % 4];
            let lies = (LIES[round % 7], LIES[(round * 5 + 1) % 7]);
            let cut = |full: usize, by: usize| full - full.min(by * (round % 2));
            let a = Matrix::new(&mut random, left, (m, k), (cut(m, 3), cut(k, 2)), lies.0, spread);
            let b = Matrix::new(&mut random, right, (k, n), (cut(k, 5), cut(n, 4)), lies.1, spread);
            let mut scratch = Scratch::default();
            let mut packed = (PackedLeft::default(), PackedRight::default());
            packed.0.pack(&product, &a.view(), &mut scratch);
            packed.1.pack(&product, &b.view(), &mut scratch);
            assert_eq!((packed.0.lane(), packed.1.lane()), (product.left, product.right));
            let (r0, c0) = if round % 3 == 2 { (m / 3, n / 32 * 16) } else { (0, 0) };
            let (height, width) = (m - r0, n - c0);
            let check = |i: usize, got: f64| {
                let (row, col) = (r0 + i / width, c0 + i % width);
                let (want, size) = reference(&a, &b, row, col);
                let good = if integers {
                    got == f64::from(want as i64 as i32)
                } else {
                    close(got as f32, want, size, 4 * k.max(2))
                };
                assert!(
                    good,
                    "{left} x {right} {m}x{k}x{n} {lies:?} {spread:?} ({row}, {col}): {got}, wanted {want}"
                );
            };
            if integers {
                let mut sums = vec![5i32; height * width];
                multiply_part(&packed.0, r0..m, &packed.1, c0..n, &mut sums[..], width, false).unwrap();
                sums.iter().enumerate().for_each(|(i, &x)| check(i, x.into()));
            } else {
                let mut sums = vec![5.0f32; height * width];
                multiply_part(&packed.0, r0..m, &packed.1, c0..n, &mut sums[..], width, false).unwrap();
                sums.iter().enumerate().for_each(|(i, &x)| check(i, x.into()));
            }
        }
    }
}
