//! Copies of instructions with new values.

use std::collections::HashMap;

use crate::kernel::{Block, Inst, Kernel};
use crate::types::ValueId;

/// Old values to new ones.
pub type Names = HashMap<ValueId, ValueId>;

/// A copy of an instruction and of its blocks; its results get new names.
pub fn inst(kernel: &mut Kernel, inst: &Inst, names: &mut Names) -> Inst {
    let mut op = inst.op.clone();
    op.for_each_operand_mut(|value| {
        if let Some(&new) = names.get(value) {
            *value = new;
        }
    });
    for block in op.blocks_mut().into_iter().flatten() {
        *block = self::block(kernel, block, names);
    }
    let first = ValueId(kernel.values.len() as u32);
    for (new, old) in (first.0..).zip(inst.results()) {
        let info = kernel.values[old.index()];
        kernel.values.push(info);
        names.insert(old, ValueId(new));
    }
    Inst {
        op,
        first,
        count: inst.count,
        location: inst.location,
    }
}

/// A copy of a block.
pub fn block(kernel: &mut Kernel, block: &Block, names: &mut Names) -> Block {
    Block {
        insts: block.insts.iter().map(|inst| self::inst(kernel, inst, names)).collect(),
    }
}
