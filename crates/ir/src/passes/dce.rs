//! Removes what nothing needs: unused pure operations and reads, sets of locals that are not read afterwards, stores to
//! lane-private memory that is never read; and renumbers what is left.

use crate::kernel::{Block, Inst, Kernel};
use crate::op::Op;
use crate::passes::effects::{Effects, Root};
use crate::types::{AddressSpace, LocalId, MemoryId, ValueId};

/// Removes dead code.
pub fn run(kernel: &mut Kernel) {
    dead_stores(kernel);
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Liveness {
        used: vec![false; kernel.values.len()],
        heads: Vec::new(),
        targets: Vec::new(),
        words: kernel.locals.len().div_ceil(64),
        remove: false,
    };
    // The first walk marks, the second removes.
    for remove in [false, true] {
        pass.remove = remove;
        let mut live = vec![0; pass.words];
        pass.walk(&mut body, &mut live, &mut 0);
    }
    kernel.body = body;
}

/// A set of locals.
type Set = Vec<u64>;

fn contains(set: &Set, local: LocalId) -> bool {
    set[local.index() / 64] >> (local.index() % 64) & 1 != 0
}

fn insert(set: &mut Set, local: LocalId, present: bool) {
    let bit = 1 << (local.index() % 64);
    if present {
        set[local.index() / 64] |= bit;
    } else {
        set[local.index() / 64] &= !bit;
    }
}

/// Adds; true if that changed the set.
fn union(set: &mut Set, other: &Set) -> bool {
    let mut changed = false;
    for (word, more) in set.iter_mut().zip(other) {
        changed |= *more & !*word != 0;
        *word |= more;
    }
    changed
}

/// A loop or scope around the current point: what is live where its exits go.
struct Target {
    at_break: Set,
    at_continue: Set,
}

struct Liveness {
    used: Vec<bool>,
    /// What is live at the head of each loop, found so far; by the number of the loop.
    heads: Vec<Option<Set>>,
    targets: Vec<Target>,
    words: usize,
    remove: bool,
}

impl Liveness {
    /// Walks a block backward. `live` is what is live at its end, then at its start. `loops` numbers the loops in the
    /// order of the walk.
    fn walk(&mut self, block: &mut Block, live: &mut Set, loops: &mut usize) {
        let mut at = block.insts.len();
        let mut kept = Vec::new();
        while at > 0 {
            at -= 1;
            let keep = self.inst(&mut block.insts[at], live, loops);
            if self.remove && !keep {
                kept.push(at);
            }
        }
        if !kept.is_empty() {
            // `kept` lists what goes, last first.
            let mut index = 0;
            block.insts.retain(|_| {
                let goes = kept.last() == Some(&index);
                if goes {
                    kept.pop();
                }
                index += 1;
                !goes
            });
        }
    }

    fn inst(&mut self, inst: &mut Inst, live: &mut Set, loops: &mut usize) -> bool {
        let used = inst.results().any(|value| self.used[value.index()]);
        match &mut inst.op {
            Op::LocalGet(local) => {
                if used {
                    insert(live, *local, true);
                }
                return used;
            }
            Op::LocalSet { local, value } => {
                if !contains(live, *local) {
                    return false;
                }
                insert(live, *local, false);
                self.used[value.index()] = true;
                return true;
            }
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                let mut other = live.clone();
                // The order of the numbering must be the same in all walks.
                self.walk(otherwise, &mut other, loops);
                self.walk(then, live, loops);
                union(live, &other);
                if then.insts.is_empty() && otherwise.insts.is_empty() {
                    return false;
                }
                self.used[condition.index()] = true;
                return true;
            }
            Op::Loop { body, latch, .. } => {
                let number = *loops;
                let after = live.clone();
                let mut head = self
                    .heads
                    .get(number)
                    .cloned()
                    .flatten()
                    .unwrap_or_else(|| vec![0; self.words]);
                loop {
                    let mut inner = number + 1;
                    let mut at = head.clone();
                    self.targets.push(Target {
                        at_break: after.clone(),
                        at_continue: vec![0; self.words],
                    });
                    self.walk(latch, &mut at, &mut inner);
                    if let Some(target) = self.targets.last_mut() {
                        target.at_continue.clone_from(&at);
                    }
                    self.walk(body, &mut at, &mut inner);
                    self.targets.pop();
                    *loops = inner;
                    // The removing walk finds what the marking walks found.
                    if !union(&mut head, &at) {
                        *live = at;
                        break;
                    }
                }
                if self.heads.len() <= number {
                    self.heads.resize(number + 1, None);
                }
                self.heads[number] = Some(head);
                return true;
            }
            Op::Scope { body } => {
                self.targets.push(Target {
                    at_break: live.clone(),
                    at_continue: vec![0; self.words],
                });
                self.walk(body, live, loops);
                self.targets.pop();
                return !body.insts.is_empty();
            }
            Op::CoopMap { body, .. } => {
                // Locals of a map live within one element; what flows in is read in front of the map or uniform.
                let after = live.clone();
                self.walk(body, live, loops);
                union(live, &after);
                return !body.insts.is_empty();
            }
            Op::Break(depth) => {
                if let Some(at) = self.targets.len().checked_sub(*depth as usize + 1) {
                    live.clone_from(&self.targets[at].at_break);
                }
                return true;
            }
            Op::Continue(depth) => {
                if let Some(at) = self.targets.len().checked_sub(*depth as usize + 1) {
                    live.clone_from(&self.targets[at].at_continue);
                }
                return true;
            }
            Op::Return => {
                live.fill(0);
                return true;
            }
            op => {
                if !used && op.is_removable() {
                    return false;
                }
            }
        }
        let used = &mut self.used;
        inst.op.for_each_operand(|value| used[value.index()] = true);
        true
    }
}

/// Removes stores to lane-private objects that nothing reads.
fn dead_stores(kernel: &mut Kernel) {
    if !kernel.memory.iter().any(|object| object.space == AddressSpace::Thread) {
        return;
    }
    let effects = Effects::of(kernel);
    let dead: Vec<bool> = kernel
        .memory
        .iter()
        .zip(&effects.memory)
        .map(|(object, usage)| object.space == AddressSpace::Thread && !usage.read && !usage.escapes)
        .collect();
    if !dead.contains(&true) {
        return;
    }
    let goes = |pointer: ValueId| match effects.roots(pointer).only() {
        Some(Root::Memory(id)) => dead[id.index()],
        _ => false,
    };
    fn prune(block: &mut Block, goes: &impl Fn(ValueId) -> bool) {
        block.insts.retain_mut(|inst| {
            for inner in inst.op.blocks_mut().into_iter().flatten() {
                prune(inner, goes);
            }
            match &inst.op {
                Op::Store { pointer, .. } => !goes(*pointer),
                Op::TensorStore { tensor, .. } => !goes(tensor.pointer),
                _ => true,
            }
        });
    }
    prune(&mut kernel.body, &goes);
}

/// Renumbers values in order of definition, and drops locals, lane-private objects and constant tables that nothing uses.
pub fn compact(kernel: &mut Kernel) {
    let mut locals = vec![false; kernel.locals.len()];
    let mut memory: Vec<bool> = kernel
        .memory
        .iter()
        .map(|object| object.space == AddressSpace::Threadgroup)
        .collect();
    kernel.body.for_each_inst(&mut |inst| match &inst.op {
        Op::LocalGet(local) | Op::LocalSet { local, .. } => locals[local.index()] = true,
        Op::MemoryPointer(id) => memory[id.index()] = true,
        _ => {}
    });
    let numbers = |used: &[bool]| -> Vec<u32> {
        let mut next = 0;
        used.iter()
            .map(|used| {
                let number = next;
                next += u32::from(*used);
                number
            })
            .collect()
    };
    let (local_numbers, memory_numbers) = (numbers(&locals), numbers(&memory));
    let mut keep = locals.iter();
    kernel.locals.retain(|_| keep.next() == Some(&true));
    let mut keep = memory.iter();
    kernel.memory.retain(|_| keep.next() == Some(&true));
    let old = std::mem::take(&mut kernel.values);
    let mut values = Vec::with_capacity(old.len());
    let mut numbers = vec![ValueId(0); old.len()];
    kernel.body.for_each_inst_mut(&mut |inst| {
        inst.op.for_each_operand_mut(|value| *value = numbers[value.index()]);
        match &mut inst.op {
            Op::LocalGet(local) | Op::LocalSet { local, .. } => {
                *local = LocalId(local_numbers[local.index()]);
            }
            Op::MemoryPointer(id) => *id = MemoryId(memory_numbers[id.index()]),
            _ => {}
        }
        let first = ValueId(values.len() as u32);
        for value in inst.results() {
            numbers[value.index()] = ValueId(values.len() as u32);
            values.push(old[value.index()]);
        }
        inst.first = first;
    });
    kernel.values = values;
}
