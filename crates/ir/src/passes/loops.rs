//! The shape of loops that count: the test at their head and what their latch adds.

use crate::kernel::{Block, Inst};
use crate::op::{BinaryOp, CompareOp, Op, UnaryOp};
use crate::types::{LocalId, ValueId};

/// The comparison by which a loop goes on: an `if` at the head of its body, one side of which only leaves the loop.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Position of the `if` in the body; the values that it compares may be computed before it.
    pub position: usize,
    /// How it compares.
    pub op: CompareOp,
    /// Left side.
    pub lhs: ValueId,
    /// Right side.
    pub rhs: ValueId,
    /// Whether the loop ends if the comparison holds, and not if it fails.
    pub leaves: bool,
}

impl Test {
    /// The test of a loop with this body, if it has one.
    pub fn of(body: &Block) -> Option<Self> {
        let position = body
            .insts
            .iter()
            .position(|inst| inst.op.is_structured() || inst.op.is_terminator())?;
        let Op::If {
            condition,
            then,
            otherwise,
        } = &body.insts[position].op
        else {
            return None;
        };
        let only_leaves = |block: &Block| matches!(block.insts.as_slice(), [inst] if inst.op == Op::Break(0));
        let mut leaves = match (only_leaves(then), only_leaves(otherwise)) {
            (true, false) if otherwise.insts.is_empty() => true,
            (false, true) if then.insts.is_empty() => false,
            _ => return None,
        };
        let before = &body.insts[..position];
        let mut compare = defined(before, *condition)?;
        if let Op::Unary {
            op: UnaryOp::Not,
            operand,
            ..
        } = compare
        {
            compare = defined(before, *operand)?;
            leaves = !leaves;
        }
        let &Op::Compare { op, lhs, rhs } = compare else {
            return None;
        };
        Some(Self {
            position,
            op,
            lhs,
            rhs,
            leaves,
        })
    }
}

/// The operation in a list that defines a value.
pub fn defined(insts: &[Inst], value: ValueId) -> Option<&Op> {
    insts
        .iter()
        .find(|inst| inst.results().any(|result| result == value))
        .map(|inst| &inst.op)
}

/// What a latch adds to a counter, if it sets the counter once and to that sum.
pub fn added(latch: &Block, counter: LocalId) -> Option<ValueId> {
    let mut sets = latch.insts.iter().filter_map(|inst| match inst.op {
        Op::LocalSet { local, value } if local == counter => Some(value),
        _ => None,
    });
    let (Some(set), None) = (sets.next(), sets.next()) else {
        return None;
    };
    let Op::Binary {
        op: BinaryOp::Add,
        lhs,
        rhs,
        ..
    } = defined(&latch.insts, set)?
    else {
        return None;
    };
    let reads = |value| defined(&latch.insts, value) == Some(&Op::LocalGet(counter));
    if reads(*lhs) {
        Some(*rhs)
    } else if reads(*rhs) {
        Some(*lhs)
    } else {
        None
    }
}
