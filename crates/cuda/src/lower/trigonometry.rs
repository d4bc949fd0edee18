//! Precise sines, cosines, tangents and their inverses.

use anymetal_ir::UnaryOp;

use super::Lower;
use crate::ptx::{Class, F32, F64, Reg};
use crate::{emit, ptx};

macro_rules! f {
    ($l:expr, $($t:tt)*) => { emit!($l, F32, $($t)*) };
}
macro_rules! d {
    ($l:expr, $($t:tt)*) => { emit!($l, B64, $($t)*) };
}
macro_rules! r {
    ($l:expr, $($t:tt)*) => { emit!($l, B32, $($t)*) };
}
macro_rules! p {
    ($l:expr, $($t:tt)*) => { emit!($l, Pred, $($t)*) };
}

/// Bits of 2/π behind the point, from the top: enough for the largest `f32`.
const TWO_OVER_PI: [u32; 8] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
];

/// From here on a reduction in `f64` would lose bits.
const LARGE: f32 = 2_147_483_648.0;

impl Lower<'_> {
    /// sin r and cos r for |r| ≤ π/4, to about 40 bits.
    fn sin_cos64(&mut self, r: Reg) -> (Reg, Reg) {
        let z = d!(self, "mul.rn.f64", r, r);
        let s = self.poly64(
            z,
            &[
                1.0 / 6_227_020_800.0,
                -1.0 / 39_916_800.0,
                1.0 / 362_880.0,
                -1.0 / 5_040.0,
                1.0 / 120.0,
                -1.0 / 6.0,
            ],
        );
        let c = self.poly64(
            z,
            &[
                -1.0 / 87_178_291_200.0,
                1.0 / 479_001_600.0,
                -1.0 / 3_628_800.0,
                1.0 / 40_320.0,
                -1.0 / 720.0,
                1.0 / 24.0,
                -0.5,
            ],
        );
        let s = d!(self, "fma.rn.f64", d!(self, "mul.rn.f64", s, z), r, r);
        (s, d!(self, "fma.rn.f64", c, z, F64(1.0)))
    }

    /// x = n · π/2 + r: (r, n modulo 4 in the low bits). NaN for infinities and NaN.
    fn reduce_quadrant(&mut self, x: Reg) -> (Reg, Reg) {
        let (rest, quadrant) = (self.reg(Class::B64), self.reg(Class::B32));
        let (far, done) = (self.writer.label(), self.writer.label());
        let magnitude = f!(self, "abs.f32", x);
        let near = p!(self, "setp.lt.f32", magnitude, F32(LARGE));
        ptx!(self, "@!{near} bra {far}");
        let wide = d!(self, "cvt.f64.f32", x);
        let turns = d!(self, "mul.rn.f64", wide, F64(std::f64::consts::FRAC_2_PI));
        let n = d!(self, "cvt.rni.f64.f64", turns);
        let r = d!(self, "fma.rn.f64", n, F64(-std::f64::consts::FRAC_PI_2), wide);
        // What π/2 has beyond 53 bits.
        ptx!(self, "fma.rn.f64 {rest}, {n}, {}, {r}", F64(-6.123_233_995_736_766e-17));
        let whole = d!(self, "cvt.rzi.s64.f64", n);
        ptx!(self, "cvt.u32.u64 {quadrant}, {whole}");
        self.writer.place(done);

        let body = self.writer.begin_aside();
        self.writer.place(far);
        self.reduce_far(x, rest, quadrant);
        ptx!(self, "bra {done}");
        self.writer.end_aside(body);
        (rest, quadrant)
    }

    /// The same for numbers from 2^31 on: the significand times a window of the bits of 2/π, whose multiples of 4 do not matter.
    fn reduce_far(&mut self, x: Reg, rest: Reg, quadrant: Reg) {
        if !self.module_declarations.contains("two_over_pi") {
            let words = TWO_OVER_PI.map(|word| word.to_string()).join(", ");
            self.module_declarations
                .push_str(&format!(".global .align 16 .b32 two_over_pi[8] = {{{words}}};\n"));
        }
        let bits = r!(self, "mov.b32", x);
        let field = r!(self, "and.b32", r!(self, "shr.u32", bits, 23), 0xff);
        // x = m · 2^e; the window starts at bit e − 2 (from 0) behind the point.
        let m = r!(self, "or.b32", r!(self, "and.b32", bits, 0x007f_ffff), 0x0080_0000);
        let start = r!(self, "sub.s32", field, 127 + 23 + 2);
        // Infinities and NaN read inside the table too.
        let start = r!(self, "min.u32", start, 102);
        let word = r!(self, "shr.u32", start, 5);
        let table = d!(self, "mov.u64", "two_over_pi");
        let at = d!(self, "add.s64", table, d!(self, "mul.wide.u32", word, 4));
        let words = [0, 4, 8, 12].map(|offset| r!(self, "ld.global.nc.b32", format!("[{at}+{offset}]")));
        let w: Vec<Reg> = (0..3)
            .map(|i| r!(self, "shf.l.wrap.b32", words[i + 1], words[i], start))
            .collect();
        // P = m · W modulo 2^96.
        let p0 = r!(self, "mul.lo.u32", m, w[2]);
        let p1 = r!(self, "mul.hi.u32", m, w[2]);
        let wide = d!(self, "mov.b64", format!("{{{p1}, {}}}", r!(self, "mov.b32", 0)));
        let middle = d!(self, "mad.wide.u32", m, w[1], wide);
        let p1 = r!(self, "cvt.u32.u64", middle);
        let high = r!(self, "cvt.u32.u64", d!(self, "shr.u64", middle, 32));
        let p2 = r!(self, "mad.lo.u32", m, w[0], high);
        let top = r!(self, "shr.u32", p2, 30);
        // The fraction as a signed number of 64 bits below the point.
        let upper = r!(self, "shf.l.wrap.b32", p1, p2, 2);
        let lower = r!(self, "shf.l.wrap.b32", p0, p1, 2);
        let round = r!(self, "shr.u32", upper, 31);
        let n = r!(self, "add.s32", top, round);
        let fraction = d!(
            self,
            "cvt.rn.f64.s64",
            d!(self, "mov.b64", format!("{{{lower}, {upper}}}"))
        );
        let r = d!(
            self,
            "mul.rn.f64",
            fraction,
            F64(std::f64::consts::FRAC_PI_2 / 18_446_744_073_709_551_616.0)
        );
        let negative = p!(self, "setp.lt.s32", bits, 0);
        let minus = d!(self, "neg.f64", r);
        let r = d!(self, "selp.f64", minus, r, negative);
        let back = r!(self, "neg.s32", n);
        ptx!(self, "selp.b32 {quadrant}, {back}, {n}, {negative}");
        let finite = p!(self, "setp.lt.f32", f!(self, "abs.f32", x), F32(f32::INFINITY));
        ptx!(self, "selp.f64 {rest}, {r}, {}, {finite}", F64(f64::NAN));
    }

    /// Sine, or the cosine with a shift of 1.
    pub(super) fn sine(&mut self, x: Reg, shift: u32) -> Reg {
        let (rest, quadrant) = self.reduce_quadrant(x);
        let (s, c) = self.sin_cos64(rest);
        let q = r!(self, "add.s32", quadrant, shift);
        let y = self.by_quadrant(q, s, c);
        f!(self, "cvt.rn.f32.f64", y)
    }

    /// s, c, −s or −c.
    fn by_quadrant(&mut self, q: Reg, s: Reg, c: Reg) -> Reg {
        let odd = p!(self, "setp.ne.b32", r!(self, "and.b32", q, 1), 0);
        let y = d!(self, "selp.f64", c, s, odd);
        let flip = p!(self, "setp.ne.b32", r!(self, "and.b32", q, 2), 0);
        let minus = d!(self, "neg.f64", y);
        d!(self, "selp.f64", minus, y, flip)
    }

    /// s/c, or −c/s in odd quadrants.
    fn tangent_of(&mut self, q: Reg, s: Reg, c: Reg) -> Reg {
        let odd = p!(self, "setp.ne.b32", r!(self, "and.b32", q, 1), 0);
        let minus = d!(self, "neg.f64", c);
        let above = d!(self, "selp.f64", minus, s, odd);
        let below = d!(self, "selp.f64", s, c, odd);
        f!(self, "cvt.rn.f32.f64", d!(self, "div.rn.f64", above, below))
    }

    pub(super) fn tangent(&mut self, x: Reg) -> Reg {
        let (rest, quadrant) = self.reduce_quadrant(x);
        let (s, c) = self.sin_cos64(rest);
        self.tangent_of(quadrant, s, c)
    }

    /// x = n/2 + r/π: (r, n modulo 4 in the low bits, x is finite).
    fn reduce_pi(&mut self, x: Reg) -> (Reg, Reg, Reg) {
        let finite = p!(self, "setp.lt.f32", f!(self, "abs.f32", x), F32(f32::INFINITY));
        let wide = d!(self, "cvt.f64.f32", f!(self, "selp.f32", x, F32(0.0), finite));
        let n = d!(self, "cvt.rni.f64.f64", d!(self, "add.rn.f64", wide, wide));
        let rest = d!(self, "fma.rn.f64", n, F64(-0.5), wide);
        let rest = d!(self, "mul.rn.f64", rest, F64(std::f64::consts::PI));
        // n modulo 4 also where n itself is past all integers.
        let quarter = d!(self, "cvt.rmi.f64.f64", d!(self, "mul.rn.f64", n, F64(0.25)));
        let q = d!(self, "fma.rn.f64", quarter, F64(-4.0), n);
        (rest, r!(self, "cvt.rzi.s32.f64", q), finite)
    }

    pub(super) fn sine_pi(&mut self, op: UnaryOp, x: Reg) -> Reg {
        let (rest, q, finite) = self.reduce_pi(x);
        let (s, c) = self.sin_cos64(rest);
        let y = if op == UnaryOp::Sinpi {
            let y = self.by_quadrant(q, s, c);
            let y = f!(self, "cvt.rn.f32.f64", y);
            // Whole numbers give a zero with the sign of x.
            let zero = p!(self, "setp.eq.f32", y, F32(0.0));
            let signed = f!(self, "copysign.f32", x, y);
            f!(self, "selp.f32", signed, y, zero)
        } else {
            let q = r!(self, "add.s32", q, 1);
            let y = self.by_quadrant(q, s, c);
            f!(self, "cvt.rn.f32.f64", y)
        };
        f!(self, "selp.f32", y, F32(f32::NAN), finite)
    }

    pub(super) fn tangent_pi(&mut self, x: Reg) -> Reg {
        let (rest, q, finite) = self.reduce_pi(x);
        let (s, c) = self.sin_cos64(rest);
        let y = self.tangent_of(q, s, c);
        let up = p!(self, "setp.eq.s32", q, 1);
        let pole = f!(self, "selp.f32", F32(f32::INFINITY), F32(f32::NEG_INFINITY), up);
        let odd = p!(self, "setp.ne.b32", r!(self, "and.b32", q, 1), 0);
        let at_pole = p!(self, "setp.eq.and.f64", s, F64(0.0), odd);
        let y = f!(self, "selp.f32", pole, y, at_pole);
        f!(self, "selp.f32", y, F32(f32::NAN), finite)
    }

    /// asin x for |x| ≤ ½.
    fn asin_poly(&mut self, x: Reg) -> Reg {
        let z = f!(self, "mul.rn.f32", x, x);
        let q = self.poly(
            z,
            &[
                4.216_32e-2,
                2.418_131e-2,
                4.547_002_6e-2,
                7.495_300_3e-2,
                1.666_675_2e-1,
            ],
        );
        f!(self, "fma.rn.f32", f!(self, "mul.rn.f32", q, z), x, x)
    }

    /// (|x|, |x| > ½, √(½ · (1 − |x|))).
    fn arc_parts(&mut self, x: Reg) -> (Reg, Reg, Reg) {
        let a = f!(self, "abs.f32", x);
        let far = p!(self, "setp.gt.f32", a, F32(0.5));
        let half = f!(self, "fma.rn.f32", a, F32(-0.5), F32(0.5));
        let root = f!(self, "sqrt.rn.f32", f!(self, "max.f32", half, F32(0.0)));
        (a, far, root)
    }

    pub(super) fn asin(&mut self, x: Reg) -> Reg {
        let (a, far, root) = self.arc_parts(x);
        let inner = f!(self, "selp.f32", root, a, far);
        let inner = self.asin_poly(inner);
        let outer = f!(self, "fma.rn.f32", inner, F32(-2.0), F32(std::f32::consts::FRAC_PI_2));
        let y = f!(self, "selp.f32", outer, inner, far);
        let y = f!(self, "copysign.f32", x, y);
        let inside = p!(self, "setp.le.f32", a, F32(1.0));
        f!(self, "selp.f32", y, F32(f32::NAN), inside)
    }

    pub(super) fn acos(&mut self, x: Reg) -> Reg {
        let (a, far, root) = self.arc_parts(x);
        let inner = f!(self, "selp.f32", root, x, far);
        let inner = self.asin_poly(inner);
        let twice = f!(self, "add.rn.f32", inner, inner);
        let back = f!(self, "sub.rn.f32", F32(std::f32::consts::PI), twice);
        let positive = p!(self, "setp.gt.f32", x, F32(0.0));
        let outer = f!(self, "selp.f32", twice, back, positive);
        let near = f!(self, "sub.rn.f32", F32(std::f32::consts::FRAC_PI_2), inner);
        let y = f!(self, "selp.f32", outer, near, far);
        let inside = p!(self, "setp.le.f32", a, F32(1.0));
        f!(self, "selp.f32", y, F32(f32::NAN), inside)
    }

    /// atan x for x ≥ 0, infinity too.
    pub(super) fn atan_positive(&mut self, x: Reg) -> Reg {
        let far = p!(self, "setp.gt.f32", x, F32(2.414_213_7));
        let middle = p!(self, "setp.gt.f32", x, F32(0.414_213_57));
        let below = f!(self, "add.rn.f32", x, F32(1.0));
        let below = f!(self, "selp.f32", x, below, far);
        let above = f!(self, "add.rn.f32", x, F32(-1.0));
        let above = f!(self, "selp.f32", F32(-1.0), above, far);
        let reduced = f!(self, "div.rn.f32", above, below);
        let t = f!(self, "selp.f32", reduced, x, middle);
        let base = f!(self, "selp.f32", F32(std::f32::consts::FRAC_PI_4), F32(0.0), middle);
        let base = f!(self, "selp.f32", F32(std::f32::consts::FRAC_PI_2), base, far);
        let z = f!(self, "mul.rn.f32", t, t);
        let q = self.poly(z, &[8.053_744_5e-2, -1.387_768_6e-1, 1.997_771_1e-1, -3.333_295e-1]);
        let y = f!(self, "fma.rn.f32", f!(self, "mul.rn.f32", q, z), t, t);
        f!(self, "add.rn.f32", base, y)
    }

    /// Angle of (x, y); the arguments in C's order.
    pub(super) fn atan2(&mut self, y: Reg, x: Reg) -> Reg {
        let (ay, ax) = (f!(self, "abs.f32", y), f!(self, "abs.f32", x));
        let ratio = d!(
            self,
            "div.rn.f64",
            d!(self, "cvt.f64.f32", ay),
            d!(self, "cvt.f64.f32", ax)
        );
        let ratio = f!(self, "cvt.rn.f32.f64", ratio);
        let both = p!(self, "setp.eq.f32", ax, F32(f32::INFINITY));
        let both = p!(self, "setp.eq.and.f32", ay, F32(f32::INFINITY), both);
        let ratio = f!(self, "selp.f32", F32(1.0), ratio, both);
        let flat = p!(self, "setp.eq.f32", ay, F32(0.0));
        let ratio = f!(self, "selp.f32", F32(0.0), ratio, flat);
        let angle = self.atan_positive(ratio);
        // π in f64, so that small angles keep their bits.
        let wide = d!(self, "cvt.f64.f32", angle);
        let turned = d!(self, "sub.rn.f64", F64(std::f64::consts::PI), wide);
        let turned = f!(self, "cvt.rn.f32.f64", turned);
        let behind = p!(self, "setp.lt.s32", r!(self, "mov.b32", x), 0);
        let angle = f!(self, "selp.f32", turned, angle, behind);
        let angle = f!(self, "copysign.f32", y, angle);
        let nan = p!(self, "setp.nan.f32", x, y);
        f!(self, "selp.f32", F32(f32::NAN), angle, nan)
    }
}
