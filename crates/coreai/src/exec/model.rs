//! The public face: models and their functions.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anymetal::Device;

use crate::array::Array;
use crate::asset::{Asset, Metadata, OpenOptions};
use crate::bytecode::{Dim, ElementType};
use crate::error::{AssetError, OpError, ProgramError, RunError};
use crate::program::{Detail, Graph, Program, ValueType, dims_text};

use super::device::{Failure, Prepared, Timed};
use super::dispatch::Dispatcher;
use super::plan::{Plan, PlanSummary, Source, StepOp, StepTime};
use super::walk::{Folded, Walk};

/// Plans that a function keeps, the oldest goes first.
const MAX_PLANS: usize = 32;

/// Where the operations of a model are computed that no Metal kernel of ours covers: norms, reductions, element-wise
/// operations, data movement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Where it is faster: in the host evaluator when the device is the processor, else on the device.
    #[default]
    Auto,
    /// In the host evaluator, one operation after the other.
    Host,
    /// In generated kernels on the device. What they do not cover runs on the host.
    Device,
}

/// How to load a model.
#[derive(Clone, Default)]
pub struct ModelOptions {
    open: OpenOptions,
    device: Option<Device>,
    placement: Placement,
    trust: bool,
}

impl ModelOptions {
    /// The default device, and the asset's hash must be right.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads an asset whose hash is missing or wrong.
    pub fn allow_wrong_hash(mut self, allow: bool) -> Self {
        self.open = self.open.allow_wrong_hash(allow);
        self
    }

    /// Runs on `device`.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Computes what no Metal kernel covers at `placement`.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Does not check the accesses of kernels inside the asset (on a GPU, where that takes time; on the CPU they are always checked). An
    /// access out of bounds then reaches whatever else this process has on the GPU.
    pub fn trust(mut self, trust: bool) -> Self {
        self.trust = trust;
        self
    }

    /// Loads the asset directory `path`.
    pub fn load(self, path: impl AsRef<Path>) -> Result<Model, AssetError> {
        let asset = self.open.open(path)?;
        let device = self.device.unwrap_or_else(Device::system_default);
        Model::from_asset(asset, Dispatcher::new(device).trusting(self.trust), self.placement)
    }
}

/// A loaded model. Cloning shares it.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    metadata: Metadata,
    program: Program,
    dispatcher: Dispatcher,
    /// The processor, when the device is another one: walks run there, whose values go back and forth between kernels and the
    /// evaluator.
    walker: Option<Dispatcher>,
    folded: Folded,
    placement: Placement,
    plans: Mutex<Vec<(PlanKey, Cached)>>,
}

/// A function's graph and the types of its inputs.
type PlanKey = (usize, Vec<(ElementType, Vec<usize>)>);

/// A plan's form for the device; `None` when it is to run on the host, an error when it must.
type OnDevice = Option<Result<Prepared, OpError>>;

#[derive(Clone)]
enum Cached {
    /// The plan, and its form for the device when that is how it runs.
    Plan(Arc<(Plan, OnDevice)>),
    /// The walk depends on input values and is repeated on each call.
    Walk(Arc<str>),
}

impl Model {
    /// Loads the asset directory `path` for the default device. Weights stay in the mapped file; another process must not
    /// shorten the file while the model lives.
    ///
    /// Every kernel inside is compiled, and operations that cannot be run are refused here by name.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, AssetError> {
        ModelOptions::new().load(path)
    }

    fn from_asset(asset: Asset, dispatcher: Dispatcher, placement: Placement) -> Result<Self, AssetError> {
        let path = asset.path().to_path_buf();
        let metadata = asset.metadata().clone();
        let failed = |error: ProgramError| AssetError::Program {
            path: path.clone(),
            error,
        };
        let program = Program::new(asset.into_module()).map_err(failed)?;
        if !program.unsupported().is_empty() {
            return Err(failed(ProgramError::Unsupported(program.unsupported().to_vec())));
        }
        for graph in program.graphs() {
            compile(&dispatcher, &graph.body).map_err(failed)?;
        }
        let folded = Folded::default();
        let inner = Inner {
            metadata,
            program,
            walker: dispatcher.device().gpu().map(|_| Dispatcher::new(Device::cpu())),
            dispatcher,
            folded,
            placement,
            plans: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the asset says about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.inner.metadata
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.inner.program
    }

    /// Every kernel that was compiled for it so far: those inside the asset, and after a run those of ours that it took.
    pub fn kernels(&self) -> Vec<anymetal::Pipeline> {
        self.inner.dispatcher.compiled_so_far()
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        self.inner.dispatcher.device()
    }

    /// Names of the functions.
    pub fn function_names(&self) -> Vec<String> {
        self.inner.program.function_names()
    }

    /// The function `name`.
    pub fn function(&self, name: &str) -> Result<Function, ProgramError> {
        Ok(Function {
            model: self.inner.clone(),
            graph: self.inner.program.function(name)?,
        })
    }
}

impl Inner {
    /// True when plans run as kernels on the device.
    fn on_device(&self) -> bool {
        match self.placement {
            Placement::Auto => self.dispatcher.device().gpu().is_some(),
            Placement::Host => false,
            Placement::Device => true,
        }
    }
}

fn compile(dispatcher: &Dispatcher, body: &crate::program::Body) -> Result<(), ProgramError> {
    for instr in &body.instrs {
        match &instr.detail {
            Detail::Kernel { name, source } => {
                dispatcher.pipeline(name, source)?;
            }
            Detail::Bodies(bodies) => {
                for body in bodies {
                    compile(dispatcher, body)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// An input or state of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSpec {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub element: ElementType,
    /// Its extents; `None` is free.
    pub shape: Vec<Dim>,
}

/// A result of a function.
pub type OutputSpec = InputSpec;

/// A callable function of a model. Cloning shares its plans.
#[derive(Clone)]
pub struct Function {
    model: Arc<Inner>,
    graph: usize,
}

impl Function {
    fn graph(&self) -> &Graph {
        &self.model.program.graphs()[self.graph]
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.graph().name
    }

    /// Inputs to pass on each call.
    pub fn inputs(&self) -> Vec<InputSpec> {
        self.specs(&self.graph().inputs, false)
    }

    /// States: arrays that the caller owns and that calls read and replace.
    pub fn states(&self) -> Vec<InputSpec> {
        self.specs(&self.graph().inputs, true)
    }

    /// Results.
    pub fn outputs(&self) -> Vec<OutputSpec> {
        self.specs(&self.graph().outputs, false)
    }

    fn specs(&self, ports: &[crate::program::Port], handles: bool) -> Vec<InputSpec> {
        let spec = |port: &crate::program::Port| match &port.ty {
            ValueType::Tensor(element, shape) if !handles => Some(InputSpec {
                name: port.name.clone(),
                element: *element,
                shape: shape.clone(),
            }),
            ValueType::Handle(element, shape) if handles => Some(InputSpec {
                name: port.name.clone(),
                element: *element,
                shape: shape.clone(),
            }),
            _ => None,
        };
        ports.iter().filter_map(spec).collect()
    }

    /// Runs a function without state. Inputs are given by name in any order; results come by name in the order of
    /// [`Function::outputs`].
    pub fn run(&self, inputs: &[(&str, Array)]) -> Result<Vec<(String, Array)>, RunError> {
        self.run_with_state(inputs, &mut HashMap::new())
    }

    /// Runs a function; the arrays in `states` are read and replaced.
    pub fn run_with_state(
        &self,
        inputs: &[(&str, Array)],
        states: &mut HashMap<String, Array>,
    ) -> Result<Vec<(String, Array)>, RunError> {
        let specs = self.inputs();
        let ordered = check_inputs(&specs, inputs)?;
        let state_specs = self.states();
        let mut own = Vec::with_capacity(state_specs.len());
        for spec in &state_specs {
            let array = states.get(&spec.name).ok_or_else(|| RunError::MissingState {
                name: spec.name.clone(),
                expected: type_text(spec),
            })?;
            check_input(spec, array)?;
            own.push(array.clone());
        }
        let outputs = self.call(&ordered, &mut own)?;
        for (spec, array) in state_specs.iter().zip(own) {
            states.insert(spec.name.clone(), array);
        }
        Ok(self.outputs().into_iter().map(|s| s.name).zip(outputs).collect())
    }

    /// What the plan for these inputs holds, or why calls are not planned. `None` before the first call.
    pub fn plan_summary(&self, inputs: &[(&str, Array)]) -> Result<Option<Result<PlanSummary, String>>, RunError> {
        let ordered = check_inputs(&self.inputs(), inputs)?;
        let found = self.cached(&self.key(&ordered, &[])).or_else(|| {
            let plans = self.model.plans.lock().unwrap_or_else(|e| e.into_inner());
            plans
                .iter()
                .find(|(key, _)| key.0 == self.graph)
                .map(|(_, cached)| cached.clone())
        });
        Ok(found.map(|cached| match cached {
            Cached::Plan(plan) => {
                let mut summary = plan.0.summary();
                match &plan.1 {
                    Some(Ok(prepared)) => summary.steps = prepared.counts(),
                    Some(Err(why)) => summary.fallback = Some(why.to_string()),
                    None => {}
                }
                Ok(summary)
            }
            Cached::Walk(why) => Err(why.to_string()),
        }))
    }

    fn key(&self, inputs: &[Array], states: &[Array]) -> PlanKey {
        (
            self.graph,
            inputs
                .iter()
                .chain(states)
                .map(|a| (a.element(), a.shape().to_vec()))
                .collect(),
        )
    }

    fn cached(&self, key: &PlanKey) -> Option<Cached> {
        let plans = self.model.plans.lock().unwrap_or_else(|e| e.into_inner());
        plans.iter().find(|(k, _)| k == key).map(|(_, cached)| cached.clone())
    }

    fn call(&self, inputs: &[Array], states: &mut [Array]) -> Result<Vec<Array>, RunError> {
        let key = self.key(inputs, states);
        let known = self.cached(&key);
        if let Some(Cached::Plan(plan)) = &known {
            return self.planned(plan, inputs, states, None);
        }
        let model = &*self.model;
        let before = states.to_vec();
        let walker = model.walker.as_ref().unwrap_or(&model.dispatcher);
        let walk = Walk::new(&model.program, walker, &model.folded, states);
        let walked = walk.run(self.graph, inputs)?;
        if known.is_none() {
            let mut planned = None;
            let cached = match walked.plan {
                Ok(mut plan) => {
                    plan.optimise();
                    let prepared = model.on_device().then(|| Prepared::new(&plan, &model.dispatcher));
                    let plan = Arc::new((plan, prepared));
                    planned = Some(plan.clone());
                    Cached::Plan(plan)
                }
                Err(why) => Cached::Walk(why.into()),
            };
            let mut plans = model.plans.lock().unwrap_or_else(|e| e.into_inner());
            if plans.len() >= MAX_PLANS {
                plans.remove(0);
            }
            plans.push((key, cached));
            drop(plans);
            // What the device computes differs in the last digits: every call gives the same.
            if let (Some(plan), Some(_)) = (planned, &model.walker) {
                states.clone_from_slice(&before);
                return self.planned(&plan, inputs, states, None);
            }
        }
        Ok(walked.outputs)
    }

    /// The times of the steps of one planned call of a function without state, longest first. A function that is not
    /// planned gives none.
    pub fn profile(&self, inputs: &[(&str, Array)]) -> Result<Vec<StepTime>, RunError> {
        self.run(inputs)?;
        let ordered = check_inputs(&self.inputs(), inputs)?;
        let Some(Cached::Plan(plan)) = self.cached(&self.key(&ordered, &[])) else {
            return Ok(Vec::new());
        };
        let mut times: HashMap<String, (usize, Duration)> = HashMap::new();
        let mut timed = |name: &str, time: Duration| {
            let entry = times.entry(name.to_string()).or_default();
            entry.0 += 1;
            entry.1 += time;
        };
        self.planned(&plan, &ordered, &mut [], Some(&mut timed))?;
        let mut out: Vec<StepTime> = times
            .into_iter()
            .map(|(name, (count, time))| StepTime { name, count, time })
            .collect();
        out.sort_by_key(|step| std::cmp::Reverse(step.time));
        Ok(out)
    }

    /// A failure of a step of the plan.
    fn failed(&self, plan: &Plan, failure: Failure) -> RunError {
        let Some(step) = plan.steps.get(failure.step) else {
            return RunError::Op {
                op: "output".into(),
                at: String::new(),
                error: failure.error,
            };
        };
        let at = match self.model.program.location(step.location) {
            Ok(Some(place)) => format!(" ({}:{})", place.file, place.line),
            _ => String::new(),
        };
        RunError::Op {
            op: self.model.program.module().op_name(step.name).to_string(),
            at,
            error: failure.error,
        }
    }

    /// A planned call. `timed` is told of each step's time.
    fn planned(
        &self,
        planned: &(Plan, OnDevice),
        inputs: &[Array],
        states: &mut [Array],
        timed: Option<Timed<'_>>,
    ) -> Result<Vec<Array>, RunError> {
        let (plan, prepared) = planned;
        match prepared {
            Some(Ok(prepared)) => prepared
                .run(&self.model.dispatcher, inputs, states, timed)
                .map_err(|failure| self.failed(plan, failure)),
            _ => self.replay(plan, inputs, states, timed),
        }
    }

    fn replay(
        &self,
        plan: &Plan,
        inputs: &[Array],
        states: &mut [Array],
        mut timed: Option<Timed<'_>>,
    ) -> Result<Vec<Array>, RunError> {
        let mut slots: Vec<Option<Array>> = vec![None; plan.slots.len()];
        for (&slot, array) in plan.inputs.iter().zip(inputs) {
            slots[slot as usize] = Some(array.clone());
        }
        let take = |slots: &[Option<Array>], source: &Source| match source {
            Source::Const(array) | Source::Transposed(array) => Ok(array.clone()),
            Source::Slot(slot) => slots[*slot as usize]
                .clone()
                .ok_or_else(|| OpError::invalid("a value of the plan is missing")),
        };
        let mut operands = Vec::new();
        for (i, (step, ends)) in plan.steps.iter().zip(&plan.ends).enumerate() {
            let failed = |error: OpError| self.failed(plan, Failure { step: i, error });
            let start = Instant::now();
            operands.clear();
            for source in &step.inputs {
                operands.push(take(&slots, source).map_err(failed)?);
            }
            match &step.op {
                StepOp::ReadState(i) => slots[step.outputs[0] as usize] = states.get(*i).cloned(),
                StepOp::WriteState(i) => {
                    if let (Some(state), Some(value)) = (states.get_mut(*i), operands.pop()) {
                        *state = value;
                    }
                }
                op => {
                    let results = self.model.dispatcher.run(op, &operands).map_err(failed)?;
                    for (&slot, array) in step.outputs.iter().zip(results) {
                        slots[slot as usize] = Some(array);
                    }
                }
            }
            for &slot in ends {
                slots[slot as usize] = None;
            }
            if let Some(timed) = &mut timed {
                timed(&step.op.describe(), start.elapsed());
            }
        }
        plan.outputs
            .iter()
            .map(|source| {
                take(&slots, source).map_err(|error| RunError::Op {
                    op: "output".into(),
                    at: String::new(),
                    error,
                })
            })
            .collect()
    }
}

fn type_text(spec: &InputSpec) -> String {
    format!("{}{}", spec.element, dims_text(&spec.shape))
}

fn all_text(specs: &[InputSpec]) -> String {
    if specs.is_empty() {
        return "no inputs".to_string();
    }
    let items: Vec<String> = specs.iter().map(|s| format!("{}: {}", s.name, type_text(s))).collect();
    items.join(", ")
}

fn check_inputs(specs: &[InputSpec], given: &[(&str, Array)]) -> Result<Vec<Array>, RunError> {
    for (name, _) in given {
        if !specs.iter().any(|s| s.name == *name) {
            return Err(RunError::UnknownInput {
                name: name.to_string(),
                expected: all_text(specs),
            });
        }
    }
    specs
        .iter()
        .map(|spec| {
            let array = given
                .iter()
                .find(|(name, _)| *name == spec.name)
                .map(|(_, array)| array);
            let array = array.ok_or_else(|| RunError::MissingInput {
                name: spec.name.clone(),
                expected: all_text(specs),
            })?;
            check_input(spec, array)?;
            Ok(array.clone())
        })
        .collect()
}

fn check_input(spec: &InputSpec, array: &Array) -> Result<(), RunError> {
    if array.element() != spec.element {
        return Err(RunError::Element {
            name: spec.name.clone(),
            found: array.element().to_string(),
            expected: spec.element.to_string(),
        });
    }
    let fits = array.rank() == spec.shape.len()
        && array
            .shape()
            .iter()
            .zip(&spec.shape)
            .all(|(&d, s)| s.is_none_or(|s| s == d as u64));
    if !fits {
        return Err(RunError::Shape {
            name: spec.name.clone(),
            found: array.shape().to_vec(),
            expected: dims_text(&spec.shape),
        });
    }
    Ok(())
}
