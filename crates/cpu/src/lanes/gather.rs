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

#[cfg(test)]
mod tests {
    use super::*;

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
