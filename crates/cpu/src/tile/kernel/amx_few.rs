//! Few rows by quantised columns, on AMX: 64 bytes of each of some columns are decoded into bf16 with AVX-512, block scales
//! folded into the exponents, and stand in the first-level cache as rows of tiles, where a tile of the left operand's terms
//! meets them. So a tile's rows are columns of the right operand, as they lie, and its columns are rows of the left one:
//! 16 of them cost as much as one.
//!
//! The sums stay in tile registers for all of K: one tile for 16 columns by 16 terms of rows, four at once. The sums of
//! first and second terms are added at the end.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::amx::{configure, release};
use super::avx512_few::{codes_of, extreme_codes};
use super::avx512_few_wide::{codes, decode, load, tables, words};
use super::{FewJob, FewKernels, ops};
use crate::tile::TilePath;
use crate::tile::few_left::TilePlaces;

pub(super) const FEW: FewKernels = FewKernels {
    two_bits: multiply::<2, false>,
    four_bits: multiply::<4, false>,
    e4m3: multiply::<8, true>,
    e5m2: multiply::<8, false>,
    rows: 32,
    extreme_codes,
};

/// Columns whose elements make a tile.
const SIDE: usize = 16;

/// Bytes of a tile.
const TILE: usize = 1024;

/// Tiles of sums at once.
const SUMS: usize = 4;

/// The tiles of up to four times 16 columns for 64 bytes of K, up to 8 for each 16: a column's vectors lie one after the other, so
/// that rows of a tile are as far apart as a column's vectors reach.
#[repr(C, align(64))]
struct Decoded([[u8; TILE]; 8 * SUMS]);

/// The sums' tiles.
#[repr(C, align(64))]
struct Sums([[[f32; SIDE]; SIDE]; SUMS]);

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn multiply<const BITS: usize, const NAN: bool>(job: &mut FewJob<'_>) {
    let places = TilePlaces::new(job.left_rows, job.planes);
    // SAFETY: the contract of FewKernels, of a path that has AMX.
    unsafe {
        configure();
        match places.tiles() {
            1 => by_columns::<BITS, NAN, 1>(job, places),
            2 => by_columns::<BITS, NAN, 2>(job, places),
            _ => by_columns::<BITS, NAN, 4>(job, places),
        }
        release();
    }
}

/// While tiles of 64 bytes of K are multiplied, a step after the other, the next 64 bytes are decoded, a part between two steps:
/// the tile unit then has work all the time, and finds its operands in the cache.
///
/// # Safety
/// As for [`multiply`], with tiles configured and TILES tiles of the left operand for each vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn by_columns<const BITS: usize, const NAN: bool, const TILES: usize>(job: &mut FewJob<'_>, places: TilePlaces) {
    let groups = SUMS / TILES;
    let steps = words::<BITS>();
    // Columns of a part.
    let part = groups * SIDE / steps;
    let chunks = job.right.bytes.div_ceil(64);
    let mut decoded = [const { MaybeUninit::<Decoded>::uninit() }; 2];
    let mut sums = Sums([[[0.0; SIDE]; SIDE]; SUMS]);
    let step = match TILES {
        1 => by_one,
        2 => by_two,
        _ => by_four,
    };
    for first in (0..job.right.count).step_by(groups * SIDE) {
        let columns = (groups * SIDE).min(job.right.count - first);
        let mut next = Next {
            at: match first + columns < job.right.count {
                true => job.right.column(first + columns),
                false => job.next,
            },
            left: chunks,
            chunks,
            stride: job.right.stride,
        };
        let mut most = [_mm512_setzero_si512(); SUMS * SIDE];
        // SAFETY: the columns are the job's; the left operand holds a tile for each word of a chunk and TILES; the sums are four
        // tiles. Tiles of columns that are not there hold anything, and so do their sums, which nobody reads.
        unsafe {
            zero();
            let [mut ready, mut filling] = decoded.each_mut().map(|decoded| decoded.as_mut_ptr().cast::<u8>());
            let mut fill = |q: usize, columns: Range<usize>, to: *mut u8| {
                fill::<BITS, NAN>(job, first, columns, q, &mut next, to, &mut most);
            };
            fill(0, 0..columns, ready);
            for q in 0..chunks {
                let left = job.left.add(q * steps * TILES * TILE);
                for s in 0..steps {
                    step(ready.add(s * 64), steps * 64, left.add(s * TILES * TILE));
                    if q + 1 < chunks {
                        fill(q + 1, (s * part).min(columns)..((s + 1) * part).min(columns), filling);
                    }
                }
                std::mem::swap(&mut ready, &mut filling);
            }
            store(&mut sums);
            for c in (0..columns).step_by(SIDE) {
                let group = c / SIDE * TILES;
                let nan = if NAN { &most[c..c + SIDE] } else { &[] };
                put(
                    job,
                    places,
                    first + c,
                    SIDE.min(columns - c),
                    &sums.0[group..group + TILES],
                    nan,
                );
            }
        }
    }
}

/// Takes the sums of 16 columns or fewer in: those of a row's terms are added up, and columns become rows. `most` holds the largest
/// magnitudes of the columns' codes where they may be E4M3's NaN.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn put(
    job: &mut FewJob<'_>,
    places: TilePlaces,
    first: usize,
    columns: usize,
    tiles: &[[[f32; SIDE]; SIDE]],
    most: &[__m512i],
) {
    // Up to 16 rows at a time.
    for from in (0..job.rows).step_by(SIDE) {
        let rows = SIDE.min(job.rows - from);
        let mut by_columns = [[0.0f32; SIDE]; SIDE];
        let mut by_rows = [[0.0f32; SIDE]; SIDE];
        // SAFETY: sixteen numbers in a column of a tile; tiles of 16 × 16.
        unsafe {
            for (place, column) in by_columns.iter_mut().enumerate().take(columns) {
                let mut total = _mm512_setzero_ps();
                for plane in (0..job.planes).rev() {
                    let (tile, start) = places.of(from, plane);
                    // The row's place comes first.
                    let order = _mm512_add_epi32(_mm512_set1_epi32(start as i32), COUNT);
                    let terms = _mm512_loadu_ps(tiles[tile][place].as_ptr());
                    total = _mm512_add_ps(total, _mm512_permutexvar_ps(order, terms));
                }
                if most.get(place).is_some_and(|&most| has_nan(most)) {
                    total = _mm512_set1_ps(f32::NAN);
                }
                _mm512_storeu_ps(column.as_mut_ptr(), total);
            }
            let (from, to) = (by_columns.as_ptr().cast(), by_rows.as_mut_ptr().cast());
            (ops(TilePath::Amx).transpose)(from, 64, SIDE, SIDE, to, 64);
        }
        for (row, new) in by_rows.iter().enumerate().take(rows) {
            let sums = &mut job.sums[(from + row) * job.stride + first..][..columns];
            match job.accumulate {
                true => sums.iter_mut().zip(new).for_each(|(sum, new)| *sum += new),
                false => sums.copy_from_slice(&new[..columns]),
            }
        }
    }
}

/// The bytes of the columns after those in work, which are asked for as they lie, one after the other: reading 64 columns at once
/// would take memory out of its stride.
struct Next {
    at: *const u8,
    /// Times 64 bytes to the end of the column.
    left: usize,
    chunks: usize,
    stride: isize,
}

impl Next {
    #[inline(always)]
    fn ask(&mut self) {
        // SAFETY: a prefetch may go anywhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(self.at.cast()) };
        self.at = self.at.wrapping_add(64);
        self.left -= 1;
        if self.left == 0 {
            self.at = self
                .at
                .wrapping_offset(self.stride.wrapping_sub(64 * self.chunks as isize));
            self.left = self.chunks;
        }
    }
}

/// Decodes 64 bytes of some columns, counted from the `first`, into a column's vectors each, one for each of [`words`] tiles.
///
/// # Safety
/// The columns must be the job's, the chunk within them, the tiles writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn fill<const BITS: usize, const NAN: bool>(
    job: &FewJob<'_>,
    first: usize,
    columns: Range<usize>,
    q: usize,
    next: &mut Next,
    to: *mut u8,
    most: &mut [__m512i; SUMS * SIDE],
) {
    // SAFETY: the caller's contract.
    unsafe {
        let right = &job.right;
        let tables = tables(job);
        let spread = word_places(codes::<BITS>());
        let mut at = right.column(first + columns.start).wrapping_add(64 * q);
        let mut to = to.add(columns.start * words::<BITS>() * 64);
        let whole = right.bytes >= 64 * (q + 1);
        for i in columns {
            let bytes = match whole {
                true => _mm512_loadu_si512(at.cast()),
                false => load(right, first + i, q),
            };
            next.ask();
            if NAN {
                let magnitudes = _mm512_and_si512(bytes, _mm512_set1_epi8(0x7f));
                most[i] = _mm512_max_epu8(most[i], magnitudes);
            }
            let mut shift = _mm512_setzero_si512();
            if !right.scales.is_null() {
                // The code in the exponent of a bf16 word, less that of one.
                let placed = _mm512_shuffle_epi8(codes_of(right, first + i, q, codes::<BITS>()), spread);
                shift = _mm512_sub_epi16(_mm512_srli_epi16::<1>(placed), _mm512_set1_epi16(127 << 7));
            }
            for step in 0..words::<BITS>() {
                let mut words = decode::<BITS>(tables, bytes, step);
                if !right.scales.is_null() {
                    let some = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7fff));
                    words = _mm512_mask_add_epi16(words, some, words, shift);
                }
                _mm512_store_si512(to.add(step * 64).cast(), words);
            }
            at = at.wrapping_offset(right.stride);
            to = to.add(words::<BITS>() * 64);
        }
    }
}

/// True where the largest magnitude of codes is E4M3's NaN, whose exponent a scale has changed: such a column has sums that are
/// all NaN.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn has_nan(most: __m512i) -> bool {
    _mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8(0x7f)) != 0
}

/// Where the scale codes of 64 bytes go: to the upper byte of the words of their blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn word_places(count: usize) -> __m512i {
    let mut places = [0x80u8; 64];
    for word in 0..32 {
        places[2 * word + 1] = (word * count / 32) as u8;
    }
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(places.as_ptr().cast()) }
}

/// 0 … 15.
const COUNT: __m512i = {
    let mut count = [0i32; SIDE];
    let mut i = 0;
    while i < SIDE {
        count[i] = i as i32;
        i += 1;
    }
    // SAFETY: both are 64 bytes that may hold anything.
    unsafe { std::mem::transmute(count) }
};

/// Zeroes the sums, tiles 0 … 3.
///
/// # Safety
/// The tiles must be configured.
unsafe fn zero() {
    // SAFETY: no operands. No code that a compiler generates holds anything in tile registers.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            options(nostack, nomem, preserves_flags)
        );
    }
}

/// # Safety
/// The tiles must be configured.
unsafe fn store(sums: &mut Sums) {
    // SAFETY: four tiles of 1 KiB.
    unsafe {
        asm!(
            "tilestored [{p} + {s}*1], tmm0",
            "tilestored [{p} + {s}*1 + 1024], tmm1",
            "tilestored [{p} + {s}*1 + 2048], tmm2",
            "tilestored [{p} + {s}*1 + 3072], tmm3",
            p = in(reg) sums.0.as_mut_ptr(),
            s = in(reg) 64usize,
            options(nostack, preserves_flags)
        );
    }
}

/// A step: adds the products of tiles of columns, whose rows lie `apart` bytes from each other and which follow each other, and tiles
/// of the left operand, one after the other. Here four of columns and one on the left.
///
/// # Safety
/// The tiles must be configured and the operands readable.
unsafe fn by_one(columns: *const u8, apart: usize, left: *const u8) {
    // SAFETY: the caller's contract; the tiles of columns reach to `columns` + 64 · `apart`.
    unsafe {
        asm!(
            "tileloadd tmm7, [{b} + {s}*1]",
            "tileloadd tmm4, [{a0} + {r}*1]",
            "tileloadd tmm5, [{a1} + {r}*1]",
            "tileloadd tmm6, [{a2} + {r}*1]",
            "tdpbf16ps tmm0, tmm4, tmm7",
            "tileloadd tmm4, [{a3} + {r}*1]",
            "tdpbf16ps tmm1, tmm5, tmm7",
            "tdpbf16ps tmm2, tmm6, tmm7",
            "tdpbf16ps tmm3, tmm4, tmm7",
            a0 = in(reg) columns,
            a1 = in(reg) columns.wrapping_add(SIDE * apart),
            a2 = in(reg) columns.wrapping_add(2 * SIDE * apart),
            a3 = in(reg) columns.wrapping_add(3 * SIDE * apart),
            r = in(reg) apart,
            b = in(reg) left,
            s = in(reg) 64usize,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly, preserves_flags)
        );
    }
}

/// As [`by_one`], two of columns and two on the left.
///
/// # Safety
/// As for [`by_one`].
unsafe fn by_two(columns: *const u8, apart: usize, left: *const u8) {
    // SAFETY: the caller's contract.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a0} + {r}*1]",
            "tileloadd tmm6, [{b} + {s}*1]",
            "tileloadd tmm7, [{b} + {s}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{a1} + {r}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            a0 = in(reg) columns,
            a1 = in(reg) columns.wrapping_add(SIDE * apart),
            r = in(reg) apart,
            b = in(reg) left,
            s = in(reg) 64usize,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly, preserves_flags)
        );
    }
}

/// As [`by_one`], one of columns and four on the left.
///
/// # Safety
/// As for [`by_one`].
unsafe fn by_four(columns: *const u8, apart: usize, left: *const u8) {
    // SAFETY: the caller's contract.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {r}*1]",
            "tileloadd tmm5, [{b} + {s}*1]",
            "tileloadd tmm6, [{b} + {s}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm5",
            "tileloadd tmm7, [{b} + {s}*1 + 2048]",
            "tdpbf16ps tmm1, tmm4, tmm6",
            "tileloadd tmm5, [{b} + {s}*1 + 3072]",
            "tdpbf16ps tmm2, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm4, tmm5",
            a = in(reg) columns,
            r = in(reg) apart,
            b = in(reg) left,
            s = in(reg) 64usize,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly, preserves_flags)
        );
    }
}
