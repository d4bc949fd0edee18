//! Compiling for the sanitizer: which instructions are watched, and which arithmetic makes addresses.
//!
//! A program that is not compiled for the sanitizer holds none of this, so it runs as fast as if there were none.

use std::collections::HashSet;

use anymetal_ir::{BinaryOp, Inst as IrInst, Kernel, LocalId, LocationId, MemFlags, Op, Scalar, Type, ValueId};

use super::lower::Lower;
use super::program::{Inst, Watched};
use crate::fault::CompileError;

/// What lowering knows of the instruction that it is at, for the sanitizer.
#[derive(Default)]
pub(super) struct Watch {
    /// Flags of the barrier or fence at hand.
    flags: MemFlags,
    /// The access to a slot at hand asked for its validity just before.
    checked: bool,
    /// The last validity question: tile and slot.
    asked: Option<(u32, ValueId)>,
    /// Signed arithmetic whose result goes into an address.
    signed: HashSet<ValueId>,
    /// Unsigned differences that are an index as they are.
    unsigned: HashSet<ValueId>,
}

impl Watch {
    pub fn of(kernel: &Kernel) -> Self {
        let mut flow = Flow::of(kernel);
        let mut watch = Watch::default();
        let mut seen: HashSet<(ValueId, bool)> = HashSet::new();
        // A value, and whether it is still the whole index (nothing but conversions and copies on the way).
        let mut open: Vec<(ValueId, bool)> = std::mem::take(&mut flow.addresses)
            .into_iter()
            .map(|value| (value, true))
            .collect();
        while let Some((value, whole)) = open.pop() {
            if !seen.insert((value, whole)) {
                continue;
            }
            match flow.definition(value) {
                Some(Op::Convert { operand, .. }) => open.push((*operand, whole)),
                Some(Op::Select { then, otherwise, .. }) => open.extend([(*then, whole), (*otherwise, whole)]),
                Some(Op::LocalGet(local)) => {
                    open.extend(flow.sets(*local).iter().map(|&set| (set, whole)));
                }
                Some(Op::Binary { op, lhs, rhs, .. }) => {
                    let ty = kernel.ty(value);
                    let wide = matches!(ty, Type::Scalar(Scalar::I64 | Scalar::U64));
                    match (op, ty) {
                        (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, Type::Scalar(Scalar::I32)) => {
                            watch.signed.insert(value);
                        }
                        (BinaryOp::Sub, Type::Scalar(Scalar::U32)) if whole => {
                            watch.unsigned.insert(value);
                        }
                        _ => {}
                    }
                    // 64-bit arithmetic scales an index to bytes.
                    open.extend([(*lhs, whole && wide), (*rhs, whole && wide)]);
                }
                _ => {}
            }
        }
        watch
    }

    /// An instruction with its watch, if it is one that the sanitizer looks at.
    pub fn wrap(&self, inst: Inst, location: LocationId) -> Inst {
        let watched = matches!(
            inst,
            Inst::Load(_)
                | Inst::Store(_)
                | Inst::StoreBits { .. }
                | Inst::Atomic { .. }
                | Inst::Barrier(_)
                | Inst::Fence
                | Inst::CoopInit(_)
                | Inst::CoopCopy { .. }
                | Inst::CoopGet { .. }
                | Inst::CoopSet { .. }
                | Inst::CoopLoad { .. }
                | Inst::CoopStore { .. }
                | Inst::CoopReduce { .. }
                | Inst::CoopMap { .. }
                | Inst::Matmul { .. }
                | Inst::Convolution(_)
        );
        if !watched {
            return inst;
        }
        Inst::Watched(Box::new(Watched {
            inst,
            location,
            flags: self.flags,
            checked: self.checked,
        }))
    }
}

/// Definitions, sets of locals, and the values that addresses are made of.
struct Flow<'k> {
    definitions: Vec<Option<&'k Op>>,
    sets: std::collections::HashMap<LocalId, Vec<ValueId>>,
    addresses: Vec<ValueId>,
}

impl<'k> Flow<'k> {
    fn of(kernel: &'k Kernel) -> Self {
        let mut flow = Flow {
            definitions: vec![None; kernel.values.len()],
            sets: Default::default(),
            addresses: Vec::new(),
        };
        kernel.body.for_each_inst(&mut |inst| {
            for result in inst.results() {
                flow.definitions[result.index()] = Some(&inst.op);
            }
            match &inst.op {
                Op::LocalSet { local, value } => flow.sets.entry(*local).or_default().push(*value),
                Op::PointerOffset { offset, .. } => flow.addresses.push(*offset),
                Op::TensorLoad { tensor, indices, .. }
                | Op::TensorStore { tensor, indices, .. }
                | Op::TensorElementPointer { tensor, indices } => {
                    flow.addresses.extend(indices);
                    flow.addresses.extend(&tensor.origin);
                }
                Op::CoopLoad { tensor, .. } | Op::CoopStore { tensor, .. } => flow.addresses.extend(&tensor.origin),
                Op::Convolution {
                    activation, weights, ..
                } => {
                    flow.addresses.extend(&activation.origin);
                    flow.addresses.extend(&weights.origin);
                }
                Op::Matmul {
                    left,
                    right,
                    destination,
                    ..
                } => {
                    for operand in [left, right, destination] {
                        if let anymetal_ir::Operand::Tensor(tensor) = operand {
                            flow.addresses.extend(&tensor.origin);
                        }
                    }
                }
                _ => {}
            }
        });
        flow
    }

    fn definition(&self, value: ValueId) -> Option<&'k Op> {
        self.definitions.get(value.index()).copied().flatten()
    }

    fn sets(&self, local: LocalId) -> &[ValueId] {
        self.sets.get(&local).map_or(&[], Vec::as_slice)
    }
}

impl Lower<'_> {
    /// Notes what the wrapped forms of an instruction need, and emits the watch of index arithmetic.
    pub(super) fn watch_inst(&mut self, inst: &IrInst) -> Result<(), CompileError> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        watch.checked = false;
        match &inst.op {
            Op::Barrier { flags, .. } | Op::Fence(flags) => watch.flags = *flags,
            Op::CoopValid { coop, slot } => {
                watch.asked = Some((coop.0, *slot));
                return Ok(());
            }
            Op::CoopGet { coop, slot } | Op::CoopSet { coop, slot, .. } => {
                watch.checked = watch.asked == Some((coop.0, *slot));
            }
            Op::Binary { op, lhs, rhs, .. }
                if watch.signed.contains(&inst.first) || watch.unsigned.contains(&inst.first) =>
            {
                let (ty, location) = (self.scalar(*lhs), inst.location);
                let (a, b) = (self.value(*lhs)?, self.value(*rhs)?);
                self.push(Inst::WatchIndex {
                    op: *op,
                    ty,
                    a,
                    b,
                    location,
                });
            }
            _ => {}
        }
        Ok(())
    }
}
