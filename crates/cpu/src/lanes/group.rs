//! Sums and extrema of SIMD-groups of floats, all lanes taking part: the tree of [`crate::exec`]'s generic reduction, in vectors.

use anymetal_ir::GroupOp;

use super::Isa;

/// Reduces chunks and writes each result to all lanes of its chunk: (output, input, chunks). The input is apart from the output.
pub(crate) type GroupFn = unsafe fn(*mut f32, *const f32, usize);

/// The loop for an operation, where there is one.
pub(crate) fn group(op: GroupOp, isa: Isa) -> Option<GroupFn> {
    match (isa, op) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2 | Isa::Avx512, GroupOp::Sum) => Some(x86::sum),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2 | Isa::Avx512, GroupOp::Max) => Some(x86::max),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2 | Isa::Avx512, GroupOp::Min) => Some(x86::min),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::lanes::CHUNK;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }

    /// The greater one; the other one where one is NaN.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn greater(a: __m256, b: __m256) -> __m256 {
        _mm256_blendv_ps(_mm256_max_ps(b, a), b, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a))
    }

    /// The lesser one; the other one where one is NaN.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn lesser(a: __m256, b: __m256) -> __m256 {
        _mm256_blendv_ps(_mm256_min_ps(b, a), b, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a))
    }

    macro_rules! reduction {
        ($name:ident = $op:ident) => {
            /// Lane i with i + 16, then with i + 8, i + 4, i + 2 and i + 1.
            #[target_feature(enable = "avx2")]
            pub unsafe fn $name(out: *mut f32, from: *const f32, chunks: usize) {
                for chunk in 0..chunks {
                    // SAFETY: the caller has all chunks readable and writable.
                    unsafe {
                        let from = from.add(chunk * CHUNK);
                        let part = |at: usize| _mm256_loadu_ps(from.add(at));
                        let eight = $op($op(part(0), part(16)), $op(part(8), part(24)));
                        let four = $op(eight, _mm256_permute2f128_ps::<1>(eight, eight));
                        let two = $op(four, _mm256_permute_ps::<0b01_00_11_10>(four));
                        let one = $op(two, _mm256_permute_ps::<0b10_11_00_01>(two));
                        let all = _mm256_broadcastss_ps(_mm256_castps256_ps128(one));
                        for at in [0, 8, 16, 24] {
                            _mm256_storeu_ps(out.add(chunk * CHUNK + at), all);
                        }
                    }
                }
            }
        };
    }

    reduction!(sum = add);
    reduction!(max = greater);
    reduction!(min = lesser);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::CHUNK;

    #[test]
    fn trees_of_three_groups() {
        let mut values: Vec<f32> = (0..3 * CHUNK).map(|i| ((i * 37 % 101) as f32 - 50.0) / 3.0).collect();
        values[40] = f32::NAN;
        values[70] = f32::INFINITY;
        for op in [GroupOp::Sum, GroupOp::Max, GroupOp::Min] {
            let Some(f) = group(op, Isa::detect()) else { continue };
            let mut out = vec![0f32; 3 * CHUNK];
            // SAFETY: both hold three chunks.
            unsafe { f(out.as_mut_ptr(), values.as_ptr(), 3) };
            for (group, out) in values.chunks(CHUNK).zip(out.chunks(CHUNK)) {
                let mut tree = group.to_vec();
                while tree.len() > 1 {
                    let (low, high) = tree.split_at(tree.len() / 2);
                    tree = low
                        .iter()
                        .zip(high)
                        .map(|(&a, &b)| match op {
                            GroupOp::Sum => a + b,
                            GroupOp::Max => a.max(b),
                            _ => a.min(b),
                        })
                        .collect();
                }
                for &got in out {
                    assert!(
                        got.to_bits() == tree[0].to_bits() || (got.is_nan() && tree[0].is_nan()),
                        "{op:?}"
                    );
                }
            }
        }
    }
}
