//! Sums of products whose second factors are small integers, or numbers of four bits, cut out of words: what decoding quantised
//! weights comes to.
//!
//! A chain `s = fma(x, number((word >> shift) & mask), s)` is one loop over the lanes: the sum stays in registers, and no code,
//! number or partial sum goes through memory. Each step rounds as the chain does.

use super::{CHUNK, Isa, Src};

/// Most steps of one loop.
pub(crate) const MAX_TERMS: usize = 32;

/// What a cut stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    /// Itself.
    Integer,
    /// A number of four bits; the mask is 15.
    E2m1,
}

/// The numbers that E2M1 codes stand for.
const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// One step of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// 32-bit words.
    pub word: Src,
    /// `f32` factors.
    pub x: Src,
    /// Below 32.
    pub shift: u32,
    /// At most 2³¹ − 1.
    pub mask: u32,
    pub code: Code,
}

/// The loop: chunks (0 for a uniform result), output, first sum, steps.
pub(crate) type DotFn = unsafe fn(usize, *mut u8, Src, &[Term]);

/// The loop for an instruction set.
pub(crate) fn dot(isa: Isa) -> DotFn {
    match isa {
        Isa::Portable => dot_portable,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::dot_avx2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::dot_avx512,
    }
}

// SAFETY (of all): as for the loops of [`super`]: sources hold `chunks` chunks, or one if their step is zero or `chunks` is.

unsafe fn dot_portable(chunks: usize, out: *mut u8, sum: Src, terms: &[Term]) {
    for c in 0..chunks.max(1) {
        // SAFETY: see above.
        unsafe {
            let out = &mut *out.cast::<[f32; CHUNK]>().add(c);
            *out = *sum.ptr.add(c * sum.step).cast::<[f32; CHUNK]>();
            for term in terms {
                let words = &*term.word.ptr.add(c * term.word.step).cast::<[u32; CHUNK]>();
                let x = &*term.x.ptr.add(c * term.x.step).cast::<[f32; CHUNK]>();
                for i in 0..CHUNK {
                    let code = (words[i] >> term.shift) & term.mask;
                    let number = match term.code {
                        Code::Integer => code as i32 as f32,
                        Code::E2m1 => E2M1[code as usize & 15],
                    };
                    out[i] = x[i].mul_add(number, out[i]);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Code, E2M1, Src, Term};

    /// One chunk in four vectors of eight.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn dot_avx2(chunks: usize, out: *mut u8, sum: Src, terms: &[Term]) {
        for c in 0..chunks.max(1) {
            // SAFETY: see the module.
            unsafe {
                let from = sum.ptr.add(c * sum.step).cast::<f32>();
                let magnitudes = _mm256_loadu_ps(E2M1.as_ptr());
                let sign = _mm256_set1_epi32(i32::MIN);
                let mut sums: [__m256; 4] = std::array::from_fn(|v| _mm256_loadu_ps(from.add(8 * v)));
                for term in terms {
                    let words = term.word.ptr.add(c * term.word.step).cast::<u32>();
                    let x = term.x.ptr.add(c * term.x.step).cast::<f32>();
                    let (shift, mask) = (
                        _mm_cvtsi32_si128(term.shift as i32),
                        _mm256_set1_epi32(term.mask as i32),
                    );
                    if term.code == Code::E2m1 {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // The permutation looks at three bits; the fourth becomes the sign.
                            let code = _mm256_srl_epi32(_mm256_loadu_si256(words.add(8 * v).cast()), shift);
                            let negative = _mm256_and_si256(_mm256_slli_epi32::<28>(code), sign);
                            let magnitude = _mm256_permutevar8x32_ps(magnitudes, code);
                            let number = _mm256_or_ps(magnitude, _mm256_castsi256_ps(negative));
                            *sum = _mm256_fmadd_ps(_mm256_loadu_ps(x.add(8 * v)), number, *sum);
                        }
                        continue;
                    }
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let word = _mm256_loadu_si256(words.add(8 * v).cast());
                        let code = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(word, shift), mask));
                        *sum = _mm256_fmadd_ps(_mm256_loadu_ps(x.add(8 * v)), code, *sum);
                    }
                }
                let to = out.cast::<f32>().add(32 * c);
                for (v, sum) in sums.iter().enumerate() {
                    _mm256_storeu_ps(to.add(8 * v), *sum);
                }
            }
        }
    }

    /// `PAIR` chunks, two vectors of sixteen each: one chunk alone would wait for its own sums.
    #[inline(always)]
    unsafe fn chunks_avx512<const VECTORS: usize>(at: usize, out: *mut u8, sum: Src, terms: &[Term]) {
        // SAFETY: see the module. Two vectors are a chunk.
        unsafe {
            let start = |src: Src, v: usize| src.ptr.add((at + v / 2) * src.step).add(64 * (v % 2));
            let numbers = _mm512_loadu_ps(E2M1.as_ptr());
            let mut sums: [__m512; VECTORS] = std::array::from_fn(|v| _mm512_loadu_ps(start(sum, v).cast()));
            for term in terms {
                let (shift, mask) = (
                    _mm_cvtsi32_si128(term.shift as i32),
                    _mm512_set1_epi32(term.mask as i32),
                );
                if term.code == Code::E2m1 {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // The permutation looks at four bits.
                        let code = _mm512_srl_epi32(_mm512_loadu_si512(start(term.word, v).cast()), shift);
                        let number = _mm512_permutexvar_ps(code, numbers);
                        *sum = _mm512_fmadd_ps(_mm512_loadu_ps(start(term.x, v).cast()), number, *sum);
                    }
                    continue;
                }
                for (v, sum) in sums.iter_mut().enumerate() {
                    let word = _mm512_loadu_si512(start(term.word, v).cast());
                    let code = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srl_epi32(word, shift), mask));
                    *sum = _mm512_fmadd_ps(_mm512_loadu_ps(start(term.x, v).cast()), code, *sum);
                }
            }
            for (v, sum) in sums.iter().enumerate() {
                _mm512_storeu_ps(out.cast::<f32>().add(32 * at + 16 * v), *sum);
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    pub unsafe fn dot_avx512(chunks: usize, out: *mut u8, sum: Src, terms: &[Term]) {
        let chunks = chunks.max(1);
        let mut c = 0;
        // SAFETY: see the module.
        unsafe {
            while c + 4 <= chunks {
                chunks_avx512::<8>(c, out, sum, terms);
                c += 4;
            }
            while c < chunks {
                chunks_avx512::<2>(c, out, sum, terms);
                c += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each loop gives what the chain gives, step by step, for every number of chunks and for sources that do not vary.
    #[test]
    fn loops_agree_with_the_chain() {
        const CHUNKS: usize = 7;
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        };
        let words: Vec<u32> = (0..CHUNKS * CHUNK).map(|_| next()).collect();
        let x: Vec<f32> = (0..CHUNKS * CHUNK).map(|_| next() as i32 as f32 / 1e9).collect();
        let first: Vec<f32> = (0..CHUNKS * CHUNK).map(|_| next() as i32 as f32 / 1e8).collect();
        let src = |data: *const u8, step| Src { ptr: data, step };
        let whole = 4 * CHUNK;
        let terms: Vec<Term> = (0..9)
            .map(|i| Term {
                code: if i == 0 || i == 2 { Code::E2m1 } else { Code::Integer },
                word: src(words.as_ptr().cast(), if i == 4 { 0 } else { whole }),
                x: src(x.as_ptr().cast(), if i % 3 == 0 { 0 } else { whole }),
                shift: [0, 4, 28, 7, 31, 1, 12, 3, 0][i],
                mask: [15, 15, 15, 1, 1, 0x7fff_ffff, 0xfff, 3, 255][i],
            })
            .collect();
        let mut loops: Vec<DotFn> = vec![dot_portable, dot(Isa::detect())];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                loops.push(x86::dot_avx2);
            }
            if is_x86_feature_detected!("avx512f") {
                loops.push(x86::dot_avx512);
            }
        }
        for f in loops {
            for chunks in 0..=CHUNKS {
                let lanes = chunks.max(1) * CHUNK;
                let mut out = vec![0f32; lanes];
                // SAFETY: all sources have `CHUNKS` chunks.
                unsafe {
                    f(
                        chunks,
                        out.as_mut_ptr().cast(),
                        src(first.as_ptr().cast(), whole),
                        &terms,
                    )
                };
                for lane in 0..lanes {
                    let want = terms.iter().fold(first[lane], |sum, term| {
                        let at = |step| if step == 0 { lane % CHUNK } else { lane };
                        let code = (words[at(term.word.step)] >> term.shift) & term.mask;
                        let number = match term.code {
                            Code::Integer => code as f32,
                            Code::E2m1 => anymetal_formats::ElementFormat::Fp4E2M1.decode_f32(u64::from(code)),
                        };
                        x[at(term.x.step)].mul_add(number, sum)
                    });
                    assert_eq!(out[lane].to_bits(), want.to_bits(), "{chunks} chunks, lane {lane}");
                }
            }
        }
    }
}
