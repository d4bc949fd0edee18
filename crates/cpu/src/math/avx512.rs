//! Exponentials by AVX-512, which has an instruction for `x · 2^n` that gets overflow and subnormal results right, and one for what a
//! number is more than the nearest integer. The polynomials and the results are those of `exponential`.

// Loops instead of `map`, for the reason in `avx2`.

use std::arch::x86_64::*;

use super::exponential::{EXP, EXP2, LN_2_PARTS, MAGIC};

/// `Σ cᵢ · rⁿ⁻ⁱ` of some vectors, coefficients of the highest power first.
#[inline]
#[target_feature(enable = "avx512f")]
fn polynomial<const C: usize, const N: usize>(coefficients: [f32; C], r: &[__m512; N]) -> [__m512; N] {
    let mut p = [_mm512_set1_ps(coefficients[0]); N];
    for c in &coefficients[1..] {
        for i in 0..N {
            p[i] = _mm512_fmadd_ps(p[i], r[i], _mm512_set1_ps(*c));
        }
    }
    p
}

/// `p · r + 1`.
#[inline]
#[target_feature(enable = "avx512f")]
fn more_than_one<const N: usize>(mut p: [__m512; N], r: &[__m512; N]) -> [__m512; N] {
    for i in 0..N {
        p[i] = _mm512_fmadd_ps(p[i], r[i], _mm512_set1_ps(1.0));
    }
    p
}

/// 2^x of some vectors: several hide each other's latency.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn exp2<const N: usize>(x: [__m512; N]) -> [__m512; N] {
    let mut r = x;
    for r in &mut r {
        // Zero for infinities, so that they stay what they are as integers.
        *r = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(*r);
    }
    let mut p = more_than_one(polynomial(EXP2, &r), &r);
    for i in 0..N {
        p[i] = _mm512_scalef_ps(p[i], _mm512_sub_ps(x[i], r[i]));
    }
    p
}

/// e^x of some vectors.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn exp<const N: usize>(x: [__m512; N]) -> [__m512; N] {
    let (magic, log2_e) = (_mm512_set1_ps(MAGIC), _mm512_set1_ps(std::f32::consts::LOG2_E));
    let [high, low] = [_mm512_set1_ps(LN_2_PARTS[0]), _mm512_set1_ps(LN_2_PARTS[1])];
    let (mut n, mut r) = (x, x);
    for i in 0..N {
        // NaN stays, since both instructions give their second operand where there is one.
        let bounded = _mm512_min_ps(_mm512_set1_ps(89.0), _mm512_max_ps(_mm512_set1_ps(-105.0), x[i]));
        n[i] = _mm512_sub_ps(_mm512_fmadd_ps(bounded, log2_e, magic), magic);
        r[i] = _mm512_fnmadd_ps(n[i], low, _mm512_fnmadd_ps(n[i], high, bounded));
    }
    let mut p = more_than_one(more_than_one(polynomial(EXP, &r), &r), &r);
    for i in 0..N {
        p[i] = _mm512_scalef_ps(p[i], n[i]);
    }
    p
}
