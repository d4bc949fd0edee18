//! Precise functions that compute in `f64`: powers, hyperbolic functions and their inverses.

use anymetal_ir::UnaryOp;

use super::Lower;
use crate::emit;
use crate::ptx::{F32, F64, Reg};

macro_rules! f {
    ($l:expr, $($t:tt)*) => { emit!($l, F32, $($t)*) };
}
macro_rules! d {
    ($l:expr, $($t:tt)*) => { emit!($l, B64, $($t)*) };
}
macro_rules! p {
    ($l:expr, $($t:tt)*) => { emit!($l, Pred, $($t)*) };
}

impl Lower<'_> {
    /// A polynomial in `f64`, highest coefficient first.
    pub(super) fn poly64(&mut self, x: Reg, coefficients: &[f64]) -> Reg {
        let mut sum = d!(self, "mov.f64", F64(coefficients[0]));
        for &c in &coefficients[1..] {
            sum = d!(self, "fma.rn.f64", sum, x, F64(c));
        }
        sum
    }

    /// e^x to about 40 bits, for |x| ≤ 700.
    fn exp64(&mut self, x: Reg) -> Reg {
        let n = d!(
            self,
            "cvt.rni.f64.f64",
            d!(self, "mul.rn.f64", x, F64(std::f64::consts::LOG2_E))
        );
        let r = d!(self, "fma.rn.f64", n, F64(-std::f64::consts::LN_2), x);
        let q = self.poly64(
            r,
            &[
                1.0 / 3_628_800.0,
                1.0 / 362_880.0,
                1.0 / 40_320.0,
                1.0 / 5_040.0,
                1.0 / 720.0,
                1.0 / 120.0,
                1.0 / 24.0,
                1.0 / 6.0,
                0.5,
                1.0,
                1.0,
            ],
        );
        let biased = d!(self, "add.s64", d!(self, "cvt.rzi.s64.f64", n), 1023);
        let power = d!(self, "shl.b64", biased, 52);
        d!(self, "mul.rn.f64", q, power)
    }

    /// Natural logarithm to about 40 bits, for positive normal finite x.
    fn log64(&mut self, x: Reg) -> Reg {
        let shifted = d!(self, "sub.s64", x, 0x3fe6_a09e_667f_3bcdi64);
        let e = d!(self, "shr.s64", shifted, 52);
        let m = d!(self, "sub.s64", x, d!(self, "shl.b64", e, 52));
        // log m = 2 artanh((m − 1)/(m + 1)), |s| ≤ 0.172.
        let below = d!(self, "add.rn.f64", m, F64(-1.0));
        let above = d!(self, "add.rn.f64", m, F64(1.0));
        let s = d!(self, "div.rn.f64", below, above);
        let z = d!(self, "mul.rn.f64", s, s);
        let q = self.poly64(
            z,
            &[
                1.0 / 17.0,
                1.0 / 15.0,
                1.0 / 13.0,
                1.0 / 11.0,
                1.0 / 9.0,
                1.0 / 7.0,
                1.0 / 5.0,
                1.0 / 3.0,
                1.0,
            ],
        );
        let tail = d!(self, "mul.rn.f64", d!(self, "add.rn.f64", s, s), q);
        let e = d!(self, "cvt.rn.f64.s64", e);
        d!(self, "fma.rn.f64", e, F64(std::f64::consts::LN_2), tail)
    }

    /// (y is integral, y is an odd integer).
    fn parity(&mut self, y: Reg) -> (Reg, Reg) {
        let whole = f!(self, "cvt.rzi.f32.f32", y);
        let integral = p!(self, "setp.eq.f32", y, whole);
        // An odd integer is not even after halving; floats from 2^24 on are even.
        let half = f!(self, "mul.rn.f32", y, F32(0.5));
        let whole_half = f!(self, "cvt.rzi.f32.f32", half);
        let odd = p!(self, "setp.neu.and.f32", half, whole_half, integral);
        let magnitude = f!(self, "abs.f32", y);
        let odd = p!(self, "setp.lt.and.f32", magnitude, F32(16_777_216.0), odd);
        (integral, odd)
    }

    /// True for the sign bit, of −0 too.
    fn is_negative(&mut self, x: Reg) -> Reg {
        p!(self, "setp.lt.s32", emit!(self, B32, "mov.b32", x), 0)
    }

    pub(super) fn pow_fast(&mut self, x: Reg, y: Reg) -> Reg {
        let magnitude = f!(self, "abs.f32", x);
        let log = f!(self, "lg2.approx.f32", magnitude);
        let result = f!(self, "ex2.approx.f32", f!(self, "mul.f32", log, y));
        let (integral, odd) = self.parity(y);
        let negative = self.is_negative(x);
        let flip = p!(self, "and.pred", negative, odd);
        let flipped = f!(self, "neg.f32", result);
        let result = f!(self, "selp.f32", flipped, result, flip);
        // Negative numbers to a broken power have no value; everything to the power 0 is 1.
        let broken = p!(self, "setp.lt.and.f32", x, F32(0.0), p!(self, "not.pred", integral));
        let result = f!(self, "selp.f32", F32(f32::NAN), result, broken);
        let one = p!(self, "setp.eq.f32", y, F32(0.0));
        f!(self, "selp.f32", F32(1.0), result, one)
    }

    /// x^y as C's `pow`.
    pub(super) fn pow(&mut self, x: Reg, y: Reg) -> Reg {
        let (integral, odd) = self.parity(y);
        let magnitude = f!(self, "abs.f32", x);
        let y_magnitude = f!(self, "abs.f32", y);
        let finite = p!(self, "setp.lt.f32", magnitude, F32(f32::INFINITY));
        let usable = p!(self, "setp.neu.and.f32", x, F32(0.0), finite);
        let safe = f!(self, "selp.f32", magnitude, F32(1.0), usable);
        let y_finite = p!(self, "setp.lt.f32", y_magnitude, F32(f32::INFINITY));
        let safe_y = f!(self, "selp.f32", y, F32(1.0), y_finite);
        let log = d!(self, "cvt.f64.f32", safe);
        let log = self.log64(log);
        let product = d!(self, "mul.rn.f64", log, d!(self, "cvt.f64.f32", safe_y));
        let product = d!(self, "min.f64", d!(self, "max.f64", product, F64(-200.0)), F64(200.0));
        let power = self.exp64(product);
        let power = f!(self, "cvt.rn.f32.f64", power);
        let negative = self.is_negative(x);
        let flip = p!(self, "and.pred", negative, odd);
        let flipped = f!(self, "neg.f32", power);
        let result = f!(self, "selp.f32", flipped, power, flip);
        let broken = p!(self, "and.pred", negative, p!(self, "not.pred", integral));
        let result = f!(self, "selp.f32", F32(f32::NAN), result, broken);
        // Zero and infinity as base.
        let big = p!(self, "setp.gt.f32", magnitude, F32(1.0));
        let up = p!(self, "setp.gt.f32", y, F32(0.0));
        let shrinks = p!(self, "xor.pred", big, up);
        let edge = f!(self, "selp.f32", F32(0.0), F32(f32::INFINITY), shrinks);
        let flipped = f!(self, "neg.f32", edge);
        let signed_edge = f!(self, "selp.f32", flipped, edge, flip);
        let result = f!(self, "selp.f32", result, signed_edge, usable);
        // Infinite exponent.
        let unit = p!(self, "setp.eq.f32", magnitude, F32(1.0));
        let limit = f!(self, "selp.f32", F32(1.0), edge, unit);
        let result = f!(self, "selp.f32", result, limit, y_finite);
        let nan = p!(self, "setp.nan.f32", x, y);
        let result = f!(self, "selp.f32", F32(f32::NAN), result, nan);
        let one = p!(self, "setp.eq.f32", x, F32(1.0));
        let one = p!(self, "setp.eq.or.f32", y, F32(0.0), one);
        f!(self, "selp.f32", F32(1.0), result, one)
    }

    /// x^y for x ≥ 0; NaN below.
    pub(super) fn powr(&mut self, x: Reg, y: Reg) -> Reg {
        let result = self.pow(x, y);
        let result = f!(self, "abs.f32", result);
        let zero = p!(self, "setp.eq.f32", x, F32(0.0));
        let edge = p!(self, "setp.eq.or.f32", x, F32(f32::INFINITY), zero);
        let none = p!(self, "setp.eq.and.f32", y, F32(0.0), edge);
        let none = p!(self, "setp.lt.or.f32", x, F32(0.0), none);
        let none = p!(self, "setp.nan.or.f32", x, y, none);
        let unit = p!(self, "setp.eq.f32", x, F32(1.0));
        let endless = f!(self, "abs.f32", y);
        let unit = p!(self, "setp.eq.and.f32", endless, F32(f32::INFINITY), unit);
        let none = p!(self, "or.pred", none, unit);
        f!(self, "selp.f32", F32(f32::NAN), result, none)
    }

    pub(super) fn sinh_cosh(&mut self, op: UnaryOp, x: Reg) -> Reg {
        let magnitude = f!(self, "abs.f32", x);
        let a = d!(self, "cvt.f64.f32", f!(self, "min.f32", magnitude, F32(100.0)));
        let e = self.exp64(a);
        let inverse = d!(self, "rcp.rn.f64", e);
        let combine = if op == UnaryOp::Cosh {
            "add.rn.f64"
        } else {
            "sub.rn.f64"
        };
        let both = d!(self, combine, e, inverse);
        let y = f!(self, "cvt.rn.f32.f64", d!(self, "mul.rn.f64", both, F64(0.5)));
        let y = if op == UnaryOp::Cosh {
            y
        } else {
            let z = f!(self, "mul.rn.f32", x, x);
            let q = self.poly(z, &[2.755_732e-6, 1.984_127e-4, 8.333_334e-3, 1.666_666_7e-1]);
            let small = f!(self, "fma.rn.f32", f!(self, "mul.rn.f32", q, z), x, x);
            let large = f!(self, "copysign.f32", x, y);
            let is_small = p!(self, "setp.lt.f32", magnitude, F32(0.5));
            f!(self, "selp.f32", small, large, is_small)
        };
        let nan = p!(self, "setp.nan.f32", x, x);
        f!(self, "selp.f32", x, y, nan)
    }

    /// The large side where |x| ≥ 10^-3, else `x + factor · x³`; both with the sign of x.
    fn odd_function(&mut self, x: Reg, large: Reg, factor: f32) -> Reg {
        let magnitude = f!(self, "abs.f32", x);
        let cube = f!(self, "mul.rn.f32", f!(self, "mul.rn.f32", x, x), x);
        let small = f!(self, "fma.rn.f32", cube, F32(factor), x);
        let large = f!(self, "copysign.f32", x, large);
        let is_small = p!(self, "setp.lt.f32", magnitude, F32(1e-3));
        f!(self, "selp.f32", small, large, is_small)
    }

    pub(super) fn asinh(&mut self, x: Reg) -> Reg {
        let magnitude = f!(self, "abs.f32", x);
        let finite = p!(self, "setp.lt.f32", magnitude, F32(f32::INFINITY));
        let a = d!(self, "cvt.f64.f32", f!(self, "selp.f32", magnitude, F32(1.0), finite));
        let root = d!(self, "sqrt.rn.f64", d!(self, "fma.rn.f64", a, a, F64(1.0)));
        let sum = d!(self, "add.rn.f64", a, root);
        let log = self.log64(sum);
        let large = f!(self, "cvt.rn.f32.f64", log);
        let y = self.odd_function(x, large, -1.0 / 6.0);
        f!(self, "selp.f32", y, x, finite)
    }

    pub(super) fn acosh(&mut self, x: Reg) -> Reg {
        let inside = p!(self, "setp.ge.f32", x, F32(1.0));
        let infinite = p!(self, "setp.eq.f32", x, F32(f32::INFINITY));
        let usable = p!(self, "setp.lt.and.f32", x, F32(f32::INFINITY), inside);
        let a = d!(self, "cvt.f64.f32", f!(self, "selp.f32", x, F32(1.0), usable));
        let square = d!(self, "fma.rn.f64", a, a, F64(-1.0));
        let root = d!(self, "sqrt.rn.f64", d!(self, "max.f64", square, F64(0.0)));
        let sum = d!(self, "add.rn.f64", a, root);
        let log = self.log64(sum);
        let y = f!(self, "cvt.rn.f32.f64", log);
        let y = f!(self, "selp.f32", x, y, infinite);
        f!(self, "selp.f32", y, F32(f32::NAN), inside)
    }

    pub(super) fn atanh(&mut self, x: Reg) -> Reg {
        let magnitude = f!(self, "abs.f32", x);
        let inside = p!(self, "setp.lt.f32", magnitude, F32(1.0));
        let a = d!(self, "cvt.f64.f32", f!(self, "selp.f32", magnitude, F32(0.5), inside));
        let above = d!(self, "add.rn.f64", a, F64(1.0));
        let below = d!(self, "sub.rn.f64", F64(1.0), a);
        let ratio = d!(self, "div.rn.f64", above, below);
        let log = self.log64(ratio);
        let large = f!(self, "cvt.rn.f32.f64", d!(self, "mul.rn.f64", log, F64(0.5)));
        let y = self.odd_function(x, large, 1.0 / 3.0);
        let pole = f!(self, "copysign.f32", x, F32(f32::INFINITY));
        let unit = p!(self, "setp.eq.f32", magnitude, F32(1.0));
        let y = f!(self, "selp.f32", pole, y, unit);
        let outside = p!(self, "setp.gtu.f32", magnitude, F32(1.0));
        f!(self, "selp.f32", F32(f32::NAN), y, outside)
    }
}
