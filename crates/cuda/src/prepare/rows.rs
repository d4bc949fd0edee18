//! Loops of a SIMD-group over the elements of a row, by vectors.
//!
//! In `for (uint i = tid; i < count; i += threads)` the lanes of a SIMD-group take 32 consecutive elements in each step. In several
//! steps they take several such runs, and it does not matter which lane takes which element of them if the loop only
//!
//! - accumulates into locals (sums that may be reassociated, minima, maxima) that are read by reductions over the SIMD-group alone, and
//! - stores to an element's own place in memory that the kernel does not read.
//!
//! Then each lane takes consecutive elements, 16 bytes of the narrowest array: loads and stores become vectors. The row's start has to be
//! aligned, which is looked at before the loop; what is left goes to the loops of single elements. Long rows take several vectors at once.

use std::collections::{HashMap, HashSet};

use anymetal_ir::passes::{Effects, Root, Uniformity, UniformityInfo};
use anymetal_ir::{
    BinaryOp, Block, Builtin, CompareOp, Const, GroupOp, GroupWidth, Inst, Kernel, LocalId, LocationId, MathMode, Op,
    Scalar, TernaryOp, Type, Unroll, ValueId, ValueInfo,
};

use super::copy::{self, Names};
use super::growth::growth;
use super::strided::{Counting, Pass, Step};

/// Bytes of a vector.
pub(super) const BYTES: u32 = 16;
/// Most vectors in flight of one array.
const MOST_VECTORS: u64 = 4;
/// Most instructions of a loop's body.
const MAX_SIZE: usize = 400;

/// What a loop by vectors is made of.
struct VectorBody {
    /// The lane's number, 64 bits like the other values.
    lane: ValueId,
    /// From the lane's own element to the first that it takes.
    moved: ValueId,
    bound: ValueId,
    /// Vectors in each step.
    count: u64,
    /// Elements of a vector.
    width: u64,
    /// The loop's own step.
    step: u64,
}

/// What has to be known of the whole kernel.
pub(super) struct Rows {
    pub uniformity: UniformityInfo,
    /// The operations that use each value.
    uses: HashMap<ValueId, Vec<Use>>,
    /// The values that each local is read as.
    pub gets: HashMap<LocalId, Vec<ValueId>>,
    pub builtins: HashMap<ValueId, Builtin>,
    /// Arguments that are written and never read.
    write_only: HashSet<Root>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Group(GroupOp),
    Other,
}

impl Rows {
    pub(super) fn of(kernel: &Kernel, effects: &Effects) -> Rows {
        let mut rows = Rows {
            uniformity: UniformityInfo::with_effects(kernel, effects),
            uses: HashMap::new(),
            gets: HashMap::new(),
            builtins: HashMap::new(),
            write_only: HashSet::new(),
        };
        kernel.body.for_each_inst(&mut |inst| {
            match inst.op {
                Op::LocalGet(local) => rows.gets.entry(local).or_default().push(inst.first),
                Op::Builtin(builtin) => {
                    rows.builtins.insert(inst.first, builtin);
                }
                _ => {}
            }
            let kind = match inst.op {
                Op::Group {
                    op,
                    width: GroupWidth::Simd,
                    ..
                } => Use::Group(op),
                _ => Use::Other,
            };
            inst.op
                .for_each_operand(|value| rows.uses.entry(value).or_default().push(kind));
        });
        for (index, usage) in effects.arguments.iter().enumerate() {
            if usage.written && !usage.read && !usage.escapes {
                rows.write_only
                    .insert(Root::Argument(anymetal_ir::ArgumentId(index as u32)));
            }
        }
        if effects.unknown_reads.iter().any(|&reads| reads) {
            rows.write_only.clear();
        }
        rows
    }
}

impl Pass<'_> {
    /// The loop by vectors, and what it needs in front of it.
    pub(super) fn by_vectors(&mut self, before: &[Inst], inst: &Inst, control: usize) -> Option<Vec<Inst>> {
        let rows = self.rows.as_ref()?;
        let Op::Loop { body, latch, .. } = &inst.op else {
            return None;
        };
        // All lanes come here together.
        if rows.uniformity.control.get(control)?.entry > Uniformity::Simdgroup {
            return None;
        }
        let counting = self.counting(body, latch)?;
        let Step::Const(step) = counting.step else { return None };
        let step = step.bits;
        if step == 0 || !step.is_multiple_of(32) || step > 1 << 16 || !self.starts_with_lane(before, counting.counter) {
            return None;
        }
        let all: Vec<&Inst> = body.insts[..counting.test]
            .iter()
            .chain(&body.insts[counting.test + 1..])
            .collect();
        if all.iter().any(|inst| inst.op.is_structured()) || !self.order_is_free(&all, counting.counter) {
            return None;
        }
        let vectors = self.vectors(&all, counting.counter)?;
        let smallest = vectors.values().copied().min()?;
        let width = (BYTES / smallest) as usize;
        if all.len() * width > MAX_SIZE {
            return None;
        }
        self.vector_loops(inst, &counting, latch, &all, &vectors, width as u64, step)
    }

    /// The accesses of a loop whose elements are neighbours, by position, with the bytes of each; `None` if there is a store that is none.
    pub(super) fn vectors(&self, all: &[&Inst], counter: LocalId) -> Option<HashMap<usize, u32>> {
        let unit = |op: &Op| *op == Op::LocalGet(counter);
        let growth = growth(self.kernel, &self.effects, self.unaliased, all, &self.constants, &unit);
        let mut vectors: HashMap<usize, u32> = HashMap::new();
        for (at, inst) in all.iter().enumerate() {
            let (pointer, bytes, is_store) = match &inst.op {
                Op::Load {
                    pointer,
                    ty: Type::Scalar(ty),
                    count,
                    ..
                } => (*pointer, ty.size() * count, false),
                Op::Store { pointer, values, .. } => {
                    let ty = self.kernel.ty(*values.first()?).scalar()?;
                    (*pointer, ty.size() * values.len() as u32, true)
                }
                _ => continue,
            };
            let fits = growth.get(&pointer) == Some(&i64::from(bytes)) && bytes.is_power_of_two() && bytes < BYTES;
            if fits {
                vectors.insert(at, bytes);
            } else if is_store {
                return None;
            }
        }
        Some(vectors)
    }

    /// The value that a counter has when its loop begins.
    pub(super) fn starts_with(&self, before: &[Inst], counter: LocalId) -> Option<ValueId> {
        for inst in before.iter().rev() {
            match &inst.op {
                Op::LocalSet { local, value } if *local == counter => return Some(*value),
                op if op.is_structured() => {
                    let mut sets = false;
                    for block in op.blocks().into_iter().flatten() {
                        block.for_each_inst(&mut |inst| {
                            sets |= matches!(&inst.op, Op::LocalSet { local, .. } if *local == counter);
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

    /// Whether the counter begins with the lane's number plus what the SIMD-group has in common.
    fn starts_with_lane(&self, before: &[Inst], counter: LocalId) -> bool {
        let start = self.starts_with(before, counter);
        let builtin = start.and_then(|start| self.rows.as_ref()?.builtins.get(&start));
        matches!(
            builtin,
            Some(Builtin::ThreadIndexInThreadgroup | Builtin::ThreadIndexInSimdgroup)
        )
    }

    /// Whether it does not matter which lane of the SIMD-group runs which step.
    pub(super) fn order_is_free(&self, all: &[&Inst], counter: LocalId) -> bool {
        let Some(rows) = &self.rows else { return false };
        let find = |value: ValueId| all.iter().find(|inst| inst.results().any(|result| result == value));
        let inside: HashSet<ValueId> = all.iter().flat_map(|inst| inst.results()).collect();
        all.iter().all(|inst| match &inst.op {
            Op::LocalSet { local, value } => {
                if *local == counter {
                    return false;
                }
                let own: Vec<ValueId> = all
                    .iter()
                    .filter(|inst| inst.op == Op::LocalGet(*local))
                    .map(|inst| inst.first)
                    .collect();
                let sets = all
                    .iter()
                    .filter(|inst| matches!(&inst.op, Op::LocalSet { local: other, .. } if other == local))
                    .count();
                let [own] = own[..] else { return false };
                let once = rows.uses.get(&own).is_some_and(|uses| uses.len() == 1);
                let float = self.kernel.local(*local).ty.scalar().is_some_and(Scalar::is_float);
                let group = match find(*value).map(|inst| &inst.op) {
                    Some(Op::Binary { op, lhs, rhs, mode }) if *lhs == own || *rhs == own => match op {
                        BinaryOp::Add if !float || *mode == MathMode::Fast => GroupOp::Sum,
                        BinaryOp::Min => GroupOp::Min,
                        BinaryOp::Max => GroupOp::Max,
                        _ => return false,
                    },
                    Some(Op::Ternary {
                        op: TernaryOp::Fma,
                        c,
                        mode: MathMode::Fast,
                        ..
                    }) if *c == own => GroupOp::Sum,
                    _ => return false,
                };
                let set_once = rows.uses.get(value).is_some_and(|uses| uses.len() == 1);
                // Elsewhere only reductions read it.
                let reduced = rows.gets.get(local).is_some_and(|gets| {
                    gets.iter().filter(|get| !inside.contains(get)).all(|get| {
                        rows.uses
                            .get(get)
                            .is_none_or(|uses| uses.iter().all(|&kind| kind == Use::Group(group)))
                    })
                });
                sets == 1 && once && set_once && reduced
            }
            Op::Load { pointer, .. } => self.unaliased && self.effects.reads_constant_memory(self.kernel, *pointer),
            Op::Store { pointer, .. } => {
                let roots = self.effects.roots(*pointer);
                !roots.unknown && roots.known.iter().all(|root| rows.write_only.contains(root))
            }
            Op::LocalGet(_) => true,
            // The lane's own number stays what it is, while its elements change.
            op => op.is_pure() && !matches!(op, Op::Builtin(_)),
        })
    }

    /// Loops of several vectors and of one, which begin where the row is aligned.
    fn vector_loops(
        &mut self,
        inst: &Inst,
        counting: &Counting,
        latch: &Block,
        all: &[&Inst],
        vectors: &HashMap<usize, u32>,
        width: u64,
        step: u64,
    ) -> Option<Vec<Inst>> {
        let at = inst.location;
        let long = Type::Scalar(Scalar::I64);
        let mut out = Vec::new();
        let lane = Op::Builtin(Builtin::ThreadIndexInSimdgroup);
        let lane = copy::emit(self.kernel, &mut out, at, lane, Type::Scalar(Scalar::U32));
        let lane = self.widen(&mut out, at, lane);
        // The lane's place in the runs of 32 elements: which run, and which of its vectors.
        let per_run = 32 / width;
        let shift = self.number(&mut out, at, u64::from(per_run.trailing_zeros()));
        let run = self.binary(&mut out, at, BinaryOp::Shr, lane, shift, long);
        let mask = self.number(&mut out, at, per_run - 1);
        let vector = self.binary(&mut out, at, BinaryOp::And, lane, mask, long);
        let step_number = self.number(&mut out, at, step);
        let width_number = self.number(&mut out, at, width);
        let run = self.binary(&mut out, at, BinaryOp::Mul, run, step_number, long);
        let vector = self.binary(&mut out, at, BinaryOp::Mul, vector, width_number, long);
        let place = self.binary(&mut out, at, BinaryOp::Add, run, vector, long);
        let moved = self.binary(&mut out, at, BinaryOp::Sub, place, lane, long);
        let bound = self.widen(&mut out, at, counting.bound);
        // All places of the lane are whole vectors apart, so that the first is aligned says it of all.
        let aligned = self.first_is_aligned(&mut out, at, counting, all, vectors, moved)?;
        let mut loops = Vec::new();
        let most = if all.len() * (MOST_VECTORS * width) as usize <= MAX_SIZE {
            MOST_VECTORS
        } else {
            1
        };
        for count in [most, 1] {
            let body = VectorBody {
                lane,
                moved,
                bound,
                count,
                width,
                step,
            };
            loops.push(self.vector_loop(inst, counting, latch, all, vectors, &body));
            if most == 1 {
                break;
            }
        }
        out.push(copy::plain(
            at,
            Op::If {
                condition: aligned,
                then: Block {
                    insts: loops.into_iter().flatten().collect(),
                },
                otherwise: Block::default(),
            },
        ));
        Some(out)
    }

    /// Whether the vectors are aligned that the lane meets first; `None` if only the loop can tell.
    fn first_is_aligned(
        &mut self,
        out: &mut Vec<Inst>,
        at: LocationId,
        counting: &Counting,
        all: &[&Inst],
        vectors: &HashMap<usize, u32>,
        moved: ValueId,
    ) -> Option<ValueId> {
        let ty = Type::Scalar(counting.ty);
        let first = copy::emit(self.kernel, out, at, Op::LocalGet(counting.counter), ty);
        let wide = self.widen(out, at, first);
        let start = self.binary(out, at, BinaryOp::Add, wide, moved, Type::Scalar(Scalar::I64));
        let mut names = self.element_names(out, at, counting, all, start);
        let mut done = HashSet::new();
        let mut low = self.number_of(out, at, Scalar::U64, 0);
        let mut positions: Vec<usize> = vectors.keys().copied().collect();
        positions.sort_unstable();
        let word = Type::Scalar(Scalar::U64);
        for &position in &positions {
            let (Op::Load { pointer, .. } | Op::Store { pointer, .. }) = &all[position].op else {
                continue;
            };
            self.address(all, *pointer, &mut names, out, &mut done);
            let pointer = names.get(pointer).copied().unwrap_or(*pointer);
            let op = Op::Bitcast {
                operand: pointer,
                to: word,
            };
            let bits = copy::emit(self.kernel, out, at, op, word);
            low = self.binary(out, at, BinaryOp::Or, low, bits, word);
        }
        // Nothing may be loaded before it is known that the loop runs.
        if done.iter().any(|&position| !all[position].op.is_pure()) {
            return None;
        }
        let mask = self.number_of(out, at, Scalar::U64, u64::from(BYTES) - 1);
        let low = self.binary(out, at, BinaryOp::And, low, mask, word);
        let zero = self.number_of(out, at, Scalar::U64, 0);
        Some(self.compare(out, at, CompareOp::Eq, low, zero))
    }

    /// The names of the counter for an element, and of its extension to 64 bits.
    fn element_names(
        &mut self,
        out: &mut Vec<Inst>,
        at: LocationId,
        counting: &Counting,
        all: &[&Inst],
        element: ValueId,
    ) -> Names {
        let op = Op::Convert {
            operand: element,
            to: counting.ty,
            saturate: false,
        };
        let counter = copy::emit(self.kernel, out, at, op, Type::Scalar(counting.ty));
        let gets: HashSet<ValueId> = all
            .iter()
            .filter(|inst| inst.op == Op::LocalGet(counting.counter))
            .map(|inst| inst.first)
            .collect();
        let mut names: Names = gets.iter().map(|&get| (get, counter)).collect();
        for inst in all {
            if matches!(&inst.op, Op::Convert { operand, to: Scalar::I64, .. } if gets.contains(operand)) {
                names.insert(inst.first, element);
            }
        }
        names
    }

    /// A loop that takes several vectors in each step, as long as the last of them is inside the bound for all lanes.
    fn vector_loop(
        &mut self,
        inst: &Inst,
        counting: &Counting,
        latch: &Block,
        all: &[&Inst],
        vectors: &HashMap<usize, u32>,
        body: &VectorBody,
    ) -> Vec<Inst> {
        let at = inst.location;
        let long = Type::Scalar(Scalar::I64);
        let ty = Type::Scalar(counting.ty);
        let VectorBody { count, width, step, .. } = *body;
        let mut out = Vec::new();
        // From a lane's first element to the last of the last lane.
        let reach = self.number(&mut out, at, 31 + (count * width - 1) * step);
        let reach = self.binary(&mut out, at, BinaryOp::Sub, reach, body.lane, long);

        let mut main = Vec::new();
        let first = copy::emit(self.kernel, &mut main, at, Op::LocalGet(counting.counter), ty);
        let wide = self.widen(&mut main, at, first);
        let last = self.binary(&mut main, at, BinaryOp::Add, wide, reach, long);
        let op = if counting.inclusive {
            CompareOp::Le
        } else {
            CompareOp::Lt
        };
        let inside = self.compare(&mut main, at, op, last, body.bound);
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
        let start = self.binary(&mut main, at, BinaryOp::Add, wide, body.moved, long);
        let mut names: Vec<Vec<Names>> = Vec::new();
        for vector in 0..count {
            let mut elements = Vec::new();
            for k in 0..width {
                let by = self.number(&mut main, at, vector * width * step + k);
                let element = self.binary(&mut main, at, BinaryOp::Add, start, by, long);
                elements.push(self.element_names(&mut main, at, counting, all, element));
            }
            names.push(elements);
        }
        // Each element's work, in step, so that all loads come first; then what accumulates, element after element.
        let late = accumulating(all);
        for (position, inst) in all.iter().enumerate() {
            if late.contains(&position) {
                continue;
            }
            for vector in &mut names {
                if let Some(&bytes) = vectors.get(&position) {
                    self.vector_access(inst, bytes, vector, &mut main);
                    continue;
                }
                for names in vector {
                    if inst.count != 1 || !names.contains_key(&inst.first) {
                        main.push(copy::inst(self.kernel, inst, names));
                    }
                }
            }
        }
        for names in names.iter_mut().flatten() {
            for (position, inst) in all.iter().enumerate() {
                if late.contains(&position) {
                    main.push(copy::inst(self.kernel, inst, names));
                }
            }
        }
        let on = self.number_of(&mut main, at, counting.ty, (count * width - 1) * step);
        let next = self.binary(&mut main, at, BinaryOp::Add, first, on, ty);
        main.push(copy::plain(
            at,
            Op::LocalSet {
                local: counting.counter,
                value: next,
            },
        ));
        let latch = copy::block(self.kernel, latch, &mut Names::new());
        out.push(copy::plain(
            at,
            Op::Loop {
                body: Block { insts: main },
                latch,
                unroll: Unroll::Never,
            },
        ));
        out
    }

    /// A number of a type.
    pub(super) fn number_of(&mut self, out: &mut Vec<Inst>, at: LocationId, ty: Scalar, bits: u64) -> ValueId {
        copy::emit(self.kernel, out, at, Op::Const(Const { ty, bits }), Type::Scalar(ty))
    }

    /// Copies what an address is made of.
    fn address(
        &mut self,
        all: &[&Inst],
        value: ValueId,
        names: &mut Names,
        out: &mut Vec<Inst>,
        done: &mut HashSet<usize>,
    ) {
        if names.contains_key(&value) {
            return;
        }
        let Some(position) = all.iter().position(|inst| inst.results().any(|result| result == value)) else {
            return;
        };
        let mut operands = Vec::new();
        all[position].op.for_each_operand(|value| operands.push(value));
        for operand in operands {
            self.address(all, operand, names, out, done);
        }
        if done.insert(position) {
            out.push(copy::inst(self.kernel, all[position], names));
        }
    }

    /// One access for all elements of a lane.
    pub(super) fn vector_access(&mut self, inst: &Inst, bytes: u32, names: &mut [Names], out: &mut Vec<Inst>) {
        let width = names.len() as u32;
        let vector_align = BYTES.min(bytes * width);
        match &inst.op {
            Op::Load { pointer, ty, count, .. } => {
                let pointer = names[0].get(pointer).copied().unwrap_or(*pointer);
                let first = ValueId(self.kernel.values.len() as u32);
                for _ in 0..count * width {
                    self.kernel.values.push(ValueInfo { ty: *ty });
                }
                for (k, names) in names.iter_mut().enumerate() {
                    for (j, result) in inst.results().enumerate() {
                        names.insert(result, ValueId(first.0 + k as u32 * count + j as u32));
                    }
                }
                out.push(Inst {
                    op: Op::Load {
                        pointer,
                        ty: *ty,
                        count: count * width,
                        align: vector_align,
                    },
                    first,
                    count: count * width,
                    location: inst.location,
                });
            }
            Op::Store { pointer, values, .. } => {
                let pointer = names[0].get(pointer).copied().unwrap_or(*pointer);
                let all = names
                    .iter()
                    .flat_map(|names| values.iter().map(|value| names.get(value).copied().unwrap_or(*value)))
                    .collect();
                out.push(copy::plain(
                    inst.location,
                    Op::Store {
                        pointer,
                        values: all,
                        align: vector_align,
                    },
                ));
            }
            _ => {}
        }
    }
}

/// The positions of reads of locals that the loop sets, of what depends on them, and of the sets.
pub(super) fn accumulating(all: &[&Inst]) -> HashSet<usize> {
    let set: HashSet<LocalId> = all
        .iter()
        .filter_map(|inst| match inst.op {
            Op::LocalSet { local, .. } => Some(local),
            _ => None,
        })
        .collect();
    let mut late = HashSet::new();
    let mut values: HashSet<ValueId> = HashSet::new();
    for (position, inst) in all.iter().enumerate() {
        let mut is_late = match &inst.op {
            Op::LocalGet(local) => set.contains(local),
            Op::LocalSet { .. } => true,
            _ => false,
        };
        inst.op.for_each_operand(|value| is_late |= values.contains(&value));
        if is_late {
            late.insert(position);
            values.extend(inst.results());
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use anymetal_ir::{Kernel, Op, parse::parse, verify};

    use crate::PtxOptions;
    use crate::prepare::prepare;

    const SUM: &str = r#"kernel "sum" {
  argument arg0 "x" buffer 0 device "float" size 4 align 4 element 4 access read
  argument arg1 "y" buffer 1 device "float" size 4 align 4 element 4 access write
  argument arg2 "n" buffer 2 constant "uint" size 4 align 4 element 4 access read
  local $0 "total" f32
  local $1 "i" u32
  file 1 "sum.metal"
  loc !1 1 1 1
  body {
    %0: ptr<device> = argument arg0 !1
    %1: ptr<device> = argument arg1 !1
    %2: ptr<constant> = argument arg2 !1
    %3: u32 = builtin thread_index_in_threadgroup !1
    %4: u32 = builtin threads_per_threadgroup.x !1
    %5: u32 = load %2 u32 x1 align 4 !1
    %6: f32 = const f32 0.0 !1
    set $0, %6 !1
    set $1, %3 !1
    loop !1 {
      %7: u32 = get $1 !1
      %8: bool = cmp.ge %7, %5 !1
      if %8 !1 {
        break 0 !1
      }
      %9: i64 = convert %7 to i64 !1
      %10: i64 = const i64 4 !1
      %11: i64 = mul %9, %10 !1
      %12: ptr<device> = offset %0, %11 !1
      %13: f32 = load %12 f32 x1 align 4 !1
      %14: f32 = get $0 !1
      %15: f32 = add %13, %14 MODE !1
      set $0, %15 !1
    } latch {
      %16: u32 = get $1 !1
      %17: u32 = add %4, %16 !1
      set $1, %17 !1
    }
    %18: f32 = get $0 !1
    %19: f32 = group.sum simd %18 !1
    store %1, [%19] align 4 !1
  }
}
"#;

    /// (loops, widest load, additions to the sum in the first loop).
    fn shape(kernel: &Kernel) -> (usize, u32, usize) {
        let (mut loops, mut widest, mut sums) = (0, 0, 0);
        kernel.body.for_each_inst(&mut |inst| match &inst.op {
            Op::Loop { body, .. } => {
                if loops == 0 {
                    let sets =
                        |inst: &&anymetal_ir::Inst| matches!(&inst.op, Op::LocalSet { local, .. } if local.0 == 0);
                    sums = body.insts.iter().filter(sets).count();
                }
                loops += 1;
            }
            Op::Load { count, .. } => widest = widest.max(*count),
            _ => {}
        });
        (loops, widest, sums)
    }

    fn prepared(mode: &str, shape: Option<[u32; 3]>) -> Kernel {
        let kernel = parse(&SUM.replace("MODE", mode)).unwrap();
        let options = PtxOptions {
            shape,
            ..PtxOptions::default()
        };
        let prepared = prepare(&kernel, &options).kernel;
        verify(&prepared).unwrap();
        prepared
    }

    #[test]
    fn fast_sums_of_whole_simdgroups_read_vectors() {
        assert_eq!(shape(&prepared("fast", Some([256, 1, 1]))), (4, 4, 16));
    }

    #[test]
    fn exact_sums_and_unknown_sizes_keep_their_order() {
        assert_eq!(shape(&prepared("", Some([256, 1, 1]))), (2, 1, 4));
        assert_eq!(shape(&prepared("fast", None)), (2, 1, 4));
        assert_eq!(shape(&prepared("fast", Some([8, 1, 1]))), (2, 1, 4));
    }
}
