//! Stores to memory that nothing reads again soon: whole cache lines of large results that the kernel never reads go past the
//! caches, so that their old contents are not fetched first.

/// Bytes from which on an argument that is only written counts as large: more than caches keep until somebody reads it.
pub(crate) const LARGE: u64 = 32 << 20;

/// A cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Copies bytes to memory, whole lines past the caches if `streams`. What went past them is ordered by [`fence`].
///
/// # Safety
/// `count` bytes must be readable at `from` and writable at `to`, and apart.
#[inline]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, count: usize, streams: bool) {
    #[cfg(target_arch = "x86_64")]
    if streams && count >= LINE {
        let head = to.align_offset(LINE).min(count);
        let lines = (count - head) / LINE;
        // SAFETY: by the function's contract; SSE2 is part of x86-64, and the destinations of lines are aligned.
        unsafe {
            use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
            std::ptr::copy_nonoverlapping(from, to, head);
            for line in 0..lines {
                let at = head + line * LINE;
                let parts: [_; 4] = std::array::from_fn(|i| _mm_loadu_si128(from.add(at + 16 * i).cast()));
                for (i, part) in parts.into_iter().enumerate() {
                    _mm_stream_si128(to.add(at + 16 * i).cast(), part);
                }
            }
            let done = head + lines * LINE;
            std::ptr::copy_nonoverlapping(from.add(done), to.add(done), count - done);
        }
        return;
    }
    let _ = streams;
    // SAFETY: by the function's contract.
    unsafe { std::ptr::copy_nonoverlapping(from, to, count) }
}

/// Makes what went past the caches visible before whatever this thread writes next.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks the second-level cache for memory that is likely to be read next: the first level has too few places for so much at once.
#[inline]
pub(super) fn prefetch(from: *const u8, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..count.div_ceil(LINE) {
        // SAFETY: a hint, which no address makes fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(line * LINE).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_every_alignment() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (start, count) in [(0, 0), (1, 63), (3, 64), (0, 128), (5, 300), (63, 129), (17, 777)] {
            let mut to = vec![255u8; 900];
            // SAFETY: 17 + 777 and 7 + 777 are below the lengths.
            unsafe { copy(to.as_mut_ptr().add(start), from.as_ptr().add(7), count, true) };
            fence();
            for (i, &byte) in to.iter().enumerate() {
                let want = match i.checked_sub(start) {
                    Some(at) if at < count => from[7 + at],
                    _ => 255,
                };
                assert_eq!(byte, want, "{start} {count} {i}");
            }
        }
    }
}
