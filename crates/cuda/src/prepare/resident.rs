//! Rows that stay in registers from one loop of a threadgroup to the next.
//!
//! A norm or a softmax goes over its row several times, in loops `for (uint i = tid; i < count; i += threads)` with reductions
//! between them. Where every loop is one that [`rows`](super::rows) may share out anew, and the row is short, a thread meets the same
//! few elements in all of them. Then the kernel gets a second version of all that follows, for rows of at most so many elements:
//!
//! - each thread has all its loads of a loop in flight at once, as vectors;
//! - what several loops load or compute from an element is loaded and computed once and stays in a register;
//! - the loops are straight lines. Vectors behind the row's end read the last vector instead, add nothing and store nothing.
//!
//! Which version runs is the same for the whole threadgroup: it depends on the number of elements and the alignment of the rows.

use std::collections::{HashMap, HashSet};

use anymetal_ir::passes::Uniformity;
use anymetal_ir::{
    BinaryOp, Block, Builtin, CompareOp, Const, Inst, LocalId, LocationId, MathMode, Op, Scalar, Type, ValueId,
    ValueInfo,
};

use super::copy::{self, Names};
use super::rows::{BYTES, accumulating};
use super::strided::{Pass, Step};

/// Elements that a thread keeps in each version, as whole vectors: one vector, and more.
const ELEMENTS: [u32; 2] = [1, 16];
/// Most instructions of all loops together, each for each element.
const MAX_SIZE: usize = 3000;

/// A loop over the row.
struct RowLoop {
    /// Its position in the block.
    at: usize,
    counter: LocalId,
    ty: Scalar,
    bound: ValueId,
    /// The thread's first element, the thread's index.
    start: ValueId,
    body: Vec<Inst>,
    /// Accesses that become vectors, by position in the body: bytes of an element.
    vectors: HashMap<usize, u32>,
}

/// The vectors of a thread, in the version for short rows.
struct Places {
    /// Elements of a vector.
    width: u32,
    /// The first element of each, or of the row's last vector.
    first: Vec<ValueId>,
    /// Whether the vector is a part of the row.
    inside: Vec<ValueId>,
}

/// Versions of the end of a block for short rows.
pub(super) struct Versions {
    /// Where the end begins.
    pub at: usize,
    /// Bytes that a thread loads of its row in the version for the longest rows.
    pub kept: u32,
    location: LocationId,
    /// What the conditions are made of.
    head: Vec<Inst>,
    /// The versions with their conditions, shortest rows first.
    versions: Vec<(ValueId, Block)>,
}

impl Versions {
    /// The tests, with the block's own end behind them.
    pub fn before(self, end: Vec<Inst>) -> Vec<Inst> {
        let mut rest = end;
        for (condition, then) in self.versions.into_iter().rev() {
            let op = Op::If {
                condition,
                then,
                otherwise: Block { insts: rest },
            };
            rest = vec![copy::plain(self.location, op)];
        }
        let mut all = self.head;
        all.extend(rest);
        all
    }
}

impl Pass<'_> {
    /// Versions for the first block with loops over a row. `next` is the number of its first operation with blocks, as the uniformity
    /// analysis counts.
    pub(super) fn keep_rows(&mut self, block: &Block, next: usize) -> Option<Versions> {
        let threads = self.threads.filter(|_| self.rows.is_some())?;
        let mut controls = Vec::with_capacity(block.insts.len());
        let mut number = next;
        for inst in &block.insts {
            controls.push(number);
            number += count(inst);
        }
        let loops = self.row_loops(block, &controls, threads)?;
        let versions = self.versions(block, &loops, threads)?;
        // Values are new from here on, and the analysis knows the old ones.
        self.threads = None;
        Some(versions)
    }

    /// The loops of a block that go over one row.
    fn row_loops(&self, block: &Block, controls: &[usize], threads: u32) -> Option<Vec<RowLoop>> {
        let mut loops: Vec<RowLoop> = Vec::new();
        for (at, inst) in block.insts.iter().enumerate() {
            let Some(found) = self.row_loop(block, at, inst, controls[at], threads) else {
                continue;
            };
            if loops.first().is_none_or(|first| first.bound == found.bound) {
                loops.push(found);
            }
        }
        (loops.len() > 1).then_some(loops)
    }

    fn row_loop(&self, block: &Block, at: usize, inst: &Inst, control: usize, threads: u32) -> Option<RowLoop> {
        let rows = self.rows.as_ref()?;
        let Op::Loop { body, latch, .. } = &inst.op else {
            return None;
        };
        if rows.uniformity.control.get(control)?.entry > Uniformity::Threadgroup {
            return None;
        }
        let counting = self.counting(body, latch)?;
        let Step::Const(step) = counting.step else { return None };
        if counting.inclusive
            || step.bits != u64::from(threads)
            || rows.uniformity.value(counting.bound) > Uniformity::Threadgroup
        {
            return None;
        }
        let start = self.starts_with(&block.insts[..at], counting.counter)?;
        if rows.builtins.get(&start) != Some(&Builtin::ThreadIndexInThreadgroup) {
            return None;
        }
        // Nobody else looks at the counter.
        let mut own = HashSet::new();
        for part in [body, latch] {
            part.for_each_inst(&mut |inst| {
                own.extend(inst.results());
            });
        }
        if !rows.gets.get(&counting.counter)?.iter().all(|get| own.contains(get)) {
            return None;
        }
        let body: Vec<Inst> = body.insts[..counting.test]
            .iter()
            .chain(&body.insts[counting.test + 1..])
            .cloned()
            .collect();
        let all: Vec<&Inst> = body.iter().collect();
        if all.iter().any(|inst| inst.op.is_structured()) || !self.order_is_free(&all, counting.counter) {
            return None;
        }
        let vectors = self.vectors(&all, counting.counter)?;
        Some(RowLoop {
            at,
            counter: counting.counter,
            ty: counting.ty,
            bound: counting.bound,
            start,
            body,
            vectors,
        })
    }

    fn versions(&mut self, block: &Block, loops: &[RowLoop], threads: u32) -> Option<Versions> {
        let smallest = loops.iter().flat_map(|row| row.vectors.values()).copied().min()?;
        let width = BYTES / smallest;
        let size: usize = loops.iter().map(|row| row.body.len()).sum();
        let mut counts: Vec<u32> = ELEMENTS.iter().map(|&elements| elements.div_ceil(width)).collect();
        counts.dedup();
        counts.retain(|count| size * (width * count) as usize <= MAX_SIZE);
        let begin = loops[0].at;
        if counts.is_empty() || threads > 1024 {
            return None;
        }
        let end = &block.insts[begin..];
        let mut late = HashSet::new();
        for inst in end {
            collect(inst, &mut late);
        }
        let mut head = Vec::new();
        let location = end[0].location;
        let (whole, elements) = self.whole_vectors(&mut head, loops, &late, width, location)?;
        let mut versions = Vec::new();
        for &count in &counts {
            let most = self.number_of(&mut head, location, Scalar::U32, u64::from(threads * width * count));
            let short = self.compare(&mut head, location, CompareOp::Le, elements, most);
            let bool_type = Type::Scalar(Scalar::Bool);
            let condition = self.binary(&mut head, location, BinaryOp::And, whole, short, bool_type);
            let mut then = Vec::new();
            let places = self.places(&mut then, &loops[0], location, threads, width, count);
            let mut names = Names::new();
            let mut seen = HashMap::new();
            for (index, inst) in end.iter().enumerate() {
                match loops.iter().find(|row| row.at == begin + index) {
                    Some(row) => self.straight_row(&mut then, row, location, &places, &names, &mut seen),
                    None => then.push(copy::inst(self.kernel, inst, &mut names)),
                }
            }
            versions.push((condition, Block { insts: then }));
        }
        let first = &loops[0];
        let loaded = (first.vectors.iter()).filter(|&(&at, _)| matches!(first.body[at].op, Op::Load { .. }));
        let element: u32 = loaded.map(|(_, bytes)| bytes).sum();
        Some(Versions {
            at: begin,
            kept: counts.last()? * width * element,
            location,
            head,
            versions,
        })
    }

    /// Whether a row has whole aligned vectors and at least one, and its elements. `None` if that cannot be said before the first loop.
    fn whole_vectors(
        &mut self,
        out: &mut Vec<Inst>,
        loops: &[RowLoop],
        late: &HashSet<ValueId>,
        width: u32,
        at: LocationId,
    ) -> Option<(ValueId, ValueId)> {
        let (bool_type, word) = (Type::Scalar(Scalar::Bool), Type::Scalar(Scalar::U64));
        let row = &loops[0];
        if late.contains(&row.bound) {
            return None;
        }
        let count = self.count(out, row, at);
        let zero = self.number_of(out, at, Scalar::U32, 0);
        let some = self.compare(out, at, CompareOp::Ne, count, zero);
        let mask = self.number_of(out, at, Scalar::U32, u64::from(width) - 1);
        let rest = self.binary(out, at, BinaryOp::And, count, mask, Type::Scalar(Scalar::U32));
        let whole = self.compare(out, at, CompareOp::Eq, rest, zero);
        let condition = self.binary(out, at, BinaryOp::And, some, whole, bool_type);
        // Addresses grow by whole vectors from element 0 on.
        let mut low = self.number_of(out, at, Scalar::U64, 0);
        let mut seen = HashMap::new();
        for row in loops {
            let all: Vec<&Inst> = row.body.iter().collect();
            let zero = self.number_of(out, at, row.ty, 0);
            let mut names: Names = all
                .iter()
                .filter(|inst| inst.op == Op::LocalGet(row.counter))
                .map(|inst| (inst.first, zero))
                .collect();
            let mut positions: Vec<usize> = row.vectors.keys().copied().collect();
            positions.sort_unstable();
            for position in positions {
                let (Op::Load { pointer, .. } | Op::Store { pointer, .. }) = row.body[position].op else {
                    continue;
                };
                self.uniform_address(out, &all, pointer, &mut names, late, &mut seen)?;
                let pointer = names.get(&pointer).copied().unwrap_or(pointer);
                let op = Op::Bitcast {
                    operand: pointer,
                    to: word,
                };
                let bits = copy::emit(self.kernel, out, at, op, word);
                low = self.binary(out, at, BinaryOp::Or, low, bits, word);
            }
        }
        let mask = self.number_of(out, at, Scalar::U64, u64::from(BYTES) - 1);
        let low = self.binary(out, at, BinaryOp::And, low, mask, word);
        let zero = self.number_of(out, at, Scalar::U64, 0);
        let aligned = self.compare(out, at, CompareOp::Eq, low, zero);
        let condition = self.binary(out, at, BinaryOp::And, condition, aligned, bool_type);
        Some((condition, count))
    }

    /// Copies what the address of element 0 is made of, if that is the same in the whole threadgroup and known before the loops.
    fn uniform_address(
        &mut self,
        out: &mut Vec<Inst>,
        all: &[&Inst],
        value: ValueId,
        names: &mut Names,
        late: &HashSet<ValueId>,
        seen: &mut HashMap<String, ValueId>,
    ) -> Option<()> {
        if names.contains_key(&value) {
            return Some(());
        }
        let Some(inst) = all.iter().find(|inst| inst.results().any(|result| result == value)) else {
            let uniform = self.rows.as_ref()?.uniformity.value(value) <= Uniformity::Threadgroup;
            return (uniform && !late.contains(&value)).then_some(());
        };
        if !inst.op.is_pure() {
            return None;
        }
        let mut operands = Vec::new();
        inst.op.for_each_operand(|value| operands.push(value));
        for operand in operands {
            self.uniform_address(out, all, operand, names, late, seen)?;
        }
        self.once(out, inst, names, seen);
        Some(())
    }

    /// The number of elements as `u32`; a negative one becomes large.
    fn count(&mut self, out: &mut Vec<Inst>, row: &RowLoop, at: LocationId) -> ValueId {
        if row.ty == Scalar::U32 {
            return row.bound;
        }
        let op = Op::Convert {
            operand: row.bound,
            to: Scalar::U32,
            saturate: false,
        };
        copy::emit(self.kernel, out, at, op, Type::Scalar(Scalar::U32))
    }

    /// Where a thread's vectors are: each SIMD-group keeps the runs of 32 elements that its lanes would take one by one.
    fn places(
        &mut self,
        out: &mut Vec<Inst>,
        row: &RowLoop,
        at: LocationId,
        threads: u32,
        width: u32,
        count: u32,
    ) -> Places {
        let ty = Type::Scalar(Scalar::U32);
        let lane = copy::emit(self.kernel, out, at, Op::Builtin(Builtin::ThreadIndexInSimdgroup), ty);
        let group = self.binary(out, at, BinaryOp::Sub, row.start, lane, ty);
        let per_run = 32 / width;
        let shift = self.number_of(out, at, Scalar::U32, u64::from(per_run.trailing_zeros()));
        let run = self.binary(out, at, BinaryOp::Shr, lane, shift, ty);
        let step = self.number_of(out, at, Scalar::U32, u64::from(threads));
        let run = self.binary(out, at, BinaryOp::Mul, run, step, ty);
        let mask = self.number_of(out, at, Scalar::U32, u64::from(per_run) - 1);
        let vector = self.binary(out, at, BinaryOp::And, lane, mask, ty);
        let elements = self.number_of(out, at, Scalar::U32, u64::from(width));
        let vector = self.binary(out, at, BinaryOp::Mul, vector, elements, ty);
        let first = self.binary(out, at, BinaryOp::Add, group, run, ty);
        let first = self.binary(out, at, BinaryOp::Add, first, vector, ty);
        let bound = self.count(out, row, at);
        let last = self.binary(out, at, BinaryOp::Sub, bound, elements, ty);
        let mut places = Places {
            width,
            first: Vec::new(),
            inside: Vec::new(),
        };
        for index in 0..count {
            let by = self.number_of(out, at, Scalar::U32, u64::from(index * width * threads));
            let place = self.binary(out, at, BinaryOp::Add, first, by, ty);
            places.inside.push(self.compare(out, at, CompareOp::Lt, place, bound));
            places.first.push(self.binary(out, at, BinaryOp::Min, place, last, ty));
        }
        places
    }

    /// One loop as a straight line over the thread's vectors. `outer` are the new names of values from outside, `seen` what this and earlier
    /// loops computed.
    fn straight_row(
        &mut self,
        out: &mut Vec<Inst>,
        row: &RowLoop,
        at: LocationId,
        places: &Places,
        outer: &Names,
        seen: &mut HashMap<String, ValueId>,
    ) {
        let width = places.width as usize;
        let all: Vec<&Inst> = row.body.iter().collect();
        let is_counter = |inst: &&&Inst| inst.op == Op::LocalGet(row.counter);
        let gets: HashSet<ValueId> = all.iter().filter(is_counter).map(|inst| inst.first).collect();
        // The names of each element of each vector.
        let mut names: Vec<Vec<Names>> = Vec::new();
        for &first in &places.first {
            let wide = self.once_op(out, at, convert(first, Scalar::I64), seen);
            let first = self.once_op(out, at, convert(first, row.ty), seen);
            let mut vector = Vec::new();
            for k in 0..width as u64 {
                let by = self.once_op(out, at, number(Scalar::I64, k), seen);
                let wide = self.once_op(out, at, add(wide, by), seen);
                let by = self.once_op(out, at, number(row.ty, k), seen);
                let element = self.once_op(out, at, add(first, by), seen);
                let mut names = outer.clone();
                names.extend(gets.iter().map(|&get| (get, element)));
                for inst in &all {
                    if matches!(&inst.op, Op::Convert { operand, to: Scalar::I64, .. } if gets.contains(operand)) {
                        names.insert(inst.first, wide);
                    }
                }
                vector.push(names);
            }
            names.push(vector);
        }
        // Instruction by instruction, so that all loads come before what waits for them.
        let late = accumulating(&all);
        let mut locals: HashMap<LocalId, ValueId> = HashMap::new();
        for (position, inst) in all.iter().enumerate() {
            if late.contains(&position) || is_counter(&inst) {
                continue;
            }
            if let Op::LocalGet(local) = inst.op {
                let ty = self.kernel.ty(inst.first);
                let value = *locals
                    .entry(local)
                    .or_insert_with(|| copy::emit(self.kernel, out, inst.location, Op::LocalGet(local), ty));
                for names in names.iter_mut().flatten() {
                    names.insert(inst.first, value);
                }
                continue;
            }
            for (index, vector) in names.iter_mut().enumerate() {
                match (&inst.op, row.vectors.contains_key(&position)) {
                    (Op::Store { .. }, _) => {
                        let mut store = Vec::new();
                        self.vector_access(inst, row.vectors[&position], vector, &mut store);
                        out.push(copy::plain(
                            inst.location,
                            Op::If {
                                condition: places.inside[index],
                                then: Block { insts: store },
                                otherwise: Block::default(),
                            },
                        ));
                    }
                    (_, true) => self.vector_once(out, inst, vector, seen),
                    (_, false) => {
                        for names in vector {
                            if !names.contains_key(&inst.first) {
                                self.once(out, inst, names, seen);
                            }
                        }
                    }
                }
            }
        }
        self.accumulate(out, row, at, places, &late, &mut names);
    }

    /// What a loop adds to its locals.
    fn accumulate(
        &mut self,
        out: &mut Vec<Inst>,
        row: &RowLoop,
        at: LocationId,
        places: &Places,
        late: &HashSet<usize>,
        names: &mut [Vec<Names>],
    ) {
        let mut now: Vec<(LocalId, ValueId)> = Vec::new();
        for inst in &row.body {
            if let Op::LocalSet { local, .. } = inst.op {
                let ty = self.kernel.local(local).ty;
                now.push((local, copy::emit(self.kernel, out, at, Op::LocalGet(local), ty)));
            }
        }
        for (vector, &inside) in names.iter_mut().zip(&places.inside) {
            let before = now.clone();
            for names in vector {
                for (position, inst) in row.body.iter().enumerate() {
                    if !late.contains(&position) {
                        continue;
                    }
                    match &inst.op {
                        Op::LocalGet(local) => {
                            let value = now.iter().find(|(other, _)| other == local).map(|(_, value)| *value);
                            if let Some(value) = value {
                                names.insert(inst.first, value);
                            }
                        }
                        Op::LocalSet { local, value } => {
                            let value = names.get(value).copied().unwrap_or(*value);
                            for entry in &mut now {
                                if entry.0 == *local {
                                    entry.1 = value;
                                }
                            }
                        }
                        _ => out.push(copy::inst(self.kernel, inst, names)),
                    }
                }
            }
            for (entry, &(local, old)) in now.iter_mut().zip(&before) {
                let op = Op::Select {
                    condition: inside,
                    then: entry.1,
                    otherwise: old,
                };
                let ty = self.kernel.local(local).ty;
                entry.1 = copy::emit(self.kernel, out, at, op, ty);
            }
        }
        for (local, value) in now {
            out.push(copy::plain(at, Op::LocalSet { local, value }));
        }
    }

    /// A vector load for the elements of a vector, unless an earlier loop has it.
    fn vector_once(
        &mut self,
        out: &mut Vec<Inst>,
        inst: &Inst,
        names: &mut [Names],
        seen: &mut HashMap<String, ValueId>,
    ) {
        let Op::Load {
            pointer,
            ty,
            count,
            align,
        } = &inst.op
        else {
            return;
        };
        let width = names.len() as u32;
        let pointer = names[0].get(pointer).copied().unwrap_or(*pointer);
        let element = match ty {
            Type::Scalar(ty) => ty.size() * count,
            Type::Pointer(_) => *align,
        };
        let op = Op::Load {
            pointer,
            ty: *ty,
            count: count * width,
            align: BYTES.min(element * width),
        };
        let key = format!("{op:?}");
        let first = match seen.get(&key) {
            Some(&first) => first,
            None => {
                let first = ValueId(self.kernel.values.len() as u32);
                for _ in 0..count * width {
                    self.kernel.values.push(ValueInfo { ty: *ty });
                }
                out.push(Inst {
                    op,
                    first,
                    count: count * width,
                    location: inst.location,
                });
                seen.insert(key, first);
                first
            }
        };
        for (k, names) in names.iter_mut().enumerate() {
            for (j, result) in inst.results().enumerate() {
                names.insert(result, ValueId(first.0 + k as u32 * count + j as u32));
            }
        }
    }

    /// A copy of an instruction that has no effects, unless its results are there already.
    fn once(&mut self, out: &mut Vec<Inst>, inst: &Inst, names: &mut Names, seen: &mut HashMap<String, ValueId>) {
        let mut op = inst.op.clone();
        op.for_each_operand_mut(|value| {
            if let Some(&new) = names.get(value) {
                *value = new;
            }
        });
        let key = format!("{op:?}");
        if let Some(&first) = seen.get(&key) {
            for (j, result) in inst.results().enumerate() {
                names.insert(result, ValueId(first.0 + j as u32));
            }
            return;
        }
        let copied = copy::inst(self.kernel, inst, names);
        seen.insert(key, copied.first);
        out.push(copied);
    }

    /// An operation with one result whose type follows from it, unless it is there already.
    fn once_op(&mut self, out: &mut Vec<Inst>, at: LocationId, op: Op, seen: &mut HashMap<String, ValueId>) -> ValueId {
        let ty = match &op {
            Op::Const(c) => Type::Scalar(c.ty),
            Op::Convert { operand, to, .. } if self.kernel.ty(*operand) == Type::Scalar(*to) => return *operand,
            Op::Convert { to, .. } => Type::Scalar(*to),
            Op::Binary { lhs, .. } => self.kernel.ty(*lhs),
            _ => Type::Scalar(Scalar::U32),
        };
        let key = format!("{op:?}");
        match seen.get(&key) {
            Some(&value) => value,
            None => {
                let value = copy::emit(self.kernel, out, at, op, ty);
                seen.insert(key, value);
                value
            }
        }
    }
}

/// How many operations with blocks an instruction is and has.
fn count(inst: &Inst) -> usize {
    let mut number = usize::from(inst.op.is_structured());
    for block in inst.op.blocks().into_iter().flatten() {
        number += block.insts.iter().map(count).sum::<usize>();
    }
    number
}

/// The values that an instruction and its blocks define.
fn collect(inst: &Inst, values: &mut HashSet<ValueId>) {
    values.extend(inst.results());
    for block in inst.op.blocks().into_iter().flatten() {
        block.for_each_inst(&mut |inst| values.extend(inst.results()));
    }
}

const fn number(ty: Scalar, bits: u64) -> Op {
    Op::Const(Const { ty, bits })
}

const fn convert(operand: ValueId, to: Scalar) -> Op {
    Op::Convert {
        operand,
        to,
        saturate: false,
    }
}

const fn add(lhs: ValueId, rhs: ValueId) -> Op {
    Op::Binary {
        op: BinaryOp::Add,
        lhs,
        rhs,
        mode: MathMode::Precise,
    }
}
