//! Few rows by quantised columns, on AMX: 64 bytes of each of some columns are decoded into bf16 with AVX-512, block scales
//! folded into the exponents, and stand in the first-level cache as rows of tiles, where a tile of the left operand's terms
//! meets them. So a tile's rows are columns of the right operand, as they lie, and its columns are rows of the left one:
//! 16 of them cost as much as one.
//!
//! The sums stay in tile registers for all of K: one tile for 16 columns by 16 terms of rows, four at once. The sums of
//! first and second terms are added at the end.

use std::arch::asm;
use std::arch::x86_64::*;

use super::amx::{configure, release};
use super::avx512_few::{codes_of, extreme_codes};
use super::avx512_few_wide::{Tables, codes, decode, load, tables, words};
use super::{FewJob, FewKernels};
use crate::tile::few::Columns;
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

/// The tiles of up to four times 16 columns for 64 bytes of K, 8 at most for each 16.
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
    let mut decoded = [const { Decoded([[0; TILE]; 8 * SUMS]) }; 2];
    let mut sums = Sums([[[0.0; SIDE]; SIDE]; SUMS]);
    let step = match TILES {
        1 => by_one,
        2 => by_two,
        _ => by_four,
    };
    // SAFETY: of the format's tables.
    let tables = unsafe { tables(job) };
    for first in (0..job.right.count).step_by(groups * SIDE) {
        let columns = (groups * SIDE).min(job.right.count - first);
        let mut next = Next {
            column: first + columns,
            q: 0,
            chunks,
        };
        let mut most = [_mm512_setzero_si512(); SUMS * SIDE];
        // SAFETY: the columns are the job's; the left operand holds a tile for each word of a chunk and TILES; the sums are four
        // tiles.
        unsafe {
            zero();
            let [mut ready, mut filling] = decoded.each_mut().map(|decoded| decoded.0.as_mut_ptr().cast::<u8>());
            let mut fill = |q: usize, columns: std::ops::Range<usize>, to: *mut u8| {
                fill::<BITS, NAN>(job, tables, first, columns, q, &mut next, to, &mut most);
            };
            fill(0, 0..columns, ready);
            for q in 0..chunks {
                let left = job.left.add(q * steps * TILES * TILE);
                for s in 0..steps {
                    step(ready.add(s * TILE), steps * TILE, left.add(s * TILES * TILE));
                    if q + 1 < chunks {
                        fill(q + 1, (s * part).min(columns)..((s + 1) * part).min(columns), filling);
                    }
                }
                std::mem::swap(&mut ready, &mut filling);
            }
            store(&mut sums);
        }
        for c in 0..columns {
            let (group, place) = (c / SIDE, c % SIDE);
            // SAFETY: no memory is touched.
            let nan = NAN && unsafe { has_nan(most[c]) };
            for row in 0..job.rows {
                let term = |plane: usize| {
                    let (tile, column) = places.of(row, plane);
                    sums.0[group * TILES + tile][place][column]
                };
                let sum = (0..job.planes).rev().fold(0.0, |sum, plane| sum + term(plane));
                job.put(row, first + c, if nan { f32::NAN } else { sum });
            }
        }
    }
}

/// The bytes of the columns after those in work, which are asked for as they lie, one after the other: reading 64 columns at once
/// would take memory out of its stride.
struct Next {
    column: usize,
    q: usize,
    chunks: usize,
}

impl Next {
    #[inline(always)]
    fn ask(&mut self, right: &Columns) {
        let at = right.column(self.column).wrapping_add(64 * self.q);
        // SAFETY: a prefetch may go anywhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
        self.q += 1;
        if self.q == self.chunks {
            (self.column, self.q) = (self.column + 1, 0);
        }
    }
}

/// Decodes 64 bytes of some columns, counted from the `first`: a row of each of [`words`] tiles for each.
///
/// # Safety
/// The columns must be the job's, the chunk within them, the tiles writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn fill<const BITS: usize, const NAN: bool>(
    job: &FewJob<'_>,
    tables: Tables,
    first: usize,
    columns: std::ops::Range<usize>,
    q: usize,
    next: &mut Next,
    to: *mut u8,
    most: &mut [__m512i; SUMS * SIDE],
) {
    // SAFETY: the caller's contract.
    unsafe {
        let right = &job.right;
        let spread = word_places(codes::<BITS>());
        for i in columns {
            let bytes = load(right, first + i, q);
            next.ask(right);
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
            let to = to.add(i / SIDE * words::<BITS>() * TILE + i % SIDE * 64);
            for step in 0..words::<BITS>() {
                let mut words = decode::<BITS>(tables, bytes, step);
                if !right.scales.is_null() {
                    let some = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7fff));
                    words = _mm512_mask_add_epi16(words, some, words, shift);
                }
                _mm512_store_si512(to.add(step * TILE).cast(), words);
            }
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

/// A step: adds the products of tiles of columns, `apart` bytes from each other, and tiles of the left operand, one after
/// the other. Here four of columns and one on the left.
///
/// # Safety
/// The tiles must be configured and the operands readable.
unsafe fn by_one(columns: *const u8, apart: usize, left: *const u8) {
    // SAFETY: the caller's contract; the tiles of columns reach to `columns` + 3 · `apart`.
    unsafe {
        asm!(
            "tileloadd tmm7, [{b} + {s}*1]",
            "tileloadd tmm4, [{a0} + {s}*1]",
            "tileloadd tmm5, [{a1} + {s}*1]",
            "tileloadd tmm6, [{a2} + {s}*1]",
            "tdpbf16ps tmm0, tmm4, tmm7",
            "tileloadd tmm4, [{a3} + {s}*1]",
            "tdpbf16ps tmm1, tmm5, tmm7",
            "tdpbf16ps tmm2, tmm6, tmm7",
            "tdpbf16ps tmm3, tmm4, tmm7",
            a0 = in(reg) columns,
            a1 = in(reg) columns.wrapping_add(apart),
            a2 = in(reg) columns.wrapping_add(2 * apart),
            a3 = in(reg) columns.wrapping_add(3 * apart),
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
            "tileloadd tmm4, [{a0} + {s}*1]",
            "tileloadd tmm6, [{b} + {s}*1]",
            "tileloadd tmm7, [{b} + {s}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{a1} + {s}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            a0 = in(reg) columns,
            a1 = in(reg) columns.wrapping_add(apart),
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
unsafe fn by_four(columns: *const u8, _: usize, left: *const u8) {
    // SAFETY: the caller's contract.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {s}*1]",
            "tileloadd tmm5, [{b} + {s}*1]",
            "tileloadd tmm6, [{b} + {s}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm5",
            "tileloadd tmm7, [{b} + {s}*1 + 2048]",
            "tdpbf16ps tmm1, tmm4, tmm6",
            "tileloadd tmm5, [{b} + {s}*1 + 3072]",
            "tdpbf16ps tmm2, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm4, tmm5",
            a = in(reg) columns,
            b = in(reg) left,
            s = in(reg) 64usize,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly, preserves_flags)
        );
    }
}
