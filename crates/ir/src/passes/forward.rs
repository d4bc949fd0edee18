//! One walk over a kernel, front to back, that replaces what is already known: constants are folded, equal pure operations
//! and repeated reads are merged (global value numbering along dominance), reads of locals get the value that was set,
//! branches on constants disappear, and small branches without effects become `select`.
//!
//! Reads of memory and of tiles are merged as long as nothing in between may write that address space (or tile). No
//! assumption is made about which arguments overlap.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::kernel::{Block, Inst, Kernel, ValueInfo};
use crate::location::LocationId;
use crate::op::{AtomicOp, BinaryOp, Const, MathMode, Op, UnaryOp};
use crate::passes::peephole::{Facts, Simplified, simplify};
use crate::tensor::Operand;
use crate::types::{AddressSpace, CoopId, LocalId, Scalar, Type, ValueId};

/// Rewrites a kernel.
pub fn run(kernel: &mut Kernel) {
    let body = std::mem::take(&mut kernel.body);
    let mut pass = Forward {
        replace: (0..kernel.values.len() as u32).map(ValueId).collect(),
        facts: Facts::default(),
        visible: vec![false; kernel.values.len()],
        table: HashMap::new(),
        log: Vec::new(),
        available: vec![None; kernel.locals.len()],
        epochs: vec![0; SPACES + kernel.cooperatives.len()],
        next_epoch: 1,
        in_map: false,
        assumed: Vec::new(),
        kernel,
    };
    let (body, _) = pass.block(body);
    kernel.body = body;
}

const SPACES: usize = 4;

/// Merged operations: what was computed, at which epoch of what it reads, and where the results are.
struct Known {
    op: Op,
    epoch: u32,
    first: ValueId,
}

struct Forward<'a> {
    kernel: &'a mut Kernel,
    replace: Vec<ValueId>,
    facts: Facts,
    visible: Vec<bool>,
    table: HashMap<u64, Vec<Known>>,
    /// Keys of the table in order of insertion, to forget them at the end of a block.
    log: Vec<u64>,
    /// The value of each local here, where it is known.
    available: Vec<Option<ValueId>>,
    /// By address space and tile: a number that changes when something may have written there.
    epochs: Vec<u32>,
    next_epoch: u32,
    in_map: bool,
    /// Conditions that are known in the rest of the blocks that are open.
    assumed: Vec<ValueId>,
}

/// What a nested block may change.
#[derive(Default)]
struct Changes {
    locals: Vec<LocalId>,
    resources: Vec<usize>,
}

/// The address spaces and tiles that an operation writes (or at whose contents other lanes may have worked).
fn writes(op: &Op, f: &mut impl FnMut(usize)) {
    let device = AddressSpace::Device as usize;
    let threadgroup = AddressSpace::Threadgroup as usize;
    match op {
        Op::TensorStore { tensor, .. } | Op::CoopStore { tensor, .. } => f(tensor.space as usize),
        Op::Matmul {
            destination: Operand::Tensor(tensor),
            ..
        }
        | Op::Convolution {
            destination: Operand::Tensor(tensor),
            ..
        } => f(tensor.space as usize),
        Op::Barrier { .. } | Op::Fence(_) => {
            f(device);
            f(threadgroup);
        }
        _ => {}
    }
    for (coop, written) in op.cooperatives() {
        if written {
            f(SPACES + coop.index());
        }
    }
}

impl Forward<'_> {
    /// The resources that an operation itself writes.
    fn written(&self, op: &Op, f: &mut impl FnMut(usize)) {
        match op {
            Op::Store { pointer, .. } => {
                if let Type::Pointer(space) = self.kernel.ty(*pointer) {
                    f(space as usize);
                }
            }
            Op::Atomic { op, pointer, .. } if *op != AtomicOp::Load => {
                if let Type::Pointer(space) = self.kernel.ty(*pointer) {
                    f(space as usize);
                }
            }
            op => writes(op, f),
        }
    }

    fn changes(&self, blocks: &[&Block]) -> Changes {
        let mut out = Changes::default();
        for block in blocks {
            block.for_each_inst(&mut |inst| {
                if let Op::LocalSet { local, .. } = &inst.op {
                    out.locals.push(*local);
                }
                self.written(&inst.op, &mut |resource| out.resources.push(resource));
            });
        }
        out
    }

    fn forget(&mut self, changes: &Changes) {
        for local in &changes.locals {
            self.available[local.index()] = None;
        }
        for &resource in &changes.resources {
            self.bump(resource);
        }
    }

    fn bump(&mut self, resource: usize) {
        self.epochs[resource] = self.next_epoch;
        self.next_epoch += 1;
    }

    /// Returns the block and whether control reaches its end.
    fn block(&mut self, block: Block) -> (Block, bool) {
        let mark = self.log.len();
        let assumed = self.assumed.len();
        let mut out = Vec::with_capacity(block.insts.len());
        let falls = self.insts(block.insts, &mut out);
        while self.log.len() > mark {
            if let Some(key) = self.log.pop()
                && let Some(list) = self.table.get_mut(&key)
            {
                list.pop();
            }
        }
        for condition in self.assumed.split_off(assumed) {
            self.assume(condition, None);
        }
        for value in out.iter().flat_map(Inst::results) {
            self.visible[value.index()] = false;
        }
        (Block { insts: out }, falls)
    }

    fn insts(&mut self, insts: Vec<Inst>, out: &mut Vec<Inst>) -> bool {
        for inst in insts {
            if !self.inst(inst, out) {
                return false;
            }
        }
        true
    }

    fn push(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        for value in inst.results() {
            self.visible[value.index()] = true;
            self.facts.note(value, &inst.op);
        }
        out.push(inst);
    }

    fn fresh(&mut self, ty: Type) -> ValueId {
        let value = ValueId(self.kernel.values.len() as u32);
        self.kernel.values.push(ValueInfo { ty });
        self.replace.push(value);
        self.visible.push(false);
        value
    }

    fn known(&self, local: LocalId) -> Option<ValueId> {
        self.available[local.index()].filter(|value| self.visible[value.index()])
    }

    /// Rewrites one instruction; false if control does not go on after it.
    fn inst(&mut self, mut inst: Inst, out: &mut Vec<Inst>) -> bool {
        let replace = &self.replace;
        inst.op.for_each_operand_mut(|value| *value = replace[value.index()]);
        match &inst.op {
            Op::If { .. } => return self.branch(inst, out),
            Op::Loop { .. } | Op::Scope { .. } | Op::CoopMap { .. } => {
                self.region(inst, out);
                return true;
            }
            Op::Break(_) | Op::Continue(_) | Op::Return => {
                out.push(inst);
                return false;
            }
            Op::LocalGet(local) => {
                let local = *local;
                if let Some(value) = self.known(local) {
                    self.replace[inst.first.index()] = value;
                } else {
                    self.available[local.index()] = Some(inst.first);
                    self.push(inst, out);
                }
            }
            Op::LocalSet { local, value } => {
                // Setting what is there already changes nothing.
                if self.known(*local) != Some(*value) {
                    self.available[local.index()] = Some(*value);
                    self.push(inst, out);
                }
            }
            op if op.is_pure() || matches!(op, Op::TensorQuery { .. }) => {
                self.pure(inst, out);
            }
            Op::Load { .. } | Op::TensorLoad { .. } | Op::CoopGet { .. } | Op::CoopElement(_) => {
                self.number(inst, out);
            }
            op => {
                let mut written = Vec::new();
                self.written(op, &mut |resource| written.push(resource));
                for resource in written {
                    self.bump(resource);
                }
                self.push(inst, out);
            }
        }
        true
    }

    /// Simplifies a pure operation as far as it goes, then numbers it.
    fn pure(&mut self, mut inst: Inst, out: &mut Vec<Inst>) {
        // The math mode means nothing for integers.
        if let Op::Unary { operand: of, mode, .. } | Op::Binary { lhs: of, mode, .. } | Op::Ternary { a: of, mode, .. } =
            &mut inst.op
            && !self.kernel.ty(*of).scalar().is_some_and(Scalar::is_float)
        {
            *mode = MathMode::Precise;
        }
        for _ in 0..16 {
            let kernel = &*self.kernel;
            match simplify(&inst.op, &self.facts, &|value| kernel.ty(value)) {
                Simplified::Same => break,
                Simplified::Value(value) => {
                    if self.visible[value.index()] {
                        self.replace[inst.first.index()] = value;
                        return;
                    }
                    break;
                }
                Simplified::Constant(value) => {
                    inst.op = Op::Const(value);
                    break;
                }
                Simplified::Op(op) => {
                    if !self.all_visible(&op) {
                        break;
                    }
                    inst.op = op;
                }
                Simplified::WithConstant(value, mut op) => {
                    if !self.all_visible(&op) {
                        break;
                    }
                    let constant = self.constant(value, inst.location, out);
                    match &mut op {
                        Op::Binary { rhs, .. } => *rhs = constant,
                        Op::PointerOffset { offset, .. } => *offset = constant,
                        _ => {}
                    }
                    inst.op = op;
                }
            }
        }
        self.number(inst, out);
    }

    fn all_visible(&self, op: &Op) -> bool {
        let mut visible = true;
        op.for_each_operand(|value| visible &= self.visible[value.index()]);
        visible
    }

    fn constant(&mut self, value: Const, location: LocationId, out: &mut Vec<Inst>) -> ValueId {
        let first = self.fresh(value.ty.into());
        let inst = Inst {
            op: Op::Const(value),
            first,
            count: 1,
            location,
        };
        self.number(inst, out);
        self.replace[first.index()]
    }

    /// The epoch of what an operation reads.
    fn epoch(&self, op: &Op) -> u32 {
        match op {
            Op::Load { pointer, .. } => match self.kernel.ty(*pointer) {
                Type::Pointer(space) => self.epochs[space as usize],
                Type::Scalar(_) => 0,
            },
            Op::TensorLoad { tensor, .. } => {
                let plane = tensor
                    .scales
                    .as_ref()
                    .map_or(0, |plane| self.epochs[plane.space as usize]);
                self.epochs[tensor.space as usize].max(plane)
            }
            Op::CoopGet { coop, .. } | Op::CoopElement(coop) => self.epochs[SPACES + coop.index()],
            _ => 0,
        }
    }

    /// Replaces an operation by an equal one that is known, or remembers it.
    fn number(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let epoch = self.epoch(&inst.op);
        // Reads of one place at many epochs would make one long list.
        let key = key(&inst.op) ^ u64::from(epoch).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let list = self.table.entry(key).or_default();
        if let Some(known) = list
            .iter()
            .rev()
            .find(|known| known.epoch == epoch && known.op == inst.op)
        {
            let first = known.first;
            for (i, value) in inst.results().enumerate() {
                self.replace[value.index()] = ValueId(first.0 + i as u32);
            }
            return;
        }
        list.push(Known {
            op: inst.op.clone(),
            epoch,
            first: inst.first,
        });
        self.log.push(key);
        self.push(inst, out);
    }

    fn branch(&mut self, inst: Inst, out: &mut Vec<Inst>) -> bool {
        let Inst {
            op: Op::If {
                condition,
                then,
                otherwise,
            },
            location,
            first,
            ..
        } = inst
        else {
            return true;
        };
        if let Some(c) = self.facts.constant(condition) {
            let chosen = if c.bits != 0 { then } else { otherwise };
            return self.insts(chosen.insts, out);
        }
        let before = (self.available.clone(), self.epochs.clone());
        // Inside the branches the condition is known.
        self.assume(condition, Some(true));
        let (then, then_falls) = self.block(then);
        let after_then = (
            std::mem::replace(&mut self.available, before.0.clone()),
            std::mem::replace(&mut self.epochs, before.1.clone()),
        );
        self.assume(condition, Some(false));
        let (otherwise, else_falls) = self.block(otherwise);
        self.assume(condition, None);
        if then.insts.is_empty() && otherwise.insts.is_empty() {
            (self.available, self.epochs) = before;
            return true;
        }
        if self.converts(&then) && self.converts(&otherwise) {
            (self.available, self.epochs) = before;
            self.convert(condition, then, otherwise, location, out);
            return true;
        }
        match (then_falls, else_falls) {
            (true, true) => {
                for (here, there) in self.available.iter_mut().zip(&after_then.0) {
                    if here != there {
                        *here = None;
                    }
                }
                for resource in 0..self.epochs.len() {
                    if self.epochs[resource] != after_then.1[resource] {
                        self.bump(resource);
                    }
                }
            }
            (true, false) => (self.available, self.epochs) = after_then,
            (false, _) => {}
        }
        let (mut then, mut otherwise, mut condition) = (then, otherwise, condition);
        let known = condition;
        let swapped = then.insts.is_empty();
        if swapped {
            std::mem::swap(&mut then, &mut otherwise);
            let inverted = self.fresh(Scalar::Bool.into());
            let op = Op::Unary {
                op: UnaryOp::Not,
                operand: condition,
                mode: MathMode::Precise,
            };
            let first = inverted;
            let inst = Inst {
                op,
                first,
                count: 1,
                location,
            };
            self.pure(inst, out);
            condition = self.replace[inverted.index()];
        }
        self.push(
            Inst {
                op: Op::If {
                    condition,
                    then,
                    otherwise,
                },
                first,
                count: 0,
                location,
            },
            out,
        );
        if then_falls != else_falls {
            // Only one branch gets to what follows.
            self.assume(known, Some(then_falls));
            self.assumed.push(known);
        }
        then_falls || else_falls
    }

    fn assume(&mut self, condition: ValueId, value: Option<bool>) {
        if let Some(slot) = self.facts.constants.get_mut(condition.index()) {
            *slot = value.map(|value| Const {
                ty: Scalar::Bool,
                bits: u64::from(value),
            });
        }
    }

    /// True if a branch is cheap and has no effect but on locals (in a map also on the element): worth running always.
    fn converts(&self, block: &Block) -> bool {
        let mut cost = 0;
        let mut elements = Vec::new();
        block.insts.iter().all(|inst| {
            cost += match &inst.op {
                Op::Const(_)
                | Op::LocalSet { .. }
                | Op::CoopElementSet { .. }
                | Op::MemoryPointer(_)
                | Op::ArgumentPointer(_)
                | Op::Builtin(_) => 0,
                Op::Binary { op, .. } => match op {
                    BinaryOp::Div | BinaryOp::Rem => 3,
                    BinaryOp::Pow | BinaryOp::Powr | BinaryOp::Fmod | BinaryOp::Atan2 => 6,
                    _ => 1,
                },
                Op::Unary {
                    op: UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs,
                    ..
                } => 1,
                Op::Unary { .. } => 4,
                Op::CoopElement(_) | Op::CoopElementIndex => 1,
                op if op.is_pure() => 1,
                Op::LocalGet(_) => 1,
                _ => 99,
            };
            let kind = match &inst.op {
                Op::LocalSet { local, .. } => self.kernel.local(*local).ty.scalar().is_some(),
                Op::CoopElementSet { coop, .. } => {
                    elements.push(*coop);
                    self.in_map
                }
                // Sets move to the end, so nothing may read what they wrote.
                Op::CoopElement(coop) => !elements.contains(coop),
                _ => true,
            };
            kind && cost <= 6
        })
    }

    /// Runs both branches and selects what they set.
    fn convert(
        &mut self,
        condition: ValueId,
        then: Block,
        otherwise: Block,
        location: LocationId,
        out: &mut Vec<Inst>,
    ) {
        #[derive(Clone, Copy, PartialEq)]
        enum Cell {
            Local(LocalId),
            Element(CoopId),
        }
        let mut cells: Vec<(Cell, [Option<ValueId>; 2])> = Vec::new();
        for (side, block) in [then, otherwise].into_iter().enumerate() {
            // What a branch reads of a local that it set was replaced by the value.
            for inst in block.insts {
                let (cell, value) = match &inst.op {
                    Op::LocalSet { local, value } => (Cell::Local(*local), *value),
                    Op::CoopElementSet { coop, value } => (Cell::Element(*coop), *value),
                    _ => {
                        self.push(inst, out);
                        continue;
                    }
                };
                match cells.iter_mut().find(|(other, _)| *other == cell) {
                    Some((_, values)) => values[side] = Some(value),
                    None => {
                        let mut values = [None; 2];
                        values[side] = Some(value);
                        cells.push((cell, values));
                    }
                }
            }
        }
        for (cell, values) in cells {
            let sides = values.map(|value| value.map(|value| self.replace[value.index()]));
            let current = if sides.contains(&None) {
                let (op, ty) = match cell {
                    Cell::Local(local) => (Op::LocalGet(local), self.kernel.local(local).ty),
                    Cell::Element(coop) => (Op::CoopElement(coop), self.kernel.coop(coop).element.into()),
                };
                let first = self.fresh(ty);
                self.inst(
                    Inst {
                        op,
                        first,
                        count: 1,
                        location,
                    },
                    out,
                );
                Some(self.replace[first.index()])
            } else {
                None
            };
            let (Some(then), Some(otherwise)) = (sides[0].or(current), sides[1].or(current)) else {
                continue;
            };
            let first = self.fresh(self.kernel.ty(then));
            let select = Op::Select {
                condition,
                then,
                otherwise,
            };
            self.pure(
                Inst {
                    op: select,
                    first,
                    count: 1,
                    location,
                },
                out,
            );
            let value = self.replace[first.index()];
            let set = match cell {
                Cell::Local(local) => Op::LocalSet { local, value },
                Cell::Element(coop) => Op::CoopElementSet { coop, value },
            };
            self.inst(
                Inst {
                    op: set,
                    first,
                    count: 0,
                    location,
                },
                out,
            );
        }
    }

    /// A loop, a scope or a map.
    fn region(&mut self, mut inst: Inst, out: &mut Vec<Inst>) {
        let blocks: Vec<&Block> = inst.op.blocks().into_iter().flatten().collect();
        let changes = self.changes(&blocks);
        match &mut inst.op {
            Op::Scope { body } => {
                (*body, _) = self.block(std::mem::take(body));
            }
            Op::Loop { body, latch, .. } => {
                self.forget(&changes);
                let at_head = self.available.clone();
                (*body, _) = self.block(std::mem::take(body));
                self.available.clone_from(&at_head);
                self.forget(&changes);
                (*latch, _) = self.block(std::mem::take(latch));
                self.available = at_head;
            }
            Op::CoopMap { body, .. } => {
                self.forget(&changes);
                let outer = std::mem::replace(&mut self.in_map, true);
                (*body, _) = self.block(std::mem::take(body));
                self.in_map = outer;
            }
            _ => {}
        }
        self.forget(&changes);
        self.push(inst, out);
    }
}

/// A hash of an operation; equal operations have equal hashes.
fn key(op: &Op) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(op).hash(&mut hasher);
    match op {
        Op::Const(value) => value.hash(&mut hasher),
        Op::Builtin(builtin) => builtin.hash(&mut hasher),
        Op::Unary { op, .. } => op.hash(&mut hasher),
        Op::Binary { op, .. } => op.hash(&mut hasher),
        Op::Ternary { op, .. } => op.hash(&mut hasher),
        Op::Compare { op, .. } => op.hash(&mut hasher),
        Op::Convert { to, .. } => to.hash(&mut hasher),
        Op::MemoryPointer(id) => id.hash(&mut hasher),
        Op::ArgumentPointer(id) | Op::ArgumentTensor(id) => id.hash(&mut hasher),
        Op::TensorQuery { field, .. } => field.hash(&mut hasher),
        Op::CoopElement(coop) | Op::CoopGet { coop, .. } => coop.hash(&mut hasher),
        _ => {}
    }
    op.for_each_operand(|value| value.hash(&mut hasher));
    hasher.finish()
}
