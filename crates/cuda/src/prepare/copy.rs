//! Copies of instructions with new values.

use std::collections::HashMap;

use anymetal_ir::{Block, Inst, Kernel, LocationId, Op, Type, ValueId, ValueInfo};

/// Old values to new ones.
pub(super) type Names = HashMap<ValueId, ValueId>;

/// A copy of an instruction and of its blocks; its results get new names.
pub(super) fn inst(kernel: &mut Kernel, inst: &Inst, names: &mut Names) -> Inst {
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
    for (i, old) in inst.results().enumerate() {
        let info = kernel.values[old.index()];
        kernel.values.push(info);
        names.insert(old, ValueId(first.0 + i as u32));
    }
    Inst {
        op,
        first,
        count: inst.count,
        location: inst.location,
    }
}

/// A copy of a block.
pub(super) fn block(kernel: &mut Kernel, block: &Block, names: &mut Names) -> Block {
    Block {
        insts: block.insts.iter().map(|inst| self::inst(kernel, inst, names)).collect(),
    }
}

/// A new instruction with one result, appended to a list; returns the result.
pub(super) fn emit(kernel: &mut Kernel, out: &mut Vec<Inst>, location: LocationId, op: Op, ty: Type) -> ValueId {
    let first = ValueId(kernel.values.len() as u32);
    kernel.values.push(ValueInfo { ty });
    out.push(Inst {
        op,
        first,
        count: 1,
        location,
    });
    first
}

/// A new instruction without results.
pub(super) fn plain(location: LocationId, op: Op) -> Inst {
    Inst {
        op,
        first: ValueId(0),
        count: 0,
        location,
    }
}
