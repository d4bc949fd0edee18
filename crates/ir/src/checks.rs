//! Checks of a kernel that need no run: each finds a mistake that every execution, or every other device, would show.
//!
//! They look at the IR as the front end lowers it, since passes unroll loops and move code. What they follow is the
//! kernel's structure; a kernel whose good behaviour depends on values is left to the sanitizer's runs.

use std::collections::{HashMap, HashSet};

use crate::finding::{Finding, FindingCode, Spot};
use crate::kernel::{Block, Inst, Kernel};
use crate::op::{BinaryOp, Op, ReduceAxis, ReduceOp, UnaryOp};
use crate::passes::{Effects, Root, control, forward};
use crate::tensor::{Operand, TensorRef};
use crate::types::{CoopId, LocalId, ValueId};

/// Runs all checks on a kernel that the verifier accepts, before [`optimize`](crate::passes::optimize).
pub fn run(kernel: &Kernel) -> Vec<Finding> {
    // Conditions become values that can be followed; loops stay.
    let mut kernel = kernel.clone();
    for _ in 0..2 {
        control::simplify(&mut kernel);
        forward::run(&mut kernel);
    }
    let facts = Facts::of(&kernel);
    let mut findings = Vec::new();
    conversions(&facts, &kernel.body, &mut Vec::new(), &mut findings);
    overwrites(&facts, &kernel.body, &mut findings);
    identities(&facts, &mut findings);
    let mut seen = HashSet::new();
    // Code that was inlined twice is one mistake.
    findings.retain(|finding| seen.insert((finding.code, finding.spot.point().clone())));
    findings
}

/// Definitions and sets of a kernel.
struct Facts<'k> {
    kernel: &'k Kernel,
    definitions: HashMap<ValueId, &'k Op>,
    sets: HashMap<LocalId, Vec<ValueId>>,
    effects: Effects,
}

impl<'k> Facts<'k> {
    fn of(kernel: &'k Kernel) -> Self {
        let mut definitions = HashMap::new();
        let mut sets: HashMap<LocalId, Vec<ValueId>> = HashMap::new();
        kernel.body.for_each_inst(&mut |inst| {
            for result in inst.results() {
                definitions.insert(result, &inst.op);
            }
            if let Op::LocalSet { local, value } = &inst.op {
                sets.entry(*local).or_default().push(*value);
            }
        });
        Facts {
            kernel,
            definitions,
            sets,
            effects: Effects::of(kernel),
        }
    }

    /// The conversions that are known to be possible where `value` is `sense`; `None` if it never is.
    fn allowed(&self, value: ValueId, sense: bool, depth: u32) -> Option<Vec<(CoopId, CoopId)>> {
        if depth == 0 {
            return Some(Vec::new());
        }
        let both = |a: ValueId, b: ValueId| {
            let mut out = self.allowed(a, sense, depth - 1)?;
            out.extend(self.allowed(b, sense, depth - 1)?);
            Some(out)
        };
        // What holds on both ways; a way that is never taken says nothing.
        let either = |ways: Vec<Option<Vec<(CoopId, CoopId)>>>| {
            let mut ways = ways.into_iter().flatten();
            let mut out = ways.next()?;
            for way in ways {
                out.retain(|pair| way.contains(pair));
            }
            Some(out)
        };
        match self.definitions.get(&value) {
            Some(Op::CoopCompatible { to, from }) if sense => Some(vec![(*to, *from)]),
            Some(Op::Const(constant)) if (constant.bits != 0) != sense => None,
            Some(Op::Unary {
                op: UnaryOp::Not,
                operand,
                ..
            }) => self.allowed(*operand, !sense, depth - 1),
            Some(Op::Binary { op, lhs, rhs, .. }) => match (op, sense) {
                (BinaryOp::And, true) | (BinaryOp::Or, false) => both(*lhs, *rhs),
                (BinaryOp::And, false) | (BinaryOp::Or, true) => either(vec![
                    self.allowed(*lhs, sense, depth - 1),
                    self.allowed(*rhs, sense, depth - 1),
                ]),
                _ => Some(Vec::new()),
            },
            Some(Op::Select {
                condition,
                then,
                otherwise,
            }) => {
                let way = |side: ValueId, taken: bool| {
                    let mut out = self.allowed(*condition, taken, depth - 1)?;
                    out.extend(self.allowed(side, sense, depth - 1)?);
                    Some(out)
                };
                either(vec![way(*then, true), way(*otherwise, false)])
            }
            Some(Op::LocalGet(local)) => {
                let sets = self.sets.get(local).map_or(&[][..], Vec::as_slice);
                either(sets.iter().map(|&set| self.allowed(set, sense, depth - 1)).collect())
            }
            _ => Some(Vec::new()),
        }
    }

    /// Was the question asked for tiles of these types? Compatibility is a matter of layouts, not of variables.
    fn is_same_question(&self, (to, from): (CoopId, CoopId), asked: (CoopId, CoopId)) -> bool {
        let same = |a: CoopId, b: CoopId| {
            let (a, b) = (self.kernel.coop(a), self.kernel.coop(b));
            (a.role, a.element, a.rows, a.columns, a.simdgroups, a.layout)
                == (b.role, b.element, b.rows, b.columns, b.simdgroups, b.layout)
        };
        same(to, asked.0) && same(from, asked.1)
    }
}

/// How deep conditions are followed.
const DEPTH: u32 = 12;

/// True if control never goes on behind the block.
fn leaves(block: &Block) -> bool {
    block.insts.iter().any(|inst| match &inst.op {
        Op::If { then, otherwise, .. } => leaves(then) && leaves(otherwise),
        op => op.is_terminator(),
    })
}

/// S0401: a conversion that no compatibility query dominates.
fn conversions(facts: &Facts, block: &Block, known: &mut Vec<(CoopId, CoopId)>, out: &mut Vec<Finding>) {
    let outside = known.len();
    for inst in &block.insts {
        match &inst.op {
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                for (side, sense) in [(then, true), (otherwise, false)] {
                    let before = known.len();
                    known.extend(facts.allowed(*condition, sense, DEPTH).unwrap_or_default());
                    conversions(facts, side, known, out);
                    known.truncate(before);
                }
                // One side is all that comes here.
                for (side, sense) in [(otherwise, true), (then, false)] {
                    if leaves(side) {
                        known.extend(facts.allowed(*condition, sense, DEPTH).unwrap_or_default());
                    }
                }
            }
            Op::CoopConvert { to, from } => {
                if !known.iter().any(|&asked| facts.is_same_question((*to, *from), asked)) {
                    out.push(unchecked_conversion(facts.kernel, inst, *to, *from));
                }
            }
            op => {
                for nested in op.blocks().into_iter().flatten() {
                    conversions(facts, nested, known, out);
                }
            }
        }
    }
    known.truncate(outside);
}

fn unchecked_conversion(kernel: &Kernel, inst: &Inst, to: CoopId, from: CoopId) -> Finding {
    let (to, from) = (kernel.coop(to), kernel.coop(from));
    let side = match to.role {
        crate::tensor::CoopRole::Right => "right",
        _ => "left",
    };
    Finding {
        code: FindingCode::UncheckedConversion,
        kernel: kernel.name.clone(),
        message: format!("a destination is reused as a {side} input without asking whether the layouts are compatible"),
        spot: Spot::new(&kernel.locations, inst.location, format!("`{}` is converted here", from.name)),
        related: Vec::new(),
        notes: vec![
            "whether the layout of a destination suits an input depends on the device; where it does not, this is undefined"
                .to_string(),
        ],
        help: format!(
            "put it under `if (op.is_compatible_as_{side}_input<…>({}))`, and else store the tile to threadgroup memory and \
             load a fresh input from there",
            from.name
        ),
        count: 1,
    }
}

/// What a loop does with tiles and memory.
#[derive(Default)]
struct LoopUse {
    defined: HashSet<ValueId>,
    set: HashSet<LocalId>,
    /// Tiles that are read or constructed inside.
    read: HashSet<CoopId>,
    /// Objects that are read inside; `unknown` if that cannot be told.
    roots: HashSet<Root>,
    unknown: bool,
}

impl LoopUse {
    fn of(facts: &Facts, blocks: [&Block; 2]) -> Self {
        let mut used = LoopUse::default();
        for block in blocks {
            block.for_each_inst(&mut |inst| {
                used.defined.extend(inst.results());
                match &inst.op {
                    Op::LocalSet { local, .. } => {
                        used.set.insert(*local);
                    }
                    Op::CoopInit(coop) => {
                        used.read.insert(*coop);
                    }
                    Op::Load { pointer, .. } | Op::Atomic { pointer, .. } => used.reads(facts, *pointer),
                    Op::TensorLoad { tensor, .. } | Op::CoopLoad { tensor, .. } => used.reads(facts, tensor.pointer),
                    Op::Matmul {
                        descriptor,
                        left,
                        right,
                        destination,
                        ..
                    } => {
                        for (operand, reads) in [(left, true), (right, true), (destination, descriptor.accumulate)] {
                            match operand {
                                Operand::Tensor(tensor) if reads => used.reads(facts, tensor.pointer),
                                Operand::Coop(coop) if reads => {
                                    used.read.insert(*coop);
                                }
                                _ => {}
                            }
                        }
                    }
                    _ => {}
                }
                if !matches!(inst.op, Op::Matmul { .. }) {
                    let read = inst.op.cooperatives().into_iter().filter(|(_, written)| !written);
                    used.read.extend(read.map(|(coop, _)| coop));
                }
            });
        }
        used
    }

    fn reads(&mut self, facts: &Facts, pointer: ValueId) {
        let roots = facts.effects.roots(pointer);
        self.unknown |= roots.unknown;
        self.roots.extend(&roots.known);
    }

    /// True if a value is the same in every iteration.
    fn is_constant(&self, facts: &Facts, value: ValueId, depth: u32) -> bool {
        if !self.defined.contains(&value) {
            return true;
        }
        match facts.definitions.get(&value) {
            _ if depth == 0 => false,
            Some(Op::LocalGet(local)) => !self.set.contains(local),
            Some(op) if op.is_pure() || matches!(op, Op::TensorQuery { .. }) => {
                let mut same = true;
                op.for_each_operand(|operand| same &= self.is_constant(facts, operand, depth - 1));
                same
            }
            _ => false,
        }
    }

    fn is_one_place(&self, facts: &Facts, tensor: &TensorRef) -> bool {
        let mut same = true;
        tensor.for_each_value(&mut |value| same &= self.is_constant(facts, value, DEPTH));
        same
    }
}

/// S0404: a loop that runs a product in mode `multiply` into the same destination again and again, and looks at it only
/// after the last time.
fn overwrites(facts: &Facts, block: &Block, out: &mut Vec<Finding>) {
    for inst in &block.insts {
        if let Op::Loop { body, latch, .. } = &inst.op {
            let once = body
                .insts
                .last()
                .is_some_and(|last| matches!(last.op, Op::Break(_) | Op::Return));
            if !once {
                let used = LoopUse::of(facts, [body, latch]);
                overwrites_in(facts, body, &used, out);
            }
        }
        for nested in inst.op.blocks().into_iter().flatten() {
            overwrites(facts, nested, out);
        }
    }
}

/// The products of a loop's own body; those of loops inside belong to them.
fn overwrites_in(facts: &Facts, block: &Block, used: &LoopUse, out: &mut Vec<Finding>) {
    for inst in &block.insts {
        match &inst.op {
            Op::Matmul {
                descriptor,
                destination,
                ..
            } if !descriptor.accumulate => {
                let kernel = facts.kernel;
                let name = match destination {
                    Operand::Coop(coop) if !used.read.contains(coop) => kernel.coop(*coop).name.clone(),
                    Operand::Tensor(tensor) => {
                        let roots = facts.effects.roots(tensor.pointer);
                        let read = used.unknown || roots.unknown || roots.known.iter().any(|r| used.roots.contains(r));
                        if read || !used.is_one_place(facts, tensor) {
                            continue;
                        }
                        match roots.only() {
                            Some(Root::Argument(id)) => kernel.arguments[id.index()].name.clone(),
                            Some(Root::Memory(id)) => kernel.memory_object(id).name.clone(),
                            None => "the destination".to_string(),
                        }
                    }
                    Operand::Coop(_) => continue,
                };
                out.push(Finding {
                    code: FindingCode::OverwrittenProduct,
                    kernel: kernel.name.clone(),
                    message: format!(
                        "each iteration of the loop overwrites the product in `{name}`; only the last one is left"
                    ),
                    spot: Spot::new(&kernel.locations, inst.location, "runs in mode `multiply`"),
                    related: Vec::new(),
                    notes: vec![
                        "`matmul2d_descriptor::mode::multiply`, the default, ignores what the destination held before"
                            .to_string(),
                    ],
                    help: "to sum over K, set the destination to zero before the loop and give the descriptor \
                           `matmul2d_descriptor::mode::multiply_accumulate` as its last argument"
                        .to_string(),
                    count: 1,
                });
            }
            Op::Loop { .. } => {}
            op => {
                for nested in op.blocks().into_iter().flatten() {
                    overwrites_in(facts, nested, used, out);
                }
            }
        }
    }
}

/// S0403: a reduction by max or min that starts from zero. It may be meant; whoever knows the source decides.
fn identities(facts: &Facts, out: &mut Vec<Finding>) {
    facts.kernel.body.for_each_inst(&mut |inst| {
        let Op::CoopReduce {
            from,
            axis,
            op,
            identity,
            ..
        } = &inst.op
        else {
            return;
        };
        let zero = matches!(facts.definitions.get(identity), Some(Op::Const(constant)) if constant.bits == 0);
        let (name, bound, limit) = match op {
            ReduceOp::Max => ("max", "negative", "lowest()` or `-INFINITY"),
            ReduceOp::Min => ("min", "positive", "max()` or `INFINITY"),
            ReduceOp::Sum => return,
        };
        if !zero {
            return;
        }
        let what = match axis {
            ReduceAxis::Rows => "row",
            ReduceAxis::Columns => "column",
        };
        let kernel = facts.kernel;
        out.push(Finding {
            code: FindingCode::ReductionIdentity,
            kernel: kernel.name.clone(),
            message: format!("the {name} of each {what} starts from 0, so a {what} of {bound} elements gives 0"),
            spot: Spot::new(
                &kernel.locations,
                inst.location,
                format!("`{}` is reduced without an identity", kernel.coop(*from).name),
            ),
            related: Vec::new(),
            notes: vec!["the default identity is that of the sum, whatever the operation is (reference 6)".to_string()],
            help: format!("pass the identity as the fourth argument: `numeric_limits<T>::{limit}`"),
            count: 1,
        });
    });
}
