//! Cooperative tensors: tiles that nothing reads go, and so does the zeroing of a tile that is overwritten next.

use crate::kernel::{Block, Kernel};
use crate::op::Op;
use crate::tensor::Operand;
use crate::types::CoopId;

/// Removes dead work on tiles.
pub fn run(kernel: &mut Kernel) {
    if kernel.cooperatives.is_empty() {
        return;
    }
    // Dropping the last reader of one tile may leave another without one.
    loop {
        let mut read = vec![false; kernel.cooperatives.len()];
        kernel.body.for_each_inst(&mut |inst| {
            reads(&inst.op, &mut |coop| read[coop.index()] = true);
        });
        if !prune(&mut kernel.body, &read) {
            break;
        }
    }
    overwritten(&mut kernel.body);
}

/// The tiles whose elements an operation reads.
fn reads(op: &Op, f: &mut impl FnMut(CoopId)) {
    for (coop, written) in op.cooperatives() {
        let accumulates = match op {
            Op::Matmul { descriptor, .. } => descriptor.accumulate,
            Op::Convolution { descriptor, .. } => descriptor.accumulate,
            _ => false,
        };
        if !written || accumulates {
            f(coop);
        }
    }
}

/// The tile that an operation sets as a whole, whatever it held.
pub fn fills(op: &Op) -> Option<CoopId> {
    match op {
        Op::CoopInit(coop) | Op::CoopLoad { coop, .. } => Some(*coop),
        Op::CoopCopy { to, .. } | Op::CoopConvert { to, .. } | Op::CoopReduce { to, .. } => Some(*to),
        Op::Matmul {
            descriptor,
            destination: Operand::Coop(coop),
            ..
        } if !descriptor.accumulate => Some(*coop),
        Op::Convolution {
            descriptor,
            destination: Operand::Coop(coop),
            ..
        } if !descriptor.accumulate => Some(*coop),
        _ => None,
    }
}

/// Removes work whose only result is a tile that nothing reads; true if there was any. Products stay: they may fault.
fn prune(block: &mut Block, read: &[bool]) -> bool {
    let mut changed = false;
    block.insts.retain_mut(|inst| {
        for inner in inst.op.blocks_mut().into_iter().flatten() {
            changed |= prune(inner, read);
        }
        let dead = match &inst.op {
            Op::CoopInit(coop)
            | Op::CoopSet { coop, .. }
            | Op::CoopElementSet { coop, .. }
            | Op::CoopCopy { to: coop, .. }
            | Op::CoopConvert { to: coop, .. }
            | Op::CoopReduce { to: coop, .. } => !read[coop.index()],
            _ => false,
        };
        changed |= dead;
        !dead
    });
    changed
}

/// Removes each zeroing that a later operation of the same block makes up for before anything looks.
fn overwritten(block: &mut Block) {
    // Tiles that are filled further down, before they are read: found on a walk from the end.
    let mut filled: Vec<CoopId> = Vec::new();
    let insts = std::mem::take(&mut block.insts);
    let mut kept = Vec::with_capacity(insts.len());
    for mut inst in insts.into_iter().rev() {
        if inst.op.is_structured() {
            for inner in inst.op.blocks_mut().into_iter().flatten() {
                overwritten(inner);
                let mut leaves = false;
                inner.for_each_inst(&mut |inst| {
                    leaves |= inst.op.is_terminator();
                    for (coop, _) in inst.op.cooperatives() {
                        filled.retain(|other| *other != coop);
                    }
                });
                if leaves {
                    filled.clear();
                }
            }
        } else if inst.op.is_terminator() {
            filled.clear();
        } else {
            if let Op::CoopInit(coop) = inst.op
                && filled.contains(&coop)
            {
                continue;
            }
            if let Some(coop) = fills(&inst.op)
                && !filled.contains(&coop)
            {
                filled.push(coop);
            }
            reads(&inst.op, &mut |coop| filled.retain(|other| *other != coop));
        }
        kept.push(inst);
    }
    kept.reverse();
    block.insts = kept;
}
