//! Element types of registers, and how they convert.

use super::{CHUNK, PORTABLE};

/// binary16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct F16(pub u16);

/// bfloat16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Bf16(pub u16);

/// A truth value: 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Bool(pub u8);

impl Bool {
    #[inline(always)]
    pub fn new(value: bool) -> Self {
        Bool(value as u8)
    }
}

/// A float that computes in `f32` and rounds each result.
pub(crate) trait Float: Copy + 'static {
    fn widen(self) -> f32;
    fn narrow(value: f32) -> Self;
    /// Rounds an exact (or nearly exact) `f64` once.
    fn narrow64(value: f64) -> Self;
    fn bits(self) -> u32;
    fn from_bits(bits: u32) -> Self;
    const SIGN: u32;
    /// Mask of the exponent field.
    const EXPONENT: u32;
}

impl Float for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn narrow64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
    const SIGN: u32 = 1 << 31;
    const EXPONENT: u32 = 0x7f80_0000;
}

impl Float for F16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        // Shift into the exponent and mantissa of an f32 and rescale: exact for subnormals too.
        let bits = u32::from(self.0);
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | special | ((bits & 0x8000) << 16))
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let a = bits & 0x7fff_ffff;
        // Rounds to a multiple of 2^-24 by adding a number whose unit in the last place is that.
        const MAGIC: u32 = ((127 - 15) + (23 - 10) + 1) << 23;
        let small = (f32::from_bits(a) + f32::from_bits(MAGIC))
            .to_bits()
            .wrapping_sub(MAGIC);
        let normal = a
            .wrapping_add((15u32.wrapping_sub(127) << 23).wrapping_add(0xfff))
            .wrapping_add((a >> 13) & 1)
            >> 13;
        let special = if a > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
        let finite = if a < 113 << 23 { small } else { normal };
        let out = if a >= 0x4780_0000 { special } else { finite };
        F16((out | sign) as u16)
    }
    #[inline(always)]
    fn narrow64(value: f64) -> Self {
        F16::narrow(round_to_odd(value))
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.0)
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        F16(bits as u16)
    }
    const SIGN: u32 = 1 << 15;
    const EXPONENT: u32 = 0x7c00;
}

impl Float for Bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let nan = (bits >> 16) | 0x40;
        Bf16(if value.is_nan() { nan } else { rounded } as u16)
    }
    #[inline(always)]
    fn narrow64(value: f64) -> Self {
        Bf16::narrow(round_to_odd(value))
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.0)
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        Bf16(bits as u16)
    }
    const SIGN: u32 = 1 << 15;
    const EXPONENT: u32 = 0x7f80;
}

/// `f64` → `f32` such that a second rounding to 22 bits or less gives the correctly rounded result.
#[inline(always)]
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = near as f64;
    let bits = near.to_bits();
    // Inexact results get an odd last bit: of the two neighbours, the odd one.
    let toward_zero = if back.abs() > value.abs() {
        bits.wrapping_sub(1)
    } else {
        bits
    };
    let odd = f32::from_bits(toward_zero | 1);
    if back == value || value.is_nan() || value.is_infinite() {
        near
    } else {
        odd
    }
}

/// Value conversion as C++ does it, with saturation where C++ leaves it undefined.
pub(crate) trait Cast<To>: Sized {
    fn cast(self) -> To;

    /// A chunk by instructions that the compiler does not find by itself, as [`Un::chunk`](super::Un::chunk).
    ///
    /// # Safety
    /// The machine must have the instruction set.
    #[inline(always)]
    unsafe fn cast_chunk<const ISA: u8>(_out: &mut [To; CHUNK], _a: &[Self; CHUNK]) -> bool {
        false
    }
}

macro_rules! plain_casts {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*)*};
}

plain_casts! {
    i8 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    u8 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    i16 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    u16 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    i32 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    u32 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    i64 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    u64 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
    f32 => i8, u8, i16, u16, i32, u32, i64, u64, f32;
}

macro_rules! integer_casts {
    ($($t:ty),*) => {$(
        impl Cast<F16> for $t {
            #[inline(always)]
            fn cast(self) -> F16 {
                // Past ±65536 every value is an infinity, and up to there an f32 is exact.
                let bounded = (self as i128).clamp(-70000, 70000) as i32;
                F16::narrow(bounded as f32)
            }
        }
        impl Cast<Bf16> for $t {
            #[inline(always)]
            fn cast(self) -> Bf16 {
                Bf16::narrow64(self as f64)
            }
        }
        impl Cast<$t> for F16 {
            #[inline(always)]
            fn cast(self) -> $t {
                self.widen() as $t
            }
        }
        impl Cast<$t> for Bf16 {
            #[inline(always)]
            fn cast(self) -> $t {
                self.widen() as $t
            }
        }
        impl Cast<Bool> for $t {
            #[inline(always)]
            fn cast(self) -> Bool {
                Bool::new(self != 0)
            }
        }
        impl Cast<$t> for Bool {
            #[inline(always)]
            fn cast(self) -> $t {
                self.0 as $t
            }
        }
    )*};
}

integer_casts!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! float_casts {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                <$to>::narrow(self.widen())
            }
        }
    )*)*};
}

float_casts! {
    F16 => F16, Bf16;
    Bf16 => F16, Bf16, f32;
    f32 => Bf16;
}

impl Cast<f32> for F16 {
    #[inline(always)]
    fn cast(self) -> f32 {
        self.widen()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn cast_chunk<const ISA: u8>(out: &mut [f32; CHUNK], a: &[F16; CHUNK]) -> bool {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        if ISA == PORTABLE {
            return false;
        }
        // SAFETY: the machine has F16C (the trait's contract); a chunk is four vectors.
        unsafe {
            for at in [0, 8, 16, 24] {
                let halves = _mm_loadu_si128(a.as_ptr().add(at).cast());
                _mm256_storeu_ps(out.as_mut_ptr().add(at), _mm256_cvtph_ps(halves));
            }
        }
        true
    }
}

impl Cast<F16> for f32 {
    #[inline(always)]
    fn cast(self) -> F16 {
        F16::narrow(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn cast_chunk<const ISA: u8>(out: &mut [F16; CHUNK], a: &[f32; CHUNK]) -> bool {
        use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};
        if ISA == PORTABLE {
            return false;
        }
        // SAFETY: as above.
        unsafe {
            for at in [0, 8, 16, 24] {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(a.as_ptr().add(at)));
                _mm_storeu_si128(out.as_mut_ptr().add(at).cast(), halves);
            }
        }
        true
    }
}

macro_rules! float_bool_casts {
    ($($t:ty),*) => {$(
        impl Cast<Bool> for $t {
            #[inline(always)]
            fn cast(self) -> Bool {
                Bool::new(self.widen() != 0.0)
            }
        }
        impl Cast<$t> for Bool {
            #[inline(always)]
            fn cast(self) -> $t {
                <$t>::narrow(self.0 as f32)
            }
        }
    )*};
}

float_bool_casts!(F16, Bf16, f32);

impl Cast<Bool> for Bool {
    #[inline(always)]
    fn cast(self) -> Bool {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_bfloat_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (a, b) = (F16(bits).widen(), half::f16::from_bits(bits).to_f32());
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
            if !b.is_nan() {
                assert_eq!(F16::narrow(b).0, bits);
                // Just past and just before halfway to the next.
                for nudge in [1i32, -1, 0x0fff, 0x1000, 0x1001] {
                    let x = f32::from_bits((b.to_bits() as i32).wrapping_add(nudge) as u32);
                    if x.is_nan() {
                        continue;
                    }
                    assert_eq!(F16::narrow(x).0, half::f16::from_f32(x).to_bits(), "{x}");
                    assert_eq!(F16::narrow64(f64::from(x)).0, half::f16::from_f32(x).to_bits());
                }
            }
            let (a, b) = (Bf16(bits).widen(), half::bf16::from_bits(bits).to_f32());
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
            for nudge in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits(b.to_bits().wrapping_add(nudge));
                if x.is_nan() {
                    assert!(Bf16::narrow(x).widen().is_nan());
                } else {
                    assert_eq!(Bf16::narrow(x).0, half::bf16::from_f32(x).to_bits());
                }
            }
        }
    }
}
