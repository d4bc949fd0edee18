//! Every arithmetic operation on every type, as varying and as uniform operation, against scalar Rust.

mod common;

use anymetal_cpu::{CpuKernel, HostMemory};
use anymetal_ir::{
    Access, BinaryOp, Builder, CompareOp, MathMode, Op, Scalar, TernaryOp, Type, UnaryOp, ValueId,
};
use common::*;
use half::{bf16, f16};

const P: MathMode = MathMode::Precise;
const COUNT: usize = 300;

/// A number of any type: exact in both halves.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

fn decode(ty: Scalar, bits: u64) -> Number {
    match ty {
        Scalar::F32 => Number::Float(f64::from(f32::from_bits(bits as u32))),
        Scalar::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        Scalar::BF16 => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        _ => {
            let width = ty.size() * 8;
            let shifted = (bits << (64 - width)) as i64;
            Number::Int(if ty.is_signed() {
                i128::from(shifted >> (64 - width))
            } else {
                i128::from((shifted as u64) >> (64 - width))
            })
        }
    }
}

fn encode(ty: Scalar, number: Number) -> u64 {
    match (ty, number) {
        (Scalar::F32, Number::Float(x)) => u64::from((x as f32).to_bits()),
        (Scalar::F16, Number::Float(x)) => u64::from(f16::from_f64(x).to_bits()),
        (Scalar::BF16, Number::Float(x)) => u64::from(bf16::from_f64(x).to_bits()),
        (_, Number::Int(x)) => {
            let width = ty.size() * 8;
            (x as u64) << (64 - width) >> (64 - width)
        }
        (ty, Number::Float(_)) => panic!("a float for {ty}"),
    }
}

fn same(ty: Scalar, a: u64, b: u64) -> bool {
    a == b
        || match (decode(ty, a), decode(ty, b)) {
            (Number::Float(a), Number::Float(b)) => a.is_nan() && b.is_nan(),
            _ => false,
        }
}

/// Bit patterns that cover corners first and are spread out then.
fn inputs(ty: Scalar, seed: u64) -> Vec<u64> {
    let width = ty.size() * 8;
    let mask = if width == 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    };
    if ty == Scalar::Bool {
        return (0..COUNT as u64).map(|i| (i * 7 + seed) / 3 % 2).collect();
    }
    let mut corners: Vec<u64> = if ty.is_float() {
        [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            3.0,
            65504.0,
            1e-7,
            -1e-7,
            6e-8,
            1e-40,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            100.0,
            -7.25,
            0.999,
        ]
        .iter()
        .map(|&x| encode(ty, Number::Float(x)))
        .collect()
    } else {
        vec![
            0,
            1,
            2,
            3,
            7,
            8,
            31,
            32,
            mask,
            mask - 1,
            mask >> 1,
            (mask >> 1) + 1,
            100,
            255,
        ]
    };
    let n = corners.len();
    // Each list cycles the corners at its own pace, so that all pairs meet.
    let period = if seed == 0 { 1 } else { n };
    let mut out: Vec<u64> = (0..n * n).map(|i| corners[i / period % n]).collect();
    corners.clear();
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed + 1);
    while out.len() < 2 * COUNT {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        out.push((state >> 7) & mask);
    }
    out
}

fn bytes(ty: Scalar, values: &[u64]) -> HostMemory {
    let size = ty.size() as usize;
    let all: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes()[..size].to_vec())
        .collect();
    HostMemory::from_bytes(&all).unwrap()
}

fn values(ty: Scalar, memory: &HostMemory) -> Vec<u64> {
    let size = ty.size() as usize;
    memory.with_bytes(|bytes| {
        bytes
            .chunks_exact(size)
            .map(|chunk| {
                let mut wide = [0; 8];
                wide[..size].copy_from_slice(chunk);
                u64::from_le_bytes(wide)
            })
            .collect()
    })
}

/// A kernel of `inputs` operands and one result. With `uniform`, all lanes compute with the element that the grid's size
/// names, so that the operation is a uniform one.
fn kernel_of(
    types: &[Scalar],
    result: Scalar,
    uniform: bool,
    make: impl FnOnce(&mut Builder, &[ValueId]) -> ValueId,
) -> CpuKernel {
    let mut b = Builder::new("op");
    let arguments: Vec<_> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| buffer(&mut b, &format!("in{i}"), ty.size(), Access::ReadOnly))
        .collect();
    let out = buffer(&mut b, "out", result.size(), Access::ReadWrite);
    let i = gid(&mut b);
    let at = if uniform {
        let size = builtin(&mut b, anymetal_ir::Builtin::ThreadsPerGrid(0));
        let one = u32c(&mut b, 1);
        b.binary(BinaryOp::Sub, size, one, P)
    } else {
        i
    };
    let operands: Vec<_> = arguments
        .iter()
        .zip(types)
        .map(|(&argument, &ty)| {
            let base = pointer(&mut b, argument);
            load_at(&mut b, base, at, ty)
        })
        .collect();
    let value = make(&mut b, &operands);
    let out = pointer(&mut b, out);
    store_at(&mut b, out, i, value);
    compile(b.finish())
}

/// Runs an operation over all inputs and compares with `reference` on bits.
fn check(
    name: &str,
    types: &[Scalar],
    result: Scalar,
    make: impl Fn(&mut Builder, &[ValueId]) -> ValueId,
    reference: impl Fn(&[u64]) -> Option<u64>,
) {
    let lists: Vec<Vec<u64>> = types
        .iter()
        .enumerate()
        .map(|(i, &ty)| inputs(ty, i as u64))
        .collect();
    let count = lists.iter().map(Vec::len).min().unwrap();
    let memories: Vec<HostMemory> = types
        .iter()
        .zip(&lists)
        .map(|(&ty, list)| bytes(ty, list))
        .collect();
    let out = bytes(result, &vec![0; count]);
    let mut all: Vec<&HostMemory> = memories.iter().collect();
    all.push(&out);
    run(
        &kernel_of(types, result, false, &make),
        &all,
        count as u32,
        64,
    );
    let got = values(result, &out);
    for i in 0..count {
        let operands: Vec<u64> = lists.iter().map(|list| list[i]).collect();
        if let Some(want) = reference(&operands) {
            assert!(
                same(result, got[i], want),
                "{name} of {operands:x?} is {:x} ({:?}), not {want:x} ({:?})",
                got[i],
                decode(result, got[i]),
                decode(result, want)
            );
        }
    }
    // The uniform operation on a few of them.
    let uniform = kernel_of(types, result, true, &make);
    for count in [1u32, 5, 33, 90] {
        run(&uniform, &all, count, 32);
        let first = values(result, &out)[0];
        assert!(
            same(result, first, got[count as usize - 1]),
            "uniform {name}"
        );
    }
}

const INTS: [Scalar; 8] = [
    Scalar::I8,
    Scalar::U8,
    Scalar::I16,
    Scalar::U16,
    Scalar::I32,
    Scalar::U32,
    Scalar::I64,
    Scalar::U64,
];
const FLOATS: [Scalar; 3] = [Scalar::F16, Scalar::BF16, Scalar::F32];

fn int(ty: Scalar, bits: u64) -> i128 {
    match decode(ty, bits) {
        Number::Int(x) => x,
        Number::Float(_) => panic!("not an integer"),
    }
}

fn float(ty: Scalar, bits: u64) -> f64 {
    match decode(ty, bits) {
        Number::Float(x) => x,
        Number::Int(_) => panic!("not a float"),
    }
}

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
                        BinaryOp::Rotate => {
                            ((unsigned << count) | (unsigned >> (width - count))) as i128
                        }
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
                if op != TernaryOp::Fma
                    && (a.is_nan() || b.is_nan() || c.is_nan() || a == b || b == c || a == c)
                {
                    return None;
                }
                Some(match op {
                    TernaryOp::Fma if ty == Scalar::F32 => {
                        u64::from((a as f32).mul_add(b as f32, c as f32).to_bits())
                    }
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
            let kernel = kernel_of(&[Scalar::F16], Scalar::F16, false, |b, v| {
                b.unary(op, v[0], mode)
            });
            run(&kernel, &[&input, &out], 0x10000, 256);
            for (bits, got) in values(Scalar::F16, &out).into_iter().enumerate() {
                let x = f16::from_bits(bits as u16);
                let want = f16::from_f64(reference(x.to_f64()));
                let got = f16::from_bits(got as u16);
                if want.is_nan() || got.is_nan() {
                    assert!(
                        want.is_nan() && got.is_nan(),
                        "{op:?}({x}) = {got}, not {want}"
                    );
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
                let whole =
                    op == UnaryOp::Sinpi && x.to_f64().fract() == 0.0 && got.to_f64() == 0.0;
                assert!(
                    (place(got) - place(want)).abs() <= 1 || slack || whole,
                    "{op:?}({x}) = {got}, not {want}"
                );
            }
        }
    }
}

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
                check(
                    &format!("{from} to {to}, saturated"),
                    &[from],
                    to,
                    make,
                    reference,
                );
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
            let fraction = b.emit(
                Op::Frexp { operand: v[0] },
                &[ty.into(), Scalar::I32.into()],
            );
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
        check("modf", &[ty], ty, make, |v| {
            (float(ty, v[0]) != 0.0).then_some(v[0])
        });
    }
    for format in [
        anymetal_formats::ElementFormat::Fp8E4M3,
        anymetal_formats::ElementFormat::Fp4E2M1,
    ] {
        let make = |b: &mut Builder, v: &[ValueId]| {
            b.emit(
                Op::Decode {
                    operand: v[0],
                    format,
                },
                &[Scalar::F32.into()],
            )
        };
        check("decode", &[Scalar::U8], Scalar::F32, make, |v| {
            Some(u64::from(format.decode_f32(v[0]).to_bits()))
        });
    }
}

/// Fast-math code contracts a product and a sum; the result is within the two roundings of the plain form.
#[test]
fn contraction_stays_close() {
    let f = MathMode::Fast;
    for (op, swap) in [
        (BinaryOp::Add, false),
        (BinaryOp::Sub, false),
        (BinaryOp::Sub, true),
    ] {
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
            &[
                &memory(&lists[0]),
                &memory(&lists[1]),
                &memory(&lists[2]),
                &out,
            ],
            500,
            64,
        );
        for (i, got) in contents::<f32>(&out).into_iter().enumerate() {
            let (a, b, c) = (
                f64::from(lists[0][i]),
                f64::from(lists[1][i]),
                f64::from(lists[2][i]),
            );
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
