//! Element-wise kernels: one hardware thread runs several consecutive threads of the grid.
//!
//! A kernel that only asks for its position in the grid, and has no way to meet other threads, does not see which hardware thread runs
//! it. If its code is a straight line (behind a bound check at most), a hardware thread runs 2^s neighbours in `x` side by side, and their
//! loads and stores of neighbouring elements become vectors of up to 16 bytes. The launch says s, or 0; threads that are left at the grid's end, and
//! arrays that are not aligned, take the plain code, one thread after another.

use std::collections::{HashMap, HashSet};

use anymetal_ir::passes::Effects;
use anymetal_ir::{AddressSpace, Builtin, Const, Inst, Kernel, Op, Scalar, Type, ValueId};

use super::memory::AddressForms;
use super::{Lower, Result};
use crate::abi;
use crate::prepare::growth;
use crate::ptx::{Class, Reg};
use crate::{emit, ptx};

/// Bytes that a hardware thread should move with each access.
const BYTES: u32 = 16;
/// Most threads in one.
const MAX_STEPS: u32 = 8;
/// Most instructions of all of them together.
const MAX_SIZE: u32 = 2048;

/// How a kernel is run by fewer hardware threads.
pub(crate) struct Coarse<'k> {
    /// Logarithm of the threads in one.
    pub shift: u32,
    /// The code, a straight line.
    insts: Vec<&'k Inst>,
    /// How many of them stand before the bound check; the check's condition, and what lets a thread go on.
    guard: Option<(usize, ValueId, bool)>,
    /// Positions of the accesses that become vectors.
    merged: HashSet<usize>,
    /// Values that do not depend on `x`.
    invariant: HashSet<ValueId>,
}

/// What [`Lower`] knows of the values of one thread.
#[derive(Default)]
struct PerThread {
    values: Vec<Option<Reg>>,
    constants: Vec<Option<Const>>,
    forms: AddressForms,
}

/// Instructions in order, and where a guard ends lanes: its place, its condition, and what the condition is then.
type Straight<'k> = (Vec<&'k Inst>, Option<(usize, ValueId, bool)>);

/// The straight line, and the bound check in it.
fn straight(kernel: &Kernel) -> Option<Straight<'_>> {
    let mut insts = Vec::new();
    let mut guard = None;
    let all = &kernel.body.insts;
    for (at, inst) in all.iter().enumerate() {
        let last = at + 1 == all.len();
        match &inst.op {
            Op::If {
                condition,
                then,
                otherwise,
            } if guard.is_none() => {
                let returns =
                    |block: &anymetal_ir::Block| matches!(block.insts.as_slice(), [inst] if inst.op == Op::Return);
                if returns(then) && otherwise.insts.is_empty() {
                    guard = Some((insts.len(), *condition, false));
                } else if last && otherwise.insts.is_empty() {
                    guard = Some((insts.len(), *condition, true));
                    insts.extend(&then.insts);
                } else if last && then.insts.is_empty() {
                    guard = Some((insts.len(), *condition, false));
                    insts.extend(&otherwise.insts);
                } else {
                    return None;
                }
            }
            Op::Return if last => {}
            _ => insts.push(inst),
        }
    }
    Some((insts, guard))
}

/// Whether code with this operation may run beside copies of itself.
fn allowed(kernel: &Kernel, op: &Op) -> bool {
    match op {
        Op::Builtin(builtin) => matches!(
            builtin,
            Builtin::ThreadPositionInGrid(_) | Builtin::ThreadsPerGrid(_) | Builtin::ThreadsPerSimdgroup
        ),
        Op::Load { pointer, .. } | Op::Store { pointer, .. } => matches!(
            kernel.ty(*pointer),
            Type::Pointer(AddressSpace::Device | AddressSpace::Constant)
        ),
        Op::CoopValid { .. }
        | Op::CoopIndex { .. }
        | Op::CoopMapSlot { .. }
        | Op::CoopCompatible { .. }
        | Op::CoopIteratorCompatible { .. }
        | Op::CoopElementIndex
        | Op::ArgumentTensor(_)
        | Op::TensorElementPointer { .. } => false,
        op => op.is_pure(),
    }
}

/// Bytes of an access.
fn bytes_of(kernel: &Kernel, op: &Op) -> Option<(ValueId, u32)> {
    match op {
        Op::Load {
            pointer,
            ty: Type::Scalar(ty),
            count,
            ..
        } => Some((*pointer, ty.size() * count)),
        Op::Store { pointer, values, .. } => match kernel.ty(*values.first()?) {
            Type::Scalar(ty) => Some((*pointer, ty.size() * values.len() as u32)),
            Type::Pointer(_) => None,
        },
        _ => None,
    }
}

/// How a kernel can be run by fewer hardware threads, if it can.
pub(crate) fn plan<'k>(kernel: &'k Kernel, effects: &Effects, unaliased: bool) -> Option<Coarse<'k>> {
    let (insts, guard) = straight(kernel)?;
    if !insts.iter().all(|inst| allowed(kernel, &inst.op)) {
        return None;
    }
    let is_position = |op: &Op| matches!(op, Op::Builtin(Builtin::ThreadPositionInGrid(0)));
    let growth = growth(kernel, effects, unaliased, &insts, &HashMap::new(), &is_position);
    let before = guard.map_or(0, |(at, ..)| at);
    let invariant: HashSet<ValueId> = growth
        .iter()
        .filter(|(_, by)| **by == 0)
        .map(|(value, _)| *value)
        .collect();
    // All threads run what stands before the check, those past the grid too: nothing there may touch memory of their own.
    let clean = insts[..before].iter().all(|inst| match inst.op {
        Op::Store { .. } => false,
        Op::Load { .. } => inst.results().all(|value| invariant.contains(&value)),
        _ => true,
    });
    if !clean {
        return None;
    }
    let place: HashMap<ValueId, usize> = insts
        .iter()
        .enumerate()
        .flat_map(|(at, inst)| inst.results().map(move |value| (value, at)))
        .collect();
    let mut merged = HashSet::new();
    let mut smallest = BYTES;
    for (at, inst) in insts.iter().enumerate() {
        let Some((pointer, bytes)) = bytes_of(kernel, &inst.op) else {
            continue;
        };
        if growth.get(&pointer) == Some(&i64::from(bytes))
            && bytes.is_power_of_two()
            && bytes < BYTES
            && reaches(&insts, &place, before, pointer)
        {
            merged.insert(at);
            smallest = smallest.min(bytes);
        }
    }
    if merged.is_empty() {
        return None;
    }
    let most = MAX_SIZE / (insts.len() as u32).max(1);
    let steps = (BYTES / smallest).min(MAX_STEPS).min(most.max(1));
    let shift = steps.checked_ilog2()?;
    (shift > 0).then_some(Coarse {
        shift,
        insts,
        guard,
        merged,
        invariant,
    })
}

/// Whether an address can be had before the bound check: it takes no load from behind it.
fn reaches(insts: &[&Inst], place: &HashMap<ValueId, usize>, before: usize, value: ValueId) -> bool {
    let Some(&at) = place.get(&value) else { return false };
    let mut free = insts[at].op.is_pure() || at < before;
    insts[at]
        .op
        .for_each_operand(|value| free = free && reaches(insts, place, before, value));
    free
}

impl<'k> Lower<'k> {
    /// The body of a kernel that fewer hardware threads may run.
    pub(super) fn coarse_body(&mut self, plan: &Coarse<'k>) -> Result {
        let steps = 1usize << plan.shift;
        let shift = self.parameter(Class::B32, abi::COARSE_SHIFT);
        let grid = self.parameter(Class::B32, abi::GRID_THREADS);
        let own = self.hardware_position_x();
        let first = emit!(self, B32, "shl.b32", own, shift);
        let mut positions = vec![first];
        for step in 1..steps {
            positions.push(emit!(self, B32, "add.s32", first, step));
        }
        let plain = self.exchange(PerThread::default());
        let size = (plain.values.len(), plain.constants.len());
        let mut threads: Vec<PerThread> = (0..steps)
            .map(|_| PerThread {
                values: vec![None; size.0],
                constants: vec![None; size.1],
                forms: AddressForms::default(),
            })
            .collect();

        let coarse = emit!(self, Pred, "setp.eq.u32", shift, plan.shift);
        // All of its threads exist, and it exists itself.
        let whole = emit!(self, B32, "shr.u32", grid, shift);
        let mut fast = emit!(self, Pred, "setp.lt.and.u32", own, whole, coarse);
        let mut done = HashSet::new();
        let before = plan.guard.map_or(0, |(at, ..)| at);
        for at in 0..before {
            done.insert(at);
            self.in_all(plan, at, &mut threads, &positions)?;
        }
        if let Some((_, condition, goes_on)) = plan.guard {
            for thread in &mut threads {
                self.swap(thread);
                let p = self.value(condition);
                self.swap(thread);
                let p = if goes_on { p } else { emit!(self, Pred, "not.pred", p) };
                fast = emit!(self, Pred, "and.pred", fast, p);
            }
        }
        // The addresses of the first thread say whether vectors are aligned.
        let place: HashMap<ValueId, usize> = plan
            .insts
            .iter()
            .enumerate()
            .flat_map(|(at, inst)| inst.results().map(move |value| (value, at)))
            .collect();
        let mut accesses: Vec<usize> = plan.merged.iter().copied().collect();
        accesses.sort_unstable();
        let mut low = self.u32(0);
        for at in accesses {
            let Some((pointer, bytes)) = bytes_of(self.kernel, &plan.insts[at].op) else {
                continue;
            };
            self.address_of_first(plan, &place, pointer, &mut threads, &positions, &mut done)?;
            self.swap(&mut threads[0]);
            let address = self.address(pointer);
            let address = self.materialise(address);
            self.swap(&mut threads[0]);
            let bits = emit!(self, B32, "cvt.u32.u64", address);
            let bits = emit!(self, B32, "and.b32", bits, vector_bytes(bytes, steps) - 1);
            low = emit!(self, B32, "or.b32", low, bits);
        }
        fast = emit!(self, Pred, "setp.eq.and.b32", low, 0, fast);
        let slow = self.writer.label();
        ptx!(self, "@!{fast} bra {slow}");
        for at in before..plan.insts.len() {
            if plan.merged.contains(&at) {
                self.merged_access(plan.insts[at], &mut threads);
            } else {
                // Those that addresses needed have the first thread's values; the others' come now.
                self.in_all_but(plan, at, &mut threads, &positions, done.contains(&at))?;
            }
        }
        ptx!(self, "exit");

        self.writer.place(slow);
        let _ = self.exchange(plain);
        let last = emit!(self, B32, "shr.u32", emit!(self, B32, "sub.s32", grid, 1), shift);
        let dead = emit!(self, Pred, "setp.gt.u32", own, last);
        ptx!(self, "@{dead} exit");
        let room = emit!(self, B32, "sub.s32", grid, first);
        let one = self.u32(1);
        let count = emit!(self, B32, "shl.b32", one, shift);
        let count = emit!(self, B32, "min.u32", count, room);
        let step = self.u32(0);
        let (head, next) = (self.writer.label(), self.writer.label());
        self.writer.place(head);
        ptx!(self, ".pragma \"nounroll\"");
        let position = emit!(self, B32, "add.s32", first, step);
        self.set_position_x(Some(position));
        self.set_lane_end(next);
        let kernel: &'k Kernel = self.kernel;
        self.block(&kernel.body)?;
        self.writer.place(next);
        ptx!(self, "add.s32 {step}, {step}, 1");
        let more = emit!(self, Pred, "setp.lt.u32", step, count);
        ptx!(self, "@{more} bra {head}");
        Ok(())
    }

    fn exchange(&mut self, mut with: PerThread) -> PerThread {
        self.swap(&mut with);
        with
    }

    fn swap(&mut self, with: &mut PerThread) {
        std::mem::swap(&mut self.values, &mut with.values);
        std::mem::swap(&mut self.constants, &mut with.constants);
        std::mem::swap(&mut self.forms, &mut with.forms);
    }

    fn in_all(&mut self, plan: &Coarse<'k>, at: usize, threads: &mut [PerThread], positions: &[Reg]) -> Result {
        self.in_all_but(plan, at, threads, positions, false)
    }

    /// Lowers an instruction in all threads, or in all but the first; once if it is the same in all.
    fn in_all_but(
        &mut self,
        plan: &Coarse<'k>,
        at: usize,
        threads: &mut [PerThread],
        positions: &[Reg],
        first_is_done: bool,
    ) -> Result {
        let inst = plan.insts[at];
        let same = inst.count > 0 && inst.results().all(|value| plan.invariant.contains(&value));
        for (index, &position) in positions.iter().enumerate() {
            if index == 0 && first_is_done {
                continue;
            }
            if same && index > 0 {
                let (head, rest) = threads.split_at_mut(index);
                for value in inst.results() {
                    rest[0].values[value.index()] = head[0].values[value.index()];
                    rest[0].constants[value.index()] = head[0].constants[value.index()];
                    rest[0].forms.copy(&head[0].forms, value);
                }
                continue;
            }
            self.in_thread(inst, &mut threads[index], position)?;
        }
        Ok(())
    }

    fn in_thread(&mut self, inst: &'k Inst, thread: &mut PerThread, position: Reg) -> Result {
        self.swap(thread);
        self.set_position_x(Some(position));
        self.location = inst.location;
        let result = self.inst(inst);
        self.swap(thread);
        result
    }

    /// Lowers what an address is made of, in the first thread.
    fn address_of_first(
        &mut self,
        plan: &Coarse<'k>,
        place: &HashMap<ValueId, usize>,
        value: ValueId,
        threads: &mut [PerThread],
        positions: &[Reg],
        done: &mut HashSet<usize>,
    ) -> Result {
        let Some(&at) = place.get(&value) else { return Ok(()) };
        if !done.insert(at) {
            return Ok(());
        }
        let mut operands = Vec::new();
        plan.insts[at].op.for_each_operand(|value| operands.push(value));
        for operand in operands {
            self.address_of_first(plan, place, operand, threads, positions, done)?;
        }
        self.in_thread(plan.insts[at], &mut threads[0], positions[0])
    }

    /// One access for all threads, whose elements are neighbours.
    fn merged_access(&mut self, inst: &Inst, threads: &mut [PerThread]) {
        self.location = inst.location;
        let steps = threads.len();
        match &inst.op {
            Op::Load { pointer, ty, count, .. } => {
                let space = self.space_of(*pointer);
                let read_only = self.is_read_only(*pointer);
                let bytes = ty.scalar().map_or(8, Scalar::size) * count;
                self.swap(&mut threads[0]);
                let address = self.address(*pointer);
                self.swap(&mut threads[0]);
                let align = vector_bytes(bytes, steps);
                let values = self.load_from(space, address, *ty, count * steps as u32, align, read_only, None);
                for (thread, values) in threads.iter_mut().zip(values.chunks(*count as usize)) {
                    for (result, &reg) in inst.results().zip(values) {
                        thread.values[result.index()] = Some(reg);
                    }
                }
            }
            Op::Store { pointer, values, .. } => {
                let Some(&first) = values.first() else { return };
                let ty = self.kernel.ty(first);
                let space = self.space_of(*pointer);
                let bytes = ty.scalar().map_or(8, Scalar::size) * values.len() as u32;
                let mut regs = Vec::with_capacity(values.len() * steps);
                for thread in threads.iter_mut() {
                    self.swap(thread);
                    regs.extend(values.iter().map(|&value| self.value(value)));
                    self.swap(thread);
                }
                self.swap(&mut threads[0]);
                let address = self.address(*pointer);
                self.swap(&mut threads[0]);
                self.store_to(space, address, ty, &regs, vector_bytes(bytes, steps), None);
            }
            _ => {}
        }
    }
}

/// The alignment that the accesses of all threads together need: that of the widest vectors that they fill.
const fn vector_bytes(bytes: u32, steps: usize) -> u32 {
    let all = bytes * steps as u32;
    if all < BYTES { all } else { BYTES }
}
