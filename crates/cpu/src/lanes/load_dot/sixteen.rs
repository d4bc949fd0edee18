//! Sixteen lanes in the vectors of an instruction set, for [`super`].

/// Sixteen lanes of an instruction set. No closure may stand around its operations: it would be compiled for plain instructions.
pub(super) trait Sixteen {
    type Words: Copy;
    type Floats: Copy;
    /// What [`Self::e2m1`] is scaled by, inverted.
    const E2M1_SCALE: f32;

    unsafe fn none() -> Self::Words;
    unsafe fn words(from: *const u32) -> Self::Words;
    unsafe fn store_words(to: *mut u32, words: Self::Words);
    unsafe fn floats(from: *const f32) -> Self::Floats;
    unsafe fn store(to: *mut f32, floats: Self::Floats);
    unsafe fn splat(value: f32) -> Self::Floats;
    unsafe fn right(words: Self::Words, by: u32) -> Self::Words;
    unsafe fn and(words: Self::Words, mask: u32) -> Self::Words;
    /// Signed integers as numbers.
    unsafe fn numbers(words: Self::Words) -> Self::Floats;
    /// The low nibbles of the four bytes as numbers of E2M1, scaled.
    unsafe fn e2m1(words: Self::Words) -> [Self::Floats; 4];
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// None is NaN.
    unsafe fn are_numbers(floats: Self::Floats) -> bool;
    /// Four words of each lane, transposed.
    unsafe fn four(from: impl Fn(usize) -> *const u8) -> [Self::Words; 4];
    unsafe fn two(from: impl Fn(usize) -> *const u8) -> [Self::Words; 2];
    unsafe fn one(from: impl Fn(usize) -> *const u8) -> Self::Words;
    /// Two words of each lane, which follow each other, as lanes do.
    unsafe fn pairs(from: *const u8) -> [Self::Words; 2];
    /// Five words of each lane likewise.
    unsafe fn five(from: *const u8) -> [Self::Words; 5];
    /// The halves in the low bits of words that have no others, as numbers.
    unsafe fn halves(words: Self::Words) -> Self::Floats;
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Adds products of unsigned and signed bytes, two by two, to integers of 16 bits.
    unsafe fn add_products(codes: Self::Words, digits: Self::Words, sums: Self::Words) -> Self::Words;
    /// The sum of both integers of 16 bits.
    unsafe fn both(sums: Self::Words) -> Self::Words;
    /// a − 12 · b
    unsafe fn less_twelve(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Bytes below 16 as codes of E2M1: twice the number and 12.
    unsafe fn risen(codes: Self::Words) -> Self::Words;
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_range_loop)]
pub(super) mod x86 {
    // SAFETY (of all): the caller has what is read and written there, sixteen lanes of it, and the instruction set was detected.

    use std::arch::x86_64::*;

    use super::Sixteen;
    use crate::lanes::dot::E2M1;

    /// Two vectors of eight.
    pub struct Avx2;

    /// Twice the numbers that E2M1 codes stand for.
    const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

    /// The same and 12.
    const RISEN: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

    impl Sixteen for Avx2 {
        type Words = [__m256i; 2];
        type Floats = [__m256; 2];
        /// Doubled, in the highest byte.
        const E2M1_SCALE: f32 = 1.0 / (1 << 25) as f32;

        #[inline(always)]
        unsafe fn none() -> [__m256i; 2] {
            unsafe { [_mm256_setzero_si256(); 2] }
        }

        #[inline(always)]
        unsafe fn add_products(codes: [__m256i; 2], digits: [__m256i; 2], sums: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                [
                    _mm256_add_epi16(sums[0], _mm256_maddubs_epi16(codes[0], digits[0])),
                    _mm256_add_epi16(sums[1], _mm256_maddubs_epi16(codes[1], digits[1])),
                ]
            }
        }

        #[inline(always)]
        unsafe fn both(sums: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                let ones = _mm256_set1_epi16(1);
                [_mm256_madd_epi16(sums[0], ones), _mm256_madd_epi16(sums[1], ones)]
            }
        }

        #[inline(always)]
        unsafe fn less_twelve(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                let twelve = _mm256_set1_epi32(12);
                [
                    _mm256_sub_epi32(a[0], _mm256_mullo_epi32(b[0], twelve)),
                    _mm256_sub_epi32(a[1], _mm256_mullo_epi32(b[1], twelve)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn risen(codes: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(RISEN.as_ptr().cast()));
                [
                    _mm256_shuffle_epi8(table, codes[0]),
                    _mm256_shuffle_epi8(table, codes[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn words(from: *const u32) -> [__m256i; 2] {
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
        }

        #[inline(always)]
        unsafe fn store_words(to: *mut u32, words: [__m256i; 2]) {
            unsafe {
                _mm256_storeu_si256(to.cast(), words[0]);
                _mm256_storeu_si256(to.add(8).cast(), words[1]);
            }
        }

        #[inline(always)]
        unsafe fn floats(from: *const f32) -> [__m256; 2] {
            unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, floats: [__m256; 2]) {
            unsafe {
                _mm256_storeu_ps(to, floats[0]);
                _mm256_storeu_ps(to.add(8), floats[1]);
            }
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> [__m256; 2] {
            unsafe { [_mm256_set1_ps(value); 2] }
        }

        #[inline(always)]
        unsafe fn right(words: [__m256i; 2], by: u32) -> [__m256i; 2] {
            unsafe {
                let by = _mm_cvtsi32_si128(by as i32);
                [_mm256_srl_epi32(words[0], by), _mm256_srl_epi32(words[1], by)]
            }
        }

        #[inline(always)]
        unsafe fn and(words: [__m256i; 2], mask: u32) -> [__m256i; 2] {
            unsafe {
                let mask = _mm256_set1_epi32(mask as i32);
                [_mm256_and_si256(words[0], mask), _mm256_and_si256(words[1], mask)]
            }
        }

        #[inline(always)]
        unsafe fn numbers(words: [__m256i; 2]) -> [__m256; 2] {
            unsafe { [_mm256_cvtepi32_ps(words[0]), _mm256_cvtepi32_ps(words[1])] }
        }

        #[inline(always)]
        unsafe fn e2m1(words: [__m256i; 2]) -> [[__m256; 2]; 4] {
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(DOUBLED.as_ptr().cast()));
                let top = _mm256_set1_epi32(0xff << 24);
                let mut numbers = [[_mm256_setzero_ps(); 2]; 4];
                for v in 0..2 {
                    let nibbles = _mm256_and_si256(words[v], _mm256_set1_epi8(15));
                    let bytes = _mm256_shuffle_epi8(table, nibbles);
                    numbers[0][v] = _mm256_cvtepi32_ps(_mm256_slli_epi32::<24>(bytes));
                    numbers[1][v] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_slli_epi32::<16>(bytes), top));
                    numbers[2][v] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_slli_epi32::<8>(bytes), top));
                    numbers[3][v] = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, top));
                }
                numbers
            }
        }

        #[inline(always)]
        unsafe fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn fma(a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }

        #[inline(always)]
        unsafe fn are_numbers(floats: [__m256; 2]) -> bool {
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(floats[0], floats[1])) == 0 }
        }

        #[inline(always)]
        unsafe fn four(from: impl Fn(usize) -> *const u8) -> [[__m256i; 2]; 4] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 4];
                for v in 0..2 {
                    // Lanes i and i + 4.
                    let mut rows = [_mm256_setzero_si256(); 4];
                    for (i, row) in rows.iter_mut().enumerate() {
                        let low = _mm_loadu_si128(from(8 * v + i).cast());
                        let high = _mm_loadu_si128(from(8 * v + i + 4).cast());
                        *row = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                    }
                    let low = [
                        _mm256_unpacklo_epi32(rows[0], rows[1]),
                        _mm256_unpacklo_epi32(rows[2], rows[3]),
                    ];
                    let high = [
                        _mm256_unpackhi_epi32(rows[0], rows[1]),
                        _mm256_unpackhi_epi32(rows[2], rows[3]),
                    ];
                    columns[0][v] = _mm256_unpacklo_epi64(low[0], low[1]);
                    columns[1][v] = _mm256_unpackhi_epi64(low[0], low[1]);
                    columns[2][v] = _mm256_unpacklo_epi64(high[0], high[1]);
                    columns[3][v] = _mm256_unpackhi_epi64(high[0], high[1]);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn two(from: impl Fn(usize) -> *const u8) -> [[__m256i; 2]; 2] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 2];
                for v in 0..2 {
                    // Lanes i and i + 1, and i + 4 and i + 5.
                    let mut rows = [_mm256_setzero_si256(); 2];
                    for (i, row) in rows.iter_mut().enumerate() {
                        let mut halves = [_mm_setzero_si128(); 2];
                        for (h, half) in halves.iter_mut().enumerate() {
                            let lane = 8 * v + 4 * h + 2 * i;
                            let (a, b) = (from(lane).cast(), from(lane + 1).cast());
                            *half = _mm_unpacklo_epi32(_mm_loadl_epi64(a), _mm_loadl_epi64(b));
                        }
                        *row = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(halves[0]), halves[1]);
                    }
                    columns[0][v] = _mm256_unpacklo_epi64(rows[0], rows[1]);
                    columns[1][v] = _mm256_unpackhi_epi64(rows[0], rows[1]);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn one(from: impl Fn(usize) -> *const u8) -> [__m256i; 2] {
            unsafe {
                let mut column = [_mm256_setzero_si256(); 2];
                for (v, half) in column.iter_mut().enumerate() {
                    let at = 8 * v;
                    let low = quarter([from(at), from(at + 1), from(at + 2), from(at + 3)]);
                    let high = quarter([from(at + 4), from(at + 5), from(at + 6), from(at + 7)]);
                    *half = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                }
                column
            }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u8) -> [[__m256i; 2]; 2] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 2];
                for v in 0..2 {
                    let low = _mm256_loadu_ps(from.add(64 * v).cast());
                    let high = _mm256_loadu_ps(from.add(64 * v + 32).cast());
                    // Two lanes of each in turn.
                    let even = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
                    let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
                    columns[0][v] = _mm256_permute4x64_epi64::<0b11_01_10_00>(even);
                    columns[1][v] = _mm256_permute4x64_epi64::<0b11_01_10_00>(odd);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn five(from: *const u8) -> [[__m256i; 2]; 5] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 5];
                for v in 0..2 {
                    let mut rows = [_mm256_setzero_si256(); 5];
                    for (i, row) in rows.iter_mut().enumerate() {
                        *row = _mm256_loadu_si256(from.add(160 * v + 32 * i).cast());
                    }
                    macro_rules! column {
                        ($k:literal) => {{
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 1) }>(rows[0], rows[1]);
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 2) }>(column, rows[2]);
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 3) }>(column, rows[3]);
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 4) }>(column, rows[4]);
                            const PLACES: [i32; 8] = places($k);
                            let places = _mm256_loadu_si256(PLACES.as_ptr().cast());
                            columns[$k][v] = _mm256_permutevar8x32_epi32(column, places);
                        }};
                    }
                    column!(0);
                    column!(1);
                    column!(2);
                    column!(3);
                    column!(4);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn halves(words: [__m256i; 2]) -> [__m256; 2] {
            unsafe {
                // Four of each vector alternate.
                let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(words[0], words[1]));
                [
                    _mm256_cvtph_ps(_mm256_castsi256_si128(both)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(both)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn mul(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        }
    }

    /// Of five words each of eight (sixteen) lanes, one after another in five vectors: element `p` of vector `v` is word `k` of some lane if
    /// bit `p` is set. Five and the number of lanes have no common divisor, so each place has one.
    const fn holds(lanes: usize, k: usize, v: usize) -> i32 {
        let (mut mask, mut lane) = (0, 0);
        while lane < lanes {
            let at = 5 * lane + k;
            if at / lanes == v {
                mask |= 1 << (at % lanes);
            }
            lane += 1;
        }
        mask
    }

    /// Where word `k` of each lane is.
    const fn places<const LANES: usize>(k: usize) -> [i32; LANES] {
        let (mut places, mut lane) = ([0; LANES], 0);
        while lane < LANES {
            places[lane] = ((5 * lane + k) % LANES) as i32;
            lane += 1;
        }
        places
    }

    /// The words of four lanes.
    #[inline(always)]
    unsafe fn quarter(from: [*const u8; 4]) -> __m128i {
        unsafe {
            let [a, b, c, d] = from;
            let low = _mm_unpacklo_epi32(_mm_loadu_si32(a), _mm_loadu_si32(b));
            let high = _mm_unpacklo_epi32(_mm_loadu_si32(c), _mm_loadu_si32(d));
            _mm_unpacklo_epi64(low, high)
        }
    }

    /// One vector.
    pub struct Avx512;

    impl Sixteen for Avx512 {
        type Words = __m512i;
        type Floats = __m512;
        const E2M1_SCALE: f32 = 1.0;

        #[inline(always)]
        unsafe fn none() -> __m512i {
            unsafe { _mm512_setzero_si512() }
        }

        #[inline(always)]
        unsafe fn add_products(codes: __m512i, digits: __m512i, sums: __m512i) -> __m512i {
            unsafe { _mm512_add_epi16(sums, _mm512_maddubs_epi16(codes, digits)) }
        }

        #[inline(always)]
        unsafe fn both(sums: __m512i) -> __m512i {
            unsafe { _mm512_madd_epi16(sums, _mm512_set1_epi16(1)) }
        }

        #[inline(always)]
        unsafe fn less_twelve(a: __m512i, b: __m512i) -> __m512i {
            unsafe { _mm512_sub_epi32(a, _mm512_mullo_epi32(b, _mm512_set1_epi32(12))) }
        }

        #[inline(always)]
        unsafe fn risen(codes: __m512i) -> __m512i {
            unsafe {
                let table = _mm512_broadcast_i32x4(_mm_loadu_si128(RISEN.as_ptr().cast()));
                _mm512_shuffle_epi8(table, codes)
            }
        }

        #[inline(always)]
        unsafe fn words(from: *const u32) -> __m512i {
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store_words(to: *mut u32, words: __m512i) {
            unsafe { _mm512_storeu_si512(to.cast(), words) }
        }

        #[inline(always)]
        unsafe fn floats(from: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, floats: __m512) {
            unsafe { _mm512_storeu_ps(to, floats) }
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            unsafe { _mm512_set1_ps(value) }
        }

        #[inline(always)]
        unsafe fn right(words: __m512i, by: u32) -> __m512i {
            unsafe { _mm512_srl_epi32(words, _mm_cvtsi32_si128(by as i32)) }
        }

        #[inline(always)]
        unsafe fn and(words: __m512i, mask: u32) -> __m512i {
            unsafe { _mm512_and_si512(words, _mm512_set1_epi32(mask as i32)) }
        }

        #[inline(always)]
        unsafe fn numbers(words: __m512i) -> __m512 {
            unsafe { _mm512_cvtepi32_ps(words) }
        }

        #[inline(always)]
        unsafe fn e2m1(words: __m512i) -> [__m512; 4] {
            unsafe {
                // The permutation looks at four bits.
                let table = _mm512_loadu_ps(E2M1.as_ptr());
                [
                    _mm512_permutexvar_ps(words, table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<8>(words), table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<16>(words), table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<24>(words), table),
                ]
            }
        }

        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn are_numbers(floats: __m512) -> bool {
            unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(floats, floats) == 0 }
        }

        #[inline(always)]
        unsafe fn four(from: impl Fn(usize) -> *const u8) -> [__m512i; 4] {
            unsafe {
                // Lanes i, i + 4, i + 8 and i + 12.
                let mut rows = [_mm512_setzero_si512(); 4];
                for (i, row) in rows.iter_mut().enumerate() {
                    let mut parts = [_mm_setzero_si128(); 4];
                    for (p, part) in parts.iter_mut().enumerate() {
                        *part = _mm_loadu_si128(from(i + 4 * p).cast());
                    }
                    let first = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(parts[0]), parts[1]);
                    *row = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(first, parts[2]), parts[3]);
                }
                let low = [
                    _mm512_unpacklo_epi32(rows[0], rows[1]),
                    _mm512_unpacklo_epi32(rows[2], rows[3]),
                ];
                let high = [
                    _mm512_unpackhi_epi32(rows[0], rows[1]),
                    _mm512_unpackhi_epi32(rows[2], rows[3]),
                ];
                [
                    _mm512_unpacklo_epi64(low[0], low[1]),
                    _mm512_unpackhi_epi64(low[0], low[1]),
                    _mm512_unpacklo_epi64(high[0], high[1]),
                    _mm512_unpackhi_epi64(high[0], high[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn two(from: impl Fn(usize) -> *const u8) -> [__m512i; 2] {
            unsafe {
                let [a, b] = Avx2::two(from);
                [
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a[0]), a[1]),
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(b[0]), b[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn one(from: impl Fn(usize) -> *const u8) -> __m512i {
            unsafe {
                let [low, high] = Avx2::one(from);
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u8) -> [__m512i; 2] {
            unsafe {
                let [a, b] = Avx2::pairs(from);
                [
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a[0]), a[1]),
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(b[0]), b[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn five(from: *const u8) -> [__m512i; 5] {
            unsafe {
                let mut columns = [_mm512_setzero_si512(); 5];
                let mut rows = [_mm512_setzero_si512(); 5];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm512_loadu_si512(from.add(64 * i).cast());
                }
                macro_rules! column {
                    ($k:literal) => {{
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 1) as u16, rows[0], rows[1]);
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 2) as u16, column, rows[2]);
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 3) as u16, column, rows[3]);
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 4) as u16, column, rows[4]);
                        const PLACES: [i32; 16] = places($k);
                        columns[$k] = _mm512_permutexvar_epi32(_mm512_loadu_si512(PLACES.as_ptr().cast()), column);
                    }};
                }
                column!(0);
                column!(1);
                column!(2);
                column!(3);
                column!(4);
                columns
            }
        }

        #[inline(always)]
        unsafe fn halves(words: __m512i) -> __m512 {
            unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)) }
        }

        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
    }
}
