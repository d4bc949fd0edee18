//! Functions of `<metal_math>` that are no single instruction.
//!
//! Fast mode uses the special-function unit where that stays within Metal's fast table; precise mode computes as the CPU backend does:
//! polynomials in `f32`, and `f64` where a result needs more bits on the way.

use anymetal_ir::{BinaryOp, Inst, MathMode, UnaryOp, ValueId};

use super::{Lower, Result};
use crate::emit;
use crate::ptx::{F32, F64, Reg};

/// Instructions by the class of their result.
macro_rules! f {
    ($l:expr, $($t:tt)*) => { emit!($l, F32, $($t)*) };
}
macro_rules! r {
    ($l:expr, $($t:tt)*) => { emit!($l, B32, $($t)*) };
}
macro_rules! p {
    ($l:expr, $($t:tt)*) => { emit!($l, Pred, $($t)*) };
}

impl Lower<'_> {
    pub fn frexp(&mut self, inst: &Inst, operand: ValueId) -> Result {
        let ty = self.scalar(operand);
        let a = self.value(operand);
        let x = self.widen(a, ty);
        let (bits, bias) = self.normalised(x);
        let field = r!(self, "or.b32", r!(self, "and.b32", bits, 0x807f_ffffu32), 126u32 << 23);
        let fraction = f!(self, "mov.b32", field);
        let exponent = self.exponent_field(bits);
        let exponent = r!(self, "sub.s32", r!(self, "add.s32", exponent, 1), bias);
        // Zero, infinities and NaN are their own fraction.
        let normal = self.finite_and_not_zero(x);
        let fraction = f!(self, "selp.f32", fraction, x, normal);
        let exponent = r!(self, "selp.b32", exponent, 0, normal);
        let fraction = self.narrow(fraction, ty);
        self.bind(inst.first, fraction);
        self.bind(ValueId(inst.first.0 + 1), exponent);
        Ok(())
    }

    pub fn modf(&mut self, inst: &Inst, operand: ValueId) -> Result {
        let ty = self.scalar(operand);
        let a = self.value(operand);
        let x = self.widen(a, ty);
        let whole = f!(self, "cvt.rzi.f32.f32", x);
        let rest = f!(self, "sub.rn.f32", x, whole);
        let infinite = self.is_infinite(x);
        let rest = f!(self, "selp.f32", F32(0.0), rest, infinite);
        let rest = self.copysign(rest, x);
        let (rest, whole) = (self.narrow(rest, ty), self.narrow(whole, ty));
        self.bind(inst.first, rest);
        self.bind(ValueId(inst.first.0 + 1), whole);
        Ok(())
    }

    fn is_infinite(&mut self, x: Reg) -> Reg {
        p!(self, "setp.eq.f32", f!(self, "abs.f32", x), F32(f32::INFINITY))
    }

    fn is_finite(&mut self, x: Reg) -> Reg {
        p!(self, "setp.lt.f32", f!(self, "abs.f32", x), F32(f32::INFINITY))
    }

    fn finite_and_not_zero(&mut self, x: Reg) -> Reg {
        let finite = self.is_finite(x);
        p!(self, "setp.neu.and.f32", x, F32(0.0), finite)
    }

    /// The magnitude of one number with the sign of another.
    fn copysign(&mut self, magnitude: Reg, sign: Reg) -> Reg {
        f!(self, "copysign.f32", sign, magnitude)
    }

    /// Bits and bias of a number whose exponent field says it all: subnormals are scaled up.
    fn normalised(&mut self, x: Reg) -> (Reg, Reg) {
        let bits = r!(self, "mov.b32", x);
        let field = r!(self, "and.b32", bits, 0x7f80_0000);
        let small = p!(self, "setp.eq.b32", field, 0);
        let scaled = r!(self, "mov.b32", f!(self, "mul.rn.f32", x, F32(16_777_216.0)));
        let bits = r!(self, "selp.b32", scaled, bits, small);
        (bits, r!(self, "selp.b32", 127 + 24, 127, small))
    }

    fn exponent_field(&mut self, bits: Reg) -> Reg {
        r!(self, "and.b32", r!(self, "shr.u32", bits, 23), 0xff)
    }

    /// Exponent of the leading bit; `i32::MIN + 1` for zero, `i32::MAX` for infinities and NaN.
    pub(super) fn ilogb(&mut self, x: Reg) -> Reg {
        let (bits, bias) = self.normalised(x);
        let exponent = self.exponent_field(bits);
        let exponent = r!(self, "sub.s32", exponent, bias);
        let zero = p!(self, "setp.eq.f32", x, F32(0.0));
        let exponent = r!(self, "selp.b32", i32::MIN + 1, exponent, zero);
        let finite = self.is_finite(x);
        r!(self, "selp.b32", exponent, i32::MAX, finite)
    }

    /// A polynomial in `f32`, highest coefficient first.
    pub(super) fn poly(&mut self, x: Reg, coefficients: &[f32]) -> Reg {
        let mut sum = f!(self, "mov.f32", F32(coefficients[0]));
        for &c in &coefficients[1..] {
            sum = f!(self, "fma.rn.f32", sum, x, F32(c));
        }
        sum
    }

    /// A function of one `f32`.
    pub(super) fn function(&mut self, op: UnaryOp, x: Reg, mode: MathMode) -> Result<Reg> {
        if mode == MathMode::Fast
            && let Some(y) = self.fast_function(op, x)
        {
            return Ok(y);
        }
        Ok(match op {
            UnaryOp::Exp => self.exp(x),
            UnaryOp::Exp2 => self.exp2(x),
            UnaryOp::Exp10 => self.exp10(x),
            UnaryOp::Log | UnaryOp::Log2 | UnaryOp::Log10 => self.logarithm(op, x),
            UnaryOp::Sqrt => f!(self, "sqrt.rn.f32", x),
            UnaryOp::Rsqrt => {
                let wide = emit!(self, B64, "cvt.f64.f32", x);
                let root = emit!(self, B64, "sqrt.rn.f64", wide);
                f!(self, "cvt.rn.f32.f64", emit!(self, B64, "rcp.rn.f64", root))
            }
            UnaryOp::Sin => self.sine(x, 0),
            UnaryOp::Cos => self.sine(x, 1),
            UnaryOp::Tan => self.tangent(x),
            UnaryOp::Asin => self.asin(x),
            UnaryOp::Acos => self.acos(x),
            UnaryOp::Atan => {
                let magnitude = f!(self, "abs.f32", x);
                let y = self.atan_positive(magnitude);
                self.copysign(y, x)
            }
            UnaryOp::Sinh | UnaryOp::Cosh => self.sinh_cosh(op, x),
            UnaryOp::Tanh => self.tanh(x),
            UnaryOp::Asinh => self.asinh(x),
            UnaryOp::Acosh => self.acosh(x),
            UnaryOp::Atanh => self.atanh(x),
            UnaryOp::Sinpi | UnaryOp::Cospi => self.sine_pi(op, x),
            UnaryOp::Tanpi => self.tangent_pi(x),
            UnaryOp::Ceil => f!(self, "cvt.rpi.f32.f32", x),
            UnaryOp::Floor => f!(self, "cvt.rmi.f32.f32", x),
            UnaryOp::Trunc => f!(self, "cvt.rzi.f32.f32", x),
            UnaryOp::Rint => f!(self, "cvt.rni.f32.f32", x),
            UnaryOp::Round => {
                // The largest float below one half cannot carry a value below a tie up to the next integer.
                let half = f!(self, "mov.f32", F32(f32::from_bits(0x3eff_ffff)));
                let half = self.copysign(half, x);
                f!(self, "cvt.rzi.f32.f32", f!(self, "add.rn.f32", x, half))
            }
            UnaryOp::Sign => {
                let one = f!(self, "mov.f32", F32(1.0));
                let one = self.copysign(one, x);
                let zero = p!(self, "setp.eq.f32", x, F32(0.0));
                let value = f!(self, "selp.f32", x, one, zero);
                let nan = p!(self, "setp.nan.f32", x, x);
                f!(self, "selp.f32", F32(0.0), value, nan)
            }
            UnaryOp::Saturate => f!(self, "add.sat.f32", x, F32(-0.0)),
            _ => return self.unsupported(format!("{op:?} on floats")),
        })
    }

    /// By the special-function unit, within Metal's fast table; `None` where the precise form is as cheap.
    fn fast_function(&mut self, op: UnaryOp, x: Reg) -> Option<Reg> {
        Some(match op {
            UnaryOp::Exp => {
                let scaled = f!(self, "mul.f32", x, F32(std::f32::consts::LOG2_E));
                f!(self, "ex2.approx.ftz.f32", scaled)
            }
            UnaryOp::Exp2 => f!(self, "ex2.approx.ftz.f32", x),
            UnaryOp::Exp10 => {
                let scaled = f!(self, "mul.f32", x, F32(std::f32::consts::LOG2_10));
                f!(self, "ex2.approx.ftz.f32", scaled)
            }
            UnaryOp::Log => {
                let log = f!(self, "lg2.approx.f32", x);
                f!(self, "mul.f32", log, F32(std::f32::consts::LN_2))
            }
            UnaryOp::Log2 => f!(self, "lg2.approx.f32", x),
            UnaryOp::Log10 => {
                let log = f!(self, "lg2.approx.f32", x);
                f!(self, "mul.f32", log, F32(std::f32::consts::LOG10_2))
            }
            UnaryOp::Sqrt => f!(self, "sqrt.approx.f32", x),
            UnaryOp::Rsqrt => f!(self, "rsqrt.approx.f32", x),
            UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan => {
                let r = self.reduce_fast(x);
                match op {
                    UnaryOp::Sin => f!(self, "sin.approx.f32", r),
                    UnaryOp::Cos => f!(self, "cos.approx.f32", r),
                    _ => {
                        let (s, c) = (f!(self, "sin.approx.f32", r), f!(self, "cos.approx.f32", r));
                        f!(self, "div.approx.f32", s, c)
                    }
                }
            }
            UnaryOp::Tanh => {
                let doubled = f!(self, "mul.f32", x, F32(2.0 * std::f32::consts::LOG2_E));
                let e = f!(self, "ex2.approx.ftz.f32", doubled);
                let inverse = f!(self, "rcp.approx.ftz.f32", f!(self, "add.f32", e, F32(1.0)));
                f!(self, "fma.rn.f32", inverse, F32(-2.0), F32(1.0))
            }
            _ => return None,
        })
    }

    /// `x` less a multiple of 2π, for numbers up to about 10^5.
    fn reduce_fast(&mut self, x: Reg) -> Reg {
        let turns = f!(self, "mul.f32", x, F32(0.5 * std::f32::consts::FRAC_1_PI));
        let n = f!(self, "cvt.rni.f32.f32", turns);
        // 2π in three parts, the first of which have few bits.
        let r = f!(self, "fma.rn.f32", n, F32(-6.281_25), x);
        let r = f!(self, "fma.rn.f32", n, F32(-1.935_005_2e-3), r);
        f!(self, "fma.rn.f32", n, F32(-3.019_916e-7), r)
    }

    /// A function of two `f32`.
    pub(super) fn function2(&mut self, op: BinaryOp, x: Reg, y: Reg, mode: MathMode) -> Result<Reg> {
        let fast = mode == MathMode::Fast;
        Ok(match op {
            // Metal promises 2.5 ulp for divisors from 2^-126 to 2^126, as this instruction does.
            BinaryOp::Div if fast => f!(self, "div.approx.ftz.f32", x, y),
            BinaryOp::Div => f!(self, "div.rn.f32", x, y),
            BinaryOp::Pow if fast => self.pow_fast(x, y),
            BinaryOp::Pow => self.pow(x, y),
            BinaryOp::Powr if fast => {
                let log = f!(self, "lg2.approx.f32", x);
                f!(self, "ex2.approx.f32", f!(self, "mul.f32", log, y))
            }
            BinaryOp::Powr => self.powr(x, y),
            BinaryOp::Atan2 => self.atan2(x, y),
            BinaryOp::Fmod | BinaryOp::Rem => self.fmod(x, y),
            BinaryOp::Fdim => {
                let greater = p!(self, "setp.gt.f32", x, y);
                let difference = f!(self, "sub.rn.f32", x, y);
                let difference = f!(self, "selp.f32", difference, F32(0.0), greater);
                let nan = p!(self, "setp.nan.f32", x, y);
                f!(self, "selp.f32", F32(f32::NAN), difference, nan)
            }
            _ => return self.unsupported(format!("{op:?} on floats")),
        })
    }

    /// `2^n` for −126 ≤ n ≤ 127.
    fn power_of_two(&mut self, n: Reg) -> Reg {
        f!(self, "mov.b32", r!(self, "shl.b32", r!(self, "add.s32", n, 127), 23))
    }

    /// `x · 2^n` in two steps, for results that overflow or are subnormal.
    fn scale_by_power(&mut self, x: Reg, n: Reg) -> Reg {
        let half = r!(self, "shr.s32", n, 1);
        let rest = r!(self, "sub.s32", n, half);
        let (half, rest) = (self.power_of_two(half), self.power_of_two(rest));
        f!(self, "mul.rn.f32", f!(self, "mul.rn.f32", x, half), rest)
    }

    /// Clamps and keeps NaN.
    fn clamp_keeping_nan(&mut self, x: Reg, low: f32, high: f32) -> Reg {
        let y = f!(self, "min.f32", f!(self, "max.f32", x, F32(low)), F32(high));
        let nan = p!(self, "setp.nan.f32", x, x);
        f!(self, "selp.f32", x, y, nan)
    }

    /// e^r for |r| ≤ 0.35.
    fn exp_poly(&mut self, x: Reg) -> Reg {
        #[allow(clippy::excessive_precision)]
        let p = self.poly(
            x,
            &[
                1.987_569_1e-4,
                1.398_199_9e-3,
                8.333_452e-3,
                4.166_579_6e-2,
                1.666_666_5e-1,
                0.5,
            ],
        );
        let square = f!(self, "mul.rn.f32", x, x);
        f!(self, "add.rn.f32", f!(self, "fma.rn.f32", p, square, x), F32(1.0))
    }

    /// The nearest integer as a float and as an integer.
    fn nearest_integer(&mut self, x: Reg) -> (Reg, Reg) {
        let n = f!(self, "cvt.rni.f32.f32", x);
        (n, r!(self, "cvt.rzi.s32.f32", n))
    }

    pub(super) fn exp(&mut self, x: Reg) -> Reg {
        let x = self.clamp_keeping_nan(x, -105.0, 89.0);
        let scaled = f!(self, "mul.rn.f32", x, F32(std::f32::consts::LOG2_E));
        let (n, int) = self.nearest_integer(scaled);
        let rest = f!(self, "fma.rn.f32", n, F32(-0.693_145_75), x);
        let rest = f!(self, "fma.rn.f32", n, F32(-1.428_606_8e-6), rest);
        let y = self.exp_poly(rest);
        self.scale_by_power(y, int)
    }

    fn exp2(&mut self, x: Reg) -> Reg {
        let x = self.clamp_keeping_nan(x, -151.0, 129.0);
        let (n, int) = self.nearest_integer(x);
        let rest = f!(self, "sub.rn.f32", x, n);
        let rest = f!(self, "mul.rn.f32", rest, F32(std::f32::consts::LN_2));
        let y = self.exp_poly(rest);
        self.scale_by_power(y, int)
    }

    fn exp10(&mut self, x: Reg) -> Reg {
        let x = self.clamp_keeping_nan(x, -46.0, 39.0);
        let scaled = f!(self, "mul.rn.f32", x, F32(std::f32::consts::LOG2_10));
        let (n, int) = self.nearest_integer(scaled);
        // log10(2) in two parts; the first has few bits, so its products are exact.
        let rest = f!(self, "fma.rn.f32", n, F32(-0.301_025_4), x);
        let rest = f!(self, "fma.rn.f32", n, F32(-4.605_039e-6), rest);
        let rest = f!(self, "mul.rn.f32", rest, F32(std::f32::consts::LN_10));
        let y = self.exp_poly(rest);
        self.scale_by_power(y, int)
    }

    /// Natural, binary and decimal logarithm.
    fn logarithm(&mut self, op: UnaryOp, x: Reg) -> Reg {
        // x = 2^e · (1 + m), with 1 + m around 1.
        let small = p!(self, "setp.lt.f32", x, F32(f32::MIN_POSITIVE));
        let up = f!(self, "mul.rn.f32", x, F32(8_388_608.0));
        let bits = r!(self, "mov.b32", f!(self, "selp.f32", up, x, small));
        let e = r!(self, "shr.s32", r!(self, "sub.s32", bits, 0x3f35_04f3), 23);
        let m = f!(self, "mov.b32", r!(self, "sub.s32", bits, r!(self, "shl.b32", e, 23)));
        let m = f!(self, "add.rn.f32", m, F32(-1.0));
        let less = r!(self, "selp.b32", 23, 0, small);
        let e = f!(self, "cvt.rn.f32.s32", r!(self, "sub.s32", e, less));
        // log(1 + m) − m.
        #[allow(clippy::excessive_precision)]
        let q = self.poly(
            m,
            &[
                7.037_683_6e-2,
                -1.151_461_03e-1,
                1.167_699_9e-1,
                -1.242_014_1e-1,
                1.424_932_3e-1,
                -1.666_805_8e-1,
                2.000_071_5e-1,
                -2.499_999_4e-1,
                3.333_333_1e-1,
            ],
        );
        let z = f!(self, "mul.rn.f32", m, m);
        let cubic = f!(self, "mul.rn.f32", f!(self, "mul.rn.f32", q, m), z);
        let tail = f!(self, "fma.rn.f32", z, F32(-0.5), cubic);
        let y = match op {
            UnaryOp::Log => {
                let low = f!(self, "fma.rn.f32", e, F32(-2.121_944_4e-4), tail);
                let sum = f!(self, "add.rn.f32", m, low);
                f!(self, "fma.rn.f32", e, F32(0.693_359_4), sum)
            }
            UnaryOp::Log2 => {
                // log2(e) − 1, so that the larger part of the product is exact.
                let more = F32(0.442_695_04);
                let y = f!(self, "fma.rn.f32", tail, more, f!(self, "mul.rn.f32", m, more));
                let y = f!(self, "add.rn.f32", f!(self, "add.rn.f32", y, tail), m);
                f!(self, "add.rn.f32", y, e)
            }
            _ => {
                let sum = f!(self, "add.rn.f32", m, tail);
                let y = f!(self, "mul.rn.f32", sum, F32(std::f32::consts::LOG10_E));
                let y = f!(self, "fma.rn.f32", e, F32(4.605_039e-6), y);
                f!(self, "fma.rn.f32", e, F32(0.301_025_4), y)
            }
        };
        let infinite = p!(self, "setp.eq.f32", x, F32(f32::INFINITY));
        let y = f!(self, "selp.f32", x, y, infinite);
        let zero = p!(self, "setp.eq.f32", x, F32(0.0));
        let y = f!(self, "selp.f32", F32(f32::NEG_INFINITY), y, zero);
        let none = p!(self, "setp.ltu.f32", x, F32(0.0));
        f!(self, "selp.f32", F32(f32::NAN), y, none)
    }

    fn tanh(&mut self, x: Reg) -> Reg {
        let magnitude = f!(self, "abs.f32", x);
        let a = f!(self, "min.f32", magnitude, F32(10.0));
        let doubled = f!(self, "add.rn.f32", a, a);
        let e = self.exp(doubled);
        let quotient = f!(self, "div.rn.f32", F32(2.0), f!(self, "add.rn.f32", e, F32(1.0)));
        let large = f!(self, "sub.rn.f32", F32(1.0), quotient);
        let large = self.copysign(large, x);
        let z = f!(self, "mul.rn.f32", x, x);
        let q = self.poly(
            z,
            &[
                -5.704_988_7e-3,
                2.063_909e-2,
                -5.373_971_6e-2,
                1.333_144_2e-1,
                -3.333_328e-1,
            ],
        );
        let small = f!(self, "fma.rn.f32", f!(self, "mul.rn.f32", q, z), x, x);
        // NaN takes the small side.
        let is_large = p!(self, "setp.ge.f32", magnitude, F32(0.625));
        f!(self, "selp.f32", large, small, is_large)
    }

    /// The remainder of a truncated division, exact.
    ///
    /// In `f64`: while the quotient is large, a multiple of the divisor scaled by a power of two is taken off, whose factor has
    /// so few bits that every product and difference is exact.
    fn fmod(&mut self, x: Reg, y: Reg) -> Reg {
        let rest = emit!(self, B64, "cvt.f64.f32", f!(self, "abs.f32", x));
        let divisor = emit!(self, B64, "cvt.f64.f32", f!(self, "abs.f32", y));
        let finite = self.is_finite(x);
        // NaN and infinities take no turn.
        let usable = p!(self, "setp.neu.and.f32", y, F32(0.0), finite);
        let (head, end) = (self.writer.label(), self.writer.label());
        let more = self.reg(crate::ptx::Class::Pred);
        self.writer.place(head);
        crate::ptx!(self, "setp.ge.and.f64 {more}, {rest}, {divisor}, {usable}");
        crate::ptx!(self, "@!{more} bra {end}");
        let quotient = emit!(self, B64, "div.rn.f64", rest, divisor);
        // 2^max(0, exponent − 26)
        let bits = r!(self, "cvt.u32.u64", emit!(self, B64, "shr.u64", quotient, 52));
        let over = r!(self, "max.s32", r!(self, "sub.s32", bits, 1023 + 26), 0);
        let factor = emit!(self, B64, "cvt.u64.u32", r!(self, "add.s32", over, 1023));
        let factor = emit!(self, B64, "shl.b64", factor, 52);
        let scaled = emit!(self, B64, "mul.rn.f64", divisor, factor);
        let part = emit!(self, B64, "div.rn.f64", rest, scaled);
        let part = emit!(self, B64, "cvt.rzi.f64.f64", part);
        let part = emit!(self, B64, "neg.f64", part);
        let next = emit!(self, B64, "fma.rn.f64", part, scaled, rest);
        // The division may have rounded up to the next integer.
        let negative = p!(self, "setp.lt.f64", next, F64(0.0));
        let corrected = emit!(self, B64, "add.rn.f64", next, scaled);
        crate::ptx!(self, "selp.f64 {rest}, {corrected}, {next}, {negative}");
        crate::ptx!(self, "bra {head}");
        self.writer.place(end);
        let result = f!(self, "cvt.rn.f32.f64", rest);
        let result = self.copysign(result, x);
        let number = p!(self, "setp.num.and.f32", y, y, usable);
        f!(self, "selp.f32", result, F32(f32::NAN), number)
    }
}
