//! How addresses grow with a position or a counter.

use std::collections::{HashMap, HashSet};

use anymetal_ir::passes::Effects;
use anymetal_ir::{BinaryOp, Const, Inst, Kernel, Op, ValueId};

/// By how much each value of a straight line grows when the values that `is_unit` names grow by 1; absent where that is not known or not
/// constant. Values from outside do not grow; `constants` are those of them that are numbers.
pub(crate) fn growth(
    kernel: &Kernel,
    effects: &Effects,
    unaliased: bool,
    insts: &[&Inst],
    constants: &HashMap<ValueId, Const>,
    is_unit: &dyn Fn(&Op) -> bool,
) -> HashMap<ValueId, i64> {
    let inside: HashSet<ValueId> = insts.iter().flat_map(|inst| inst.results()).collect();
    let mut known: HashMap<ValueId, i64> = HashMap::new();
    let mut numbers: HashMap<ValueId, i64> = constants.iter().map(|(&value, c)| (value, c.bits as i64)).collect();
    for inst in insts {
        let of = |value: &ValueId| {
            if inside.contains(value) {
                known.get(value).copied()
            } else {
                Some(0)
            }
        };
        let mut fixed = inst.op.is_pure();
        if let Op::Load { pointer, .. } = inst.op {
            fixed = unaliased && effects.reads_constant_memory(kernel, pointer);
        }
        inst.op.for_each_operand(|value| fixed &= of(&value) == Some(0));
        let long = inst.count == 1
            && kernel
                .ty(inst.first)
                .scalar()
                .is_some_and(|ty| ty.is_integer() && ty.bits() == 64);
        let result = match &inst.op {
            op if is_unit(op) => Some(1),
            _ if fixed => Some(0),
            // 32-bit sums may wrap around between neighbours; the unit itself does not.
            Op::Convert { operand, to, .. } if to.is_integer() && to.bits() >= 32 => of(operand),
            Op::Bitcast { operand, to } if to.scalar().is_some_and(|to| to.is_integer() && to.bits() >= 32) => {
                of(operand)
            }
            Op::Binary { op, lhs, rhs, .. } if long => match (op, of(lhs), of(rhs)) {
                (BinaryOp::Add, Some(a), Some(b)) => a.checked_add(b),
                (BinaryOp::Sub, Some(a), Some(b)) => a.checked_sub(b),
                (BinaryOp::Mul, Some(a), Some(0)) => numbers.get(rhs).and_then(|&c| a.checked_mul(c)),
                (BinaryOp::Mul, Some(0), Some(b)) => numbers.get(lhs).and_then(|&c| b.checked_mul(c)),
                (BinaryOp::Shl, Some(a), Some(0)) => numbers
                    .get(rhs)
                    .filter(|&&c| (0..32).contains(&c))
                    .and_then(|&c| a.checked_mul(1 << c)),
                _ => None,
            },
            Op::PointerOffset { pointer, offset } => match (of(pointer), of(offset)) {
                (Some(a), Some(b)) => a.checked_add(b),
                _ => None,
            },
            _ => None,
        };
        if let Op::Const(c) = inst.op {
            numbers.insert(inst.first, c.bits as i64);
        }
        if let Some(result) = result {
            known.extend(inst.results().map(|value| (value, result)));
        }
    }
    known
}
