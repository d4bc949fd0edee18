//! Kernels that compute each element of a result on its own.

use std::sync::Arc;

use anymetal::ir::{Builtin, Kernel, Op, Scalar};

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

/// The kernel that writes `node` over `shape` as a dense array of `output`. `None` when kernels cannot hold it.
pub(crate) fn map_kernel(shape: &[usize], node: &Arc<Node>, output: ElementType) -> Option<Generated> {
    scalar_of(output)?;
    let forms = node.forms();
    let (merged, _) = merge(shape, 0, &forms.iter().collect::<Vec<&Affine>>());
    let node = node.reshaped(shape, &merged)?;
    let total: usize = merged.iter().product();
    let inner = merged.last().copied().unwrap_or(1);
    let width = if total < MIN_VECTOR {
        1
    } else {
        lanes(inner, &[&node], output)
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
    e.store(output, first, &values)?;
    let (kernel, inputs, checks) = e.finish();
    Some(Generated {
        kernel,
        inputs,
        checks,
        grid: threads,
        groups: false,
        threadgroup: THREADS.min(threads.next_multiple_of(32)),
    })
}
