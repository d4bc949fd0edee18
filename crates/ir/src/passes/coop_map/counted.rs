//! The loops that count slots: counters from 0 by 1, and the test against the capacity.

use std::collections::{HashMap, HashSet};

use super::{Class, Pass, Rejected};
use crate::kernel::{Block, Inst};
use crate::op::{BinaryOp, CompareOp, Op, UnaryOp};
use crate::types::{LocalId, Scalar, ValueId};

impl Pass<'_> {
    /// The locals that count 0, 1, 2, …: set to 0 before the loop, to themselves plus one in the latch.
    pub(super) fn counters(&self, before: &[Inst], body: &Block, latch: &Block) -> Result<Vec<LocalId>, Rejected> {
        let mut classes: HashMap<ValueId, (LocalId, Class)> = HashMap::new();
        let mut counters = Vec::new();
        for inst in &latch.insts {
            match &inst.op {
                Op::LocalGet(local) => {
                    classes.insert(inst.first, (*local, Class::Slot));
                }
                Op::Convert { operand, to, .. } if is_slot_type(*to) => {
                    if let Some(class) = classes.get(operand).copied() {
                        classes.insert(inst.first, class);
                    }
                }
                Op::Binary {
                    op: BinaryOp::Add,
                    lhs,
                    rhs,
                    ..
                } => {
                    for (a, b) in [(lhs, rhs), (rhs, lhs)] {
                        if let Some((local, Class::Slot)) = classes.get(a).copied()
                            && self.constants.get(b).is_some_and(|c| c.bits == 1 && c.ty.is_integer())
                        {
                            classes.insert(inst.first, (local, Class::Next));
                        }
                    }
                }
                Op::LocalSet { local, value } => {
                    if classes.get(value) != Some(&(*local, Class::Next)) {
                        return Err("the latch does more than count");
                    }
                    counters.push(*local);
                }
                op if op.is_pure() => {}
                _ => return Err("the latch does more than count"),
            }
        }
        counters.sort_unstable();
        if counters.is_empty() || counters.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("the latch does not count");
        }
        let mut sets_in_body = false;
        body.for_each_inst(&mut |inst| {
            sets_in_body |= matches!(&inst.op, Op::LocalSet { local, .. } if counters.contains(local));
        });
        if sets_in_body {
            return Err("the body sets the counter");
        }
        for counter in &counters {
            let mut start = None;
            for inst in before.iter().rev() {
                if let Op::LocalSet { local, value } = &inst.op
                    && local == counter
                {
                    start = Some(*value);
                    break;
                }
                let mut set = false;
                for block in inst.op.blocks().into_iter().flatten() {
                    block.for_each_inst(&mut |inst| {
                        set |= matches!(&inst.op, Op::LocalSet { local, .. } if local == counter);
                    });
                }
                if set {
                    break;
                }
            }
            let zero = start
                .and_then(|value| self.constants.get(&value))
                .is_some_and(|c| c.bits == 0 && c.ty.is_integer());
            if !zero {
                return Err("the counter does not start at 0");
            }
        }
        Ok(counters)
    }

    /// The position of the test `if (!(i < capacity)) break;` in the body, and the capacity.
    pub(super) fn header(&self, body: &Block, counters: &[LocalId]) -> Result<(usize, u32), Rejected> {
        let mut slots = HashSet::new();
        let mut tests: HashMap<ValueId, (bool, u64)> = HashMap::new();
        for (at, inst) in body.insts.iter().enumerate() {
            match &inst.op {
                Op::LocalGet(local) => {
                    if counters.contains(local) {
                        slots.insert(inst.first);
                    }
                }
                Op::Convert { operand, to, .. } if slots.contains(operand) && is_slot_type(*to) => {
                    slots.insert(inst.first);
                }
                Op::Compare { op, lhs, rhs } => {
                    // Records whether the comparison is the condition to go on, and the bound.
                    let constant =
                        |value: &ValueId| self.constants.get(value).filter(|c| c.ty.is_integer()).map(|c| c.bits);
                    let test = match op {
                        CompareOp::Lt | CompareOp::Ne if slots.contains(lhs) => {
                            constant(rhs).map(|bound| (true, bound))
                        }
                        CompareOp::Gt | CompareOp::Ne if slots.contains(rhs) => {
                            constant(lhs).map(|bound| (true, bound))
                        }
                        CompareOp::Ge | CompareOp::Eq if slots.contains(lhs) => {
                            constant(rhs).map(|bound| (false, bound))
                        }
                        CompareOp::Le | CompareOp::Eq if slots.contains(rhs) => {
                            constant(lhs).map(|bound| (false, bound))
                        }
                        _ => None,
                    };
                    if let Some(test) = test {
                        tests.insert(inst.first, test);
                    }
                }
                Op::Unary {
                    op: UnaryOp::Not,
                    operand,
                    ..
                } => {
                    if let Some(&(go_on, bound)) = tests.get(operand) {
                        tests.insert(inst.first, (!go_on, bound));
                    }
                }
                Op::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let breaks = |block: &Block| matches!(block.insts.as_slice(), [inst] if inst.op == Op::Break(0));
                    let &(go_on, bound) = tests.get(condition).ok_or("the loop's test is not on the counter")?;
                    let shaped = if go_on {
                        then.insts.is_empty() && breaks(otherwise)
                    } else {
                        breaks(then) && otherwise.insts.is_empty()
                    };
                    if !shaped || bound == 0 || bound > 1 << 15 {
                        return Err("the loop's test has another shape");
                    }
                    return Ok((at, bound as u32));
                }
                op if op.is_pure() => {}
                _ => return Err("something happens before the loop's test"),
            }
        }
        Err("the loop has no test")
    }
}

/// Integer types that hold every slot number.
pub(super) fn is_slot_type(ty: Scalar) -> bool {
    ty.is_integer() && ty.bits() >= 16
}
