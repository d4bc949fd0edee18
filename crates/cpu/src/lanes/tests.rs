//! The loops of every instruction set of this machine against references of their own.

use anymetal_ir::{BinaryOp, Scalar, UnaryOp};

use super::*;
use crate::lanes::float::Plan;

fn sets() -> Vec<Isa> {
    let mut out = vec![Isa::Portable];
    #[cfg(target_arch = "x86_64")]
    match Isa::detect() {
        Isa::Portable => {}
        Isa::Avx2 => out.push(Isa::Avx2),
        Isa::Avx512 => out.extend([Isa::Avx2, Isa::Avx512]),
    }
    out
}

/// Runs a loop over whole chunks, and once for each chunk's first element as a uniform operation.
fn map<A: Copy, B: Copy + Default + PartialEq + std::fmt::Debug>(
    f: Fn1,
    values: &[A],
    same: impl Fn(B, B) -> bool,
) -> Vec<B> {
    let chunks = values.len() / CHUNK;
    let mut out = vec![B::default(); chunks * CHUNK];
    let src = |at: usize| Src {
        ptr: values[at..].as_ptr().cast(),
        step: CHUNK * size_of::<A>(),
    };
    // SAFETY: both hold the chunks.
    unsafe { f(chunks, out.as_mut_ptr().cast(), src(0)) };
    for chunk in (0..chunks).step_by(97) {
        let mut one = [B::default(); CHUNK];
        // SAFETY: as above.
        unsafe { f(0, one.as_mut_ptr().cast(), src(chunk * CHUNK)) };
        assert!(
            one.iter().all(|&b| same(b, out[chunk * CHUNK])),
            "uniform and varying differ"
        );
    }
    out
}

fn own(plan: Option<Plan<Fn1>>) -> Fn1 {
    match plan {
        Some(Plan::Own(f)) => f,
        _ => panic!("no loop"),
    }
}

#[test]
fn exponentials_on_every_instruction_set() {
    let mut inputs: Vec<f32> = (0..1_000_000u32)
        .map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761)))
        .chain((0..400_000).map(|i| (i as f32 - 200_000.0) * 1.1e-3))
        .chain([
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            128.0,
            127.999_99,
            -149.0,
            -150.0,
            -126.0,
            88.722_84,
            -103.97,
        ])
        .collect();
    inputs.resize(inputs.len().next_multiple_of(CHUNK), 0.5);
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    for isa in sets() {
        for (op, reference) in [(UnaryOp::Exp, f64::exp as fn(f64) -> f64), (UnaryOp::Exp2, f64::exp2)] {
            let got = map::<f32, f32>(own(float::unary(op, Scalar::F32, true, isa)), &inputs, same);
            for (&x, &y) in inputs.iter().zip(&got) {
                let want = reference(f64::from(x));
                if want.is_nan() {
                    assert!(y.is_nan());
                    continue;
                }
                if y.is_infinite() || want > f64::from(f32::MAX) {
                    assert!(want > 0.999_999 * f64::from(f32::MAX), "{op:?}({x}) on {isa:?}");
                    continue;
                }
                let step = 2f64.powi((want.log2().floor() as i32).max(-126) - 23);
                assert!(
                    (f64::from(y) - want).abs() <= 2.0 * step,
                    "{op:?}({x}) = {y}, not {want}, on {isa:?}"
                );
            }
        }
    }
}

#[test]
fn half_conversions_on_every_instruction_set() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let floats: Vec<f32> = halves
        .iter()
        .map(|&bits| half::f16::from_bits(bits).to_f32())
        .flat_map(|x| {
            [
                x,
                f32::from_bits(x.to_bits().wrapping_add(0x1000)),
                f32::from_bits(x.to_bits().wrapping_add(0xfff)),
            ]
        })
        .collect();
    for isa in sets() {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let wide = map::<u16, f32>(convert::convert(Scalar::F16, Scalar::F32, isa), &halves, same);
        for (&bits, &x) in halves.iter().zip(&wide) {
            assert!(same(x, half::f16::from_bits(bits).to_f32()), "{bits:#x} on {isa:?}");
        }
        let nan = |bits: u16| half::f16::from_bits(bits).is_nan();
        let alike = |a: u16, b: u16| a == b || (nan(a) && nan(b));
        let narrow = map::<f32, u16>(convert::convert(Scalar::F32, Scalar::F16, isa), &floats, alike);
        for (&x, &bits) in floats.iter().zip(&narrow) {
            assert!(alike(bits, half::f16::from_f32(x).to_bits()), "{x} on {isa:?}");
        }
        let narrow = map::<f32, u16>(convert::convert(Scalar::F32, Scalar::BF16, isa), &floats, |a, b| a == b);
        for (&x, &bits) in floats.iter().zip(&narrow) {
            let want = half::bf16::from_f32(x);
            assert!(
                bits == want.to_bits() || (x.is_nan() && half::bf16::from_bits(bits).is_nan()),
                "{x} on {isa:?}"
            );
        }
    }
}

#[test]
fn operations_in_place() {
    let start: Vec<f32> = (0..5 * CHUNK).map(|i| i as f32 * 0.37 - 20.0).collect();
    for isa in sets() {
        let Some(Plan::Own(multiply)) = float::binary(BinaryOp::Mul, Scalar::F32, isa) else {
            panic!("no loop");
        };
        let exp = own(float::unary(UnaryOp::Exp, Scalar::F32, true, isa));
        let mut values = start.clone();
        let place: *mut u8 = values.as_mut_ptr().cast();
        let src = Src {
            ptr: place,
            step: CHUNK * 4,
        };
        // SAFETY: five chunks; the output is the input.
        unsafe {
            multiply(5, place, src, src);
            exp(5, place, src);
        }
        for (&x, &y) in start.iter().zip(&values) {
            let want = f64::from(x * x).exp();
            assert!(
                (f64::from(y) - want).abs() <= 2e-7 * want || want > f64::from(f32::MAX),
                "{x}: {y} on {isa:?}"
            );
        }
    }
}

#[test]
fn rows_repeated() {
    for isa in sets() {
        for (column, columns, count) in [(0, 64, 256), (5, 7, 100), (32, 48, 80), (0, 1, 33)] {
            let rows: Vec<u32> = (0..200).map(|i| i * 3 + 1).collect();
            let mut out = vec![0u32; count + 1];
            // SAFETY: there are more rows than elements.
            unsafe { convert::spread(4, isa)(rows.as_ptr().cast(), column, columns, count, out.as_mut_ptr().cast()) };
            for (i, &got) in out[..count].iter().enumerate() {
                assert_eq!(got, rows[(column + i) / columns]);
            }
            assert_eq!(out[count], 0, "written past the end");
        }
    }
}

#[test]
fn quotients_on_every_instruction_set() {
    use crate::lanes::int;

    /// Chunks of dividends and divisors: divisors all alike, powers of two and others, zeros and −1 among them.
    fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(ty: Scalar, values: &[T], want: impl Fn(T, T) -> (T, T)) {
        let random = |i: usize| values[(i.wrapping_mul(2_654_435_761) >> 7) % values.len()];
        for isa in sets() {
            let find = |op| int::binary(op, ty, isa).expect("a loop");
            let (div, rem) = (find(BinaryOp::Div), find(BinaryOp::Rem));
            for round in 0..values.len() + 500 {
                let a: [T; CHUNK] = std::array::from_fn(|i| random(round * CHUNK + i));
                let b: [T; CHUNK] = match values.get(round) {
                    Some(&divisor) => [divisor; CHUNK],
                    None => std::array::from_fn(|i| random(round * 77 + i * 13)),
                };
                let src = |values: &[T; CHUNK]| Src {
                    ptr: values.as_ptr().cast(),
                    step: size_of::<[T; CHUNK]>(),
                };
                let (mut q, mut r) = ([T::default(); CHUNK], [T::default(); CHUNK]);
                // SAFETY: all hold a chunk.
                unsafe {
                    div(1, q.as_mut_ptr().cast(), src(&a), src(&b));
                    rem(1, r.as_mut_ptr().cast(), src(&a), src(&b));
                }
                for i in 0..CHUNK {
                    assert_eq!((q[i], r[i]), want(a[i], b[i]), "{:?} by {:?}, {isa:?}", a[i], b[i]);
                }
            }
        }
    }

    macro_rules! checks {
        ($($t:ty, $ty:expr;)*) => {$(
            let mut values: Vec<$t> = (0..<$t>::BITS).flat_map(|s| [(1 as $t) << s, ((1 as $t) << s).wrapping_sub(1), !((1 as $t) << s)]).collect();
            values.extend([0, 3, 5, 7, 10, 100, 127, <$t>::MAX, <$t>::MIN, <$t>::MAX - 1, <$t>::MAX / 3, !0]);
            check($ty, &values, |a, b| match b {
                0 => (0, 0),
                _ => (a.wrapping_div(b), a.wrapping_rem(b)),
            });
        )*};
    }
    checks! {
        i8, Scalar::I8; u8, Scalar::U8; i16, Scalar::I16; u16, Scalar::U16;
        i32, Scalar::I32; u32, Scalar::U32; i64, Scalar::I64; u64, Scalar::U64;
    }
}
