//! A plan: the operations that remain for one set of input shapes, in order, with the slots that they read and write.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::array::Array;
use crate::bytecode::{AttrId, ElementType};
use crate::program::OpCode;

use super::native::Native;

/// Where a step's operand comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Known when the plan was made.
    Const(Array),
    /// A weight that is stored as the transpose of this matrix. Only matrix products take one.
    Transposed(Array),
    /// Written by an earlier step, or an input.
    Slot(u32),
}

/// What a step does.
#[derive(Clone, Debug)]
pub(super) enum StepOp {
    /// The host evaluator.
    Host {
        code: OpCode,
        mode: u64,
        elements: Vec<ElementType>,
    },
    /// The first operand's bytes under another shape.
    Alias { shape: Vec<usize> },
    /// A fused operation of ours.
    Native(Native),
    /// A kernel from the asset.
    Kernel(Arc<KernelCall>),
    /// The current contents of a state.
    ReadState(usize),
    /// Replaces the contents of a state by the first operand.
    WriteState(usize),
}

impl StepOp {
    /// The kind of step, for people.
    pub fn describe(&self) -> String {
        match self {
            StepOp::Host { code, .. } => format!("host {code:?}"),
            StepOp::Alias { .. } => "view".to_string(),
            StepOp::Native(native) => native.name().to_string(),
            StepOp::Kernel(call) => format!("kernel {}", call.name),
            StepOp::ReadState(_) => "read state".to_string(),
            StepOp::WriteState(_) => "write state".to_string(),
        }
    }
}

/// A call of a Metal kernel inside the asset.
#[derive(Debug)]
pub(super) struct KernelCall {
    pub name: Arc<str>,
    pub source: Arc<str>,
    pub grid: [usize; 3],
    pub threadgroup: [usize; 3],
    pub results: Vec<(ElementType, Vec<usize>)>,
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub op: StepOp,
    pub inputs: Vec<Source>,
    pub outputs: Vec<u32>,
    /// For messages.
    pub name: u32,
    pub location: AttrId,
}

/// A slot's type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SlotType {
    pub element: ElementType,
    pub shape: Vec<usize>,
}

/// Everything that later calls with the same shapes need.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub slots: Vec<SlotType>,
    /// Slot of each tensor input of the function, in order.
    pub inputs: Vec<u32>,
    pub steps: Vec<Step>,
    /// The function's tensor results, in order.
    pub outputs: Vec<Source>,
    /// For each step, the slots that end with it.
    pub ends: Vec<Vec<u32>>,
    /// Operations of the program that were computed while planning.
    pub folded: usize,
}

impl Plan {
    /// Removes steps whose results nobody needs.
    pub fn remove_dead(&mut self) {
        let mut needed = vec![false; self.slots.len()];
        let mark = |needed: &mut Vec<bool>, source: &Source| {
            if let Source::Slot(s) = source {
                needed[*s as usize] = true;
            }
        };
        self.outputs.iter().for_each(|o| mark(&mut needed, o));
        let mut keep = vec![false; self.steps.len()];
        for (i, step) in self.steps.iter().enumerate().rev() {
            let effect = matches!(step.op, StepOp::WriteState(_));
            if effect || step.outputs.iter().any(|&o| needed[o as usize]) {
                keep[i] = true;
                step.inputs.iter().for_each(|s| mark(&mut needed, s));
            }
        }
        let mut kept = keep.into_iter();
        self.steps.retain(|_| kept.next().unwrap_or(true));
    }

    /// Computes where slots end, so that their memory is free for later steps.
    pub fn find_ends(&mut self) {
        let mut last: Vec<Option<usize>> = vec![None; self.slots.len()];
        for (i, step) in self.steps.iter().enumerate() {
            let read = step.inputs.iter().filter_map(|s| match s {
                Source::Slot(s) => Some(*s),
                _ => None,
            });
            for slot in read.chain(step.outputs.iter().copied()) {
                last[slot as usize] = Some(i);
            }
        }
        for output in &self.outputs {
            if let Source::Slot(s) = output {
                last[*s as usize] = None;
            }
        }
        self.ends = vec![Vec::new(); self.steps.len()];
        for (slot, end) in last.into_iter().enumerate() {
            if let Some(end) = end {
                self.ends[end].push(slot as u32);
            }
        }
    }

    /// The steps by kind, for people.
    pub fn summary(&self) -> PlanSummary {
        let mut steps = BTreeMap::new();
        for step in &self.steps {
            *steps.entry(step.op.describe()).or_insert(0) += 1;
        }
        PlanSummary {
            steps: steps.into_iter().collect(),
            folded: self.folded,
            fallback: None,
        }
    }
}

/// Time that one kind of step took in one call.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// The kind of step, as in [`PlanSummary::steps`].
    pub name: String,
    /// Number of steps.
    pub count: usize,
    /// Their time together.
    pub time: std::time::Duration,
}

/// What a plan holds.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSummary {
    /// Steps by kind.
    pub steps: Vec<(String, usize)>,
    /// Operations that were computed while planning.
    pub folded: usize,
    /// Why the plan runs step by step although it was to run as kernels on the device.
    pub fallback: Option<String>,
}
