//! Conversions between types and element formats.

use anymetal_formats::ElementFormat;
use anymetal_ir::{Scalar, Type, ValueId};

use super::{Lower, Result};
use crate::ptx::{Class, F32, Reg};
use crate::{emit, ptx};

impl Lower<'_> {
    pub fn convert(&mut self, to: ValueId, operand: ValueId, scalar: Scalar, saturate: bool) -> Result {
        let from = self.scalar(operand);
        let a = self.value(operand);
        let mut result = self.convert_register(a, from, scalar, saturate);
        if let (Some(&(code, format)), Scalar::F16 | Scalar::BF16) = (self.forms.decoded.get(&operand), scalar) {
            // The instruction drops the sign of a NaN, which the code has.
            let magnitude = emit!(self, B32, "and.b32", code, 0x7f);
            let finite = if format == ElementFormat::Fp8E5M2 { 0x7c } else { 0x7e };
            let nan = emit!(self, Pred, "setp.gt.u32", magnitude, finite);
            let sign = emit!(self, B32, "shl.b32", emit!(self, B32, "shr.u32", code, 7), 15);
            let quiet = if scalar == Scalar::F16 { 0x7e00 } else { 0x7fc0 };
            let bits = emit!(self, B16, "cvt.u16.u32", emit!(self, B32, "or.b32", sign, quiet));
            result = emit!(self, B16, "selp.b16", bits, result, nan);
        }
        if (from, scalar) == (Scalar::F16, Scalar::F32) {
            self.forms.halves.insert(to, a);
        }
        self.note_wide(to, operand, from, scalar, result);
        self.bind(to, result);
        Ok(())
    }

    /// The conversion of [`Op::Convert`](anymetal_ir::Op::Convert) on registers.
    pub fn convert_register(&mut self, a: Reg, from: Scalar, to: Scalar, saturate: bool) -> Reg {
        if from == to {
            return a;
        }
        match (from, to) {
            (Scalar::Bool, to) => self.bool_to(a, to),
            (from, Scalar::Bool) => match from {
                Scalar::F16 | Scalar::BF16 | Scalar::F32 => {
                    let x = self.widen(a, from);
                    emit!(self, Pred, "setp.neu.f32", x, F32(0.0))
                }
                Scalar::I64 | Scalar::U64 => emit!(self, Pred, "setp.ne.b64", a, 0),
                _ => emit!(self, Pred, "setp.ne.b32", a, 0),
            },
            (from, to) if from.is_float() && to.is_float() => {
                let x = self.widen(a, from);
                self.narrow(x, to)
            }
            (from, to) if from.is_float() => self.float_to_int(a, from, to),
            (from, to) if to.is_float() => self.int_to_float(a, from, to),
            (from, to) => self.int_to_int(a, from, to, saturate),
        }
    }

    fn bool_to(&mut self, a: Reg, to: Scalar) -> Reg {
        match to {
            Scalar::F32 => emit!(self, F32, "selp.f32", F32(1.0), F32(0.0), a),
            Scalar::F16 | Scalar::BF16 => {
                let one = if to == Scalar::F16 { "0x3C00" } else { "0x3F80" };
                emit!(self, B16, "selp.b16", one, 0, a)
            }
            Scalar::I64 | Scalar::U64 => emit!(self, B64, "selp.b64", 1, 0, a),
            _ => self.pred_to_u32(a),
        }
    }

    fn float_to_int(&mut self, a: Reg, from: Scalar, to: Scalar) -> Reg {
        let x = self.widen(a, from);
        match to {
            Scalar::I64 | Scalar::U64 => {
                let name = if to == Scalar::I64 {
                    "cvt.rzi.s64.f32"
                } else {
                    "cvt.rzi.u64.f32"
                };
                let wide = emit!(self, B64, name, x);
                // The instruction clamps, but has another idea of NaN.
                let nan = emit!(self, Pred, "setp.nan.f32", x, x);
                emit!(self, B64, "selp.b64", 0, wide, nan)
            }
            Scalar::U32 => emit!(self, B32, "cvt.rzi.u32.f32", x),
            Scalar::I32 => emit!(self, B32, "cvt.rzi.s32.f32", x),
            to => {
                let whole = emit!(self, B32, "cvt.rzi.s32.f32", x);
                self.clamp_to(whole, true, to)
            }
        }
    }

    fn int_to_float(&mut self, a: Reg, from: Scalar, to: Scalar) -> Reg {
        let source = match (a.class, from.is_signed()) {
            (Class::B64, true) => "s64",
            (Class::B64, false) => "u64",
            (_, true) => "s32",
            (_, false) => "u32",
        };
        match to {
            Scalar::F32 => emit!(self, F32, &format!("cvt.rn.f32.{source}"), a),
            Scalar::F16 => emit!(self, B16, &format!("cvt.rn.f16.{source}"), a),
            _ if from.bits() <= 16 => {
                let exact = emit!(self, F32, &format!("cvt.rn.f32.{source}"), a);
                self.narrow(exact, to)
            }
            _ => {
                // Towards zero with the last bit set if something was lost: the second rounding is then the only one.
                let down = emit!(self, F32, &format!("cvt.rz.f32.{source}"), a);
                let inexact = if a.class == Class::B64 {
                    let back = emit!(self, B64, &format!("cvt.rzi.{source}.f32"), down);
                    emit!(self, Pred, "setp.ne.b64", back, a)
                } else {
                    let back = emit!(self, B32, &format!("cvt.rzi.{source}.f32"), down);
                    emit!(self, Pred, "setp.ne.b32", back, a)
                };
                let bits = emit!(self, B32, "mov.b32", down);
                let sticky = emit!(self, B32, "or.b32", bits, 1);
                let bits = emit!(self, B32, "selp.b32", sticky, bits, inexact);
                let rounded = emit!(self, F32, "mov.b32", bits);
                self.narrow(rounded, to)
            }
        }
    }

    fn int_to_int(&mut self, a: Reg, from: Scalar, to: Scalar, saturate: bool) -> Reg {
        let long = to.bits() == 64;
        if a.class == Class::B64 {
            if long {
                return match (saturate, from) {
                    (true, Scalar::I64) => emit!(self, B64, "max.s64", a, 0),
                    (true, _) => emit!(self, B64, "min.u64", a, i64::MAX),
                    _ => a,
                };
            }
            let mut wide = a;
            if saturate {
                let (low, high): (i64, i64) = range(to);
                if from == Scalar::I64 {
                    wide = emit!(self, B64, "max.s64", emit!(self, B64, "min.s64", wide, high), low);
                } else {
                    wide = emit!(self, B64, "min.u64", wide, high);
                }
            }
            let low = emit!(self, B32, "cvt.u32.u64", wide);
            return if saturate { low } else { self.normalise(low, to) };
        }
        let mut value = a;
        if saturate {
            if long {
                if from.is_signed() && to == Scalar::U64 {
                    value = emit!(self, B32, "max.s32", value, 0);
                }
            } else {
                return self.clamp_to(value, from.is_signed(), to);
            }
        }
        if long {
            let name = if from.is_signed() { "cvt.s64.s32" } else { "cvt.u64.u32" };
            return emit!(self, B64, name, value);
        }
        // A wider or equal range needs nothing.
        let (from_low, from_high) = range(from);
        let (low, high) = range(to);
        if to.bits() == 32 || (from_low >= low && from_high <= high) {
            return value;
        }
        self.normalise(value, to)
    }

    pub fn bitcast(&mut self, to: ValueId, operand: ValueId, ty: Type) -> Result {
        let a = self.value(operand);
        let from = self.kernel.ty(operand);
        if from == ty {
            self.bind(to, a);
            return Ok(());
        }
        let target = Class::of(ty);
        let result = match (from, ty) {
            (Type::Pointer(_), _) | (_, Type::Pointer(_)) => match (a.class, target) {
                (Class::B32, Class::B64) => emit!(self, B64, "cvt.u64.u32", a),
                (Class::B64, Class::B32) => emit!(self, B32, "cvt.u32.u64", a),
                _ => a,
            },
            (Type::Scalar(from), Type::Scalar(to)) => match (from, to) {
                (_, Scalar::Bool) => emit!(self, Pred, "setp.ne.b32", a, 0),
                (Scalar::Bool, _) => {
                    let bits = self.pred_to_u32(a);
                    self.normalise(bits, to)
                }
                _ if a.class == target && to.bits() == 16 && target == Class::B16 => a,
                _ if to.bits() <= 16 && target == Class::B32 => {
                    let bits = if a.class == Class::B16 { self.float_bits(a) } else { a };
                    self.normalise(bits, to)
                }
                _ if target == Class::B16 => emit!(self, B16, "cvt.u16.u32", a),
                _ if a.class == target => a,
                _ => {
                    let result = self.reg(target);
                    ptx!(self, "mov.b{} {result}, {a}", to.bits());
                    result
                }
            },
        };
        self.bind(to, result);
        Ok(())
    }

    pub fn decode(&mut self, to: ValueId, operand: ValueId, format: ElementFormat) -> Result {
        let code = self.value(operand);
        let result = self.decode_code(code, format);
        if matches!(format, ElementFormat::Fp8E4M3 | ElementFormat::Fp8E5M2) {
            self.forms.decoded.insert(to, (code, format));
        }
        self.bind(to, result);
        Ok(())
    }

    /// The `f32` value of an element's code in the low bits of a `.b32` register (whatever stands above them); exact.
    pub fn decode_code(&mut self, code: Reg, format: ElementFormat) -> Reg {
        match format {
            ElementFormat::Int4B | ElementFormat::Int2B | ElementFormat::I8 => {
                let unused = 32 - format.bits();
                let value = emit!(self, B32, "shr.s32", emit!(self, B32, "shl.b32", code, unused), unused);
                emit!(self, F32, "cvt.rn.f32.s32", value)
            }
            ElementFormat::Fp8E5M2 => {
                // The upper byte of a half.
                let bits = emit!(self, B32, "shl.b32", code, 8);
                let half = emit!(self, B16, "cvt.u16.u32", bits);
                let value = emit!(self, F32, "cvt.f32.f16", half);
                let magnitude = emit!(self, B32, "and.b32", code, 0x7f);
                let nan = emit!(self, Pred, "setp.gt.u32", magnitude, 0x7c);
                self.nan_of_code(code, value, nan)
            }
            ElementFormat::Fp8E4M3 => {
                // Moved into a half's fields it is the value over 2^8, subnormals included.
                let sign = emit!(self, B32, "and.b32", emit!(self, B32, "shl.b32", code, 8), 0x8000);
                let magnitude = emit!(self, B32, "and.b32", code, 0x7f);
                let bits = emit!(self, B32, "shl.b32", magnitude, 7);
                let bits = emit!(self, B32, "or.b32", bits, sign);
                let half = emit!(self, B16, "cvt.u16.u32", bits);
                let value = emit!(
                    self,
                    F32,
                    "mul.rn.f32",
                    emit!(self, F32, "cvt.f32.f16", half),
                    F32(256.0)
                );
                let nan = emit!(self, Pred, "setp.eq.u32", magnitude, 0x7f);
                self.nan_of_code(code, value, nan)
            }
            ElementFormat::Fp4E2M1 => {
                let sign = emit!(self, B32, "and.b32", emit!(self, B32, "shl.b32", code, 12), 0x8000);
                let magnitude = emit!(self, B32, "and.b32", emit!(self, B32, "shl.b32", code, 9), 0x0e00);
                let half = emit!(self, B16, "cvt.u16.u32", emit!(self, B32, "or.b32", magnitude, sign));
                emit!(
                    self,
                    F32,
                    "mul.rn.f32",
                    emit!(self, F32, "cvt.f32.f16", half),
                    F32(16384.0)
                )
            }
            ElementFormat::Fp8UE8M0 => {
                let code = emit!(self, B32, "and.b32", code, 0xff);
                let bits = emit!(self, B32, "shl.b32", code, 23);
                // 2^-127 is a subnormal; 255 is NaN.
                let least = emit!(self, Pred, "setp.eq.u32", code, 0);
                let bits = emit!(self, B32, "selp.b32", 0x0040_0000, bits, least);
                let nan = emit!(self, Pred, "setp.eq.u32", code, 255);
                let bits = emit!(self, B32, "selp.b32", 0x7fc0_0000, bits, nan);
                emit!(self, F32, "mov.b32", bits)
            }
            ElementFormat::Bool => {
                let low = emit!(self, B32, "and.b32", code, 0xff);
                let set = emit!(self, Pred, "setp.ne.u32", low, 0);
                emit!(self, F32, "selp.f32", F32(1.0), F32(0.0), set)
            }
            _ => {
                // Unsigned integers of up to 8 bits; wider formats are no codes.
                let mask = (1u64 << format.bits().min(8)) - 1;
                let value = emit!(self, B32, "and.b32", code, mask);
                emit!(self, F32, "cvt.rn.f32.u32", value)
            }
        }
    }

    /// A NaN with the sign of an 8-bit code where a predicate says so, else the value.
    fn nan_of_code(&mut self, code: Reg, value: Reg, nan: Reg) -> Reg {
        let sign = emit!(self, B32, "shl.b32", emit!(self, B32, "shr.u32", code, 7), 31);
        let bits = emit!(self, F32, "mov.b32", emit!(self, B32, "or.b32", sign, 0x7fc0_0000));
        emit!(self, F32, "selp.f32", bits, value, nan)
    }

    pub fn encode(&mut self, to: ValueId, operand: ValueId, format: ElementFormat, saturate: bool) -> Result {
        let x = self.value(operand);
        let mut result = self.encode_value(x, format, saturate);
        if let (Some(&half), ElementFormat::Fp8E5M2 | ElementFormat::Fp8E4M3) =
            (self.forms.halves.get(&operand), format)
        {
            // Widening a `half` drops the sign of a NaN, so the sign comes from before.
            let bits = emit!(self, B32, "cvt.u32.u16", half);
            let sign = emit!(self, B32, "shl.b32", emit!(self, B32, "shr.u32", bits, 15), 7);
            let magnitude = emit!(self, B32, "and.b32", result, 0x7f);
            result = emit!(self, B32, "or.b32", magnitude, sign);
        }
        self.bind(to, result);
        Ok(())
    }

    /// The code of an `f32` in an element format of up to 8 bits, in a `.b32` register.
    pub fn encode_value(&mut self, x: Reg, format: ElementFormat, saturate: bool) -> Reg {
        match format {
            ElementFormat::Int4B
            | ElementFormat::UInt4B
            | ElementFormat::Int2B
            | ElementFormat::UInt2B
            | ElementFormat::I8
            | ElementFormat::U8 => {
                let bits = format.bits() as u32;
                let (low, high) = if format.is_signed() {
                    (-(1i32 << (bits - 1)), (1i32 << (bits - 1)) - 1)
                } else {
                    (0, (1i32 << bits) - 1)
                };
                let whole = emit!(self, B32, "cvt.rni.s32.f32", x);
                let bounded = emit!(self, B32, "max.s32", emit!(self, B32, "min.s32", whole, high), low);
                emit!(self, B32, "and.b32", bounded, (1u32 << bits) - 1)
            }
            ElementFormat::Fp8E5M2 | ElementFormat::Fp8E4M3 | ElementFormat::Fp4E2M1 => {
                self.encode_float(x, format, saturate)
            }
            ElementFormat::Fp8UE8M0 => self.encode_scale(x, saturate),
            _ => {
                let set = emit!(self, Pred, "setp.neu.f32", x, F32(0.0));
                let number = emit!(self, Pred, "setp.num.f32", x, x);
                let set = emit!(self, Pred, "and.pred", set, number);
                self.pred_to_u32(set)
            }
        }
    }

    /// Rounds to a small float format: the mantissa of normal results by integer addition, of subnormal ones by a float addition that
    /// puts their last bit where `f32` rounds.
    fn encode_float(&mut self, x: Reg, format: ElementFormat, saturate: bool) -> Reg {
        // (mantissa bits, bias, largest finite code, code of what overflows by default, code of NaN)
        let (mantissa, bias, most, over, nan) = match format {
            ElementFormat::Fp8E5M2 => (2u32, 15u32, 0x7bu32, 0x7cu32, 0x7eu32),
            ElementFormat::Fp8E4M3 => (3, 7, 0x7e, 0x7e, 0x7f),
            _ => (1, 1, 0x7, 0x7, 0x0),
        };
        let sign_at = format.bits() as u32 - 1;
        let bits = emit!(self, B32, "mov.b32", x);
        let sign = emit!(self, B32, "shl.b32", emit!(self, B32, "shr.u32", bits, 31), sign_at);
        let magnitude = emit!(self, B32, "and.b32", bits, 0x7fff_ffff);
        let shift = 23 - mantissa;
        // Normal: round half to even at the mantissa's end, then change the bias.
        let last = emit!(self, B32, "and.b32", emit!(self, B32, "shr.u32", magnitude, shift), 1);
        let rounding = (1u32 << (shift - 1)) - 1;
        let rounded = emit!(
            self,
            B32,
            "add.s32",
            emit!(self, B32, "add.s32", magnitude, rounding),
            last
        );
        let normal = emit!(
            self,
            B32,
            "sub.s32",
            emit!(self, B32, "shr.u32", rounded, shift),
            (127 - bias) << mantissa
        );
        // Subnormal: the format's smallest step becomes the last bit of an f32.
        let magic = F32(f32::from_bits((127 + 1 - bias + 23 - mantissa) << 23));
        let positive = emit!(self, F32, "mov.b32", magnitude);
        let shifted = emit!(self, F32, "add.rn.f32", positive, magic);
        let small = emit!(self, B32, "and.b32", emit!(self, B32, "mov.b32", shifted), 0x3f);
        let is_small = emit!(self, Pred, "setp.lt.u32", magnitude, (127 + 1 - bias) << 23);
        let code = emit!(self, B32, "selp.b32", small, normal, is_small);
        // Past the largest: clamp or overflow.
        let past = emit!(self, Pred, "setp.gt.s32", code, most);
        let past_big = emit!(self, Pred, "setp.ge.u32", magnitude, 0x7f80_0000u32);
        let past = emit!(self, Pred, "or.pred", past, past_big);
        let end = if saturate { most } else { over };
        let code = emit!(self, B32, "selp.b32", end, code, past);
        let is_nan = emit!(self, Pred, "setp.gt.u32", magnitude, 0x7f80_0000u32);
        let code = emit!(self, B32, "selp.b32", nan, code, is_nan);
        // E2M1 has no NaN: it becomes negative zero.
        let sign = if format == ElementFormat::Fp4E2M1 {
            emit!(self, B32, "selp.b32", 8, sign, is_nan)
        } else {
            sign
        };
        emit!(self, B32, "or.b32", code, sign)
    }

    /// The nearest power of two as UE8M0: ties go up, what is below 2^-127 becomes code 0, negative numbers and NaN 255.
    fn encode_scale(&mut self, x: Reg, saturate: bool) -> Reg {
        let bits = emit!(self, B32, "mov.b32", x);
        let rounded = emit!(self, B32, "add.s32", bits, 0x0040_0000);
        let code = emit!(self, B32, "shr.u32", rounded, 23);
        // Infinity, and numbers that round up to 2^128.
        let most = if saturate { 254 } else { 255 };
        let past = emit!(self, Pred, "setp.ge.u32", code, 255);
        let code = emit!(self, B32, "selp.b32", most, code, past);
        // Subnormals: from 1.5 · 2^-127 on code 1, which the addition of half a step does not see.
        let up = emit!(self, Pred, "setp.ge.u32", bits, 0x0060_0000);
        let tiny = emit!(self, Pred, "setp.lt.u32", bits, 0x0080_0000);
        let least = self.pred_to_u32(up);
        let code = emit!(self, B32, "selp.b32", least, code, tiny);
        // Minus zero is zero; everything below it and NaN have no code.
        let negative = emit!(self, Pred, "setp.gt.u32", bits, 0x8000_0000u32);
        let nan = emit!(self, Pred, "setp.nan.f32", x, x);
        let bad = emit!(self, Pred, "or.pred", negative, nan);
        let code = emit!(self, B32, "selp.b32", 255, code, bad);
        let minus_zero = emit!(self, Pred, "setp.eq.u32", bits, 0x8000_0000u32);
        emit!(self, B32, "selp.b32", 0, code, minus_zero)
    }
}

/// The range of an integer type that has 32 bits or fewer, or is clamped to from 64.
const fn range(ty: Scalar) -> (i64, i64) {
    match ty {
        Scalar::I8 => (i8::MIN as i64, i8::MAX as i64),
        Scalar::U8 => (0, u8::MAX as i64),
        Scalar::I16 => (i16::MIN as i64, i16::MAX as i64),
        Scalar::U16 => (0, u16::MAX as i64),
        Scalar::I32 => (i32::MIN as i64, i32::MAX as i64),
        Scalar::U32 => (0, u32::MAX as i64),
        _ => (i64::MIN, i64::MAX),
    }
}
