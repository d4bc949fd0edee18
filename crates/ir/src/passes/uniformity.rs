//! Which values are the same in which lanes, and which lanes run what together.
//!
//! # What the levels mean
//! A value is *uniform at a level* if all lanes of the unit (dispatch, threadgroup, SIMD-group) that are active when the
//! instruction runs get the same result. A value is visible only in its block, so a loop that lanes leave at different
//! times needs no care for values; it does for locals, whose uniformity is judged over the whole kernel: a local is
//! uniform at a level if every [`Op::LocalGet`] gives all active lanes of the unit the same value, *and* one storage
//! cell for the unit, written once each time lanes of the unit run the set together, is enough to hold it.
//!
//! # How locals are judged
//! Call a region (a branch of an `If`, a loop, a `Scope`, a map) divergent at a level if lanes of one unit that enter the
//! surrounding block together need not run it together to its end. A set in a divergent region reaches a part of the
//! lanes only. That does no harm if nobody else looks: every get outside that region comes before it, and the region runs
//! once for each run of the block that holds all accesses of the local, which starts with a set.

use crate::kernel::{Block, Inst, Kernel};
use crate::op::{Builtin, GroupOp, GroupWidth, Op, ShuffleOp, VoteOp};
use crate::passes::effects::{Effects, Root};
use crate::types::{AddressSpace, LocalId, MemoryId, ValueId};

/// The lanes that agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Uniformity {
    /// All lanes of the dispatch.
    #[default]
    Dispatch,
    /// All lanes of each threadgroup.
    Threadgroup,
    /// All lanes of each SIMD-group.
    Simdgroup,
    /// None: each lane for itself.
    Varying,
}

/// What is known of one structured operation (`If`, `Loop`, `Scope`, `CoopMap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Control {
    /// The lanes that reach the operation together (or not at all).
    pub entry: Uniformity,
    /// The lanes that run the (first) block together: both branches of an `If`, the body of a loop, scope or map.
    pub body: Uniformity,
    /// The lanes that run the latch of a loop together; `body` for other operations.
    pub latch: Uniformity,
    /// The lanes that leave a loop or a scope together, relative to its entry.
    pub exit: Uniformity,
}

/// The result of the analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformityInfo {
    /// By [`ValueId`].
    pub values: Vec<Uniformity>,
    /// By [`LocalId`].
    pub locals: Vec<Uniformity>,
    /// By [`MemoryId`], for `thread` memory: the level at which all copies hold the same bytes.
    pub memory: Vec<Uniformity>,
    /// One entry for each structured operation, numbered as they are met on a walk of the body, outer before inner, the
    /// blocks of an operation in order.
    pub control: Vec<Control>,
}

impl UniformityInfo {
    /// Analyses a kernel.
    pub fn of(kernel: &Kernel) -> UniformityInfo {
        Self::with_effects(kernel, &Effects::of(kernel))
    }

    /// Analyses a kernel whose effects are known.
    pub fn with_effects(kernel: &Kernel, effects: &Effects) -> UniformityInfo {
        let mut analysis = Analysis::new(kernel, effects);
        analysis.fixpoint();
        UniformityInfo {
            values: analysis.values,
            locals: analysis.locals,
            memory: analysis.memory,
            control: analysis.control,
        }
    }

    /// The level of a value.
    pub fn value(&self, value: ValueId) -> Uniformity {
        self.values[value.index()]
    }

    /// The level of a local.
    pub fn local(&self, local: LocalId) -> Uniformity {
        self.locals[local.index()]
    }
}

/// A node of the tree of blocks and structured operations.
#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    depth: u32,
    /// Position of the first instruction in a walk of the kernel.
    first: u32,
    /// True for a `Loop` (the operation, not its blocks).
    is_loop: bool,
    /// True for a block, false for an operation.
    is_block: bool,
    /// At which levels the node is divergent: at those below this one.
    divergence: Uniformity,
}

#[derive(Clone, Copy, Debug)]
struct AccessSite {
    node: u32,
    at: u32,
    /// The value that is set; `None` for a get.
    set: Option<ValueId>,
}

/// An operation that can be left by `Break` or `Continue`.
#[derive(Clone, Copy)]
struct Target {
    /// The node of the operation.
    node: u32,
    /// The node of the body of a loop.
    body: u32,
    is_loop: bool,
}

struct Analysis<'a> {
    kernel: &'a Kernel,
    effects: &'a Effects,
    values: Vec<Uniformity>,
    locals: Vec<Uniformity>,
    memory: Vec<Uniformity>,
    control: Vec<Control>,
    /// By position in `control`: the level of the returns up to the end of a loop.
    loop_returns: Vec<Uniformity>,
    nodes: Vec<Node>,
    sites: Vec<Vec<AccessSite>>,
    changed: bool,
    // State of a walk.
    next_node: u32,
    next_control: usize,
    at: u32,
    /// The nodes around the current point, each with the divergence that lanes at this point have seen so far.
    stack: Vec<(u32, Uniformity)>,
    targets: Vec<Target>,
    returned: Uniformity,
    first_walk: bool,
}

impl<'a> Analysis<'a> {
    fn new(kernel: &'a Kernel, effects: &'a Effects) -> Self {
        let memory = kernel
            .memory
            .iter()
            .enumerate()
            .map(|(i, object)| match object.space {
                AddressSpace::Constant => Uniformity::Dispatch,
                AddressSpace::Thread
                    if !effects.unknown_writes[AddressSpace::Thread as usize] || !effects.memory[i].escapes =>
                {
                    Uniformity::Dispatch
                }
                _ => Uniformity::Varying,
            })
            .collect();
        Analysis {
            kernel,
            effects,
            values: vec![Uniformity::Dispatch; kernel.values.len()],
            locals: vec![Uniformity::Dispatch; kernel.locals.len()],
            memory,
            control: Vec::new(),
            loop_returns: Vec::new(),
            nodes: Vec::new(),
            sites: vec![Vec::new(); kernel.locals.len()],
            changed: true,
            next_node: 0,
            next_control: 0,
            at: 0,
            stack: Vec::new(),
            targets: Vec::new(),
            returned: Uniformity::Dispatch,
            first_walk: true,
        }
    }

    /// Levels only rise, so this ends after few walks.
    fn fixpoint(&mut self) {
        while self.changed {
            self.changed = false;
            self.next_node = 0;
            self.next_control = 0;
            self.at = 0;
            self.returned = Uniformity::Dispatch;
            self.block(&self.kernel.body, Uniformity::Dispatch);
            self.first_walk = false;
            for local in 0..self.locals.len() {
                let level = self.judge(local);
                if level > self.locals[local] {
                    self.locals[local] = level;
                    self.changed = true;
                }
            }
        }
    }

    fn raise(&mut self, value: ValueId, level: Uniformity) {
        let slot = &mut self.values[value.index()];
        if level > *slot {
            *slot = level;
            self.changed = true;
        }
    }

    fn raise_node(&mut self, node: u32, level: Uniformity) {
        let slot = &mut self.nodes[node as usize].divergence;
        if level > *slot {
            *slot = level;
            self.changed = true;
        }
    }

    /// Enters a node; its divergence is at least `level`.
    fn enter(&mut self, level: Uniformity, is_block: bool, is_loop: bool) -> u32 {
        // Lanes leave a loop body by `Continue` on the way: those still here count, not those that will have left.
        let is_loop_body = self
            .targets
            .last()
            .is_some_and(|target| target.is_loop && target.body == self.next_node);
        let id = self.next_node;
        self.next_node += 1;
        if self.first_walk {
            self.nodes.push(Node {
                parent: self.stack.last().map_or(u32::MAX, |top| top.0),
                depth: self.stack.len() as u32,
                first: self.at,
                is_loop,
                is_block,
                divergence: Uniformity::Dispatch,
            });
        }
        self.raise_node(id, level);
        let seen = if is_loop_body {
            level
        } else {
            self.nodes[id as usize].divergence
        };
        self.stack.push((id, seen));
        id
    }

    /// The lanes that run the current point together, returned lanes aside.
    fn here(&self) -> Uniformity {
        self.stack.iter().map(|entry| entry.1).max().unwrap_or_default()
    }

    fn block(&mut self, block: &Block, level: Uniformity) -> u32 {
        let node = self.enter(level, true, false);
        for inst in &block.insts {
            self.at += 1;
            self.inst(inst, node);
        }
        self.stack.pop();
        node
    }

    fn level(&self, value: ValueId) -> Uniformity {
        self.values[value.index()]
    }

    fn operands(&self, op: &Op) -> Uniformity {
        let mut level = Uniformity::Dispatch;
        op.for_each_operand(|value| level = level.max(self.level(value)));
        level
    }

    fn inst(&mut self, inst: &Inst, block: u32) {
        match &inst.op {
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                let index = self.begin_control();
                let level = self.level(*condition);
                self.enter(Uniformity::Dispatch, false, false);
                self.block(then, level);
                self.block(otherwise, level);
                self.stack.pop();
                let body = self.control[index].entry.max(level);
                self.end_control(index, body, body, Uniformity::Dispatch);
            }
            Op::Loop { body, latch, .. } => {
                let index = self.begin_control();
                let node = self.enter(Uniformity::Dispatch, false, true);
                let entry = self.control[index].entry;
                // The body is the next node.
                self.targets.push(Target {
                    node,
                    body: self.next_node,
                    is_loop: true,
                });
                // Lanes that return in one iteration are missing in the next.
                self.returned = self.returned.max(self.loop_returns[index]);
                let body = self.block(body, Uniformity::Dispatch);
                self.block(latch, Uniformity::Dispatch);
                self.targets.pop();
                self.stack.pop();
                let exit = self.nodes[node as usize].divergence;
                if self.returned > self.loop_returns[index] {
                    self.loop_returns[index] = self.returned;
                    self.changed = true;
                }
                let latch = entry.max(exit).max(self.returned);
                let body = latch.max(self.nodes[body as usize].divergence);
                self.end_control(index, body, latch, exit);
            }
            Op::Scope { body } => {
                let index = self.begin_control();
                let node = self.enter(Uniformity::Dispatch, false, false);
                self.targets.push(Target {
                    node,
                    body: node,
                    is_loop: false,
                });
                self.block(body, Uniformity::Dispatch);
                self.targets.pop();
                self.stack.pop();
                let exit = self.nodes[node as usize].divergence;
                let body = self.control[index].entry.max(exit);
                self.end_control(index, body, body, exit);
            }
            Op::CoopMap { body, .. } => {
                let index = self.begin_control();
                self.enter(Uniformity::Varying, false, true);
                self.block(body, Uniformity::Dispatch);
                self.stack.pop();
                let level = Uniformity::Varying;
                self.end_control(index, level, level, Uniformity::Dispatch);
            }
            Op::Break(depth) | Op::Continue(depth) => {
                let Some(at) = self.targets.len().checked_sub(*depth as usize + 1) else {
                    return;
                };
                let target = self.targets[at];
                let node = match inst.op {
                    Op::Continue(_) if target.is_loop => target.body,
                    _ => target.node,
                };
                // Divergence between the target and here: lanes that are not here go on without those that leave.
                let level = self
                    .stack
                    .iter()
                    .rev()
                    .take_while(|entry| entry.0 != node)
                    .map(|entry| entry.1)
                    .max()
                    .unwrap_or_default();
                if let (Op::Continue(_), Some(entry)) =
                    (&inst.op, self.stack.iter_mut().find(|entry| entry.0 == target.body))
                {
                    entry.1 = entry.1.max(level);
                }
                self.raise_node(node, level);
            }
            Op::Return => self.returned = self.returned.max(self.here()),
            Op::LocalGet(local) => {
                let level = self.locals[local.index()];
                self.site(*local, block, None);
                self.raise(inst.first, level);
            }
            Op::LocalSet { local, value } => self.site(*local, block, Some(*value)),
            Op::Store { pointer, values, .. } => {
                let level = values
                    .iter()
                    .map(|&value| self.level(value))
                    .fold(self.level(*pointer).max(self.here()), Uniformity::max);
                self.stored(*pointer, level);
            }
            Op::TensorStore { tensor, .. } => {
                let level = self.operands(&inst.op).max(self.here());
                self.stored(tensor.pointer, level);
            }
            Op::CoopStore { tensor, .. } => self.stored(tensor.pointer, Uniformity::Varying),
            Op::Matmul { destination, .. } | Op::Convolution { destination, .. } => {
                if let crate::tensor::Operand::Tensor(tensor) = destination {
                    self.stored(tensor.pointer, Uniformity::Varying);
                }
            }
            op => {
                if let Op::Atomic { pointer, .. } = op {
                    self.stored(*pointer, Uniformity::Varying);
                }
                let level = self.result(op);
                for value in inst.results() {
                    self.raise(value, level);
                }
            }
        }
    }

    fn begin_control(&mut self) -> usize {
        let index = self.next_control;
        self.next_control += 1;
        if self.first_walk {
            self.control.push(Control::default());
            self.loop_returns.push(Uniformity::Dispatch);
        }
        let entry = self.here().max(self.returned);
        self.control[index].entry = self.control[index].entry.max(entry);
        index
    }

    fn end_control(&mut self, index: usize, body: Uniformity, latch: Uniformity, exit: Uniformity) {
        let control = &mut self.control[index];
        control.body = control.body.max(body);
        control.latch = control.latch.max(latch);
        control.exit = control.exit.max(exit);
    }

    fn site(&mut self, local: LocalId, node: u32, set: Option<ValueId>) {
        if self.first_walk {
            self.sites[local.index()].push(AccessSite { node, at: self.at, set });
        }
    }

    fn raise_memory(&mut self, id: MemoryId, level: Uniformity) {
        let slot = &mut self.memory[id.index()];
        if level > *slot {
            *slot = level;
            self.changed = true;
        }
    }

    fn stored(&mut self, pointer: ValueId, level: Uniformity) {
        // A pointer that may point into several objects is a varying choice at worst; its level is in `level`.
        for i in 0..self.effects.roots(pointer).known.len() {
            if let Root::Memory(id) = self.effects.roots(pointer).known[i] {
                self.raise_memory(id, level);
            }
        }
    }

    /// The level of what a pointer points to, given a uniform pointer.
    fn contents(&self, pointer: ValueId) -> Uniformity {
        if self.effects.reads_constant_memory(self.kernel, pointer) {
            return Uniformity::Dispatch;
        }
        let roots = self.effects.roots(pointer);
        if roots.unknown {
            return Uniformity::Varying;
        }
        roots
            .known
            .iter()
            .map(|root| match root {
                Root::Memory(id) if self.kernel.memory_object(*id).space == AddressSpace::Thread => {
                    self.memory[id.index()]
                }
                _ => Uniformity::Varying,
            })
            .max()
            .unwrap_or(Uniformity::Varying)
    }

    fn result(&self, op: &Op) -> Uniformity {
        match op {
            Op::Builtin(builtin) => self::builtin(*builtin),
            Op::MemoryPointer(id) => match self.kernel.memory_object(*id).space {
                // The address of lane-private memory is used for that memory only, so it counts as one address.
                AddressSpace::Thread | AddressSpace::Constant => Uniformity::Dispatch,
                _ => Uniformity::Threadgroup,
            },
            Op::ArgumentPointer(id) => match self.kernel.arguments[id.index()].kind {
                crate::kernel::ArgumentKind::Threadgroup { .. } => Uniformity::Threadgroup,
                _ => Uniformity::Dispatch,
            },
            Op::Load { pointer, .. } => self.level(*pointer).max(self.contents(*pointer)),
            Op::TensorLoad { tensor, .. } => self.operands(op).max(self.contents(tensor.pointer)).max(
                tensor
                    .scales
                    .as_ref()
                    .map_or(Uniformity::Dispatch, |plane| self.contents(plane.pointer)),
            ),
            Op::Group { op, width, operand } => match op {
                GroupOp::Min | GroupOp::Max | GroupOp::And | GroupOp::Or
                    if self.level(*operand) <= Uniformity::Simdgroup =>
                {
                    self.level(*operand)
                }
                GroupOp::PrefixInclusiveSum
                | GroupOp::PrefixExclusiveSum
                | GroupOp::PrefixInclusiveProduct
                | GroupOp::PrefixExclusiveProduct => Uniformity::Varying,
                _ => group(*width),
            },
            Op::Shuffle {
                op,
                width,
                operand,
                index,
            } => {
                let operand = self.level(*operand);
                if operand <= Uniformity::Simdgroup {
                    return operand;
                }
                match op {
                    ShuffleOp::Broadcast | ShuffleOp::BroadcastFirst => group(*width),
                    ShuffleOp::Shuffle if self.level(*index) <= Uniformity::Simdgroup => group(*width),
                    _ => Uniformity::Varying,
                }
            }
            Op::Vote { op, width, .. } => match op {
                VoteOp::IsFirst => Uniformity::Varying,
                _ => group(*width),
            },
            Op::Atomic { .. }
            | Op::SimdgroupMatrixMultiply { .. }
            | Op::CoopGet { .. }
            | Op::CoopValid { .. }
            | Op::CoopIndex { .. }
            | Op::CoopMapSlot { .. }
            | Op::CoopElement(_)
            | Op::CoopElementIndex => Uniformity::Varying,
            _ => self.operands(op),
        }
    }

    /// The level of a local, given the levels of values and regions.
    fn judge(&self, local: usize) -> Uniformity {
        let sites = &self.sites[local];
        let mut level = self.locals[local];
        for value in sites.iter().filter_map(|site| site.set) {
            level = level.max(self.level(value));
        }
        let Some(region) = sites.iter().map(|site| site.node).reduce(|a, b| self.common(a, b)) else {
            return level;
        };
        let mut region = region;
        while !self.nodes[region as usize].is_block {
            region = self.nodes[region as usize].parent;
        }
        let starts_with_set = sites[0].set.is_some() && sites[0].node == region;
        let outside = self.chain_max(region);
        loop {
            let next = match level {
                Uniformity::Dispatch => Uniformity::Threadgroup,
                Uniformity::Threadgroup => Uniformity::Simdgroup,
                _ => Uniformity::Varying,
            };
            if level == Uniformity::Varying || self.local_fits(sites, region, starts_with_set, outside, level) {
                return level;
            }
            level = next;
        }
    }

    fn local_fits(
        &self,
        sites: &[AccessSite],
        region: u32,
        starts_with_set: bool,
        outside: Uniformity,
        level: Uniformity,
    ) -> bool {
        if outside > level && !starts_with_set {
            return false;
        }
        for set in sites.iter().filter(|site| site.set.is_some()) {
            // The innermost divergent node around the set, inside the region.
            let mut divergent = None;
            let mut node = set.node;
            let mut loops_around = false;
            while node != region {
                let here = self.nodes[node as usize];
                if divergent.is_none() && here.divergence > level {
                    divergent = Some(node);
                } else if divergent.is_some() && here.is_loop {
                    loops_around = true;
                }
                node = here.parent;
            }
            let Some(divergent) = divergent else { continue };
            if loops_around || !starts_with_set {
                return false;
            }
            let first = self.nodes[divergent as usize].first;
            let seen_outside = sites
                .iter()
                .any(|get| get.set.is_none() && get.at > first && !self.inside(get.node, divergent));
            if seen_outside {
                return false;
            }
        }
        true
    }

    fn chain_max(&self, mut node: u32) -> Uniformity {
        let mut level = Uniformity::Dispatch;
        while node != u32::MAX {
            level = level.max(self.nodes[node as usize].divergence);
            node = self.nodes[node as usize].parent;
        }
        level
    }

    fn inside(&self, mut node: u32, of: u32) -> bool {
        let depth = self.nodes[of as usize].depth;
        while self.nodes[node as usize].depth > depth {
            node = self.nodes[node as usize].parent;
        }
        node == of
    }

    fn common(&self, mut a: u32, mut b: u32) -> u32 {
        while a != b {
            if self.nodes[a as usize].depth >= self.nodes[b as usize].depth {
                a = self.nodes[a as usize].parent;
            } else {
                b = self.nodes[b as usize].parent;
            }
        }
        a
    }
}

fn group(width: GroupWidth) -> Uniformity {
    match width {
        GroupWidth::Simd => Uniformity::Simdgroup,
        GroupWidth::Quad => Uniformity::Varying,
    }
}

fn builtin(builtin: Builtin) -> Uniformity {
    match builtin {
        Builtin::ThreadPositionInGrid(_)
        | Builtin::ThreadPositionInThreadgroup(_)
        | Builtin::ThreadIndexInThreadgroup
        | Builtin::ThreadIndexInSimdgroup
        | Builtin::ThreadIndexInQuadgroup
        | Builtin::QuadgroupIndexInThreadgroup => Uniformity::Varying,
        Builtin::SimdgroupIndexInThreadgroup => Uniformity::Simdgroup,
        Builtin::ThreadgroupPositionInGrid(_)
        | Builtin::ThreadsPerThreadgroup(_)
        | Builtin::SimdgroupsPerThreadgroup
        | Builtin::QuadgroupsPerThreadgroup => Uniformity::Threadgroup,
        Builtin::DispatchThreadsPerThreadgroup(_)
        | Builtin::ThreadsPerGrid(_)
        | Builtin::ThreadgroupsPerGrid(_)
        | Builtin::DispatchSimdgroupsPerThreadgroup
        | Builtin::ThreadsPerSimdgroup => Uniformity::Dispatch,
    }
}
