//! Kernels that compute each element of a result on its own.

use std::sync::Arc;

use anymetal::ir::{BinaryOp, Builtin, CompareOp, Kernel, Op, Scalar, ValueId};

use crate::bytecode::ElementType;

use super::affine::{Affine, merge};
use super::emit::{Check, Emitter, Input, Point, scalar_of};
use super::node::Node;

/// A kernel with what its launch needs. The result is bound first, then status words if there are checks, then the inputs.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    pub kernel: Kernel,
    pub inputs: Vec<Input>,
    pub checks: Vec<Check>,
    /// Threads, or threadgroups if `groups`.
    pub grid: usize,
    pub groups: bool,
    pub threadgroup: usize,
}

/// Threads of a threadgroup of independent threads.
const THREADS: usize = 256;
/// Results with fewer elements than this are computed one element a thread.
const MIN_VECTOR: usize = 2048;

/// How many consecutive elements along the innermost dimension a thread should take.
pub(super) fn lanes(inner: usize, nodes: &[&Arc<Node>], output: ElementType) -> u32 {
    let mut size = output.size();
    let mut plain = true;
    for node in nodes {
        node.visit(&mut |node| match &**node {
            Node::Load { element, .. } => size = size.max(element.size()),
            Node::Guard { .. } => plain = false,
            _ => {}
        });
    }
    let most = (16 / size.max(1)).clamp(1, 8);
    [8, 4, 2]
        .into_iter()
        .find(|&n| plain && n <= most && inner.is_multiple_of(n))
        .unwrap_or(1) as u32
}

/// How a map kernel writes its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A dense array of this type.
    Dense(ElementType),
    /// Rows of so many floats, each as the terms of a product in `bfloat`: see [`split_width`].
    Split(usize),
}

/// Elements of a row of `k` floats that are split: x₂, x₁, x₁, then three ones and five zeros. x₁ is x in `bfloat`, x₂ the
/// rest. Times w₁, w₂, w₁ and the three terms of a bias this is x·w + bias but for x₂·w₂, 2⁻¹⁸ of x·w; the small products
/// come first, where they are not lost in large sums.
pub(crate) const fn split_width(k: usize) -> usize {
    3 * k + SPLIT_TAIL
}

/// The ones and zeros at the end of a split row.
pub(crate) const SPLIT_TAIL: usize = 8;

/// The kernel that writes `node` over `shape` as `form`. `None` when kernels cannot hold it.
pub(crate) fn map_kernel(shape: &[usize], node: &Arc<Node>, form: Form) -> Option<Generated> {
    let output = match form {
        Form::Dense(output) => output,
        Form::Split(k) if node.element() == ElementType::F32 && k.is_multiple_of(8) => ElementType::BF16,
        Form::Split(_) => return None,
    };
    scalar_of(output)?;
    let forms = node.forms();
    let (merged, _) = merge(shape, 0, &forms.iter().collect::<Vec<&Affine>>());
    let node = node.reshaped(shape, &merged)?;
    let total: usize = merged.iter().product();
    let inner = merged.last().copied().unwrap_or(1);
    let width = match form {
        Form::Dense(_) if total < MIN_VECTOR => 1,
        Form::Dense(_) => lanes(inner, &[&node], output),
        Form::Split(_) => lanes(inner, &[&node], ElementType::F32),
    };
    let threads = total / width as usize;
    if threads > i32::MAX as usize {
        return None;
    }
    let mut e = Emitter::new("fused_map", &merged, &[&node], output)?;
    e.prologue();
    let thread =
        e.b.emit(Op::Builtin(Builtin::ThreadPositionInGrid(0)), &[Scalar::U32.into()]);
    let index = e.index_type();
    let thread = e.b.convert(thread, index);
    let mut extents = merged.clone();
    if let Some(last) = extents.last_mut() {
        *last /= width as usize;
    }
    let mut at = e.split(thread, &extents);
    let by = e.int(i64::from(width));
    if let Some(last) = at.last_mut() {
        *last = e.bin(anymetal::ir::BinaryOp::Mul, *last, by);
    }
    let point = Point {
        index: at,
        lanes: width,
    };
    let values = e.node(&node, &point)?;
    let first = e.bin(anymetal::ir::BinaryOp::Mul, thread, by);
    match form {
        Form::Dense(_) => e.store(output, first, &values)?,
        Form::Split(k) => {
            let at = e.split(first, &[usize::MAX, k]);
            split(&mut e, 0, k, [at[0], at[1]], &values)?;
        }
    }
    let threadgroup = THREADS.min(threads.next_multiple_of(32));
    let (kernel, inputs, checks) = e.finish(threadgroup);
    Some(Generated {
        kernel,
        inputs,
        checks,
        grid: threads,
        groups: false,
        threadgroup,
    })
}

/// Writes the terms of consecutive elements of a row of `k`, from a column on, to an argument.
pub(super) fn split(
    e: &mut Emitter,
    argument: usize,
    k: usize,
    [row, column]: [ValueId; 2],
    values: &[ValueId],
) -> Option<()> {
    let (mut high, mut low) = (Vec::new(), Vec::new());
    for &value in values {
        let near = e.b.convert(value, Scalar::BF16);
        let wide = e.b.convert(near, Scalar::F32);
        let rest = e.bin(BinaryOp::Sub, value, wide);
        // Infinity has no rest.
        let (number, zero) = (e.b.compare(CompareOp::Eq, rest, rest), e.f32(0.0));
        high.push(wide);
        low.push(e.b.select(number, rest, zero));
    }
    let pitch = e.int(split_width(k) as i64);
    let start = e.bin(BinaryOp::Mul, row, pitch);
    let start = e.bin(BinaryOp::Add, start, column);
    for (part, terms) in [&low, &high, &high].into_iter().enumerate() {
        let by = e.int((part * k) as i64);
        let at = e.bin(BinaryOp::Add, start, by);
        e.store_to(argument, ElementType::BF16, at, terms)?;
    }
    let last = e.int((k - values.len()) as i64);
    let ends = e.b.compare(CompareOp::Eq, column, last);
    e.b.push_block();
    let (one, zero) = (e.f32(1.0), e.f32(0.0));
    let by = e.int((2 * k + values.len()) as i64);
    let at = e.bin(BinaryOp::Add, start, by);
    e.store_to(
        argument,
        ElementType::BF16,
        at,
        &[one, one, one, zero, zero, zero, zero, zero],
    )?;
    let then = e.b.pop_block();
    e.b.if_(ends, then, Default::default());
    Some(())
}
