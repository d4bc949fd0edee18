//! Loops that walk over memory take several steps at once, with their loads in front.
//!
//! `for (uint i = tid; i < count; i += threads)` has one load in flight in each thread, which is not enough to keep the memory
//! busy. The loop becomes two: one that takes several steps while all of them are inside the bound, and the old one for what is left. Order and
//! assignment of elements stay: only loads from memory that nothing writes move, in front of the steps' other work.

use std::collections::{HashMap, HashSet};

use anymetal_ir::passes::Effects;
use anymetal_ir::passes::loops::{self, Test};
use anymetal_ir::{
    AddressSpace, BinaryOp, Block, CompareOp, Const, Inst, Kernel, LocalId, LocationId, MathMode, Op, Scalar, Type,
    Unroll, ValueId,
};

use super::copy::{self, Names};
use super::rows::Rows;
use crate::PtxOptions;

/// Bytes that each thread should have in flight of one array.
const BYTES: u32 = 16;
/// Most steps at once.
const MAX_STEPS: usize = 8;
/// Most instructions that the steps may have together.
const MAX_SIZE: usize = 320;

/// Does it to all loops that qualify. Rows that threads can keep get their own versions.
/// The bytes that threads keep of a row, if they do.
pub(super) fn run(kernel: &mut Kernel, options: &PtxOptions) -> Option<u32> {
    let effects = Effects::of(kernel);
    let threads: Option<u32> = options.shape.map(|shape| shape.iter().product());
    let threads = threads.filter(|threads| threads.is_multiple_of(32) && options.unaliased);
    let rows = threads.is_some().then(|| Rows::of(kernel, &effects));
    let mut constants = HashMap::new();
    kernel.body.for_each_inst(&mut |inst| {
        if let Op::Const(value) = inst.op {
            constants.insert(inst.first, value);
        }
    });
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Pass {
        kernel,
        effects,
        constants,
        unaliased: options.unaliased,
        rows,
        threads,
        kept: None,
        next_control: 0,
    };
    pass.block(&mut body);
    let kept = pass.kept;
    kernel.body = body;
    kept
}

pub(super) struct Pass<'a> {
    pub kernel: &'a mut Kernel,
    pub effects: Effects,
    pub constants: HashMap<ValueId, Const>,
    pub unaliased: bool,
    /// Where whole SIMD-groups may share out the elements of a row anew.
    pub rows: Option<Rows>,
    /// Threads of every threadgroup, as long as rows may be kept.
    pub threads: Option<u32>,
    /// Bytes that a thread keeps of its row.
    kept: Option<u32>,
    /// Number of the next operation with blocks, as the uniformity analysis counts.
    next_control: usize,
}

/// A loop that counts.
pub(super) struct Counting {
    /// Position of the test in the body.
    pub test: usize,
    pub counter: LocalId,
    pub ty: Scalar,
    pub bound: ValueId,
    /// `i ≤ bound` goes on too.
    pub inclusive: bool,
    pub step: Step,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Known.
    Const(Const),
    /// A value from outside the loop.
    Value(ValueId),
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let versions = self.keep_rows(block, self.next_control);
        if let Some(versions) = &versions {
            self.kept = Some(versions.kept);
        }
        let insts = std::mem::take(&mut block.insts);
        let mut end = 0;
        for (index, mut inst) in insts.into_iter().enumerate() {
            if versions.as_ref().is_some_and(|versions| versions.at == index) {
                end = block.insts.len();
            }
            let control = self.next_control;
            self.next_control += usize::from(inst.op.is_structured());
            for inner in inst.op.blocks_mut().into_iter().flatten() {
                self.block(inner);
            }
            if let Some(main) = self.several_steps(&inst) {
                if let Some(vectors) = self.by_vectors(&block.insts, &inst, control) {
                    block.insts.extend(vectors);
                }
                block.insts.extend(main);
                if let Op::Loop { unroll, .. } = &mut inst.op {
                    // Few steps are left.
                    *unroll = Unroll::Never;
                }
            }
            block.insts.push(inst);
        }
        if let Some(versions) = versions {
            let own = block.insts.split_off(end);
            block.insts.extend(versions.before(own));
        }
    }

    /// The loop of several steps, and what it needs in front of it.
    fn several_steps(&mut self, inst: &Inst) -> Option<Vec<Inst>> {
        let Op::Loop { body, latch, unroll } = &inst.op else {
            return None;
        };
        if matches!(unroll, Unroll::Never | Unroll::Full) {
            return None;
        }
        let counting = self.counting(body, latch)?;
        let work = &body.insts[counting.test + 1..];
        let mut size = 0;
        if !work.iter().all(|inst| allowed(&inst.op, counting.counter, &mut size)) {
            return None;
        }
        let bytes = self.smallest_load(work)?;
        let steps = ((BYTES / bytes.max(1)) as usize)
            .clamp(2, MAX_STEPS)
            .min(MAX_SIZE / (size + counting.test).max(1));
        if steps < 2 {
            return None;
        }
        let at = inst.location;
        let mut out = Vec::new();
        let i64_type = Type::Scalar(Scalar::I64);
        let step = match counting.step {
            Step::Value(value) => value,
            Step::Const(c) => copy::emit(self.kernel, &mut out, at, Op::Const(c), Type::Scalar(c.ty)),
        };
        let wide_step = self.widen(&mut out, at, step);
        let wide_bound = self.widen(&mut out, at, counting.bound);
        let others = self.number(&mut out, at, (steps - 1) as u64);
        let span = self.binary(&mut out, at, BinaryOp::Mul, wide_step, others, i64_type);
        let zero = self.number(&mut out, at, 0);
        let forward = self.compare(&mut out, at, CompareOp::Gt, wide_step, zero);

        let mut main = Vec::new();
        let ty = Type::Scalar(counting.ty);
        let first = copy::emit(self.kernel, &mut main, at, Op::LocalGet(counting.counter), ty);
        let wide = self.widen(&mut main, at, first);
        let last = self.binary(&mut main, at, BinaryOp::Add, wide, span, i64_type);
        let op = if counting.inclusive {
            CompareOp::Le
        } else {
            CompareOp::Lt
        };
        let inside = self.compare(&mut main, at, op, last, wide_bound);
        let bool_type = Type::Scalar(Scalar::Bool);
        let inside = self.binary(&mut main, at, BinaryOp::And, inside, forward, bool_type);
        main.push(copy::plain(
            at,
            Op::If {
                condition: inside,
                then: Block::default(),
                otherwise: Block {
                    insts: vec![copy::plain(at, Op::Break(0))],
                },
            },
        ));
        // No step before the bound wraps around, so addresses may be made from the wide counter plus a number.
        let mut wides = vec![wide];
        for index in 1..steps {
            let by = match counting.step {
                Step::Const(c) => self.number(&mut main, at, (index as u64).wrapping_mul(c.bits)),
                Step::Value(_) => {
                    let times = self.number(&mut out, at, index as u64);
                    self.binary(&mut out, at, BinaryOp::Mul, wide_step, times, i64_type)
                }
            };
            wides.push(self.binary(&mut main, at, BinaryOp::Add, wide, by, i64_type));
        }
        let mut counters = vec![first];
        for _ in 1..steps {
            let before = counters[counters.len() - 1];
            counters.push(self.binary(&mut main, at, BinaryOp::Add, before, step, ty));
        }
        // What a step does before its test is free of effects.
        let all: Vec<&Inst> = body.insts[..counting.test].iter().chain(work).collect();
        let early = self.early(&all, counting.counter);
        let gets: HashSet<ValueId> = all
            .iter()
            .filter(|inst| inst.op == Op::LocalGet(counting.counter))
            .map(|inst| inst.first)
            .collect();
        let extends: HashSet<ValueId> = all
            .iter()
            .filter(|inst| matches!(&inst.op, Op::Convert { operand, to: Scalar::I64, .. } if gets.contains(operand)))
            .map(|inst| inst.first)
            .collect();
        let mut names: Vec<Names> = vec![Names::new(); steps];
        for phase in [true, false] {
            for (names, (&counter, &wide)) in names.iter_mut().zip(counters.iter().zip(&wides)) {
                for (index, &inst) in all.iter().enumerate() {
                    if inst.op == Op::LocalGet(counting.counter) {
                        names.insert(inst.first, counter);
                    } else if extends.contains(&inst.first) && inst.count == 1 {
                        names.insert(inst.first, wide);
                    } else if early.contains(&index) == phase {
                        main.push(copy::inst(self.kernel, inst, names));
                    }
                }
            }
        }
        let last = counters[counters.len() - 1];
        main.push(copy::plain(
            at,
            Op::LocalSet {
                local: counting.counter,
                value: last,
            },
        ));
        // Its reads of the counter see what the steps left there.
        let latch_copy = copy::block(self.kernel, latch, &mut Names::new());
        out.push(copy::plain(
            at,
            Op::Loop {
                body: Block { insts: main },
                latch: latch_copy,
                unroll: Unroll::Never,
            },
        ));
        Some(out)
    }

    pub fn number(&mut self, out: &mut Vec<Inst>, at: LocationId, number: u64) -> ValueId {
        let c = Const {
            ty: Scalar::I64,
            bits: number,
        };
        copy::emit(self.kernel, out, at, Op::Const(c), Type::Scalar(Scalar::I64))
    }

    pub fn binary(
        &mut self,
        out: &mut Vec<Inst>,
        at: LocationId,
        op: BinaryOp,
        lhs: ValueId,
        rhs: ValueId,
        ty: Type,
    ) -> ValueId {
        let mode = MathMode::Precise;
        copy::emit(self.kernel, out, at, Op::Binary { op, lhs, rhs, mode }, ty)
    }

    pub fn compare(
        &mut self,
        out: &mut Vec<Inst>,
        at: LocationId,
        op: CompareOp,
        lhs: ValueId,
        rhs: ValueId,
    ) -> ValueId {
        let op = Op::Compare { op, lhs, rhs };
        copy::emit(self.kernel, out, at, op, Type::Scalar(Scalar::Bool))
    }

    /// An integer as `i64`.
    pub fn widen(&mut self, out: &mut Vec<Inst>, at: LocationId, value: ValueId) -> ValueId {
        let op = Op::Convert {
            operand: value,
            to: Scalar::I64,
            saturate: false,
        };
        copy::emit(self.kernel, out, at, op, Type::Scalar(Scalar::I64))
    }

    /// Recognises `while (i < bound) { …; i += step; }` with integers of up to 32 bits.
    pub fn counting(&self, body: &Block, latch: &Block) -> Option<Counting> {
        let Test {
            position: test,
            op,
            lhs,
            rhs,
            leaves,
        } = Test::of(body)?;
        let before = &body.insts[..test];
        if !before
            .iter()
            .all(|inst| inst.op.is_pure() || matches!(inst.op, Op::LocalGet(_)))
        {
            return None;
        }
        let definition = |value: ValueId| loops::defined(before, value);
        // As `i OP bound`.
        let (counter, bound, op) = match (definition(lhs), definition(rhs)) {
            (Some(Op::LocalGet(local)), None) => (*local, rhs, op),
            (None, Some(Op::LocalGet(local))) => (*local, lhs, swapped(op)),
            (Some(Op::LocalGet(local)), Some(Op::Const(_))) => (*local, rhs, op),
            _ => return None,
        };
        // A constant from inside the loop is not visible in front of it.
        if definition(bound).is_some() {
            return None;
        }
        let inclusive = match (op, leaves) {
            (CompareOp::Ge, true) | (CompareOp::Lt, false) => false,
            (CompareOp::Gt, true) | (CompareOp::Le, false) => true,
            _ => return None,
        };
        let ty = self.kernel.local(counter).ty.scalar()?;
        if !ty.is_integer() || ty.bits() != 32 {
            return None;
        }
        let step = self.step(latch, counter)?;
        Some(Counting {
            test,
            counter,
            ty,
            bound,
            inclusive,
            step,
        })
    }

    /// What the latch adds to the counter, if that is all that it does.
    fn step(&self, latch: &Block, counter: LocalId) -> Option<Step> {
        let only = latch.insts.iter().all(|inst| match &inst.op {
            Op::LocalSet { local, .. } => *local == counter,
            Op::LocalGet(_) => true,
            op => op.is_pure(),
        });
        if !only {
            return None;
        }
        let step = loops::added(latch, counter)?;
        match (self.constants.get(&step), loops::defined(&latch.insts, step)) {
            (Some(&c), _) => Some(Step::Const(c)),
            (None, None) => Some(Step::Value(step)),
            _ => None,
        }
    }

    /// Bytes of the smallest load from device or constant memory; `None` if there is none.
    fn smallest_load(&self, work: &[Inst]) -> Option<u32> {
        let mut smallest: Option<u32> = None;
        let mut look = |inst: &Inst| {
            if let Op::Load {
                pointer,
                ty: Type::Scalar(ty),
                count,
                ..
            } = &inst.op
                && matches!(
                    self.kernel.ty(*pointer),
                    Type::Pointer(AddressSpace::Device | AddressSpace::Constant)
                )
            {
                let bytes = ty.size() * count;
                smallest = Some(smallest.map_or(bytes, |other| other.min(bytes)));
            }
        };
        for inst in work {
            look(inst);
            for block in inst.op.blocks().into_iter().flatten() {
                block.for_each_inst(&mut look);
            }
        }
        smallest
    }

    /// The positions of what goes in front: loads from memory that nothing writes, and what their addresses are made of.
    fn early(&self, all: &[&Inst], counter: LocalId) -> HashSet<usize> {
        let place: HashMap<ValueId, usize> = all
            .iter()
            .enumerate()
            .flat_map(|(index, inst)| inst.results().map(move |value| (value, index)))
            .collect();
        let mut movable = HashSet::new();
        for (index, inst) in all.iter().enumerate() {
            let reads = match &inst.op {
                Op::Load { pointer, .. } => self.unaliased && self.effects.reads_constant_memory(self.kernel, *pointer),
                Op::LocalGet(local) => *local == counter,
                op => op.is_pure(),
            };
            let mut free = reads;
            inst.op.for_each_operand(|value| {
                free &= place.get(&value).is_none_or(|index| movable.contains(index));
            });
            if free {
                movable.insert(index);
            }
        }
        let mut early = HashSet::new();
        let mut wanted: Vec<usize> = (0..all.len())
            .filter(|index| movable.contains(index) && matches!(all[*index].op, Op::Load { .. }))
            .collect();
        while let Some(index) = wanted.pop() {
            if early.insert(index) {
                all[index].op.for_each_operand(|value| wanted.extend(place.get(&value)));
            }
        }
        early
    }
}

/// The comparison with its sides exchanged.
const fn swapped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        other => other,
    }
}

/// Whether an operation of the body may be repeated: no way out, no meeting of lanes, no inner loop, and the counter is only read.
fn allowed(op: &Op, counter: LocalId, size: &mut usize) -> bool {
    *size += 1;
    match op {
        Op::LocalSet { local, .. } => *local != counter,
        Op::LocalGet(_) | Op::Load { .. } | Op::Store { .. } => true,
        Op::If { then, otherwise, .. } => [then, otherwise].into_iter().all(|block| {
            block
                .insts
                .iter()
                .all(|inst| inst.op != Op::LocalGet(counter) && allowed(&inst.op, counter, size))
        }),
        op => op.is_pure(),
    }
}
