//! The store of an element-wise map: under a predicate instead of a branch, and with its neighbour's as one access.

use std::collections::HashMap;

use anymetal_ir::{AddressSpace, BinaryOp, Block, Inst, Op, Type, ValueId};

use crate::lower::Lower;
use crate::lower::memory::Address;
use crate::lower::view::address_class;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A store that waits for the one of the neighbouring column.
#[derive(Clone)]
pub(super) struct Pending {
    pub guard: Option<Reg>,
    pub space: AddressSpace,
    pub address: Address,
    pub ty: Type,
    pub values: Vec<Reg>,
    pub align: u32,
}

impl Pending {
    /// Bytes of an element, if the store's neighbour may go with it.
    pub fn joins(&self, step: Option<i64>) -> Option<u32> {
        let size = self.ty.scalar()?.size();
        (self.values.len() == 1 && size <= 4 && step == Some(size.into())).then_some(size)
    }
}

/// True if a block can run with all lanes, with its writes under a predicate. `loads` allows reads of memory, outside of branches.
pub(super) fn is_straight(block: &Block, loads: bool) -> bool {
    block.insts.iter().all(|inst| match &inst.op {
        Op::Store { .. } | Op::CoopElement(_) | Op::CoopElementSet { .. } => true,
        Op::Load { .. } | Op::TensorLoad { .. } => loads,
        Op::If { then, otherwise, .. } => otherwise.insts.is_empty() && is_straight(then, false),
        op => op.is_pure(),
    })
}

/// How much the address of a map's only store grows from a column to the next, if it is known to be the same everywhere.
pub(super) fn store_step(lower: &Lower, body: &Block) -> Option<i64> {
    let mut steps = Steps {
        lower,
        inside: HashMap::new(),
        constants: HashMap::new(),
    };
    let mut store = None;
    let mut stores = 0;
    body.for_each_inst(&mut |inst| {
        if let Op::Store { pointer, .. } = inst.op {
            store = Some(pointer);
            stores += 1;
        }
        steps.note(inst);
    });
    if stores == 1 { steps.of(store?) } else { None }
}

/// Values of a map's body as functions of the column: the difference from one to the next, where it is constant.
struct Steps<'a, 'k> {
    lower: &'a Lower<'k>,
    /// `None` where the difference is not constant; values that are not here come from outside.
    inside: HashMap<ValueId, Option<i64>>,
    constants: HashMap<ValueId, i64>,
}

impl Steps<'_, '_> {
    fn constant(&self, value: ValueId) -> Option<i64> {
        let outside = || self.lower.constant(value).filter(|_| !self.inside.contains_key(&value));
        self.constants
            .get(&value)
            .copied()
            .or_else(|| outside().map(|bits| bits as i64))
    }

    fn of(&self, value: ValueId) -> Option<i64> {
        self.inside.get(&value).copied().unwrap_or(Some(0))
    }

    fn note(&mut self, inst: &Inst) {
        let step = match &inst.op {
            Op::Const(c) => {
                self.constants.insert(inst.first, c.bits as i64);
                Some(0)
            }
            Op::CoopElementIndex => {
                let mut results = inst.results();
                if let Some(column) = results.next() {
                    self.inside.insert(column, Some(1));
                }
                for row in results {
                    self.inside.insert(row, Some(0));
                }
                return;
            }
            Op::Binary { lhs, .. } if self.lower.index_clamps.contains(&inst.first) => self.of(*lhs),
            Op::Binary { op, lhs, rhs, .. } => match (op, self.of(*lhs), self.of(*rhs)) {
                (BinaryOp::Add, Some(a), Some(b)) => a.checked_add(b),
                (BinaryOp::Sub, Some(a), Some(b)) => a.checked_sub(b),
                (_, Some(0), Some(0)) => Some(0),
                (BinaryOp::Mul, Some(a), Some(0)) => self.constant(*rhs).and_then(|c| a.checked_mul(c)),
                (BinaryOp::Mul, Some(0), Some(b)) => self.constant(*lhs).and_then(|c| b.checked_mul(c)),
                (BinaryOp::Shl, Some(a), Some(0)) => match self.constant(*rhs) {
                    Some(count @ 0..=31) => a.checked_mul(1 << count),
                    _ => None,
                },
                _ => None,
            },
            // Indices do not wrap around.
            Op::Convert { operand, to, .. } if to.is_integer() && to.size() >= 4 => self.of(*operand),
            Op::PointerOffset { pointer, offset } => match (self.of(*pointer), self.of(*offset)) {
                (Some(a), Some(b)) => a.checked_add(b),
                _ => None,
            },
            op if op.is_pure() => {
                let mut same = true;
                op.for_each_operand(|operand| same &= self.of(operand) == Some(0));
                same.then_some(0)
            }
            _ => None,
        };
        for result in inst.results() {
            self.inside.insert(result, step);
        }
    }
}

impl<'k> Lower<'k> {
    /// Makes a store that waited.
    pub(super) fn store_pending(&mut self, store: &Pending) {
        self.store_to(
            store.space,
            store.address,
            store.ty,
            &store.values,
            store.align,
            store.guard,
        );
    }

    /// The stores of a lane's row: by column, counted from the first, the stores of two neighbours. The elements of a row follow one
    /// another in memory, `size` bytes each. Where all are made and the address is aligned, neighbours go as one access.
    pub(super) fn store_row(&mut self, row: &[(u32, [Pending; 2])], size: u32) {
        let Some((_, [first, _])) = row.first() else { return };
        let class = address_class(first.space);
        let base = self.materialise(first.address);
        let done = self.writer.label();
        if let Some(narrow) = self.store_wide_row(row, size, base) {
            ptx!(self, "bra.uni {done}");
            self.writer.place(narrow);
        }
        let low = if class == Class::B64 {
            let low = self.reg(Class::B32);
            ptx!(self, "cvt.u32.u64 {low}, {base}");
            low
        } else {
            base
        };
        let (odd, aligned) = (self.reg(Class::B32), self.reg(Class::Pred));
        ptx!(self, "and.b32 {odd}, {low}, {}", 2 * size - 1);
        ptx!(self, "setp.eq.u32 {aligned}, {odd}, 0");
        let mut all = Some(aligned);
        for (_, stores) in row {
            for store in stores {
                all = self.both(all, store.guard);
            }
        }
        let (apart, back) = (self.writer.label(), self.writer.label());
        if let Some(all) = all {
            ptx!(self, "@!{all} bra {apart}");
        }
        let address = |column: u32| Address::from(base).plus(i64::from(column * size));
        for (column, [left, right]) in row {
            let pair = [left.values[0], right.values[0]];
            self.store_to(left.space, address(*column), left.ty, &pair, 2 * size, None);
        }
        self.writer.place(back);
        let body = self.writer.begin_aside();
        self.writer.place(apart);
        for (column, stores) in row {
            for (i, store) in (0..).zip(stores) {
                let at = address(column + i);
                self.store_to(store.space, at, store.ty, &store.values, store.align, store.guard);
            }
        }
        ptx!(self, "bra {back}");
        self.writer.end_aside(body);
        self.writer.place(done);
    }
}
