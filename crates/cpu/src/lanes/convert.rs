//! Conversions, comparisons, selections and the bytes behind masks.

use anymetal_formats::ElementFormat;
use anymetal_ir::{CompareOp, Scalar};

use super::scalar::{Bf16, Bool, Cast, F16, Float};
use super::{Bin, CHUNK, Fn1, Fn2, Fn3, Isa, Src, Ter, Un, bin, plain_bin, plain_un, ter, un};

struct To<T>(std::marker::PhantomData<T>);
impl<A: Cast<T>, T: Copy> Un<A> for To<T> {
    type Out = T;
    #[inline(always)]
    fn apply(a: A) -> T {
        a.cast()
    }
    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(out: &mut [T; CHUNK], a: &[A; CHUNK]) -> bool {
        // SAFETY: the caller's promise is the function's.
        unsafe { A::cast_chunk::<ISA>(out, a) }
    }
}

/// Conversions to all types, without vector code of their own.
fn plain_from<A>(to: Scalar) -> Fn1
where
    A: Copy
        + 'static
        + Cast<Bool>
        + Cast<i8>
        + Cast<u8>
        + Cast<i16>
        + Cast<u16>
        + Cast<i32>
        + Cast<u32>
        + Cast<i64>
        + Cast<u64>
        + Cast<F16>
        + Cast<Bf16>
        + Cast<f32>,
{
    match to {
        Scalar::Bool => plain_un::<A, To<Bool>>(),
        Scalar::I8 => plain_un::<A, To<i8>>(),
        Scalar::U8 => plain_un::<A, To<u8>>(),
        Scalar::I16 => plain_un::<A, To<i16>>(),
        Scalar::U16 => plain_un::<A, To<u16>>(),
        Scalar::I32 => plain_un::<A, To<i32>>(),
        Scalar::U32 => plain_un::<A, To<u32>>(),
        Scalar::I64 => plain_un::<A, To<i64>>(),
        Scalar::U64 => plain_un::<A, To<u64>>(),
        Scalar::F16 => plain_un::<A, To<F16>>(),
        Scalar::BF16 => plain_un::<A, To<Bf16>>(),
        Scalar::F32 => plain_un::<A, To<f32>>(),
    }
}

/// The half in the bits of a word from `SHIFT` on, as `f32`.
struct HalfOfWord<const SHIFT: u32>;

impl<const SHIFT: u32> Un<u32> for HalfOfWord<SHIFT> {
    type Out = f32;

    #[inline(always)]
    fn apply(word: u32) -> f32 {
        F16((word >> SHIFT) as u16).widen()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(out: &mut [f32; CHUNK], a: &[u32; CHUNK]) -> bool {
        use std::arch::x86_64::*;
        if ISA == super::PORTABLE {
            return false;
        }
        // SAFETY: the machine has AVX2 and F16C (the trait's contract); a chunk is four vectors.
        unsafe {
            for at in [0, 8, 16, 24] {
                let words = _mm256_loadu_si256(a.as_ptr().add(at).cast());
                let halves = match SHIFT {
                    0 => _mm256_and_si256(words, _mm256_set1_epi32(0xffff)),
                    _ => _mm256_srli_epi32::<16>(words),
                };
                let low = _mm256_castsi256_si128(halves);
                let packed = _mm_packus_epi32(low, _mm256_extracti128_si256::<1>(halves));
                _mm256_storeu_ps(out.as_mut_ptr().add(at), _mm256_cvtph_ps(packed));
            }
        }
        true
    }
}

/// The loop that widens the lower (`shift` 0) or upper (16) half of a word.
pub(crate) fn half_of_word(shift: u32, isa: Isa) -> Option<Fn1> {
    match shift {
        0 => Some(un::<u32, HalfOfWord<0>>(isa)),
        16 => Some(un::<u32, HalfOfWord<16>>(isa)),
        _ => None,
    }
}

/// The loop that converts one scalar type to another.
pub(crate) fn convert(source: Scalar, to: Scalar, isa: Isa) -> Fn1 {
    use Scalar::*;
    // The frequent pairs have vector code of their own.
    match (source, to) {
        (F16, F32) => return un::<super::scalar::F16, To<f32>>(isa),
        (BF16, F32) => return un::<Bf16, To<f32>>(isa),
        (F32, F16) => return un::<f32, To<super::scalar::F16>>(isa),
        (F32, BF16) => return un::<f32, To<Bf16>>(isa),
        (F32, I32) => return un::<f32, To<i32>>(isa),
        (F32, U32) => return un::<f32, To<u32>>(isa),
        (I32, F32) => return un::<i32, To<f32>>(isa),
        (U32, F32) => return un::<u32, To<f32>>(isa),
        (U8, F32) => return un::<u8, To<f32>>(isa),
        (I8, F32) => return un::<i8, To<f32>>(isa),
        (I32, I64 | U64) => return un::<i32, To<i64>>(isa),
        (U32, I64 | U64) => return un::<u32, To<u64>>(isa),
        (I64 | U64, I32 | U32) => return un::<u64, To<u32>>(isa),
        (U16, I32 | U32) => return un::<u16, To<u32>>(isa),
        _ => {}
    }
    match source {
        Bool => plain_from::<super::scalar::Bool>(to),
        I8 => plain_from::<i8>(to),
        U8 => plain_from::<u8>(to),
        I16 => plain_from::<i16>(to),
        U16 => plain_from::<u16>(to),
        I32 => plain_from::<i32>(to),
        U32 => plain_from::<u32>(to),
        I64 => plain_from::<i64>(to),
        U64 => plain_from::<u64>(to),
        F16 => plain_from::<super::scalar::F16>(to),
        BF16 => plain_from::<Bf16>(to),
        F32 => plain_from::<f32>(to),
    }
}

struct Sat<T>(std::marker::PhantomData<T>);

macro_rules! saturating {
    ($($from:ty => $($to:ty = $scalar:ident),*;)*) => {
        $($(
            impl Un<$from> for Sat<($from, $to)> {
                type Out = $to;
                #[inline(always)]
                fn apply(a: $from) -> $to {
                    (a as i128).clamp(<$to>::MIN as i128, <$to>::MAX as i128) as $to
                }
            }
        )*)*

        /// The loop that converts one integer type to another, clamping to the target's range.
        pub(crate) fn convert_saturating(source: Scalar, to: Scalar, isa: Isa) -> Fn1 {
            $(
                if source == <$from as Named>::SCALAR {
                    match to {
                        $(Scalar::$scalar => return plain_un::<$from, Sat<($from, $to)>>(),)*
                        _ => {}
                    }
                }
            )*
            convert(source, to, isa)
        }
    };
}

trait Named {
    const SCALAR: Scalar;
}
macro_rules! named {
    ($($t:ty = $s:ident),*) => {$(impl Named for $t { const SCALAR: Scalar = Scalar::$s; })*};
}
named!(
    i8 = I8,
    u8 = U8,
    i16 = I16,
    u16 = U16,
    i32 = I32,
    u32 = U32,
    i64 = I64,
    u64 = U64
);

saturating! {
    i8 => u8 = U8, u16 = U16, u32 = U32, u64 = U64;
    u8 => i8 = I8;
    i16 => i8 = I8, u8 = U8, u16 = U16, u32 = U32, u64 = U64;
    u16 => i8 = I8, u8 = U8, i16 = I16;
    i32 => i8 = I8, u8 = U8, i16 = I16, u16 = U16, u32 = U32, u64 = U64;
    u32 => i8 = I8, u8 = U8, i16 = I16, u16 = U16, i32 = I32;
    i64 => i8 = I8, u8 = U8, i16 = I16, u16 = U16, i32 = I32, u32 = U32, u64 = U64;
    u64 => i8 = I8, u8 = U8, i16 = I16, u16 = U16, i32 = I32, u32 = U32, i64 = I64;
}

macro_rules! comparisons {
    ($($name:ident = $op:tt),*) => {
        $(
            struct $name;
            impl<T: PartialOrd + Copy> Bin<T> for $name {
                type Out = Bool;
                #[inline(always)]
                fn apply(a: T, b: T) -> Bool { Bool::new(a $op b) }
            }
        )*
        fn compare_for<T: PartialOrd + Copy + 'static>(op: CompareOp, isa: Isa) -> Fn2 {
            match op {
                $(CompareOp::$name => bin::<T, T, $name>(isa),)*
            }
        }
        fn compare_plain<T: PartialOrd + Copy + 'static>(op: CompareOp) -> Fn2 {
            match op {
                $(CompareOp::$name => plain_bin::<T, T, $name>(),)*
            }
        }
        $(
            impl Bin<F16> for $name {
                type Out = Bool;
                #[inline(always)]
                fn apply(a: F16, b: F16) -> Bool { Bool::new(a.widen() $op b.widen()) }
            }
            impl Bin<Bf16> for $name {
                type Out = Bool;
                #[inline(always)]
                fn apply(a: Bf16, b: Bf16) -> Bool { Bool::new(a.widen() $op b.widen()) }
            }
        )*
        fn compare_half(op: CompareOp, isa: Isa) -> Fn2 {
            match op {
                $(CompareOp::$name => bin::<F16, F16, $name>(isa),)*
            }
        }
        fn compare_bfloat(op: CompareOp, isa: Isa) -> Fn2 {
            match op {
                $(CompareOp::$name => bin::<Bf16, Bf16, $name>(isa),)*
            }
        }
    };
}

comparisons!(Eq = ==, Ne = !=, Lt = <, Le = <=, Gt = >, Ge = >=);

/// The loop of a comparison; pointers compare as `u64`.
pub(crate) fn compare(op: CompareOp, ty: Scalar, isa: Isa) -> Fn2 {
    match ty {
        Scalar::Bool | Scalar::U8 => compare_plain::<u8>(op),
        Scalar::I8 => compare_plain::<i8>(op),
        Scalar::I16 => compare_plain::<i16>(op),
        Scalar::U16 => compare_plain::<u16>(op),
        Scalar::I32 => compare_for::<i32>(op, isa),
        Scalar::U32 => compare_for::<u32>(op, isa),
        Scalar::I64 => compare_for::<i64>(op, isa),
        Scalar::U64 => compare_for::<u64>(op, isa),
        Scalar::F16 => compare_half(op, isa),
        Scalar::BF16 => compare_bfloat(op, isa),
        Scalar::F32 => compare_for::<f32>(op, isa),
    }
}

struct Select;
impl<T: Copy> Ter<u8, T, T> for Select {
    type Out = T;
    #[inline(always)]
    fn apply(condition: u8, then: T, otherwise: T) -> T {
        if condition != 0 { then } else { otherwise }
    }
}

/// The loop of `condition ? a : b` for elements of a size in bytes.
pub(crate) fn select(size: u32, isa: Isa) -> Fn3 {
    match size {
        1 => ter::<u8, u8, u8, Select>(isa),
        2 => ter::<u8, u16, u16, Select>(isa),
        4 => ter::<u8, u32, u32, Select>(isa),
        _ => ter::<u8, u64, u64, Select>(isa),
    }
}

struct Copied;
impl<T: Copy> Un<T> for Copied {
    type Out = T;
    #[inline(always)]
    fn apply(a: T) -> T {
        a
    }
}

/// The loop that copies elements of a size in bytes.
pub(crate) fn copy(size: u32, isa: Isa) -> Fn1 {
    match size {
        1 => un::<u8, Copied>(isa),
        2 => un::<u16, Copied>(isa),
        4 => un::<u32, Copied>(isa),
        _ => un::<u64, Copied>(isa),
    }
}

struct Offset;
impl Bin<u64> for Offset {
    type Out = u64;
    #[inline(always)]
    fn apply(pointer: u64, offset: u64) -> u64 {
        offset_pointer(pointer, offset)
    }
}

/// A pointer moved by bytes. An offset that leaves 48 bits stays at the end that it leaves by, where no object reaches: the next
/// access is a fault, not some other element.
#[inline(always)]
pub(crate) fn offset_pointer(pointer: u64, offset: u64) -> u64 {
    const LOW: u64 = (1 << 48) - 1;
    const SIGN: u64 = 1 << 47;
    // The pointer's own offset, sign-extended, without a shift of signed numbers, which AVX2 lacks.
    let own = ((pointer & LOW) ^ SIGN).wrapping_sub(SIGN);
    let sum = own.wrapping_add(offset);
    let outside = sum.wrapping_add(SIGN) > LOW;
    // The upper end is a little lower than it could be, so that it is aligned for every type.
    let end = SIGN.wrapping_sub(4096 & (offset >> 63).wrapping_sub(1));
    (pointer & !LOW) | if outside { end } else { sum & LOW }
}

/// Pointer plus byte offset, see [`offset_pointer`].
pub(crate) fn pointer_offset(isa: Isa) -> Fn2 {
    bin::<u64, u64, Offset>(isa)
}

struct Diff;
impl Bin<u64> for Diff {
    type Out = i64;
    #[inline(always)]
    fn apply(a: u64, b: u64) -> i64 {
        // Sign-extend the difference of the offsets.
        ((a.wrapping_sub(b) << 16) as i64) >> 16
    }
}

/// Difference of two pointers in bytes.
pub(crate) fn pointer_diff(isa: Isa) -> Fn2 {
    bin::<u64, u64, Diff>(isa)
}

/// Merges `from` into `into` where the mask byte is not zero, over whole chunks.
pub(crate) type BlendFn = unsafe fn(usize, *mut u8, Src, *const u8);

#[inline(always)]
unsafe fn blend_body<T: Copy>(chunks: usize, into: *mut u8, from: Src, mask: *const u8) {
    #[inline(always)]
    fn chunk<T: Copy>(into: &mut [T; CHUNK], from: &[T; CHUNK], mask: &[u8; CHUNK]) {
        for i in 0..CHUNK {
            into[i] = if mask[i] != 0 { from[i] } else { into[i] };
        }
    }
    for c in 0..chunks {
        // SAFETY: the caller passes registers with `chunks` chunks (one where the step is zero) that do not overlap.
        unsafe {
            chunk::<T>(
                &mut *into.cast::<[T; CHUNK]>().add(c),
                &*from.ptr.add(c * from.step).cast(),
                &*mask.cast::<[u8; CHUNK]>().add(c),
            );
            super::chunk_ends();
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn blend_avx2<T: Copy>(chunks: usize, into: *mut u8, from: Src, mask: *const u8) {
    // SAFETY: the caller's promise is the body's.
    unsafe { blend_body::<T>(chunks, into, from, mask) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
unsafe fn blend_avx512<T: Copy>(chunks: usize, into: *mut u8, from: Src, mask: *const u8) {
    // SAFETY: the caller's promise is the body's.
    unsafe { blend_body::<T>(chunks, into, from, mask) }
}

fn blend_for<T: Copy + 'static>(isa: Isa) -> BlendFn {
    match isa {
        Isa::Portable => blend_body::<T>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => blend_avx2::<T>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => blend_avx512::<T>,
    }
}

/// The merge for elements of a size in bytes.
pub(crate) fn blend(size: u32, isa: Isa) -> BlendFn {
    match size {
        1 => blend_for::<u8>(isa),
        2 => blend_for::<u16>(isa),
        4 => blend_for::<u32>(isa),
        _ => blend_for::<u64>(isa),
    }
}

/// Writes the elements of rows that are each one value: (first row's value, column of the first element, columns of a row,
/// elements, destination).
pub(crate) type SpreadFn = unsafe fn(*const u8, usize, usize, usize, *mut u8);

#[inline(always)]
unsafe fn spread_body<T: Copy>(from: *const u8, column: usize, columns: usize, count: usize, to: *mut u8) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    let (mut at, mut row, mut rest) = (0, 0, columns - column);
    while at < count {
        let run = rest.min(count - at);
        // SAFETY: the caller passes a value for each row that an element is in, and room for all elements.
        unsafe {
            let value = *from.add(row);
            let mut chunks = to.add(at).cast::<[T; CHUNK]>();
            for _ in 0..run / CHUNK {
                *chunks = [value; CHUNK];
                chunks = chunks.add(1);
            }
            for i in run / CHUNK * CHUNK..run {
                *to.add(at + i) = value;
            }
        }
        at += run;
        row += 1;
        rest = columns;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn spread_avx2<T: Copy>(from: *const u8, column: usize, columns: usize, count: usize, to: *mut u8) {
    // SAFETY: the caller's promise is the body's.
    unsafe { spread_body::<T>(from, column, columns, count, to) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn spread_avx512<T: Copy>(from: *const u8, column: usize, columns: usize, count: usize, to: *mut u8) {
    // SAFETY: the caller's promise is the body's.
    unsafe { spread_body::<T>(from, column, columns, count, to) }
}

fn spread_for<T: Copy + 'static>(isa: Isa) -> SpreadFn {
    match isa {
        Isa::Portable => spread_body::<T>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => spread_avx2::<T>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => spread_avx512::<T>,
    }
}

/// The loop that repeats a value for each row, for elements of a size in bytes.
pub(crate) fn spread(size: u8, isa: Isa) -> SpreadFn {
    match size {
        1 => spread_for::<u8>(isa),
        2 => spread_for::<u16>(isa),
        4 => spread_for::<u32>(isa),
        _ => spread_for::<u64>(isa),
    }
}

macro_rules! encoders {
    ($($name:ident = $format:ident),*) => {
        $(
            struct $name;
            impl Un<f32> for $name {
                type Out = u8;
                #[inline(always)]
                fn apply(a: f32) -> u8 {
                    ElementFormat::$format.encode_with(f64::from(a), anymetal_formats::Saturation::Default) as u8
                }
            }
            impl Un<f32> for Sat<$name> {
                type Out = u8;
                #[inline(always)]
                fn apply(a: f32) -> u8 { ElementFormat::$format.encode_with(f64::from(a), anymetal_formats::Saturation::Clamp) as u8 }
            }
        )*
        /// The loop that encodes `f32` to codes of a format.
        pub(crate) fn encode(format: ElementFormat, saturate: bool) -> Option<Fn1> {
            match format {
                $(ElementFormat::$format => Some(if saturate {
                    plain_un::<f32, Sat<$name>>()
                } else {
                    plain_un::<f32, $name>()
                }),)*
                _ => None,
            }
        }
    };
}

encoders!(
    Int4B = Int4B,
    UInt4B = UInt4B,
    Int2B = Int2B,
    UInt2B = UInt2B,
    Fp4E2M1 = Fp4E2M1,
    Fp8E4M3 = Fp8E4M3,
    Fp8E5M2 = Fp8E5M2,
    Fp8UE8M0 = Fp8UE8M0
);
