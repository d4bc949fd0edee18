//! Few rows by quantised columns, on AVX2: a column's packed elements are read where they lie, 64 bytes at a time, and each 32 of them
//! become `f32` in registers, in the order in which the left operand was laid out for them.
//!
//! Up to four rows multiply each decoded vector where it comes out; more rows share columns that are decoded into the
//! first-level cache ([`super::avx2_few_panel`]). Sums of a block of 32 elements are multiplied by the block's scale.

use std::arch::x86_64::*;
use std::ops::RangeInclusive;

use super::avx2_few_digits::nothing;
use super::{FewJob, FewKernels, avx2_few_panel};
use crate::tile::few::Columns;

pub(super) const FEW: FewKernels = FewKernels {
    two_bits: by_rows::<TWO>,
    four_bits: by_rows::<FOUR>,
    e4m3: by_rows::<E4M3>,
    e5m2: by_rows::<E5M2>,
    rows: avx2_few_panel::ROWS,
    extreme_codes,
};

/// For rows of [`Layout::Raised`](crate::tile::few_left::Layout::Raised).
pub(super) const RAISED_FEW: FewKernels = FewKernels {
    two_bits: nothing,
    four_bits: nothing,
    e4m3: by_raised_rows,
    e5m2: nothing,
    rows: 4,
    extreme_codes,
};

/// The ways to decode: of integers and FP4 of 2 and of 4 bits by table, of FP8 by way of binary16, and of E4M3 by
/// moving its bits to their places in `f32`, whose exponent then is 120 too small.
pub(super) const TWO: u8 = 2;
pub(super) const FOUR: u8 = 4;
pub(super) const E4M3: u8 = 43;
pub(super) const RAISED: u8 = 44;
pub(super) const E5M2: u8 = 52;

/// Scale codes to 32 bytes.
pub(super) const fn scale_codes<const WAY: u8>() -> usize {
    match WAY {
        TWO => 4,
        FOUR => 2,
        _ => 1,
    }
}

/// Parts of 32 bytes whose vectors take the same scales.
pub(super) const fn parts<const WAY: u8>() -> usize {
    if WAY == TWO { 2 } else { 1 }
}

/// Steps of four vectors to a part.
pub(super) const fn steps<const WAY: u8>() -> usize {
    if WAY == TWO || WAY == FOUR { 2 } else { 1 }
}

/// Vectors to 32 bytes.
pub(super) const fn vectors<const WAY: u8>() -> usize {
    parts::<WAY>() * steps::<WAY>() * 4
}

/// What sums have to be multiplied by: E4M3 codes come out as binary16 or `f32` numbers with a smaller exponent, the rows for the
/// latter with a larger one.
pub(super) const fn factor<const WAY: u8>() -> f32 {
    match WAY {
        E4M3 => 256.0,
        RAISED => 512.0,
        _ => 1.0,
    }
}

/// True where E4M3's NaN has to be looked for: it comes out as a number.
const fn hides_nan<const WAY: u8>() -> bool {
    WAY == E4M3 || WAY == RAISED
}

/// True where block scales are in the tables.
pub(super) const fn scaled_tables<const WAY: u8>() -> bool {
    WAY == TWO || WAY == FOUR
}

/// The lower and the upper byte of each code's bf16 value, both in either half.
#[derive(Clone, Copy)]
pub(super) struct Bytes(__m256i, __m256i);

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn bytes_of(job: &FewJob<'_>) -> Bytes {
    let half = |table: &[u8; 128]| {
        // SAFETY: 16 of 128 bytes.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
    };
    Bytes(half(&job.table.low), half(&job.table.high))
}

/// The same bytes for the scales of a part of one half of a chunk, each half of a vector its own.
///
/// # Safety
/// The chunk's cursor must still be there, and there must be scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn scaled_bytes_of<const WAY: u8, const UNIT: usize>(
    job: &FewJob<'_>,
    chunk: &Chunk<WAY, UNIT>,
    half: usize,
    part: usize,
) -> Bytes {
    let [a, b] = match WAY {
        TWO => [part, part + 2],
        _ => [0, 1],
    }
    .map(|code| {
        // SAFETY: the chunk's codes are readable.
        let code = unsafe { *chunk.codes.add(half * scale_codes::<WAY>() + code) };
        &job.table.scaled[usize::from(code)]
    });
    // SAFETY: 16 bytes each.
    let halves = |i: usize| unsafe {
        _mm256_inserti128_si256::<1>(
            _mm256_castsi128_si256(_mm_loadu_si128(a[i].as_ptr().cast())),
            _mm_loadu_si128(b[i].as_ptr().cast()),
        )
    };
    Bytes(halves(0), halves(1))
}

/// Four decoded vectors: those of a step of a part of 32 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn decode<const WAY: u8>(table: Bytes, bytes: __m256i, part: usize, step: usize) -> [__m256; 4] {
    // bf16 numbers of 16 codes, of which the even ones and the odd ones become f32.
    let both = |words: __m256i| {
        let odd = _mm256_and_si256(words, _mm256_set1_epi32(0xffff_0000u32 as i32));
        [
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)),
            _mm256_castsi256_ps(odd),
        ]
    };
    // The codes that lie at a bit of each byte, the next code above: the tables of 2 bits repeat.
    let at = |shift: i32| _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(15));
    match WAY {
        FOUR => {
            let codes = at(4 * step as i32);
            let (low, high) = (_mm256_shuffle_epi8(table.0, codes), _mm256_shuffle_epi8(table.1, codes));
            let [a, b] = both(_mm256_unpacklo_epi8(low, high));
            let [c, d] = both(_mm256_unpackhi_epi8(low, high));
            [a, b, c, d]
        }
        TWO => {
            let words = |shift: i32| {
                let codes = at(shift);
                let (low, high) = (_mm256_shuffle_epi8(table.0, codes), _mm256_shuffle_epi8(table.1, codes));
                match part {
                    0 => _mm256_unpacklo_epi8(low, high),
                    _ => _mm256_unpackhi_epi8(low, high),
                }
            };
            let [a, b] = both(words(4 * step as i32));
            let [c, d] = both(words(4 * step as i32 + 2));
            [a, b, c, d]
        }
        RAISED => {
            let kept = _mm256_set1_epi32(0x87f0_0000u32 as i32);
            let both = |words: __m256i| {
                let words = _mm256_srai_epi16::<4>(words);
                [_mm256_slli_epi32::<16>(words), words].map(|x| _mm256_castsi256_ps(_mm256_and_si256(x, kept)))
            };
            let [a, c] = both(_mm256_slli_epi16::<8>(bytes));
            let [b, d] = both(bytes);
            [a, b, c, d]
        }
        _ => {
            let halves = |words: __m256i| {
                let words = match WAY {
                    // One more bit of exponent: shifted with the sign, which then is taken out of the second place.
                    E4M3 => _mm256_and_si256(_mm256_srai_epi16::<1>(words), _mm256_set1_epi16(0xbfffu16 as i16)),
                    _ => words,
                };
                let upper = _mm256_extracti128_si256::<1>(words);
                [_mm256_cvtph_ps(_mm256_castsi256_si128(words)), _mm256_cvtph_ps(upper)]
            };
            let zero = _mm256_setzero_si256();
            let [a, c] = halves(_mm256_unpacklo_epi8(zero, bytes));
            let [b, d] = halves(_mm256_unpackhi_epi8(zero, bytes));
            [a, b, c, d]
        }
    }
}

/// A column as chunks of UNIT times 32 bytes and their scale codes. What is past its end reads as zeros.
///
/// Its alignment makes the compiler align the stack of the functions that hold one: vectors that they put there for a while
/// would otherwise lie across cache lines, depending on the caller (4 rows then took 1.7 times as long).
#[repr(align(64))]
pub(super) struct Cursor<const WAY: u8, const UNIT: usize> {
    bytes: *const u8,
    codes: *const u8,
    /// Chunks that are whole.
    whole: usize,
    last_bytes: [u8; 128],
    last_codes: [u8; 8],
}

/// A chunk: addresses of its bytes and codes.
#[derive(Clone, Copy)]
pub(super) struct Chunk<const WAY: u8, const UNIT: usize> {
    bytes: *const u8,
    codes: *const u8,
}

impl<const WAY: u8, const UNIT: usize> Cursor<WAY, UNIT> {
    /// # Safety
    /// The column must be one of these.
    #[inline(always)]
    pub unsafe fn new(right: &Columns, column: usize) -> Self {
        let bytes = right.column(column);
        let (codes, count) = match right.scales.is_null() {
            true => (std::ptr::null(), 0),
            false => right.codes(column, 0),
        };
        let whole = right.bytes / (32 * UNIT);
        let mut cursor = Cursor {
            bytes,
            codes,
            whole,
            last_bytes: [0; 128],
            last_codes: [0; 8],
        };
        // SAFETY: the column's bytes and codes are readable; fewer than a chunk are left.
        unsafe {
            let (at, rest) = (bytes.add(32 * UNIT * whole), right.bytes % (32 * UNIT));
            if rest > 0 {
                std::ptr::copy_nonoverlapping(at, cursor.last_bytes.as_mut_ptr(), rest);
            }
            let before = scale_codes::<WAY>() * UNIT * whole;
            if count > before {
                std::ptr::copy_nonoverlapping(codes.add(before), cursor.last_codes.as_mut_ptr(), count - before);
            }
        }
        cursor
    }

    /// The chunks: the first one that is whole and how many are, then one that is not and whether it is there.
    #[inline(always)]
    pub fn runs(&self, right: &Columns) -> [(Chunk<WAY, UNIT>, usize); 2] {
        let rest = usize::from(!right.bytes.is_multiple_of(32 * UNIT));
        [(self.chunk(0), self.whole), (self.chunk(self.whole), rest)]
    }

    /// Chunk `q`, which must begin within the column.
    #[inline(always)]
    pub fn chunk(&self, q: usize) -> Chunk<WAY, UNIT> {
        match q < self.whole {
            true => Chunk {
                bytes: self.bytes.wrapping_add(32 * UNIT * q),
                codes: self.codes.wrapping_add(scale_codes::<WAY>() * UNIT * q),
            },
            false => Chunk {
                bytes: self.last_bytes.as_ptr(),
                codes: self.last_codes.as_ptr(),
            },
        }
    }
}

impl<const WAY: u8, const UNIT: usize> Chunk<WAY, UNIT> {
    /// The chunk that comes `q` chunks later in a run.
    #[inline(always)]
    pub fn after(&self, q: usize) -> Self {
        Chunk {
            bytes: self.bytes.wrapping_add(32 * UNIT * q),
            codes: self.codes.wrapping_add(scale_codes::<WAY>() * UNIT * q),
        }
    }

    /// 32 of the bytes.
    ///
    /// # Safety
    /// The chunk's cursor must still be there, as for the next functions.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn bytes(&self, half: usize) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe { _mm256_loadu_si256(self.bytes.add(32 * half).cast()) }
    }

    /// The scale of 32 bytes of FP8. There must be scales.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn scale(&self, half: usize) -> __m256 {
        // SAFETY: the caller's contract.
        let code = unsafe { *self.codes.add(half) };
        _mm256_broadcast_ss(&POWERS[usize::from(code)])
    }

    /// The scale codes, over and over. There must be scales.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn codes(&self) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe {
            match scale_codes::<WAY>() * UNIT {
                1 => _mm256_set1_epi8(*self.codes as i8),
                2 => _mm256_set1_epi16(self.codes.cast::<i16>().read_unaligned()),
                4 => _mm256_set1_epi32(self.codes.cast::<i32>().read_unaligned()),
                _ => _mm256_set1_epi64x(self.codes.cast::<i64>().read_unaligned()),
            }
        }
    }
}

/// What scale codes from 1 to 254 stand for: loading one costs less than making it.
static POWERS: [f32; 256] = {
    let mut powers = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        powers[code] = f32::from_bits((code as u32) << 23);
        code += 1;
    }
    powers
};

/// Asks for the bytes that lie `ahead` bytes from one of a column.
#[inline(always)]
pub(super) fn ask(right: &Columns, column: usize, byte: usize, ahead: isize) {
    let at = right.column(column).wrapping_add(byte).wrapping_offset(ahead);
    // SAFETY: a prefetch may go anywhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// The largest of FP8 codes, the sign left out.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn largest(most: __m256i, bytes: __m256i) -> __m256i {
    _mm256_max_epu8(most, _mm256_and_si256(bytes, _mm256_set1_epi8(0x7f)))
}

/// True where the largest code is E4M3's NaN, which [`decode`] takes for a number: a column with one has sums that are all NaN.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn has_nan(most: __m256i) -> bool {
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(most, _mm256_set1_epi8(0x7f))) != 0
}

/// Bytes to be asked for ahead of those in work.
pub(super) const AHEAD: isize = 4096;

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_raised_rows(job: &mut FewJob<'_>) {
    // Some of the numbers are subnormal, which a program may have set its threads to take for zeros.
    let _subnormals = Subnormals::count();
    // SAFETY: the contract of FewKernels.
    unsafe { by_rows::<RAISED>(job) }
}

/// While this lives, subnormal operands are not taken for zeros.
struct Subnormals {
    /// What the thread had set.
    control: u32,
}

impl Subnormals {
    /// The bit of MXCSR that makes them zeros.
    const ZEROS: u32 = 1 << 6;

    fn count() -> Subnormals {
        let mut control = 0u32;
        // SAFETY: stores MXCSR; every x86-64 processor has it.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack, preserves_flags)) };
        if control & Self::ZEROS != 0 {
            Self::set(control & !Self::ZEROS);
        }
        Subnormals { control }
    }

    fn set(control: u32) {
        // SAFETY: the thread's own value, but for one bit that tells how subnormal operands count.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &control, options(nostack, preserves_flags)) };
    }
}

impl Drop for Subnormals {
    fn drop(&mut self) {
        if self.control & Self::ZEROS != 0 {
            Self::set(self.control);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_rows<const WAY: u8>(job: &mut FewJob<'_>) {
    // SAFETY: the contract of FewKernels.
    unsafe {
        match (job.rows, job.right.scales.is_null()) {
            (1, true) => by_columns::<WAY, 1, false>(job),
            (1, false) => by_columns::<WAY, 1, true>(job),
            (2, true) => by_columns::<WAY, 2, false>(job),
            (2, false) => by_columns::<WAY, 2, true>(job),
            (3, true) => by_columns::<WAY, 3, false>(job),
            (3, false) => by_columns::<WAY, 3, true>(job),
            (4, true) => by_columns::<WAY, 4, false>(job),
            (4, false) => by_columns::<WAY, 4, true>(job),
            _ => avx2_few_panel::multiply::<WAY>(job),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn by_columns<const WAY: u8, const ROWS: usize, const SCALED: bool>(job: &mut FewJob<'_>) {
    let count = job.right.count;
    // SAFETY: the contract of FewKernels.
    unsafe {
        match ROWS {
            1 if SCALED && !scaled_tables::<WAY>() => {
                (0..count).for_each(|c| tile::<WAY, ROWS, 1, 2, 2, SCALED>(job, c));
            }
            1 => (0..count).for_each(|c| tile::<WAY, ROWS, 1, 4, 2, SCALED>(job, c)),
            2 if SCALED && !scaled_tables::<WAY>() => {
                (0..count).for_each(|c| tile::<WAY, ROWS, 1, 1, 2, SCALED>(job, c));
            }
            2 => (0..count).for_each(|c| tile::<WAY, ROWS, 1, 4, 2, SCALED>(job, c)),
            _ => {
                for c in (0..count - count % 2).step_by(2) {
                    tile::<WAY, ROWS, 2, 1, 1, SCALED>(job, c);
                }
                if !count.is_multiple_of(2) {
                    tile::<WAY, ROWS, 1, 1, 1, SCALED>(job, count - 1);
                }
            }
        }
    }
}

/// All rows by some columns, in chunks of UNIT times 32 bytes. CHAINS sums of each are made at once, because one would wait
/// for itself.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<
    const WAY: u8,
    const ROWS: usize,
    const COLUMNS: usize,
    const CHAINS: usize,
    const UNIT: usize,
    const SCALED: bool,
>(
    job: &mut FewJob<'_>,
    first: usize,
) {
    // SAFETY: columns `first` on of the job, read to their ends; the left operand holds ROWS rows of every vector; the results
    // are those of the job.
    unsafe {
        let right: &Columns = &job.right;
        let table = bytes_of(job);
        let zero = [[[_mm256_setzero_ps(); CHAINS]; COLUMNS]; ROWS];
        let mut totals = zero;
        let mut most = [_mm256_setzero_si256(); COLUMNS];
        let mut left: *const f32 = job.left.cast();
        let ahead = right.ahead(AHEAD, COLUMNS);
        let cursors: [Cursor<WAY, UNIT>; COLUMNS] = std::array::from_fn(|i| Cursor::new(right, first + i));
        for q in 0..right.bytes.div_ceil(32 * UNIT) {
            let mut bytes = [[_mm256_setzero_si256(); UNIT]; COLUMNS];
            for c in 0..COLUMNS {
                ask(right, first + c, 32 * UNIT * q, ahead);
                for half in 0..UNIT {
                    bytes[c][half] = cursors[c].chunk(q).bytes(half);
                    if hides_nan::<WAY>() {
                        most[c] = largest(most[c], bytes[c][half]);
                    }
                }
            }
            for half in 0..UNIT {
                for part in 0..parts::<WAY>() {
                    let sums_scaled = SCALED && !scaled_tables::<WAY>();
                    let mut block = if sums_scaled { zero } else { totals };
                    let mut tables = [table; COLUMNS];
                    if SCALED && scaled_tables::<WAY>() {
                        for c in 0..COLUMNS {
                            tables[c] = scaled_bytes_of(job, &cursors[c].chunk(q), half, part);
                        }
                    }
                    for step in 0..steps::<WAY>() {
                        let mut decoded = [[_mm256_setzero_ps(); 4]; COLUMNS];
                        for c in 0..COLUMNS {
                            decoded[c] = decode::<WAY>(tables[c], bytes[c][half], part, step);
                        }
                        for v in 0..4 {
                            for r in 0..ROWS {
                                let x = _mm256_loadu_ps(left.add(8 * r));
                                for c in 0..COLUMNS {
                                    let sum = &mut block[r][c][v % CHAINS];
                                    *sum = _mm256_fmadd_ps(x, decoded[c][v], *sum);
                                }
                            }
                            left = left.add(8 * ROWS);
                        }
                    }
                    if !sums_scaled {
                        totals = block;
                        continue;
                    }
                    for c in 0..COLUMNS {
                        let scale = cursors[c].chunk(q).scale(half);
                        for r in 0..ROWS {
                            totals[r][c][0] = _mm256_fmadd_ps(add_up(block[r][c]), scale, totals[r][c][0]);
                        }
                    }
                }
            }
        }
        for c in 0..COLUMNS {
            let nan = hides_nan::<WAY>() && has_nan(most[c]);
            for r in 0..ROWS {
                let sum = super::avx2::add_across(add_up(totals[r][c])) * factor::<WAY>();
                job.put(r, first + c, if nan { f32::NAN } else { sum });
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_up<const COUNT: usize>(sums: [__m256; COUNT]) -> __m256 {
    match COUNT {
        1 => sums[0],
        2 => _mm256_add_ps(sums[0], sums[1]),
        _ => _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])),
    }
}

/// True where one of the codes is not in a range.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn extreme_codes(codes: *const u8, count: usize, range: RangeInclusive<u8>) -> bool {
    let (lowest, highest) = range.into_inner();
    // SAFETY: the caller vouches for `count` codes.
    let codes = unsafe { std::slice::from_raw_parts(codes, count) };
    let largest = codes.iter().fold(0, |most, &code| most.max(code.wrapping_sub(lowest)));
    lowest > highest || largest > highest - lowest
}
