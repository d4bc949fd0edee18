//! Lane operations: one pure operation over all lanes of a strip, as a wide loop.
//!
//! Lanes come in chunks of 32 (one SIMD-group). A source gives a pointer and the bytes from one chunk to the next: a
//! varying value steps by 32 elements, a uniform one is stored as 32 equal elements and steps by zero, so one loop serves every
//! mix. Each operation is written once, for one element, as a branch-free inline function, and instantiated for each
//! instruction set; the compiler makes vector code of it. With zero chunks an operation computes one element and
//! stores it 32 times: that is a uniform operation.
//!
//! Outputs never overlap inputs: the register allocator sees to that.

pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod int;
pub(crate) mod scalar;

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
            return Isa::Avx2;
        }
        Isa::Portable
    }
}

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
}

/// An operation on two elements, which may differ in type.
pub(crate) trait Bin<A, B = A> {
    type Out: Copy;
    fn apply(a: A, b: B) -> Self::Out;
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

// SAFETY (of the three bodies): the caller passes registers of the executor's arena that hold `chunks` chunks (one if
// `chunks` is zero or the step is zero) of the operation's element types, aligned to 32 bytes, the output apart from the inputs.

#[inline(always)]
unsafe fn body1<A: Copy, F: Un<A>>(chunks: usize, out: *mut u8, a: Src) {
    #[inline(always)]
    fn chunk<A: Copy, F: Un<A>>(out: &mut [F::Out; CHUNK], a: &[A; CHUNK]) {
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
            let value = if F::RARE && F::is_rare(a) {
                F::rare(a)
            } else {
                F::apply(a)
            };
            *out.cast::<[F::Out; CHUNK]>() = [value; CHUNK];
            return;
        }
        for c in 0..chunks {
            let out = &mut *out.cast::<[F::Out; CHUNK]>().add(c);
            let a = &*a.ptr.add(c * a.step).cast::<[A; CHUNK]>();
            chunk::<A, F>(out, a);
            chunk_ends();
        }
    }
}

#[inline(always)]
unsafe fn body2<A: Copy, B: Copy, F: Bin<A, B>>(chunks: usize, out: *mut u8, a: Src, b: Src) {
    #[inline(always)]
    fn chunk<A: Copy, B: Copy, F: Bin<A, B>>(out: &mut [F::Out; CHUNK], a: &[A; CHUNK], b: &[B; CHUNK]) {
        for i in 0..CHUNK {
            out[i] = F::apply(a[i], b[i]);
        }
    }
    // SAFETY: see above.
    unsafe {
        if chunks == 0 {
            let value = F::apply(*a.ptr.cast::<A>(), *b.ptr.cast::<B>());
            *out.cast::<[F::Out; CHUNK]>() = [value; CHUNK];
            return;
        }
        for c in 0..chunks {
            let out = &mut *out.cast::<[F::Out; CHUNK]>().add(c);
            let a = &*a.ptr.add(c * a.step).cast::<[A; CHUNK]>();
            let b = &*b.ptr.add(c * b.step).cast::<[B; CHUNK]>();
            chunk::<A, B, F>(out, a, b);
            chunk_ends();
        }
    }
}

#[inline(always)]
unsafe fn body3<A: Copy, B: Copy, C: Copy, F: Ter<A, B, C>>(chunks: usize, out: *mut u8, a: Src, b: Src, c: Src) {
    #[inline(always)]
    fn chunk<A: Copy, B: Copy, C: Copy, F: Ter<A, B, C>>(
        out: &mut [F::Out; CHUNK],
        a: &[A; CHUNK],
        b: &[B; CHUNK],
        c: &[C; CHUNK],
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
            let out = &mut *out.cast::<[F::Out; CHUNK]>().add(i);
            let a = &*a.ptr.add(i * a.step).cast::<[A; CHUNK]>();
            let b = &*b.ptr.add(i * b.step).cast::<[B; CHUNK]>();
            let c = &*c.ptr.add(i * c.step).cast::<[C; CHUNK]>();
            chunk::<A, B, C, F>(out, a, b, c);
            chunk_ends();
        }
    }
}

macro_rules! instantiate {
    ($portable:ident $avx2:ident $pick:ident $plain:ident $body:ident $fn:ident $trait:ident <$($t:ident),*> ($($arg:ident),*)) => {
        unsafe fn $portable<$($t: Copy,)* F: $trait<$($t),*>>(chunks: usize, out: *mut u8, $($arg: Src),*) {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body::<$($t,)* F>(chunks, out, $($arg),*) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn $avx2<$($t: Copy,)* F: $trait<$($t),*>>(chunks: usize, out: *mut u8, $($arg: Src),*) {
            // SAFETY: the caller's promise is the body's.
            unsafe { $body::<$($t,)* F>(chunks, out, $($arg),*) }
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
            }
        }
    };
}

instantiate!(portable1 avx2_1 un plain_un body1 Fn1 Un <A> (a));
instantiate!(portable2 avx2_2 bin plain_bin body2 Fn2 Bin <A, B> (a, b));
instantiate!(portable3 avx2_3 ter plain_ter body3 Fn3 Ter <A, B, C> (a, b, c));
