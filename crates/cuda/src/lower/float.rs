//! Arithmetic on `f16`, `bf16` and `f32`: what one or few instructions do. [`math`](super::math) has the functions.

use anymetal_ir::{BinaryOp, MathMode, Scalar, TernaryOp, UnaryOp};

use super::{Lower, Result};
use crate::ptx::{Class, F32, F64, Reg};
use crate::{emit, ptx};

impl Lower<'_> {
    /// A float as `f32`; exact.
    pub fn widen(&mut self, a: Reg, ty: Scalar) -> Reg {
        match ty {
            Scalar::F16 => emit!(self, F32, "cvt.f32.f16", a),
            Scalar::BF16 => {
                let bits = match self.half_words.get(&a) {
                    Some(&(word, true)) => emit!(self, B32, "and.b32", word, 0xffff_0000u32),
                    Some(&(word, false)) => emit!(self, B32, "shl.b32", word, 16),
                    None => emit!(self, B32, "shl.b32", emit!(self, B32, "cvt.u32.u16", a), 16),
                };
                emit!(self, F32, "mov.b32", bits)
            }
            _ => a,
        }
    }

    /// An `f32` rounded to a float type, to nearest even.
    pub fn narrow(&mut self, a: Reg, ty: Scalar) -> Reg {
        match ty {
            Scalar::F16 => emit!(self, B16, "cvt.rn.f16.f32", a),
            Scalar::BF16 => emit!(self, B16, "cvt.rn.bf16.f32", a),
            _ => a,
        }
    }

    /// The bits of a float, zero-extended to 32.
    pub fn float_bits(&mut self, a: Reg) -> Reg {
        if a.class == Class::B16 {
            emit!(self, B32, "cvt.u32.u16", a)
        } else {
            emit!(self, B32, "mov.b32", a)
        }
    }

    /// The float whose bits stand in the low end of a `.b32` register.
    pub fn round_float_bits(&mut self, bits: Reg, ty: Scalar) -> Reg {
        if ty == Scalar::F32 {
            emit!(self, F32, "mov.b32", bits)
        } else {
            emit!(self, B16, "cvt.u16.u32", bits)
        }
    }

    /// A question to the class of a number.
    fn classify(&mut self, op: UnaryOp, ty: Scalar, a: Reg) -> Reg {
        let bits = self.float_bits(a);
        let (sign, exponent) = shape(ty);
        match op {
            UnaryOp::SignBit => {
                let sign = emit!(self, B32, "and.b32", bits, sign);
                emit!(self, Pred, "setp.ne.b32", sign, 0)
            }
            UnaryOp::IsNan | UnaryOp::IsInf => {
                let magnitude = emit!(self, B32, "and.b32", bits, sign - 1);
                let name = if op == UnaryOp::IsNan {
                    "setp.gt.u32"
                } else {
                    "setp.eq.u32"
                };
                emit!(self, Pred, name, magnitude, exponent)
            }
            UnaryOp::IsFinite => {
                let field = emit!(self, B32, "and.b32", bits, exponent);
                emit!(self, Pred, "setp.ne.u32", field, exponent)
            }
            _ => {
                // Neither the lowest nor the highest exponent.
                let field = emit!(self, B32, "and.b32", bits, exponent);
                let unit = exponent & exponent.wrapping_neg();
                let below = emit!(self, B32, "sub.s32", field, unit);
                emit!(self, Pred, "setp.lt.u32", below, exponent - unit)
            }
        }
    }

    pub(super) fn float_unary(&mut self, op: UnaryOp, ty: Scalar, a: Reg, mode: MathMode) -> Result<Reg> {
        use UnaryOp::{Abs, Fract, Ilogb, IsFinite, IsInf, IsNan, IsNormal, Neg, SignBit};
        Ok(match op {
            Neg if ty == Scalar::F32 => emit!(self, F32, "neg.f32", a),
            Neg => emit!(self, B16, "xor.b16", a, 0x8000),
            Abs if ty == Scalar::F32 => emit!(self, F32, "abs.f32", a),
            Abs => emit!(self, B16, "and.b16", a, 0x7fff),
            IsNan | IsInf | IsFinite | IsNormal | SignBit => self.classify(op, ty, a),
            Ilogb => {
                let x = self.widen(a, ty);
                self.ilogb(x)
            }
            Fract => {
                let x = self.widen(a, ty);
                let floor = emit!(self, F32, "cvt.rmi.f32.f32", x);
                let fraction = emit!(self, F32, "sub.rn.f32", x, floor);
                // At most the largest number below 1; infinities give 0.
                let short = self.narrow(fraction, ty);
                let bounded = {
                    let short = self.widen(short, ty);
                    emit!(self, F32, "min.f32", short, F32(below_one(ty)))
                };
                let magnitude = emit!(self, F32, "abs.f32", x);
                let infinite = emit!(self, Pred, "setp.eq.f32", magnitude, F32(f32::INFINITY));
                let result = emit!(self, F32, "selp.f32", F32(0.0), bounded, infinite);
                // `min` drops a NaN.
                let nan = emit!(self, Pred, "setp.nan.f32", x, x);
                let result = emit!(self, F32, "selp.f32", x, result, nan);
                self.narrow(result, ty)
            }
            _ => {
                let x = self.widen(a, ty);
                let y = self.function(op, x, mode)?;
                self.narrow(y, ty)
            }
        })
    }

    pub(super) fn float_binary(&mut self, op: BinaryOp, ty: Scalar, a: Reg, b: Reg, mode: MathMode) -> Result<Reg> {
        // Without `.rn` the assembler may contract.
        let rn = if mode == MathMode::Precise { ".rn" } else { "" };
        Ok(match (op, ty) {
            (BinaryOp::Add, Scalar::F32) => emit!(self, F32, &format!("add{rn}.f32"), a, b),
            (BinaryOp::Sub, Scalar::F32) => emit!(self, F32, &format!("sub{rn}.f32"), a, b),
            (BinaryOp::Mul, Scalar::F32) => emit!(self, F32, &format!("mul{rn}.f32"), a, b),
            (BinaryOp::Add, Scalar::F16) => emit!(self, B16, &format!("add{rn}.f16"), a, b),
            (BinaryOp::Sub, Scalar::F16) => emit!(self, B16, &format!("sub{rn}.f16"), a, b),
            (BinaryOp::Mul, Scalar::F16) => emit!(self, B16, &format!("mul{rn}.f16"), a, b),
            // sm_80 has `bf16` arithmetic as fused multiply-add only; with 1 and −0 it is the plain operation.
            (BinaryOp::Add, Scalar::BF16) => {
                let one = emit!(self, B16, "mov.b16", "0x3F80");
                emit!(self, B16, "fma.rn.bf16", a, one, b)
            }
            (BinaryOp::Sub, Scalar::BF16) => {
                let minus_one = emit!(self, B16, "mov.b16", "0xBF80");
                emit!(self, B16, "fma.rn.bf16", b, minus_one, a)
            }
            (BinaryOp::Mul, Scalar::BF16) => {
                let minus_zero = emit!(self, B16, "mov.b16", "0x8000");
                emit!(self, B16, "fma.rn.bf16", a, b, minus_zero)
            }
            (BinaryOp::Min, Scalar::F32) => emit!(self, F32, "min.f32", a, b),
            (BinaryOp::Max, Scalar::F32) => emit!(self, F32, "max.f32", a, b),
            (BinaryOp::Min, Scalar::F16) => emit!(self, B16, "min.f16", a, b),
            (BinaryOp::Max, Scalar::F16) => emit!(self, B16, "max.f16", a, b),
            (BinaryOp::Min, Scalar::BF16) => emit!(self, B16, "min.bf16", a, b),
            (BinaryOp::Max, Scalar::BF16) => emit!(self, B16, "max.bf16", a, b),
            (BinaryOp::Nextafter, _) => self.nextafter(ty, a, b),
            (BinaryOp::Ldexp, _) => {
                let x = self.widen(a, ty);
                self.ldexp(x, b, ty)
            }
            (BinaryOp::Copysign, _) => {
                let (sign, _) = shape(ty);
                let (a, b) = (self.float_bits(a), self.float_bits(b));
                let magnitude = emit!(self, B32, "and.b32", a, sign - 1);
                let sign = emit!(self, B32, "and.b32", b, sign);
                let bits = emit!(self, B32, "or.b32", magnitude, sign);
                self.round_float_bits(bits, ty)
            }
            _ => {
                let (x, y) = (self.widen(a, ty), self.widen(b, ty));
                let result = self.function2(op, x, y, mode)?;
                self.narrow(result, ty)
            }
        })
    }

    pub(super) fn float_ternary(&mut self, op: TernaryOp, ty: Scalar, [a, b, c]: [Reg; 3], _: MathMode) -> Result<Reg> {
        let name = ty_name(ty);
        let class = Class::of_scalar(ty);
        let mut two = |op: &str, x: Reg, y: Reg| {
            let to = self.reg(class);
            ptx!(self, "{op}.{name} {to}, {x}, {y}");
            to
        };
        Ok(match op {
            TernaryOp::Fma => {
                let to = self.reg(class);
                ptx!(self, "fma.rn.{name} {to}, {a}, {b}, {c}");
                to
            }
            TernaryOp::Clamp => {
                let lower = two("max", a, b);
                two("min", lower, c)
            }
            TernaryOp::Median3 => {
                let least = two("min", a, b);
                let most = two("max", a, b);
                let bounded = two("min", most, c);
                two("max", least, bounded)
            }
            TernaryOp::BitSelect => return self.unsupported("bit selection on floats"),
        })
    }

    /// The neighbour of `a` towards `b`.
    fn nextafter(&mut self, ty: Scalar, a: Reg, b: Reg) -> Reg {
        let (sign, exponent) = shape(ty);
        let (x, y) = (self.widen(a, ty), self.widen(b, ty));
        let (a_bits, b_bits) = (self.float_bits(a), self.float_bits(b));
        let greater = emit!(self, Pred, "setp.gt.f32", y, x);
        let signs = emit!(self, B32, "and.b32", a_bits, sign);
        let positive = emit!(self, Pred, "setp.eq.b32", signs, 0);
        let toward = emit!(self, Pred, "xor.pred", greater, positive);
        // Away from zero adds 1 to the bits, towards it subtracts 1.
        let step = emit!(self, B32, "selp.b32", -1, 1, toward);
        let moved = emit!(self, B32, "add.s32", a_bits, step);
        let b_sign = emit!(self, B32, "and.b32", b_bits, sign);
        let from_zero = emit!(self, B32, "or.b32", b_sign, 1);
        let zero = emit!(self, Pred, "setp.eq.f32", x, F32(0.0));
        let result = emit!(self, B32, "selp.b32", from_zero, moved, zero);
        let same = emit!(self, Pred, "setp.eq.f32", x, y);
        let result = emit!(self, B32, "selp.b32", b_bits, result, same);
        let nan = emit!(self, Pred, "setp.nan.f32", x, y);
        let quiet = exponent | (exponent & exponent.wrapping_neg()) >> 1;
        let result = emit!(self, B32, "selp.b32", quiet, result, nan);
        self.round_float_bits(result, ty)
    }

    /// `x · 2^k`, rounded once to `ty`.
    fn ldexp(&mut self, x: Reg, k: Reg, ty: Scalar) -> Reg {
        let k = emit!(self, B32, "min.s32", emit!(self, B32, "max.s32", k, -300), 300);
        let biased = emit!(self, B64, "cvt.s64.s32", emit!(self, B32, "add.s32", k, 1023));
        let power = emit!(self, B64, "shl.b64", biased, 52);
        let wide = emit!(self, B64, "cvt.f64.f32", x);
        let product = emit!(self, B64, "mul.rn.f64", wide, power);
        self.round_f64(product, ty)
    }

    /// An `f64` rounded once to a float type.
    pub fn round_f64(&mut self, a: Reg, ty: Scalar) -> Reg {
        match ty {
            Scalar::F32 => emit!(self, F32, "cvt.rn.f32.f64", a),
            Scalar::F16 => emit!(self, B16, "cvt.rn.f16.f64", a),
            _ => {
                // To odd in `f32`, so that the second rounding sees what the first one dropped.
                let down = emit!(self, F32, "cvt.rz.f32.f64", a);
                let back = emit!(self, B64, "cvt.f64.f32", down);
                let inexact = emit!(self, Pred, "setp.neu.f64", back, a);
                let magnitude = emit!(self, B64, "abs.f64", a);
                let finite = emit!(self, Pred, "setp.lt.f64", magnitude, F64(f64::INFINITY));
                let odd = emit!(self, Pred, "and.pred", inexact, finite);
                let bits = emit!(self, B32, "mov.b32", down);
                let sticky = emit!(self, B32, "or.b32", bits, 1);
                let bits = emit!(self, B32, "selp.b32", sticky, bits, odd);
                let rounded = emit!(self, F32, "mov.b32", bits);
                self.narrow(rounded, ty)
            }
        }
    }
}

/// The suffix of a float type in instructions.
pub(crate) const fn ty_name(ty: Scalar) -> &'static str {
    match ty {
        Scalar::F16 => "f16",
        Scalar::BF16 => "bf16",
        _ => "f32",
    }
}

/// The sign bit and the bits of the exponent field.
const fn shape(ty: Scalar) -> (u32, u32) {
    match ty {
        Scalar::F16 => (0x8000, 0x7c00),
        Scalar::BF16 => (0x8000, 0x7f80),
        _ => (0x8000_0000, 0x7f80_0000),
    }
}

/// The largest number of a type below 1.
fn below_one(ty: Scalar) -> f32 {
    match ty {
        Scalar::F16 => 1.0 - 1.0 / 2048.0,
        Scalar::BF16 => 1.0 - 1.0 / 256.0,
        _ => 1.0 - f32::EPSILON / 2.0,
    }
}
