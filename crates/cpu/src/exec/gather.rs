//! Lanes that each read or write several neighbouring elements: what a vector load or store through scattered addresses is.

use crate::lanes::Src;

/// Reads four consecutive 32-bit words from an address of each lane, and writes word `k` of all lanes to `to[k]`.
///
/// # Safety
/// Sixteen bytes at `from(lane)` must be readable for each `lane < count`, and `count` words writable at each of `to`.
#[inline(always)]
pub(super) unsafe fn four_words(to: [*mut u32; 4], count: usize, from: impl Fn(usize) -> *const u8) {
    let mut lane = 0;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while lane + 4 <= count {
            // SAFETY: by the function's contract; SSE2 is part of x86-64.
            unsafe {
                let rows: [__m128i; 4] = std::array::from_fn(|i| _mm_loadu_si128(from(lane + i).cast()));
                let low = [
                    _mm_unpacklo_epi32(rows[0], rows[1]),
                    _mm_unpacklo_epi32(rows[2], rows[3]),
                ];
                let high = [
                    _mm_unpackhi_epi32(rows[0], rows[1]),
                    _mm_unpackhi_epi32(rows[2], rows[3]),
                ];
                let columns = [
                    _mm_unpacklo_epi64(low[0], low[1]),
                    _mm_unpackhi_epi64(low[0], low[1]),
                    _mm_unpacklo_epi64(high[0], high[1]),
                    _mm_unpackhi_epi64(high[0], high[1]),
                ];
                for (to, column) in to.into_iter().zip(columns) {
                    _mm_storeu_si128(to.add(lane).cast(), column);
                }
            }
            lane += 4;
        }
    }
    while lane < count {
        // SAFETY: by the function's contract.
        unsafe {
            let from = from(lane).cast::<u32>();
            for (k, to) in to.into_iter().enumerate() {
                to.add(lane).write(from.add(k).read_unaligned());
            }
        }
        lane += 1;
    }
}

/// Reads two consecutive 32-bit words from an address of each lane, as [`four_words`] does four.
///
/// # Safety
/// Eight bytes at `from(lane)` must be readable for each `lane < count`, and `count` words writable at each of `to`.
#[inline(always)]
pub(super) unsafe fn two_words(to: [*mut u32; 2], count: usize, from: impl Fn(usize) -> *const u8) {
    let mut lane = 0;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while lane + 4 <= count {
            // SAFETY: by the function's contract; SSE2 is part of x86-64.
            unsafe {
                let rows: [__m128i; 4] = std::array::from_fn(|i| _mm_loadl_epi64(from(lane + i).cast()));
                let low = _mm_unpacklo_epi32(rows[0], rows[1]);
                let high = _mm_unpacklo_epi32(rows[2], rows[3]);
                _mm_storeu_si128(to[0].add(lane).cast(), _mm_unpacklo_epi64(low, high));
                _mm_storeu_si128(to[1].add(lane).cast(), _mm_unpackhi_epi64(low, high));
            }
            lane += 4;
        }
    }
    while lane < count {
        // SAFETY: by the function's contract.
        unsafe {
            let from = from(lane).cast::<u32>();
            to[0].add(lane).write(from.read_unaligned());
            to[1].add(lane).write(from.add(1).read_unaligned());
        }
        lane += 1;
    }
}

/// Reads eight consecutive 16-bit elements from an address of each lane, and writes element `k` of all lanes to `to[k]`.
///
/// # Safety
/// As for [`four_words`], with `count` elements of two bytes writable at each of `to`.
#[inline(always)]
pub(super) unsafe fn eight_halves(to: [*mut u16; 8], count: usize, from: impl Fn(usize) -> *const u8) {
    let mut lane = 0;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while lane + 8 <= count {
            // SAFETY: by the function's contract; SSE2 is part of x86-64.
            unsafe {
                let a: [__m128i; 8] = std::array::from_fn(|i| _mm_loadu_si128(from(lane + i).cast()));
                // Elements of two lanes side by side, then of four, then of eight.
                let b: [__m128i; 8] = std::array::from_fn(|i| match i % 2 {
                    0 => _mm_unpacklo_epi16(a[i], a[i + 1]),
                    _ => _mm_unpackhi_epi16(a[i - 1], a[i]),
                });
                let c: [__m128i; 8] = std::array::from_fn(|i| {
                    let (half, at) = (i / 4 * 4, i % 4);
                    let (x, y) = (b[half + at / 2], b[half + at / 2 + 2]);
                    if at % 2 == 0 {
                        _mm_unpacklo_epi32(x, y)
                    } else {
                        _mm_unpackhi_epi32(x, y)
                    }
                });
                for (k, to) in to.into_iter().enumerate() {
                    let (x, y) = (c[k / 2], c[4 + k / 2]);
                    let column = if k % 2 == 0 {
                        _mm_unpacklo_epi64(x, y)
                    } else {
                        _mm_unpackhi_epi64(x, y)
                    };
                    _mm_storeu_si128(to.add(lane).cast(), column);
                }
            }
            lane += 8;
        }
    }
    while lane < count {
        // SAFETY: by the function's contract.
        unsafe {
            let from = from(lane).cast::<u16>();
            for (k, to) in to.into_iter().enumerate() {
                to.add(lane).write(from.add(k).read_unaligned());
            }
        }
        lane += 1;
    }
}

/// Lanes whose values go through one square.
const SQUARE: usize = 8;

/// Bytes of a lane's values that a square has room for.
const ROW: usize = 64;

/// Writes the values of `lanes`, which are neighbours in memory, one lane after another. False, and nothing done, if a lane has too many.
///
/// Values come out of their registers through a square that is transposed, so that those of a lane are moved together.
///
/// # Safety
/// The registers must hold the lanes, and all values be writable at `to(lane)` for each of them.
pub(super) unsafe fn store_neighbours(
    values: &[Src],
    size: usize,
    lanes: std::ops::Range<usize>,
    to: impl Fn(usize) -> *mut u8,
) -> bool {
    let bytes = size * values.len();
    if bytes > ROW {
        return false;
    }
    let mut square = [0u64; SQUARE * ROW / 8];
    let row = square.as_mut_ptr().cast::<u8>();
    let row = |lane: usize| row.wrapping_add(lane * ROW);
    for first in lanes.clone().step_by(SQUARE) {
        let count = SQUARE.min(lanes.end - first);
        // The register of a value, from the first of these lanes on.
        let column = |k: usize| match values[k].step {
            0 => values[k].ptr,
            _ => values[k].ptr.wrapping_add(first * size),
        };
        // SAFETY: registers are whole chunks, so that all lanes of a square are there; the square has room for each lane's values.
        unsafe {
            match size {
                2 => eight_halves(std::array::from_fn(|lane| row(lane).cast()), values.len(), column),
                4 => {
                    four_words(std::array::from_fn(|lane| row(lane).cast()), values.len(), column);
                    let column = |k| column(k).add(16);
                    four_words(std::array::from_fn(|lane| row(lane + 4).cast()), values.len(), column);
                }
                _ => {
                    for k in 0..values.len() {
                        for lane in 0..count {
                            let from = column(k).add(lane * size);
                            std::ptr::copy_nonoverlapping(from, row(lane).add(k * size), size);
                        }
                    }
                }
            }
            for lane in 0..count {
                let (from, to) = (row(lane).cast_const(), to(first + lane));
                match bytes {
                    // Lengths that are known are moved without a call.
                    4 => std::ptr::copy_nonoverlapping(from, to, 4),
                    8 => std::ptr::copy_nonoverlapping(from, to, 8),
                    16 => std::ptr::copy_nonoverlapping(from, to, 16),
                    32 => std::ptr::copy_nonoverlapping(from, to, 32),
                    64 => std::ptr::copy_nonoverlapping(from, to, 64),
                    _ => std::ptr::copy_nonoverlapping(from, to, bytes),
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Src, eight_halves, four_words, store_neighbours, two_words};

    #[test]
    fn halves_of_each_lane() {
        let bytes: Vec<u8> = (0..512).map(|i| (i * 7 % 251) as u8).collect();
        for count in 0..21 {
            let mut columns = [[0u16; 21]; 8];
            let to = columns.each_mut().map(|column| column.as_mut_ptr());
            let offset = |lane: usize| 1 + (lane * 5 % 21) * 23;
            // SAFETY: the last byte read is 1 + 20 · 23 + 15.
            unsafe { eight_halves(to, count, |lane| bytes.as_ptr().add(offset(lane))) };
            for (k, column) in columns.iter().enumerate() {
                for (lane, &got) in column.iter().enumerate() {
                    let at = offset(lane) + 2 * k;
                    let want = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
                    assert_eq!(got, if lane < count { want } else { 0 });
                }
            }
        }
    }

    #[test]
    fn words_of_each_lane() {
        let bytes: Vec<u8> = (0..255).collect();
        for count in 0..13 {
            let mut columns = [[0u32; 13]; 4];
            let to = columns.each_mut().map(|column| column.as_mut_ptr());
            // Odd addresses, out of order.
            let offset = |lane: usize| 1 + (lane * 7 % 13) * 17;
            // SAFETY: the last byte read is 1 + 12 · 17 + 15.
            unsafe { four_words(to, count, |lane| bytes.as_ptr().add(offset(lane))) };
            for (k, column) in columns.iter().enumerate() {
                for (lane, &word) in column.iter().enumerate() {
                    let at = offset(lane) + 4 * k;
                    let want = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                    assert_eq!(word, if lane < count { want } else { 0 });
                }
            }
            let mut pairs = [[0u32; 13]; 2];
            let to = pairs.each_mut().map(|column| column.as_mut_ptr());
            // SAFETY: as above.
            unsafe { two_words(to, count, |lane| bytes.as_ptr().add(offset(lane))) };
            assert_eq!(pairs[..], columns[..2]);
        }
    }

    #[test]
    fn neighbours_of_each_lane() {
        use crate::lanes::CHUNK;
        for (size, count) in [
            (1, 2),
            (1, 16),
            (2, 2),
            (2, 3),
            (2, 16),
            (4, 2),
            (4, 4),
            (4, 16),
            (8, 3),
        ] {
            let bytes = size * count;
            // Value 1 is the same for all lanes.
            let registers: Vec<Vec<u8>> = (0..count)
                .map(|k| match k {
                    1 => (0..CHUNK * size).map(|i| (i % size + 200) as u8).collect(),
                    _ => (0..CHUNK * size).map(|i| (i * 5 + k * 31) as u8).collect(),
                })
                .collect();
            let values: Vec<Src> = registers
                .iter()
                .enumerate()
                .map(|(k, register)| Src {
                    ptr: register.as_ptr(),
                    step: if k == 1 { 0 } else { CHUNK * size },
                })
                .collect();
            for lanes in [0..0, 0..5, 0..21, 8..32, 16..27] {
                let mut memory = vec![7u8; CHUNK * (bytes + 3)];
                let mut want = memory.clone();
                for lane in lanes.clone() {
                    for (k, register) in registers.iter().enumerate() {
                        let at = (lane * 11 % CHUNK) * (bytes + 3) + 1 + k * size;
                        want[at..at + size].copy_from_slice(&register[lane * size..(lane + 1) * size]);
                    }
                }
                let start = memory.as_mut_ptr();
                // SAFETY: the last byte written is the second last of the memory.
                let done = unsafe {
                    store_neighbours(&values, size, lanes, |lane| {
                        start.add((lane * 11 % CHUNK) * (bytes + 3) + 1)
                    })
                };
                assert!(done);
                assert_eq!(memory, want, "{count} of {size}");
            }
        }
    }
}
