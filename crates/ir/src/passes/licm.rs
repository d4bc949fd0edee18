//! Moves what does not change in a loop (or from element to element of a map) in front of it.
//!
//! Pure operations cannot fault, so they move even if the loop might not have run them. Reads of memory move only where
//! they are certain to run in the first iteration, and where the loop writes nothing to their address space.

use crate::builder::fold;
use crate::kernel::{Block, Inst, Kernel};
use crate::op::{Const, Op};
use crate::tensor::Operand;
use crate::types::{AddressSpace, LocalId, Type, ValueId};

/// Moves invariant code out of all loops and maps.
pub fn run(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Licm {
        kernel,
        constants: Vec::new(),
        inside: Vec::new(),
    };
    pass.constants.resize(pass.kernel.values.len(), None);
    pass.inside.resize(pass.kernel.values.len(), false);
    body.for_each_inst(&mut |inst| {
        if let Op::Const(value) = inst.op {
            pass.constants[inst.first.index()] = Some(value);
        }
    });
    pass.block(&mut body);
    kernel.body = body;
}

struct Licm<'a> {
    kernel: &'a Kernel,
    constants: Vec<Option<Const>>,
    /// Values that the loop at hand defines and keeps.
    inside: Vec<bool>,
}

/// What a loop changes.
#[derive(Default)]
struct Changes {
    locals: Vec<bool>,
    spaces: [bool; 4],
}

impl Licm<'_> {
    fn block(&mut self, block: &mut Block) {
        let insts = std::mem::take(&mut block.insts);
        for mut inst in insts {
            for inner in inst.op.blocks_mut().into_iter().flatten() {
                self.block(inner);
            }
            if matches!(inst.op, Op::Loop { .. } | Op::CoopMap { .. }) {
                let changes = self.changes(&inst.op);
                let enters = self.enters(&block.insts, &inst.op);
                let mut moved = Vec::new();
                for (i, inner) in inst.op.blocks_mut().into_iter().flatten().enumerate() {
                    self.extract(inner, &changes, i == 0, enters, &mut moved);
                }
                block.insts.append(&mut moved);
            }
            block.insts.push(inst);
        }
    }

    fn changes(&self, op: &Op) -> Changes {
        let mut out = Changes {
            locals: vec![false; self.kernel.locals.len()],
            spaces: [false; 4],
        };
        for block in op.blocks().into_iter().flatten() {
            block.for_each_inst(&mut |inst| match &inst.op {
                Op::LocalSet { local, .. } => out.locals[local.index()] = true,
                Op::Store { pointer, .. } | Op::Atomic { pointer, .. } => {
                    if let Type::Pointer(space) = self.kernel.ty(*pointer) {
                        out.spaces[space as usize] = true;
                    }
                }
                Op::TensorStore { tensor, .. }
                | Op::CoopStore { tensor, .. }
                | Op::Matmul {
                    destination: Operand::Tensor(tensor),
                    ..
                }
                | Op::Convolution {
                    destination: Operand::Tensor(tensor),
                    ..
                } => out.spaces[tensor.space as usize] = true,
                Op::Barrier { .. } | Op::Fence(_) => {
                    out.spaces[AddressSpace::Device as usize] = true;
                    out.spaces[AddressSpace::Threadgroup as usize] = true;
                }
                _ => {}
            });
        }
        out
    }

    /// True if the test at the head of a counting loop is known to let the first iteration through.
    fn enters(&self, before: &[Inst], op: &Op) -> bool {
        let Op::Loop { body, .. } = op else {
            return false;
        };
        let Some(Op::If {
            condition,
            then,
            otherwise,
        }) = body
            .insts
            .iter()
            .map(|inst| &inst.op)
            .find(|op| matches!(op, Op::If { .. }))
        else {
            return false;
        };
        let leaves = |block: &Block| matches!(block.insts.as_slice(), [inst] if inst.op == Op::Break(0));
        let leaves_if = match (leaves(then), leaves(otherwise)) {
            (true, false) if otherwise.insts.is_empty() => true,
            (false, true) if then.insts.is_empty() => false,
            _ => return false,
        };
        let definition = |value: ValueId| {
            body.insts
                .iter()
                .chain(before)
                .find(|inst| inst.count > 0 && inst.first == value)
                .map(|inst| &inst.op)
        };
        let Some(Op::Compare { op, lhs, rhs }) = definition(*condition) else {
            return false;
        };
        let value = |value: ValueId| -> Option<Const> {
            if let Some(constant) = self.constants[value.index()] {
                return Some(constant);
            }
            let Some(Op::LocalGet(local)) = definition(value) else {
                return None;
            };
            self.start(before, *local)
        };
        match (value(*lhs), value(*rhs)) {
            (Some(a), Some(b)) => fold::compare(*op, a, b) == Some(!leaves_if),
            _ => false,
        }
    }

    /// The constant that a local is set to in front of a loop.
    fn start(&self, before: &[Inst], local: LocalId) -> Option<Const> {
        for inst in before.iter().rev() {
            match &inst.op {
                Op::LocalSet { local: set, value } if *set == local => {
                    return self.constants[value.index()];
                }
                op if op.is_structured() => {
                    let mut sets = false;
                    for block in op.blocks().into_iter().flatten() {
                        block.for_each_inst(&mut |inst| {
                            sets |= matches!(&inst.op, Op::LocalSet { local: set, .. } if *set == local);
                        });
                    }
                    if sets {
                        return None;
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Takes the invariant instructions out of a block of a loop and of the blocks nested in it. `certain` is true while
    /// the first iteration is sure to run what comes.
    fn extract(
        &mut self,
        block: &mut Block,
        changes: &Changes,
        mut certain: bool,
        enters: bool,
        moved: &mut Vec<Inst>,
    ) {
        let mut tests = 0;
        let insts = std::mem::take(&mut block.insts);
        for mut inst in insts {
            if inst.op.is_structured() {
                for inner in inst.op.blocks_mut().into_iter().flatten() {
                    self.extract(inner, changes, false, false, moved);
                }
                // The first `If` is the loop's test; whatever else may leave the loop ends the certainty.
                tests += 1;
                let test = enters && tests == 1 && matches!(inst.op, Op::If { .. });
                certain &= test || !may_leave(&inst.op);
            } else if inst.op.is_terminator() {
                certain = false;
            } else if self.moves(&inst, changes, certain) {
                for value in inst.results() {
                    self.inside[value.index()] = false;
                }
                moved.push(inst);
                continue;
            }
            for value in inst.results() {
                self.inside[value.index()] = true;
            }
            block.insts.push(inst);
        }
    }

    fn moves(&self, inst: &Inst, changes: &Changes, certain: bool) -> bool {
        let kind = match &inst.op {
            Op::CoopElementIndex => false,
            Op::LocalGet(local) => !changes.locals[local.index()],
            Op::TensorQuery { .. } => certain,
            Op::Load { pointer, .. } => match self.kernel.ty(*pointer) {
                Type::Pointer(space) => certain && !changes.spaces[space as usize],
                Type::Scalar(_) => false,
            },
            Op::TensorLoad { tensor, .. } => {
                certain
                    && !changes.spaces[tensor.space as usize]
                    && tensor
                        .scales
                        .as_ref()
                        .is_none_or(|plane| !changes.spaces[plane.space as usize])
            }
            op => op.is_pure(),
        };
        let mut invariant = kind;
        if kind {
            inst.op
                .for_each_operand(|value| invariant &= !self.inside[value.index()]);
        }
        invariant
    }
}

/// True if control may leave the operation other than to what follows it.
fn may_leave(op: &Op) -> bool {
    let mut leaves = false;
    for block in op.blocks().into_iter().flatten() {
        block.for_each_inst(&mut |inst| leaves |= inst.op.is_terminator());
    }
    leaves
}
