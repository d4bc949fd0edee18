//! A plan as a list of dispatches over memory of the device.
//!
//! [`build`](build::build) turns the steps of a plan into actions: kernels of ours, kernels of the asset, and what only the
//! host computes. Element-wise operations and data movement stay expressions until something needs their elements in
//! memory, so a chain of them is one kernel, and a reduction takes in what stands before and after it. [`memory`] lets
//! values share buffers; [`run`] binds and runs.

mod build;
mod linear;
mod memory;
mod native;
mod run;

use anymetal::Pipeline;

use crate::array::Array;
use crate::bytecode::ElementType;

use super::plan::StepOp;

pub(super) use run::{Failure, Prepared, Timed};

#[cfg(test)]
mod tests;

/// Memory by number: written once, by one action or as an input.
type MemoryId = u32;

/// What an action reads.
#[derive(Clone, Debug)]
enum Source {
    /// Memory from a byte on.
    Memory(MemoryId, usize),
    Constant(Array),
}

/// Values that start in the middle of a memory are taken as they lie when they start at a multiple of this many bytes, as tensor
/// handles and wide loads want it.
const START: usize = 128;

/// Something bound to a kernel.
#[derive(Clone, Debug)]
enum Bind {
    Buffer(Source),
    /// A packed tensor handle, innermost dimension first.
    Tensor(Source, ElementType, Vec<usize>),
    Bytes(Vec<u8>),
    /// The plan's status words from this check on.
    Status(usize),
}

/// One dispatch.
#[derive(Clone)]
struct Dispatch {
    pipeline: Pipeline,
    binds: Vec<(u32, Bind)>,
    grid: [usize; 3],
    threadgroup: [usize; 3],
    /// The grid counts threadgroups.
    groups: bool,
    writes: Vec<MemoryId>,
    /// The kernel is the asset's, not ours.
    asset: bool,
    /// For people.
    label: String,
}

/// What is done.
#[derive(Clone)]
enum What {
    Dispatch(Box<Dispatch>),
    /// The host evaluator. Operands with their types and shapes.
    Host {
        op: StepOp,
        operands: Vec<(Source, ElementType, Vec<usize>)>,
        results: Vec<MemoryId>,
    },
    ReadState(usize, MemoryId),
    WriteState(usize, Source, ElementType, Vec<usize>),
}

/// One action, and the step of the plan that it belongs to.
#[derive(Clone)]
struct Action {
    what: What,
    step: usize,
}

/// A site that may find fault with a value, and the step that it belongs to.
#[derive(Clone, Debug)]
enum Site {
    Index { extent: usize, step: usize },
    Divisor { step: usize },
}

/// The plan.
struct DevicePlan {
    /// Bytes of each memory.
    memories: Vec<usize>,
    actions: Vec<Action>,
    /// Memory of each tensor input.
    inputs: Vec<MemoryId>,
    outputs: Vec<(Source, ElementType, Vec<usize>)>,
    sites: Vec<Site>,
}

impl Action {
    /// The memories that it reads and those that it writes.
    fn touches(&self) -> (Vec<MemoryId>, Vec<MemoryId>) {
        let mut reads = Vec::new();
        let mut read = |source: &Source| {
            if let Source::Memory(id, _) = source {
                reads.push(*id);
            }
        };
        let writes = match &self.what {
            What::Dispatch(dispatch) => {
                for (_, bind) in &dispatch.binds {
                    match bind {
                        Bind::Buffer(source) | Bind::Tensor(source, ..) => read(source),
                        Bind::Bytes(_) | Bind::Status(_) => {}
                    }
                }
                dispatch.writes.clone()
            }
            What::Host { operands, results, .. } => {
                operands.iter().for_each(|(source, ..)| read(source));
                results.clone()
            }
            What::ReadState(_, to) => vec![*to],
            What::WriteState(_, from, ..) => {
                read(from);
                Vec::new()
            }
        };
        (reads, writes)
    }

    /// The kind of action, for people.
    fn describe(&self) -> String {
        match &self.what {
            What::Dispatch(dispatch) => dispatch.label.clone(),
            What::Host { op, .. } => op.describe(),
            What::ReadState(..) => "read state".to_string(),
            What::WriteState(..) => "write state".to_string(),
        }
    }
}
