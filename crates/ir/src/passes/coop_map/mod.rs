//! Turns loops over the slots of cooperative tensors into [`Op::CoopMap`].
//!
//! A kernel visits the elements of a tile slot by slot, each lane its own: `for (i = 0; i < capacity; ++i) t[i] = f(t[i])`,
//! by index or by iterator. Which element a slot holds depends on the lane layout. Where the loop does not let the layout
//! show, it is the same as "for each element of the tile", which a backend runs over the tile as it holds it.
//!
//! # When a loop qualifies
//! * It counts one or more locals from 0 by 1 up to the capacity of the tile; no other exit.
//! * All lanes of the tile's scope run it together.
//! * A slot number is used for nothing but access to tiles of the same shape and layout, and for `map_iterator` into
//!   reduction tensors that are only read there.
//! * Everything else in the body depends on the element alone: values from outside are uniform over the scope, locals
//!   are set before they are read in each iteration and not read elsewhere, no lane talks to another.
//! * Memory that lanes share may be written by one store, at an address that differs from element to element, if nothing in
//!   the body reads the objects that it may write. (Elements at the same address would belong to different lanes, and race.)

mod counted;
mod walk;

use std::collections::HashMap;

use crate::kernel::{Block, Inst, Kernel, ValueInfo};
use crate::op::{Const, Op};
use crate::passes::effects::Effects;
use crate::passes::uniformity::UniformityInfo;
use crate::tensor::{CoopRole, Cooperative, LayoutKind};
use crate::types::{CoopId, LocalId, Scalar, ValueId};

/// Forms all maps of a kernel; returns how many loops became maps.
pub fn form(kernel: &mut Kernel) -> usize {
    if kernel.cooperatives.is_empty() {
        return 0;
    }
    let effects = Effects::of(kernel);
    let info = UniformityInfo::with_effects(kernel, &effects);
    let mut constants = HashMap::new();
    let mut gets = vec![0u32; kernel.locals.len()];
    kernel.body.for_each_inst(&mut |inst| match &inst.op {
        Op::Const(value) => {
            constants.insert(inst.first, *value);
        }
        Op::LocalGet(local) => gets[local.index()] += 1,
        _ => {}
    });
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Pass {
        kernel,
        effects,
        info,
        constants,
        gets,
        next_control: 0,
        formed: 0,
    };
    pass.block(&mut body);
    let formed = pass.formed;
    kernel.body = body;
    formed
}

struct Pass<'a> {
    kernel: &'a mut Kernel,
    effects: Effects,
    info: UniformityInfo,
    constants: HashMap<ValueId, Const>,
    /// How often each local is read in the kernel.
    gets: Vec<u32>,
    next_control: usize,
    formed: usize,
}

/// What two tiles must have in common to be walked by one slot number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    kind: LayoutKind,
    rows: u32,
    columns: u32,
    simdgroups: u32,
    reduction: Option<CoopRole>,
}

fn shape(coop: &Cooperative) -> Shape {
    Shape {
        kind: coop.layout,
        rows: coop.rows,
        columns: coop.columns,
        simdgroups: coop.simdgroups.max(1),
        reduction: match coop.role {
            CoopRole::RowReduction | CoopRole::ColumnReduction => Some(coop.role),
            _ => None,
        },
    }
}

/// What a value is to the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The slot number.
    Slot,
    /// The slot number plus one (in the latch only).
    Next,
    /// The slot of a reduction tensor that belongs to the element.
    Mapped(CoopId),
    /// The loop's test.
    Test,
    /// Anything else that is defined in the loop.
    Other,
}

/// The reason why a loop stays a loop.
type Rejected = &'static str;

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let insts = std::mem::take(&mut block.insts);
        for mut inst in insts {
            if !inst.op.is_structured() {
                block.insts.push(inst);
                continue;
            }
            let control = self.next_control;
            self.next_control += 1;
            for inner in inst.op.blocks_mut().into_iter().flatten() {
                self.block(inner);
            }
            if let Op::Loop { body, latch, .. } = &inst.op
                && let Ok(formed) = self.candidate(&block.insts, body, latch, control)
            {
                let Formed {
                    before,
                    map,
                    counters,
                    capacity,
                } = formed;
                let location = inst.location;
                let plain = |op, first, count| Inst {
                    op,
                    first,
                    count,
                    location,
                };
                block.insts.extend(before);
                block.insts.push(plain(map, inst.first, 0));
                for counter in counters {
                    let ty = self.kernel.local(counter).ty;
                    let Some(scalar) = ty.scalar() else { continue };
                    let value = self.fresh(scalar);
                    let bits = u64::from(capacity);
                    block.insts.push(plain(Op::Const(Const { ty: scalar, bits }), value, 1));
                    let set = Op::LocalSet { local: counter, value };
                    block.insts.push(plain(set, value, 0));
                }
                self.formed += 1;
                continue;
            }
            block.insts.push(inst);
        }
    }

    fn fresh(&mut self, ty: Scalar) -> ValueId {
        self.kernel.values.push(ValueInfo { ty: ty.into() });
        ValueId(self.kernel.values.len() as u32 - 1)
    }
}

struct Formed {
    before: Vec<Inst>,
    map: Op,
    counters: Vec<LocalId>,
    capacity: u32,
}
