//! Lanes that each read several neighbouring words: what a vector load through scattered addresses is.

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

#[cfg(test)]
mod tests {
    use super::{eight_halves, four_words, two_words};

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
}
