//! Passes over a recorded plan: what follows a product or a sum joins it.

use crate::bytecode::ElementType;
use crate::program::{Binary, OpCode, Unary};

use super::native::{Activation, Native};
use super::plan::{Plan, Source, StepOp};

impl Plan {
    /// Removes what is not needed and joins what can be joined.
    pub fn optimise(&mut self) {
        self.remove_idle_views();
        self.remove_dead();
        self.fuse_bias();
        self.fuse_activation();
        self.fuse_residual();
        self.remove_dead();
        self.find_ends();
    }

    /// A view that keeps the shape is its operand; a view of a view is a view of the first operand.
    fn remove_idle_views(&mut self) {
        let mut same: Vec<Option<Source>> = vec![None; self.slots.len()];
        let mut base: Vec<Option<Source>> = vec![None; self.slots.len()];
        let replace = |same: &[Option<Source>], source: &mut Source| {
            if let Source::Slot(slot) = source
                && let Some(other) = &same[*slot as usize]
            {
                *source = other.clone();
            }
        };
        for step in &mut self.steps {
            step.inputs.iter_mut().for_each(|s| replace(&same, s));
            let StepOp::Alias { shape } = &step.op else {
                continue;
            };
            if let Some(Source::Slot(slot)) = step.inputs.first()
                && let Some(first) = &base[*slot as usize]
            {
                step.inputs[0] = first.clone();
            }
            let (Some(input), Some(&output)) = (step.inputs.first(), step.outputs.first()) else {
                continue;
            };
            let keeps = match input {
                Source::Slot(slot) => self.slots[*slot as usize].shape == *shape,
                Source::Const(array) => array.shape() == shape.as_slice(),
                Source::Transposed(_) => false,
            };
            if keeps {
                same[output as usize] = Some(input.clone());
            } else {
                base[output as usize] = Some(input.clone());
            }
        }
        self.outputs.iter_mut().for_each(|s| replace(&same, s));
    }

    /// How often each slot is read, results of the function included.
    fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.slots.len()];
        let sources = self.steps.iter().flat_map(|s| &s.inputs).chain(&self.outputs);
        for source in sources {
            if let Source::Slot(s) = source {
                uses[*s as usize] += 1;
            }
        }
        uses
    }

    /// The step that writes each slot.
    fn writers(&self) -> Vec<Option<usize>> {
        let mut writers = vec![None; self.slots.len()];
        for (i, step) in self.steps.iter().enumerate() {
            step.outputs.iter().for_each(|&o| writers[o as usize] = Some(i));
        }
        writers
    }

    /// The step whose only result is `source`, read by nobody else.
    fn sole_writer(&self, source: &Source, writers: &[Option<usize>], uses: &[usize]) -> Option<usize> {
        let Source::Slot(slot) = source else {
            return None;
        };
        let writer = writers[*slot as usize]?;
        (uses[*slot as usize] == 1 && self.steps[writer].outputs.len() == 1).then_some(writer)
    }

    fn fuse_bias(&mut self) {
        let (writers, uses) = (self.writers(), self.uses());
        for i in 0..self.steps.len() {
            let StepOp::Host {
                code: OpCode::Binary(Binary::Add),
                ..
            } = self.steps[i].op
            else {
                continue;
            };
            let [a, b] = self.steps[i].inputs.as_slice() else {
                continue;
            };
            let found = [(a, b), (b, a)].into_iter().find_map(|(x, bias)| {
                let Source::Const(bias) = bias else {
                    return None;
                };
                let writer = self.sole_writer(x, &writers, &uses)?;
                let StepOp::Native(Native::Linear {
                    bias: false,
                    activation: Activation::None,
                }) = self.steps[writer].op
                else {
                    return None;
                };
                let out = &self.slots[self.steps[i].outputs[0] as usize];
                let same = *out == self.slots[self.steps[writer].outputs[0] as usize];
                let vector = bias.rank() == 1 && Some(bias.shape()[0]) == out.shape.last().copied();
                (same && vector).then(|| (writer, bias.clone()))
            });
            let Some((writer, bias)) = found else {
                continue;
            };
            let mut inputs = self.steps[writer].inputs.clone();
            inputs.push(Source::Const(bias));
            let op = StepOp::Native(Native::Linear {
                bias: true,
                activation: Activation::None,
            });
            (self.steps[i].op, self.steps[i].inputs) = (op, inputs);
        }
        self.remove_dead();
    }

    fn fuse_activation(&mut self) {
        let (writers, uses) = (self.writers(), self.uses());
        for i in 0..self.steps.len() {
            let activation = match self.steps[i].op {
                StepOp::Host {
                    code: OpCode::Unary(Unary::Relu),
                    ..
                } => Activation::Relu,
                StepOp::Host {
                    code: OpCode::Unary(Unary::Silu),
                    ..
                } => Activation::Silu,
                StepOp::Host {
                    code: OpCode::Gelu,
                    mode: 0,
                    ..
                } => Activation::Gelu,
                StepOp::Host {
                    code: OpCode::Gelu,
                    mode: 1,
                    ..
                } => Activation::GeluTanh,
                _ => continue,
            };
            let Some(writer) = self.steps[i]
                .inputs
                .first()
                .and_then(|s| self.sole_writer(s, &writers, &uses))
            else {
                continue;
            };
            let StepOp::Native(Native::Linear {
                bias,
                activation: Activation::None,
            }) = self.steps[writer].op
            else {
                continue;
            };
            // Narrow types round between the layer and its activation; a fused pass would not.
            if self.slots[self.steps[i].outputs[0] as usize].element != ElementType::F32 {
                continue;
            }
            let inputs = self.steps[writer].inputs.clone();
            (self.steps[i].op, self.steps[i].inputs) = (StepOp::Native(Native::Linear { bias, activation }), inputs);
        }
        self.remove_dead();
    }

    /// A sum that only a layer norm reads joins it.
    fn fuse_residual(&mut self) {
        let (writers, uses) = (self.writers(), self.uses());
        for i in 0..self.steps.len() {
            let StepOp::Native(Native::LayerNorm { eps, residual: false }) = self.steps[i].op else {
                continue;
            };
            let Some(writer) = self.steps[i]
                .inputs
                .first()
                .and_then(|s| self.sole_writer(s, &writers, &uses))
            else {
                continue;
            };
            let StepOp::Host {
                code: OpCode::Binary(Binary::Add),
                ..
            } = self.steps[writer].op
            else {
                continue;
            };
            let shape = &self.slots[self.steps[writer].outputs[0] as usize].shape;
            let whole = self.steps[writer].inputs.iter().all(|source| match source {
                Source::Slot(s) => self.slots[*s as usize].shape == *shape,
                Source::Const(a) => a.shape() == shape.as_slice(),
                Source::Transposed(_) => false,
            });
            if !whole || self.steps[writer].inputs.len() != 2 {
                continue;
            }
            let mut inputs = self.steps[writer].inputs.clone();
            inputs.extend_from_slice(&self.steps[i].inputs[1..]);
            (self.steps[i].op, self.steps[i].inputs) =
                (StepOp::Native(Native::LayerNorm { eps, residual: true }), inputs);
        }
    }
}
