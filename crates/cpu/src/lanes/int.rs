//! Integer and `bool` operations.

use anymetal_ir::{BinaryOp, Scalar, TernaryOp, UnaryOp};

use super::scalar::Bool;
use super::{Bin, CHUNK, Fn1, Fn2, Fn3, Isa, Ter, Un, bin, plain_bin, plain_ter, plain_un, ter, un};

/// What integer operations need of a type. Division by zero gives 0, everything wraps.
pub(crate) trait Int: Copy + Ord + 'static {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn shl(self, count: Self) -> Self;
    fn shr(self, count: Self) -> Self;
    fn mul_hi(self, other: Self) -> Self;
    fn add_sat(self, other: Self) -> Self;
    fn sub_sat(self, other: Self) -> Self;
    fn abs_diff(self, other: Self) -> Self;
    fn hadd(self, other: Self) -> Self;
    fn rhadd(self, other: Self) -> Self;
    fn rotate(self, count: Self) -> Self;
    fn neg(self) -> Self;
    fn not(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn clz(self) -> Self;
    fn ctz(self) -> Self;
    fn popcount(self) -> Self;
    fn reverse(self) -> Self;
    /// A chunk of quotients without an instruction that divides integers; false where there is no such way.
    fn quotients(out: &mut [Self; CHUNK], a: &[Self; CHUNK], b: &[Self; CHUNK]) -> bool;
}

macro_rules! ints {
    ($($t:ty, $wide:ty, $abs:expr, $sign:expr, $sign_bits:expr, $quotients:expr;)*) => {$(
        impl Int for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
            #[inline(always)]
            fn shl(self, count: Self) -> Self { self.wrapping_shl(count as u32) }
            #[inline(always)]
            fn shr(self, count: Self) -> Self { self.wrapping_shr(count as u32) }
            #[inline(always)]
            fn mul_hi(self, other: Self) -> Self {
                ((self as $wide * other as $wide) >> <$t>::BITS) as $t
            }
            #[inline(always)]
            fn add_sat(self, other: Self) -> Self { self.saturating_add(other) }
            #[inline(always)]
            fn sub_sat(self, other: Self) -> Self { self.saturating_sub(other) }
            #[inline(always)]
            fn abs_diff(self, other: Self) -> Self { <$t>::abs_diff(self, other) as $t }
            #[inline(always)]
            fn hadd(self, other: Self) -> Self { ((self as $wide + other as $wide) >> 1) as $t }
            #[inline(always)]
            fn rhadd(self, other: Self) -> Self { ((self as $wide + other as $wide + 1) >> 1) as $t }
            #[inline(always)]
            fn rotate(self, count: Self) -> Self {
                self.rotate_left(count as u32 & (<$t>::BITS - 1))
            }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn not(self) -> Self { !self }
            #[inline(always)]
            fn abs(self) -> Self { $abs(self) }
            #[inline(always)]
            fn sign(self) -> Self { $sign(self) }
            #[inline(always)]
            fn clz(self) -> Self { self.leading_zeros() as $t }
            #[inline(always)]
            fn ctz(self) -> Self { self.trailing_zeros() as $t }
            #[inline(always)]
            fn popcount(self) -> Self { self.count_ones() as $t }
            #[inline(always)]
            fn reverse(self) -> Self { self.reverse_bits() }
            #[inline(always)]
            fn quotients(out: &mut [Self; CHUNK], a: &[Self; CHUNK], b: &[Self; CHUNK]) -> bool {
                let (divisor, below) = (b[0], b[0].wrapping_sub(1));
                let others = b.iter().fold(0, |bits, &b| bits | (b ^ divisor));
                if others != 0 || divisor <= 0 || divisor & below != 0 {
                    return $quotients(out, a, b);
                }
                for i in 0..CHUNK {
                    // Rounds to zero: a negative number goes up before bits fall off.
                    out[i] = a[i].wrapping_add($sign_bits(a[i]) & below) >> divisor.trailing_zeros();
                }
                true
            }
        }
    )*};
}

ints! {
    i8, i16, i8::wrapping_abs, i8::signum, |x| x >> 7, |_, _, _| false;
    u8, u16, |x| x, |x: u8| x.min(1), |_| 0, |_, _, _| false;
    i16, i32, i16::wrapping_abs, i16::signum, |x| x >> 15, |_, _, _| false;
    u16, u32, |x| x, |x: u16| x.min(1), |_| 0, |_, _, _| false;
    i32, i64, i32::wrapping_abs, i32::signum, |x| x >> 31, quotients_i32;
    u32, u64, |x| x, |x: u32| x.min(1), |_| 0, quotients_u32;
    i64, i128, i64::wrapping_abs, i64::signum, |x| x >> 63, |_, _, _| false;
    u64, u128, |x| x, |x: u64| x.min(1), |_| 0, |_, _, _| false;
}

/// Quotients of 32-bit integers in `f64`, which holds them and their quotients well enough: a quotient that is not whole differs from the
/// next whole number by 2⁻³² of it at least, and is rounded by 2⁻⁵³. Zero and −1 are left to others.
macro_rules! quotients {
    ($name:ident, $t:ty) => {
        #[inline(always)]
        fn $name(out: &mut [$t; CHUNK], a: &[$t; CHUNK], b: &[$t; CHUNK]) -> bool {
            if b.iter().fold(false, |any, &b| any | (b == 0) | (b == !0)) {
                return false;
            }
            for i in 0..CHUNK {
                // SAFETY: with another divisor than 0 and −1 the quotient is between those of the type.
                out[i] = unsafe { (f64::from(a[i]) / f64::from(b[i])).to_int_unchecked() };
            }
            true
        }
    };
}
quotients!(quotients_i32, i32);
quotients!(quotients_u32, u32);

macro_rules! int_ops {
    (un: $($u:ident = $um:ident),*; bin: $($b:ident = $bm:ident),*) => {
        $(
            struct $u;
            impl<T: Int> Un<T> for $u {
                type Out = T;
                #[inline(always)]
                fn apply(a: T) -> T { a.$um() }
            }
        )*
        $(
            struct $b;
            impl<T: Int> Bin<T> for $b {
                type Out = T;
                #[inline(always)]
                fn apply(a: T, b: T) -> T { a.$bm(b) }
            }
        )*
    };
}

int_ops! {
    un: Neg = neg, Not = not, Abs = abs, Sign = sign, Clz = clz, Ctz = ctz, Popcount = popcount, Reverse = reverse;
    bin: Add = add, Sub = sub, Mul = mul, And = and, Or = or, Xor = xor, Shl = shl, Shr = shr,
        Min = min, Max = max, MulHi = mul_hi, AddSat = add_sat, SubSat = sub_sat, AbsDiff = abs_diff, Hadd = hadd,
        Rhadd = rhadd, Rotate = rotate
}

struct Div;
impl<T: Int> Bin<T> for Div {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T) -> T {
        a.div(b)
    }
    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(out: &mut [T; CHUNK], a: &[T; CHUNK], b: &[T; CHUNK]) -> bool {
        T::quotients(out, a, b)
    }
}

struct Rem;
impl<T: Int> Bin<T> for Rem {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T) -> T {
        a.rem(b)
    }
    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(out: &mut [T; CHUNK], a: &[T; CHUNK], b: &[T; CHUNK]) -> bool {
        if !T::quotients(out, a, b) {
            return false;
        }
        for i in 0..CHUNK {
            out[i] = a[i].sub(out[i].mul(b[i]));
        }
        true
    }
}

struct Clamp;
impl<T: Int> Ter<T> for Clamp {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        a.max(b).min(c)
    }
}

struct Median3;
impl<T: Int> Ter<T> for Median3 {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        a.min(b).max(a.max(b).min(c))
    }
}

struct Fma;
impl<T: Int> Ter<T> for Fma {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        a.mul(b).add(c)
    }
}

struct BitSelect;
impl<T: Int> Ter<T> for BitSelect {
    type Out = T;
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        a.and(c.not()).or(b.and(c))
    }
}

/// A table for a type, with vector code of its own (`hot`) or without.
macro_rules! table {
    ($name:ident, $op:ty, $fn:ty, $pick:ident, $plain:ident; hot: $($hot:ident = $h:ident),*; cold: $($cold:ident = $c:ident),*) => {
        mod $name {
            use super::*;

            /// For 32- and 64-bit types.
            pub(super) fn wide<T: Int>(op: $op, isa: Isa) -> Option<$fn> {
                Some(match op {
                    $(<$op>::$hot => $pick!(T, $h, isa),)*
                    $(<$op>::$cold => $plain!(T, $c),)*
                    #[allow(unreachable_patterns)]
                    _ => return None,
                })
            }

            /// For 8- and 16-bit types, which are rare.
            pub(super) fn narrow<T: Int>(op: $op, _: Isa) -> Option<$fn> {
                Some(match op {
                    $(<$op>::$hot => $plain!(T, $h),)*
                    $(<$op>::$cold => $plain!(T, $c),)*
                    #[allow(unreachable_patterns)]
                    _ => return None,
                })
            }
        }
    };
}

macro_rules! own_un {
    ($t:ty, $f:ident, $isa:ident) => {
        un::<$t, $f>($isa)
    };
}
macro_rules! any_un {
    ($t:ty, $f:ident) => {
        plain_un::<$t, $f>()
    };
}
macro_rules! own_bin {
    ($t:ty, $f:ident, $isa:ident) => {
        bin::<$t, $t, $f>($isa)
    };
}
macro_rules! any_bin {
    ($t:ty, $f:ident) => {
        plain_bin::<$t, $t, $f>()
    };
}
macro_rules! own_ter {
    ($t:ty, $f:ident, $isa:ident) => {
        ter::<$t, $t, $t, $f>($isa)
    };
}
macro_rules! any_ter {
    ($t:ty, $f:ident) => {
        plain_ter::<$t, $t, $t, $f>()
    };
}

table! {
    unary_table, UnaryOp, Fn1, own_un, any_un;
    hot: Neg = Neg, Not = Not, Abs = Abs;
    cold: Sign = Sign, Clz = Clz, Ctz = Ctz, Popcount = Popcount, ReverseBits = Reverse
}

table! {
    binary_table, BinaryOp, Fn2, own_bin, any_bin;
    hot: Add = Add, Sub = Sub, Mul = Mul, And = And, Or = Or, Xor = Xor, Shl = Shl, Shr = Shr, Min = Min, Max = Max,
        Div = Div, Rem = Rem;
    cold: MulHi = MulHi, AddSat = AddSat, SubSat = SubSat, AbsDiff = AbsDiff, Hadd = Hadd,
        Rhadd = Rhadd, Rotate = Rotate
}

table! {
    ternary_table, TernaryOp, Fn3, own_ter, any_ter;
    hot: Fma = Fma;
    cold: Clamp = Clamp, Median3 = Median3, BitSelect = BitSelect
}

/// Looks up the loop for the type behind an integer scalar.
macro_rules! for_int {
    ($ty:expr, $table:ident($op:expr, $isa:expr)) => {
        match $ty {
            Scalar::I8 => $table::narrow::<i8>($op, $isa),
            Scalar::U8 => $table::narrow::<u8>($op, $isa),
            Scalar::I16 => $table::narrow::<i16>($op, $isa),
            Scalar::U16 => $table::narrow::<u16>($op, $isa),
            Scalar::I32 => $table::wide::<i32>($op, $isa),
            Scalar::U32 => $table::wide::<u32>($op, $isa),
            Scalar::I64 => $table::wide::<i64>($op, $isa),
            Scalar::U64 => $table::wide::<u64>($op, $isa),
            _ => None,
        }
    };
}

/// The loop of a unary integer or `bool` operation.
pub(crate) fn unary(op: UnaryOp, ty: Scalar, isa: Isa) -> Option<Fn1> {
    if ty == Scalar::Bool {
        return match op {
            UnaryOp::Not => Some(un::<Bool, BoolNot>(isa)),
            _ => None,
        };
    }
    for_int!(ty, unary_table(op, isa))
}

/// The loop of a binary integer or `bool` operation.
pub(crate) fn binary(op: BinaryOp, ty: Scalar, isa: Isa) -> Option<Fn2> {
    if ty == Scalar::Bool {
        return match op {
            BinaryOp::And | BinaryOp::Mul | BinaryOp::Min => Some(bin::<u8, u8, And>(isa)),
            BinaryOp::Or | BinaryOp::Add | BinaryOp::Max => Some(bin::<u8, u8, Or>(isa)),
            BinaryOp::Xor => Some(bin::<u8, u8, Xor>(isa)),
            _ => None,
        };
    }
    for_int!(ty, binary_table(op, isa))
}

/// The loop of a ternary integer operation.
pub(crate) fn ternary(op: TernaryOp, ty: Scalar, isa: Isa) -> Option<Fn3> {
    for_int!(ty, ternary_table(op, isa))
}

struct BoolNot;
impl Un<Bool> for BoolNot {
    type Out = Bool;
    #[inline(always)]
    fn apply(a: Bool) -> Bool {
        Bool(a.0 ^ 1)
    }
}
