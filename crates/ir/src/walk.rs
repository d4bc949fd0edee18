//! Visiting the parts of an operation: operands, nested blocks, locals and cooperative tensors, and what it may do.

use crate::kernel::{Block, Inst};
use crate::op::{AtomicOp, Op};
use crate::tensor::{Extent, Operand, ScalePlane, TensorRef};
use crate::types::{CoopId, ValueId};

impl TensorRef {
    /// Calls `f` with every value of the bundle.
    pub fn for_each_value(&self, f: &mut impl FnMut(ValueId)) {
        f(self.pointer);
        self.base_extents.iter().copied().for_each(&mut *f);
        self.strides.iter().copied().for_each(&mut *f);
        self.origin.iter().copied().for_each(&mut *f);
        for extent in &self.extents {
            if let Extent::Dynamic(value) = extent {
                f(*value);
            }
        }
        if let Some(ScalePlane { pointer, strides, .. }) = &self.scales {
            f(*pointer);
            strides.iter().copied().for_each(f);
        }
    }

    fn for_each_value_ref(&self, f: &mut impl FnMut(&ValueId)) {
        self.for_each_value(&mut |value| f(&value));
    }

    /// Calls `f` with every value of the bundle, to replace it.
    pub fn for_each_value_mut(&mut self, f: &mut impl FnMut(&mut ValueId)) {
        f(&mut self.pointer);
        self.base_extents.iter_mut().for_each(&mut *f);
        self.strides.iter_mut().for_each(&mut *f);
        self.origin.iter_mut().for_each(&mut *f);
        for extent in &mut self.extents {
            if let Extent::Dynamic(value) = extent {
                f(value);
            }
        }
        if let Some(plane) = &mut self.scales {
            f(&mut plane.pointer);
            plane.strides.iter_mut().for_each(f);
        }
    }
}

/// One text for the shared and the mutable visitor of operands.
macro_rules! visit_operands {
    ($op:expr, $f:ident, $tensor:ident, $iter:ident) => {
        match $op {
            Op::Const(_)
            | Op::Builtin(_)
            | Op::LocalGet(_)
            | Op::MemoryPointer(_)
            | Op::ArgumentPointer(_)
            | Op::ArgumentTensor(_)
            | Op::NullPointer(_)
            | Op::Barrier { .. }
            | Op::Fence(_)
            | Op::CoopInit(_)
            | Op::CoopCopy { .. }
            | Op::CoopConvert { .. }
            | Op::CoopCompatible { .. }
            | Op::CoopIteratorCompatible { .. }
            | Op::CoopMap { .. }
            | Op::CoopElement(_)
            | Op::CoopElementIndex
            | Op::Loop { .. }
            | Op::Scope { .. }
            | Op::Break(_)
            | Op::Continue(_)
            | Op::Return => {}
            Op::Unary { operand, .. }
            | Op::Convert { operand, .. }
            | Op::Bitcast { operand, .. }
            | Op::Decode { operand, .. }
            | Op::Encode { operand, .. }
            | Op::Frexp { operand }
            | Op::Modf { operand }
            | Op::Group { operand, .. } => $f(operand),
            Op::Binary { lhs, rhs, .. } | Op::Compare { lhs, rhs, .. } | Op::PointerDiff { lhs, rhs } => {
                $f(lhs);
                $f(rhs);
            }
            Op::Ternary { a, b, c, .. } => {
                $f(a);
                $f(b);
                $f(c);
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                $f(condition);
                $f(then);
                $f(otherwise);
            }
            Op::LocalSet { value, .. } | Op::CoopElementSet { value, .. } => $f(value),
            Op::TensorQuery { handle, .. } => $f(handle),
            Op::PointerOffset { pointer, offset } => {
                $f(pointer);
                $f(offset);
            }
            Op::Load { pointer, .. } => $f(pointer),
            Op::Store { pointer, values, .. } | Op::Atomic { pointer, values, .. } => {
                $f(pointer);
                values.$iter().for_each($f);
            }
            Op::TensorLoad { tensor, indices, .. } | Op::TensorElementPointer { tensor, indices } => {
                tensor.$tensor(&mut $f);
                indices.$iter().for_each($f);
            }
            Op::TensorStore {
                tensor, indices, value, ..
            } => {
                tensor.$tensor(&mut $f);
                indices.$iter().for_each(&mut $f);
                $f(value);
            }
            Op::Shuffle { operand, index, .. } => {
                $f(operand);
                $f(index);
            }
            Op::Vote { operand, .. } => {
                if let Some(operand) = operand {
                    $f(operand);
                }
            }
            Op::SimdgroupMatrixMultiply { a, b, c, .. } => {
                a.$iter().for_each(&mut $f);
                b.$iter().for_each(&mut $f);
                c.$iter().flatten().for_each(&mut $f);
            }
            Op::CoopGet { slot, .. }
            | Op::CoopValid { slot, .. }
            | Op::CoopIndex { slot, .. }
            | Op::CoopMapSlot { slot, .. } => $f(slot),
            Op::CoopSet { slot, value, .. } => {
                $f(slot);
                $f(value);
            }
            Op::CoopLoad { tensor, .. } | Op::CoopStore { tensor, .. } => tensor.$tensor(&mut $f),
            Op::CoopReduce { identity, .. } => $f(identity),
            Op::Matmul {
                left,
                right,
                destination,
                ..
            } => {
                for operand in [left, right, destination] {
                    if let Operand::Tensor(tensor) = operand {
                        tensor.$tensor(&mut $f);
                    }
                }
            }
            Op::Convolution {
                offsets,
                activation,
                weights,
                destination,
                ..
            } => {
                offsets.$iter().for_each(&mut $f);
                activation.$tensor(&mut $f);
                weights.$tensor(&mut $f);
                if let Operand::Tensor(tensor) = destination {
                    tensor.$tensor(&mut $f);
                }
            }
            Op::If { condition, .. } => $f(condition),
        }
    };
}

impl Op {
    /// Calls `f` with every value that the operation itself reads (not those of nested blocks).
    pub fn for_each_operand(&self, mut f: impl FnMut(ValueId)) {
        let mut f = |value: &ValueId| f(*value);
        visit_operands!(self, f, for_each_value_ref, iter);
    }

    /// Calls `f` with every operand of the operation itself, to replace it.
    pub fn for_each_operand_mut(&mut self, mut f: impl FnMut(&mut ValueId)) {
        visit_operands!(self, f, for_each_value_mut, iter_mut);
    }

    /// The nested blocks in order.
    pub fn blocks(&self) -> [Option<&Block>; 2] {
        match self {
            Op::If { then, otherwise, .. } => [Some(then), Some(otherwise)],
            Op::Loop { body, latch, .. } => [Some(body), Some(latch)],
            Op::Scope { body } | Op::CoopMap { body, .. } => [Some(body), None],
            _ => [None, None],
        }
    }

    /// The nested blocks in order, to change them.
    pub fn blocks_mut(&mut self) -> [Option<&mut Block>; 2] {
        match self {
            Op::If { then, otherwise, .. } => [Some(then), Some(otherwise)],
            Op::Loop { body, latch, .. } => [Some(body), Some(latch)],
            Op::Scope { body } | Op::CoopMap { body, .. } => [Some(body), None],
            _ => [None, None],
        }
    }

    /// True if the operation has nested blocks.
    pub fn is_structured(&self) -> bool {
        matches!(
            self,
            Op::If { .. } | Op::Loop { .. } | Op::Scope { .. } | Op::CoopMap { .. }
        )
    }

    /// True if the operation leaves its block.
    pub fn is_terminator(&self) -> bool {
        matches!(self, Op::Break(_) | Op::Continue(_) | Op::Return)
    }

    /// True if the result depends on the operands alone: the operation may be repeated, moved, merged with an equal one
    /// or dropped. Excludes everything that reads state (locals, memory, tiles) or that depends on which lanes are active.
    pub fn is_pure(&self) -> bool {
        matches!(
            self,
            Op::Const(_)
                | Op::Builtin(_)
                | Op::Unary { .. }
                | Op::Binary { .. }
                | Op::Ternary { .. }
                | Op::Compare { .. }
                | Op::Select { .. }
                | Op::Convert { .. }
                | Op::Bitcast { .. }
                | Op::Decode { .. }
                | Op::Encode { .. }
                | Op::Frexp { .. }
                | Op::Modf { .. }
                | Op::MemoryPointer(_)
                | Op::ArgumentPointer(_)
                | Op::ArgumentTensor(_)
                | Op::NullPointer(_)
                | Op::PointerOffset { .. }
                | Op::PointerDiff { .. }
                | Op::TensorElementPointer { .. }
                | Op::CoopValid { .. }
                | Op::CoopIndex { .. }
                | Op::CoopMapSlot { .. }
                | Op::CoopCompatible { .. }
                | Op::CoopIteratorCompatible { .. }
                | Op::CoopElementIndex
        )
    }

    /// True if the operation may be dropped when nothing uses its results: pure operations and reads. A read that would
    /// fault may be dropped too.
    pub fn is_removable(&self) -> bool {
        self.is_pure()
            || matches!(
                self,
                Op::LocalGet(_)
                    | Op::TensorQuery { .. }
                    | Op::Load { .. }
                    | Op::TensorLoad { .. }
                    | Op::Group { .. }
                    | Op::Shuffle { .. }
                    | Op::Vote { .. }
                    | Op::SimdgroupMatrixMultiply { .. }
                    | Op::CoopGet { .. }
                    | Op::CoopElement(_)
                    | Op::Atomic { op: AtomicOp::Load, .. }
            )
    }

    /// The cooperative tensors that the operation itself reads or writes, each with `true` if it is written.
    /// (A destination that is accumulated into is listed once, as written.)
    pub fn cooperatives(&self) -> Vec<(CoopId, bool)> {
        match self {
            Op::CoopInit(coop) => vec![(*coop, true)],
            Op::CoopCopy { to, from } | Op::CoopConvert { to, from } | Op::CoopReduce { to, from, .. } => {
                vec![(*from, false), (*to, true)]
            }
            Op::CoopGet { coop, .. } | Op::CoopElement(coop) | Op::CoopStore { coop, .. } => {
                vec![(*coop, false)]
            }
            Op::CoopSet { coop, .. } | Op::CoopElementSet { coop, .. } | Op::CoopLoad { coop, .. } => {
                vec![(*coop, true)]
            }
            Op::Matmul {
                left,
                right,
                destination,
                ..
            } => {
                let mut out = Vec::new();
                for (operand, written) in [(left, false), (right, false), (destination, true)] {
                    if let Operand::Coop(coop) = operand {
                        out.push((*coop, written));
                    }
                }
                out
            }
            Op::Convolution {
                destination: Operand::Coop(coop),
                ..
            } => vec![(*coop, true)],
            _ => Vec::new(),
        }
    }
}

impl Block {
    /// Calls `f` with every instruction of the block and of the blocks nested in it, in order, outer before inner.
    pub fn for_each_inst<'a>(&'a self, f: &mut impl FnMut(&'a Inst)) {
        for inst in &self.insts {
            f(inst);
            for block in inst.op.blocks().into_iter().flatten() {
                block.for_each_inst(f);
            }
        }
    }

    /// Calls `f` with every instruction of the block and of the blocks nested in it, in order, outer before inner.
    pub fn for_each_inst_mut(&mut self, f: &mut impl FnMut(&mut Inst)) {
        for inst in &mut self.insts {
            f(inst);
            for block in inst.op.blocks_mut().into_iter().flatten() {
                block.for_each_inst_mut(f);
            }
        }
    }
}
