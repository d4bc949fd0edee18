//! Kernels that reduce: norms, softmax and plain reductions, with everything element-wise before and after in the same pass.
//!
//! A row is the elements that are reduced together. A *row kernel* gives each row to a SIMD-group, or to a whole threadgroup
//! when it is long; its elements stay in registers from the first reduction to the result. A *column kernel* gives each
//! lane a row of its own, for data whose rows do not lie in sequence.

use std::collections::HashMap;
use std::sync::Arc;

use anymetal::ir::{
    AddressSpace, BinaryOp, Builtin, CompareOp, GroupOp, GroupWidth, MemFlags, MemoryObject, Op, Scalar, Scope,
    ShuffleOp, Type, Unroll, ValueId,
};

use crate::bytecode::ElementType;
use crate::program::Reduction;

use super::affine::{Affine, merge};
use super::emit::{Emitter, Point, held};
use super::map_kernel::{Generated, lanes, split};
use super::node::Node;

/// A reduction of each row.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// `Mean` is not among them: it is a sum and a division.
    pub op: Reduction,
    /// Over the whole space; may use the rows of stages before.
    pub value: Arc<Node>,
}

/// What a kernel does for each row of a space whose first `outer` dimensions count rows.
#[derive(Clone, Debug)]
pub(crate) struct RowProgram {
    pub shape: Vec<usize>,
    pub outer: usize,
    pub stages: Vec<Stage>,
    /// One value for each element of the space, or for each row.
    pub result: Arc<Node>,
    pub by_element: bool,
    pub output: ElementType,
    /// Write the elements as terms of products too (see [`super::split_width`]).
    pub terms: bool,
}

/// Steps of a row that a lane keeps in registers.
const MAX_STEPS: usize = 16;
/// SIMD-groups of a threadgroup when each has its own row.
const ROWS: usize = 4;
/// Slices that a column kernel cuts a row into.
const SLICES: usize = 8;

impl RowProgram {
    /// The kernel; `None` when it cannot be one.
    pub fn kernel(&self) -> Option<Generated> {
        let nodes: Vec<&Arc<Node>> = self.stages.iter().map(|s| &s.value).chain([&self.result]).collect();
        let forms: Vec<Affine> = nodes.iter().flat_map(|n| n.forms()).collect();
        let (merged, outer) = merge(&self.shape, self.outer, &forms.iter().collect::<Vec<_>>());
        let again = |node: &Arc<Node>| node.reshaped(&self.shape, &merged);
        let program = Self {
            stages: self
                .stages
                .iter()
                .map(|s| {
                    Some(Stage {
                        op: s.op,
                        value: again(&s.value)?,
                    })
                })
                .collect::<Option<_>>()?,
            result: again(&self.result)?,
            shape: merged,
            outer,
            ..*self
        };
        if program.in_sequence() {
            program.by_row()
        } else {
            program.by_column()
        }
    }

    fn rows(&self) -> usize {
        self.shape[..self.outer].iter().product()
    }

    fn columns(&self) -> usize {
        self.shape[self.outer..].iter().product()
    }

    /// True when the elements of a row follow each other in memory, or when only a row kernel will do.
    fn in_sequence(&self) -> bool {
        if self.by_element || self.stages.len() != 1 {
            return true;
        }
        let (mut along, mut across) = (false, false);
        let forms = self.stages[0].value.forms();
        for form in &forms {
            along |= form.coefs.last().is_some_and(|&c| c == 1) && self.shape.len() > self.outer;
            across |= self.outer > 0 && form.coefs[self.outer - 1] == 1;
        }
        along && !across && self.columns() >= 8 && self.steps(32 * 32) <= MAX_STEPS
    }

    fn width(&self) -> u32 {
        let nodes: Vec<&Arc<Node>> = self.stages.iter().map(|s| &s.value).chain([&self.result]).collect();
        let inner = if self.shape.len() > self.outer {
            self.shape[self.shape.len() - 1]
        } else {
            1
        };
        lanes(inner, &nodes, self.output)
    }

    fn steps(&self, team: usize) -> usize {
        self.columns().div_ceil(team * self.width() as usize)
    }

    fn emitter(&self, name: &str) -> Option<Emitter> {
        let nodes: Vec<&Arc<Node>> = self.stages.iter().map(|s| &s.value).chain([&self.result]).collect();
        Emitter::new(name, &self.shape, &nodes, self.output)
    }

    fn by_row(&self) -> Option<Generated> {
        let (rows, columns) = (self.rows(), self.columns());
        let mut width = self.width();
        // A row shorter than a SIMD-group is better spread over its lanes.
        while width > 1 && columns < 32 * width as usize {
            width /= 2;
        }
        let steps = |team: usize| columns.div_ceil(team * width as usize);
        let groups = [1, 2, 4, 8, 16, 32].into_iter().find(|&g| {
            let fits = steps(32 * g) <= if g < 8 { MAX_STEPS / 2 } else { MAX_STEPS };
            fits || (g == 32 && steps(1024) <= MAX_STEPS)
        })?;
        let team = 32 * groups;
        let per_group = if groups == 1 { ROWS } else { 1 };
        let mut e = self.emitter("fused_rows")?;
        let index = e.index_type();
        e.prologue();
        let terms = if self.terms { Some(e.terms()?) } else { None };
        let builtin = |e: &mut Emitter, b: Builtin| {
            let value = e.b.emit(Op::Builtin(b), &[Scalar::U32.into()]);
            e.b.convert(value, index)
        };
        let group = builtin(&mut e, Builtin::ThreadgroupPositionInGrid(0));
        let simdgroup = builtin(&mut e, Builtin::SimdgroupIndexInThreadgroup);
        let simd_lane = builtin(&mut e, Builtin::ThreadIndexInSimdgroup);
        let (row, lane) = if groups == 1 {
            let many = e.int(per_group as i64);
            let first = e.bin(BinaryOp::Mul, group, many);
            let row = e.bin(BinaryOp::Add, first, simdgroup);
            // Past the end the last row is computed again.
            let last = e.int(rows as i64 - 1);
            (e.bin(BinaryOp::Min, row, last), simd_lane)
        } else {
            (group, builtin(&mut e, Builtin::ThreadIndexInThreadgroup))
        };
        let partial = (groups > 1).then(|| {
            e.b.memory(MemoryObject {
                name: "partial".into(),
                space: AddressSpace::Threadgroup,
                size: 8 * 32,
                align: 16,
                element_size: 8,
                data: Vec::new(),
            })
        });
        let outer = e.split_or_nothing(row, &self.shape[..self.outer]);
        // The places of this lane in the row.
        let steps = steps(team);
        let mut points = Vec::new();
        for k in 0..steps {
            let (base, by) = (e.int((k * team) as i64), e.int(i64::from(width)));
            let turn = e.bin(BinaryOp::Add, base, lane);
            let column = e.bin(BinaryOp::Mul, turn, by);
            let whole = (k + 1) * team * width as usize <= columns;
            let (column, valid) = if whole {
                (column, None)
            } else {
                let end = e.int(columns as i64);
                let valid = e.b.compare(CompareOp::Lt, column, end);
                let last = e.int((columns - width as usize) as i64);
                (e.bin(BinaryOp::Min, column, last), Some(valid))
            };
            let mut at = outer.clone();
            at.extend(e.split_or_nothing(column, &self.shape[self.outer..]));
            let point = Point {
                index: at,
                lanes: width,
            };
            points.push((point, column, valid));
        }
        let mut memos: Vec<HashMap<usize, Vec<ValueId>>> = vec![HashMap::new(); steps];
        for stage in &self.stages {
            let fold = Fold::new(stage.op, stage.value.element())?;
            let mut sums: Vec<ValueId> = Vec::new();
            for ((point, _, valid), memo) in points.iter().zip(&mut memos) {
                let values = e.with_memo(memo, |e| e.node(&stage.value, point))?;
                for (i, value) in values.into_iter().enumerate() {
                    let mut value = fold.widened(&mut e, value);
                    if let Some(valid) = valid {
                        let nothing = fold.identity(&mut e);
                        value = e.b.select(*valid, value, nothing);
                    }
                    match sums.get(i).copied() {
                        Some(sum) => sums[i] = fold.join(&mut e, sum, value),
                        None => sums.push(value),
                    }
                }
            }
            let mut sum = sums[0];
            for &other in &sums[1..] {
                sum = fold.join(&mut e, sum, other);
            }
            sum = fold.over_simdgroup(&mut e, sum);
            if let Some(partial) = partial {
                sum = fold.over_threadgroup(&mut e, sum, partial, simd_lane, simdgroup, groups);
            }
            let sum = fold.narrowed(&mut e, sum);
            e.rows.push(sum);
        }
        if self.by_element {
            let length = e.int(columns as i64);
            let start = e.bin(BinaryOp::Mul, row, length);
            for ((point, column, valid), memo) in points.iter().zip(&mut memos) {
                let values = e.with_memo(memo, |e| e.node(&self.result, point))?;
                let at = e.bin(BinaryOp::Add, start, *column);
                let write = |e: &mut Emitter| {
                    e.store(self.output, at, &values)?;
                    match terms {
                        Some(terms) => split(e, terms, columns, [row, *column], &values),
                        None => Some(()),
                    }
                };
                match valid {
                    None => write(&mut e)?,
                    Some(valid) => {
                        e.b.push_block();
                        write(&mut e)?;
                        let then = e.b.pop_block();
                        e.b.if_(*valid, then, Default::default());
                    }
                }
            }
        } else {
            self.store_row(&mut e, &outer, row, lane)?;
        }
        let (kernel, inputs, checks) = e.finish(team * per_group);
        Some(Generated {
            kernel,
            inputs,
            checks,
            grid: rows.div_ceil(per_group),
            groups: true,
            threadgroup: team * per_group,
        })
    }

    /// Lane 0 writes the row's value.
    fn store_row(&self, e: &mut Emitter, outer: &[ValueId], row: ValueId, lane: ValueId) -> Option<()> {
        let zero = e.int(0);
        let first = e.b.compare(CompareOp::Eq, lane, zero);
        e.b.push_block();
        e.forget();
        let mut at = outer.to_vec();
        at.resize(self.shape.len(), zero);
        let values = e.node(&self.result, &Point { index: at, lanes: 1 })?;
        e.store(self.output, row, &values)?;
        let then = e.b.pop_block();
        e.b.if_(first, then, Default::default());
        e.forget();
        Some(())
    }

    /// Each lane has a row; the SIMD-groups of a threadgroup take its columns in turn.
    fn by_column(&self) -> Option<Generated> {
        let [stage] = self.stages.as_slice() else {
            return None;
        };
        let (rows, columns) = (self.rows(), self.columns());
        let slices = SLICES.min(columns.div_ceil(4)).max(1);
        let mut e = self.emitter("fused_columns")?;
        let index = e.index_type();
        let fold = Fold::new(stage.op, stage.value.element())?;
        e.prologue();
        let builtin = |e: &mut Emitter, b: Builtin| {
            let value = e.b.emit(Op::Builtin(b), &[Scalar::U32.into()]);
            e.b.convert(value, index)
        };
        let group = builtin(&mut e, Builtin::ThreadgroupPositionInGrid(0));
        let slice = builtin(&mut e, Builtin::SimdgroupIndexInThreadgroup);
        let lane = builtin(&mut e, Builtin::ThreadIndexInSimdgroup);
        let many = e.int(32);
        let first = e.bin(BinaryOp::Mul, group, many);
        let row = e.bin(BinaryOp::Add, first, lane);
        let end = e.int(rows as i64);
        let inside = e.b.compare(CompareOp::Lt, row, end);
        let last = e.int(rows as i64 - 1);
        let row = e.bin(BinaryOp::Min, row, last);
        let outer = e.split_or_nothing(row, &self.shape[..self.outer]);

        const AT_ONCE: usize = 4;
        let sums: Vec<_> = (0..AT_ONCE).map(|i| e.b.local(format!("sum{i}"), fold.ty)).collect();
        for &sum in &sums {
            let nothing = fold.identity(&mut e);
            e.b.set(sum, nothing);
        }
        let turns = columns / (slices * AT_ONCE);
        let counter = e.b.local("turn", index);
        let take = |e: &mut Emitter, turn: ValueId, i: usize, check: bool| -> Option<()> {
            // Column ((turn · AT_ONCE) + i) · slices + slice.
            let (by, plus, all) = (e.int(AT_ONCE as i64), e.int(i as i64), e.int(slices as i64));
            let at = e.bin(BinaryOp::Mul, turn, by);
            let at = e.bin(BinaryOp::Add, at, plus);
            let at = e.bin(BinaryOp::Mul, at, all);
            let mut column = e.bin(BinaryOp::Add, at, slice);
            let mut valid = None;
            if check {
                let end = e.int(columns as i64);
                valid = Some(e.b.compare(CompareOp::Lt, column, end));
                let last = e.int(columns as i64 - 1);
                column = e.bin(BinaryOp::Min, column, last);
            }
            let mut index = outer.clone();
            index.extend(e.split_or_nothing(column, &self.shape[self.outer..]));
            e.forget();
            let value = e.node(&stage.value, &Point { index, lanes: 1 })?[0];
            e.forget();
            let mut value = fold.widened(e, value);
            if let Some(valid) = valid {
                let nothing = fold.identity(e);
                value = e.b.select(valid, value, nothing);
            }
            let before = e.b.get(sums[i]);
            let sum = fold.join(e, before, value);
            e.b.set(sums[i], sum);
            Some(())
        };
        if turns > 0 {
            let zero = e.int(0);
            e.b.set(counter, zero);
            e.b.push_block();
            let turn = e.b.get(counter);
            let end = e.int(turns as i64);
            let done = e.b.compare(CompareOp::Ge, turn, end);
            e.b.push_block();
            e.b.emit_void(Op::Break(0));
            let leave = e.b.pop_block();
            e.b.if_(done, leave, Default::default());
            for i in 0..AT_ONCE {
                take(&mut e, turn, i, false)?;
            }
            let body = e.b.pop_block();
            e.b.push_block();
            let turn = e.b.get(counter);
            let one = e.int(1);
            let next = e.bin(BinaryOp::Add, turn, one);
            e.b.set(counter, next);
            let latch = e.b.pop_block();
            e.b.loop_(body, latch, Unroll::Never);
        }
        let rest = columns - turns * slices * AT_ONCE;
        for i in 0..rest.div_ceil(slices) {
            let turn = e.int(turns as i64);
            take(&mut e, turn, i, true)?;
        }
        let mut sum = e.b.get(sums[0]);
        for &other in &sums[1..] {
            let other = e.b.get(other);
            sum = fold.join(&mut e, sum, other);
        }
        if slices > 1 {
            let partial = e.b.memory(MemoryObject {
                name: "partial".into(),
                space: AddressSpace::Threadgroup,
                size: 8 * 32 * slices as u64,
                align: 16,
                element_size: 8,
                data: Vec::new(),
            });
            let size = i64::from(fold.ty.size());
            let pointer =
                e.b.emit(Op::MemoryPointer(partial), &[Type::Pointer(AddressSpace::Threadgroup)]);
            let place = |e: &mut Emitter, slice: ValueId| {
                let (row, bytes) = (e.int(32), e.b.int(Scalar::I64, size));
                let at = e.bin(BinaryOp::Mul, slice, row);
                let at = e.bin(BinaryOp::Add, at, lane);
                let at = e.b.convert(at, Scalar::I64);
                let at = e.bin(BinaryOp::Mul, at, bytes);
                e.b.offset(pointer, at)
            };
            let own = place(&mut e, slice);
            e.b.store(own, vec![sum], size as u32);
            e.barrier();
            for s in 0..slices {
                let s = e.int(s as i64);
                let at = place(&mut e, s);
                let value = e.b.load(at, fold.ty, 1, size as u32)[0];
                sum = if e.b.as_const(s).is_some_and(|c| c.bits == 0) {
                    value
                } else {
                    fold.join(&mut e, sum, value)
                };
            }
        }
        let sum = fold.narrowed(&mut e, sum);
        e.rows.push(sum);
        let zero = e.int(0);
        let first = e.b.compare(CompareOp::Eq, slice, zero);
        let writes = e.bin(BinaryOp::And, first, inside);
        e.b.push_block();
        e.forget();
        let mut at = outer.clone();
        at.resize(self.shape.len(), zero);
        let values = e.node(&self.result, &Point { index: at, lanes: 1 })?;
        e.store(self.output, row, &values)?;
        let then = e.b.pop_block();
        e.b.if_(writes, then, Default::default());
        let (kernel, inputs, checks) = e.finish(32 * slices);
        Some(Generated {
            kernel,
            inputs,
            checks,
            grid: rows.div_ceil(32),
            groups: true,
            threadgroup: 32 * slices,
        })
    }
}

/// How partial results are joined. Bools are held as 0 or 1 in a `u32`, so that they go through memory and between lanes.
struct Fold {
    op: Reduction,
    ty: Scalar,
    bools: bool,
}

impl Fold {
    fn new(op: Reduction, element: ElementType) -> Option<Self> {
        let ty = held(element)?;
        let bools = ty == Scalar::Bool;
        let fits = match op {
            Reduction::Mean => false,
            Reduction::Any | Reduction::All => bools,
            _ => !bools,
        };
        fits.then_some(Self {
            op,
            // Small integers wrap when they are stored; sums of them need no more than that.
            ty: match ty {
                Scalar::Bool => Scalar::U32,
                Scalar::I8 | Scalar::I16 => Scalar::I32,
                Scalar::U8 | Scalar::U16 => Scalar::U32,
                other => other,
            },
            bools,
        })
    }

    fn widened(&self, e: &mut Emitter, value: ValueId) -> ValueId {
        e.b.convert(value, self.ty)
    }

    /// A joined value as it is used. Small integers stay wide: what uses them converts.
    fn narrowed(&self, e: &mut Emitter, value: ValueId) -> ValueId {
        if self.bools {
            e.b.convert(value, Scalar::Bool)
        } else {
            value
        }
    }

    fn identity(&self, e: &mut Emitter) -> ValueId {
        let float = self.ty == Scalar::F32;
        match self.op {
            Reduction::Sum | Reduction::Mean | Reduction::Any => e.b.constant(self.ty, 0),
            Reduction::All => e.b.int(self.ty, 1),
            Reduction::Product if float => e.f32(1.0),
            Reduction::Product => e.b.int(self.ty, 1),
            Reduction::Max if float => e.f32(f64::NEG_INFINITY),
            Reduction::Min if float => e.f32(f64::INFINITY),
            Reduction::Max if self.ty.is_signed() => e.b.constant(self.ty, 1 << (self.ty.bits() - 1)),
            Reduction::Max => e.b.constant(self.ty, 0),
            Reduction::Min if self.ty.is_signed() => e.b.constant(self.ty, (1u64 << (self.ty.bits() - 1)) - 1),
            Reduction::Min => e.b.constant(self.ty, u64::MAX),
        }
    }

    fn join(&self, e: &mut Emitter, a: ValueId, b: ValueId) -> ValueId {
        match self.op {
            Reduction::Sum | Reduction::Mean => e.bin(BinaryOp::Add, a, b),
            Reduction::Product => e.bin(BinaryOp::Mul, a, b),
            Reduction::Any => e.bin(BinaryOp::Or, a, b),
            Reduction::All => e.bin(BinaryOp::And, a, b),
            Reduction::Max | Reduction::Min if self.ty == Scalar::F32 => {
                // NaN on either side stays.
                let order = if self.op == Reduction::Max {
                    CompareOp::Gt
                } else {
                    CompareOp::Lt
                };
                let first = e.b.compare(order, a, b);
                let nan = e.b.compare(CompareOp::Ne, a, a);
                let takes = e.bin(BinaryOp::Or, first, nan);
                e.b.select(takes, a, b)
            }
            Reduction::Max => e.bin(BinaryOp::Max, a, b),
            Reduction::Min => e.bin(BinaryOp::Min, a, b),
        }
    }

    /// The join over the lanes of a SIMD-group, in every lane.
    fn over_simdgroup(&self, e: &mut Emitter, mut value: ValueId) -> ValueId {
        if self.op == Reduction::Sum && self.ty == Scalar::F32 {
            let op = Op::Group {
                op: GroupOp::Sum,
                width: GroupWidth::Simd,
                operand: value,
            };
            return e.b.emit(op, &[self.ty.into()]);
        }
        for mask in [16, 8, 4, 2, 1] {
            let index = e.b.int(Scalar::U32, mask);
            let op = Op::Shuffle {
                op: ShuffleOp::ShuffleXor,
                width: GroupWidth::Simd,
                operand: value,
                index,
            };
            let other = e.b.emit(op, &[self.ty.into()]);
            value = self.join(e, value, other);
        }
        value
    }

    /// The join over the SIMD-groups of a threadgroup.
    fn over_threadgroup(
        &self,
        e: &mut Emitter,
        value: ValueId,
        partial: anymetal::ir::MemoryId,
        lane: ValueId,
        simdgroup: ValueId,
        groups: usize,
    ) -> ValueId {
        let size = i64::from(self.ty.size());
        let pointer =
            e.b.emit(Op::MemoryPointer(partial), &[Type::Pointer(AddressSpace::Threadgroup)]);
        let place = |e: &mut Emitter, at: ValueId| {
            let (at, bytes) = (e.b.convert(at, Scalar::I64), e.b.int(Scalar::I64, size));
            let at = e.bin(BinaryOp::Mul, at, bytes);
            e.b.offset(pointer, at)
        };
        // What an earlier reduction left there has been read.
        e.barrier();
        let zero = e.int(0);
        let first = e.b.compare(CompareOp::Eq, lane, zero);
        e.b.push_block();
        let own = place(e, simdgroup);
        e.b.store(own, vec![value], size as u32);
        let then = e.b.pop_block();
        e.b.if_(first, then, Default::default());
        e.barrier();
        let last = e.int(groups as i64 - 1);
        let at = e.bin(BinaryOp::Min, lane, last);
        let at = place(e, at);
        let value = e.b.load(at, self.ty, 1, size as u32)[0];
        let end = e.int(groups as i64);
        let valid = e.b.compare(CompareOp::Lt, lane, end);
        let nothing = self.identity(e);
        let value = e.b.select(valid, value, nothing);
        self.over_simdgroup(e, value)
    }
}

impl Emitter {
    /// [`Emitter::split`], or no indices where there are no dimensions.
    fn split_or_nothing(&mut self, flat: ValueId, extents: &[usize]) -> Vec<ValueId> {
        if extents.is_empty() {
            Vec::new()
        } else {
            self.split(flat, extents)
        }
    }

    /// A barrier of the threadgroup for its own memory.
    fn barrier(&mut self) {
        self.b.emit_void(Op::Barrier {
            scope: Scope::Threadgroup,
            flags: MemFlags {
                threadgroup: true,
                ..MemFlags::default()
            },
        });
    }
}
