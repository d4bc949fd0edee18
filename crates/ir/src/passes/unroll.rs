//! Unrolls counting loops with constant bounds, where the source asks for it or where it lets lane-private arrays become
//! locals.

use std::collections::HashMap;

use crate::builder::fold;
use crate::kernel::{Block, Inst, Kernel};
use crate::op::{BinaryOp, Const, Op, UnaryOp, Unroll};
use crate::passes::control;
use crate::types::{AddressSpace, LocalId, Type, ValueId};

/// Most iterations that are unrolled.
const MAX_TRIPS: usize = 64;
/// Most instructions that a loop may grow to, if the source asks for it.
const MAX_ASKED: usize = 32768;
/// Most instructions otherwise.
const MAX_UNASKED: usize = 512;

/// Unrolls all loops that qualify, innermost first; returns true if there were any.
pub fn run(kernel: &mut Kernel) -> bool {
    let mut constants = HashMap::new();
    kernel.body.for_each_inst(&mut |inst| {
        if let Op::Const(value) = inst.op {
            constants.insert(inst.first, value);
        }
    });
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Pass {
        kernel,
        constants,
        changed: false,
    };
    pass.block(&mut body);
    let changed = pass.changed;
    kernel.body = body;
    changed
}

struct Pass<'a> {
    kernel: &'a mut Kernel,
    constants: HashMap<ValueId, Const>,
    changed: bool,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let insts = std::mem::take(&mut block.insts);
        for mut inst in insts {
            for inner in inst.op.blocks_mut().into_iter().flatten() {
                self.block(inner);
            }
            match self.unrolled(&block.insts, &inst) {
                Some(mut unrolled) => {
                    self.changed = true;
                    block.insts.append(&mut unrolled);
                }
                None => block.insts.push(inst),
            }
        }
    }

    fn unrolled(&mut self, before: &[Inst], inst: &Inst) -> Option<Vec<Inst>> {
        let Op::Loop { body, latch, unroll } = &inst.op else {
            return None;
        };
        if *unroll == Unroll::Never {
            return None;
        }
        let (header, trips) = self.trips(before, body, latch)?;
        let found = self.contents(body, latch)?;
        let limit = match unroll {
            Unroll::Full => MAX_ASKED,
            _ if found.private_memory && !found.cooperative => MAX_UNASKED,
            _ => return None,
        };
        if trips * (found.size + 1) > limit {
            return None;
        }
        // `break` leaves a scope around all iterations, `continue` one around each.
        if found.breaks && found.continues {
            return None;
        }
        let wrap = |insts: Vec<Inst>| {
            vec![Inst {
                op: Op::Scope { body: Block { insts } },
                first: inst.first,
                count: 0,
                location: inst.location,
            }]
        };
        let mut body = body.clone();
        body.insts.remove(header);
        let mut out = Vec::new();
        for _ in 0..trips {
            let mut names = HashMap::new();
            let mut copy = self.copy(&body, &mut names);
            if found.continues {
                continue_to_break(&mut copy, 0);
                copy.insts = wrap(copy.insts);
            }
            out.append(&mut copy.insts);
            let mut copy = self.copy(latch, &mut names);
            out.append(&mut copy.insts);
        }
        if found.breaks {
            out = wrap(out);
        } else if !found.continues {
            // Nothing takes the loop's place: exits that go further out cross one loop less.
            let mut block = Block { insts: out };
            control::lower(&mut block, 0);
            out = block.insts;
        }
        Some(out)
    }

    /// The position of the test in the body, and how often it lets the body run.
    fn trips(&self, before: &[Inst], body: &Block, latch: &Block) -> Option<(usize, usize)> {
        let header = body
            .insts
            .iter()
            .position(|inst| inst.op.is_structured() || inst.op.is_terminator())?;
        let Op::If {
            condition,
            then,
            otherwise,
        } = &body.insts[header].op
        else {
            return None;
        };
        let leaves = |block: &Block| matches!(block.insts.as_slice(), [inst] if inst.op == Op::Break(0));
        let leaves_if = match (leaves(then), leaves(otherwise)) {
            (true, false) if otherwise.insts.is_empty() => true,
            (false, true) if then.insts.is_empty() => false,
            _ => return None,
        };
        let definition = |value: ValueId| {
            body.insts[..header]
                .iter()
                .find(|inst| inst.count > 0 && inst.first == value)
                .map(|inst| &inst.op)
        };
        let (condition, leaves_if) = match definition(*condition)? {
            Op::Unary {
                op: UnaryOp::Not,
                operand,
                ..
            } => (definition(*operand)?, !leaves_if),
            other => (other, leaves_if),
        };
        let Op::Compare { op, lhs, rhs } = condition else {
            return None;
        };
        let (counter, bound, swapped) = match (definition(*lhs), definition(*rhs)) {
            (Some(Op::LocalGet(local)), _) => (*local, *self.constants.get(rhs)?, false),
            (_, Some(Op::LocalGet(local))) => (*local, *self.constants.get(lhs)?, true),
            _ => return None,
        };
        let step = self.step(latch, counter)?;
        let mut sets = false;
        body.for_each_inst(&mut |inst| {
            sets |= matches!(&inst.op, Op::LocalSet { local, .. } if *local == counter);
        });
        if sets {
            return None;
        }
        let mut value = start(before, counter, &self.constants)?;
        for trips in 0..=MAX_TRIPS {
            let (a, b) = if swapped { (bound, value) } else { (value, bound) };
            if fold::compare(*op, a, b)? == leaves_if {
                return Some((header, trips));
            }
            value = fold::binary(BinaryOp::Add, value, step)?;
        }
        None
    }

    /// What the latch adds to a counter, if that is a constant and nothing else sets it there.
    fn step(&self, latch: &Block, counter: LocalId) -> Option<Const> {
        let mut sets = Vec::new();
        for inst in &latch.insts {
            match &inst.op {
                Op::LocalSet { local, value } if *local == counter => sets.push(*value),
                op if op.is_structured() || op.is_terminator() => return None,
                _ => {}
            }
        }
        let [set] = sets[..] else {
            return None;
        };
        let definition = |value: ValueId| {
            latch
                .insts
                .iter()
                .find(|inst| inst.count > 0 && inst.first == value)
                .map(|inst| &inst.op)
        };
        let Op::Binary {
            op: BinaryOp::Add,
            lhs,
            rhs,
            ..
        } = definition(set)?
        else {
            return None;
        };
        let gets = |value: ValueId| matches!(definition(value), Some(Op::LocalGet(local)) if *local == counter);
        if gets(*lhs) {
            self.constants.get(rhs).copied()
        } else if gets(*rhs) {
            self.constants.get(lhs).copied()
        } else {
            None
        }
    }

    fn contents(&self, body: &Block, latch: &Block) -> Option<Contents> {
        let mut found = Contents::default();
        for block in [body, latch] {
            block.for_each_inst(&mut |inst| {
                found.size += 1;
                match &inst.op {
                    Op::Load { pointer, .. } | Op::Store { pointer, .. } => {
                        found.private_memory |= self.kernel.ty(*pointer) == Type::Pointer(AddressSpace::Thread);
                    }
                    Op::CoopGet { .. } | Op::CoopSet { .. } => found.cooperative = true,
                    _ => {}
                }
            });
        }
        exits(body, 0, &mut found);
        // The test itself.
        found.tests -= 1;
        found.breaks = found.tests > 0;
        Some(found)
    }

    /// A copy with new values; `names` maps old to new.
    fn copy(&mut self, block: &Block, names: &mut HashMap<ValueId, ValueId>) -> Block {
        let mut out = Block::default();
        for inst in &block.insts {
            let mut copy = Inst {
                op: match &inst.op {
                    Op::If {
                        condition,
                        then,
                        otherwise,
                    } => Op::If {
                        condition: *condition,
                        then: self.copy(then, names),
                        otherwise: self.copy(otherwise, names),
                    },
                    Op::Loop { body, latch, unroll } => Op::Loop {
                        body: self.copy(body, names),
                        latch: self.copy(latch, names),
                        unroll: *unroll,
                    },
                    Op::Scope { body } => Op::Scope {
                        body: self.copy(body, names),
                    },
                    Op::CoopMap { over, body } => Op::CoopMap {
                        over: *over,
                        body: self.copy(body, names),
                    },
                    op => op.clone(),
                },
                first: ValueId(self.kernel.values.len() as u32),
                count: inst.count,
                location: inst.location,
            };
            copy.op.for_each_operand_mut(|value| {
                if let Some(new) = names.get(value) {
                    *value = *new;
                }
            });
            for (new, old) in (copy.first.0..).zip(inst.results()) {
                let info = self.kernel.values[old.index()];
                self.kernel.values.push(info);
                names.insert(old, ValueId(new));
                if let Op::Const(value) = copy.op {
                    self.constants.insert(ValueId(new), value);
                }
            }
            out.insts.push(copy);
        }
        out
    }
}

#[derive(Default)]
struct Contents {
    size: usize,
    /// Breaks of the loop, its test included.
    tests: usize,
    breaks: bool,
    continues: bool,
    private_memory: bool,
    cooperative: bool,
}

fn exits(block: &Block, depth: u32, found: &mut Contents) {
    for inst in &block.insts {
        match &inst.op {
            Op::Break(d) => found.tests += usize::from(*d == depth),
            Op::Continue(d) => found.continues |= *d == depth,
            Op::If { then, otherwise, .. } => {
                exits(then, depth, found);
                exits(otherwise, depth, found);
            }
            Op::Loop { body, latch, .. } => {
                exits(body, depth + 1, found);
                exits(latch, depth + 1, found);
            }
            Op::Scope { body } => exits(body, depth + 1, found),
            _ => {}
        }
    }
}

/// Turns `Continue` of the loop that a block was the body of into `Break` of the scope that takes its place; other exits
/// keep their depth where that scope stands for the loop.
fn continue_to_break(block: &mut Block, depth: u32) {
    for inst in &mut block.insts {
        match &mut inst.op {
            Op::Continue(d) if *d == depth => inst.op = Op::Break(depth),
            Op::If { then, otherwise, .. } => {
                continue_to_break(then, depth);
                continue_to_break(otherwise, depth);
            }
            Op::Loop { body, latch, .. } => {
                continue_to_break(body, depth + 1);
                continue_to_break(latch, depth + 1);
            }
            Op::Scope { body } => continue_to_break(body, depth + 1),
            _ => {}
        }
    }
}

/// The constant that a local is set to in front of a loop.
fn start(before: &[Inst], local: LocalId, constants: &HashMap<ValueId, Const>) -> Option<Const> {
    for inst in before.iter().rev() {
        match &inst.op {
            Op::LocalSet { local: set, value } if *set == local => {
                return constants.get(value).copied();
            }
            op if op.is_structured() => {
                let mut sets = false;
                for block in op.blocks().into_iter().flatten() {
                    block.for_each_inst(&mut |inst| {
                        sets |= matches!(&inst.op, Op::LocalSet { local: set, .. } if *set == local);
                    });
                }
                if sets {
                    return None;
                }
            }
            _ => {}
        }
    }
    None
}
