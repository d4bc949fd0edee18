//! New instructions, and copies of others with new values.

use anymetal_ir::{Inst, Kernel, LocationId, Op, Type, ValueId, ValueInfo};

pub(super) use anymetal_ir::passes::copy::{Names, block, inst};

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
