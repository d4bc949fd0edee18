//! Lane operations: one pure operation over all lanes of a strip, as a wide loop.
//!
//! Lanes come in chunks of 32 (one SIMD-group). A source gives a pointer and the bytes from one chunk to the next: a
//! varying value steps by 32 elements, a uniform one is stored as 32 equal elements and steps by zero, so one loop serves every
//! mix. Each operation is written once, for one element, as a branch-free inline function, and instantiated for each
//! instruction set; the compiler makes vector code of it. With zero chunks an operation computes one element and
//! stores it 32 times: that is a uniform operation.
//!
//! An output may be one of the inputs (a tile that a map changes in place): a chunk is read as a whole before it is written. It
//! never overlaps an input otherwise.

pub(crate) mod convert;
pub(crate) mod decode;
pub(crate) mod digits;
pub(crate) mod dot;
pub(crate) mod exponential;
pub(crate) mod float;
pub(crate) mod gather;
pub(crate) mod group;
pub(crate) mod int;
pub(crate) mod load_dot;
pub(crate) mod scalar;
#[cfg(test)]
mod tests;

use crate::tile::TilePath;

/// Lanes in a chunk.
pub(crate) const CHUNK: usize = 32;

/// A source of lanes: the first chunk, and the bytes from one chunk to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Src {
    pub ptr: *const u8,
    pub step: usize,
}

/// One source. The first argument is the number of chunks, 0 for a uniform operation.
pub(crate) type Fn1 = unsafe fn(usize, *mut u8, Src);
/// Two sources.
pub(crate) type Fn2 = unsafe fn(usize, *mut u8, Src, Src);
/// Three sources.
pub(crate) type Fn3 = unsafe fn(usize, *mut u8, Src, Src, Src);

/// The instruction set that lane operations are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Isa {
    /// What the target guarantees.
    Portable,
    /// x86-64 with AVX2, FMA, F16C and BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ and VL besides.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best that this machine has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2")
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Isa::Avx512;
            }
            return Isa::Avx2;
        }
        Isa::Portable
    }

    /// The best that this machine has, but no more than a tile path asks for.
    pub fn for_path(path: TilePath) -> Self {
        let best = Isa::detect();
        match path {
            TilePath::Portable => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            TilePath::Avx2 if best == Isa::Avx512 => Isa::Avx2,
            _ => best,
        }
    }
}

/// Instruction sets as a constant of the loops.
pub(crate) const PORTABLE: u8 = 0;
/// AVX2, FMA and F16C.
pub(crate) const AVX2: u8 = 1;
/// AVX-512 F, BW, DQ and VL besides.
pub(crate) const AVX512: u8 = 2;

/// An operation on one element.
pub(crate) trait Un<A> {
    type Out: Copy;
    fn apply(a: A) -> Self::Out;

    /// True for operations with arguments that `apply` does not take.
    const RARE: bool = false;
    /// Whether this is such an argument.
    #[inline(always)]
    fn is_rare(_: A) -> bool {
        false
    }
    /// The result for a rare argument, by scalar code.
    fn rare(a: A) -> Self::Out {
        Self::apply(a)
    }

    /// A chunk by instructions that the compiler does not find by itself, on the instruction set `ISA`; false, and nothing
    /// done, where there are none.
    ///
    /// # Safety
    /// The machine must have the instruction set.
    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(_out: &mut [Self::Out; CHUNK], _a: &[A; CHUNK]) -> bool {
        false
    }
}

/// An operation on two elements, which may differ in type.
pub(crate) trait Bin<A, B = A> {
    type Out: Copy;
    fn apply(a: A, b: B) -> Self::Out;

    /// As [`Un::chunk`].
    ///
    /// # Safety
    /// The machine must have the instruction set.
    #[inline(always)]
    unsafe fn chunk<const ISA: u8>(_out: &mut [Self::Out; CHUNK], _a: &[A; CHUNK], _b: &[B; CHUNK]) -> bool {
        false
    }
}

/// An operation on three elements.
pub(crate) trait Ter<A, B = A, C = A> {
    type Out: Copy;
    fn apply(a: A, b: B, c: C) -> Self::Out;
}

/// Keeps the compiler from vectorising across chunks, which it does by gathers when the loop over a chunk is unrolled; inside
/// a chunk it vectorises well.
#[inline(always)]
pub(crate) fn chunk_ends() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

// SAFETY (of the three bodies): the caller passes registers of the executor's arena, or tiles, that hold `chunks` chunks (one if
// `chunks` is zero or the step is zero) of the operation's element types, aligned to their elements. The output is one of the
// inputs or apart from them; a chunk of the inputs is copied (into registers) before the output is written.

#[inline(always)]
unsafe fn body1<const ISA: u8, A: Copy, F: Un<A>>(chunks: usize, out: *mut u8, a: Src) {
    #[inline(always)]
    unsafe fn chunk<const ISA: u8, A: Copy, F: Un<A>>(out: &mut [F::Out; CHUNK], a: [A; CHUNK]) {
        // SAFETY: the loop is only called on a machine with its instruction set.
        if unsafe { F::chunk::<ISA>(out, &a) } {
            return;
        }
        for i in 0..CHUNK {
            out[i] = F::apply(a[i]);
        }
        if F::RARE && a.iter().fold(false, |any, &a| any | F::is_rare(a)) {
            for i in 0..CHUNK {
                if F::is_rare(a[i]) {
                    out[i] = F::rare(a[i]);
                }
            }
        }
    }
    // SAFETY: see above.
    unsafe {
        if chunks == 0 {
            let a = *a.ptr.cast::<A>();
            let out = &mut *out.cast::<[F::Out; CHUNK]>();
            if F::chunk::<ISA>(out, &[a; CHUNK]) {
                return;
            }
            let value = if F::RARE && F::is_rare(a) {
                F::rare(a)
            } else {
                F::apply(a)
            };
            *out = [value; CHUNK];
            return;
        }
        for c in 0..chunks {
            let a = *a.ptr.add(c * a.step).cast::<[A; CHUNK]>();
            let out = &mut *out.cast::<[F::Out; CHUNK]>().add(c);
            chunk::<ISA, A, F>(out, a);
            chunk_ends();
        }
    }
}

#[inline(always)]
unsafe fn body2<const ISA: u8, A: Copy, B: Copy, F: Bin<A, B>>(chunks: usize, out: *mut u8, a: Src, b: Src) {
    #[inline(always)]
    unsafe fn chunk<const ISA: u8, A: Copy, B: Copy, F: Bin<A, B>>(
        out: &mut [F::Out; CHUNK],
        a: [A; CHUNK],
        b: [B; CHUNK],
    ) {
        // SAFETY: the loop is only called on a machine with its instruction set.
        if unsafe { F::chunk::<ISA>(out, &a, &b) } {
            return;
        }
        for i in 0..CHUNK {
            out[i] = F::apply(a[i], b[i]);
        }
    }
    // SAFETY: see above.
    unsafe {
        if chunks == 0 {
            let (a, b) = (*a.ptr.cast::<A>(), *b.ptr.cast::<B>());
            let out = &mut *out.cast::<[F::Out; CHUNK]>();
            if !F::chunk::<ISA>(out, &[a; CHUNK], &[b; CHUNK]) {
                *out = [F::apply(a, b); CHUNK];
            }
            return;
        }
        for c in 0..chunks {
            let a = *a.ptr.add(c * a.step).cast::<[A; CHUNK]>();
            let b = *b.ptr.add(c * b.step).cast::<[B; CHUNK]>();
            let out = &mut *out.cast::<[F::Out; CHUNK]>().add(c);
            chunk::<ISA, A, B, F>(out, a, b);
            chunk_ends();
        }
    }
}

#[inline(always)]
unsafe fn body3<const ISA: u8, A: Copy, B: Copy, C: Copy, F: Ter<A, B, C>>(
    chunks: usize,
    out: *mut u8,
    a: Src,
    b: Src,
    c: Src,
) {
    #[inline(always)]
    fn chunk<A: Copy, B: Copy, C: Copy, F: Ter<A, B, C>>(
        out: &mut [F::Out; CHUNK],
        a: [A; CHUNK],
        b: [B; CHUNK],
        c: [C; CHUNK],
    ) {
        for i in 0..CHUNK {
            out[i] = F::apply(a[i], b[i], c[i]);
        }
    }
    // SAFETY: see above.
    unsafe {
        if chunks == 0 {
            let value = F::apply(*a.ptr.cast::<A>(), *b.ptr.cast::<B>(), *c.ptr.cast::<C>());
            *out.cast::<[F::Out; CHUNK]>() = [value; CHUNK];
            return;
        }
        for i in 0..chunks {
            let a = *a.ptr.add(i * a.step).cast::<[A; CHUNK]>();
            let b = *b.ptr.add(i * b.step).cast::<[B; CHUNK]>();
            let c = *c.ptr.add(i * c.step).cast::<[C; CHUNK]>();
            let out = &mut *out.cast::<[F::Out; CHUNK]>().add(i);
            chunk::<A, B, C, F>(out, a, b, c);
            chunk_ends();
        }
    }
}

macro_rules! instantiate {
    ($portable:ident $avx2:ident $avx512:ident $pick:ident $plain:ident $body:ident $fn:ident $trait:ident <$($t:ident),*> ($($arg:ident),*)) => {
        unsafe fn $portable<$($t: Copy,)* F: $trait<$($t),*>>(chunks: usize, out: *mut u8, $($arg: Src),*) {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body::<PORTABLE, $($t,)* F>(chunks, out, $($arg),*) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn $avx2<$($t: Copy,)* F: $trait<$($t),*>>(chunks: usize, out: *mut u8, $($arg: Src),*) {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body::<AVX2, $($t,)* F>(chunks, out, $($arg),*) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn $avx512<$($t: Copy,)* F: $trait<$($t),*>>(chunks: usize, out: *mut u8, $($arg: Src),*) {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body::<AVX512, $($t,)* F>(chunks, out, $($arg),*) }
        }

        /// The loop of a rare operation, without code for an instruction set of its own: every loop costs compile time.
        pub(crate) fn $plain<$($t: Copy + 'static,)* F: $trait<$($t),*> + 'static>() -> $fn {
            $portable::<$($t,)* F>
        }

        /// The loop of an operation for an instruction set.
        pub(crate) fn $pick<$($t: Copy + 'static,)* F: $trait<$($t),*> + 'static>(isa: Isa) -> $fn {
            match isa {
                Isa::Portable => $portable::<$($t,)* F>,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => $avx2::<$($t,)* F>,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => $avx512::<$($t,)* F>,
            }
        }
    };
}

instantiate!(portable1 avx2_1 avx512_1 un plain_un body1 Fn1 Un <A> (a));
instantiate!(portable2 avx2_2 avx512_2 bin plain_bin body2 Fn2 Bin <A, B> (a, b));
instantiate!(portable3 avx2_3 avx512_3 ter plain_ter body3 Fn3 Ter <A, B, C> (a, b, c));
