//! Floating-point operations. `f16` and `bf16` compute in `f32` and round each result, as Metal's `half` does.

use anymetal_ir::{BinaryOp, Scalar, TernaryOp, UnaryOp};

use super::exponential::{Exp, Exp2};
use super::scalar::{Bf16, Bool, F16, Float};
use super::{Bin, Fn1, Fn2, Fn3, Isa, Ter, Un, bin, plain_bin, plain_ter, plain_un, ter, un};
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
        Exp10 = math::exp10, Log = math::log, Log2 = math::log2, Log10 = math::log10,
        Sqrt = f32::sqrt, Rsqrt = math::rsqrt, RsqrtFast = |x: f32| 1.0 / x.sqrt(),
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
        if x.is_infinite() { T::narrow(0.0) } else { fraction }
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

/// Operations that have a loop for each type: what is cheap, and what depends on the type's own precision.
fn unary_for<T: Float>(op: UnaryOp, isa: Isa) -> Option<Fn1> {
    Some(match op {
        UnaryOp::Neg => un::<T, Neg>(isa),
        UnaryOp::Abs => un::<T, Abs>(isa),
        UnaryOp::Fract => un::<T, Fract>(isa),
        UnaryOp::IsNan => plain_un::<T, IsNan>(),
        UnaryOp::IsInf => plain_un::<T, IsInf>(),
        UnaryOp::IsFinite => plain_un::<T, IsFinite>(),
        UnaryOp::IsNormal => plain_un::<T, IsNormal>(),
        UnaryOp::SignBit => plain_un::<T, SignBit>(),
        UnaryOp::Ilogb => plain_un::<T, Ilogb>(),
        _ => return None,
    })
}

/// Operations that short floats do in `f32`, by conversion there and back.
fn unary_f32(op: UnaryOp, fast: bool, isa: Isa) -> Option<Fn1> {
    Some(match op {
        UnaryOp::Exp => un::<f32, Exp>(isa),
        UnaryOp::Exp2 => un::<f32, Exp2>(isa),
        UnaryOp::Exp10 => un::<f32, Exp10>(isa),
        UnaryOp::Log => un::<f32, Log>(isa),
        UnaryOp::Log2 => un::<f32, Log2>(isa),
        UnaryOp::Log10 => un::<f32, Log10>(isa),
        UnaryOp::Sqrt => un::<f32, Sqrt>(isa),
        UnaryOp::Rsqrt if fast => un::<f32, RsqrtFast>(isa),
        UnaryOp::Rsqrt => un::<f32, Rsqrt>(isa),
        UnaryOp::Sin if fast => un::<f32, SinFast>(isa),
        UnaryOp::Cos if fast => un::<f32, CosFast>(isa),
        UnaryOp::Sin => un::<f32, Sin>(isa),
        UnaryOp::Cos => un::<f32, Cos>(isa),
        UnaryOp::Tan => un::<f32, Tan>(isa),
        UnaryOp::Asin => un::<f32, Asin>(isa),
        UnaryOp::Acos => un::<f32, Acos>(isa),
        UnaryOp::Atan => un::<f32, Atan>(isa),
        UnaryOp::Sinh => un::<f32, Sinh>(isa),
        UnaryOp::Cosh => un::<f32, Cosh>(isa),
        UnaryOp::Tanh => un::<f32, Tanh>(isa),
        UnaryOp::Asinh => un::<f32, Asinh>(isa),
        UnaryOp::Acosh => un::<f32, Acosh>(isa),
        UnaryOp::Atanh => un::<f32, Atanh>(isa),
        UnaryOp::Sinpi => un::<f32, Sinpi>(isa),
        UnaryOp::Cospi => un::<f32, Cospi>(isa),
        UnaryOp::Tanpi => un::<f32, Tanpi>(isa),
        UnaryOp::Ceil => un::<f32, Ceil>(isa),
        UnaryOp::Floor => un::<f32, Floor>(isa),
        UnaryOp::Trunc => un::<f32, Trunc>(isa),
        UnaryOp::Round => un::<f32, Round>(isa),
        UnaryOp::Rint => un::<f32, Rint>(isa),
        UnaryOp::Sign => un::<f32, Sign>(isa),
        UnaryOp::Saturate => un::<f32, Saturate>(isa),
        _ => return None,
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
        BinaryOp::Nextafter => plain_bin::<T, T, Nextafter>(),
        BinaryOp::Ldexp => plain_bin::<T, i32, Ldexp>(),
        _ => return None,
    })
}

fn binary_f32(op: BinaryOp, isa: Isa) -> Option<Fn2> {
    Some(match op {
        BinaryOp::Pow => bin::<f32, f32, Pow>(isa),
        BinaryOp::Powr => bin::<f32, f32, Powr>(isa),
        BinaryOp::Atan2 => bin::<f32, f32, Atan2>(isa),
        BinaryOp::Fmod | BinaryOp::Rem => plain_bin::<f32, f32, Fmod>(),
        BinaryOp::Fdim => plain_bin::<f32, f32, Fdim>(),
        BinaryOp::Copysign => plain_bin::<f32, f32, Copysign>(),
        _ => return None,
    })
}

/// How an operation on a float type is done.
pub(crate) enum Plan<F> {
    /// On the type itself.
    Own(F),
    /// Operands converted to `f32`, the result rounded back.
    Widened(F),
}

/// The loop of a unary operation on `f16`, `bf16` or `f32`.
pub(crate) fn unary(op: UnaryOp, ty: Scalar, fast: bool, isa: Isa) -> Option<Plan<Fn1>> {
    let own = match ty {
        Scalar::F16 => unary_for::<F16>(op, isa),
        Scalar::BF16 => unary_for::<Bf16>(op, isa),
        Scalar::F32 => unary_for::<f32>(op, isa).or_else(|| unary_f32(op, fast, isa)),
        _ => return None,
    };
    own.map(Plan::Own)
        .or_else(|| unary_f32(op, fast, isa).map(Plan::Widened))
}

/// The loop of a binary operation.
pub(crate) fn binary(op: BinaryOp, ty: Scalar, isa: Isa) -> Option<Plan<Fn2>> {
    let own = match ty {
        Scalar::F16 => binary_for::<F16>(op, isa),
        Scalar::BF16 => binary_for::<Bf16>(op, isa),
        Scalar::F32 => binary_for::<f32>(op, isa).or_else(|| binary_f32(op, isa)),
        _ => return None,
    };
    own.map(Plan::Own).or_else(|| binary_f32(op, isa).map(Plan::Widened))
}

/// The loop of a ternary operation.
pub(crate) fn ternary(op: TernaryOp, ty: Scalar, isa: Isa) -> Option<Fn3> {
    macro_rules! of {
        ($t:ty) => {
            match op {
                TernaryOp::Fma => ter::<$t, $t, $t, Fma>(isa),
                TernaryOp::Clamp => ter::<$t, $t, $t, Clamp>(isa),
                TernaryOp::Median3 => plain_ter::<$t, $t, $t, Median3>(),
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
pub(crate) fn frexp(ty: Scalar) -> Option<(Fn1, Fn1)> {
    Some(match ty {
        Scalar::F16 => (plain_un::<F16, FrexpFraction>(), plain_un::<F16, FrexpExponent>()),
        Scalar::BF16 => (plain_un::<Bf16, FrexpFraction>(), plain_un::<Bf16, FrexpExponent>()),
        Scalar::F32 => (plain_un::<f32, FrexpFraction>(), plain_un::<f32, FrexpExponent>()),
        _ => return None,
    })
}

/// `modf` as two operations: fractional and integral part.
pub(crate) fn modf(ty: Scalar) -> Option<(Fn1, Fn1)> {
    Some(match ty {
        Scalar::F16 => (plain_un::<F16, ModfFraction>(), plain_un::<F16, Trunc>()),
        Scalar::BF16 => (plain_un::<Bf16, ModfFraction>(), plain_un::<Bf16, Trunc>()),
        Scalar::F32 => (plain_un::<f32, ModfFraction>(), plain_un::<f32, Trunc>()),
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
                Isa::Avx2 | Isa::Avx512 => Some(ter::<f32, f32, f32, $struct>(isa)),
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
