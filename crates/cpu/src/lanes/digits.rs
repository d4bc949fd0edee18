//! Numbers as three signed digits of a byte each, for sums of products with small integers in integer arithmetic.
//!
//! The numbers of a lane that belong together share a power of two, of which each is exactly a whole multiple below 2²² in magnitude: halves that
//! are no less than 2⁻¹¹ of the largest one always are. Lanes with a number that is no such multiple or not finite, or whose largest one is
//! so small that its power of two is none, have no digits: NaN stands for their power.

use super::dot::{Areas, Place};
use super::{CHUNK, Isa};

/// Digits of a number.
pub(crate) const DIGITS: usize = 3;

/// Words of a lane for so many groups of four numbers: of each group its digits for each place, lowest first, four bytes in a word; then for
/// each place the sum of all digits; then the power of two. A chunk has each word of its lanes side by side.
pub(crate) const fn words(groups: usize) -> usize {
    DIGITS * groups + DIGITS + 1
}

/// The loop: chunks, where registers lie, numbers, and where the first chunk's [`words`] go.
pub(crate) type DigitsFn = unsafe fn(usize, &Areas, &[[Place; 4]], *mut u32);

/// The loop for an instruction set, where there is one.
pub(crate) fn digits(isa: Isa) -> Option<DigitsFn> {
    match isa {
        Isa::Portable => None,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => Some(x86::digits),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Areas, CHUNK, DIGITS, Place, words};

    /// Eight lanes at a time.
    ///
    /// # Safety
    /// Registers have `chunks` chunks, and what is written is apart from the numbers.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn digits(chunks: usize, areas: &Areas, numbers: &[[Place; 4]], out: *mut u32) {
        // The bits of 1.5 · 2²³: added to it, a number below 2²² becomes an integer in the low bits.
        const SHIFT: i32 = 0x4b40_0000;
        let all = _mm256_set1_epi32;
        let (shift, middle) = (_mm256_castsi256_ps(all(SHIFT)), all(0x80_8080));
        for part in 0..chunks * CHUNK / 8 {
            let (chunk, lane) = (part * 8 / CHUNK, part * 8 % CHUNK);
            // SAFETY: by the function's contract.
            unsafe {
                let load = |place| _mm256_loadu_ps(areas.chunk(place, chunk).cast::<f32>().add(lane));
                let mut out = out.add(chunk * words(numbers.len()) * CHUNK + lane);
                let mut most = _mm256_setzero_si256();
                for &place in numbers.iter().flatten() {
                    let magnitude = _mm256_and_si256(_mm256_castps_si256(load(place)), all(i32::MAX));
                    most = _mm256_max_epi32(most, magnitude);
                }
                // All zeros go with any power.
                let zero = _mm256_cmpeq_epi32(most, _mm256_setzero_si256());
                let exponent = _mm256_blendv_epi8(_mm256_srli_epi32::<23>(most), all(127), zero);
                let scale = _mm256_slli_epi32::<23>(_mm256_sub_epi32(all(275), exponent));
                let scale = _mm256_castsi256_ps(scale);
                let own = _mm256_slli_epi32::<23>(_mm256_sub_epi32(exponent, all(21)));
                let has_digits = _mm256_and_si256(
                    _mm256_cmpgt_epi32(exponent, all(21)),
                    _mm256_cmpgt_epi32(all(255), exponent),
                );
                let mut whole_multiples = has_digits;
                let mut sums = [_mm256_setzero_si256(); DIGITS];
                for four in numbers {
                    let mut bytes = [_mm256_setzero_si256(); 4];
                    for (bytes, &place) in bytes.iter_mut().zip(four) {
                        let number = load(place);
                        let shifted = _mm256_fmadd_ps(number, scale, shift);
                        let rest = _mm256_fmsub_ps(number, scale, _mm256_sub_ps(shifted, shift));
                        let is_whole = _mm256_cmp_ps::<_CMP_EQ_OQ>(rest, _mm256_setzero_ps());
                        whole_multiples = _mm256_and_si256(whole_multiples, _mm256_castps_si256(is_whole));
                        // Digits from −128 to 127, a byte each.
                        let whole = _mm256_add_epi32(_mm256_castps_si256(shifted), all(0x80_8080 - SHIFT));
                        *bytes = _mm256_xor_si256(whole, middle);
                    }
                    let [a, b, c, d] = bytes;
                    // Outer digits of two numbers, and inner ones.
                    let (odd, low, next) = (all(0xff_00ff), all(0xff), all(0xff00));
                    let ab = _mm256_or_si256(
                        _mm256_and_si256(a, odd),
                        _mm256_slli_epi32::<8>(_mm256_and_si256(b, odd)),
                    );
                    let cd = _mm256_or_si256(
                        _mm256_and_si256(c, odd),
                        _mm256_slli_epi32::<8>(_mm256_and_si256(d, odd)),
                    );
                    let inner_ab = _mm256_or_si256(
                        _mm256_and_si256(_mm256_srli_epi32::<8>(a), low),
                        _mm256_and_si256(b, next),
                    );
                    let inner_cd = _mm256_or_si256(
                        _mm256_and_si256(_mm256_srli_epi32::<8>(c), low),
                        _mm256_and_si256(d, next),
                    );
                    let digits = [
                        _mm256_blend_epi16::<0b1010_1010>(ab, _mm256_slli_epi32::<16>(cd)),
                        _mm256_blend_epi16::<0b1010_1010>(inner_ab, _mm256_slli_epi32::<16>(inner_cd)),
                        _mm256_blend_epi16::<0b1010_1010>(_mm256_srli_epi32::<16>(ab), cd),
                    ];
                    for (digits, sum) in digits.into_iter().zip(&mut sums) {
                        _mm256_storeu_si256(out.cast(), digits);
                        out = out.add(CHUNK);
                        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), digits);
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
                    }
                }
                let power = _mm256_blendv_epi8(all(f32::NAN.to_bits() as i32), own, whole_multiples);
                for word in sums.into_iter().chain([power]) {
                    _mm256_storeu_si256(out.cast(), word);
                    out = out.add(CHUNK);
                }
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Digits put together give the number; sums are those of the digits.
    #[test]
    fn digits_of_numbers() {
        let Some(f) = digits(Isa::detect()) else { return };
        const CHUNKS: usize = 2;
        const LANES: usize = CHUNKS * CHUNK;
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as f32 / (1u64 << 30) as f32 - 1.0
        };
        // Eight registers of numbers of very different sizes from lane to lane; lanes 3 to 7 are special.
        let mut registers: Vec<f32> = (0..8 * LANES)
            .map(|i| (next() * 1024.0).round() * 2f32.powi((i % LANES) as i32 * 2 - 70))
            .collect();
        for register in 0..8 {
            registers[register * LANES + 3] = 0.0;
            registers[register * LANES + 6] *= 1e-20;
        }
        registers[LANES + 4] = f32::INFINITY;
        registers[5] = f32::NAN;
        // One that the largest leaves no bits for.
        registers[7] = 1.0;
        registers[LANES + 7] = 1.0 / 4_194_304.0;
        let areas = Areas {
            uniform: std::ptr::null(),
            lanes: registers.as_ptr().cast(),
            cap: LANES,
        };
        let four = |first: u32| std::array::from_fn(|j| Place::Varying(4 * (first + j as u32)));
        let mut out = vec![0u32; words(2) * LANES];
        // SAFETY: all eight registers have the chunks, and the output has room for its words.
        unsafe { f(CHUNKS, &areas, &[four(0), four(4)], out.as_mut_ptr()) };
        for lane in 0..LANES {
            let word = |k: usize| out[lane / CHUNK * words(2) * CHUNK + k * CHUNK + lane % CHUNK];
            let numbers: Vec<f64> = (0..8).map(|k| f64::from(registers[k * LANES + lane])).collect();
            let power = f32::from_bits(word(2 * DIGITS + DIGITS));
            assert_eq!(power.is_nan(), (4..8).contains(&lane), "lane {lane}");
            if power.is_nan() {
                continue;
            }
            let mut sums = [0i32; DIGITS];
            for (k, &number) in numbers.iter().enumerate() {
                let mut got = 0f64;
                for (place, sum) in sums.iter_mut().enumerate() {
                    let digit = i32::from(word(k / 4 * DIGITS + place).to_le_bytes()[k % 4] as i8);
                    *sum += digit;
                    got += f64::from(digit) * 256f64.powi(place as i32);
                }
                assert_eq!(got * f64::from(power), number, "lane {lane}");
            }
            for (place, &sum) in sums.iter().enumerate() {
                assert_eq!(word(2 * DIGITS + place) as i32, sum, "lane {lane}");
            }
        }
    }
}
