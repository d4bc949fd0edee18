//! Atomic operations.

use anymetal_ir::{AddressSpace, AtomicOp, Inst, Scalar, ValueId};

use super::check::AccessKind;
use super::memory::{Address, space_name};
use super::{Lower, Result};
use crate::ptx::{Class, Reg};
use crate::{emit, ptx};

impl Lower<'_> {
    pub fn atomic(&mut self, inst: &Inst, op: AtomicOp, pointer: ValueId, values: &[ValueId], ty: Scalar) -> Result {
        let space = self.space_of(pointer);
        if space == AddressSpace::Thread || space == AddressSpace::Constant {
            return self.unsupported(format!("an atomic operation on {space} memory"));
        }
        let address = self.address(pointer);
        let kind = if op == AtomicOp::Load {
            AccessKind::Read
        } else {
            AccessKind::Atomic
        };
        let guard = self.check_access(pointer, address, u64::from(ty.size()), ty.size(), kind);
        let values: Vec<Reg> = values.iter().map(|&value| self.value(value)).collect();
        let class = if ty.bits() == 64 { Class::B64 } else { Class::B32 };
        let old = self.reg(class);
        if let Some(guard) = guard {
            ptx!(self, "mov.b{} {old}, 0", ty.bits());
            let end = self.writer.label();
            ptx!(self, "@!{guard} bra {end}");
            self.atomic_access(op, space, address, &values, ty, old)?;
            self.writer.place(end);
        } else {
            self.atomic_access(op, space, address, &values, ty, old)?;
        }
        let mut results = inst.results();
        if let Some(result) = results.next() {
            let reg = if ty == Scalar::F32 {
                emit!(self, F32, "mov.b32", old)
            } else {
                old
            };
            self.bind(result, reg);
        }
        if let (Some(success), Some(&expected)) = (results.next(), values.first()) {
            let expected = self.raw(expected);
            let reg = emit!(self, Pred, &format!("setp.eq.b{}", ty.bits()), old, expected);
            self.bind(success, reg);
        }
        Ok(())
    }

    /// The bits of a 32- or 64-bit value.
    fn raw(&mut self, value: Reg) -> Reg {
        if value.class == Class::F32 {
            self.float_bits(value)
        } else {
            value
        }
    }

    /// The access itself; the old value goes to a register of plain bits.
    fn atomic_access(
        &mut self,
        op: AtomicOp,
        space: AddressSpace,
        address: Address,
        values: &[Reg],
        ty: Scalar,
        old: Reg,
    ) -> Result {
        let bits = ty.bits();
        let state = space_name(space);
        let scope = if space == AddressSpace::Device { "gpu" } else { "cta" };
        let (s, u) = match ty {
            Scalar::I32 => ("s32", "u32"),
            Scalar::I64 => ("s64", "u64"),
            Scalar::U64 => ("u64", "u64"),
            _ => ("u32", "u32"),
        };
        let Some(&first) = values.first() else {
            ptx!(self, "ld.relaxed.{scope}.{state}.b{bits} {old}, {address}");
            return Ok(());
        };
        let value = self.raw(first);
        let name = match (op, ty) {
            (AtomicOp::Store, _) => {
                ptx!(self, "st.relaxed.{scope}.{state}.b{bits} {address}, {value}");
                return Ok(());
            }
            (AtomicOp::CompareExchangeWeak, _) => {
                let Some(&second) = values.get(1) else {
                    return self.unsupported("an exchange without a second value");
                };
                let desired = self.raw(second);
                ptx!(self, "atom.{state}.cas.b{bits} {old}, {address}, {value}, {desired}");
                return Ok(());
            }
            (AtomicOp::Exchange, _) => format!("exch.b{bits}"),
            (AtomicOp::And, _) => format!("and.b{bits}"),
            (AtomicOp::Or, _) => format!("or.b{bits}"),
            (AtomicOp::Xor, _) => format!("xor.b{bits}"),
            (AtomicOp::Add | AtomicOp::Sub, Scalar::F32) => {
                let value = if op == AtomicOp::Sub {
                    emit!(self, F32, "neg.f32", first)
                } else {
                    first
                };
                ptx!(self, "atom.{state}.add.f32 {old}, {address}, {value}");
                return Ok(());
            }
            (AtomicOp::Min | AtomicOp::Max, Scalar::F32) => {
                return self.float_extreme(op, state, address, first, old);
            }
            (AtomicOp::Add, _) => format!("add.{u}"),
            (AtomicOp::Sub, _) => {
                let negated = if bits == 64 {
                    emit!(self, B64, "neg.s64", value)
                } else {
                    emit!(self, B32, "neg.s32", value)
                };
                ptx!(self, "atom.{state}.add.{u} {old}, {address}, {negated}");
                return Ok(());
            }
            (AtomicOp::Min, _) => format!("min.{s}"),
            (AtomicOp::Max, _) => format!("max.{s}"),
            (AtomicOp::Load, _) => return self.unsupported("an atomic load of a value"),
        };
        ptx!(self, "atom.{state}.{name} {old}, {address}, {value}");
        Ok(())
    }

    /// Minimum and maximum of floats, for which there is no instruction: exchange until nobody came between.
    fn float_extreme(&mut self, op: AtomicOp, state: &str, address: Address, value: Reg, old: Reg) -> Result {
        let head = self.writer.label();
        ptx!(self, "ld.{state}.b32 {old}, {address}");
        let expected = self.reg(Class::B32);
        self.writer.place(head);
        ptx!(self, "mov.b32 {expected}, {old}");
        let current = emit!(self, F32, "mov.b32", old);
        let name = if op == AtomicOp::Min { "min.f32" } else { "max.f32" };
        let wanted = emit!(self, B32, "mov.b32", emit!(self, F32, name, current, value));
        ptx!(self, "atom.{state}.cas.b32 {old}, {address}, {expected}, {wanted}");
        let lost = emit!(self, Pred, "setp.ne.b32", old, expected);
        ptx!(self, "@{lost} bra {head}");
        Ok(())
    }
}
