//! From the steps of a plan to actions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::exec::dispatch::Dispatcher;
use crate::exec::fused::{
    Affine, Check, FIRST_INPUT, Form, Generated, Lowered, MapOp, Memory, Node, OUTPUT, Operand, Reduced, RowProgram,
    STATUS, Stage, lower, map_kernel,
};
use crate::exec::plan::{self, Plan, SlotType, Step, StepOp};
use crate::program::OpCode;

use super::{Action, Bind, DevicePlan, Dispatch, MemoryId, START, Site, Source, What};

/// An expression that reads more memories, or does more, is cut in two.
const MAX_LOADS: usize = 12;
const MAX_OPERATIONS: usize = 64;

/// The plan as actions. An error says what cannot be done; then the plan runs step by step.
pub(super) fn build(plan: &Plan, dispatcher: &Dispatcher) -> Result<DevicePlan, OpError> {
    let mut uses = vec![0usize; plan.slots.len()];
    for step in &plan.steps {
        let mut read: Vec<u32> = step.inputs.iter().filter_map(slot_of).collect();
        read.sort_unstable();
        read.dedup();
        read.into_iter().for_each(|s| uses[s as usize] += 1);
    }
    for slot in plan.outputs.iter().filter_map(slot_of) {
        uses[slot as usize] += 1;
    }
    let mut builder = Build {
        plan,
        dispatcher,
        out: DevicePlan {
            memories: Vec::new(),
            actions: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            sites: Vec::new(),
        },
        values: vec![None; plan.slots.len()],
        uses,
        deferred: HashMap::new(),
        next: 0,
        step: 0,
        done: vec![false; plan.steps.len()],
        split: HashMap::new(),
    };
    builder.run()?;
    Ok(builder.out)
}

fn slot_of(source: &plan::Source) -> Option<u32> {
    match source {
        plan::Source::Slot(slot) => Some(*slot),
        _ => None,
    }
}

pub(super) struct Build<'a> {
    pub plan: &'a Plan,
    pub dispatcher: &'a Dispatcher,
    out: DevicePlan,
    /// What each slot is.
    pub values: Vec<Option<Operand>>,
    /// Steps (and results) that read each slot.
    uses: Vec<usize>,
    /// Reductions that wait for what follows them.
    deferred: HashMap<u32, Reduced>,
    next: u32,
    /// The step at hand.
    pub step: usize,
    /// Steps that were done together with an earlier one.
    pub done: Vec<bool>,
    /// Slots whose rows are in memory as terms of products.
    pub split: HashMap<u32, MemoryId>,
}

pub(super) fn too_complex() -> OpError {
    OpError::invalid("an expression does not fit into a kernel")
}

impl Build<'_> {
    fn run(&mut self) -> Result<(), OpError> {
        for &slot in &self.plan.inputs {
            let ty = &self.plan.slots[slot as usize];
            let memory = self.memory(ty.element, &ty.shape)?;
            self.out.inputs.push(memory);
            self.values[slot as usize] = Some(in_memory(memory, ty));
        }
        for (i, step) in self.plan.steps.iter().enumerate() {
            self.step = i;
            if !self.done[i] {
                self.one(step)?;
            }
        }
        for source in &self.plan.outputs {
            let (array, ty) = match source {
                plan::Source::Const(array) | plan::Source::Transposed(array) => (
                    Some(array.clone()),
                    SlotType {
                        element: array.element(),
                        shape: array.shape().to_vec(),
                    },
                ),
                plan::Source::Slot(slot) => (None, self.plan.slots[*slot as usize].clone()),
            };
            let from = match (array, source) {
                (None, plan::Source::Slot(slot)) => self.settled(*slot)?,
                (array, _) => Source::Constant(array.ok_or_else(too_complex)?),
            };
            self.out.outputs.push((from, ty.element, ty.shape));
        }
        Ok(())
    }

    pub fn memory(&mut self, element: ElementType, shape: &[usize]) -> Result<MemoryId, OpError> {
        self.out.memories.push(checked_len(element, shape)? * element.size());
        Ok(self.out.memories.len() as u32 - 1)
    }

    pub fn act(&mut self, mut what: What) {
        if let What::Dispatch(dispatch) = &mut what {
            let threads = dispatch.threadgroup.iter().product();
            // The pipeline at hand runs as well, only slower.
            if let Ok(exact) = self.dispatcher.for_threads(&dispatch.pipeline, threads, dispatch.asset) {
                dispatch.pipeline = exact;
            }
        }
        self.out.actions.push(Action { what, step: self.step });
    }

    /// What was added last.
    pub fn last_action(&mut self) -> Option<&mut What> {
        self.out.actions.last_mut().map(|action| &mut action.what)
    }

    /// An operand of a step as an expression.
    pub fn operand(&self, source: &plan::Source) -> Result<Operand, OpError> {
        match source {
            plan::Source::Slot(slot) => self.values[*slot as usize]
                .clone()
                .ok_or_else(|| OpError::invalid("a value of the plan is missing")),
            plan::Source::Const(array) | plan::Source::Transposed(array) => Ok(constant(array)),
        }
    }

    /// The operand in memory, dense.
    pub fn source(&mut self, source: &plan::Source) -> Result<Source, OpError> {
        match source {
            plan::Source::Slot(slot) => self.settled(*slot),
            plan::Source::Const(array) | plan::Source::Transposed(array) => Ok(Source::Constant(array.clone())),
        }
    }

    /// A slot in memory, dense. It stays there for whoever asks next.
    fn settled(&mut self, slot: u32) -> Result<Source, OpError> {
        let value = self.values[slot as usize]
            .clone()
            .ok_or_else(|| OpError::invalid("a value of the plan is missing"))?;
        let (node, source) = self.written(&value.node, &value.shape)?;
        self.values[slot as usize] = Some(Operand { node, ..value });
        Ok(source)
    }

    /// An expression's elements in memory, dense, and the expression that reads them there.
    pub fn written(&mut self, node: &Arc<Node>, shape: &[usize]) -> Result<(Arc<Node>, Source), OpError> {
        let element = node.element();
        if let Some((memory, first)) = node.as_dense(shape) {
            let start = first * element.size();
            match memory {
                Memory::Value(id) if start.is_multiple_of(START) => {
                    return Ok((node.clone(), Source::Memory(*id, start)));
                }
                Memory::Constant(array) => {
                    let end = start + checked_len(element, shape)? * element.size();
                    let part = array.shared().slice(start..end).ok_or_else(too_complex)?;
                    return Ok((node.clone(), Source::Constant(Array::new(element, shape, part)?)));
                }
                Memory::Value(_) => {}
            }
        }
        let to = self.memory(element, shape)?;
        let dense = Node::dense(Memory::Value(to), element, shape);
        let done = (dense, Source::Memory(to, 0));
        if shape.contains(&0) {
            return Ok(done);
        }
        if let Some(program) = self.fused(node, shape)
            && let Some(generated) = program.kernel()
        {
            self.generated(generated, to, label("rows", node))?;
            return Ok(done);
        }
        let node = self.without_deferred(node, shape.len())?;
        let generated = map_kernel(shape, &node, Form::Dense(element)).ok_or_else(too_complex)?;
        self.generated(generated, to, label("map", &node))?;
        Ok(done)
    }

    /// The expression as a row kernel that makes the reductions in it, when their rows are the expression's.
    fn fused(&self, node: &Arc<Node>, shape: &[usize]) -> Option<RowProgram> {
        let mut stages = Vec::new();
        let mut known = HashMap::new();
        let outer = shape.len().checked_sub(1)?;
        let result = self.staged(node, shape, outer, &mut stages, &mut known)?;
        (!stages.is_empty()).then(|| RowProgram {
            shape: shape.to_vec(),
            outer,
            output: result.element(),
            stages,
            result,
            by_element: true,
            terms: false,
        })
    }

    /// The node with its reductions as stages before it; `None` when one of them has other rows.
    fn staged(
        &self,
        node: &Arc<Node>,
        shape: &[usize],
        outer: usize,
        stages: &mut Vec<Stage>,
        known: &mut HashMap<u32, u32>,
    ) -> Option<Arc<Node>> {
        let mut ids = Vec::new();
        let mut fits = true;
        node.visit(&mut |n| {
            if let Node::Deferred { reduction, at, .. } = &**n {
                let own = at.len() == outer
                    && at.iter().enumerate().all(|(d, form)| {
                        shape[d] == 1
                            || (form.offset == 0
                                && form
                                    .coefs
                                    .iter()
                                    .enumerate()
                                    .all(|(i, &c)| shape[i] == 1 || c == i64::from(i == d)))
                    });
                fits &= own;
                if !ids.contains(reduction) {
                    ids.push(*reduction);
                }
            }
        });
        if !fits {
            return None;
        }
        for id in ids {
            if known.contains_key(&id) {
                continue;
            }
            let reduced = self.deferred.get(&id)?;
            if reduced.shape != shape || reduced.outer != outer {
                return None;
            }
            let value = self.staged(&reduced.stage.value, shape, outer, stages, known)?;
            stages.push(Stage {
                op: reduced.stage.op,
                value,
            });
            known.insert(id, stages.len() as u32 - 1);
        }
        Some(node.replaced(&|n| match n {
            Node::Deferred { reduction, .. } => {
                let stage = *known.get(reduction)?;
                Some(renumbered(&self.deferred.get(reduction)?.finish, stage))
            }
            _ => None,
        }))
    }

    /// The node, over a space of `rank` dimensions, with every waiting reduction computed.
    fn without_deferred(&mut self, node: &Arc<Node>, rank: usize) -> Result<Arc<Node>, OpError> {
        let mut ids = Vec::new();
        node.visit(&mut |n| {
            if let Node::Deferred { reduction, .. } = &**n
                && !ids.contains(reduction)
            {
                ids.push(*reduction);
            }
        });
        if ids.is_empty() {
            return Ok(node.clone());
        }
        let mut done = HashMap::new();
        for id in ids {
            let reduced = self.deferred.get(&id).cloned().ok_or_else(too_complex)?;
            done.insert(id, (self.reduced(&reduced)?, reduced));
        }
        Ok(node.replaced(&|n| match n {
            Node::Deferred { reduction, element, at } => {
                let (memory, reduced) = done.get(reduction)?;
                let rows = &reduced.shape[..reduced.outer];
                let form = Affine::dense(rows).through(at, rank);
                Some(Arc::new(Node::Load {
                    memory: memory.clone(),
                    element: *element,
                    at: form,
                    indirect: Vec::new(),
                }))
            }
            _ => None,
        }))
    }

    /// Computes a reduction on its own: memory with one element a row.
    fn reduced(&mut self, reduced: &Reduced) -> Result<Memory, OpError> {
        let element = reduced.finish.element();
        let to = self.memory(element, &reduced.shape[..reduced.outer])?;
        let mut stages = Vec::new();
        let value = self.staged(
            &reduced.stage.value,
            &reduced.shape,
            reduced.outer,
            &mut stages,
            &mut HashMap::new(),
        );
        let value = match value {
            Some(value) => value,
            None => {
                stages.clear();
                self.without_deferred(&reduced.stage.value, reduced.shape.len())?
            }
        };
        let stage = stages.len() as u32;
        stages.push(Stage {
            op: reduced.stage.op,
            value,
        });
        let mut program = RowProgram {
            shape: reduced.shape.clone(),
            outer: reduced.outer,
            stages,
            result: renumbered(&reduced.finish, stage),
            by_element: false,
            output: element,
            terms: false,
        };
        let mut generated = program.kernel();
        if generated.is_none() && stage > 0 {
            let value = self.without_deferred(&reduced.stage.value, reduced.shape.len())?;
            program.stages = vec![Stage {
                op: reduced.stage.op,
                value,
            }];
            program.result = reduced.finish.clone();
            generated = program.kernel();
        }
        self.generated(generated.ok_or_else(too_complex)?, to, "reduction".to_string())?;
        Ok(Memory::Value(to))
    }

    /// Adds a dispatch of a generated kernel that writes `to`.
    pub fn generated(&mut self, generated: Generated, to: MemoryId, label: String) -> Result<(), OpError> {
        let pipeline = self.dispatcher.generated_pipeline(generated.kernel)?;
        let mut binds = vec![(OUTPUT, Bind::Buffer(Source::Memory(to, 0)))];
        if !generated.checks.is_empty() {
            binds.push((STATUS, Bind::Status(self.out.sites.len())));
            for check in generated.checks {
                self.out.sites.push(match check {
                    Check::Index { extent, origin } => Site::Index {
                        extent,
                        step: origin as usize,
                    },
                    Check::Divisor => Site::Divisor { step: self.step },
                });
            }
        }
        for (i, input) in generated.inputs.into_iter().enumerate() {
            let source = match input.memory {
                Memory::Value(id) => Source::Memory(id, 0),
                Memory::Constant(array) => Source::Constant(array),
            };
            binds.push((FIRST_INPUT + i as u32, Bind::Buffer(source)));
        }
        self.act(What::Dispatch(Box::new(Dispatch {
            pipeline,
            binds,
            grid: [generated.grid, 1, 1],
            threadgroup: [generated.threadgroup, 1, 1],
            groups: generated.groups,
            writes: vec![to],
            asset: false,
            label,
        })));
        Ok(())
    }

    /// Keeps what a step gives. What others will read more than once, and costs something, is computed now.
    pub fn keep(&mut self, slot: u32, node: Arc<Node>, shape: &[usize]) -> Result<(), OpError> {
        let (loads, operations) = node.size();
        let waits = loads <= MAX_LOADS && operations <= MAX_OPERATIONS;
        let mut reduces = false;
        node.visit(&mut |n| reduces |= matches!(&**n, Node::Deferred { .. }));
        self.values[slot as usize] = Some(Operand {
            node,
            shape: shape.to_vec(),
            constant: None,
        });
        if !waits || (self.uses[slot as usize] > 1 && (operations > 0 || reduces)) {
            self.settled(slot)?;
        }
        Ok(())
    }

    fn one(&mut self, step: &Step) -> Result<(), OpError> {
        match &step.op {
            StepOp::Alias { shape } => {
                let output = step.outputs[0];
                let x = self.operand(&step.inputs[0])?;
                let node = match x.node.reshaped(&x.shape, shape) {
                    Some(node) => node,
                    None => {
                        self.source(&step.inputs[0])?;
                        let x = self.operand(&step.inputs[0])?;
                        x.node.reshaped(&x.shape, shape).ok_or_else(too_complex)?
                    }
                };
                self.keep(output, node, shape)
            }
            StepOp::Host { code, mode, elements } => self.host(step, *code, *mode, elements),
            StepOp::Native(native) => self.native(step, native),
            StepOp::Kernel(call) => self.kernel(step, call),
            StepOp::ReadState(i) => {
                let slot = step.outputs[0];
                let ty = self.plan.slots[slot as usize].clone();
                let memory = self.memory(ty.element, &ty.shape)?;
                self.act(What::ReadState(*i, memory));
                self.values[slot as usize] = Some(in_memory(memory, &ty));
                Ok(())
            }
            StepOp::WriteState(i) => {
                let x = self.operand(&step.inputs[0])?;
                let source = self.source(&step.inputs[0])?;
                self.act(What::WriteState(*i, source, x.node.element(), x.shape));
                Ok(())
            }
        }
    }

    fn host(&mut self, step: &Step, code: OpCode, mode: u64, elements: &[ElementType]) -> Result<(), OpError> {
        let shapes: Vec<Vec<usize>> = step
            .outputs
            .iter()
            .map(|&o| self.plan.slots[o as usize].shape.clone())
            .collect();
        if code == OpCode::BatchMatmul {
            // Each element is read many times.
            for source in &step.inputs {
                if self.operand(source)?.node.size().1 > 0 {
                    self.source(source)?;
                }
            }
        }
        for _ in 0..=step.inputs.len() {
            let operands = step
                .inputs
                .iter()
                .map(|s| self.operand(s))
                .collect::<Result<Vec<_>, _>>()?;
            let Some(lowered) = lower(code, mode, elements, &operands, &shapes, self.step as u32) else {
                break;
            };
            let (slot, shape) = (step.outputs[0], &shapes[0]);
            match lowered {
                Lowered::NeedsMemory(i) => {
                    self.source(&step.inputs[i])?;
                }
                Lowered::Nodes(nodes) => {
                    let size = nodes.iter().map(|n| n.size()).max().unwrap_or_default();
                    if size.0 > MAX_LOADS || size.1 > MAX_OPERATIONS {
                        // Another round with operands that are in memory; it ends, as they are then.
                        let grown = step.inputs.iter().zip(&operands).find(|(_, o)| o.node.size().1 > 0);
                        if let Some((source, _)) = grown {
                            self.source(source)?;
                            continue;
                        }
                    }
                    for ((&slot, node), shape) in step.outputs.iter().zip(nodes).zip(&shapes) {
                        self.keep(slot, node, shape)?;
                    }
                    return Ok(());
                }
                Lowered::Dense { node, space } => {
                    let (node, _) = self.written(&node, &space)?;
                    let node = node.reshaped(&space, shape).ok_or_else(too_complex)?;
                    return self.keep(slot, node, shape);
                }
                Lowered::Reduced(reduced) => {
                    let rank = shape.len();
                    let mut at = vec![Affine::constant(0, rank); reduced.outer];
                    for (d, kept) in reduced.kept.iter().enumerate() {
                        if let Some(outer) = kept {
                            at[*outer] = Affine::index(d, rank, 1, 0);
                        }
                    }
                    let node = Arc::new(Node::Deferred {
                        reduction: self.next,
                        element: reduced.finish.element(),
                        at,
                    });
                    self.deferred.insert(self.next, reduced);
                    self.next += 1;
                    return self.keep(slot, node, shape);
                }
                Lowered::Rows { program, order } => {
                    return self.rows(slot, program, Some(&order));
                }
            }
        }
        self.on_host(step)
    }

    /// Adds a row program whose result is a slot.
    pub fn rows(&mut self, slot: u32, mut program: RowProgram, order: Option<&[usize]>) -> Result<(), OpError> {
        let rank = program.shape.len();
        // What the program reads must be there; its own stages may take in reductions of the same rows.
        let (mut stages, mut known) = (Vec::new(), HashMap::new());
        let first = self.staged(
            &program.stages[0].value,
            &program.shape,
            program.outer,
            &mut stages,
            &mut known,
        );
        if first.is_none() || !stages.is_empty() {
            for stage in &mut program.stages {
                stage.value = self.without_deferred(&stage.value, rank)?;
            }
            program.result = self.without_deferred(&program.result, rank)?;
        }
        let element = program.output;
        let to = self.memory(element, &program.shape)?;
        program.terms = order.is_none() && self.wants_terms(slot);
        let generated = program.kernel().ok_or_else(too_complex)?;
        self.generated(generated, to, label("rows", &program.result))?;
        if program.terms {
            self.add_terms(slot)?;
        }
        let dense = Node::dense(Memory::Value(to), element, &program.shape);
        let node = match order {
            Some(order) => {
                let forms: Vec<_> = order.iter().map(|&d| Affine::index(d, rank, 1, 0)).collect();
                dense.mapped(&forms, rank)
            }
            None => dense,
        };
        let shape = self.plan.slots[slot as usize].shape.clone();
        self.keep(slot, node, &shape)
    }

    /// The step by the host evaluator.
    fn on_host(&mut self, step: &Step) -> Result<(), OpError> {
        let mut operands = Vec::new();
        for source in &step.inputs {
            let (element, shape) = match source {
                plan::Source::Slot(slot) => {
                    let ty = &self.plan.slots[*slot as usize];
                    (ty.element, ty.shape.clone())
                }
                plan::Source::Const(array) | plan::Source::Transposed(array) => {
                    (array.element(), array.shape().to_vec())
                }
            };
            operands.push((self.source(source)?, element, shape));
        }
        let mut results = Vec::new();
        for &slot in &step.outputs {
            let ty = self.plan.slots[slot as usize].clone();
            let memory = self.memory(ty.element, &ty.shape)?;
            self.values[slot as usize] = Some(in_memory(memory, &ty));
            results.push(memory);
        }
        self.act(What::Host {
            op: step.op.clone(),
            operands,
            results,
        });
        Ok(())
    }
}

/// A reduction's last touches with the reduction as stage `stage`.
fn renumbered(finish: &Arc<Node>, stage: u32) -> Arc<Node> {
    finish.replaced(&|n| match n {
        Node::Row(_, element) => Some(Arc::new(Node::Row(stage, *element))),
        _ => None,
    })
}

pub(super) fn in_memory(memory: MemoryId, ty: &SlotType) -> Operand {
    Operand {
        node: Node::dense(Memory::Value(memory), ty.element, &ty.shape),
        shape: ty.shape.clone(),
        constant: None,
    }
}

fn constant(array: &Array) -> Operand {
    let node = Node::literal(array)
        .unwrap_or_else(|| Node::dense(Memory::Constant(array.clone()), array.element(), array.shape()));
    Operand {
        node,
        shape: array.shape().to_vec(),
        constant: Some(array.clone()),
    }
}

/// What a kernel does, for people: its operations in order.
pub(super) fn label(kind: &str, node: &Arc<Node>) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut gathers = false;
    node.visit(&mut |n| match &**n {
        Node::Op { op, .. } => names.push(match op {
            MapOp::Unary(op) => format!("{op:?}").to_lowercase(),
            MapOp::Binary(op) => format!("{op:?}").to_lowercase(),
            MapOp::Select => "where".into(),
            MapOp::Gelu(_) => "gelu".into(),
            MapOp::Cast => "cast".into(),
        }),
        Node::Load { indirect, .. } => gathers |= !indirect.is_empty(),
        _ => {}
    });
    names.reverse();
    if gathers {
        names.insert(0, "gather".into());
    }
    if names.is_empty() {
        return format!("{kind} copy");
    }
    names.truncate(6);
    format!("{kind} {}", names.join(" "))
}
