//! Loads and stores through a pointer for each lane, all into one object.
//!
//! A chunk whose pointers follow each other is copied as a whole: threads of a two-dimensional threadgroup read rows that way.

use super::{CHUNK, Isa};

/// The low bits of a pointer are its offset.
const LOW: u64 = (1 << 48) - 1;

/// Lowest and highest of some pointers, and the bits that are set in any.
pub(crate) type BoundsFn = unsafe fn(*const u64, usize) -> (u64, u64, u64);

/// Moves elements: (registers, address of offset 0, pointers, lanes).
pub(crate) type MoveFn = unsafe fn(*mut u8, *mut u8, *const u64, usize);

#[inline(always)]
unsafe fn bounds_body(pointers: *const u64, count: usize) -> (u64, u64, u64) {
    // SAFETY: the caller passes `count` pointers.
    let pointers = unsafe { std::slice::from_raw_parts(pointers, count) };
    let (mut low, mut high, mut bits) = (u64::MAX, 0u64, 0u64);
    for &pointer in pointers {
        low = low.min(pointer);
        high = high.max(pointer);
        bits |= pointer;
    }
    (low, high, bits)
}

/// Do the pointers of a chunk follow each other by elements of a size?
#[inline(always)]
fn consecutive(pointers: &[u64; CHUNK], size: u64) -> bool {
    let first = pointers[0];
    let mut differs = 0;
    for (i, &pointer) in pointers.iter().enumerate() {
        differs |= pointer ^ first.wrapping_add(i as u64 * size);
    }
    differs == 0
}

#[inline(always)]
unsafe fn gather_body<T: Copy>(to: *mut u8, start: *mut u8, pointers: *const u64, count: usize) {
    let to = to.cast::<T>();
    // SAFETY: the caller checked every lane's access; registers hold `count` elements and do not overlap the object.
    unsafe {
        let one = |lane: usize| {
            let from = start.add((*pointers.add(lane) & LOW) as usize).cast::<T>();
            *to.add(lane) = from.read_unaligned();
        };
        for chunk in 0..count / CHUNK {
            let lane = chunk * CHUNK;
            let lanes = &*pointers.add(lane).cast::<[u64; CHUNK]>();
            if consecutive(lanes, size_of::<T>() as u64) {
                let from = start.add((lanes[0] & LOW) as usize).cast::<[T; CHUNK]>();
                *to.add(lane).cast::<[T; CHUNK]>() = from.read_unaligned();
            } else {
                (lane..lane + CHUNK).for_each(one);
            }
        }
        (count / CHUNK * CHUNK..count).for_each(one);
    }
}

#[inline(always)]
unsafe fn scatter_body<T: Copy>(from: *mut u8, start: *mut u8, pointers: *const u64, count: usize) {
    let from = from.cast_const().cast::<T>();
    // SAFETY: as for `gather_body`. Lanes write in their order.
    unsafe {
        let one = |lane: usize| {
            let to = start.add((*pointers.add(lane) & LOW) as usize).cast::<T>();
            to.write_unaligned(*from.add(lane));
        };
        for chunk in 0..count / CHUNK {
            let lane = chunk * CHUNK;
            let lanes = &*pointers.add(lane).cast::<[u64; CHUNK]>();
            if consecutive(lanes, size_of::<T>() as u64) {
                let to = start.add((lanes[0] & LOW) as usize).cast::<[T; CHUNK]>();
                to.write_unaligned(*from.add(lane).cast::<[T; CHUNK]>());
            } else {
                (lane..lane + CHUNK).for_each(one);
            }
        }
        (count / CHUNK * CHUNK..count).for_each(one);
    }
}

macro_rules! recompiled {
    ($avx2:ident $avx512:ident $pick:ident = $body:ident $(<$t:ident>)? ($($arg:ident: $ty:ty),*) $(-> $out:ty)?; $fn:ty) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi2")]
        unsafe fn $avx2$(<$t: Copy>)?($($arg: $ty),*) $(-> $out)? {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body$(::<$t>)?($($arg),*) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
        unsafe fn $avx512$(<$t: Copy>)?($($arg: $ty),*) $(-> $out)? {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body$(::<$t>)?($($arg),*) }
        }

        fn $pick$(<$t: Copy + 'static>)?(isa: Isa) -> $fn {
            match isa {
                Isa::Portable => $body$(::<$t>)?,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => $avx2$(::<$t>)?,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => $avx512$(::<$t>)?,
            }
        }
    };
}

recompiled!(bounds_avx2 bounds_avx512 bounds_for = bounds_body (pointers: *const u64, count: usize) -> (u64, u64, u64); BoundsFn);
recompiled!(gather_avx2 gather_avx512 gather_for = gather_body<T> (to: *mut u8, start: *mut u8, pointers: *const u64, count: usize); MoveFn);
recompiled!(scatter_avx2 scatter_avx512 scatter_for = scatter_body<T> (from: *mut u8, start: *mut u8, pointers: *const u64, count: usize); MoveFn);

/// The loop that bounds pointers.
pub(crate) fn bounds(isa: Isa) -> BoundsFn {
    bounds_for(isa)
}

/// The loop that loads elements of a size in bytes.
pub(crate) fn gather(size: u8, isa: Isa) -> MoveFn {
    match size {
        1 => gather_for::<u8>(isa),
        2 => gather_for::<u16>(isa),
        4 => gather_for::<u32>(isa),
        _ => gather_for::<u64>(isa),
    }
}

/// The loop that stores elements of a size in bytes, in the order of lanes.
pub(crate) fn scatter(size: u8, isa: Isa) -> MoveFn {
    match size {
        1 => scatter_for::<u8>(isa),
        2 => scatter_for::<u16>(isa),
        4 => scatter_for::<u32>(isa),
        _ => scatter_for::<u64>(isa),
    }
}

/// Moves words from lanes that lie a fixed distance apart: (registers of the words, lanes, address of the first lane, bytes from lane to
/// lane). Says how many lanes are done, a multiple of eight.
pub(crate) type WordsFn = unsafe fn(&[*mut u32], usize, *const u8, isize) -> usize;

/// The loop that loads four or more words of each lane at once, where there is one.
pub(crate) fn strided_words(isa: Isa) -> Option<WordsFn> {
    match isa {
        Isa::Portable => None,
        #[cfg(target_arch = "x86_64")]
        _ => Some(strided_words_avx2),
    }
}

/// Eight lanes at a time: sixteen bytes of two lanes in a vector, four of these transposed. What is left over of the words comes from
/// sixteen bytes that begin before them, or is read for each lane if it is one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn strided_words_avx2(to: &[*mut u32], lanes: usize, from: *const u8, stride: isize) -> usize {
    use std::arch::x86_64::*;
    const FOUR: usize = 4;
    if to.len() < FOUR {
        return 0;
    }
    let mut lane = 0;
    while lane + 8 <= lanes {
        let from = from.wrapping_offset(lane as isize * stride);
        let mut word = 0;
        while word < to.len() {
            if word + 1 == to.len() {
                for i in 0..8isize {
                    // SAFETY: as below.
                    unsafe {
                        let one = from.wrapping_offset(i * stride).add(4 * word).cast::<u32>();
                        to[word].add(lane + i as usize).write(one.read_unaligned());
                    }
                }
                break;
            }
            let first = word.min(to.len() - FOUR);
            // SAFETY: the caller has all words of all lanes readable, and room in the registers.
            unsafe {
                let half = |i: isize| _mm_loadu_si128(from.wrapping_offset(i * stride).add(4 * first).cast());
                // Lanes i and i + 4.
                let rows: [__m256i; 4] = std::array::from_fn(|i| {
                    let i = i as isize;
                    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(half(i)), half(i + 4))
                });
                let low = [
                    _mm256_unpacklo_epi32(rows[0], rows[1]),
                    _mm256_unpacklo_epi32(rows[2], rows[3]),
                ];
                let high = [
                    _mm256_unpackhi_epi32(rows[0], rows[1]),
                    _mm256_unpackhi_epi32(rows[2], rows[3]),
                ];
                let columns = [
                    _mm256_unpacklo_epi64(low[0], low[1]),
                    _mm256_unpackhi_epi64(low[0], low[1]),
                    _mm256_unpacklo_epi64(high[0], high[1]),
                    _mm256_unpackhi_epi64(high[0], high[1]),
                ];
                for (k, column) in columns.into_iter().enumerate() {
                    if first + k >= word {
                        _mm256_storeu_si256(to[first + k].add(lane).cast(), column);
                    }
                }
            }
            word = first + FOUR;
        }
        lane += 8;
    }
    lane
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_strided_lanes() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * 7 % 253) as u8).collect();
        for words in 4..10 {
            for (stride, start) in [(20isize, 1usize), (44, 0), (-40, 1500), (16, 3)] {
                let mut columns = vec![[0u32; 27]; words];
                let to: Vec<*mut u32> = columns.iter_mut().map(|column| column.as_mut_ptr()).collect();
                let Some(f) = strided_words(Isa::detect()) else { return };
                // SAFETY: 27 lanes of at most 36 bytes from 1500 down to 460 and from 0 up to 1180 are inside.
                let done = unsafe { f(&to, 27, bytes.as_ptr().add(start), stride) };
                assert_eq!(done, 24);
                for (k, column) in columns.iter().enumerate() {
                    for (lane, &word) in column.iter().enumerate() {
                        let at = (start as isize + lane as isize * stride) as usize + 4 * k;
                        let want = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                        assert_eq!(word, if lane < done { want } else { 0 }, "{words} {stride} {k} {lane}");
                    }
                }
            }
        }
    }

    #[test]
    fn runs_and_scattered_lanes() {
        let mut sets = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        match Isa::detect() {
            Isa::Portable => {}
            Isa::Avx2 => sets.push(Isa::Avx2),
            Isa::Avx512 => sets.extend([Isa::Avx2, Isa::Avx512]),
        }
        // Object 3: a chunk in a row, one strided, one that starts over half-way, and a rest.
        let element = |lane: usize| match lane / CHUNK {
            0 => 100 + lane,
            1 => lane * 7 % 1000,
            2 => 300 + lane % 16,
            _ => 900 + lane % CHUNK,
        };
        const LANES: usize = 3 * CHUNK + 5;
        let pointers: Vec<u64> = (0..LANES).map(|lane| (3 << 48) | (element(lane) as u64 * 4)).collect();
        let memory: Vec<u32> = (0..1000).map(|i| i * i + 1).collect();
        for isa in sets {
            let (mut out, mut object) = ([0u32; LANES], memory.clone());
            // SAFETY: every pointer is inside the object, the registers hold all lanes.
            unsafe {
                let (low, high, bits) = bounds(isa)(pointers.as_ptr(), LANES);
                assert_eq!(low, *pointers.iter().min().unwrap());
                assert_eq!(high, *pointers.iter().max().unwrap());
                assert_eq!(bits, pointers.iter().fold(0, |all, &p| all | p));
                gather(4, isa)(
                    out.as_mut_ptr().cast(),
                    object.as_mut_ptr().cast(),
                    pointers.as_ptr(),
                    LANES,
                );
            }
            for (lane, &value) in out.iter().enumerate() {
                assert_eq!(value, memory[element(lane)], "{lane} {isa:?}");
            }
            let mut values: Vec<u32> = (0..LANES as u32).map(|lane| 5_000_000 + lane).collect();
            // SAFETY: as above.
            unsafe {
                scatter(4, isa)(
                    values.as_mut_ptr().cast(),
                    object.as_mut_ptr().cast(),
                    pointers.as_ptr(),
                    LANES,
                );
            }
            let mut want = memory.clone();
            (0..LANES).for_each(|lane| want[element(lane)] = 5_000_000 + lane as u32);
            assert_eq!(object, want, "{isa:?}");
        }
    }
}
