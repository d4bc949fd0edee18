//! Sums of products whose second factors are small integers, or numbers of four bits, cut out of words: what decoding quantised
//! weights comes to.
//!
//! A chain `s = fma(x, number((word >> shift) & mask), s)` is one loop over the lanes: the sum stays in registers, and no code,
//! number or partial sum goes through memory. Each step rounds as the chain does.

use super::convert::half_of_word;
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
pub(super) const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// Where an operand of a step lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Bytes in the uniform area.
    Uniform(u32),
    /// Bytes per lane before it in the varying area.
    Varying(u32),
}

/// Where registers lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Areas {
    pub uniform: *const u8,
    pub lanes: *const u8,
    /// Lanes that a register has room for.
    pub cap: usize,
}

impl Areas {
    /// The chunk of an operand of four bytes a lane.
    #[inline(always)]
    pub(super) fn chunk(&self, place: Place, chunk: usize) -> *const u8 {
        match place {
            Place::Uniform(at) => self.uniform.wrapping_add(at as usize),
            Place::Varying(at) => self.lanes.wrapping_add(at as usize * self.cap + chunk * (4 * CHUNK)),
        }
    }
}

/// One step of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// 32-bit words.
    pub word: Place,
    /// `f32` factors.
    pub x: Place,
    /// Below 32.
    pub shift: u32,
    /// At most 2³¹ − 1.
    pub mask: u32,
    pub code: Code,
}

impl Term {
    /// The number that is cut out of a word.
    #[inline(always)]
    pub(super) fn number(&self, word: u32) -> f32 {
        let code = (word >> self.shift) & self.mask;
        match self.code {
            Code::Integer => code as i32 as f32,
            Code::E2m1 => E2M1[code as usize & 15],
        }
    }
}

/// What is done with a chain's sum `s`, with operands of a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum After<T> {
    /// s · a
    Times(T),
    /// s + a
    Plus(T),
    /// s · a + b
    TimesPlus(T, T),
    /// s · a + b · c, the second product rounded
    TimesPlusProduct(T, T, T),
}

impl<T: Copy> After<T> {
    #[inline(always)]
    pub fn map<U>(self, f: impl Fn(T) -> U) -> After<U> {
        match self {
            After::Times(a) => After::Times(f(a)),
            After::Plus(a) => After::Plus(f(a)),
            After::TimesPlus(a, b) => After::TimesPlus(f(a), f(b)),
            After::TimesPlusProduct(a, b, c) => After::TimesPlusProduct(f(a), f(b), f(c)),
        }
    }

    pub fn operands(self) -> impl Iterator<Item = T> {
        let mut after = self;
        let operands: Vec<T> = after.factors().map(|operand| *operand).collect();
        operands.into_iter()
    }

    pub fn factors(&mut self) -> impl Iterator<Item = &mut T> {
        let (first, rest) = match self {
            After::Times(a) | After::Plus(a) => (a, [None, None]),
            After::TimesPlus(a, b) => (a, [Some(b), None]),
            After::TimesPlusProduct(a, b, c) => (a, [Some(b), Some(c)]),
        };
        std::iter::once(first).chain(rest.into_iter().flatten())
    }
}

/// An operand of [`After`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Float(Place),
    /// The half whose lowest bit is bit 0 or 16 of a word.
    Half {
        word: Place,
        shift: u32,
    },
}

/// Does what comes after a chain with the sums of the first chunk: (sums, what, operands of the first chunk).
type EndFn = unsafe fn(&mut [f32; CHUNK], After<usize>, &[[f32; CHUNK]; 3]);

#[inline(always)]
fn end_body(sums: &mut [f32; CHUNK], after: After<usize>, [a, b, c]: &[[f32; CHUNK]; 3]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = match after {
            After::Times(_) => *sum * a[i],
            After::Plus(_) => *sum + a[i],
            After::TimesPlus(..) => sum.mul_add(a[i], b[i]),
            After::TimesPlusProduct(..) => sum.mul_add(a[i], b[i] * c[i]),
        };
    }
}

unsafe fn end_portable(sums: &mut [f32; CHUNK], after: After<usize>, operands: &[[f32; CHUNK]; 3]) {
    end_body(sums, after, operands);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn end_avx2(sums: &mut [f32; CHUNK], after: After<usize>, operands: &[[f32; CHUNK]; 3]) {
    end_body(sums, after, operands);
}

/// Does what comes after a chain with the sums of the first chunk.
///
/// # Safety
/// Registers hold a chunk, and the machine has the instruction set.
pub(crate) unsafe fn finish(sums: &mut [f32; CHUNK], areas: &Areas, ends: &[After<Operand>], isa: Isa) {
    let end: EndFn = match isa {
        Isa::Portable => end_portable,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => end_avx2,
    };
    for after in ends {
        let mut operands = [[0f32; CHUNK]; 3];
        let mut kind = *after;
        for (to, operand) in operands.iter_mut().zip(kind.factors()) {
            // SAFETY: by the function's contract.
            unsafe {
                match *operand {
                    Operand::Float(place) => *to = *areas.chunk(place, 0).cast::<[f32; CHUNK]>(),
                    Operand::Half { word, shift } => {
                        let ptr = areas.chunk(word, 0);
                        if let Some(f) = half_of_word(shift, isa) {
                            f(1, to.as_mut_ptr().cast(), Src { ptr, step: 0 });
                        }
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { end(sums, after.map(|_| 0), &operands) };
    }
}

/// The loop: chunks (0 for a uniform result), output, first sum, where registers lie, steps.
pub(crate) type DotFn = unsafe fn(usize, *mut u8, Src, &Areas, &[Term]);

/// The loop for an instruction set and the kinds of codes that the steps have.
pub(crate) fn dot(isa: Isa, codes: impl IntoIterator<Item = Code>) -> DotFn {
    let kinds = codes.into_iter().fold((false, false), |(integer, e2m1), code| {
        (integer || code == Code::Integer, e2m1 || code == Code::E2m1)
    });
    match isa {
        Isa::Portable => dot_portable,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => match kinds {
            (true, true) => x86::chunks_avx2::<{ x86::MIXED }>,
            (_, false) => x86::chunks_avx2::<{ x86::INTEGER }>,
            (false, true) => x86::chunks_avx2::<{ x86::ONLY_E2M1 }>,
        },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::dot_avx512,
    }
}

// SAFETY (of all): as for the loops of [`super`]: sources hold `chunks` chunks, or one if their step is zero or `chunks` is.

unsafe fn dot_portable(chunks: usize, out: *mut u8, sum: Src, areas: &Areas, terms: &[Term]) {
    for c in 0..chunks.max(1) {
        // SAFETY: see above.
        unsafe {
            let out = &mut *out.cast::<[f32; CHUNK]>().add(c);
            *out = *sum.ptr.add(c * sum.step).cast::<[f32; CHUNK]>();
            for term in terms {
                let words = &*areas.chunk(term.word, c).cast::<[u32; CHUNK]>();
                let x = &*areas.chunk(term.x, c).cast::<[f32; CHUNK]>();
                for i in 0..CHUNK {
                    out[i] = x[i].mul_add(term.number(words[i]), out[i]);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Areas, Code, E2M1, Src, Term};

    /// The numbers that four bits stand for as integers.
    const INTEGERS: [f32; 16] = [
        0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
    ];

    /// Which codes the steps of a chain have: sixteen registers do not hold what both need.
    pub const MIXED: u8 = 0;
    pub const INTEGER: u8 = 1;
    pub const ONLY_E2M1: u8 = 2;

    /// One chunk in four vectors of eight. Steps that follow each other mostly cut the same words, which are kept.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn chunks_avx2<const CODES: u8>(chunks: usize, out: *mut u8, sum: Src, areas: &Areas, terms: &[Term]) {
        for c in 0..chunks.max(1) {
            // SAFETY: see the module.
            unsafe {
                let from = sum.ptr.add(c * sum.step).cast::<f32>();
                let mut sums: [__m256; 4] = std::array::from_fn(|v| _mm256_loadu_ps(from.add(8 * v)));
                let mut words = [_mm256_setzero_si256(); 4];
                let mut held = None;
                for term in terms {
                    if held != Some(term.word) {
                        held = Some(term.word);
                        let from = areas.chunk(term.word, c).cast::<u32>();
                        words = std::array::from_fn(|v| _mm256_loadu_si256(from.add(8 * v).cast()));
                    }
                    let x = areas.chunk(term.x, c).cast::<f32>();
                    let shift = _mm256_set1_epi32(term.shift as i32);
                    if CODES == ONLY_E2M1 || (CODES == MIXED && term.code == Code::E2m1) {
                        let magnitudes = _mm256_loadu_ps(E2M1.as_ptr());
                        let sign = _mm256_set1_epi32(i32::MIN);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // The permutation looks at three bits; the fourth becomes the sign.
                            let code = _mm256_srlv_epi32(words[v], shift);
                            let negative = _mm256_and_si256(_mm256_slli_epi32::<28>(code), sign);
                            let magnitude = _mm256_permutevar8x32_ps(magnitudes, code);
                            let number = _mm256_or_ps(magnitude, _mm256_castsi256_ps(negative));
                            *sum = _mm256_fmadd_ps(_mm256_loadu_ps(x.add(8 * v)), number, *sum);
                        }
                        continue;
                    }
                    let mask = _mm256_set1_epi32(term.mask as i32);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let code = _mm256_and_si256(_mm256_srlv_epi32(words[v], shift), mask);
                        let number = _mm256_cvtepi32_ps(code);
                        *sum = _mm256_fmadd_ps(_mm256_loadu_ps(x.add(8 * v)), number, *sum);
                    }
                }
                let to = out.cast::<f32>().add(32 * c);
                for (v, sum) in sums.iter().enumerate() {
                    _mm256_storeu_ps(to.add(8 * v), *sum);
                }
            }
        }
    }

    /// `VECTORS / 2` chunks, two vectors of sixteen each: one chunk alone would wait for its own sums. Numbers of four bits come from a
    /// table in a register.
    #[inline(always)]
    unsafe fn chunks_avx512<const VECTORS: usize>(at: usize, out: *mut u8, sum: Src, areas: &Areas, terms: &[Term]) {
        // SAFETY: see the module. Two vectors are a chunk.
        unsafe {
            let start = |src: Src, v: usize| src.ptr.add((at + v / 2) * src.step).add(64 * (v % 2));
            let of = |place, v: usize| areas.chunk(place, at + v / 2).add(64 * (v % 2));
            let tables = [_mm512_loadu_ps(INTEGERS.as_ptr()), _mm512_loadu_ps(E2M1.as_ptr())];
            let mut sums: [__m512; VECTORS] = std::array::from_fn(|v| _mm512_loadu_ps(start(sum, v).cast()));
            let mut words = [_mm512_setzero_si512(); VECTORS];
            let mut held = None;
            for term in terms {
                if held != Some(term.word) {
                    held = Some(term.word);
                    words = std::array::from_fn(|v| _mm512_loadu_si512(of(term.word, v).cast()));
                }
                let shift = _mm512_set1_epi32(term.shift as i32);
                if term.mask == 15 {
                    let table = tables[usize::from(term.code == Code::E2m1)];
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // The permutation looks at four bits.
                        let number = _mm512_permutexvar_ps(_mm512_srlv_epi32(words[v], shift), table);
                        *sum = _mm512_fmadd_ps(_mm512_loadu_ps(of(term.x, v).cast()), number, *sum);
                    }
                    continue;
                }
                let mask = _mm512_set1_epi32(term.mask as i32);
                for (v, sum) in sums.iter_mut().enumerate() {
                    let code = _mm512_and_si512(_mm512_srlv_epi32(words[v], shift), mask);
                    *sum = _mm512_fmadd_ps(_mm512_loadu_ps(of(term.x, v).cast()), _mm512_cvtepi32_ps(code), *sum);
                }
            }
            for (v, sum) in sums.iter().enumerate() {
                _mm512_storeu_ps(out.cast::<f32>().add(32 * at + 16 * v), *sum);
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    pub unsafe fn dot_avx512(chunks: usize, out: *mut u8, sum: Src, areas: &Areas, terms: &[Term]) {
        let chunks = chunks.max(1);
        let mut c = 0;
        // SAFETY: see the module.
        unsafe {
            while c + 4 <= chunks {
                chunks_avx512::<8>(c, out, sum, areas, terms);
                c += 4;
            }
            while c < chunks {
                chunks_avx512::<2>(c, out, sum, areas, terms);
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
        const LANES: usize = CHUNKS * CHUNK;
        let words: Vec<u32> = (0..LANES).map(|_| next()).collect();
        let x: Vec<f32> = (0..LANES).map(|_| next() as i32 as f32 / 1e9).collect();
        // Words, then factors, as registers of one area; uniform operands are the first chunk of either.
        let area: Vec<u32> = words.iter().copied().chain(x.iter().map(|x| x.to_bits())).collect();
        let areas = Areas {
            uniform: area.as_ptr().cast(),
            lanes: area.as_ptr().cast(),
            cap: LANES,
        };
        let place = |register: u32, uniform| match uniform {
            true => Place::Uniform(register * 4 * LANES as u32),
            false => Place::Varying(register * 4),
        };
        let first: Vec<f32> = (0..CHUNKS * CHUNK).map(|_| next() as i32 as f32 / 1e8).collect();
        let src = |data: *const u8, step| Src { ptr: data, step };
        let whole = 4 * CHUNK;
        let mixed: Vec<Term> = (0..9)
            .map(|i| Term {
                code: if i == 0 || i == 2 { Code::E2m1 } else { Code::Integer },
                word: place(0, i == 4),
                x: place(1, i % 3 == 0),
                shift: [0, 4, 28, 7, 31, 1, 12, 3, 0][i],
                mask: [15, 15, 15, 1, 1, 0x7fff_ffff, 0xfff, 3, 255][i],
            })
            .collect();
        let mut sets = vec![Isa::Portable, Isa::detect()];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            sets.push(Isa::Avx2);
        }
        let of = |code: Code| -> Vec<Term> { mixed.iter().filter(|term| term.code == code).copied().collect() };
        let kinds = [mixed.clone(), of(Code::Integer), of(Code::E2m1)];
        for (&isa, terms) in sets.iter().flat_map(|isa| kinds.iter().map(move |terms| (isa, terms))) {
            let f = dot(isa, terms.iter().map(|term| term.code));
            for chunks in 0..=CHUNKS {
                let lanes = chunks.max(1) * CHUNK;
                let mut out = vec![0f32; lanes];
                // SAFETY: all sources have `CHUNKS` chunks.
                unsafe {
                    f(
                        chunks,
                        out.as_mut_ptr().cast(),
                        src(first.as_ptr().cast(), whole),
                        &areas,
                        terms,
                    )
                };
                for lane in 0..lanes {
                    let want = terms.iter().fold(first[lane], |sum, term| {
                        let at = |place| match place {
                            Place::Uniform(_) => lane % CHUNK,
                            Place::Varying(_) => lane,
                        };
                        let code = (words[at(term.word)] >> term.shift) & term.mask;
                        let number = match term.code {
                            Code::Integer => code as f32,
                            Code::E2m1 => anymetal_formats::ElementFormat::Fp4E2M1.decode_f32(u64::from(code)),
                        };
                        x[at(term.x)].mul_add(number, sum)
                    });
                    assert_eq!(out[lane].to_bits(), want.to_bits(), "{chunks} chunks, lane {lane}");
                }
            }
        }
    }
}
