//! Unrolls counting loops with constant bounds, where the source asks for it or where it lets lane-private arrays become
//! locals.

use std::collections::HashMap;

use crate::builder::fold;
use crate::kernel::{Block, Inst, Kernel};
use crate::op::{Const, Op, Unroll};
use crate::passes::control;
use crate::passes::copy::{self, Names};
use crate::passes::loops::{self, Test};
use crate::types::{AddressSpace, LocalId, Type, ValueId};

/// Most iterations that are unrolled.
const MAX_TRIPS: usize = 64;
/// Most instructions that a loop may grow to, if the source asks for it.
const MAX_ASKED: usize = 32768;
/// Most instructions otherwise.
const MAX_UNASKED: usize = 1024;

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
            let mut names = Names::new();
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

    /// The position of the test in the body, and how often it lets the body run: its counter is followed from a constant on, through
    /// whatever arithmetic the test and the latch do with it.
    fn trips(&self, before: &[Inst], body: &Block, latch: &Block) -> Option<(usize, usize)> {
        let test = Test::of(body)?;
        let header = &body.insts[..test.position];
        let counter = self
            .counter(header, test.lhs)
            .or_else(|| self.counter(header, test.rhs))?;
        let next = step(body, latch, counter)?;
        let mut value = start(before, counter, &self.constants)?;
        for trips in 0..=MAX_TRIPS {
            let lhs = self.evaluate(header, test.lhs, (counter, value))?;
            let rhs = self.evaluate(header, test.rhs, (counter, value))?;
            if fold::compare(test.op, lhs, rhs)? == test.leaves {
                return Some((test.position, trips));
            }
            value = self.evaluate(&latch.insts, next, (counter, value))?;
        }
        None
    }

    /// The local that a value is computed from.
    fn counter(&self, insts: &[Inst], value: ValueId) -> Option<LocalId> {
        match loops::defined(insts, value)? {
            Op::LocalGet(local) => Some(*local),
            Op::Convert { operand, .. } => self.counter(insts, *operand),
            Op::Binary { lhs, rhs, .. } => self.counter(insts, *lhs).or_else(|| self.counter(insts, *rhs)),
            _ => None,
        }
    }

    /// An integer that is computed from constants and a counter, when that has a value.
    fn evaluate(&self, insts: &[Inst], value: ValueId, counter: (LocalId, Const)) -> Option<Const> {
        if let Some(constant) = self.constants.get(&value) {
            return Some(*constant);
        }
        let of = |value: ValueId| {
            self.evaluate(insts, value, counter)
                .filter(|constant| constant.ty.is_integer())
        };
        match loops::defined(insts, value)? {
            Op::LocalGet(local) if *local == counter.0 => Some(counter.1),
            Op::Convert {
                operand,
                to,
                saturate: false,
            } => fold::convert(of(*operand)?, *to),
            Op::Binary { op, lhs, rhs, .. } => fold::binary(*op, of(*lhs)?, of(*rhs)?),
            _ => None,
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
    fn copy(&mut self, block: &Block, names: &mut Names) -> Block {
        let out = copy::block(self.kernel, block, names);
        out.for_each_inst(&mut |inst| {
            if let Op::Const(value) = inst.op {
                self.constants.insert(inst.first, value);
            }
        });
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

/// What a latch sets a counter to, if that is all that a loop does to it.
fn step(body: &Block, latch: &Block, counter: LocalId) -> Option<ValueId> {
    let structured = |inst: &Inst| inst.op.is_structured() || inst.op.is_terminator();
    if latch.insts.iter().any(structured) {
        return None;
    }
    let mut inside = false;
    body.for_each_inst(&mut |inst| {
        inside |= matches!(&inst.op, Op::LocalSet { local, .. } if *local == counter);
    });
    let mut sets = latch.insts.iter().filter_map(|inst| match inst.op {
        Op::LocalSet { local, value } if local == counter => Some(value),
        _ => None,
    });
    match (inside, sets.next(), sets.next()) {
        (false, Some(next), None) => Some(next),
        _ => None,
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
