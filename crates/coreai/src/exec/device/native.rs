//! Operations of a plan that kernels in Metal source compute: ours, and the asset's.

use std::sync::Arc;

use anymetal::Access;

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::exec::fused::{Form, MapOp, Memory, Node, Operand, layer_norm, map_kernel, rms_norm};
use crate::exec::library::{self, Launch};
use crate::exec::native::Native;
use crate::exec::plan::{self, KernelCall, SlotType, Step};

use super::build::{Build, in_memory, too_complex};
use super::{Bind, Dispatch, Source, What};

impl Build<'_> {
    /// A fused operation of ours.
    pub(super) fn native(&mut self, step: &Step, native: &Native) -> Result<(), OpError> {
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
    pub(super) fn kernel(&mut self, step: &Step, call: &Arc<KernelCall>) -> Result<(), OpError> {
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
