//! The one place that knows which executor runs a kernel.

mod cpu;
mod cuda;

use std::sync::Arc;
use std::time::Duration;

use anymetal_cuda::driver::Context;
use anymetal_ir::{Finding, Kernel, LocationId};

use crate::binding::{Bound, Launch};
use crate::error::{Error, Result};
use crate::pipeline::{ExecutionOptions, Pipeline};
use crate::queue::Traffic;
use crate::tensor::Tensor;

/// Where kernels run.
#[derive(Clone)]
pub(crate) enum Target {
    Cpu,
    Cuda(Arc<Context>),
}

impl Target {
    /// A CUDA device by its number.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        let context = Context::open(ordinal).map_err(cuda::device_error)?;
        Ok(Target::Cuda(context))
    }

    /// `cpu`, `cuda:0`.
    pub fn id(&self) -> String {
        match self {
            Target::Cpu => "cpu".to_owned(),
            Target::Cuda(context) => format!("cuda:{}", context.properties().ordinal),
        }
    }

    pub fn is_same(&self, other: &Target) -> bool {
        match (self, other) {
            (Target::Cpu, Target::Cpu) => true,
            (Target::Cuda(a), Target::Cuda(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Waits for everything that was committed.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Target::Cpu => Ok(()),
            Target::Cuda(context) => context.synchronize().map_err(cuda::device_error),
        }
    }
}

/// A kernel in an executor's own form.
pub(crate) enum Compiled {
    Cpu(Box<cpu::Compiled>),
    Cuda(cuda::Compiled),
}

impl Compiled {
    pub fn new(target: &Target, kernel: &Arc<Kernel>, options: &ExecutionOptions) -> Result<Self> {
        Ok(match target {
            Target::Cpu => Compiled::Cpu(Box::new(cpu::Compiled::new(kernel, options)?)),
            Target::Cuda(context) => Compiled::Cuda(cuda::Compiled::new(context, kernel, options)?),
        })
    }

    /// What it runs on: a tile path of the processor, or `cuda sm_90a`.
    pub fn path(&self) -> String {
        match self {
            Compiled::Cpu(compiled) => compiled.path(),
            Compiled::Cuda(compiled) => compiled.path(),
        }
    }

    /// Where it runs.
    pub fn target(&self) -> Target {
        match self {
            Compiled::Cpu(_) => Target::Cpu,
            Compiled::Cuda(compiled) => Target::Cuda(compiled.context().clone()),
        }
    }
}

/// A checked dispatch.
pub(crate) struct Dispatch {
    pub pipeline: Pipeline,
    pub bound: Vec<Bound>,
    pub resources: Arc<Vec<Tensor>>,
    pub launch: Launch,
}

/// What the executor said of one dispatch.
#[derive(Default)]
pub(crate) struct Ran {
    pub time: Duration,
    pub threadgroups: u64,
    pub workers: usize,
    pub traffic: Option<Traffic>,
    pub findings: Vec<Finding>,
}

/// What the executor said of a list of them.
#[derive(Default)]
pub(crate) struct RanAll {
    pub each: Vec<Ran>,
    /// Time of all, where single times are not known.
    pub together: Option<Duration>,
}

/// Dispatches that were handed to the executor.
pub(crate) enum Pending {
    Done(Result<RanAll>),
    Cuda(cuda::Pending),
}

impl Pending {
    /// Waits until they have run.
    pub fn wait(self) -> Result<RanAll> {
        match self {
            Pending::Done(result) => result,
            Pending::Cuda(pending) => pending.wait(),
        }
    }
}

/// Hands dispatches over, in order. All are for the target.
pub(crate) fn commit(target: &Target, dispatches: &Arc<Vec<Dispatch>>) -> Pending {
    match target {
        Target::Cpu => Pending::Done(cpu::run(dispatches)),
        Target::Cuda(context) => match cuda::commit(context, dispatches) {
            Ok(pending) => Pending::Cuda(pending),
            Err(error) => Pending::Done(Err(error)),
        },
    }
}

/// Dispatches that can be run again and again.
pub(crate) enum Recorded {
    Cpu(Arc<Vec<Dispatch>>),
    Cuda(cuda::Recorded),
}

impl Recorded {
    pub fn new(target: &Target, dispatches: &Arc<Vec<Dispatch>>) -> Result<Self> {
        Ok(match target {
            Target::Cpu => Recorded::Cpu(dispatches.clone()),
            Target::Cuda(context) => Recorded::Cuda(cuda::Recorded::new(context, dispatches)?),
        })
    }

    pub fn commit(&self) -> Pending {
        match self {
            Recorded::Cpu(dispatches) => Pending::Done(cpu::run(dispatches)),
            Recorded::Cuda(recorded) => match recorded.commit() {
                Ok(pending) => Pending::Cuda(pending),
                Err(error) => Pending::Done(Err(error)),
            },
        }
    }
}

/// ` at FILE:LINE:COLUMN`, or nothing when the place is unknown.
pub(crate) fn place(kernel: &Kernel, location: LocationId) -> String {
    match kernel.locations.get(location).line {
        0 => String::new(),
        _ => format!(" at {}", kernel.locations.describe(location)),
    }
}

fn refuse(kernel: &Kernel, reason: String) -> Error {
    Error::Unsupported {
        kernel: kernel.name.clone(),
        reason,
    }
}
