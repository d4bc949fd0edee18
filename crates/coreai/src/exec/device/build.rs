//! From the steps of a plan to actions.

use std::collections::HashMap;
use std::sync::Arc;

use anymetal::Access;

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::exec::dispatch::Dispatcher;
use crate::exec::fused::{
    Affine, Check, FIRST_INPUT, Form, Generated, Lowered, MapOp, Memory, Node, OUTPUT, Operand, Reduced, RowProgram,
    STATUS, Stage, layer_norm, lower, map_kernel, rms_norm,
};
use crate::exec::library::{self, Launch};
use crate::exec::native::Native;
use crate::exec::plan::{self, KernelCall, Plan, SlotType, Step, StepOp};
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
    fn written(&mut self, node: &Arc<Node>, shape: &[usize]) -> Result<(Arc<Node>, Source), OpError> {
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
    fn rows(&mut self, slot: u32, mut program: RowProgram, order: Option<&[usize]>) -> Result<(), OpError> {
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

    fn native(&mut self, step: &Step, native: &Native) -> Result<(), OpError> {
        let slot = step.outputs[0];
        let ty = self.plan.slots[slot as usize].clone();
        if ty.shape.contains(&0) {
            let memory = self.memory(ty.element, &ty.shape)?;
            self.values[slot as usize] = Some(in_memory(memory, &ty));
            return Ok(());
        }
        match native {
            Native::LayerNorm { eps, residual } => {
                let operands = self.operands(step)?;
                let program = match (operands.as_slice(), residual) {
                    ([x, added, gamma, beta], true) => layer_norm(x, Some(added), [gamma, beta], *eps),
                    ([x, gamma, beta], false) => layer_norm(x, None, [gamma, beta], *eps),
                    _ => None,
                };
                let program = program.ok_or_else(too_complex)?;
                self.rows(slot, program, None)
            }
            Native::RmsNorm { eps } => {
                let operands = self.operands(step)?;
                let [x, scale] = operands.as_slice() else {
                    return Err(too_complex());
                };
                let program = rms_norm(x, scale, *eps).ok_or_else(too_complex)?;
                self.rows(slot, program, None)
            }
            Native::Linear { bias, activation } => self.linear(step, *bias, *activation),
            Native::Matmul { shape } => {
                let (a, b) = (self.operand(&step.inputs[0])?, self.operand(&step.inputs[1])?);
                let launch = library::matmul_launch(self.dispatcher, ty.element, &a.shape, &b.shape, shape)?;
                self.launch(step, launch, &[0, 1], 2, native.name())
            }
            Native::Attention { scale, shape } => {
                let mut mask = None;
                if let Some(source) = step.inputs.get(3) {
                    // The mask as numbers to add, of rank 4: -10000 where a truth value is false.
                    let x = self.operand(source)?;
                    let mut wide = vec![1; 4usize.saturating_sub(x.shape.len())];
                    wide.extend_from_slice(&x.shape);
                    let mut node = x.node.clone();
                    if node.element() == ElementType::Bool {
                        let float = |v| Node::float(ty.element, v);
                        node = Node::op(MapOp::Select, vec![node, float(0.0), float(-1e4)], ty.element);
                    }
                    let (_, source) = self.written(&node, &x.shape)?;
                    mask = Some((source, wide));
                }
                let wide = mask.as_ref().map(|(_, shape)| shape.as_slice());
                let launch = library::attention_launch(self.dispatcher, ty.element, wide, *scale, shape)?;
                let mut binds = Vec::new();
                for (index, source) in step.inputs.iter().take(3).enumerate() {
                    binds.push((index as u32, Bind::Buffer(self.source(source)?)));
                }
                if let Some((source, _)) = mask {
                    binds.push((5, Bind::Buffer(source)));
                }
                self.launched(step, launch, binds, 3, native.name())
            }
        }
    }

    fn operands(&self, step: &Step) -> Result<Vec<Operand>, OpError> {
        step.inputs.iter().map(|s| self.operand(s)).collect()
    }

    /// A kernel of ours with operand i of the step at `places[i]` and the result at `result`.
    pub fn launch(
        &mut self,
        step: &Step,
        launch: Launch,
        places: &[u32],
        result: u32,
        label: &str,
    ) -> Result<(), OpError> {
        let mut binds = Vec::new();
        for (source, &place) in step.inputs.iter().zip(places) {
            binds.push((place, Bind::Buffer(self.source(source)?)));
        }
        self.launched(step, launch, binds, result, label)
    }

    fn launched(
        &mut self,
        step: &Step,
        launch: Launch,
        mut binds: Vec<(u32, Bind)>,
        result: u32,
        label: &str,
    ) -> Result<(), OpError> {
        let slot = step.outputs[0];
        let ty = self.plan.slots[slot as usize].clone();
        let to = self.memory(ty.element, &ty.shape)?;
        binds.push((result, Bind::Buffer(Source::Memory(to, 0))));
        binds.push((launch.sizes.0, Bind::Bytes(launch.sizes.1)));
        self.act(What::Dispatch(Box::new(Dispatch {
            pipeline: launch.pipeline,
            binds,
            grid: launch.groups,
            threadgroup: [launch.threads, 1, 1],
            groups: true,
            writes: vec![to],
            asset: false,
            label: label.to_string(),
        })));
        self.values[slot as usize] = Some(in_memory(to, &ty));
        Ok(())
    }

    /// A kernel of the asset.
    fn kernel(&mut self, step: &Step, call: &Arc<KernelCall>) -> Result<(), OpError> {
        let pipeline = self
            .dispatcher
            .pipeline(&call.name, &call.source)
            .map_err(|error| OpError::Kernel(error.to_string()))?;
        let mut binds = Vec::new();
        for (i, source) in step.inputs.iter().enumerate() {
            let from = self.source(source)?;
            let (element, shape) = match source {
                plan::Source::Slot(slot) => {
                    let ty = &self.plan.slots[*slot as usize];
                    (ty.element, ty.shape.clone())
                }
                plan::Source::Const(array) | plan::Source::Transposed(array) => {
                    (array.element(), array.shape().to_vec())
                }
            };
            binds.push((
                i as u32,
                match (&from, shape.is_empty()) {
                    (Source::Constant(array), true) => Bind::Bytes(array.bytes()[..element.size()].to_vec()),
                    (_, true) => Bind::Buffer(from),
                    (_, false) => Bind::Tensor(from, element, shape),
                },
            ));
        }
        let mut writes = Vec::new();
        let mut empty = true;
        for (i, ((element, shape), &slot)) in call.results.iter().zip(&step.outputs).enumerate() {
            let memory = self.memory(*element, shape)?;
            empty &= shape.contains(&0);
            let bound = if shape.is_empty() { vec![1] } else { shape.clone() };
            binds.push((
                (step.inputs.len() + i) as u32,
                Bind::Tensor(Source::Memory(memory, 0), *element, bound),
            ));
            writes.push(memory);
            let ty = SlotType {
                element: *element,
                shape: shape.clone(),
            };
            self.values[slot as usize] = Some(in_memory(memory, &ty));
        }
        if !empty && !call.grid.contains(&0) {
            // A kernel that reads a result (to add to it, say) finds zeros there, as in fresh memory.
            for (i, (&memory, (element, shape))) in writes.iter().zip(&call.results).enumerate() {
                let index = (step.inputs.len() + i) as u32;
                let arguments = pipeline.arguments();
                let reads = arguments
                    .iter()
                    .any(|a| a.index == index && a.access == Access::ReadWrite);
                if reads && !shape.contains(&0) {
                    let zero = Node::zero(*element);
                    let generated = map_kernel(shape, &zero, Form::Dense(*element)).ok_or_else(too_complex)?;
                    self.generated(generated, memory, "map zero".to_string())?;
                }
            }
            self.act(What::Dispatch(Box::new(Dispatch {
                pipeline,
                binds,
                grid: call.grid,
                threadgroup: call.threadgroup,
                groups: false,
                writes,
                asset: true,
                label: format!("kernel {}", call.name),
            })));
            return Ok(());
        }
        // Nothing runs, and the results are zero: rare enough for the host.
        let zeros: Result<Vec<Memory>, OpError> = call
            .results
            .iter()
            .map(|(element, shape)| {
                let bytes = vec![0; checked_len(*element, shape)? * element.size()];
                Ok(Memory::Constant(Array::from_bytes(*element, shape, &bytes)?))
            })
            .collect();
        for ((memory, (element, shape)), &slot) in zeros?.into_iter().zip(&call.results).zip(&step.outputs) {
            self.values[slot as usize] = Some(Operand {
                node: Node::dense(memory, *element, shape),
                shape: shape.clone(),
                constant: None,
            });
        }
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
