//! What each element-wise operation is in IR, to the letter of the host evaluator.

use anymetal::ir::{BinaryOp, CompareOp, Scalar, UnaryOp, ValueId};

use crate::bytecode::ElementType;
use crate::program::{Binary, Unary};

use super::emit::{Emitter, held, scalar_of};
use super::node::MapOp;

/// One operation on one lane's operands; `None` for what kernels of ours do not compute.
pub(super) fn apply(
    e: &mut Emitter,
    op: MapOp,
    operands: &[(ValueId, ElementType)],
    element: ElementType,
) -> Option<ValueId> {
    let &(a, from) = operands.first()?;
    let ty = held(from)?;
    let value = match op {
        MapOp::Cast => return cast(e, a, from, element),
        MapOp::Select => {
            let (x, y) = (operands.get(1)?.0, operands.get(2)?.0);
            return Some(e.b.select(a, x, y));
        }
        MapOp::Gelu(mode) => {
            let value = gelu(e, a, mode, ty)?;
            return round(e, value, element);
        }
        MapOp::Unary(op) if ty == Scalar::F32 => float_unary(e, op, a)?,
        MapOp::Unary(op) => return integer_unary(e, op, a, ty),
        MapOp::Binary(op) => {
            let b = operands.get(1)?.0;
            if let Some(truth) = comparison(e, op, a, b, ty) {
                return Some(e.b.convert(truth, held(element)?));
            }
            match ty {
                Scalar::F32 => float_binary(e, op, a, b)?,
                Scalar::Bool => bool_binary(e, op, a, b)?,
                _ => {
                    let value = integer_binary(e, op, a, b)?;
                    return Some(e.b.convert(value, held(element)?));
                }
            }
        }
    };
    round(e, value, element)
}

/// A float rounded to its element type.
fn round(e: &mut Emitter, value: ValueId, element: ElementType) -> Option<ValueId> {
    let scalar = scalar_of(element)?;
    if !matches!(scalar, Scalar::F16 | Scalar::BF16) {
        return Some(value);
    }
    let narrow = e.b.convert(value, scalar);
    Some(e.b.convert(narrow, Scalar::F32))
}

fn cast(e: &mut Emitter, a: ValueId, from: ElementType, to: ElementType) -> Option<ValueId> {
    let (source, target) = (held(from)?, held(to)?);
    if from == to {
        return Some(a);
    }
    if target == Scalar::F32 {
        let value = e.b.convert(a, Scalar::F32);
        return round(e, value, to);
    }
    if target == Scalar::Bool {
        return Some(match source {
            Scalar::Bool => a,
            Scalar::F32 => {
                let zero = e.f32(0.0);
                e.b.compare(CompareOp::Ne, a, zero)
            }
            _ => {
                let zero = e.b.int(source, 0);
                e.b.compare(CompareOp::Ne, a, zero)
            }
        });
    }
    if source != Scalar::F32 {
        return Some(e.b.convert(a, target));
    }
    // A float goes to a wide integer, whose low bits are kept.
    let signed = e.b.convert(a, Scalar::I64);
    if target != Scalar::U64 {
        return Some(e.b.convert(signed, target));
    }
    let (unsigned, wrapped) = (e.b.convert(a, Scalar::U64), e.b.convert(signed, Scalar::U64));
    let zero = e.f32(0.0);
    let negative = e.b.compare(CompareOp::Lt, a, zero);
    Some(e.b.select(negative, wrapped, unsigned))
}

fn integer_unary(e: &mut Emitter, op: Unary, a: ValueId, ty: Scalar) -> Option<ValueId> {
    Some(match op {
        Unary::Not if ty == Scalar::Bool => e.un(UnaryOp::Not, a),
        _ if ty == Scalar::Bool => return None,
        Unary::Abs if ty.is_signed() => e.un(UnaryOp::Abs, a),
        Unary::Relu if ty.is_signed() => {
            let zero = e.b.int(ty, 0);
            e.bin(BinaryOp::Max, a, zero)
        }
        Unary::Abs | Unary::Relu | Unary::Round => a,
        _ => return None,
    })
}

fn float_unary(e: &mut Emitter, op: Unary, a: ValueId) -> Option<ValueId> {
    let direct = match op {
        Unary::Abs => UnaryOp::Abs,
        Unary::Acos => UnaryOp::Acos,
        Unary::Acosh => UnaryOp::Acosh,
        Unary::Asin => UnaryOp::Asin,
        Unary::Asinh => UnaryOp::Asinh,
        Unary::Atan => UnaryOp::Atan,
        Unary::Atanh => UnaryOp::Atanh,
        Unary::Cos => UnaryOp::Cos,
        Unary::Cosh => UnaryOp::Cosh,
        Unary::Exp => UnaryOp::Exp,
        Unary::Log => UnaryOp::Log,
        Unary::Round => UnaryOp::Rint,
        Unary::Sin => UnaryOp::Sin,
        Unary::Sinh => UnaryOp::Sinh,
        Unary::Sqrt => UnaryOp::Sqrt,
        Unary::Tan => UnaryOp::Tan,
        Unary::Tanh => UnaryOp::Tanh,
        Unary::Rsqrt => {
            let (one, root) = (e.f32(1.0), e.un(UnaryOp::Sqrt, a));
            return Some(e.bin(BinaryOp::Div, one, root));
        }
        Unary::Erf => return Some(erf(e, a)),
        Unary::Relu => {
            let zero = e.f32(0.0);
            let negative = e.b.compare(CompareOp::Lt, a, zero);
            return Some(e.b.select(negative, zero, a));
        }
        Unary::Sigmoid => return Some(sigmoid(e, a)),
        Unary::Silu => {
            let s = sigmoid(e, a);
            return Some(e.bin(BinaryOp::Mul, a, s));
        }
        Unary::Not => return None,
    };
    Some(e.un(direct, a))
}

fn sigmoid(e: &mut Emitter, a: ValueId) -> ValueId {
    let negative = e.un(UnaryOp::Neg, a);
    let power = e.un(UnaryOp::Exp, negative);
    let one = e.f32(1.0);
    let sum = e.bin(BinaryOp::Add, one, power);
    e.bin(BinaryOp::Div, one, sum)
}

fn gelu(e: &mut Emitter, a: ValueId, mode: u64, ty: Scalar) -> Option<ValueId> {
    if ty != Scalar::F32 {
        return None;
    }
    Some(match mode {
        0 => {
            let factor = e.f32(std::f64::consts::FRAC_1_SQRT_2);
            let scaled = e.bin(BinaryOp::Mul, a, factor);
            let (error, one, half) = (erf(e, scaled), e.f32(1.0), e.f32(0.5));
            let sum = e.bin(BinaryOp::Add, one, error);
            let part = e.bin(BinaryOp::Mul, half, a);
            e.bin(BinaryOp::Mul, part, sum)
        }
        1 => {
            let cubic = e.f32(0.044715);
            let mut inner = e.bin(BinaryOp::Mul, cubic, a);
            inner = e.bin(BinaryOp::Mul, inner, a);
            inner = e.bin(BinaryOp::Mul, inner, a);
            inner = e.bin(BinaryOp::Add, a, inner);
            let factor = e.f32(2.0 * 0.797_884_560_802_865_4);
            let u = e.bin(BinaryOp::Mul, factor, inner);
            let s = sigmoid(e, u);
            e.bin(BinaryOp::Mul, a, s)
        }
        2 => {
            let factor = e.f32(1.702);
            let u = e.bin(BinaryOp::Mul, factor, a);
            let s = sigmoid(e, u);
            e.bin(BinaryOp::Mul, a, s)
        }
        _ => return None,
    })
}

/// A polynomial, highest coefficient first.
fn polynomial(e: &mut Emitter, x: ValueId, coefficients: &[f32]) -> ValueId {
    let mut sum = e.f32(f64::from(coefficients[0]));
    for &c in &coefficients[1..] {
        let c = e.f32(f64::from(c));
        let product = e.bin(BinaryOp::Mul, sum, x);
        sum = e.bin(BinaryOp::Add, product, c);
    }
    sum
}

/// The error function by the host evaluator's polynomials.
fn erf(e: &mut Emitter, x: ValueId) -> ValueId {
    let t = e.un(UnaryOp::Abs, x);
    let s = e.bin(BinaryOp::Mul, x, x);
    let small = polynomial(e, s, &crate::eval::ERF_SMALL);
    let small = e.bin(BinaryOp::Mul, x, small);
    let small = e.bin(BinaryOp::Add, small, x);
    let four = e.f32(4.0);
    let clamped = e.bin(BinaryOp::Min, t, four);
    let large = polynomial(e, clamped, &crate::eval::ERF_LARGE);
    let power = e.un(UnaryOp::Exp, large);
    let one = e.f32(1.0);
    let large = e.bin(BinaryOp::Sub, one, power);
    let large = e.bin(BinaryOp::Copysign, large, x);
    let limit = e.f32(0.9216);
    let near = e.b.compare(CompareOp::Lt, t, limit);
    let value = e.b.select(near, small, large);
    let number = e.b.compare(CompareOp::Eq, x, x);
    e.b.select(number, value, x)
}

/// Comparisons of any type, as a `bool`.
fn comparison(e: &mut Emitter, op: Binary, a: ValueId, b: ValueId, ty: Scalar) -> Option<ValueId> {
    Some(match op {
        Binary::Equal | Binary::NotEqual if ty == Scalar::Bool => {
            let differ = e.bin(BinaryOp::Xor, a, b);
            if op == Binary::Equal {
                e.un(UnaryOp::Not, differ)
            } else {
                differ
            }
        }
        Binary::Greater if ty == Scalar::Bool => {
            let not = e.un(UnaryOp::Not, b);
            e.bin(BinaryOp::And, a, not)
        }
        Binary::Equal => e.b.compare(CompareOp::Eq, a, b),
        Binary::NotEqual => e.b.compare(CompareOp::Ne, a, b),
        Binary::Greater => e.b.compare(CompareOp::Gt, a, b),
        Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor if ty != Scalar::F32 => {
            let (x, y) = (truth(e, a, ty), truth(e, b, ty));
            let op = match op {
                Binary::LogicalAnd => BinaryOp::And,
                Binary::LogicalOr => BinaryOp::Or,
                _ => BinaryOp::Xor,
            };
            e.bin(op, x, y)
        }
        _ => return None,
    })
}

fn truth(e: &mut Emitter, a: ValueId, ty: Scalar) -> ValueId {
    if ty == Scalar::Bool {
        return a;
    }
    let zero = e.b.int(ty, 0);
    e.b.compare(CompareOp::Ne, a, zero)
}

fn bool_binary(e: &mut Emitter, op: Binary, a: ValueId, b: ValueId) -> Option<ValueId> {
    let op = match op {
        Binary::Add | Binary::BitwiseOr | Binary::Maximum => BinaryOp::Or,
        Binary::Mul | Binary::BitwiseAnd | Binary::Minimum => BinaryOp::And,
        Binary::Sub | Binary::BitwiseXor => BinaryOp::Xor,
        _ => return None,
    };
    Some(e.bin(op, a, b))
}

fn float_binary(e: &mut Emitter, op: Binary, a: ValueId, b: ValueId) -> Option<ValueId> {
    Some(match op {
        Binary::Add => e.bin(BinaryOp::Add, a, b),
        Binary::Sub => e.bin(BinaryOp::Sub, a, b),
        Binary::Mul => e.bin(BinaryOp::Mul, a, b),
        Binary::Divide => e.bin(BinaryOp::Div, a, b),
        Binary::FloorDivide => {
            let quotient = e.bin(BinaryOp::Div, a, b);
            e.un(UnaryOp::Floor, quotient)
        }
        Binary::Modulo => e.bin(BinaryOp::Fmod, a, b),
        Binary::Pow => {
            let two = e.f32(2.0);
            if let Some(exponent) = super::emit::constant_bits(e.b.as_const(b)) {
                let exponent = f32::from_bits(exponent as u32);
                if exponent == 2.0 {
                    return Some(e.bin(BinaryOp::Mul, a, a));
                }
                return Some(e.bin(BinaryOp::Pow, a, b));
            }
            let (square, power) = (e.bin(BinaryOp::Mul, a, a), e.bin(BinaryOp::Pow, a, b));
            let is_two = e.b.compare(CompareOp::Eq, b, two);
            e.b.select(is_two, square, power)
        }
        // NaN on either side stays.
        Binary::Maximum | Binary::Minimum => {
            let order = if op == Binary::Maximum {
                CompareOp::Gt
            } else {
                CompareOp::Lt
            };
            let first = e.b.compare(order, a, b);
            let nan = e.b.compare(CompareOp::Ne, a, a);
            let takes = e.bin(BinaryOp::Or, first, nan);
            e.b.select(takes, a, b)
        }
        _ => return None,
    })
}

fn integer_binary(e: &mut Emitter, op: Binary, a: ValueId, b: ValueId) -> Option<ValueId> {
    let ty = e.b.scalar(a);
    let direct = match op {
        Binary::Add => BinaryOp::Add,
        Binary::Sub => BinaryOp::Sub,
        Binary::Mul => BinaryOp::Mul,
        Binary::Divide => BinaryOp::Div,
        Binary::Modulo => BinaryOp::Rem,
        Binary::Maximum => BinaryOp::Max,
        Binary::Minimum => BinaryOp::Min,
        Binary::BitwiseAnd => BinaryOp::And,
        Binary::BitwiseOr => BinaryOp::Or,
        Binary::BitwiseXor => BinaryOp::Xor,
        Binary::FloorDivide if !ty.is_signed() => BinaryOp::Div,
        Binary::FloorDivide => {
            let quotient = e.bin(BinaryOp::Div, a, b);
            let product = e.bin(BinaryOp::Mul, quotient, b);
            let (zero, one) = (e.b.int(ty, 0), e.b.int(ty, 1));
            let inexact = e.b.compare(CompareOp::Ne, product, a);
            let (low, other) = (e.b.compare(CompareOp::Lt, a, zero), e.b.compare(CompareOp::Lt, b, zero));
            let signs = e.bin(BinaryOp::Xor, low, other);
            let down = e.bin(BinaryOp::And, inexact, signs);
            let less = e.bin(BinaryOp::Sub, quotient, one);
            return Some(e.b.select(down, less, quotient));
        }
        // An exponent that is known and small is a chain of products.
        Binary::Pow => {
            let exponent = super::emit::constant_bits(e.b.as_const(b)).filter(|&n| n <= 64)?;
            let mut out = e.b.int(ty, 1);
            let (mut base, mut left) = (a, exponent);
            while left > 0 {
                if left & 1 == 1 {
                    out = e.bin(BinaryOp::Mul, out, base);
                }
                left >>= 1;
                if left > 0 {
                    base = e.bin(BinaryOp::Mul, base, base);
                }
            }
            return Some(out);
        }
        _ => return None,
    };
    Some(e.bin(direct, a, b))
}
