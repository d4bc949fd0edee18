//! Constant folding against arithmetic written down another way.

use anymetal_ir::builder::fold;
use anymetal_ir::{BinaryOp, CompareOp, Const, Scalar, UnaryOp};
use half::{bf16, f16};

fn c(ty: Scalar, bits: u64) -> Const {
    Const { ty, bits }
}

#[test]
fn small_floats_round_once() {
    // Halfway between two f16 is decided by bits far below f32's last one.
    let halfway = 1.0 + 2f64.powi(-11);
    assert_eq!(
        fold::float_bits(Scalar::F16, halfway),
        u64::from(f16::from_f32(1.0).to_bits())
    );
    let above = halfway + 2f64.powi(-40);
    assert_eq!(
        fold::float_bits(Scalar::F16, above),
        u64::from(f16::from_f32(1.0).to_bits()) + 1
    );
    let below = halfway - 2f64.powi(-40);
    assert_eq!(
        fold::float_bits(Scalar::F16, below),
        u64::from(f16::from_f32(1.0).to_bits())
    );
    let halfway = 1.0 + 2f64.powi(-8);
    assert_eq!(
        fold::float_bits(Scalar::BF16, halfway + 2f64.powi(-45)),
        u64::from(bf16::from_f32(1.0).to_bits()) + 1
    );
    assert_eq!(
        fold::float_bits(Scalar::BF16, halfway),
        u64::from(bf16::from_f32(1.0).to_bits())
    );
    // Overflow and underflow.
    assert_eq!(fold::float_bits(Scalar::F16, 65519.99), 0x7bff);
    assert_eq!(fold::float_bits(Scalar::F16, 65520.0), 0x7c00);
    assert_eq!(fold::float_bits(Scalar::F16, -1e300), 0xfc00);
    assert_eq!(fold::float_bits(Scalar::BF16, 1e300), 0x7f80);
    assert_eq!(fold::float_bits(Scalar::F16, 2f64.powi(-25)), 0);
    assert_eq!(fold::float_bits(Scalar::F16, 2f64.powi(-25) + 2f64.powi(-75)), 1);
    assert_eq!(fold::float_bits(Scalar::F32, f64::INFINITY), 0x7f80_0000);
}

#[test]
fn every_f16_survives() {
    for bits in 0..=u16::MAX {
        let value = f16::from_bits(bits);
        if value.is_nan() {
            continue;
        }
        assert_eq!(fold::to_float(c(Scalar::F16, bits.into())), f64::from(value.to_f32()));
        assert_eq!(fold::float_bits(Scalar::F16, value.to_f64()), u64::from(bits));
        let wide = fold::convert(c(Scalar::F16, bits.into()), Scalar::F32).unwrap();
        assert_eq!(wide.bits, u64::from(value.to_f32().to_bits()));
    }
}

fn interesting() -> Vec<i64> {
    let mut out = vec![0, 1, -1, 2, 3, 7, -8, 31, 32, 63, 64, 100, -100];
    for bits in [7, 8, 15, 16, 31, 32, 63] {
        let power = 1i64.wrapping_shl(bits);
        out.extend([
            power,
            power.wrapping_sub(1),
            power.wrapping_add(1),
            power.wrapping_neg(),
        ]);
    }
    out
}

macro_rules! integers {
    ($name:ident, $ty:ty, $scalar:expr) => {
        #[test]
        fn $name() {
            type T = $ty;
            let bits = |value: T| c($scalar, value as u64 & (u64::MAX >> (64 - T::BITS)));
            for a in interesting() {
                for b in interesting() {
                    let (a, b) = (a as T, b as T);
                    let expect = |op, value: T| {
                        let got = fold::binary(op, bits(a), bits(b));
                        assert_eq!(got, Some(bits(value)), "{op:?} {a} {b}");
                    };
                    expect(BinaryOp::Add, a.wrapping_add(b));
                    expect(BinaryOp::Sub, a.wrapping_sub(b));
                    expect(BinaryOp::Mul, a.wrapping_mul(b));
                    expect(BinaryOp::Div, if b == 0 { 0 } else { a.wrapping_div(b) });
                    expect(BinaryOp::Rem, if b == 0 { 0 } else { a.wrapping_rem(b) });
                    expect(BinaryOp::And, a & b);
                    expect(BinaryOp::Or, a | b);
                    expect(BinaryOp::Xor, a ^ b);
                    expect(BinaryOp::Shl, a.wrapping_shl(b as u32));
                    expect(BinaryOp::Shr, a.wrapping_shr(b as u32));
                    expect(BinaryOp::Min, a.min(b));
                    expect(BinaryOp::Max, a.max(b));
                    assert_eq!(fold::compare(CompareOp::Lt, bits(a), bits(b)), Some(a < b));
                    assert_eq!(fold::compare(CompareOp::Ge, bits(a), bits(b)), Some(a >= b));
                }
                let a = a as T;
                assert_eq!(fold::unary(UnaryOp::Neg, bits(a)), Some(bits(a.wrapping_neg())));
                assert_eq!(fold::unary(UnaryOp::Not, bits(a)), Some(bits(!a)));
                let to = |to| fold::convert(bits(a), to).map(|value| value.bits);
                assert_eq!(to(Scalar::I8), Some(u64::from(a as i8 as u8)));
                assert_eq!(to(Scalar::U16), Some(u64::from(a as u16)));
                assert_eq!(to(Scalar::I32), Some(u64::from(a as i32 as u32)));
                assert_eq!(to(Scalar::U64), Some(a as u64));
                assert_eq!(to(Scalar::I64), Some(a as i64 as u64));
                assert_eq!(to(Scalar::Bool), Some(u64::from(a != 0)));
                if let Some(bits) = to(Scalar::F32) {
                    assert_eq!(bits, u64::from((a as f32).to_bits()), "{a}");
                }
            }
        }
    };
}

integers!(i8s, i8, Scalar::I8);
integers!(u8s, u8, Scalar::U8);
integers!(i16s, i16, Scalar::I16);
integers!(u16s, u16, Scalar::U16);
integers!(i32s, i32, Scalar::I32);
integers!(u32s, u32, Scalar::U32);
integers!(i64s, i64, Scalar::I64);
integers!(u64s, u64, Scalar::U64);

#[test]
fn floats() {
    let values = [
        0.0f32,
        -0.0,
        1.0,
        -1.5,
        3.4e38,
        1e-45,
        1.17e-38,
        0.1,
        1e10,
        2147483648.0,
        4294967296.0,
        -1e20,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let bits = |value: f32| c(Scalar::F32, value.to_bits().into());
    for a in values {
        for b in values {
            for (op, value) in [
                (BinaryOp::Add, a + b),
                (BinaryOp::Sub, a - b),
                (BinaryOp::Mul, a * b),
                (BinaryOp::Div, a / b),
            ] {
                let expected = (!value.is_nan()).then(|| bits(value));
                assert_eq!(fold::binary(op, bits(a), bits(b)), expected, "{op:?} {a} {b}");
            }
            for (op, value) in [
                (CompareOp::Eq, a == b),
                (CompareOp::Ne, a != b),
                (CompareOp::Lt, a < b),
                (CompareOp::Le, a <= b),
                (CompareOp::Gt, a > b),
                (CompareOp::Ge, a >= b),
            ] {
                assert_eq!(fold::compare(op, bits(a), bits(b)), Some(value), "{op:?} {a} {b}");
            }
        }
        // Rust's casts truncate, saturate and give 0 for NaN, as documented for `Op::Convert`.
        let to = |to| fold::convert(bits(a), to).map(|value| value.bits);
        assert_eq!(to(Scalar::I32), Some(u64::from(a as i32 as u32)));
        assert_eq!(to(Scalar::U8), Some(u64::from(a as u8)));
        assert_eq!(to(Scalar::U64), Some(a as u64));
        assert_eq!(to(Scalar::I64), Some(a as i64 as u64));
        assert_eq!(to(Scalar::Bool), Some(u64::from(a != 0.0)));
        assert_eq!(
            fold::unary(UnaryOp::Abs, bits(a)).map(|v| v.bits as u32),
            Some(a.abs().to_bits())
        );
        assert_eq!(
            fold::unary(UnaryOp::Neg, bits(a)).map(|v| v.bits as u32),
            Some((-a).to_bits())
        );
    }
}
