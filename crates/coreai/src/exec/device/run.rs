//! Binding a plan to buffers, and running it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anymetal::{Buffer, CommandEncoder, Graph, Tensor};

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::exec::dispatch::Dispatcher;
use crate::exec::kernel::tensor;
use crate::exec::plan::Plan;

use super::{Action, Bind, DevicePlan, Dispatch, MemoryId, Site, Source, What, build, memory};

/// What is told of each action's time.
pub(in crate::exec) type Timed<'a> = &'a mut dyn FnMut(&str, Duration);

/// A failure, and the step of the plan that it belongs to.
pub(in crate::exec) struct Failure {
    pub step: usize,
    pub error: OpError,
}

/// A plan that is ready to run on a device.
pub(in crate::exec) struct Prepared {
    plan: DevicePlan,
    assignment: memory::Assignment,
    /// Sets of buffers that no call is using.
    idle: Mutex<Vec<Instance>>,
}

/// Everything that one call at a time needs.
struct Instance {
    buffers: Vec<Buffer>,
    status: Option<Buffer>,
    /// For each dispatch, by action.
    bound: Vec<Vec<(u32, Bound)>>,
    parts: Vec<Part>,
}

/// Actions that run as one.
enum Part {
    /// Dispatches, the first of which is this action.
    Graph(usize, Graph),
    /// An action of the host.
    Host(usize),
}

/// What is bound, made once.
enum Bound {
    Buffer(Buffer, usize),
    Tensor(Tensor),
    Bytes(Vec<u8>),
}

impl Prepared {
    /// Turns a plan into actions; an error says why it must run step by step.
    pub fn new(plan: &Plan, dispatcher: &Dispatcher) -> Result<Self, OpError> {
        let plan = build::build(plan, dispatcher)?;
        let assignment = memory::assign(&plan);
        Ok(Self {
            plan,
            assignment,
            idle: Mutex::default(),
        })
    }

    /// The actions by kind, for people.
    pub fn counts(&self) -> Vec<(String, usize)> {
        let mut counts = std::collections::BTreeMap::new();
        for action in &self.plan.actions {
            *counts.entry(action.describe()).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// Runs the plan.
    pub fn run(
        &self,
        dispatcher: &Dispatcher,
        inputs: &[Array],
        states: &mut [Array],
        timed: Option<Timed<'_>>,
    ) -> Result<Vec<Array>, Failure> {
        let last = self.plan.actions.last().map_or(0, |a| a.step);
        let general = |error| Failure { step: last, error };
        let known = self.idle.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let instance = match known {
            Some(instance) => instance,
            None => self.instance(dispatcher).map_err(general)?,
        };
        let result = self.run_in(&instance, dispatcher, inputs, states, timed);
        self.idle.lock().unwrap_or_else(|e| e.into_inner()).push(instance);
        result
    }

    fn instance(&self, dispatcher: &Dispatcher) -> Result<Instance, OpError> {
        let mut buffers = Vec::new();
        for &size in &self.assignment.sizes {
            // A buffer of no bytes cannot be bound everywhere.
            buffers.push(dispatcher.device().new_buffer(size.max(16)).map_err(failed)?);
        }
        let status = match self.plan.sites.len() {
            0 => None,
            sites => Some(dispatcher.device().new_buffer(16 * sites).map_err(failed)?),
        };
        let mut instance = Instance {
            buffers,
            status,
            bound: Vec::new(),
            parts: Vec::new(),
        };
        for action in &self.plan.actions {
            let mut bound = Vec::new();
            if let What::Dispatch(dispatch) = &action.what {
                for (index, bind) in &dispatch.binds {
                    bound.push((*index, self.bind(&instance, dispatcher, bind)?));
                }
            }
            instance.bound.push(bound);
        }
        self.record(&mut instance, dispatcher)?;
        Ok(instance)
    }

    /// Makes the dispatches between two actions of the host into one graph.
    fn record(&self, instance: &mut Instance, dispatcher: &Dispatcher) -> Result<(), OpError> {
        let mut waiting: Option<(usize, CommandEncoder)> = None;
        let mut parts = Vec::new();
        for (i, action) in self.plan.actions.iter().enumerate() {
            if let What::Dispatch(dispatch) = &action.what {
                let (_, encoder) = waiting.get_or_insert_with(|| (i, dispatcher.queue().encoder()));
                encode(encoder, dispatch, &instance.bound[i])?;
                continue;
            }
            if let Some((first, encoder)) = waiting.take() {
                parts.push(Part::Graph(first, encoder.finish().map_err(failed)?));
            }
            parts.push(Part::Host(i));
        }
        if let Some((first, encoder)) = waiting {
            parts.push(Part::Graph(first, encoder.finish().map_err(failed)?));
        }
        instance.parts = parts;
        Ok(())
    }

    fn buffer(
        &self,
        instance: &Instance,
        dispatcher: &Dispatcher,
        source: &Source,
    ) -> Result<(Buffer, usize), OpError> {
        match source {
            Source::Memory(id, start) => Ok((self.of(instance, *id).clone(), *start)),
            Source::Constant(array) => Ok((dispatcher.constant_buffer(array)?, 0)),
        }
    }

    /// The buffer of a memory.
    fn of<'a>(&self, instance: &'a Instance, id: MemoryId) -> &'a Buffer {
        // A memory that no action writes has no elements: any buffer will do.
        &instance.buffers[self.assignment.buffer[id as usize].min(instance.buffers.len() - 1)]
    }

    fn bind(&self, instance: &Instance, dispatcher: &Dispatcher, bind: &Bind) -> Result<Bound, OpError> {
        Ok(match bind {
            Bind::Buffer(source) => {
                let (buffer, start) = self.buffer(instance, dispatcher, source)?;
                Bound::Buffer(buffer, start)
            }
            Bind::Tensor(source, element, shape) => {
                let (buffer, start) = self.buffer(instance, dispatcher, source)?;
                Bound::Tensor(tensor(&buffer, start, *element, shape)?)
            }
            Bind::Bytes(bytes) => Bound::Bytes(bytes.clone()),
            Bind::Status(site) => match &instance.status {
                Some(status) => Bound::Buffer(status.clone(), 16 * site),
                None => return Err(OpError::invalid("a plan has no status words")),
            },
        })
    }

    fn run_in(
        &self,
        instance: &Instance,
        dispatcher: &Dispatcher,
        inputs: &[Array],
        states: &mut [Array],
        mut timed: Option<Timed<'_>>,
    ) -> Result<Vec<Array>, Failure> {
        let first = |error| Failure { step: 0, error };
        for (&id, array) in self.plan.inputs.iter().zip(inputs) {
            self.write(instance, id, array).map_err(first)?;
        }
        let failure = |at: usize, error| Failure {
            step: self.plan.actions[at].step,
            error,
        };
        match &mut timed {
            None => {
                for part in &instance.parts {
                    match part {
                        Part::Graph(first, graph) => {
                            graph.run().map_err(|error| failure(*first, failed(error)))?;
                        }
                        Part::Host(at) => {
                            let action = &self.plan.actions[*at];
                            self.host_action(instance, dispatcher, action, states)
                                .map_err(|error| failure(*at, error))?;
                        }
                    }
                }
            }
            Some(timed) => {
                for (i, action) in self.plan.actions.iter().enumerate() {
                    let time = self.alone(instance, dispatcher, i, states);
                    timed(&action.describe(), time.map_err(|error| failure(i, error))?);
                }
            }
        }
        self.check(instance)?;
        let last = self.plan.actions.last().map_or(0, |a| a.step);
        self.plan
            .outputs
            .iter()
            .map(|(source, element, shape)| self.read(instance, source, *element, shape))
            .collect::<Result<_, _>>()
            .map_err(|error| Failure { step: last, error })
    }

    /// Runs one action and gives its time.
    fn alone(
        &self,
        instance: &Instance,
        dispatcher: &Dispatcher,
        at: usize,
        states: &mut [Array],
    ) -> Result<Duration, OpError> {
        let action = &self.plan.actions[at];
        if let What::Dispatch(dispatch) = &action.what {
            let mut encoder = dispatcher.queue().encoder();
            encode(&mut encoder, dispatch, &instance.bound[at])?;
            return Ok(encoder.run().map_err(failed)?.time());
        }
        let start = Instant::now();
        self.host_action(instance, dispatcher, action, states)?;
        Ok(start.elapsed())
    }

    fn host_action(
        &self,
        instance: &Instance,
        dispatcher: &Dispatcher,
        action: &Action,
        states: &mut [Array],
    ) -> Result<(), OpError> {
        match &action.what {
            What::Host { op, operands, results } => {
                let operands = operands
                    .iter()
                    .map(|(source, element, shape)| self.read(instance, source, *element, shape))
                    .collect::<Result<Vec<_>, _>>()?;
                let arrays = dispatcher.run(op, &operands)?;
                for (&id, array) in results.iter().zip(&arrays) {
                    self.write(instance, id, array)?;
                }
            }
            What::ReadState(i, to) => {
                if let Some(state) = states.get(*i) {
                    self.write(instance, *to, state)?;
                }
            }
            What::WriteState(i, from, element, shape) => {
                if let Some(state) = states.get_mut(*i) {
                    *state = self.read(instance, from, *element, shape)?;
                }
            }
            What::Dispatch(_) => {}
        }
        Ok(())
    }

    fn write(&self, instance: &Instance, id: MemoryId, array: &Array) -> Result<(), OpError> {
        if array.is_empty() {
            return Ok(());
        }
        self.of(instance, id).write(0, array.bytes()).map_err(failed)
    }

    fn read(
        &self,
        instance: &Instance,
        source: &Source,
        element: ElementType,
        shape: &[usize],
    ) -> Result<Array, OpError> {
        match source {
            // A value may be the first part of a constant.
            Source::Constant(array) => {
                let bytes = checked_len(element, shape)? * element.size();
                let part = array.shared().slice(0..bytes);
                let part = part.ok_or_else(|| OpError::invalid("a constant is too short"))?;
                Ok(Array::new(element, shape, part)?)
            }
            Source::Memory(id, start) => {
                // A value may be the first part of a memory.
                let bytes = checked_len(element, shape)? * element.size();
                let values: Vec<u8> = self.of(instance, *id).read_vec(*start, bytes).map_err(failed)?;
                Ok(Array::from_vec(element, shape, values)?)
            }
        }
    }

    /// What the kernels found wrong with values.
    fn check(&self, instance: &Instance) -> Result<(), Failure> {
        let Some(status) = &instance.status else {
            return Ok(());
        };
        let wrong = |error| Failure {
            step: self.plan.actions.last().map_or(0, |a| a.step),
            error,
        };
        let words: Vec<i64> = status.to_vec().map_err(|e| wrong(failed(e)))?;
        let Some(found) = words.as_chunks::<2>().0.iter().position(|[flag, _]| *flag != 0) else {
            return Ok(());
        };
        let value = words[2 * found + 1];
        status
            .write(0, &vec![0i64; words.len()])
            .map_err(|e| wrong(failed(e)))?;
        let (step, message) = match &self.plan.sites[found] {
            Site::Index { extent, step } => (
                *step,
                format!("index {value} is out of bounds for a dimension of {extent}"),
            ),
            Site::Divisor { step } => (*step, "integer division by zero".to_string()),
        };
        Err(Failure {
            step,
            error: OpError::invalid(message),
        })
    }
}

fn failed(error: anymetal::Error) -> OpError {
    OpError::Kernel(error.to_string())
}

fn encode(encoder: &mut CommandEncoder, dispatch: &Dispatch, bound: &[(u32, Bound)]) -> Result<(), OpError> {
    encoder.set_pipeline(&dispatch.pipeline);
    for (index, bound) in bound {
        match bound {
            Bound::Buffer(buffer, offset) => {
                encoder.set_buffer(*index, buffer, *offset);
            }
            Bound::Tensor(tensor) => {
                encoder.set_tensor(*index, tensor);
            }
            Bound::Bytes(bytes) => {
                encoder.set_bytes(*index, bytes).map_err(failed)?;
            }
        }
    }
    let sized = if dispatch.groups {
        encoder.dispatch_threadgroups(dispatch.grid, dispatch.threadgroup)
    } else {
        encoder.dispatch_threads(dispatch.grid, dispatch.threadgroup)
    };
    sized.map_err(|error| OpError::Kernel(format!("{}: {error}", dispatch.label)))?;
    Ok(())
}
