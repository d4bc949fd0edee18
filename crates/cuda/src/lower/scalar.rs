//! Constants, arithmetic, comparisons and selection.

use anymetal_ir::{BinaryOp, CompareOp, Const, MathMode, Scalar, TernaryOp, Type, UnaryOp, ValueId};

use super::{Lower, Result};
use crate::ptx::{Class, F32, Reg};
use crate::{emit, ptx};

impl Lower<'_> {
    pub fn const_(&mut self, to: ValueId, c: Const) -> Result {
        let reg = self.constant_register(c.ty, c.bits);
        self.bind(to, reg);
        Ok(())
    }

    /// A register with a constant of a type.
    pub fn constant_register(&mut self, ty: Scalar, bits: u64) -> Reg {
        let reg = self.reg(Class::of_scalar(ty));
        match ty {
            Scalar::Bool => ptx!(self, "setp.{}.b32 {reg}, 0, 0", if bits & 1 != 0 { "eq" } else { "ne" }),
            Scalar::I8 => ptx!(self, "mov.b32 {reg}, {}", i32::from(bits as u8 as i8)),
            Scalar::U8 => ptx!(self, "mov.b32 {reg}, {}", bits as u8),
            Scalar::I16 => ptx!(self, "mov.b32 {reg}, {}", i32::from(bits as u16 as i16)),
            Scalar::U16 => ptx!(self, "mov.b32 {reg}, {}", bits as u16),
            Scalar::I32 | Scalar::U32 => ptx!(self, "mov.b32 {reg}, {}", bits as u32 as i32),
            Scalar::I64 | Scalar::U64 => ptx!(self, "mov.b64 {reg}, {}", bits as i64),
            Scalar::F16 | Scalar::BF16 => ptx!(self, "mov.b16 {reg}, 0x{:04X}", bits as u16),
            Scalar::F32 => ptx!(self, "mov.f32 {reg}, {}", F32(f32::from_bits(bits as u32))),
        }
        reg
    }

    /// A binary operation on registers of a type, precise.
    pub fn arithmetic(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg) -> Result<Reg> {
        if ty == Scalar::Bool {
            Ok(match op {
                BinaryOp::And | BinaryOp::Mul | BinaryOp::Min => emit!(self, Pred, "and.pred", a, b),
                BinaryOp::Or | BinaryOp::Add | BinaryOp::Max => emit!(self, Pred, "or.pred", a, b),
                BinaryOp::Xor => emit!(self, Pred, "xor.pred", a, b),
                _ => return self.unsupported(format!("{op:?} on bool")),
            })
        } else if ty.is_float() {
            self.float_binary(op, ty, a, b, MathMode::Precise)
        } else if a.class == Class::B64 {
            self.long_binary(op, ty, a, b, None)
        } else {
            self.int_binary(op, ty, a, b, None)
        }
    }

    /// The scalar type of a value that is no pointer.
    pub fn scalar(&self, value: ValueId) -> Scalar {
        match self.kernel.ty(value) {
            Type::Scalar(scalar) => scalar,
            // The verifier lets pointers through to comparisons and selections only, which look for themselves.
            Type::Pointer(_) => Scalar::U64,
        }
    }

    /// The low bits of a `.b32` register as a number of a type of up to 32 bits: sign- or zero-extended.
    pub fn normalise(&mut self, reg: Reg, ty: Scalar) -> Reg {
        match ty {
            Scalar::I8 => emit!(self, B32, "cvt.s32.s8", reg),
            Scalar::I16 => emit!(self, B32, "cvt.s32.s16", reg),
            Scalar::U8 => emit!(self, B32, "and.b32", reg, 0xff),
            Scalar::U16 => emit!(self, B32, "and.b32", reg, 0xffff),
            _ => reg,
        }
    }

    /// The bits of a narrow integer without its sign extension.
    fn zero_extended(&mut self, reg: Reg, ty: Scalar) -> Reg {
        match ty {
            Scalar::I8 => emit!(self, B32, "and.b32", reg, 0xff),
            Scalar::I16 => emit!(self, B32, "and.b32", reg, 0xffff),
            _ => reg,
        }
    }

    pub fn unary(&mut self, to: ValueId, op: UnaryOp, operand: ValueId, mode: MathMode) -> Result {
        let ty = self.scalar(operand);
        let a = self.value(operand);
        let fused = self.forms.fused.get(&operand).copied();
        let result = if ty == Scalar::Bool {
            emit!(self, Pred, "not.pred", a)
        } else if let (UnaryOp::Saturate, Scalar::F32, Some([a, b, c])) = (op, ty, fused) {
            // The assembler does not see that the second operation is a part of the first.
            emit!(self, F32, "fma.rn.sat.f32", a, b, c)
        } else if ty.is_float() {
            self.float_unary(op, ty, a, mode)?
        } else if a.class == Class::B64 {
            self.long_unary(op, ty, a)?
        } else {
            self.int_unary(op, ty, a)?
        };
        self.bind(to, result);
        Ok(())
    }

    fn int_unary(&mut self, op: UnaryOp, ty: Scalar, a: Reg) -> Result<Reg> {
        let narrow = 32 - ty.bits();
        let raw = match op {
            UnaryOp::Neg => emit!(self, B32, "neg.s32", a),
            UnaryOp::Not => emit!(self, B32, "not.b32", a),
            UnaryOp::Abs if ty.is_signed() => emit!(self, B32, "abs.s32", a),
            UnaryOp::Abs => a,
            UnaryOp::Clz => {
                let bits = self.zero_extended(a, ty);
                let count = emit!(self, B32, "clz.b32", bits);
                return Ok(if narrow > 0 {
                    emit!(self, B32, "sub.s32", count, narrow)
                } else {
                    count
                });
            }
            UnaryOp::Ctz => {
                let bits = if narrow > 0 {
                    emit!(self, B32, "or.b32", a, 1u32 << ty.bits())
                } else {
                    a
                };
                return Ok(emit!(self, B32, "clz.b32", emit!(self, B32, "brev.b32", bits)));
            }
            UnaryOp::Popcount => {
                let bits = self.zero_extended(a, ty);
                return Ok(emit!(self, B32, "popc.b32", bits));
            }
            UnaryOp::ReverseBits => {
                let reversed = emit!(self, B32, "brev.b32", a);
                if narrow > 0 {
                    emit!(self, B32, "shr.u32", reversed, narrow)
                } else {
                    reversed
                }
            }
            _ => return self.unsupported(format!("{op:?} on {ty}")),
        };
        Ok(self.normalise(raw, ty))
    }

    fn long_unary(&mut self, op: UnaryOp, ty: Scalar, a: Reg) -> Result<Reg> {
        Ok(match op {
            UnaryOp::Neg => emit!(self, B64, "neg.s64", a),
            UnaryOp::Not => emit!(self, B64, "not.b64", a),
            UnaryOp::Abs if ty == Scalar::I64 => emit!(self, B64, "abs.s64", a),
            UnaryOp::Abs => a,
            UnaryOp::Clz => emit!(self, B64, "cvt.u64.u32", emit!(self, B32, "clz.b64", a)),
            UnaryOp::Ctz => {
                let reversed = emit!(self, B64, "brev.b64", a);
                emit!(self, B64, "cvt.u64.u32", emit!(self, B32, "clz.b64", reversed))
            }
            UnaryOp::Popcount => emit!(self, B64, "cvt.u64.u32", emit!(self, B32, "popc.b64", a)),
            UnaryOp::ReverseBits => emit!(self, B64, "brev.b64", a),
            _ => return self.unsupported(format!("{op:?} on {ty}")),
        })
    }

    pub fn binary(&mut self, to: ValueId, op: BinaryOp, lhs: ValueId, rhs: ValueId, mode: MathMode) -> Result {
        let ty = self.scalar(lhs);
        let (a, b) = (self.value(lhs), self.value(rhs));
        let result = if ty == Scalar::Bool {
            self.arithmetic(op, ty, a, b)?
        } else if (op, ty, mode) == (BinaryOp::Div, Scalar::F32, MathMode::Fast)
            && self.constant(lhs) == Some(u64::from(1.0f32.to_bits()))
        {
            emit!(self, F32, "rcp.approx.ftz.f32", b)
        } else if ty.is_float() {
            self.float_binary(op, ty, a, b, mode)?
        } else if a.class == Class::B64 {
            let constant = self.constant(rhs);
            if let Some(reg) = self.wide_binary(to, op, lhs, rhs) {
                self.bind(to, reg);
                return Ok(());
            }
            self.long_binary(op, ty, a, b, constant)?
        } else {
            let constant = self.constant(rhs);
            self.int_binary(op, ty, a, b, constant)?
        };
        self.bind(to, result);
        Ok(())
    }

    /// The count of a shift, modulo the width.
    fn shift_count(&mut self, ty: Scalar, count: Reg, constant: Option<u64>) -> Reg {
        let modulus = u64::from(ty.bits() - 1);
        let count = if count.class == Class::B64 {
            emit!(self, B32, "cvt.u32.u64", count)
        } else {
            count
        };
        match constant {
            Some(count) => self.u32((count & modulus) as u32),
            None => emit!(self, B32, "and.b32", count, modulus),
        }
    }

    /// Division or remainder, 0 where the divisor is.
    fn divide_integers(&mut self, op: BinaryOp, suffix: &str, a: Reg, b: Reg, constant: Option<u64>, mask: u64) -> Reg {
        let name = format!("{}.{suffix}", if op == BinaryOp::Div { "div" } else { "rem" });
        let long = a.class == Class::B64;
        let emit = |lower: &mut Self, b: Reg| {
            if long {
                emit!(lower, B64, &name, a, b)
            } else {
                emit!(lower, B32, &name, a, b)
            }
        };
        if let Some(by) = constant.map(|b| b & mask).filter(|&b| b != 0) {
            // A sign bit alone is a negative divisor.
            let positive = !suffix.starts_with('s') || by <= mask >> 1;
            return match by.is_power_of_two() && positive {
                true => self.divide_by_power(op, suffix, a, by.trailing_zeros()),
                false => emit(self, b),
            };
        }
        let class = a.class.ptx();
        let zero = emit!(self, Pred, &format!("setp.eq.{class}"), b, 0);
        let one = self.reg(a.class);
        ptx!(self, "selp.{class} {one}, 1, {b}, {zero}");
        let quotient = emit(self, one);
        let result = self.reg(a.class);
        ptx!(self, "selp.{class} {result}, 0, {quotient}, {zero}");
        result
    }

    /// Division by 2^`shift`, towards zero, or the remainder.
    fn divide_by_power(&mut self, op: BinaryOp, suffix: &str, a: Reg, shift: u32) -> Reg {
        let (bits, class) = (if a.class == Class::B64 { 64 } else { 32 }, a.class);
        let low = (1u64 << shift) - 1;
        let step = |lower: &mut Self, name: String, x: Reg, y: String| {
            let to = lower.reg(class);
            ptx!(lower, "{name} {to}, {x}, {y}");
            to
        };
        let from = match suffix.starts_with('s') && shift > 0 {
            true => {
                // Negative numbers are rounded up.
                let sign = step(self, format!("shr.s{bits}"), a, (bits - 1).to_string());
                let more = step(self, format!("and.b{bits}"), sign, low.to_string());
                step(self, format!("add.s{bits}"), a, more.to_string())
            }
            false => a,
        };
        if op == BinaryOp::Div {
            return step(self, format!("shr.{suffix}"), from, shift.to_string());
        }
        let whole = step(self, format!("and.b{bits}"), from, format!("{}", !low as i64));
        step(self, format!("sub.s{bits}"), a, whole.to_string())
    }

    fn int_binary(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg, constant: Option<u64>) -> Result<Reg> {
        let signed = ty.is_signed();
        let s = if signed { "s32" } else { "u32" };
        let full = ty.bits() == 32;
        let raw = match op {
            BinaryOp::Add => emit!(self, B32, "add.s32", a, b),
            BinaryOp::Sub => emit!(self, B32, "sub.s32", a, b),
            BinaryOp::Mul => emit!(self, B32, "mul.lo.s32", a, b),
            BinaryOp::Div | BinaryOp::Rem => {
                let mask = u64::MAX >> (64 - ty.bits());
                self.divide_integers(op, s, a, b, constant, mask)
            }
            BinaryOp::And => return Ok(emit!(self, B32, "and.b32", a, b)),
            BinaryOp::Or => return Ok(emit!(self, B32, "or.b32", a, b)),
            BinaryOp::Xor => return Ok(emit!(self, B32, "xor.b32", a, b)),
            BinaryOp::Shl => {
                let count = self.shift_count(ty, b, constant);
                emit!(self, B32, "shl.b32", a, count)
            }
            BinaryOp::Shr => {
                let count = self.shift_count(ty, b, constant);
                return Ok(emit!(self, B32, &format!("shr.{s}"), a, count));
            }
            BinaryOp::Min => return Ok(emit!(self, B32, &format!("min.{s}"), a, b)),
            BinaryOp::Max => return Ok(emit!(self, B32, &format!("max.{s}"), a, b)),
            BinaryOp::MulHi if full => return Ok(emit!(self, B32, &format!("mul.hi.{s}"), a, b)),
            BinaryOp::MulHi => {
                let product = emit!(self, B32, "mul.lo.s32", a, b);
                emit!(self, B32, &format!("shr.{s}"), product, ty.bits())
            }
            BinaryOp::AddSat | BinaryOp::SubSat => return Ok(self.saturating(op, ty, a, b)),
            BinaryOp::AbsDiff => {
                let greater = emit!(self, B32, &format!("max.{s}"), a, b);
                let lesser = emit!(self, B32, &format!("min.{s}"), a, b);
                emit!(self, B32, "sub.s32", greater, lesser)
            }
            BinaryOp::Hadd | BinaryOp::Rhadd => {
                // a + b = 2·(a & b) + (a ^ b) = 2·(a | b) − (a ^ b), without a carry out.
                let half = emit!(self, B32, &format!("shr.{s}"), emit!(self, B32, "xor.b32", a, b), 1);
                let (common, combine) = if op == BinaryOp::Hadd {
                    ("and.b32", "add.s32")
                } else {
                    ("or.b32", "sub.s32")
                };
                let common = emit!(self, B32, common, a, b);
                return Ok(emit!(self, B32, combine, common, half));
            }
            BinaryOp::Rotate => {
                let count = self.shift_count(ty, b, constant);
                if full {
                    return Ok(emit!(self, B32, "shf.l.wrap.b32", a, a, count));
                }
                let bits = self.zero_extended(a, ty);
                let up = emit!(self, B32, "shl.b32", bits, count);
                let rest = emit!(self, B32, "sub.s32", ty.bits(), count);
                let down = emit!(self, B32, "shr.u32", bits, rest);
                emit!(self, B32, "or.b32", up, down)
            }
            _ => return self.unsupported(format!("{op:?} on {ty}")),
        };
        Ok(self.normalise(raw, ty))
    }

    /// Addition and subtraction of up to 32 bits that stay at the ends of the range.
    fn saturating(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg) -> Reg {
        let add = op == BinaryOp::AddSat;
        match (ty, add) {
            (Scalar::I32, true) => emit!(self, B32, "add.sat.s32", a, b),
            (Scalar::I32, false) => emit!(self, B32, "sub.sat.s32", a, b),
            (Scalar::U32, true) => {
                let room = emit!(self, B32, "not.b32", b);
                emit!(self, B32, "add.s32", emit!(self, B32, "min.u32", a, room), b)
            }
            (Scalar::U32 | Scalar::U16 | Scalar::U8, false) => {
                emit!(self, B32, "sub.s32", emit!(self, B32, "max.u32", a, b), b)
            }
            _ => {
                let raw = emit!(self, B32, if add { "add.s32" } else { "sub.s32" }, a, b);
                self.clamp_to(raw, true, ty)
            }
        }
    }

    /// Clamps a 32-bit integer to the range of a type.
    pub fn clamp_to(&mut self, a: Reg, signed: bool, ty: Scalar) -> Reg {
        let (low, high) = match ty {
            Scalar::I8 => (i32::from(i8::MIN), i32::from(i8::MAX)),
            Scalar::U8 => (0, i32::from(u8::MAX)),
            Scalar::I16 => (i32::from(i16::MIN), i32::from(i16::MAX)),
            Scalar::U16 => (0, i32::from(u16::MAX)),
            Scalar::I32 if !signed => return emit!(self, B32, "min.u32", a, i32::MAX),
            Scalar::U32 if signed => return emit!(self, B32, "max.s32", a, 0),
            _ => return a,
        };
        if !signed {
            return emit!(self, B32, "min.u32", a, high);
        }
        emit!(self, B32, "max.s32", emit!(self, B32, "min.s32", a, high), low)
    }

    fn long_binary(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg, constant: Option<u64>) -> Result<Reg> {
        let signed = ty.is_signed();
        let s = if signed { "s64" } else { "u64" };
        Ok(match op {
            BinaryOp::Add => emit!(self, B64, "add.s64", a, b),
            BinaryOp::Sub => emit!(self, B64, "sub.s64", a, b),
            BinaryOp::Mul => emit!(self, B64, "mul.lo.s64", a, b),
            BinaryOp::Div | BinaryOp::Rem => match constant {
                Some(by) if by != 0 => self.divide_long(op, signed, a, by),
                _ => self.divide_integers(op, s, a, b, constant, u64::MAX),
            },
            BinaryOp::And => emit!(self, B64, "and.b64", a, b),
            BinaryOp::Or => emit!(self, B64, "or.b64", a, b),
            BinaryOp::Xor => emit!(self, B64, "xor.b64", a, b),
            BinaryOp::Shl => {
                let count = self.shift_count(ty, b, constant);
                emit!(self, B64, "shl.b64", a, count)
            }
            BinaryOp::Shr => {
                let count = self.shift_count(ty, b, constant);
                emit!(self, B64, &format!("shr.{s}"), a, count)
            }
            BinaryOp::Min => emit!(self, B64, &format!("min.{s}"), a, b),
            BinaryOp::Max => emit!(self, B64, &format!("max.{s}"), a, b),
            BinaryOp::MulHi => emit!(self, B64, &format!("mul.hi.{s}"), a, b),
            BinaryOp::AddSat if !signed => {
                let room = emit!(self, B64, "not.b64", b);
                emit!(self, B64, "add.s64", emit!(self, B64, "min.u64", a, room), b)
            }
            BinaryOp::SubSat if !signed => emit!(self, B64, "sub.s64", emit!(self, B64, "max.u64", a, b), b),
            BinaryOp::AddSat | BinaryOp::SubSat => {
                let add = op == BinaryOp::AddSat;
                let raw = emit!(self, B64, if add { "add.s64" } else { "sub.s64" }, a, b);
                // Overflow: the result's sign differs from a's, and from what b's effect allows.
                let moved = emit!(self, B64, "xor.b64", a, raw);
                let other = if add {
                    emit!(self, B64, "xor.b64", b, raw)
                } else {
                    emit!(self, B64, "xor.b64", a, b)
                };
                let overflow = emit!(self, B64, "and.b64", moved, other);
                let end = emit!(self, B64, "xor.b64", emit!(self, B64, "shr.s64", a, 63), i64::MAX);
                let over = emit!(self, Pred, "setp.lt.s64", overflow, 0);
                emit!(self, B64, "selp.b64", end, raw, over)
            }
            BinaryOp::AbsDiff => {
                let greater = emit!(self, B64, &format!("max.{s}"), a, b);
                let lesser = emit!(self, B64, &format!("min.{s}"), a, b);
                emit!(self, B64, "sub.s64", greater, lesser)
            }
            BinaryOp::Hadd | BinaryOp::Rhadd => {
                let half = emit!(self, B64, &format!("shr.{s}"), emit!(self, B64, "xor.b64", a, b), 1);
                let (common, combine) = if op == BinaryOp::Hadd {
                    ("and.b64", "add.s64")
                } else {
                    ("or.b64", "sub.s64")
                };
                let common = emit!(self, B64, common, a, b);
                emit!(self, B64, combine, common, half)
            }
            BinaryOp::Rotate => {
                let count = self.shift_count(ty, b, constant);
                let up = emit!(self, B64, "shl.b64", a, count);
                let rest = emit!(self, B32, "sub.s32", 64, count);
                let down = emit!(self, B64, "shr.u64", a, rest);
                emit!(self, B64, "or.b64", up, down)
            }
            _ => return self.unsupported(format!("{op:?} on {ty}")),
        })
    }

    pub fn ternary(&mut self, to: ValueId, op: TernaryOp, operands: [ValueId; 3], mode: MathMode) -> Result {
        let ty = self.scalar(operands[0]);
        let [a, b, c] = operands.map(|value| self.value(value));
        if op == TernaryOp::Fma && ty == Scalar::F32 {
            self.forms.fused.insert(to, [a, b, c]);
        }
        let result = if ty.is_float() {
            self.float_ternary(op, ty, [a, b, c], mode)?
        } else {
            let long = a.class == Class::B64;
            let class = a.class;
            let s = match (long, ty.is_signed()) {
                (false, true) => "s32",
                (false, false) => "u32",
                (true, true) => "s64",
                (true, false) => "u64",
            };
            let mut two = |name: String, x: Reg, y: Reg| {
                let to = self.reg(class);
                ptx!(self, "{name} {to}, {x}, {y}");
                to
            };
            match op {
                TernaryOp::Clamp => {
                    let lower = two(format!("max.{s}"), a, b);
                    two(format!("min.{s}"), lower, c)
                }
                TernaryOp::Median3 => {
                    let least = two(format!("min.{s}"), a, b);
                    let most = two(format!("max.{s}"), a, b);
                    let bounded = two(format!("min.{s}"), most, c);
                    two(format!("max.{s}"), least, bounded)
                }
                TernaryOp::BitSelect => {
                    // a ^ ((a ^ b) & c)
                    let bits = class.ptx();
                    let difference = two(format!("xor.{bits}"), a, b);
                    let chosen = two(format!("and.{bits}"), difference, c);
                    two(format!("xor.{bits}"), a, chosen)
                }
                TernaryOp::Fma => return self.unsupported("fma on integers"),
            }
        };
        self.bind(to, result);
        Ok(())
    }

    pub fn compare(&mut self, to: ValueId, op: CompareOp, lhs: ValueId, rhs: ValueId) -> Result {
        let (a, b) = (self.value(lhs), self.value(rhs));
        let result = match self.kernel.ty(lhs) {
            Type::Pointer(_) => {
                let name = format!(
                    "setp.{}.u{}",
                    condition(op),
                    if a.class == Class::B64 { 64 } else { 32 }
                );
                emit!(self, Pred, &name, a, b)
            }
            Type::Scalar(ty) => self.compare_registers(op, ty, a, b),
        };
        self.bind(to, result);
        Ok(())
    }

    /// A comparison of two scalars.
    pub fn compare_registers(&mut self, op: CompareOp, ty: Scalar, a: Reg, b: Reg) -> Reg {
        match ty {
            Scalar::Bool => match op {
                CompareOp::Ne => emit!(self, Pred, "xor.pred", a, b),
                CompareOp::Eq => emit!(self, Pred, "not.pred", emit!(self, Pred, "xor.pred", a, b)),
                _ => {
                    let (a, b) = (self.pred_to_u32(a), self.pred_to_u32(b));
                    emit!(self, Pred, &format!("setp.{}.u32", condition(op)), a, b)
                }
            },
            Scalar::F32 | Scalar::F16 | Scalar::BF16 => {
                // Unordered operands are different, and nothing else.
                let condition = if op == CompareOp::Ne { "neu" } else { condition(op) };
                if ty == Scalar::F16 {
                    return emit!(self, Pred, &format!("setp.{condition}.f16"), a, b);
                }
                let (a, b) = (self.widen(a, ty), self.widen(b, ty));
                emit!(self, Pred, &format!("setp.{condition}.f32"), a, b)
            }
            _ => {
                let s = if ty.is_signed() { 's' } else { 'u' };
                let bits = if a.class == Class::B64 { 64 } else { 32 };
                emit!(self, Pred, &format!("setp.{}.{s}{bits}", condition(op)), a, b)
            }
        }
    }

    /// 1 or 0 of a predicate.
    pub fn pred_to_u32(&mut self, p: Reg) -> Reg {
        emit!(self, B32, "selp.b32", 1, 0, p)
    }

    /// `condition ? then : otherwise` on registers of one class.
    pub fn select_registers(&mut self, condition: Reg, then: Reg, otherwise: Reg) -> Reg {
        match then.class {
            Class::Pred => {
                let yes = emit!(self, Pred, "and.pred", condition, then);
                let not = emit!(self, Pred, "not.pred", condition);
                let no = emit!(self, Pred, "and.pred", not, otherwise);
                emit!(self, Pred, "or.pred", yes, no)
            }
            class => {
                let to = self.reg(class);
                ptx!(self, "selp.{} {to}, {then}, {otherwise}, {condition}", class.ptx());
                to
            }
        }
    }

    pub fn select(&mut self, to: ValueId, condition: ValueId, then: ValueId, otherwise: ValueId) -> Result {
        let (condition, then, otherwise) = (self.value(condition), self.value(then), self.value(otherwise));
        let result = self.select_registers(condition, then, otherwise);
        self.bind(to, result);
        Ok(())
    }
}

/// The comparison's name in `setp` for integers.
pub(crate) const fn condition(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "eq",
        CompareOp::Ne => "ne",
        CompareOp::Lt => "lt",
        CompareOp::Le => "le",
        CompareOp::Gt => "gt",
        CompareOp::Ge => "ge",
    }
}
