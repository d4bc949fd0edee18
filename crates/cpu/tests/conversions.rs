//! Conversions, comparisons, selections and the parts of numbers, on every type, against scalar Rust.

mod common;

use anymetal_ir::{BinaryOp, Builder, CompareOp, MathMode, Op, Scalar, Type, UnaryOp, ValueId};
use common::numbers::*;
use common::*;

#[test]
fn conversions() {
    for from in Scalar::ALL {
        for to in Scalar::ALL {
            if from == to {
                continue;
            }
            let reference = |v: &[u64]| {
                let number = decode(from, v[0]);
                if to == Scalar::Bool {
                    return Some(match number {
                        Number::Int(x) => u64::from(x != 0),
                        Number::Float(x) => u64::from(x != 0.0),
                    });
                }
                Some(match (number, to.is_float()) {
                    (Number::Int(x), false) => encode(to, Number::Int(x)),
                    // Through f64 where an i128 is exact there; otherwise directly.
                    (Number::Int(x), true) if to == Scalar::F32 => u64::from((x as f32).to_bits()),
                    (Number::Int(x), true) => encode(to, Number::Float(x as f64)),
                    (Number::Float(x), true) => encode(to, Number::Float(x)),
                    (Number::Float(x), false) => {
                        let width = to.size() * 8;
                        let (low, high) = if to.is_signed() {
                            (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
                        } else {
                            (0, (1i128 << width) - 1)
                        };
                        encode(to, Number::Int((x as i128).clamp(low, high)))
                    }
                })
            };
            check(
                &format!("{from} to {to}"),
                &[from],
                to,
                |b, v| b.convert(v[0], to),
                reference,
            );
            if from.is_integer() && to.is_integer() {
                let reference = |v: &[u64]| {
                    let width = to.size() * 8;
                    let (low, high) = if to.is_signed() {
                        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
                    } else {
                        (0, (1i128 << width) - 1)
                    };
                    Some(encode(to, Number::Int(int(from, v[0]).clamp(low, high))))
                };
                let make = |b: &mut Builder, v: &[ValueId]| {
                    b.emit(
                        Op::Convert {
                            operand: v[0],
                            to,
                            saturate: true,
                        },
                        &[to.into()],
                    )
                };
                check(&format!("{from} to {to}, saturated"), &[from], to, make, reference);
            }
        }
    }
}

#[test]
fn comparisons_and_selections() {
    for ty in Scalar::ALL {
        for op in [
            CompareOp::Eq,
            CompareOp::Ne,
            CompareOp::Lt,
            CompareOp::Le,
            CompareOp::Gt,
            CompareOp::Ge,
        ] {
            if ty == Scalar::Bool && !matches!(op, CompareOp::Eq | CompareOp::Ne) {
                continue;
            }
            let reference = |v: &[u64]| {
                let order = match (decode(ty, v[0]), decode(ty, v[1])) {
                    (Number::Int(a), Number::Int(b)) => a.partial_cmp(&b),
                    (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
                    _ => None,
                };
                use std::cmp::Ordering::*;
                Some(u64::from(match op {
                    CompareOp::Eq => order == Some(Equal),
                    CompareOp::Ne => order != Some(Equal),
                    CompareOp::Lt => order == Some(Less),
                    CompareOp::Le => matches!(order, Some(Less | Equal)),
                    CompareOp::Gt => order == Some(Greater),
                    CompareOp::Ge => matches!(order, Some(Greater | Equal)),
                }))
            };
            check(
                &format!("{op:?} {ty}"),
                &[ty, ty],
                Scalar::Bool,
                |b, v| b.compare(op, v[0], v[1]),
                reference,
            );
        }
        check(
            &format!("select {ty}"),
            &[Scalar::Bool, ty, ty],
            ty,
            |b, v| b.select(v[0], v[1], v[2]),
            |v| Some(if v[0] != 0 { v[1] } else { v[2] }),
        );
    }
    for op in [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor] {
        let reference = |v: &[u64]| {
            Some(match op {
                BinaryOp::And => v[0] & v[1],
                BinaryOp::Or => v[0] | v[1],
                _ => v[0] ^ v[1],
            })
        };
        let t = Scalar::Bool;
        check(
            &format!("{op:?} bool"),
            &[t, t],
            t,
            |b, v| b.binary(op, v[0], v[1], P),
            reference,
        );
    }
    check(
        "not bool",
        &[Scalar::Bool],
        Scalar::Bool,
        |b, v| b.unary(UnaryOp::Not, v[0], P),
        |v| Some(v[0] ^ 1),
    );
}

#[test]
fn bits_and_parts() {
    check(
        "bitcast",
        &[Scalar::F32],
        Scalar::U32,
        |b, v| {
            b.emit(
                Op::Bitcast {
                    operand: v[0],
                    to: Type::Scalar(Scalar::U32),
                },
                &[Scalar::U32.into()],
            )
        },
        |v| Some(v[0]),
    );
    for ty in FLOATS {
        // frexp and modf put together again give the number.
        let make = |b: &mut Builder, v: &[ValueId]| {
            let fraction = b.emit(Op::Frexp { operand: v[0] }, &[ty.into(), Scalar::I32.into()]);
            let exponent = ValueId(fraction.0 + 1);
            b.emit(
                Op::Binary {
                    op: BinaryOp::Ldexp,
                    lhs: fraction,
                    rhs: exponent,
                    mode: P,
                },
                &[ty.into()],
            )
        };
        check("frexp", &[ty], ty, make, |v| Some(v[0]));
        let make = |b: &mut Builder, v: &[ValueId]| {
            let fraction = b.emit(Op::Modf { operand: v[0] }, &[ty.into(), ty.into()]);
            b.binary(BinaryOp::Add, fraction, ValueId(fraction.0 + 1), P)
        };
        check("modf", &[ty], ty, make, |v| (float(ty, v[0]) != 0.0).then_some(v[0]));
    }
    for format in [
        anymetal_formats::ElementFormat::Fp8E4M3,
        anymetal_formats::ElementFormat::Fp4E2M1,
    ] {
        let make = |b: &mut Builder, v: &[ValueId]| b.emit(Op::Decode { operand: v[0], format }, &[Scalar::F32.into()]);
        check("decode", &[Scalar::U8], Scalar::F32, make, |v| {
            Some(u64::from(format.decode_f32(v[0]).to_bits()))
        });
    }
}

/// Fast-math code contracts a product and a sum; the result is within the two roundings of the plain form.
#[test]
fn contraction_stays_close() {
    let f = MathMode::Fast;
    for (op, swap) in [(BinaryOp::Add, false), (BinaryOp::Sub, false), (BinaryOp::Sub, true)] {
        let make = |b: &mut Builder, v: &[ValueId]| {
            let product = b.binary(BinaryOp::Mul, v[0], v[1], f);
            if swap {
                b.binary(op, v[2], product, f)
            } else {
                b.binary(op, product, v[2], f)
            }
        };
        let t = Scalar::F32;
        let kernel = kernel_of(&[t; 3], t, false, make);
        let lists: Vec<Vec<f32>> = (0..3)
            .map(|k| {
                (0..500)
                    .map(|i| ((i * 37 + k * 11) % 101) as f32 * 0.37 - 17.0)
                    .collect()
            })
            .collect();
        let out = memory(&vec![0f32; 500]);
        run(
            &kernel,
            &[&memory(&lists[0]), &memory(&lists[1]), &memory(&lists[2]), &out],
            500,
            64,
        );
        for (i, got) in contents::<f32>(&out).into_iter().enumerate() {
            let (a, b, c) = (f64::from(lists[0][i]), f64::from(lists[1][i]), f64::from(lists[2][i]));
            let want = match (op, swap) {
                (BinaryOp::Add, _) => a * b + c,
                (_, false) => a * b - c,
                (_, true) => c - a * b,
            };
            assert!(
                (f64::from(got) - want).abs() <= 1e-6 * (a * b).abs().max(c.abs()).max(1.0),
                "{i}"
            );
        }
    }
}
