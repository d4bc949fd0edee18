//! Linear layers of a plan: which kernel, and which layers share a dispatch.

use std::sync::Arc;

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::exec::fused::{Affine, Form, MapOp, Memory, Node, TERMS, map_kernel, split_width};
use crate::exec::library;
use crate::exec::native::{Activation, Native};
use crate::exec::plan::{self, Step, StepOp};
use crate::program::{Binary, Unary};

use super::build::{Build, in_memory, label, too_complex};
use super::{Bind, Dispatch, MemoryId, Source, What};

/// Layers of so many rows are computed by SIMD-groups on their own.
const FEW_ROWS: usize = 192;
/// Layers that one dispatch takes.
const LAYERS: usize = 3;
/// Fewer terms than this along K would show in the result: see [`split_width`].
const MIN_SPLIT: usize = 256;

/// True for float layers of M rows and K columns that are products of terms.
fn in_terms(m: usize, k: usize) -> bool {
    m > FEW_ROWS && k.is_multiple_of(8) && k >= MIN_SPLIT
}

/// One layer's constants.
struct Layer {
    step: usize,
    slot: u32,
    w: Array,
    bias: Option<Array>,
}

impl Build<'_> {
    /// A linear layer: x [.., K], w [N, K] and perhaps a bias [N].
    pub(super) fn linear(&mut self, step: &Step, bias: bool, activation: Activation) -> Result<(), OpError> {
        let x = self.operand(&step.inputs[0])?;
        let w = match step.inputs.get(1) {
            Some(plan::Source::Const(array) | plan::Source::Transposed(array)) => Some(array.clone()),
            _ => None,
        };
        let w_shape = self.operand(&step.inputs[1])?.shape;
        let (Some(&k), &[n, _]) = (x.shape.last(), w_shape.as_slice()) else {
            return Err(too_complex());
        };
        if k == 0 {
            return Err(too_complex());
        }
        let sizes = [x.shape.iter().product::<usize>() / k, n, k];
        let element = x.node.element();
        if let Some(w) = &w {
            let aligned = !self.dispatcher.in_place() || (w.bytes().as_ptr() as usize).is_multiple_of(16);
            if element == ElementType::F32 && sizes[0] <= FEW_ROWS && k.is_multiple_of(4) && aligned {
                return self.few_rows(step, sizes, bias, activation);
            }
            let many = sizes[0] > FEW_ROWS && k.is_multiple_of(8);
            if element == ElementType::F32 && in_terms(sizes[0], k) {
                return self.in_terms(step, sizes, bias, activation);
            }
            if many && matches!(element, ElementType::F16 | ElementType::BF16) {
                let launch = library::wide_matmul_launch(self.dispatcher, element, sizes, 1)?;
                let left = Bind::Buffer(self.source(&step.inputs[0])?);
                let right = Bind::Buffer(Source::Constant(w.clone()));
                let slot = step.outputs[0];
                let shape = self.plan.slots[slot as usize].shape.clone();
                let to = self.memory(ElementType::F32, &shape)?;
                self.multiply(launch, [left, right], to);
                let node = Node::dense(Memory::Value(to), ElementType::F32, &shape);
                let bias = if bias { step.inputs.get(2).cloned() } else { None };
                return self.follow(slot, node, bias, activation);
            }
        }
        let launch = library::linear_launch(self.dispatcher, element, sizes, bias, activation)?;
        self.launch(step, launch, &[0, 1, 4], 2, "linear")
    }

    /// This layer and those after it that have the same x, sizes and form.
    fn together(&self, step: &Step, sizes: [usize; 3], bias: bool, activation: Activation) -> Vec<Layer> {
        let layer = |at: usize, step: &Step| {
            let array = |source: Option<&plan::Source>| match source {
                Some(plan::Source::Const(array) | plan::Source::Transposed(array)) => Some(array.clone()),
                _ => None,
            };
            let w = array(step.inputs.get(1))?;
            let b = if bias { Some(array(step.inputs.get(2))?) } else { None };
            let aligned = !self.dispatcher.in_place() || (w.bytes().as_ptr() as usize).is_multiple_of(16);
            (w.shape() == [sizes[1], sizes[2]] && aligned).then(|| Layer {
                step: at,
                slot: step.outputs[0],
                w,
                bias: b,
            })
        };
        let mut out: Vec<Layer> = layer(self.step, step).into_iter().collect();
        let plan::Source::Slot(x) = step.inputs[0] else {
            return out;
        };
        for (i, other) in self.plan.steps.iter().enumerate().skip(self.step + 1) {
            if out.is_empty() || out.len() == LAYERS {
                break;
            }
            let same = matches!(other.inputs.first(), Some(plan::Source::Slot(slot)) if *slot == x)
                && matches!(&other.op, StepOp::Native(Native::Linear { bias: b, activation: a })
                    if *b == bias && *a == activation)
                && !self.done[i];
            if same {
                out.extend(layer(i, other));
            }
        }
        out
    }

    fn few_rows(&mut self, step: &Step, sizes: [usize; 3], bias: bool, activation: Activation) -> Result<(), OpError> {
        let layers = self.together(step, sizes, bias, activation);
        let (Some(first), x) = (layers.first(), self.source(&step.inputs[0])?) else {
            let launch = library::linear_launch(self.dispatcher, ElementType::F32, sizes, bias, activation)?;
            return self.launch(step, launch, &[0, 1, 4], 2, "linear");
        };
        let launch = library::linear_rows_launch(self.dispatcher, sizes, layers.len(), bias, activation)?;
        let mut binds = vec![(0, Bind::Buffer(x)), (launch.sizes.0, Bind::Bytes(launch.sizes.1))];
        let mut writes = Vec::new();
        for i in 0..LAYERS {
            let layer = layers.get(i).unwrap_or(first);
            let ty = self.plan.slots[layer.slot as usize].clone();
            let to = match layers.get(i) {
                Some(_) => {
                    let to = self.memory(ty.element, &ty.shape)?;
                    self.values[layer.slot as usize] = Some(in_memory(to, &ty));
                    writes.push(to);
                    to
                }
                None => writes[0],
            };
            let place = 2 + 3 * i as u32;
            binds.push((place, Bind::Buffer(Source::Constant(layer.w.clone()))));
            binds.push((place + 1, Bind::Buffer(Source::Memory(to, 0))));
            if let Some(bias) = &layer.bias {
                binds.push((place + 2, Bind::Buffer(Source::Constant(bias.clone()))));
            }
        }
        for layer in &layers {
            self.done[layer.step] = true;
        }
        self.act(What::Dispatch(Box::new(Dispatch {
            pipeline: launch.pipeline,
            binds,
            grid: launch.groups,
            threadgroup: [launch.threads, 1, 1],
            groups: true,
            writes,
            asset: false,
            label: format!("linear of few rows, {} together", layers.len()),
        })));
        Ok(())
    }

    /// Float layers of one x as a product of `bfloat` terms.
    fn in_terms(&mut self, step: &Step, sizes: [usize; 3], bias: bool, activation: Activation) -> Result<(), OpError> {
        let [m, n, k] = sizes;
        let layers = self.together(step, sizes, bias, activation);
        if layers.is_empty() {
            let launch = library::linear_launch(self.dispatcher, ElementType::F32, sizes, bias, activation)?;
            return self.launch(step, launch, &[0, 1, 4], 2, "linear");
        }
        let constants: Vec<(&Array, Option<&Array>)> = layers.iter().map(|l| (&l.w, l.bias.as_ref())).collect();
        let terms = self.dispatcher.split_weights(&constants)?;
        let left = self.split_rows(&step.inputs[0], m, k)?;
        let launch =
            library::wide_matmul_launch(self.dispatcher, ElementType::BF16, [m, n, split_width(k)], layers.len())?;
        let to = self.memory(ElementType::F32, &[layers.len(), m, n])?;
        let binds = [
            Bind::Buffer(Source::Memory(left, 0)),
            Bind::Buffer(Source::Constant(terms)),
        ];
        self.multiply(launch, binds, to);
        for (i, layer) in layers.iter().enumerate() {
            let shape = self.plan.slots[layer.slot as usize].shape.clone();
            let mut at = Affine::dense(&shape);
            at.offset = (i * m * n) as i64;
            let node = Arc::new(Node::Load {
                memory: Memory::Value(to),
                element: ElementType::F32,
                at,
                indirect: Vec::new(),
            });
            self.done[layer.step] = true;
            self.follow(layer.slot, node, None, activation)?;
        }
        Ok(())
    }

    /// True when layers will want the rows of a slot as terms.
    pub(super) fn wants_terms(&self, slot: u32) -> bool {
        let ty = &self.plan.slots[slot as usize];
        let Some(&k) = ty.shape.last() else {
            return false;
        };
        let m = ty.shape.iter().product::<usize>() / k.max(1);
        ty.element == ElementType::F32
            && in_terms(m, k)
            && self.plan.steps.iter().any(|step| {
                matches!(step.op, StepOp::Native(Native::Linear { .. }))
                    && matches!(step.inputs.first(), Some(plan::Source::Slot(x)) if *x == slot)
                    && matches!(
                        step.inputs.get(1),
                        Some(plan::Source::Const(_) | plan::Source::Transposed(_))
                    )
            })
    }

    /// The kernel at hand writes a slot's rows as terms too.
    pub(super) fn add_terms(&mut self, slot: u32) -> Result<(), OpError> {
        let ty = &self.plan.slots[slot as usize];
        let k = ty.shape.last().copied().unwrap_or(1);
        let m = ty.shape.iter().product::<usize>() / k;
        let to = self.memory(ElementType::BF16, &[m, split_width(k)])?;
        if let Some(What::Dispatch(dispatch)) = self.last_action() {
            dispatch.binds.push((TERMS, Bind::Buffer(Source::Memory(to, 0))));
            dispatch.writes.push(to);
        }
        self.split.insert(slot, to);
        Ok(())
    }

    /// The rows of an operand as terms, in memory.
    fn split_rows(&mut self, source: &plan::Source, m: usize, k: usize) -> Result<MemoryId, OpError> {
        if let plan::Source::Slot(slot) = source
            && let Some(&known) = self.split.get(slot)
        {
            return Ok(known);
        }
        let mut x = self.operand(source)?;
        let mut waits = false;
        x.node.visit(&mut |n| waits |= matches!(&**n, Node::Deferred { .. }));
        if waits || x.node.reshaped(&x.shape, &[m, k]).is_none() {
            self.source(source)?;
            x = self.operand(source)?;
        }
        let node = x.node.reshaped(&x.shape, &[m, k]).ok_or_else(too_complex)?;
        let to = self.memory(ElementType::BF16, &[m, split_width(k)])?;
        let generated = map_kernel(&[m, k], &node, Form::Split(k)).ok_or_else(too_complex)?;
        self.generated(generated, to, label("split", &node))?;
        if let plan::Source::Slot(slot) = source {
            self.split.insert(*slot, to);
        }
        Ok(to)
    }

    /// A dispatch of a product with a result in `f32`.
    fn multiply(&mut self, launch: library::Launch, [left, right]: [Bind; 2], to: MemoryId) {
        self.act(What::Dispatch(Box::new(Dispatch {
            pipeline: launch.pipeline,
            binds: vec![
                (0, left),
                (1, right),
                (2, Bind::Buffer(Source::Memory(to, 0))),
                (launch.sizes.0, Bind::Bytes(launch.sizes.1)),
            ],
            grid: launch.groups,
            threadgroup: [launch.threads, 1, 1],
            groups: true,
            writes: vec![to],
            asset: false,
            label: format!("linear in large tiles, {} together", launch.groups[2]),
        })));
    }

    /// A layer's result from its product in `f32`: what follows is computed where it is read.
    fn follow(
        &mut self,
        slot: u32,
        mut node: Arc<Node>,
        bias: Option<plan::Source>,
        activation: Activation,
    ) -> Result<(), OpError> {
        let ty = self.plan.slots[slot as usize].clone();
        let f32 = ElementType::F32;
        if let Some(bias) = bias {
            let bias = self.operand(&bias)?;
            let bias = Node::op(MapOp::Cast, vec![bias.node.stretched(&bias.shape, &ty.shape)], f32);
            node = Node::op(MapOp::Binary(Binary::Add), vec![node, bias], f32);
        }
        let then = match activation {
            Activation::None => None,
            Activation::Relu => Some(MapOp::Unary(Unary::Relu)),
            Activation::Silu => Some(MapOp::Unary(Unary::Silu)),
            Activation::Gelu => Some(MapOp::Gelu(0)),
            Activation::GeluTanh => Some(MapOp::Gelu(1)),
        };
        if let Some(op) = then {
            node = Node::op(op, vec![node], f32);
        }
        if ty.element != f32 {
            node = Node::op(MapOp::Cast, vec![node], ty.element);
        }
        self.keep(slot, node, &ty.shape)
    }
}
