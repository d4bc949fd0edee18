//! Which types the arithmetic operations take.

use crate::op::{BinaryOp, TernaryOp, UnaryOp};
use crate::types::Scalar;

/// The type of the result of a unary operation on `ty`, or `None` if it does not take that type.
pub fn unary_type(op: UnaryOp, ty: Scalar) -> Option<Scalar> {
    let number = ty != Scalar::Bool;
    match op {
        UnaryOp::Neg | UnaryOp::Abs => number.then_some(ty),
        UnaryOp::Not => (!ty.is_float()).then_some(ty),
        UnaryOp::Clz | UnaryOp::Ctz | UnaryOp::Popcount | UnaryOp::ReverseBits => ty.is_integer().then_some(ty),
        UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::IsFinite | UnaryOp::IsNormal | UnaryOp::SignBit => {
            ty.is_float().then_some(Scalar::Bool)
        }
        UnaryOp::Ilogb => ty.is_float().then_some(Scalar::I32),
        _ => ty.is_float().then_some(ty),
    }
}

/// The type of the right operand of a binary operation whose left operand (and result) is `ty`, or `None` if it does not
/// take that type.
pub fn binary_types(op: BinaryOp, ty: Scalar) -> Option<Scalar> {
    use BinaryOp::*;
    let takes = match op {
        Add | Sub | Mul | Div | Rem | Min | Max => ty != Scalar::Bool,
        And | Or | Xor => !ty.is_float(),
        Shl | Shr | MulHi | AddSat | SubSat | AbsDiff | Hadd | Rhadd | Rotate => ty.is_integer(),
        Pow | Powr | Atan2 | Fmod | Fdim | Copysign | Nextafter | Ldexp => ty.is_float(),
    };
    let right = if op == Ldexp { Scalar::I32 } else { ty };
    takes.then_some(right)
}

/// True if a ternary operation takes `ty`.
pub fn ternary_type(op: TernaryOp, ty: Scalar) -> bool {
    match op {
        TernaryOp::Fma => ty.is_float(),
        TernaryOp::Clamp | TernaryOp::Median3 => ty != Scalar::Bool,
        TernaryOp::BitSelect => ty.is_integer(),
    }
}
