//! Exponentials by AVX2, four vectors at once. Unless an argument is large, the integer part is added to the exponent of the polynomial, a third of the
//! instructions that the portable form needs. The polynomials and the results are those of `exponential`.
//!
//! Loops instead of `map`: a closure has the instruction set of its caller, which `map` has not, and may end up as a call.

use std::arch::x86_64::*;

use super::exponential::{EXP, EXP2, LN_2_PARTS, MAGIC};

/// Four vectors, which hide each other's latency.
pub(crate) type Four = [__m256; 4];

/// `Σ cᵢ · rⁿ⁻ⁱ`, coefficients of the highest power first.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn polynomial<const N: usize>(coefficients: [f32; N], r: &Four) -> Four {
    let mut p = [_mm256_set1_ps(coefficients[0]); 4];
    for c in &coefficients[1..] {
        for i in 0..4 {
            p[i] = _mm256_fmadd_ps(p[i], r[i], _mm256_set1_ps(*c));
        }
    }
    p
}

/// `p · r + 1`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn more_than_one(mut p: Four, r: &Four) -> Four {
    for i in 0..4 {
        p[i] = _mm256_fmadd_ps(p[i], r[i], _mm256_set1_ps(1.0));
    }
    p
}

/// Is the magnitude of an argument, or NaN, above a limit?
#[inline]
#[target_feature(enable = "avx2,fma")]
fn above(x: &Four, limit: f32) -> bool {
    // Magnitudes are ordered as integers, with NaN above all.
    let mut most = _mm256_setzero_si256();
    for &x in x {
        let magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(i32::MAX));
        most = _mm256_max_epi32(most, magnitude);
    }
    let above = _mm256_cmpgt_epi32(most, _mm256_set1_epi32(limit.to_bits() as i32));
    _mm256_movemask_ps(_mm256_castsi256_ps(above)) != 0
}

/// `p · 2^n` for integers that stand in numbers [`MAGIC`] was added to, where the result is a normal number.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn scaled(mut p: Four, shifted: &Four) -> Four {
    for i in 0..4 {
        let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted[i]));
        p[i] = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p[i]), exponent));
    }
    p
}

/// `2^n` for −126 ≤ n ≤ 127.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn power_of_two(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
}

/// As [`scaled`] for every integer from −151 to 129, in two steps.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn scaled_far(mut p: Four, shifted: &Four) -> Four {
    for i in 0..4 {
        let n = _mm256_sub_epi32(
            _mm256_castps_si256(shifted[i]),
            _mm256_set1_epi32(MAGIC.to_bits() as i32),
        );
        let half = _mm256_srai_epi32::<1>(n);
        let rest = _mm256_sub_epi32(n, half);
        p[i] = _mm256_mul_ps(_mm256_mul_ps(p[i], power_of_two(half)), power_of_two(rest));
    }
    p
}

/// Clamps; NaN stays, since both instructions give their second operand where there is one.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn clamp(mut x: Four, low: f32, high: f32) -> Four {
    for x in &mut x {
        *x = _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), *x));
    }
    x
}

/// Polynomials `p` and numbers that [`MAGIC`] was added to, such that 2^x is `p · 2^n`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn parts_of_exp2(x: &Four) -> (Four, Four) {
    let magic = _mm256_set1_ps(MAGIC);
    let (mut shifted, mut r) = (*x, *x);
    for i in 0..4 {
        shifted[i] = _mm256_add_ps(x[i], magic);
        r[i] = _mm256_sub_ps(x[i], _mm256_sub_ps(shifted[i], magic));
    }
    (more_than_one(polynomial(EXP2, &r), &r), shifted)
}

/// The same of e^x.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn parts_of_exp(x: &Four) -> (Four, Four) {
    let (magic, log2_e) = (_mm256_set1_ps(MAGIC), _mm256_set1_ps(std::f32::consts::LOG2_E));
    let [high, low] = [_mm256_set1_ps(LN_2_PARTS[0]), _mm256_set1_ps(LN_2_PARTS[1])];
    let (mut shifted, mut r) = (*x, *x);
    for i in 0..4 {
        shifted[i] = _mm256_fmadd_ps(x[i], log2_e, magic);
        let n = _mm256_sub_ps(shifted[i], magic);
        r[i] = _mm256_fnmadd_ps(n, low, _mm256_fnmadd_ps(n, high, x[i]));
    }
    (more_than_one(more_than_one(polynomial(EXP, &r), &r), &r), shifted)
}

#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn far_exp2(x: &Four) -> Four {
    let (p, shifted) = parts_of_exp2(&clamp(*x, -151.0, 129.0));
    scaled_far(p, &shifted)
}

#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn far_exp(x: &Four) -> Four {
    let (p, shifted) = parts_of_exp(&clamp(*x, -105.0, 89.0));
    scaled_far(p, &shifted)
}

/// 2^x.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn exp2(x: Four) -> Four {
    if above(&x, 125.0) {
        return far_exp2(&x);
    }
    let (p, shifted) = parts_of_exp2(&x);
    scaled(p, &shifted)
}

/// e^x.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn exp(x: Four) -> Four {
    if above(&x, 86.0) {
        return far_exp(&x);
    }
    let (p, shifted) = parts_of_exp(&x);
    scaled(p, &shifted)
}
