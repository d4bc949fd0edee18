//! Floating-point operations. `f16` and `bf16` compute in `f32` and round each result, as Metal's `half` does.

use anymetal_ir::{BinaryOp, Scalar, TernaryOp, UnaryOp};

use super::scalar::{Bf16, Bool, F16, Float};
use super::{Bin, Fn1, Fn2, Fn3, Isa, Ter, Un, bin, ter, un};
use crate::math;

macro_rules! on_bits {
    ($($name:ident => $out:ty: |$x:ident: $t:ident| $e:expr;)*) => {$(
        struct $name;
        impl<T: Float> Un<T> for $name {
            type Out = $out;
            #[inline(always)]
            fn apply($x: T) -> $out {
                $e
            }
        }
    )*};
}

on_bits! {
    Neg => T: |x: T| T::from_bits(x.bits() ^ T::SIGN);
    Abs => T: |x: T| T::from_bits(x.bits() & (T::SIGN - 1));
    IsNan => Bool: |x: T| Bool::new(x.bits() & (T::SIGN - 1) > T::EXPONENT);
    IsInf => Bool: |x: T| Bool::new(x.bits() & (T::SIGN - 1) == T::EXPONENT);
    IsFinite => Bool: |x: T| Bool::new(x.bits() & T::EXPONENT != T::EXPONENT);
    IsNormal => Bool: |x: T| Bool::new(x.bits() & T::EXPONENT != T::EXPONENT && x.bits() & T::EXPONENT != 0);
    SignBit => Bool: |x: T| Bool::new(x.bits() & T::SIGN != 0);
}

macro_rules! through_f32 {
    (un: $($u:ident = $uf:expr),*; bin: $($b:ident = $bf:expr),*) => {
        $(
            struct $u;
            impl<T: Float> Un<T> for $u {
                type Out = T;
                #[inline(always)]
                fn apply(a: T) -> T { T::narrow($uf(a.widen())) }
            }
        )*
        $(
            struct $b;
            impl<T: Float> Bin<T> for $b {
                type Out = T;
                #[inline(always)]
                fn apply(a: T, b: T) -> T { T::narrow($bf(a.widen(), b.widen())) }
            }
        )*
    };
}

through_f32! {
    un:
        Exp = math::exp, Exp2 = math::exp2, Exp10 = math::exp10, Log = math::log, Log2 = math::log2, Log10 = math::log10,
        Sqrt = f32::sqrt, Rsqrt = math::rsqrt,
        Asin = math::asin, Acos = math::acos, Atan = math::atan, Sinh = math::sinh, Cosh = math::cosh, Tanh = math::tanh,
        Asinh = math::asinh, Acosh = math::acosh, Atanh = math::atanh, Sinpi = math::sinpi, Cospi = math::cospi,
        Tanpi = math::tanpi, Ceil = f32::ceil, Floor = f32::floor, Trunc = f32::trunc, Round = math::round,
        Rint = f32::round_ties_even, Sign = math::sign, Saturate = math::saturate,
        FrexpFraction = math::frexp_fraction, ModfFraction = math::modf_fraction;
    bin:
        Add = |a: f32, b: f32| a + b, Sub = |a: f32, b: f32| a - b, Mul = |a: f32, b: f32| a * b, Div = |a: f32, b: f32| a / b,
        Min = f32::min, Max = f32::max, Pow = math::pow, Powr = math::powr, Atan2 = math::atan2, Fmod = math::fmod,
        Fdim = math::fdim, Copysign = f32::copysign
}

macro_rules! with_rare {
    ($($name:ident = $common:path, $rare:path, $limit:path;)*) => {$(
        struct $name;
        impl<T: Float> Un<T> for $name {
            type Out = T;
            #[inline(always)]
            fn apply(a: T) -> T {
                T::narrow($common(a.widen()))
            }
            const RARE: bool = true;
            #[inline(always)]
            fn is_rare(a: T) -> bool {
                // Written so that NaN is rare.
                let below = a.widen().abs() < $limit;
                !below
            }
            fn rare(a: T) -> T {
                T::narrow($rare(a.widen()))
            }
        }
    )*};
}

with_rare! {
    Sin = math::sin, math::large_sin, math::LARGE;
    Cos = math::cos, math::large_cos, math::LARGE;
    Tan = math::tan, math::large_tan, math::LARGE;
    SinFast = math::sin_fast, math::large_sin, math::LARGE_FAST;
    CosFast = math::cos_fast, math::large_cos, math::LARGE_FAST;
}

struct Fract;
impl<T: Float> Un<T> for Fract {
    type Out = T;
    #[inline(always)]
    fn apply(a: T) -> T {
        let x = a.widen();
        // The largest value of the type below 1: the bits of 1 minus one.
        let one = T::narrow(1.0).bits();
        let limit = T::from_bits(one - 1);
        let fraction = T::narrow(x - x.floor());
        let fraction = if fraction.bits() & (T::SIGN - 1) == one {
            limit
        } else {
            fraction
        };
        if x.is_infinite() {
            T::narrow(0.0)
        } else {
            fraction
        }
    }
}

struct Ilogb;
impl<T: Float> Un<T> for Ilogb {
    type Out = i32;
    #[inline(always)]
    fn apply(a: T) -> i32 {
        math::ilogb(a.widen())
    }
}

struct FrexpExponent;
impl<T: Float> Un<T> for FrexpExponent {
    type Out = i32;
    #[inline(always)]
    fn apply(a: T) -> i32 {
        math::frexp_exponent(a.widen())
    }
}

struct Ldexp;
impl<T: Float> Bin<T, i32> for Ldexp {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: i32) -> T {
        T::narrow64(math::ldexp(a.widen(), b))
    }
}

struct Nextafter;
impl<T: Float> Bin<T> for Nextafter {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T) -> T {
        let (x, y) = (a.widen(), b.widen());
        let bits = a.bits();
        let away = (y > x) == (bits & T::SIGN == 0);
        let moved = if away {
            bits.wrapping_add(1)
        } else {
            bits.wrapping_sub(1)
        };
        let from_zero = (b.bits() & T::SIGN) | 1;
        let result = if x == 0.0 { from_zero } else { moved };
        if x.is_nan() || y.is_nan() {
            T::narrow(f32::NAN)
        } else if x == y {
            b
        } else {
            T::from_bits(result)
        }
    }
}

struct Fma;
impl Ter<f32> for Fma {
    type Out = f32;
    #[inline(always)]
    fn apply(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}
// A product of two short floats is exact in f64, so only the sum rounds before the last rounding.
impl Ter<F16> for Fma {
    type Out = F16;
    #[inline(always)]
    fn apply(a: F16, b: F16, c: F16) -> F16 {
        F16::narrow64(f64::from(a.widen()) * f64::from(b.widen()) + f64::from(c.widen()))
    }
}
impl Ter<Bf16> for Fma {
    type Out = Bf16;
    #[inline(always)]
    fn apply(a: Bf16, b: Bf16, c: Bf16) -> Bf16 {
        Bf16::narrow64(f64::from(a.widen()) * f64::from(b.widen()) + f64::from(c.widen()))
    }
}

struct Clamp;
impl<T: Float> Ter<T> for Clamp {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        T::narrow(a.widen().max(b.widen()).min(c.widen()))
    }
}

struct Median3;
impl<T: Float> Ter<T> for Median3 {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        let (a, b, c) = (a.widen(), b.widen(), c.widen());
        T::narrow(a.min(b).max(a.max(b).min(c)))
    }
}

fn unary_for<T: Float>(op: UnaryOp, fast: bool, isa: Isa) -> Option<Fn1> {
    Some(match op {
        UnaryOp::Neg => un::<T, Neg>(isa),
        UnaryOp::Abs => un::<T, Abs>(isa),
        UnaryOp::Exp => un::<T, Exp>(isa),
        UnaryOp::Exp2 => un::<T, Exp2>(isa),
        UnaryOp::Exp10 => un::<T, Exp10>(isa),
        UnaryOp::Log => un::<T, Log>(isa),
        UnaryOp::Log2 => un::<T, Log2>(isa),
        UnaryOp::Log10 => un::<T, Log10>(isa),
        UnaryOp::Sqrt => un::<T, Sqrt>(isa),
        UnaryOp::Rsqrt => un::<T, Rsqrt>(isa),
        UnaryOp::Sin if fast => un::<T, SinFast>(isa),
        UnaryOp::Cos if fast => un::<T, CosFast>(isa),
        UnaryOp::Sin => un::<T, Sin>(isa),
        UnaryOp::Cos => un::<T, Cos>(isa),
        UnaryOp::Tan => un::<T, Tan>(isa),
        UnaryOp::Asin => un::<T, Asin>(isa),
        UnaryOp::Acos => un::<T, Acos>(isa),
        UnaryOp::Atan => un::<T, Atan>(isa),
        UnaryOp::Sinh => un::<T, Sinh>(isa),
        UnaryOp::Cosh => un::<T, Cosh>(isa),
        UnaryOp::Tanh => un::<T, Tanh>(isa),
        UnaryOp::Asinh => un::<T, Asinh>(isa),
        UnaryOp::Acosh => un::<T, Acosh>(isa),
        UnaryOp::Atanh => un::<T, Atanh>(isa),
        UnaryOp::Sinpi => un::<T, Sinpi>(isa),
        UnaryOp::Cospi => un::<T, Cospi>(isa),
        UnaryOp::Tanpi => un::<T, Tanpi>(isa),
        UnaryOp::Ceil => un::<T, Ceil>(isa),
        UnaryOp::Floor => un::<T, Floor>(isa),
        UnaryOp::Trunc => un::<T, Trunc>(isa),
        UnaryOp::Round => un::<T, Round>(isa),
        UnaryOp::Rint => un::<T, Rint>(isa),
        UnaryOp::Fract => un::<T, Fract>(isa),
        UnaryOp::Sign => un::<T, Sign>(isa),
        UnaryOp::Saturate => un::<T, Saturate>(isa),
        UnaryOp::Ilogb => un::<T, Ilogb>(isa),
        UnaryOp::IsNan => un::<T, IsNan>(isa),
        UnaryOp::IsInf => un::<T, IsInf>(isa),
        UnaryOp::IsFinite => un::<T, IsFinite>(isa),
        UnaryOp::IsNormal => un::<T, IsNormal>(isa),
        UnaryOp::SignBit => un::<T, SignBit>(isa),
        UnaryOp::Not | UnaryOp::Clz | UnaryOp::Ctz | UnaryOp::Popcount | UnaryOp::ReverseBits => {
            return None;
        }
    })
}

fn binary_for<T: Float>(op: BinaryOp, isa: Isa) -> Option<Fn2> {
    Some(match op {
        BinaryOp::Add => bin::<T, T, Add>(isa),
        BinaryOp::Sub => bin::<T, T, Sub>(isa),
        BinaryOp::Mul => bin::<T, T, Mul>(isa),
        BinaryOp::Div => bin::<T, T, Div>(isa),
        BinaryOp::Min => bin::<T, T, Min>(isa),
        BinaryOp::Max => bin::<T, T, Max>(isa),
        BinaryOp::Pow => bin::<T, T, Pow>(isa),
        BinaryOp::Powr => bin::<T, T, Powr>(isa),
        BinaryOp::Atan2 => bin::<T, T, Atan2>(isa),
        BinaryOp::Fmod | BinaryOp::Rem => bin::<T, T, Fmod>(isa),
        BinaryOp::Fdim => bin::<T, T, Fdim>(isa),
        BinaryOp::Copysign => bin::<T, T, Copysign>(isa),
        BinaryOp::Nextafter => bin::<T, T, Nextafter>(isa),
        BinaryOp::Ldexp => bin::<T, i32, Ldexp>(isa),
        _ => return None,
    })
}

/// The loop of a unary operation on `f16`, `bf16` or `f32`.
pub(crate) fn unary(op: UnaryOp, ty: Scalar, fast: bool, isa: Isa) -> Option<Fn1> {
    match ty {
        Scalar::F16 => unary_for::<F16>(op, fast, isa),
        Scalar::BF16 => unary_for::<Bf16>(op, fast, isa),
        Scalar::F32 => unary_for::<f32>(op, fast, isa),
        _ => None,
    }
}

/// The loop of a binary operation.
pub(crate) fn binary(op: BinaryOp, ty: Scalar, isa: Isa) -> Option<Fn2> {
    match ty {
        Scalar::F16 => binary_for::<F16>(op, isa),
        Scalar::BF16 => binary_for::<Bf16>(op, isa),
        Scalar::F32 => binary_for::<f32>(op, isa),
        _ => None,
    }
}

/// The loop of a ternary operation.
pub(crate) fn ternary(op: TernaryOp, ty: Scalar, isa: Isa) -> Option<Fn3> {
    macro_rules! of {
        ($t:ty) => {
            match op {
                TernaryOp::Fma => ter::<$t, $t, $t, Fma>(isa),
                TernaryOp::Clamp => ter::<$t, $t, $t, Clamp>(isa),
                TernaryOp::Median3 => ter::<$t, $t, $t, Median3>(isa),
                TernaryOp::BitSelect => return None,
            }
        };
    }
    Some(match ty {
        Scalar::F16 => of!(F16),
        Scalar::BF16 => of!(Bf16),
        Scalar::F32 => of!(f32),
        _ => return None,
    })
}

/// `frexp` as two operations: significand and exponent.
pub(crate) fn frexp(ty: Scalar, isa: Isa) -> Option<(Fn1, Fn1)> {
    Some(match ty {
        Scalar::F16 => (un::<F16, FrexpFraction>(isa), un::<F16, FrexpExponent>(isa)),
        Scalar::BF16 => (
            un::<Bf16, FrexpFraction>(isa),
            un::<Bf16, FrexpExponent>(isa),
        ),
        Scalar::F32 => (un::<f32, FrexpFraction>(isa), un::<f32, FrexpExponent>(isa)),
        _ => return None,
    })
}

/// `modf` as two operations: fractional and integral part.
pub(crate) fn modf(ty: Scalar, isa: Isa) -> Option<(Fn1, Fn1)> {
    Some(match ty {
        Scalar::F16 => (un::<F16, ModfFraction>(isa), un::<F16, Trunc>(isa)),
        Scalar::BF16 => (un::<Bf16, ModfFraction>(isa), un::<Bf16, Trunc>(isa)),
        Scalar::F32 => (un::<f32, ModfFraction>(isa), un::<f32, Trunc>(isa)),
        _ => return None,
    })
}

macro_rules! contractions {
    ($($(#[$doc:meta])* $name:ident $struct:ident = |$a:ident, $b:ident, $c:ident| $e:expr;)*) => {$(
        struct $struct;
        impl Ter<f32> for $struct {
            type Out = f32;
            #[inline(always)]
            fn apply($a: f32, $b: f32, $c: f32) -> f32 {
                $e
            }
        }

        $(#[$doc])*
        pub(crate) fn $name(isa: Isa) -> Option<Fn3> {
            match isa {
                Isa::Portable => None,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => Some(ter::<f32, f32, f32, $struct>(isa)),
            }
        }
    )*};
}

contractions! {
    /// `a · b + c` of fast-math code with one rounding, where the machine has an instruction for it.
    contracted MulAdd = |a, b, c| a.mul_add(b, c);
    /// `a · b − c`.
    contracted_subtract MulSub = |a, b, c| a.mul_add(b, -c);
    /// `c − a · b`.
    contracted_from NegMulAdd = |a, b, c| (-a).mul_add(b, c);
}
