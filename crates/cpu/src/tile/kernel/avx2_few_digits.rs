//! One row by columns of 4 bits in integers, on AVX2: codes become unsigned bytes and meet the row's signed digits
//! ([`crate::tile::few_digits`]) in VPMADDUBSW, 32 products an instruction. All sums are exact: those of a group of 256 elements in 16 bits where
//! codes are integers without scales, and in 32 bits to the column's end; those of a block of 32 otherwise, which its
//! scale multiplies in `f32`.

use std::arch::x86_64::*;

use super::avx2_few::{AHEAD, Chunk, Cursor, FOUR, ask};
use super::{DigitKernels, FewJob, FewKernels};
use crate::tile::few::FewCodes;
use crate::tile::few_digits::{DIGITS, GROUP, GROUP_BYTES};

pub(super) const FEW: FewKernels = FewKernels {
    two_bits: nothing,
    four_bits: by_codes,
    e4m3: nothing,
    e5m2: nothing,
    rows: 1,
    extreme_codes: super::avx2_few::FEW.extreme_codes,
};

pub(super) const DIGIT_KERNELS: DigitKernels = DigitKernels {
    largest,
    integers,
    digits,
};

/// Bytes of a group.
const BYTES: usize = GROUP / 2;

/// The digit kernels multiply codes of 4 bits only.
pub(super) unsafe fn nothing(_: &mut FewJob<'_>) {}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_codes(job: &mut FewJob<'_>) {
    let codes = FewCodes::of(job.format);
    // SAFETY: the contract of FewKernels.
    unsafe {
        match (codes.lookup, job.right.scales.is_null()) {
            (true, _) => multiply::<true, BLOCKS>(job, &codes),
            (false, false) => multiply::<false, BLOCKS>(job, &codes),
            (false, true) => multiply::<false, WHOLE>(job, &codes),
        }
    }
}

/// A sum by a column: integers or `f32`.
type Sums<const PARTS: usize> = [__m256i; PARTS];

/// Parts of a sum that is a whole integer: its digits.
const WHOLE: usize = 3;
/// Parts of one of blocks.
const BLOCKS: usize = 1;

/// All columns. Codes are looked up, or have a bit flipped, to be unsigned bytes.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply<const LOOKUP: bool, const PARTS: usize>(job: &mut FewJob<'_>, codes: &FewCodes) {
    let ahead = job.right.ahead(AHEAD, 1);
    for c in 0..job.right.count {
        // SAFETY: a column of the job, read to its end; the left operand holds a group for each 128 bytes.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(codes.table.as_ptr().cast()));
            let mut sums = [_mm256_setzero_si256(); PARTS];
            let cursor = Cursor::<FOUR, 4>::new(&job.right, c);
            let mut left: *const __m256i = job.left.cast();
            let mut place = 0;
            for (first, count) in cursor.runs(&job.right) {
                for g in 0..count {
                    ask(&job.right, c, place, ahead);
                    ask(&job.right, c, place + 64, ahead);
                    place += BYTES;
                    let chunk = first.after(g);
                    let weights = std::array::from_fn(|q| unpack::<LOOKUP>(table, chunk.bytes(q)));
                    match PARTS {
                        WHOLE => add_integers(&weights, left, &mut sums),
                        _ => add_blocks(&weights, left, scales(job, &chunk), &mut sums[0]),
                    }
                    left = left.add(GROUP_BYTES / 32);
                }
            }
            put::<PARTS>(job, codes, c, &sums);
        }
    }
}

/// The codes of 32 bytes as unsigned bytes, the lower half of each byte and the upper one.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpack<const LOOKUP: bool>(table: __m256i, bytes: __m256i) -> [__m256i; 2] {
    let half = _mm256_set1_epi8(15);
    let bytes = if LOOKUP { bytes } else { _mm256_xor_si256(bytes, table) };
    let halves = [
        _mm256_and_si256(bytes, half),
        _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half),
    ];
    match LOOKUP {
        true => halves.map(|codes| _mm256_shuffle_epi8(table, codes)),
        false => halves,
    }
}

/// Sums of pairs for one digit of 64 elements.
///
/// # Safety
/// The row's group must be readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn pairs(weights: &[[__m256i; 2]; 4], left: *const __m256i, q: usize, digit: usize) -> __m256i {
    // SAFETY: the caller's contract.
    unsafe {
        let at = left.add(6 * q + 2 * digit);
        let even = _mm256_maddubs_epi16(weights[q][0], _mm256_load_si256(at));
        let odd = _mm256_maddubs_epi16(weights[q][1], _mm256_load_si256(at.add(1)));
        _mm256_add_epi16(even, odd)
    }
}

/// A group by codes below 16: eight sums of pairs stay within 16 bits (8 · 2 · 15 · 128).
///
/// # Safety
/// The row's group must be readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_integers(weights: &[[__m256i; 2]; 4], left: *const __m256i, sums: &mut [__m256i]) {
    for digit in 0..3 {
        // SAFETY: the caller's contract.
        let [a, b, c, d] = std::array::from_fn(|q| unsafe { pairs(weights, left, q, digit) });
        let all = _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
        sums[digit] = _mm256_add_epi32(sums[digit], _mm256_madd_epi16(all, _mm256_set1_epi16(1)));
    }
}

/// A group's blocks by their scales. The digits of a block's sum meet in 32 bits, which may wrap until the offset is subtracted.
///
/// # Safety
/// The row's group must be readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_blocks(weights: &[[__m256i; 2]; 4], left: *const __m256i, scale: __m256, sum: &mut __m256i) {
    // SAFETY: the caller's contract.
    let [a, b, c, d] = std::array::from_fn(|q| unsafe {
        let low = _mm256_madd_epi16(pairs(weights, left, q, 0), _mm256_set1_epi16(1));
        let middle = _mm256_madd_epi16(pairs(weights, left, q, 1), _mm256_set1_epi16(1 << 7));
        // Minus 2^15 times.
        let high = _mm256_madd_epi16(pairs(weights, left, q, 2), _mm256_set1_epi16(i16::MIN));
        _mm256_sub_epi32(_mm256_add_epi32(low, middle), high)
    });
    let fold = |a, b| _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (ab, cd) = (fold(a, b), fold(c, d));
    let all = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    // SAFETY: the caller's contract.
    let all = _mm256_sub_epi32(all, unsafe { _mm256_load_si256(left.add(24)) });
    let total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all), scale, _mm256_castsi256_ps(*sum));
    *sum = _mm256_castps_si256(total);
}

/// The scales of a group: of the blocks in the lower halves of its four vectors, then of those in the upper ones.
///
/// # Safety
/// The chunk's cursor must still be there.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scales(job: &FewJob<'_>, chunk: &Chunk<FOUR, 4>) -> __m256 {
    if job.right.scales.is_null() {
        return _mm256_set1_ps(1.0);
    }
    // Codes go to the highest byte, and one bit on.
    let place = |code: u8| i32::from_le_bytes([0x80, 0x80, 0x80, code]);
    let places = _mm256_setr_epi32(
        place(0),
        place(2),
        place(4),
        place(6),
        place(1),
        place(3),
        place(5),
        place(7),
    );
    // SAFETY: the caller's contract.
    let codes = unsafe { chunk.codes() };
    _mm256_castsi256_ps(_mm256_srli_epi32::<1>(_mm256_shuffle_epi8(codes, places)))
}

/// Takes in the sum of a column.
///
/// # Safety
/// It must be the job's.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn put<const PARTS: usize>(job: &mut FewJob<'_>, codes: &FewCodes, column: usize, sums: &Sums<PARTS>) {
    let Some(of) = job.digits else {
        return;
    };
    let unit = of.unit * codes.unit;
    let mut sum = match PARTS {
        WHOLE => {
            let digits = sums.map(|lanes| add_across(lanes));
            let total: i64 = digits
                .iter()
                .zip(DIGITS)
                .map(|(&sum, digit)| i64::from(sum) * digit)
                .sum();
            (total - i64::from(codes.offset) * of.sum) as f64 * unit
        }
        // SAFETY: AVX2 is there.
        _ => f64::from(unsafe { super::avx2::add_across(_mm256_castsi256_ps(sums[0])) }) * unit,
    };
    for &(k, value) in &of.listed {
        // SAFETY: the row is as long as the column.
        let weight = unsafe { job.right.four_bits(column, k, &job.table.words) };
        sum += f64::from(value) * weight;
    }
    job.put(0, column, sum as f32);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_across(v: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)))
}

/// The largest magnitude.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn largest(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff)))
}

/// Multiples of a unit, given its inverse, as integers; zeros for elements that are none or above the largest, which are counted.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn integers(values: &[f32], inverse: f32, largest: f32, to: *mut i32) -> usize {
    let mut others = 0;
    let chunks = values.chunks_exact(8);
    let mut last = [0.0f32; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    let convert = |values: *const f32| {
        // SAFETY: 8 elements are readable.
        let x = _mm256_mul_ps(unsafe { _mm256_loadu_ps(values) }, _mm256_set1_ps(inverse));
        let integers = _mm256_cvttps_epi32(x);
        let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
        let good = _mm256_and_ps(
            _mm256_cmp_ps::<_CMP_EQ_OQ>(_mm256_cvtepi32_ps(integers), x),
            _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(largest)),
        );
        let good = _mm256_castps_si256(good);
        let bad = !_mm256_movemask_ps(_mm256_castsi256_ps(good)) & 255;
        (_mm256_and_si256(integers, good), bad.count_ones() as usize)
    };
    let whole = values.len() / 8 * 8;
    for (i, chunk) in chunks.enumerate() {
        let (integers, bad) = convert(chunk.as_ptr());
        others += bad;
        // SAFETY: the caller has room for all values.
        unsafe { _mm256_storeu_si256(to.add(8 * i).cast(), integers) };
    }
    if whole < values.len() {
        let (integers, bad) = convert(last.as_ptr());
        others += bad;
        let mut rest = [0i32; 8];
        // SAFETY: 8 elements; then the caller's room.
        unsafe {
            _mm256_storeu_si256(rest.as_mut_ptr().cast(), integers);
            std::ptr::copy_nonoverlapping(rest.as_ptr(), to.add(whole), values.len() - whole);
        }
    }
    others
}

/// A group of integers as digits.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn digits(integers: *const i32, to: *mut u8) {
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for q in 0..4 {
        for odd in 0..2 {
            // SAFETY: 256 integers are readable, 768 bytes writable and aligned.
            unsafe {
                let mut rest: [__m256i; 4] = std::array::from_fn(|i| {
                    let at = integers.add(64 * q + 16 * i).cast::<__m256i>();
                    let [a, b] = [0, 1].map(|j| _mm256_castsi256_ps(_mm256_loadu_si256(at.add(j))));
                    let every_other = match odd {
                        0 => _mm256_shuffle_ps::<0x88>(a, b),
                        _ => _mm256_shuffle_ps::<0xdd>(a, b),
                    };
                    _mm256_permute4x64_epi64::<0xd8>(_mm256_castps_si256(every_other))
                });
                let store = |digit: usize, x: [__m256i; 4]| {
                    let [a, b] = [[x[0], x[1]], [x[2], x[3]]].map(|[a, b]| _mm256_packs_epi32(a, b));
                    let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
                    _mm256_store_si256(to.cast::<__m256i>().add(6 * q + 2 * digit + odd), bytes);
                };
                // The lowest bits as a signed number, then what is left.
                let low = rest.map(|x| _mm256_srai_epi32::<25>(_mm256_slli_epi32::<25>(x)));
                store(0, low);
                for i in 0..4 {
                    rest[i] = _mm256_srai_epi32::<7>(_mm256_sub_epi32(rest[i], low[i]));
                }
                let middle = rest.map(|x| _mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(x)));
                store(1, middle);
                for i in 0..4 {
                    rest[i] = _mm256_srai_epi32::<8>(_mm256_sub_epi32(rest[i], middle[i]));
                }
                store(2, rest);
            }
        }
    }
}
