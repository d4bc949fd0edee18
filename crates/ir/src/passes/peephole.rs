//! Simplification of one pure operation at a time: constants, identities, and chains of two.

use crate::builder::fold;
use crate::op::{BinaryOp, CompareOp, Const, MathMode, Op, UnaryOp};
use crate::types::{Scalar, Type, ValueId};

/// What a pass knows of values while it walks a kernel.
#[derive(Default)]
pub(crate) struct Facts {
    /// The constant behind a value.
    pub(crate) constants: Vec<Option<Const>>,
    /// The operation that defines a value, if it is one that chains look through.
    pub(crate) definitions: Vec<Option<Op>>,
}

impl Facts {
    pub(crate) fn constant(&self, value: ValueId) -> Option<Const> {
        self.constants.get(value.index()).copied().flatten()
    }

    fn definition(&self, value: ValueId) -> Option<&Op> {
        self.definitions.get(value.index())?.as_ref()
    }

    fn is(&self, value: ValueId, bits: u64) -> bool {
        self.constant(value).is_some_and(|c| c.bits == bits)
    }

    /// Grows the tables to hold a value.
    pub(crate) fn note(&mut self, value: ValueId, op: &Op) {
        if self.constants.len() <= value.index() {
            self.constants.resize(value.index() + 1, None);
            self.definitions.resize(value.index() + 1, None);
        }
        self.constants[value.index()] = match op {
            Op::Const(value) => Some(*value),
            _ => None,
        };
        self.definitions[value.index()] = match op {
            Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Compare { .. }
            | Op::Convert { .. }
            | Op::Bitcast { .. }
            | Op::PointerOffset { .. } => Some(op.clone()),
            _ => None,
        };
    }
}

/// What an operation turns into.
pub(crate) enum Simplified {
    /// Nothing better is known.
    Same,
    /// Another value.
    Value(ValueId),
    /// A constant.
    Constant(Const),
    /// Another operation on the same operands or their operands.
    Op(Op),
    /// Another operation whose last operand (the right one, the offset) is a new constant.
    WithConstant(Const, Op),
}

use Simplified::{Constant, Same, Value, WithConstant};

/// A number in an integer type, wrapped.
fn int(ty: Scalar, value: i128) -> Const {
    let mask = if ty.bits() >= 64 {
        u64::MAX
    } else {
        (1 << ty.bits()) - 1
    };
    Const {
        ty,
        bits: value as u64 & mask,
    }
}

fn boolean(value: bool) -> Const {
    Const {
        ty: Scalar::Bool,
        bits: u64::from(value),
    }
}

/// Simplifies a pure operation; `ty` gives the types of values.
pub(crate) fn simplify(op: &Op, facts: &Facts, ty: &impl Fn(ValueId) -> Type) -> Simplified {
    match op {
        Op::Unary { op, operand, .. } => unary(*op, *operand, facts, ty),
        Op::Binary { op, lhs, rhs, mode } => binary(*op, *lhs, *rhs, *mode, facts, ty),
        Op::Compare { op, lhs, rhs } => compare(*op, *lhs, *rhs, facts, ty),
        Op::Select {
            condition,
            then,
            otherwise,
        } => {
            if let Some(c) = facts.constant(*condition) {
                return Value(if c.bits != 0 { *then } else { *otherwise });
            }
            if then == otherwise {
                return Value(*then);
            }
            if ty(*then) == Scalar::Bool.into() {
                let combined = |op, lhs, rhs| {
                    Simplified::Op(Op::Binary {
                        op,
                        lhs,
                        rhs,
                        mode: MathMode::Precise,
                    })
                };
                // `c && x` and `c || x`.
                if otherwise == condition || facts.is(*otherwise, 0) {
                    return combined(BinaryOp::And, *condition, *then);
                }
                if then == condition || facts.is(*then, 1) {
                    return combined(BinaryOp::Or, *condition, *otherwise);
                }
            }
            if let (Some(a), Some(b)) = (facts.constant(*then), facts.constant(*otherwise)) {
                if a == b {
                    return Value(*then);
                }
                if a.ty == Scalar::Bool {
                    return if a.bits != 0 {
                        Value(*condition)
                    } else {
                        Simplified::Op(Op::Unary {
                            op: UnaryOp::Not,
                            operand: *condition,
                            mode: MathMode::Precise,
                        })
                    };
                }
            }
            Same
        }
        Op::Convert { operand, to, saturate } => convert(*operand, *to, *saturate, facts, ty),
        Op::Bitcast { operand, to } => {
            if ty(*operand) == *to {
                return Value(*operand);
            }
            if let (Some(c), Type::Scalar(to)) = (facts.constant(*operand), *to) {
                return Constant(Const { ty: to, bits: c.bits });
            }
            match facts.definition(*operand) {
                // Pointers do not pass: a pointer that was an integer has no known origin.
                Some(Op::Bitcast { operand: inner, .. })
                    if matches!((ty(*inner), *to), (Type::Scalar(_), Type::Scalar(_))) =>
                {
                    if ty(*inner) == *to {
                        return Value(*inner);
                    }
                    Simplified::Op(Op::Bitcast {
                        operand: *inner,
                        to: *to,
                    })
                }
                _ => Same,
            }
        }
        Op::PointerOffset { pointer, offset } => {
            let Some(c) = facts.constant(*offset) else {
                return Same;
            };
            if c.bits == 0 {
                return Value(*pointer);
            }
            match facts.definition(*pointer) {
                Some(Op::PointerOffset {
                    pointer: inner,
                    offset: first,
                }) => match facts.constant(*first) {
                    Some(first) => WithConstant(
                        int(Scalar::I64, fold::to_int(first) + fold::to_int(c)),
                        Op::PointerOffset {
                            pointer: *inner,
                            offset: *offset,
                        },
                    ),
                    None => Same,
                },
                _ => Same,
            }
        }
        Op::PointerDiff { lhs, rhs } if lhs == rhs => Constant(int(Scalar::I64, 0)),
        _ => Same,
    }
}

fn unary(op: UnaryOp, operand: ValueId, facts: &Facts, ty: &impl Fn(ValueId) -> Type) -> Simplified {
    if let Some(value) = facts.constant(operand).and_then(|c| fold::unary(op, c)) {
        return Constant(value);
    }
    match (op, facts.definition(operand)) {
        (
            UnaryOp::Not | UnaryOp::Neg,
            Some(Op::Unary {
                op: inner,
                operand: value,
                ..
            }),
        ) if *inner == op => Value(*value),
        (UnaryOp::Not, Some(Op::Compare { op, lhs, rhs })) => {
            let float = ty(*lhs).scalar().is_some_and(Scalar::is_float);
            let op = match op {
                CompareOp::Eq => CompareOp::Ne,
                CompareOp::Ne => CompareOp::Eq,
                // A comparison with NaN is false either way.
                _ if float => return Same,
                CompareOp::Lt => CompareOp::Ge,
                CompareOp::Le => CompareOp::Gt,
                CompareOp::Gt => CompareOp::Le,
                CompareOp::Ge => CompareOp::Lt,
            };
            Simplified::Op(Op::Compare {
                op,
                lhs: *lhs,
                rhs: *rhs,
            })
        }
        _ => Same,
    }
}

fn is_commutative(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor
    )
}

fn binary(
    op: BinaryOp,
    lhs: ValueId,
    rhs: ValueId,
    mode: MathMode,
    facts: &Facts,
    ty: &impl Fn(ValueId) -> Type,
) -> Simplified {
    let (a, b) = (facts.constant(lhs), facts.constant(rhs));
    if let (Some(a), Some(b)) = (a, b)
        && let Some(value) = fold::binary(op, a, b)
    {
        return Constant(value);
    }
    let Some(scalar) = ty(lhs).scalar() else {
        return Same;
    };
    // Constants go right; equal operations get equal forms.
    if is_commutative(op) && ((a.is_some() && b.is_none()) || (a.is_none() == b.is_none() && rhs < lhs)) {
        return Simplified::Op(Op::Binary {
            op,
            lhs: rhs,
            rhs: lhs,
            mode,
        });
    }
    if scalar.is_float() {
        return float_binary(op, lhs, b, mode);
    }
    if lhs == rhs {
        match op {
            // For `bool` too: x ∧ x, x ∨ x, x ⊕ x.
            BinaryOp::Sub | BinaryOp::Xor => return Constant(int(scalar, 0)),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Min | BinaryOp::Max => return Value(lhs),
            _ => {}
        }
    }
    let Some(b) = b else { return Same };
    let ones = int(scalar, -1).bits;
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr if b.bits == 0 => {
            return Value(lhs);
        }
        BinaryOp::Mul | BinaryOp::And if b.bits == 0 => return Value(rhs),
        BinaryOp::Mul | BinaryOp::Div if b.bits == 1 => return Value(lhs),
        BinaryOp::And if b.bits == ones => return Value(lhs),
        BinaryOp::Or if b.bits == ones => return Value(rhs),
        BinaryOp::Xor if b.bits == ones => {
            return Simplified::Op(Op::Unary {
                op: UnaryOp::Not,
                operand: lhs,
                mode,
            });
        }
        BinaryOp::Div if !scalar.is_signed() && b.bits.is_power_of_two() => {
            return WithConstant(
                int(scalar, i128::from(b.bits.trailing_zeros())),
                Op::Binary {
                    op: BinaryOp::Shr,
                    lhs,
                    rhs,
                    mode,
                },
            );
        }
        BinaryOp::Rem if !scalar.is_signed() && b.bits.is_power_of_two() => {
            return WithConstant(
                int(scalar, i128::from(b.bits) - 1),
                Op::Binary {
                    op: BinaryOp::And,
                    lhs,
                    rhs,
                    mode,
                },
            );
        }
        BinaryOp::Sub => {
            return WithConstant(
                int(scalar, -fold::to_int(b)),
                Op::Binary {
                    op: BinaryOp::Add,
                    lhs,
                    rhs,
                    mode,
                },
            );
        }
        _ => {}
    }
    // (x op c₁) op c₂ for associative integer operations.
    if is_commutative(op)
        && let Some(Op::Binary {
            op: inner,
            lhs: x,
            rhs: c,
            ..
        }) = facts.definition(lhs)
        && *inner == op
        && let Some(c) = facts.constant(*c)
        && let Some(both) = fold::binary(op, c, b)
    {
        return WithConstant(both, Op::Binary { op, lhs: *x, rhs, mode });
    }
    Same
}

fn float_binary(op: BinaryOp, lhs: ValueId, b: Option<Const>, mode: MathMode) -> Simplified {
    let Some(b) = b else { return Same };
    let number = fold::to_float(b);
    let negative_zero = number == 0.0 && number.is_sign_negative();
    match op {
        BinaryOp::Mul | BinaryOp::Div if number == 1.0 => Value(lhs),
        // −0 is the neutral element of addition; +0 turns −0 into +0.
        BinaryOp::Add if negative_zero || (number == 0.0 && mode == MathMode::Fast) => Value(lhs),
        BinaryOp::Sub if number == 0.0 && (!negative_zero || mode == MathMode::Fast) => Value(lhs),
        // Division by a power of two is exact as a product, as long as the reciprocal is normal.
        BinaryOp::Div
            if number.is_normal()
                && number.abs().log2().fract() == 0.0
                && (-14.0..=14.0).contains(&number.abs().log2()) =>
        {
            WithConstant(
                Const {
                    ty: b.ty,
                    bits: fold::float_bits(b.ty, 1.0 / number),
                },
                // The right operand is replaced by the constant.
                Op::Binary {
                    op: BinaryOp::Mul,
                    lhs,
                    rhs: lhs,
                    mode,
                },
            )
        }
        _ => Same,
    }
}

fn compare(op: CompareOp, lhs: ValueId, rhs: ValueId, facts: &Facts, ty: &impl Fn(ValueId) -> Type) -> Simplified {
    let (a, b) = (facts.constant(lhs), facts.constant(rhs));
    if let (Some(a), Some(b)) = (a, b)
        && let Some(value) = fold::compare(op, a, b)
    {
        return Constant(boolean(value));
    }
    let swapped = match op {
        CompareOp::Eq | CompareOp::Ne => op,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
    };
    if a.is_some() && b.is_none() {
        return Simplified::Op(Op::Compare {
            op: swapped,
            lhs: rhs,
            rhs: lhs,
        });
    }
    let float = ty(lhs).scalar().is_some_and(Scalar::is_float);
    if lhs == rhs && !float {
        return Constant(boolean(matches!(op, CompareOp::Eq | CompareOp::Le | CompareOp::Ge)));
    }
    // `bool` widened and compared with 0 is the `bool` again.
    if let Some(Op::Convert { operand, .. }) = facts.definition(lhs)
        && ty(*operand) == Scalar::Bool.into()
        && facts.is(rhs, 0)
    {
        return match op {
            CompareOp::Ne => Value(*operand),
            CompareOp::Eq => Simplified::Op(Op::Unary {
                op: UnaryOp::Not,
                operand: *operand,
                mode: MathMode::Precise,
            }),
            _ => Same,
        };
    }
    if ty(lhs) == Scalar::Bool.into()
        && let Some(b) = b
    {
        return match (op, b.bits) {
            (CompareOp::Ne, 0) | (CompareOp::Eq, 1) => Value(lhs),
            (CompareOp::Eq, 0) | (CompareOp::Ne, 1) => Simplified::Op(Op::Unary {
                op: UnaryOp::Not,
                operand: lhs,
                mode: MathMode::Precise,
            }),
            _ => Same,
        };
    }
    Same
}

fn convert(operand: ValueId, to: Scalar, saturate: bool, facts: &Facts, ty: &impl Fn(ValueId) -> Type) -> Simplified {
    let Some(from) = ty(operand).scalar() else {
        return Same;
    };
    if from == to {
        return Value(operand);
    }
    if saturate {
        return Same;
    }
    if let Some(value) = facts.constant(operand).and_then(|c| fold::convert(c, to)) {
        return Constant(value);
    }
    let Some(Op::Convert {
        operand: inner,
        saturate: false,
        ..
    }) = facts.definition(operand)
    else {
        return Same;
    };
    let Some(first) = ty(*inner).scalar() else {
        return Same;
    };
    let integer = |ty: Scalar| ty.is_integer() || ty == Scalar::Bool;
    // True if every value of `a` is a value of `b`.
    let holds = |a: Scalar, b: Scalar| match (integer(a), integer(b)) {
        (true, true) => {
            (a.is_signed() == b.is_signed() && a.bits() <= b.bits())
                || (!a.is_signed() && b.is_signed() && a.bits() < b.bits())
        }
        (false, false) => a == b || b == Scalar::F32,
        _ => false,
    };
    let through = if holds(first, from) {
        // The step in the middle changed nothing.
        true
    } else {
        // Bits were cut off or reinterpreted, and more are cut off now.
        integer(first) && from.is_integer() && to.is_integer() && to.bits() <= from.bits()
    };
    if !through {
        return Same;
    }
    if first == to {
        return Value(*inner);
    }
    Simplified::Op(Op::Convert {
        operand: *inner,
        to,
        saturate: false,
    })
}
