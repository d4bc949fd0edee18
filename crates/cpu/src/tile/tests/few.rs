//! Few rows by quantised columns.

use super::*;

/// Columns that are read where they lie, with block scales from a whole block on, ends inside of blocks and bytes, and codes
/// that only the general product multiplies.
#[test]
fn few_rows_by_quantised_columns() {
    let mut random = Random(47);
    for (left, right) in [
        (F16, Int4B),
        (BF16, UInt4B),
        (F16, Int2B),
        (F16, Fp4E2M1),
        (F16, Fp8E4M3),
        (F16, Fp8E5M2),
        (BF16, Fp8E5M2),
        (BF16, Fp4E2M1),
    ] {
        for round in 0..20 {
            let m = if round % 3 == 0 { 1 } else { 1 + random.below(32) };
            // Longer than a panel's stretch of K.
            let (n, k) = (3 + random.below(23), 1 + random.below(1200));
            let spread = [Spread::Normal, Spread::Special, Spread::Tiny, Spread::Normal][round % 4];
            let cut = |full: usize, by: usize| full - full.min(by * (round % 2));
            let a = Matrix::new(&mut random, left, (m, k), (m, cut(k, 3)), Lie::Rows, spread);
            let per_byte = right.elements_per_byte();
            let lie = if round % 2 == 0 {
                Lie::Columns
            } else {
                Lie::PaddedColumns
            };
            let k = if k.is_multiple_of(per_byte) {
                k
            } else {
                k + per_byte - k % per_byte
            };
            let a = Matrix { cols: k, ..a };
            let mut b = Matrix::new(&mut random, right, (k, n), (cut(k, 5), cut(n, 1)), lie, spread);
            if lie == Lie::PaddedColumns {
                b.strides.1 = (k - k % per_byte) as i64;
            }
            b.origin -= b.origin % per_byte as i64;
            assert!(FewProduct::choose(TilePath::Avx2, &a.view(), &b.view()).is_some());
            check(&a, &b, false, &format!("few rows, {lie:?} {spread:?}"));
            // Scales along K, the operand's first row at the start of a block.
            let codes = |random: &mut Random| match round {
                5 => random.below(256) as u8,
                6 | 7 if random.below(40) == 0 => [0, 1, 240, 255][random.below(4)],
                _ => 117 + random.below(20) as u8,
            };
            b = b.with_scales(&mut random, true, codes);
            b.scales = Some(((32, 1), (32 * random.below(2), 0)));
            b.scales_by_columns = true;
            assert!(FewProduct::choose(TilePath::Avx2, &a.view(), &b.view()).is_some());
            check(
                &a,
                &b,
                false,
                &format!("few rows scaled, {lie:?} {spread:?}, round {round}"),
            );
        }
    }
}

/// One row that is multiplied in integers: magnitudes from subnormal numbers to the largest ones, elements that no unit holds
/// beside the others, sums as large as they get, and scales from one end to the other.
#[test]
fn one_row_by_four_bits() {
    let mut random = Random(53);
    let mut scratch = Scratch::default();
    let (mut listed, mut floats) = (0, 0);
    for (left, right) in [
        (F16, Int4B),
        (F16, UInt4B),
        (F16, Fp4E2M1),
        (BF16, Int4B),
        (BF16, Fp4E2M1),
    ] {
        for round in 0..48 {
            let k = [1, 2, 31, 33, 255, 256, 257, 1000, 2050][random.below(9)];
            let mut a = Matrix::new(&mut random, left, (1, k), (1, k), Lie::Rows, Spread::Normal);
            let top = if left == F16 { 65504.0 } else { 3.0e38 };
            for i in 0..k {
                let sign = [-1.0, 1.0][random.below(2)];
                let x = match round % 8 {
                    // All alike, so that digits and sums are as large as they get.
                    1 => top,
                    2 => sign * top,
                    // A few that are far from the others.
                    3 if random.below(150) == 0 => sign * top,
                    4 if random.below(150) == 0 => sign * 2f64.powi(-15 - random.below(9) as i32),
                    // Subnormal numbers only.
                    5 => sign * 2f64.powi(-24) * random.below(1024) as f64,
                    // All magnitudes: most are no integers beside the largest.
                    6 => sign * (1.0 + random.below(1024) as f64 / 1024.0) * 2f64.powi(random.below(40) as i32 - 24),
                    7 => 0.0,
                    _ => continue,
                };
                let at = (a.origin + i as i64) as usize;
                assert!(left.store(&mut a.bytes, at, left.encode(x)));
            }
            let n = 1 + random.below(11);
            let mut b = Matrix::new(&mut random, right, (k, n), (k, n), Lie::Columns, Spread::Normal);
            b.origin = 0;
            b.strides.1 = k.next_multiple_of(2) as i64;
            b.bytes = (0..n * k.div_ceil(2))
                .map(|i| match round / 8 % 3 {
                    0 => random.next() as u8,
                    // The largest and the smallest code.
                    1 => [0x77, 0x88, 0xff, 0x00][i % 4],
                    _ => [0x77, 0xff][i / 7 % 2],
                })
                .collect();
            if let (Some(way), true) = (
                FewProduct::choose(TilePath::Avx2, &a.view(), &b.view()),
                TilePath::Avx2.is_available(),
            ) {
                let mut packed = FewLeft::default();
                packed.pack(&way, &a.view(), &mut scratch);
                match &packed.digits {
                    Some(row) => listed += usize::from(!row.listed.is_empty()),
                    None => floats += 1,
                }
                // Rows of one magnitude, and of a few others at most, are integers.
                assert!(
                    packed.digits.is_some() || round % 8 == 6 || k < 1000,
                    "round {round}, K {k}"
                );
            }
            check(&a, &b, false, &format!("digits, round {round}"));
            let codes = |random: &mut Random| match round {
                0..8 => 127,
                8..16 => random.below(256) as u8,
                16..24 if random.below(60) == 0 => [0, 1, 31, 198, 199, 239, 254, 255][random.below(8)],
                24..32 => 32 + random.below(160) as u8,
                _ => 100 + random.below(50) as u8,
            };
            b = b.with_scales(&mut random, true, codes);
            b.scales = Some(((32, 1), (32 * random.below(2), 0)));
            b.scales_by_columns = true;
            check(&a, &b, false, &format!("digits scaled, round {round}"));
        }
    }
    assert!(
        !TilePath::Avx2.is_available() || (listed > 10 && floats > 10),
        "{listed} {floats}"
    );
}

/// A thread that takes subnormal operands for zeros gets the same products by E4M3, whose smaller half the kernels may hold as subnormal
/// numbers, and keeps its setting.
#[cfg(target_arch = "x86_64")]
#[test]
fn subnormals_count_whatever_the_thread_has_set() {
    const ZEROS: u32 = 1 << 6;
    let control = || {
        let mut control = 0u32;
        // SAFETY: stores MXCSR.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack)) };
        control
    };
    // SAFETY: as it was but for one bit.
    let set = |control: u32| unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &control, options(nostack)) };
    let k = 96;
    let left: Vec<u8> = (0..k).flat_map(|_| 0x3c00u16.to_le_bytes()).collect();
    let right = vec![1u8; k * 3];
    let mut scratch = Scratch::default();
    for &path in available_paths() {
        let a = OperandView::from_bytes(&left, F16, 1, k).unwrap();
        // SAFETY: three columns of `k` bytes.
        let b = unsafe { OperandView::new(right.as_ptr(), Fp8E4M3, (k, 3), (1, k as i64)).valid(k, 3) };
        let mut sums = [0.0f32; 3];
        let before = control();
        set(before | ZEROS);
        let result = matmul(&mut scratch, path, &a, &b, false, &mut sums[..], 3, false);
        let after = control();
        set(before);
        result.unwrap();
        // Flags of exceptions may have come.
        assert_ne!(after & ZEROS, 0);
        assert_eq!(sums, [k as f32 / 512.0; 3], "{path}");
    }
}
