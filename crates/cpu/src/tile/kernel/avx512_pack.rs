//! Moving elements into packed form with AVX-512: what the dot products of pairs and quadruples read.

use std::arch::x86_64::*;

use super::{Fp8Row, Terms};
use crate::tile::few::FewTable;

/// The first `count` of 32 elements.
fn mask32(count: usize) -> __mmask32 {
    u32::MAX >> (32 - count.min(32))
}

/// Two rows of 16-bit elements to one of pairs, 32 at a time; the last ones under a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn interleave2(rows: [*const u8; 2], n: usize, dst: *mut u8) {
    // SAFETY: masks keep to n elements of each row and n pairs.
    unsafe {
        let places = |from: u16| {
            let places: [u16; 32] = std::array::from_fn(|i| from + i as u16 / 2 + i as u16 % 2 * 32);
            _mm512_loadu_si512(places.as_ptr().cast())
        };
        let (low, high) = (places(0), places(16));
        for c in (0..n).step_by(32) {
            let mask = mask32(n - c);
            let row = |i: usize| _mm512_maskz_loadu_epi16(mask, rows[i].add(2 * c).cast());
            let (a, b) = (row(0), row(1));
            let to: *mut i32 = dst.add(4 * c).cast();
            _mm512_mask_storeu_epi32(to, mask as u16, _mm512_permutex2var_epi16(a, low, b));
            let mask = (mask >> 16) as u16;
            if mask != 0 {
                _mm512_mask_storeu_epi32(to.add(16), mask, _mm512_permutex2var_epi16(a, high, b));
            }
        }
    }
}

/// Four rows of 8-bit elements to one of quadruples, 64 at a time; the last ones under a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn interleave4(rows: [*const u8; 4], n: usize, dst: *mut u8) {
    // SAFETY: masks keep to n elements of each row and n quadruples.
    unsafe {
        for c in (0..n).step_by(64) {
            let count = (n - c).min(64);
            let mask = u64::MAX >> (64 - count);
            let row = |i: usize| _mm512_maskz_loadu_epi8(mask, rows[i].add(c).cast());
            let (a, b) = (
                (
                    _mm512_unpacklo_epi8(row(0), row(1)),
                    _mm512_unpackhi_epi8(row(0), row(1)),
                ),
                (
                    _mm512_unpacklo_epi8(row(2), row(3)),
                    _mm512_unpackhi_epi8(row(2), row(3)),
                ),
            );
            // Lane L of the i-th holds columns 16 L + 4 i … + 3.
            let u0 = _mm512_unpacklo_epi16(a.0, b.0);
            let u1 = _mm512_unpackhi_epi16(a.0, b.0);
            let u2 = _mm512_unpacklo_epi16(a.1, b.1);
            let u3 = _mm512_unpackhi_epi16(a.1, b.1);
            // Lanes are transposed: pairs first, then pairs of pairs.
            let (p0, p1) = (
                _mm512_shuffle_i32x4::<0x88>(u0, u1),
                _mm512_shuffle_i32x4::<0xdd>(u0, u1),
            );
            let (p2, p3) = (
                _mm512_shuffle_i32x4::<0x88>(u2, u3),
                _mm512_shuffle_i32x4::<0xdd>(u2, u3),
            );
            let quadruples = [
                _mm512_shuffle_i32x4::<0x88>(p0, p2),
                _mm512_shuffle_i32x4::<0x88>(p1, p3),
                _mm512_shuffle_i32x4::<0xdd>(p0, p2),
                _mm512_shuffle_i32x4::<0xdd>(p1, p3),
            ];
            for (v, four) in quadruples.into_iter().enumerate() {
                let mask = (mask >> (16 * v)) as u16;
                if mask != 0 {
                    _mm512_mask_storeu_epi32(dst.add(4 * (c + 16 * v)).cast(), mask, four);
                }
            }
        }
    }
}

/// What bf16 elements were found to be.
pub(super) struct Found {
    /// The smallest non-zero magnitude less one; zeros wrap around, which says nothing.
    least: __m512i,
    most: __m512i,
}

impl Found {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn nothing() -> Found {
        Found {
            least: _mm512_set1_epi16(-1),
            most: _mm512_setzero_si512(),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn look(&mut self, x: __m512i) {
        let magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
        self.least = _mm512_min_epu16(self.least, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
        self.most = _mm512_max_epu16(self.most, magnitude);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn terms(&self) -> Terms {
        // The largest number is what the smallest complement leaves.
        let most = _mm512_xor_si512(self.most, _mm512_set1_epi16(-1));
        // SAFETY: no memory is touched.
        unsafe { Terms::of_bf16(smallest(self.least), !smallest(most)) }
    }
}

/// Copies bf16 elements and looks at them on the way.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn copy_bf16(src: *const u8, n: usize, dst: *mut u8) -> Terms {
    let mut found = Found::nothing();
    for i in (0..n).step_by(32) {
        // SAFETY: masks keep to n elements on both sides. Elements past the end are zeros.
        unsafe {
            let mask = mask32(n - i);
            let x = _mm512_maskz_loadu_epi16(mask, src.add(2 * i).cast());
            _mm512_mask_storeu_epi16(dst.add(2 * i).cast(), mask, x);
            found.look(x);
        }
    }
    found.terms()
}

/// `f32` to bf16, to nearest, ties to even. In integers: VCVTNEPS2BF16 would flush subnormal numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn to_bf16(src: *const f32, n: usize, dst: *mut u8) {
    // SAFETY: masks keep to n elements on both sides.
    unsafe {
        let (half, one) = (_mm512_set1_epi32(0x7fff), _mm512_set1_epi32(1));
        // The upper words of two vectors.
        let upper: [u16; 32] = std::array::from_fn(|i| 2 * i as u16 + 1);
        let upper = _mm512_loadu_si512(upper.as_ptr().cast());
        for i in (0..n).step_by(32) {
            let mask = mask32(n - i);
            let load = |from: usize| {
                let mask = (mask >> from) as __mmask16;
                _mm512_maskz_loadu_ps(mask, src.wrapping_add(i + from))
            };
            let x = [load(0), load(16)];
            let mut rounded = x.map(|x| {
                let x = _mm512_castps_si512(x);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(x), one);
                _mm512_add_epi32(_mm512_add_epi32(x, half), odd)
            });
            if _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x[0], x[1]) != 0 {
                // A NaN loses its lower bits and becomes a quiet one.
                for (rounded, x) in rounded.iter_mut().zip(x) {
                    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                    let quiet = _mm512_or_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x40_0000));
                    *rounded = _mm512_mask_mov_epi32(*rounded, nan, quiet);
                }
            }
            let words = _mm512_permutex2var_epi16(rounded[0], upper, rounded[1]);
            _mm512_mask_storeu_epi16(dst.add(2 * i).cast(), mask, words);
        }
    }
}

/// Rows of `f32` to bf16 tiles (see [`TileRows`](super::TileRows)). VCVTNE2PS2BF16 takes subnormal numbers for zeros, so they
/// are refused.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) unsafe fn round_tiles(
    src: *const u8,
    src_stride: isize,
    rows: usize,
    cols: usize,
    tiles: usize,
    dst: *mut u8,
) -> Option<Terms> {
    const SMALLEST_NORMAL: u32 = 0x0080_0000;
    // SAFETY: masks keep to `cols` elements of each row; the caller vouches for the tiles.
    unsafe {
        let (sign, one) = (_mm512_set1_epi32(i32::MIN), _mm512_set1_epi32(1));
        let (mut least, mut most) = (_mm512_set1_epi32(-1), _mm512_setzero_si512());
        for r in 0..rows {
            let row = src.offset(r as isize * src_stride);
            for t in 0..tiles {
                let mask = match cols.saturating_sub(32 * t) {
                    0 => 0,
                    count => mask32(count),
                };
                // Elements past the end are zeros, which say nothing.
                let x = [
                    _mm512_maskz_loadu_epi32(mask as u16, row.wrapping_add(128 * t).cast()),
                    _mm512_maskz_loadu_epi32((mask >> 16) as u16, row.wrapping_add(128 * t + 64).cast()),
                ];
                for x in x {
                    let magnitude = _mm512_andnot_si512(sign, x);
                    least = _mm512_min_epu32(least, _mm512_sub_epi32(magnitude, one));
                    most = _mm512_max_epu32(most, magnitude);
                }
                let [low, high] = x.map(|x| _mm512_castsi512_ps(x));
                let pairs: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                _mm512_storeu_si512(dst.add(t * 1024 + r * 64).cast(), pairs);
            }
        }
        for r in rows..16 {
            for t in 0..tiles {
                _mm512_storeu_si512(dst.add(t * 1024 + r * 64).cast(), _mm512_setzero_si512());
            }
        }
        let least = _mm512_reduce_min_epu32(least);
        (least >= SMALLEST_NORMAL - 1).then(|| Terms {
            least,
            most: _mm512_reduce_max_epu32(most),
            rest: 0,
        })
    }
}

/// The smallest of 32 unsigned numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn smallest(x: __m512i) -> u16 {
    let half = _mm256_min_epu16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
    let quarter = _mm_min_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    _mm_extract_epi16::<0>(_mm_minpos_epu16(quarter)) as u16
}

/// A row of FP8 elements to bf16, scaled: 32 elements at a time, whose scale is a number added to the exponent. `None`, with
/// the row half written, where a scale could lead out of bf16's normal range.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn fp8_to_bf16(table: &FewTable, row: Fp8Row, dst: *mut u8) -> Option<Terms> {
    // SAFETY: masks keep to the row's elements on both sides; there is a scale for each block that they reach into.
    unsafe {
        let load = |bytes: *const u8| _mm512_loadu_si512(bytes.cast());
        let low = (load(table.low.as_ptr()), load(table.low.as_ptr().add(64)));
        let high = (load(table.high.as_ptr()), load(table.high.as_ptr().add(64)));
        let (one, infinite) = (_mm512_set1_epi16(1), _mm512_set1_epi16(0x7f80 - 1));
        let (mut least, mut most) = (_mm512_set1_epi16(-1), _mm512_setzero_si512());
        let mut i = 0;
        let mut block = row.phase / 32;
        while i < row.count {
            // To the end of the block or of the row.
            let count = match i {
                0 => 32 - row.phase % 32,
                _ => 32,
            }
            .min(row.count - i);
            let mask = mask32(count);
            let codes = _mm256_maskz_loadu_epi8(mask, row.src.add(i).cast());
            // Each code twice in its word: once for the lower byte's table, once for the upper one's.
            let twice = _mm512_mullo_epi16(_mm512_cvtepu8_epi16(codes), _mm512_set1_epi16(0x0101));
            let lower = _mm512_permutex2var_epi8(low.0, twice, low.1);
            let upper = _mm512_permutex2var_epi8(high.0, twice, high.1);
            let magnitude = _mm512_mask_blend_epi8(0xaaaa_aaaa_aaaa_aaaa, lower, upper);
            let before = _mm512_sub_epi16(magnitude, one);
            let scaled = if row.scales.is_null() {
                magnitude
            } else {
                let code = i32::from(*row.scales.wrapping_offset(block as isize * row.scale_stride));
                if !(48..=207).contains(&code) {
                    return None;
                }
                // Zeros, infinities and NaN stay what they are.
                let finite = _mm512_cmplt_epu16_mask(before, infinite);
                _mm512_mask_add_epi16(
                    magnitude,
                    finite,
                    magnitude,
                    _mm512_set1_epi16(((code - 127) << 7) as i16),
                )
            };
            least = _mm512_min_epu16(least, _mm512_sub_epi16(scaled, one));
            most = _mm512_max_epu16(most, scaled);
            // scaled | (twice & 0x8000)
            let signed = _mm512_ternarylogic_epi32::<0xf8>(scaled, twice, _mm512_set1_epi16(-0x8000));
            _mm512_mask_storeu_epi16(dst.add(2 * i).cast(), mask, signed);
            i += count;
            block += 1;
        }
        let most = _mm512_xor_si512(most, _mm512_set1_epi16(-1));
        Some(Terms::of_bf16(smallest(least), !smallest(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::kernel::portable;
    use crate::tile::path::has_bf16_dots;

    /// Against rounding in integers, element by element: every exponent, infinities and NaN, all edges of a strip.
    #[test]
    fn tiles_are_rounded_to_nearest() {
        if !has_bf16_dots() {
            return;
        }
        let values: Vec<f32> = (0..16 * 80u32)
            .map(|i| match i % 41 {
                0 => 0.0,
                1 => f32::NEG_INFINITY,
                2 => f32::NAN,
                _ => f32::from_bits(i.wrapping_mul(0x9e37_79b9) & 0xfe7f_ffff | 0x0080_0000),
            })
            .collect();
        for (rows, cols) in [(16, 64), (1, 1), (7, 31), (9, 33), (16, 80), (15, 48)] {
            let tiles = 80usize.div_ceil(32);
            let mut got = vec![0xaau8; tiles * 1024];
            // SAFETY: the machine has the instructions; rows of 80 elements, as many tiles as hold them.
            let found = unsafe { round_tiles(values.as_ptr().cast(), 320, rows, cols, tiles, got.as_mut_ptr()) };
            let (mut least, mut most) = (u32::MAX, 0);
            for (r, c) in (0..16).flat_map(|r| (0..tiles * 32).map(move |c| (r, c))) {
                let at = c / 32 * 1024 + r * 64 + c % 32 * 2;
                let got = u16::from_le_bytes([got[at], got[at + 1]]);
                let mut want = 0;
                if r < rows && c < cols {
                    let value = values[r * 80 + c];
                    want = portable::round_bf16(value);
                    let magnitude = value.to_bits() & 0x7fff_ffff;
                    (least, most) = (u32::min(least, magnitude.wrapping_sub(1)), u32::max(most, magnitude));
                }
                let nan = |x: u16| x & 0x7fff > 0x7f80;
                assert!(
                    got == want || nan(got) && nan(want),
                    "({r}, {c}): {got:x} is not {want:x}"
                );
            }
            let found = found.expect("no value is subnormal");
            assert_eq!((found.least, found.most), (least, most));
        }
        let subnormal = [1.0, f32::from_bits(1)];
        let mut tile = [0u8; 1024];
        // SAFETY: as above.
        let found = unsafe { round_tiles(subnormal.as_ptr().cast(), 8, 1, 2, 1, tile.as_mut_ptr()) };
        assert!(found.is_none());
    }
}
