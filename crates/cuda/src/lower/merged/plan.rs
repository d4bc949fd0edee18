//! Which loops become pipelines of merged products.

use std::collections::{HashMap, HashSet};

use anymetal_formats::ElementFormat;
use anymetal_ir::passes::Uniformity;
use anymetal_ir::{
    AddressSpace, BinaryOp, Block, CoopId, Extent, Inst, LocalId, MatmulDescriptor, Op, Operand, Scalar, TensorRef,
    ValueId,
};

use crate::lower::coop::Storage;
use crate::lower::{ColumnMap, Lower};

/// SIMD-groups that a `wgmma` joins.
pub(super) const JOINED: u32 = 4;
/// Rows of a SIMD-group in a `wgmma`.
pub(super) const ROWS: u32 = 16;
/// Bytes of a line of a tile in shared memory: a row of the 128-byte swizzle.
pub(super) const LINE: u32 = 128;
/// Elements of a line.
pub(super) const LINE_ELEMENTS: u32 = 64;
/// Stages of the pipeline.
pub(super) const STAGES: u32 = 2;

/// A product whose right operand the whole threadgroup shares.
#[derive(Clone, Copy)]
pub(super) struct Product<'k> {
    /// The operation.
    pub inst: &'k Inst,
    pub descriptor: &'k MatmulDescriptor,
    pub left: &'k Operand,
    pub right: &'k TensorRef,
    pub destination: CoopId,
    /// Inner dimension.
    pub depth: u32,
}

impl Product<'_> {
    /// The right operand's tile in memory: elements of a row, and rows.
    pub fn tile(&self) -> (u32, u32) {
        if self.descriptor.transpose_right {
            (self.depth, self.descriptor.n)
        } else {
            (self.descriptor.n, self.depth)
        }
    }

    /// Bytes of the right operand's tile.
    pub fn tile_bytes(&self) -> u32 {
        let (inner, outer) = self.tile();
        2 * inner * outer
    }
}

/// A loop that is a pipeline.
pub(super) struct LoopPlan<'k> {
    /// The product at the head of the body; its left operand is a tensor that stays the same.
    pub first: Product<'k>,
    /// The product at its end, which adds to its destination.
    pub second: Product<'k>,
    /// The condition at the head of the body, and what it is when the loop ends.
    pub exit: (ValueId, bool),
    /// What the condition and the right operands' origins are computed by in the body, in order.
    pub slice: Vec<&'k Inst>,
    /// The locals that this reads and that the latch advances, and by how much.
    pub steps: Vec<(LocalId, i64)>,
    /// The first instruction that touches the second product's destination.
    pub settle: *const Inst,
    /// The conversion of the scores to the second product's left operand, after [`settle`](Self::settle), if that is all that it is made of.
    pub conversion: Option<*const Inst>,
    /// SIMD-groups of the threadgroup.
    pub simdgroups: u32,
}

impl LoopPlan<'_> {
    /// Bytes of the left operand of the first product in shared memory.
    pub fn left_bytes(&self) -> u32 {
        self.simdgroups * ROWS * self.first.depth * 2
    }

    /// Blocks that fit on a multiprocessor beside each other: tiles of a thread with 32 registers more, in 64 Ki.
    pub fn blocks(&self) -> u32 {
        let tiles = self.first.descriptor.n / 2 + self.second.descriptor.n / 2 + self.second.depth / 4;
        65536 / (32 * self.simdgroups * (tiles + 32).next_multiple_of(8))
    }

    /// The type of the elements in instructions.
    pub fn element(&self) -> &'static str {
        if self.first.right.format == ElementFormat::F16 {
            "f16"
        } else {
            "bf16"
        }
    }
}

/// The tensor's dimension 0 has stride 1, and it is a plain 16-bit tensor of two dimensions in device memory.
fn is_plain(lower: &Lower, tensor: &TensorRef) -> bool {
    tensor.origin.len() == 2
        && matches!(tensor.space, AddressSpace::Device | AddressSpace::Constant)
        && matches!(tensor.format, ElementFormat::F16 | ElementFormat::BF16)
        && tensor.scales.is_none()
        && lower.constant(tensor.strides[0]) == Some(1)
        && lower.effects.reads_constant_memory(lower.kernel, tensor.pointer)
}

/// The instructions of a body that run one after the other, with those of the branches that are known to be taken.
fn spine<'k>(lower: &Lower<'k>, block: &'k Block, out: &mut Vec<&'k Inst>) {
    for inst in &block.insts {
        match &inst.op {
            Op::If {
                condition,
                then,
                otherwise,
            } if lower.constant(*condition).is_some() => {
                let taken = if lower.constant(*condition) == Some(0) {
                    otherwise
                } else {
                    then
                };
                spine(lower, taken, out);
            }
            _ => out.push(inst),
        }
    }
}

/// Calls `f` with an instruction and those nested in it.
fn each<'k>(inst: &'k Inst, f: &mut impl FnMut(&'k Inst)) {
    f(inst);
    for block in inst.op.blocks().into_iter().flatten() {
        block.for_each_inst(f);
    }
}

/// True if the instruction or one that is nested in it touches the tile.
fn touches(inst: &Inst, coop: CoopId) -> bool {
    let mut found = false;
    each(inst, &mut |inst| {
        found |= inst.op.cooperatives().iter().any(|(id, _)| *id == coop)
    });
    found |= matches!(inst.op, Op::CoopMap { over, .. } if over == coop);
    found
}

impl<'k> Lower<'k> {
    /// How many uniform structured operations come before a block's in the kernel: its place in [`UniformityInfo::control`].
    fn control_place(&self, wanted: &Block) -> Option<usize> {
        fn search(block: &Block, wanted: *const Block, at: &mut usize) -> Option<usize> {
            for inst in &block.insts {
                if let Some(first) = inst.op.blocks()[0] {
                    if std::ptr::from_ref(first) == wanted {
                        return Some(*at);
                    }
                    *at += 1;
                }
                for nested in inst.op.blocks().into_iter().flatten() {
                    if let Some(place) = search(nested, wanted, at) {
                        return Some(place);
                    }
                }
            }
            None
        }
        search(&self.kernel.body, wanted, &mut 0)
    }

    /// True if all threads of the threadgroup run the loop together.
    fn runs_together(&self, body: &Block) -> bool {
        let Some(control) = self.control_place(body).and_then(|at| self.uniformity.control.get(at)) else {
            return false;
        };
        [control.entry, control.body, control.latch, control.exit]
            .iter()
            .all(|level| *level <= Uniformity::Threadgroup)
    }

    fn is_shared(&self, value: ValueId) -> bool {
        self.uniformity.value(value) <= Uniformity::Threadgroup
    }

    /// The instruction as a product that can be merged.
    fn merged_product(&self, inst: &'k Inst, variant: &HashSet<ValueId>) -> Option<Product<'k>> {
        let Op::Matmul {
            descriptor,
            simdgroups: 1,
            left,
            right: Operand::Tensor(right),
            destination: Operand::Coop(destination),
        } = &inst.op
        else {
            return None;
        };
        let product = Product {
            inst,
            descriptor,
            left,
            right,
            destination: *destination,
            depth: descriptor.k?,
        };
        let (inner, outer) = product.tile();
        let tile = self.tile(*destination);
        let fits = descriptor.m == ROWS
            && !descriptor.transpose_left
            && product.depth.is_multiple_of(16)
            && descriptor.n.is_multiple_of(16)
            && descriptor.n <= 256
            && inner.is_multiple_of(LINE_ELEMENTS)
            && outer <= 256
            && tile.element == Scalar::F32
            && (tile.rows, tile.columns) == (ROWS, descriptor.n);
        let mut shared = is_plain(self, right);
        right.for_each_value(&mut |value| shared &= self.is_shared(value));
        // Only the origin may change from one iteration to the next.
        shared &= !variant.contains(&right.pointer);
        shared &= right
            .strides
            .iter()
            .chain(&right.base_extents)
            .all(|value| !variant.contains(value));
        (fits && shared && self.starts_aligned(right) && self.covers(right, [inner, outer])).then_some(product)
    }

    /// True if the view's first column is a known one at a multiple of 16 bytes.
    fn starts_aligned(&self, tensor: &TensorRef) -> bool {
        self.constant(tensor.origin[0])
            .is_some_and(|origin| origin.is_multiple_of(8) && origin <= i32::MAX as u64)
    }

    /// True if the tile in a view ends where the base ends and nowhere before.
    fn covers(&self, tensor: &TensorRef, tile: [u32; 2]) -> bool {
        (0..2).all(|d| match tensor.extents[d] {
            Extent::Rest => true,
            Extent::Static(extent) => extent >= u64::from(tile[d]),
            Extent::Dynamic(value) => self.is_rest(value, tensor.base_extents[d], tensor.origin[d]),
        })
    }

    /// True if the value is `base − origin`.
    fn is_rest(&self, value: ValueId, base: ValueId, origin: ValueId) -> bool {
        let mut found = false;
        self.kernel.body.for_each_inst(&mut |inst| {
            if inst.count == 1 && inst.first == value {
                found =
                    matches!(inst.op, Op::Binary { op: BinaryOp::Sub, lhs, rhs, .. } if (lhs, rhs) == (base, origin));
            }
        });
        found
    }

    /// How the loop becomes a pipeline; `None` if it does not.
    pub(super) fn loop_plan(&self, body: &'k Block, latch: &'k Block) -> Option<LoopPlan<'k>> {
        let options = self.options;
        let threads = options.threads;
        if !options.target.has_wgmma()
            || options.checked
            || !options.unaliased
            || !options.whole
            || self.column_map != ColumnMap::Natural
            || self.permuted_lanes
            || self.active_mask().is_some()
            || !threads.is_multiple_of(32 * JOINED)
            || threads > 512
            || !self.runs_together(body)
        {
            return None;
        }
        let mut line = Vec::new();
        spine(self, body, &mut line);
        let mut variant = HashSet::new();
        for inst in &line {
            each(inst, &mut |inst| variant.extend(inst.results()));
        }
        let products: Vec<usize> = (0..line.len())
            .filter(|&at| matches!(line[at].op, Op::Matmul { .. }))
            .collect();
        let [head, end] = products[..] else {
            return None;
        };
        let first = self.merged_product(line[head], &variant)?;
        let second = self.merged_product(line[end], &variant)?;
        let plan = self.ends_of(&line, head, end, first, second)?;
        (self.is_straight(&line, head, end, latch)
            && self.keeps_tiles(&plan, &line, (head, end), [body, latch], &variant))
        .then_some(())?;
        let exit = exit_of(&line[..head])?;
        let (slice, steps) = self.advancing(&line, head, exit.0, [first.right, second.right], latch, &variant)?;
        let conversion = self.conversion_of(&plan, &line[..end]);
        Some(LoopPlan {
            conversion,
            exit,
            slice,
            steps,
            ..plan
        })
    }

    /// The plan without the slice.
    fn ends_of(
        &self,
        line: &[&'k Inst],
        head: usize,
        end: usize,
        first: Product<'k>,
        second: Product<'k>,
    ) -> Option<LoopPlan<'k>> {
        let settle = line[head + 1..=end]
            .iter()
            .find(|inst| touches(inst, second.destination))?;
        let before = line[..head].iter().any(|inst| touches(inst, second.destination));
        let kinds = !first.descriptor.accumulate
            && second.descriptor.accumulate
            && first.destination != second.destination
            && first.right.format == second.right.format;
        (kinds && !before).then_some(LoopPlan {
            first,
            second,
            exit: (ValueId(0), true),
            slice: Vec::new(),
            steps: Vec::new(),
            settle: std::ptr::from_ref(*settle),
            conversion: None,
            simdgroups: self.options.threads / 32,
        })
    }

    /// The conversion of the scores, if nothing touches the scores or its result from [`LoopPlan::settle`] on but it and the product.
    fn conversion_of(&self, plan: &LoopPlan<'k>, line: &[&'k Inst]) -> Option<*const Inst> {
        let Operand::Coop(left) = *plan.second.left else {
            return None;
        };
        let scores = plan.first.destination;
        let settle = line.iter().position(|inst| std::ptr::from_ref(*inst) == plan.settle)?;
        let mut touching = line[settle..]
            .iter()
            .filter(|inst| touches(inst, scores) || touches(inst, left));
        let conversion = touching.next()?;
        let whole = matches!(conversion.op, Op::CoopConvert { to, from } if (to, from) == (left, scores));
        let mut uses = 0;
        self.kernel
            .body
            .for_each_inst(&mut |inst| uses += usize::from(is_access(&inst.op, left)));
        let same = self.tile(left).storage == Storage::Single && self.tile(scores).storage == Storage::Single;
        (whole && same && touching.next().is_none() && uses == 2).then_some(std::ptr::from_ref(*conversion))
    }

    /// The only way out of the loop is before the first product, and nothing else uses the staging area or returns.
    fn is_straight(&self, line: &[&'k Inst], head: usize, end: usize, latch: &'k Block) -> bool {
        let mut straight = true;
        for (at, inst) in line.iter().enumerate() {
            each(inst, &mut |inst| {
                straight &= match inst.op {
                    Op::Break(_) => at < head,
                    Op::Matmul { .. } => at == head || at == end,
                    Op::Continue(_) | Op::Return | Op::Convolution { .. } | Op::Loop { .. } | Op::Scope { .. } => false,
                    Op::Barrier { scope, .. } => scope != anymetal_ir::Scope::Threadgroup,
                    _ => true,
                };
            });
        }
        latch.for_each_inst(&mut |inst| {
            straight &= !inst.op.is_structured() && !inst.op.is_terminator() && inst.op.cooperatives().is_empty();
        });
        straight
    }

    /// The tiles in flight are touched where the pipeline expects it only.
    fn keeps_tiles(
        &self,
        plan: &LoopPlan<'k>,
        line: &[&'k Inst],
        (head, end): (usize, usize),
        blocks: [&'k Block; 2],
        variant: &HashSet<ValueId>,
    ) -> bool {
        let scores = plan.first.destination;
        // Scores are dead at the second product, and nobody outside looks at them.
        let mut inside = 0;
        for block in blocks {
            block.for_each_inst(&mut |inst| inside += usize::from(is_access(&inst.op, scores)));
        }
        let mut all = 0;
        self.kernel
            .body
            .for_each_inst(&mut |inst| all += usize::from(is_access(&inst.op, scores)));
        let dead = line[..head]
            .iter()
            .chain(&line[end + 1..])
            .all(|inst| !touches(inst, scores));
        // The first product's left operand is a tensor that does not change.
        let Operand::Tensor(left) = plan.first.left else {
            return false;
        };
        let mut constant = is_plain(self, left) && left.format == plan.first.right.format;
        left.for_each_value(&mut |value| constant &= !variant.contains(&value));
        constant &= [
            left.pointer,
            left.strides[1],
            left.base_extents[0],
            left.base_extents[1],
        ]
        .into_iter()
        .all(|value| self.is_shared(value));
        constant &= self.uniformity.value(left.origin[1]) <= Uniformity::Simdgroup
            && self
                .constant(left.origin[0])
                .is_some_and(|origin| origin.is_multiple_of(8))
            && plan.first.depth.is_multiple_of(LINE_ELEMENTS)
            && self.covers(left, [plan.first.depth, ROWS]);
        // The second's is a tile that becomes 16-bit, or is.
        let Operand::Coop(left) = plan.second.left else {
            return false;
        };
        let tile = self.tile(*left);
        let fits = match (tile.storage, tile.element) {
            (Storage::Single, Scalar::F32) => plan.second.descriptor.relaxed_precision,
            (Storage::Pairs, Scalar::F16) => plan.second.right.format == ElementFormat::F16,
            (Storage::Pairs, Scalar::BF16) => plan.second.right.format == ElementFormat::BF16,
            _ => false,
        };
        inside == all
            && dead
            && constant
            && fits
            && *left != scores
            && (tile.rows, tile.columns) == (ROWS, plan.second.depth)
    }

    /// What the right operands' origins are computed by, and what it starts from.
    #[allow(clippy::type_complexity)]
    fn advancing(
        &self,
        line: &[&'k Inst],
        head: usize,
        exit: ValueId,
        rights: [&TensorRef; 2],
        latch: &'k Block,
        variant: &HashSet<ValueId>,
    ) -> Option<(Vec<&'k Inst>, Vec<(LocalId, i64)>)> {
        let mut wanted: HashSet<ValueId> = rights.into_iter().flat_map(|right| right.origin.clone()).collect();
        wanted.insert(exit);
        let (mut slice, mut locals) = (Vec::new(), HashSet::new());
        for inst in line[..head].iter().rev() {
            if !inst.results().any(|result| wanted.contains(&result)) {
                continue;
            }
            match &inst.op {
                Op::LocalGet(local) => {
                    locals.insert(*local);
                }
                op if op.is_pure() => op.for_each_operand(|value| {
                    wanted.insert(value);
                }),
                _ => return None,
            }
            slice.push(*inst);
        }
        slice.reverse();
        let made: HashSet<ValueId> = slice.iter().flat_map(|inst| inst.results()).collect();
        let complete = wanted
            .iter()
            .all(|value| made.contains(value) || !variant.contains(value));
        let steps = self.latch_steps(line, latch);
        let steps = locals
            .into_iter()
            .map(|local| Some((local, *steps.get(&local)?)))
            .collect::<Option<Vec<_>>>()?;
        complete.then_some((slice, steps))
    }

    /// By how much the latch advances 32-bit locals that are set nowhere else in the loop.
    fn latch_steps(&self, line: &[&'k Inst], latch: &'k Block) -> HashMap<LocalId, i64> {
        let mut gets: HashMap<ValueId, LocalId> = HashMap::new();
        let mut sums: HashMap<ValueId, (LocalId, i64)> = HashMap::new();
        let mut constants: HashMap<ValueId, i64> = HashMap::new();
        let mut steps: HashMap<LocalId, i64> = HashMap::new();
        let mut lost: HashSet<LocalId> = HashSet::new();
        for inst in &latch.insts {
            match &inst.op {
                Op::Const(c) => {
                    constants.insert(inst.first, i64::from(c.bits as i32));
                }
                Op::LocalGet(local) => {
                    gets.insert(inst.first, *local);
                }
                Op::Binary {
                    op: BinaryOp::Add,
                    lhs,
                    rhs,
                    ..
                } => {
                    for (a, b) in [(lhs, rhs), (rhs, lhs)] {
                        let step = constants
                            .get(b)
                            .copied()
                            .or_else(|| self.constant(*b).map(|bits| i64::from(bits as i32)));
                        if let (Some(local), Some(step)) = (gets.get(a), step) {
                            sums.insert(inst.first, (*local, step));
                        }
                    }
                }
                Op::LocalSet { local, value } => match sums.get(value) {
                    Some((from, step)) if from == local && !steps.contains_key(local) => {
                        steps.insert(*local, *step);
                    }
                    _ => {
                        lost.insert(*local);
                    }
                },
                _ => {}
            }
        }
        let mut set = |inst: &Inst| {
            if let Op::LocalSet { local, .. } = inst.op {
                lost.insert(local);
            }
        };
        for inst in line {
            each(inst, &mut set);
        }
        steps.retain(|local, _| {
            let ty = self.kernel.local(*local).ty;
            !lost.contains(local) && matches!(ty, anymetal_ir::Type::Scalar(Scalar::I32 | Scalar::U32))
        });
        steps
    }
}

/// The one way out of the loop: a condition before the first product.
fn exit_of(line: &[&Inst]) -> Option<(ValueId, bool)> {
    let mut exits = line.iter().filter_map(|inst| match &inst.op {
        Op::If {
            condition,
            then,
            otherwise,
        } => {
            let leaves = |block: &Block| matches!(block.insts.as_slice(), [only] if only.op == Op::Break(0));
            match (leaves(then), leaves(otherwise)) {
                (true, _) if otherwise.insts.is_empty() => Some((*condition, true)),
                (_, true) if then.insts.is_empty() => Some((*condition, false)),
                _ => None,
            }
        }
        _ => None,
    });
    let exit = exits.next()?;
    let mut breaks = 0;
    for inst in line {
        each(inst, &mut |inst| breaks += usize::from(matches!(inst.op, Op::Break(_))));
    }
    (breaks == 1).then_some(exit)
}

/// True if the operation reads or writes the tile (setting it to zero aside).
fn is_access(op: &Op, coop: CoopId) -> bool {
    !matches!(op, Op::CoopInit(_))
        && (op.cooperatives().iter().any(|(id, _)| *id == coop)
            || matches!(op, Op::CoopMap { over, .. } if *over == coop))
}
