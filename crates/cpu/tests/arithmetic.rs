//! Every arithmetic operation on every type, as varying and as uniform operation, against scalar Rust.

mod common;

use anymetal_ir::{BinaryOp, MathMode, Op, Scalar, TernaryOp, UnaryOp};
use common::numbers::*;
use common::*;
use half::f16;

#[test]
fn binary_integers() {
    for ty in INTS {
        let width = i128::from(ty.size() * 8);
        let (low, high) = if ty.is_signed() {
            (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
        } else {
            (0, (1i128 << width) - 1)
        };
        for op in [
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Div,
            BinaryOp::Rem,
            BinaryOp::And,
            BinaryOp::Or,
            BinaryOp::Xor,
            BinaryOp::Shl,
            BinaryOp::Shr,
            BinaryOp::Min,
            BinaryOp::Max,
            BinaryOp::MulHi,
            BinaryOp::AddSat,
            BinaryOp::SubSat,
            BinaryOp::AbsDiff,
            BinaryOp::Hadd,
            BinaryOp::Rhadd,
            BinaryOp::Rotate,
        ] {
            let reference = |v: &[u64]| {
                let (a, b) = (int(ty, v[0]), int(ty, v[1]));
                let count = b.rem_euclid(width);
                let unsigned = v[0] as u128;
                Some(encode(
                    ty,
                    Number::Int(match op {
                        BinaryOp::Add => a + b,
                        BinaryOp::Sub => a - b,
                        BinaryOp::Mul => a.wrapping_mul(b),
                        BinaryOp::Div => {
                            if b == 0 {
                                0
                            } else {
                                a / b
                            }
                        }
                        BinaryOp::Rem => {
                            if b == 0 {
                                0
                            } else {
                                a % b
                            }
                        }
                        BinaryOp::And => a & b,
                        BinaryOp::Or => a | b,
                        BinaryOp::Xor => a ^ b,
                        BinaryOp::Shl => a << count,
                        BinaryOp::Shr => a >> count,
                        BinaryOp::Min => a.min(b),
                        BinaryOp::Max => a.max(b),
                        BinaryOp::MulHi => {
                            // Through the unsigned product for the widest type.
                            if ty == Scalar::U64 {
                                ((a as u128 * b as u128) >> 64) as i128
                            } else {
                                (a * b) >> width
                            }
                        }
                        BinaryOp::AddSat => (a + b).clamp(low, high),
                        BinaryOp::SubSat => (a - b).clamp(low, high),
                        BinaryOp::AbsDiff => (a - b).abs(),
                        BinaryOp::Hadd => (a + b) >> 1,
                        BinaryOp::Rhadd => (a + b + 1) >> 1,
                        BinaryOp::Rotate => ((unsigned << count) | (unsigned >> (width - count))) as i128,
                        _ => unreachable!(),
                    }),
                ))
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty, ty],
                ty,
                |b, v| b.binary(op, v[0], v[1], P),
                reference,
            );
        }
    }
}

#[test]
fn unary_and_ternary_integers() {
    for ty in INTS {
        let width = ty.size() * 8;
        for op in [
            UnaryOp::Neg,
            UnaryOp::Not,
            UnaryOp::Abs,
            UnaryOp::Clz,
            UnaryOp::Ctz,
            UnaryOp::Popcount,
            UnaryOp::ReverseBits,
        ] {
            let reference = |v: &[u64]| {
                let a = int(ty, v[0]);
                let bits = v[0];
                Some(encode(
                    ty,
                    Number::Int(match op {
                        UnaryOp::Neg => -a,
                        UnaryOp::Not => !a,
                        UnaryOp::Abs => a.abs(),
                        UnaryOp::Sign => a.signum(),
                        UnaryOp::Clz => i128::from(bits.leading_zeros() - (64 - width)),
                        UnaryOp::Ctz => i128::from(bits.trailing_zeros().min(width)),
                        UnaryOp::Popcount => i128::from(bits.count_ones()),
                        UnaryOp::ReverseBits => i128::from(bits.reverse_bits() >> (64 - width)),
                        _ => unreachable!(),
                    }),
                ))
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty],
                ty,
                |b, v| b.unary(op, v[0], P),
                reference,
            );
        }
        for op in [TernaryOp::Clamp, TernaryOp::Median3, TernaryOp::BitSelect] {
            let reference = |v: &[u64]| {
                let (a, b, c) = (int(ty, v[0]), int(ty, v[1]), int(ty, v[2]));
                Some(encode(
                    ty,
                    Number::Int(match op {
                        TernaryOp::Clamp => a.max(b).min(c),
                        TernaryOp::Median3 => a.min(b).max(a.max(b).min(c)),
                        _ => (a & !c) | (b & c),
                    }),
                ))
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty; 3],
                ty,
                |b, v| b.ternary(op, v[0], v[1], v[2], P),
                reference,
            );
        }
    }
}

#[test]
fn binary_floats() {
    for ty in FLOATS {
        for op in [
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Div,
            BinaryOp::Min,
            BinaryOp::Max,
            BinaryOp::Fmod,
            BinaryOp::Fdim,
            BinaryOp::Copysign,
        ] {
            let reference = |v: &[u64]| {
                let (a, b) = (float(ty, v[0]), float(ty, v[1]));
                let number = match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::Min => {
                        if a == b {
                            return None;
                        }
                        a.min(b)
                    }
                    BinaryOp::Max => {
                        if a == b {
                            return None;
                        }
                        a.max(b)
                    }
                    BinaryOp::Fmod => a % b,
                    BinaryOp::Fdim => {
                        if a.is_nan() || b.is_nan() {
                            f64::NAN
                        } else if a > b {
                            a - b
                        } else {
                            0.0
                        }
                    }
                    _ => a.copysign(b),
                };
                // One rounding through f32 for the short types, as the specification of `half` has it.
                Some(if ty == Scalar::F32 {
                    encode(ty, Number::Float(number))
                } else {
                    encode(ty, Number::Float(f64::from(number as f32)))
                })
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty, ty],
                ty,
                |b, v| b.binary(op, v[0], v[1], P),
                reference,
            );
        }
        check(
            &format!("ldexp {ty}"),
            &[ty, Scalar::I32],
            ty,
            |b, v| {
                let k = b.convert(v[1], Scalar::I8);
                let k = b.convert(k, Scalar::I32);
                b.emit(
                    Op::Binary {
                        op: BinaryOp::Ldexp,
                        lhs: v[0],
                        rhs: k,
                        mode: P,
                    },
                    &[ty.into()],
                )
            },
            |v| {
                let k = i32::from(v[1] as i8);
                Some(encode(ty, Number::Float(float(ty, v[0]) * 2f64.powi(k))))
            },
        );
    }
}

#[test]
fn ternary_floats() {
    for ty in FLOATS {
        for op in [TernaryOp::Fma, TernaryOp::Clamp, TernaryOp::Median3] {
            let reference = |v: &[u64]| {
                let (a, b, c) = (float(ty, v[0]), float(ty, v[1]), float(ty, v[2]));
                if op != TernaryOp::Fma && (a.is_nan() || b.is_nan() || c.is_nan() || a == b || b == c || a == c) {
                    return None;
                }
                Some(match op {
                    TernaryOp::Fma if ty == Scalar::F32 => u64::from((a as f32).mul_add(b as f32, c as f32).to_bits()),
                    TernaryOp::Fma => encode(ty, Number::Float(a.mul_add(b, c))),
                    TernaryOp::Clamp => encode(ty, Number::Float(a.max(b).min(c))),
                    _ => encode(ty, Number::Float(a.min(b).max(a.max(b).min(c)))),
                })
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty; 3],
                ty,
                |b, v| b.ternary(op, v[0], v[1], v[2], P),
                reference,
            );
        }
    }
}

#[test]
fn exact_unary_floats() {
    for ty in FLOATS {
        for op in [
            UnaryOp::Neg,
            UnaryOp::Abs,
            UnaryOp::Sqrt,
            UnaryOp::Ceil,
            UnaryOp::Floor,
            UnaryOp::Trunc,
            UnaryOp::Round,
            UnaryOp::Rint,
            UnaryOp::Saturate,
            UnaryOp::Sign,
        ] {
            let reference = |v: &[u64]| {
                let a = float(ty, v[0]);
                let number = match op {
                    UnaryOp::Neg => -a,
                    UnaryOp::Abs => a.abs(),
                    UnaryOp::Sqrt => a.sqrt(),
                    UnaryOp::Ceil => a.ceil(),
                    UnaryOp::Floor => a.floor(),
                    UnaryOp::Trunc => a.trunc(),
                    UnaryOp::Round => a.round(),
                    UnaryOp::Rint => a.round_ties_even(),
                    UnaryOp::Sign => {
                        if a.is_nan() {
                            0.0
                        } else if a == 0.0 {
                            a
                        } else {
                            a.signum()
                        }
                    }
                    _ => {
                        if a > 0.0 {
                            a.min(1.0)
                        } else {
                            0.0
                        }
                    }
                };
                Some(encode(ty, Number::Float(number)))
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty],
                ty,
                |b, v| b.unary(op, v[0], P),
                reference,
            );
        }
        for op in [
            UnaryOp::IsNan,
            UnaryOp::IsInf,
            UnaryOp::IsFinite,
            UnaryOp::IsNormal,
            UnaryOp::SignBit,
        ] {
            let least = match ty {
                Scalar::F16 => 2f64.powi(-14),
                _ => 2f64.powi(-126),
            };
            let reference = |v: &[u64]| {
                let a = float(ty, v[0]);
                Some(u64::from(match op {
                    UnaryOp::IsNan => a.is_nan(),
                    UnaryOp::IsInf => a.is_infinite(),
                    UnaryOp::IsFinite => a.is_finite(),
                    UnaryOp::IsNormal => a.is_finite() && a.abs() >= least,
                    _ => v[0] >> (ty.size() * 8 - 1) != 0,
                }))
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty],
                Scalar::Bool,
                |b, v| b.unary(op, v[0], P),
                reference,
            );
        }
    }
}

/// Every `half` value through every function: within one step of the correctly rounded result.
#[test]
fn half_functions_exhaustively() {
    type Case = (UnaryOp, fn(f64) -> f64);
    let cases: [Case; 21] = [
        (UnaryOp::Exp, f64::exp),
        (UnaryOp::Exp2, f64::exp2),
        (UnaryOp::Exp10, |x| 10f64.powf(x)),
        (UnaryOp::Log, f64::ln),
        (UnaryOp::Log2, f64::log2),
        (UnaryOp::Log10, f64::log10),
        (UnaryOp::Rsqrt, |x| 1.0 / x.sqrt()),
        (UnaryOp::Sin, f64::sin),
        (UnaryOp::Cos, f64::cos),
        (UnaryOp::Tan, f64::tan),
        (UnaryOp::Asin, f64::asin),
        (UnaryOp::Acos, f64::acos),
        (UnaryOp::Atan, f64::atan),
        (UnaryOp::Sinh, f64::sinh),
        (UnaryOp::Cosh, f64::cosh),
        (UnaryOp::Tanh, f64::tanh),
        (UnaryOp::Asinh, |x| x.abs().asinh().copysign(x)),
        (UnaryOp::Acosh, f64::acosh),
        (UnaryOp::Atanh, f64::atanh),
        (UnaryOp::Sinpi, |x| (x % 2.0 * std::f64::consts::PI).sin()),
        (UnaryOp::Fract, |x| {
            if x.is_nan() {
                x
            } else if x.is_infinite() {
                0.0
            } else {
                (x - x.floor()).min(0.999_511_718_75)
            }
        }),
    ];
    let all: Vec<u64> = (0..=0xffffu64).collect();
    let input = bytes(Scalar::F16, &all);
    let out = bytes(Scalar::F16, &all);
    for mode in [MathMode::Precise, MathMode::Fast] {
        for (op, reference) in cases {
            let kernel = kernel_of(&[Scalar::F16], Scalar::F16, false, |b, v| b.unary(op, v[0], mode));
            run(&kernel, &[&input, &out], 0x10000, 256);
            for (bits, got) in values(Scalar::F16, &out).into_iter().enumerate() {
                let x = f16::from_bits(bits as u16);
                let want = f16::from_f64(reference(x.to_f64()));
                let got = f16::from_bits(got as u16);
                if want.is_nan() || got.is_nan() {
                    assert!(want.is_nan() && got.is_nan(), "{op:?}({x}) = {got}, not {want}");
                    continue;
                }
                // Bit patterns of one sign are in order; −0 and +0 are the same place.
                let place = |x: f16| {
                    let bits = i32::from(x.to_bits() & 0x7fff);
                    if x.is_sign_negative() { -bits } else { bits }
                };
                // sin and cos of fast-math have an absolute bound.
                let slack = matches!(op, UnaryOp::Sin | UnaryOp::Cos)
                    && mode == MathMode::Fast
                    && (got.to_f64() - want.to_f64()).abs() < 2f64.powi(-11);
                let whole = op == UnaryOp::Sinpi && x.to_f64().fract() == 0.0 && got.to_f64() == 0.0;
                assert!(
                    (place(got) - place(want)).abs() <= 1 || slack || whole,
                    "{op:?}({x}) = {got}, not {want}"
                );
            }
        }
    }
}
