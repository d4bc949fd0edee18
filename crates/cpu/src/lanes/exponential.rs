//! Exponentials by chunks: of a number, and of a difference.

use super::{Bin, CHUNK, Fn2, Isa, Un, bin};
use crate::math;

const EXP: u8 = 1;
const EXP2: u8 = 2;

/// A chunk by the vectors of an instruction set.
macro_rules! by_vectors {
    ($name:ident, $features:literal, $width:literal, $math:ident, $zero:ident, $load:ident, $store:ident, $sub:ident) => {
        /// # Safety
        /// The machine must have the instructions.
        #[cfg(target_arch = "x86_64")]
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $name<const FUNCTION: u8>(out: &mut [f32; CHUNK], a: &[f32; CHUNK], b: Option<&[f32; CHUNK]>) {
            use std::arch::x86_64::*;
            // SAFETY: a chunk is that many vectors.
            unsafe {
                let mut x = [$zero(); CHUNK / $width];
                for (i, x) in x.iter_mut().enumerate() {
                    *x = $load(a.as_ptr().add($width * i));
                    if let Some(b) = b {
                        *x = $sub(*x, $load(b.as_ptr().add($width * i)));
                    }
                }
                let y = match FUNCTION {
                    EXP => math::$math::exp(x),
                    _ => math::$math::exp2(x),
                };
                for (i, &y) in y.iter().enumerate() {
                    $store(out.as_mut_ptr().add($width * i), y);
                }
            }
        }
    };
}

by_vectors!(
    by_eights,
    "avx2,fma",
    8,
    avx2,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_sub_ps
);
by_vectors!(
    by_sixteens,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    16,
    avx512,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_sub_ps
);

/// A chunk of `f(a)` or `f(a − b)`, if there are vectors for it.
///
/// # Safety
/// The machine must have the instruction set.
#[inline(always)]
unsafe fn chunk<const FUNCTION: u8, const ISA: u8>(
    out: &mut [f32; CHUNK],
    a: &[f32; CHUNK],
    b: Option<&[f32; CHUNK]>,
) -> bool {
    // SAFETY: the caller's contract.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        match ISA {
            super::AVX2 => by_eights::<FUNCTION>(out, a, b),
            super::AVX512 => by_sixteens::<FUNCTION>(out, a, b),
            _ => return false,
        }
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (out, a, b);
        false
    }
}

/// e^x and 2^x.
pub(super) struct Exponential<const FUNCTION: u8>;
pub(super) type Exp = Exponential<EXP>;
pub(super) type Exp2 = Exponential<EXP2>;

#[inline(always)]
fn plain<const FUNCTION: u8>(x: f32) -> f32 {
    match FUNCTION {
        EXP => math::exp(x),
        _ => math::exp2(x),
    }
}

impl<const FUNCTION: u8> Un<f32> for Exponential<FUNCTION> {
    type Out = f32;

    #[inline(always)]
    fn apply(a: f32) -> f32 {
        plain::<FUNCTION>(a)
    }

    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(out: &mut [f32; CHUNK], a: &[f32; CHUNK]) -> bool {
        // SAFETY: the trait's contract.
        unsafe { chunk::<FUNCTION, ISA>(out, a, None) }
    }
}

impl<const FUNCTION: u8> Bin<f32> for Exponential<FUNCTION> {
    type Out = f32;

    #[inline(always)]
    fn apply(a: f32, b: f32) -> f32 {
        plain::<FUNCTION>(a - b)
    }

    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(out: &mut [f32; CHUNK], a: &[f32; CHUNK], b: &[f32; CHUNK]) -> bool {
        // SAFETY: the trait's contract.
        unsafe { chunk::<FUNCTION, ISA>(out, a, Some(b)) }
    }
}

/// `exp(a − b)`, as softmax has it: one loop instead of two, the same result.
pub(crate) fn exp_of_difference(isa: Isa) -> Fn2 {
    bin::<f32, f32, Exp>(isa)
}

/// `exp2(a − b)`.
pub(crate) fn exp2_of_difference(isa: Isa) -> Fn2 {
    bin::<f32, f32, Exp2>(isa)
}
