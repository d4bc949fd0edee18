//! Elementary functions on `f32`, branch-free so that a loop over lanes becomes vector code.
//!
//! Each is within the precise ulp table of the Metal Shading Language specification (and therefore within the fast one).
//! Where single precision does not reach it, or would need tricks, a function computes in `f64`.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod exponential;
mod rounding;
mod trigonometric;

pub(crate) use exponential::{acosh, asinh, atanh, cosh, exp, exp2, exp10, log, log2, log10, pow, powr, sinh, tanh};
pub(crate) use rounding::{
    fdim, fmod, frexp_exponent, frexp_fraction, ilogb, ldexp, modf_fraction, round, rsqrt, saturate, sign,
};
pub(crate) use trigonometric::{
    LARGE, LARGE_FAST, acos, asin, atan, atan2, cos, cos_fast, cospi, large_cos, large_sin, large_tan, sin, sin_fast,
    sinpi, tan, tanpi,
};

#[cfg(test)]
mod tests;
