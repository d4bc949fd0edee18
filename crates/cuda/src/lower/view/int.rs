//! Integers of address arithmetic: numbers that are known fold away.

use anymetal_ir::ValueId;

use super::super::Lower;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A number that is known, or a `.b32` or `.b64` register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Int {
    /// Known at compile time.
    Const(i64),
    /// In a register.
    Reg(Reg),
}

impl Int {}

/// The longest extent that tile operations tell apart.
pub(crate) const MAX_EXTENT: i64 = i32::MAX as i64;

impl Lower<'_> {
    /// An `i64` value.
    pub fn int(&self, value: ValueId) -> Int {
        match self.constant(value) {
            Some(bits) => Int::Const(bits as i64),
            None => Int::Reg(self.value(value)),
        }
    }

    /// The number in a register of a class, `.b32` (the low bits) or `.b64` (from `.b32` zero-extended).
    pub fn int_reg(&mut self, int: Int, class: Class) -> Reg {
        match int {
            Int::Const(number) if class == Class::B32 => self.u32(number as u32),
            Int::Const(number) => self.i64(number),
            Int::Reg(reg) if reg.class == class => reg,
            Int::Reg(reg) => {
                let to = self.reg(class);
                match class {
                    Class::B32 => ptx!(self, "cvt.u32.u64 {to}, {reg}"),
                    _ => ptx!(self, "cvt.u64.u32 {to}, {reg}"),
                }
                to
            }
        }
    }

    /// `a + b` in a class.
    pub fn int_add(&mut self, a: Int, b: Int, class: Class) -> Int {
        match (a, b) {
            (Int::Const(a), Int::Const(b)) => Int::Const(wrap(a.wrapping_add(b), class)),
            (other, Int::Const(0)) | (Int::Const(0), other) => other,
            _ => {
                let (a, b) = self.immediate_last(a, b, class);
                let to = self.reg(class);
                match b {
                    Int::Const(b) => ptx!(self, "add.{} {to}, {a}, {b}", signed(class)),
                    Int::Reg(b) => ptx!(self, "add.{} {to}, {a}, {b}", signed(class)),
                }
                Int::Reg(to)
            }
        }
    }

    /// `a − b` in a class.
    pub fn int_sub(&mut self, a: Int, b: Int, class: Class) -> Int {
        match (a, b) {
            (Int::Const(a), Int::Const(b)) => Int::Const(wrap(a.wrapping_sub(b), class)),
            (other, Int::Const(0)) => other,
            _ => {
                let (a, b) = (self.int_reg(a, class), self.int_reg(b, class));
                let to = self.reg(class);
                ptx!(self, "sub.{} {to}, {a}, {b}", signed(class));
                Int::Reg(to)
            }
        }
    }

    /// `a · b` in a class.
    pub fn int_mul(&mut self, a: Int, b: Int, class: Class) -> Int {
        match (a, b) {
            (Int::Const(a), Int::Const(b)) => Int::Const(wrap(a.wrapping_mul(b), class)),
            (_, Int::Const(0)) | (Int::Const(0), _) => Int::Const(0),
            (other, Int::Const(1)) | (Int::Const(1), other) => other,
            (Int::Reg(reg), Int::Const(factor)) | (Int::Const(factor), Int::Reg(reg))
                if class == Class::B64 && reg.class == Class::B32 && (0..=u32::MAX.into()).contains(&factor) =>
            {
                let to = self.reg(Class::B64);
                ptx!(self, "mul.wide.u32 {to}, {reg}, {factor}");
                Int::Reg(to)
            }
            _ => {
                let (a, b) = self.immediate_last(a, b, class);
                let to = self.reg(class);
                match b {
                    Int::Const(b) if b > 0 && b & (b - 1) == 0 => {
                        ptx!(self, "shl.{} {to}, {a}, {}", class.ptx(), b.trailing_zeros())
                    }
                    Int::Const(b) => ptx!(self, "mul.lo.{} {to}, {a}, {b}", signed(class)),
                    Int::Reg(b) => ptx!(self, "mul.lo.{} {to}, {a}, {b}", signed(class)),
                }
                Int::Reg(to)
            }
        }
    }

    /// The smaller of two, signed.
    pub fn int_min(&mut self, a: Int, b: Int, class: Class) -> Int {
        match (a, b) {
            (Int::Const(a), Int::Const(b)) => Int::Const(a.min(b)),
            (a, b) if a == b => a,
            _ => {
                let (a, b) = (self.int_reg(a, class), self.int_reg(b, class));
                let to = self.reg(class);
                ptx!(self, "min.{} {to}, {a}, {b}", signed(class));
                Int::Reg(to)
            }
        }
    }

    /// An `i64` extent as `.b32`, cut to 0…2³¹ − 1.
    pub fn int_extent(&mut self, extent: Int) -> Int {
        match extent {
            Int::Const(extent) => Int::Const(extent.clamp(0, MAX_EXTENT)),
            Int::Reg(reg) => {
                let (high, low) = (self.reg(Class::B64), self.reg(Class::B64));
                ptx!(self, "min.s64 {high}, {reg}, {MAX_EXTENT}");
                ptx!(self, "max.s64 {low}, {high}, 0");
                let to = self.reg(Class::B32);
                ptx!(self, "cvt.u32.u64 {to}, {low}");
                Int::Reg(to)
            }
        }
    }

    /// `yes` where the predicate holds, else `no`.
    pub fn int_select(&mut self, predicate: Reg, yes: Int, no: Int, class: Class) -> Int {
        if yes == no {
            return yes;
        }
        let (yes, no) = (self.int_reg(yes, class), self.int_reg(no, class));
        let to = self.reg(class);
        ptx!(self, "selp.{} {to}, {yes}, {no}, {predicate}", class.ptx());
        Int::Reg(to)
    }

    /// A register and the other operand, with a constant last.
    fn immediate_last(&mut self, a: Int, b: Int, class: Class) -> (Reg, Int) {
        match (a, b) {
            (Int::Const(number), other) | (other, Int::Const(number)) => {
                (self.int_reg(other, class), Int::Const(wrap(number, class)))
            }
            (a, b) => (self.int_reg(a, class), Int::Reg(self.int_reg(b, class))),
        }
    }
}

/// A number as a class has it.
fn wrap(number: i64, class: Class) -> i64 {
    match class {
        Class::B32 => (number as i32).into(),
        _ => number,
    }
}

/// The signed type of a class, as arithmetic wants it.
pub(crate) const fn signed(class: Class) -> &'static str {
    match class {
        Class::B32 => "s32",
        _ => "s64",
    }
}
