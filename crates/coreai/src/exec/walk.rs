//! The walk: executes a graph operation by operation, and records what depends on the inputs.
//!
//! Values that depend only on constants and on input *shapes* are known after the walk and never computed again. A walk
//! that meets control flow or a shape that depends on input *values* cannot be recorded; then each call walks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::error::{OpError, ProgramError, RunError};
use crate::eval;
use crate::program::{Body, Detail, Instr, OpCode, Program, ValueType};

use super::dispatch::Dispatcher;
use super::native::Native;
use super::plan::{KernelCall, Plan, SlotType, Source, Step, StepOp};

/// Calls, branches and loops may nest this deep.
const MAX_DEPTH: usize = 64;
/// A longer walk is not recorded.
const MAX_STEPS: usize = 1 << 20;
/// Operations of one call; a `while` that does not end is stopped here.
const MAX_OPERATIONS: u64 = 100_000_000;
/// Folded results that are remembered for other shapes.
const MAX_FOLDED: usize = 1 << 16;

/// A value during the walk.
#[derive(Clone, Debug)]
enum Val {
    Const(Array),
    /// A constant matrix that is the transpose of this one, not yet computed.
    Transposed(Array),
    /// Depends on an input: its slot and its present value.
    Slot(u32, Array),
    State(usize),
    Token,
}

/// Results of operations on constants, shared by all plans of a model, so that a transposed weight exists once.
#[derive(Default)]
pub(super) struct Folded {
    constants: Mutex<HashMap<usize, Array>>,
    results: Mutex<HashMap<Key, Vec<Array>>>,
}

/// An operation and the memory of its operands, which the map keeps alive.
type Key = (usize, Vec<(usize, Vec<usize>)>);

/// One walk.
pub(super) struct Walk<'a> {
    program: &'a Program,
    dispatcher: &'a Dispatcher,
    folded: &'a Folded,
    states: &'a mut [Array],
    plan: Plan,
    /// Why the walk cannot be replayed.
    dynamic: Option<String>,
    operations: u64,
    depth: usize,
}

/// What a walk found.
pub(super) struct Walked {
    pub outputs: Vec<Array>,
    /// The plan, or why there is none.
    pub plan: Result<Plan, String>,
}

impl<'a> Walk<'a> {
    pub fn new(program: &'a Program, dispatcher: &'a Dispatcher, folded: &'a Folded, states: &'a mut [Array]) -> Self {
        Self {
            program,
            dispatcher,
            folded,
            states,
            plan: Plan::default(),
            dynamic: None,
            operations: 0,
            depth: 0,
        }
    }

    /// Runs graph `index` on its tensor inputs (states come first in the graph and are taken from `states`).
    pub fn run(mut self, index: usize, inputs: &[Array]) -> Result<Walked, RunError> {
        let graph = &self.program.graphs()[index];
        let mut args = Vec::new();
        let (mut states, mut tensors) = (0, inputs.iter());
        for port in &graph.inputs {
            args.push(match &port.ty {
                ValueType::Handle(..) => {
                    states += 1;
                    Val::State(states - 1)
                }
                ValueType::Token => Val::Token,
                _ => match tensors.next() {
                    Some(array) => {
                        let slot = self.slot(array);
                        self.plan.inputs.push(slot);
                        Val::Slot(slot, array.clone())
                    }
                    None => {
                        return Err(RunError::Limit(format!("input {:?} was not passed", port.name)));
                    }
                },
            });
        }
        let results = self.graph(index, args)?;
        let mut outputs = Vec::new();
        for value in results {
            if matches!(value, Val::Token | Val::State(_)) {
                continue;
            }
            outputs.push(array_of(&value).map_err(|error| self.op_error_named("output", error))?);
            let source = self.source(&value);
            self.plan.outputs.push(source);
        }
        let plan = match self.dynamic {
            Some(why) => Err(why),
            None => Ok(self.plan),
        };
        Ok(Walked { outputs, plan })
    }

    fn op_error_named(&self, op: &str, error: OpError) -> RunError {
        RunError::Op {
            op: op.to_string(),
            at: String::new(),
            error,
        }
    }

    /// A new slot; its number means nothing once the walk is not recorded any more.
    fn slot(&mut self, array: &Array) -> u32 {
        if self.dynamic.is_some() {
            return u32::MAX;
        }
        self.plan.slots.push(SlotType {
            element: array.element(),
            shape: array.shape().to_vec(),
        });
        self.plan.slots.len() as u32 - 1
    }

    /// Stops recording.
    fn stop_recording(&mut self, why: String) {
        if self.dynamic.is_none() {
            self.dynamic = Some(why);
            self.plan = Plan::default();
        }
    }

    fn source(&self, value: &Val) -> Source {
        match value {
            Val::Slot(slot, _) => Source::Slot(*slot),
            Val::Transposed(array) => Source::Transposed(array.clone()),
            Val::Const(array) => Source::Const(array.clone()),
            // Handles and tokens are never operands of recorded steps.
            Val::State(_) | Val::Token => Source::Const(Array::scalar(0u8)),
        }
    }

    fn graph(&mut self, index: usize, args: Vec<Val>) -> Result<Vec<Val>, RunError> {
        self.isolated(&self.program.graphs()[index].body, args)
    }

    fn isolated(&mut self, body: &Body, args: Vec<Val>) -> Result<Vec<Val>, RunError> {
        let mut env = vec![None; body.value_count];
        self.body(body, args, &mut env)
    }

    /// Runs a body; the values that its terminator passes on are the result.
    fn body(&mut self, body: &Body, args: Vec<Val>, env: &mut [Option<Val>]) -> Result<Vec<Val>, RunError> {
        if self.depth >= MAX_DEPTH {
            return Err(RunError::Limit(format!(
                "calls, branches and loops nest more than {MAX_DEPTH} deep"
            )));
        }
        self.depth += 1;
        let results = self.instrs(body, args, env);
        self.depth -= 1;
        results
    }

    fn instrs(&mut self, body: &Body, args: Vec<Val>, env: &mut [Option<Val>]) -> Result<Vec<Val>, RunError> {
        if body.args.len() != args.len() {
            return Err(malformed(
                "a body is entered with another number of values than it takes",
            ));
        }
        for (&arg, value) in body.args.iter().zip(args) {
            if let Some(slot) = env.get_mut(arg as usize) {
                *slot = Some(value);
            }
        }
        for (i, instr) in body.instrs.iter().enumerate() {
            self.operations += 1;
            if self.operations > MAX_OPERATIONS {
                return Err(RunError::Limit(format!(
                    "the call does not end within {MAX_OPERATIONS} operations"
                )));
            }
            let mut operands = Vec::with_capacity(instr.operands.len());
            for &id in &instr.operands {
                match env.get(id as usize).cloned().flatten() {
                    Some(value) => operands.push(value),
                    None => return Err(malformed("an operand has no value")),
                }
            }
            if matches!(instr.code, OpCode::Output | OpCode::Yield | OpCode::Condition) {
                return Ok(operands);
            }
            let results = self.instr(instr, operands, env)?;
            if results.len() != instr.results.len() {
                return Err(malformed(
                    "an operation gives another number of results than it announces",
                ));
            }
            for (&id, value) in instr.results.iter().zip(results) {
                if let Some(slot) = env.get_mut(id as usize) {
                    *slot = Some(value);
                }
            }
            for &id in body.drops.get(i).map_or(&[][..], |d| d) {
                env[id as usize] = None;
            }
        }
        Err(malformed("a body does not end with a terminator"))
    }

    fn instr(&mut self, instr: &Instr, operands: Vec<Val>, env: &mut [Option<Val>]) -> Result<Vec<Val>, RunError> {
        let done = match (instr.code, &instr.detail) {
            (OpCode::Constant, Detail::Constant(constant)) => {
                let key = std::ptr::from_ref(instr) as usize;
                if let Some(array) = lock(&self.folded.constants).get(&key) {
                    return Ok(vec![Val::Const(array.clone())]);
                }
                let array = constant.array().map_err(|e| self.op_error(instr, e.into()))?;
                lock(&self.folded.constants).insert(key, array.clone());
                Ok(vec![Val::Const(array)])
            }
            (OpCode::Invoke, Detail::Invoke(index)) => return self.invoke(instr, *index, operands),
            (OpCode::Decomposed, Detail::Bodies(bodies)) => {
                return self.isolated(&bodies[0], operands);
            }
            (OpCode::If, Detail::Bodies(bodies)) => {
                let truth = self.condition(instr, operands.first())?;
                return self.body(&bodies[usize::from(!truth)], Vec::new(), env);
            }
            (OpCode::While, Detail::Bodies(bodies)) => {
                let mut values = operands;
                loop {
                    let mut passed = self.body(&bodies[0], values, env)?;
                    if passed.is_empty() {
                        return Err(malformed("a loop's condition is missing"));
                    }
                    let condition = passed.remove(0);
                    if !self.condition(instr, Some(&condition))? {
                        return Ok(passed);
                    }
                    values = self.body(&bodies[1], passed, env)?;
                }
            }
            (OpCode::CreateToken | OpCode::JoinToken, _) => Ok(vec![Val::Token]),
            (OpCode::ReadHandle, _) => match operands.first() {
                Some(&Val::State(i)) if i < self.states.len() => {
                    let array = self.states[i].clone();
                    let slot = self.slot(&array);
                    self.record(instr, StepOp::ReadState(i), Vec::new(), vec![slot]);
                    Ok(vec![Val::Slot(slot, array), Val::Token])
                }
                _ => Err(OpError::invalid("it reads something that is not a state")),
            },
            (OpCode::WriteHandle, _) => match (operands.first(), operands.get(1)) {
                (Some(&Val::State(i)), Some(value)) if i < self.states.len() => {
                    let array = array_of(value).map_err(|e| self.op_error(instr, e))?;
                    let old = &self.states[i];
                    if array.shape() != old.shape() || array.element() != old.element() {
                        Err(OpError::invalid(format!("it writes {array:?} into a state of {old:?}")))
                    } else {
                        self.states[i] = array;
                        let source = self.source(value);
                        self.record(instr, StepOp::WriteState(i), vec![source], Vec::new());
                        Ok(vec![Val::Token])
                    }
                }
                _ => Err(OpError::invalid("it writes something that is not a state")),
            },
            (OpCode::Metal4Kernel, Detail::Kernel { name, source }) => self.kernel(instr, name, source, &operands),
            (OpCode::Unknown, _) => Err(OpError::invalid("this operation is not supported")),
            _ => self.pure(instr, &operands),
        };
        done.map_err(|e| self.op_error(instr, e))
    }

    fn op_error(&self, instr: &Instr, error: OpError) -> RunError {
        let at = match self.program.location(instr.location) {
            Ok(Some(place)) => format!(" ({}:{})", place.file, place.line),
            _ => String::new(),
        };
        RunError::Op {
            op: self.program.module().op_name(instr.name).to_string(),
            at,
            error,
        }
    }

    fn record(&mut self, instr: &Instr, op: StepOp, inputs: Vec<Source>, outputs: Vec<u32>) {
        if self.dynamic.is_some() {
            return;
        }
        if self.plan.steps.len() >= MAX_STEPS {
            return self.stop_recording(format!("a call has more than {MAX_STEPS} steps"));
        }
        self.plan.steps.push(Step {
            op,
            inputs,
            outputs,
            name: instr.name,
            location: instr.location,
        });
    }

    /// Marks the walk as one that cannot be replayed, if `value` depends on an input.
    fn need_known(&mut self, instr: &Instr, value: &Val) {
        if matches!(value, Val::Slot(..)) {
            let name = self.program.module().op_name(instr.name);
            self.stop_recording(format!("{name} depends on input values"));
        }
    }

    fn condition(&mut self, instr: &Instr, value: Option<&Val>) -> Result<bool, RunError> {
        let value = value.ok_or_else(|| malformed("a condition is missing"))?;
        self.need_known(instr, value);
        let array = array_of(value).map_err(|e| self.op_error(instr, e))?;
        match array.bytes() {
            [byte] if array.element() == ElementType::Bool => Ok(*byte != 0),
            _ => Err(self.op_error(
                instr,
                OpError::invalid(format!("the condition is {array:?}, not one bool")),
            )),
        }
    }

    fn invoke(&mut self, instr: &Instr, index: usize, operands: Vec<Val>) -> Result<Vec<Val>, RunError> {
        let program = self.program;
        let graph = &program.graphs()[index];
        if let Some(composite) = &graph.composite {
            let runtime = operands.iter().any(|v| matches!(v, Val::Slot(..)));
            let arrays: Option<Vec<Array>> = operands.iter().map(|v| array_of(v).ok()).collect();
            if let (true, Some(arrays)) = (runtime, arrays)
                && let Some(native) = Native::composite(composite, &arrays)
            {
                return self
                    .step(instr, StepOp::Native(native), &operands, &arrays)
                    .map_err(|e| self.op_error(instr, e));
            }
        }
        self.graph(index, operands)
    }

    /// Runs one step now and records it.
    fn step(&mut self, instr: &Instr, op: StepOp, operands: &[Val], arrays: &[Array]) -> Result<Vec<Val>, OpError> {
        let results = self.dispatcher.run(&op, arrays)?;
        let inputs = operands.iter().map(|v| self.source(v)).collect();
        let slots: Vec<u32> = results.iter().map(|a| self.slot(a)).collect();
        let values = slots.iter().zip(results).map(|(&s, a)| Val::Slot(s, a)).collect();
        self.record(instr, op, inputs, slots);
        Ok(values)
    }

    fn pure(&mut self, instr: &Instr, operands: &[Val]) -> Result<Vec<Val>, OpError> {
        let mode = if let Detail::Mode(mode) = instr.detail { mode } else { 0 };
        let elements = result_elements(instr)?;
        // A transposed weight waits for the product that takes it as it is.
        if let (OpCode::Transpose, [Val::Const(matrix), Val::Const(order)]) = (instr.code, operands)
            && matrix.rank() == 2
            && order.to_integers()? == [1, 0]
        {
            return Ok(vec![Val::Transposed(matrix.clone())]);
        }
        if let (OpCode::BatchMatmul, [left @ Val::Slot(_, x), right @ Val::Transposed(w)]) = (instr.code, operands)
            && let Some(native) = Native::linear(x, w)
        {
            let (operands, arrays) = ([left.clone(), right.clone()], [x.clone(), w.clone()]);
            return self.step(instr, StepOp::Native(native), &operands, &arrays);
        }
        let mut arrays = Vec::with_capacity(operands.len());
        let mut known = Vec::with_capacity(operands.len());
        for operand in operands {
            let value = self.settled(operand)?;
            arrays.push(array_of(&value)?);
            known.push(value);
        }
        let spec = eval::Spec {
            code: instr.code,
            mode,
            elements: &elements,
        };
        if !known.iter().any(|v| matches!(v, Val::Slot(..))) {
            return self.fold(instr, &spec, &arrays);
        }
        if instr.code == OpCode::GetShape {
            self.plan.folded += 1;
            return Ok(eval::evaluate(&spec, &arrays)?.into_iter().map(Val::Const).collect());
        }
        if let (OpCode::BatchMatmul, [a, b]) = (instr.code, arrays.as_slice())
            && let Some(native) = Native::matmul(a, b)
        {
            return self.step(instr, StepOp::Native(native), &known, &arrays);
        }
        for i in shape_operands(instr.code, known.len()) {
            if let Some(value) = known.get(i) {
                self.need_known(instr, value);
            }
        }
        if is_view(instr.code) {
            let shape = eval::evaluate(&spec, &arrays)?.swap_remove(0).shape().to_vec();
            return self.step(instr, StepOp::Alias { shape }, &known[..1], &arrays[..1]);
        }
        let op = StepOp::Host {
            code: instr.code,
            mode,
            elements,
        };
        self.step(instr, op, &known, &arrays)
    }

    /// `value` with a waiting transpose computed (once for all plans).
    fn settled(&mut self, value: &Val) -> Result<Val, OpError> {
        let Val::Transposed(matrix) = value else {
            return Ok(value.clone());
        };
        let key = (usize::MAX, vec![identity(matrix)]);
        if let Some(found) = lock(&self.folded.results).get(&key) {
            return Ok(Val::Const(found[0].clone()));
        }
        let array = eval::permuted(matrix, &[1, 0])?;
        self.remember(key, vec![array.clone()], vec![matrix.clone()]);
        Ok(Val::Const(array))
    }

    fn remember(&self, key: Key, mut results: Vec<Array>, operands: Vec<Array>) {
        // The operands stay with the result: their addresses are the key.
        results.extend(operands);
        let mut map = lock(&self.folded.results);
        if map.len() < MAX_FOLDED {
            map.insert(key, results);
        }
    }

    fn fold(&mut self, instr: &Instr, spec: &eval::Spec<'_>, arrays: &[Array]) -> Result<Vec<Val>, OpError> {
        self.plan.folded += 1;
        // Small results are cheaper to compute again than to remember.
        let large = arrays.iter().any(|a| a.bytes().len() > 4096);
        let key = (
            std::ptr::from_ref(instr) as usize,
            arrays.iter().map(identity).collect(),
        );
        if large && let Some(found) = lock(&self.folded.results).get(&key) {
            let results = found[..spec.elements.len().min(found.len())].to_vec();
            return Ok(results.into_iter().map(Val::Const).collect());
        }
        let results = eval::evaluate(spec, arrays)?;
        if large {
            self.remember(key, results.clone(), arrays.to_vec());
        }
        Ok(results.into_iter().map(Val::Const).collect())
    }

    fn kernel(
        &mut self,
        instr: &Instr,
        name: &Arc<str>,
        source: &Arc<str>,
        operands: &[Val],
    ) -> Result<Vec<Val>, OpError> {
        let elements = result_elements(instr)?;
        let args = operands.len() - 2 - elements.len();
        let mut parameters = Vec::new();
        for operand in &operands[args..] {
            self.need_known(instr, operand);
            parameters.push(eval::extents(&array_of(operand)?)?);
        }
        let size = |what: &str, values: &[usize]| {
            <[usize; 3]>::try_from(values)
                .map_err(|_| OpError::invalid(format!("kernel {name:?}: {what} has {} values, not 3", values.len())))
        };
        let call = KernelCall {
            name: name.clone(),
            source: source.clone(),
            grid: size("threads_per_grid", &parameters[0])?,
            threadgroup: size("threads_per_thread_group", &parameters[1])?,
            results: elements.into_iter().zip(parameters.drain(2..)).collect(),
        };
        let mut known = Vec::with_capacity(args);
        for operand in &operands[..args] {
            known.push(self.settled(operand)?);
        }
        let arrays = known.iter().map(array_of).collect::<Result<Vec<_>, _>>()?;
        self.step(instr, StepOp::Kernel(Arc::new(call)), &known, &arrays)
    }
}

fn malformed(what: &str) -> RunError {
    let error = crate::bytecode::BytecodeError::Malformed {
        what: what.to_string(),
        offset: 0,
    };
    RunError::Program(ProgramError::Bytecode(error))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

fn identity(array: &Array) -> (usize, Vec<usize>) {
    (array.bytes().as_ptr() as usize, array.shape().to_vec())
}

fn array_of(value: &Val) -> Result<Array, OpError> {
    match value {
        Val::Const(array) | Val::Slot(_, array) => Ok(array.clone()),
        Val::Transposed(matrix) => Ok(eval::permuted(matrix, &[1, 0])?),
        Val::State(_) | Val::Token => Err(OpError::invalid("a state or token stands where a tensor must")),
    }
}

fn result_elements(instr: &Instr) -> Result<Vec<ElementType>, OpError> {
    instr
        .types
        .iter()
        .map(|ty| match ty {
            ValueType::Tensor(element, _) => Ok(*element),
            other => Err(OpError::invalid(format!("a result is {other}, not a tensor"))),
        })
        .collect()
}

/// Operations whose result is the first operand's bytes under another shape.
fn is_view(code: OpCode) -> bool {
    matches!(
        code,
        OpCode::Reshape | OpCode::ExpandDims | OpCode::ShrinkDims | OpCode::Identity
    )
}

/// The operands whose values decide the shapes of the results.
fn shape_operands(code: OpCode, count: usize) -> std::ops::Range<usize> {
    match code {
        OpCode::NonZero => 0..1,
        OpCode::Range => 0..3,
        OpCode::Concat => 0..1,
        OpCode::Pad => 1..2,
        OpCode::Reshape
        | OpCode::Transpose
        | OpCode::ExpandDims
        | OpCode::ShrinkDims
        | OpCode::BroadcastTo
        | OpCode::BroadcastInDims
        | OpCode::Split
        | OpCode::Slice
        | OpCode::Tile
        | OpCode::Reduce(_)
        | OpCode::Argmax
        | OpCode::MaxPool2d
        | OpCode::MaxPool3d
        | OpCode::SumPool2d
        | OpCode::SumPool3d
        | OpCode::Interpolate => 1..count,
        OpCode::Conv2d | OpCode::Conv3d | OpCode::ConvTranspose2d | OpCode::ConvTranspose3d => 2..count,
        OpCode::LutToDense => 2..3,
        OpCode::BroadcastShapes => 0..2,
        _ => 0..0,
    }
}
