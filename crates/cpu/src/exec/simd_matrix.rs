//! Products of 8 × 8 matrices that the lanes of a SIMD-group hold, two elements each (`simdgroup_matrix`, reference 5.6 layout S).
//!
//! A matrix stays as the lanes hold it: 32 first elements and 32 second ones. Lane bits b4…b0 are row `b1 + 2·b2 + 4·b4` and columns
//! `2·b0 + 4·b3` and the next, so in a step k of the product, a lane needs the left element of its row at bits b0 and b3 of k, and
//! the right ones of its columns at bits b1, b2 and b4 of k. Eight lanes side by side (b2 b1 b0) find the first in one vector of the left matrix, as
//! a neighbour's or their own, and the second in one vector of the right one, the same two for all.

use anymetal_ir::Scalar;

use super::{Outcome, Worker, raise};
use crate::compile::program::{MatrixOperand, Reg};
use crate::fault::FaultKind;
use crate::lanes::scalar::{Bf16, F16, Float};
use crate::lanes::{CHUNK, Isa, Src};

/// Rows and columns.
const N: usize = 8;

/// The elements of a SIMD-group as `f32`: first ones, second ones.
type Elements = [[f32; CHUNK]; 2];

/// One operand of all SIMD-groups: the registers of its first and second elements.
#[derive(Clone, Copy)]
struct Source {
    elements: [Src; 2],
    ty: Scalar,
}

/// # Safety
/// The source's registers hold a chunk of 32 lanes of `T` at `chunk`.
#[inline(always)]
unsafe fn widen_as<T: Float>(source: &Source, chunk: usize, out: &mut Elements) {
    for (src, out) in source.elements.iter().zip(out) {
        // SAFETY: by the function's contract.
        let from = unsafe { &*src.ptr.add(chunk * src.step).cast::<[T; CHUNK]>() };
        for lane in 0..CHUNK {
            out[lane] = from[lane].widen();
        }
    }
}

/// # Safety
/// The source's registers hold a chunk of 32 lanes of its type at `chunk`.
#[inline(always)]
unsafe fn widen(source: &Source, chunk: usize, out: &mut Elements) {
    // SAFETY: by the function's contract.
    unsafe {
        match source.ty {
            Scalar::F16 => widen_as::<F16>(source, chunk, out),
            Scalar::BF16 => widen_as::<Bf16>(source, chunk, out),
            _ => widen_as::<f32>(source, chunk, out),
        }
    }
}

/// [`widen`] with the machine's conversion of half.
///
/// # Safety
/// As for [`widen`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen_avx2(source: &Source, chunk: usize, out: &mut Elements) {
    use std::arch::x86_64::*;
    if source.ty != Scalar::F16 {
        // SAFETY: by the function's contract.
        return unsafe { widen(source, chunk, out) };
    }
    for (src, out) in source.elements.iter().zip(out) {
        for (eighth, out) in out.chunks_exact_mut(8).enumerate() {
            // SAFETY: the chunk holds 32 elements of two bytes, `out` eight of four.
            unsafe {
                let from = src.ptr.add(chunk * src.step).cast::<__m128i>().add(eighth);
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from)));
            }
        }
    }
}

/// # Safety
/// Both registers have room for 32 lanes of `T` at `chunk`.
#[inline(always)]
unsafe fn narrow_as<T: Float>(elements: &Elements, out: [*mut u8; 2], chunk: usize) {
    for (elements, out) in elements.iter().zip(out) {
        // SAFETY: by the function's contract.
        let out = unsafe { &mut *out.cast::<[T; CHUNK]>().add(chunk) };
        for lane in 0..CHUNK {
            out[lane] = T::narrow(elements[lane]);
        }
    }
}

/// Adds the product of two matrices to a third.
#[inline(always)]
fn add_product(a: &Elements, b: &Elements, sums: &mut Elements) {
    for k in 0..N {
        for lane in 0..CHUNK {
            // Bits 0 and 3 are those of k's column, then the others those of its row.
            let left = a[k & 1][lane & 0b10110 | k >> 1 & 1 | (k >> 2) << 3];
            let right = lane & 0b01001 | (k & 3) << 1 | (k >> 2) << 4;
            sums[0][lane] += left * b[0][right];
            sums[1][lane] += left * b[1][right];
        }
    }
}

/// [`add_product`] with fused additions, from matrices where they lie: `out = a·b + c`.
///
/// # Safety
/// Each pointer leads to 32 elements. Outputs may be inputs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_product_avx2(a: [*const f32; 2], b: [*const f32; 2], c: Option<[*const f32; 2]>, out: [*mut f32; 2]) {
    use std::arch::x86_64::*;
    /// Which of the pairs (b2 b1) of a vector, twice each of its elements.
    const PAIRS: [[i32; 8]; 4] = {
        let mut out = [[0; 8]; 4];
        let mut at = 0;
        while at < 32 {
            out[at / 8][at % 8] = (at / 8 * 2 + at % 2) as i32;
            at += 1;
        }
        out
    };
    // SAFETY: by the function's contract, for the four vectors of an element.
    let load = |elements: *const f32, vector: usize| unsafe { _mm256_loadu_ps(elements.add(8 * vector)) };
    // By element and vector (b4 b3).
    let mut acc = [[_mm256_setzero_ps(); 4]; 2];
    if let Some(c) = c {
        for (acc, c) in acc.iter_mut().zip(c) {
            for (vector, acc) in acc.iter_mut().enumerate() {
                *acc = load(c, vector);
            }
        }
    }
    for k in 0..N {
        let mut left = [_mm256_setzero_ps(); 2];
        for (b4, left) in left.iter_mut().enumerate() {
            let vector = load(a[k & 1], b4 * 2 + (k >> 2));
            *left = if k & 2 == 0 {
                _mm256_moveldup_ps(vector)
            } else {
                _mm256_movehdup_ps(vector)
            };
        }
        // SAFETY: eight integers.
        let pair = unsafe { _mm256_loadu_si256(PAIRS[k & 3].as_ptr().cast()) };
        for e in 0..2 {
            for b3 in 0..2 {
                let right = _mm256_permutevar8x32_ps(load(b[e], (k >> 2) * 2 + b3), pair);
                for b4 in 0..2 {
                    acc[e][b4 * 2 + b3] = _mm256_fmadd_ps(left[b4], right, acc[e][b4 * 2 + b3]);
                }
            }
        }
    }
    for (out, acc) in out.into_iter().zip(acc) {
        for (vector, acc) in acc.into_iter().enumerate() {
            // SAFETY: by the function's contract.
            unsafe { _mm256_storeu_ps(out.add(8 * vector), acc) };
        }
    }
}

/// # Safety
/// Sources hold chunk `chunk` of their types, `out` has room for it; an output may be an input.
#[inline(always)]
unsafe fn multiply_body([a, b]: [&Source; 2], c: Option<&Source>, out: [*mut u8; 2], ty: Scalar, chunk: usize) {
    let mut elements = [[[0f32; CHUNK]; 2]; 3];
    let [left, right, sums] = &mut elements;
    // SAFETY: by the function's contract.
    unsafe {
        widen(a, chunk, left);
        widen(b, chunk, right);
        if let Some(c) = c {
            widen(c, chunk, sums);
        }
    }
    add_product(left, right, sums);
    // SAFETY: by the function's contract.
    unsafe {
        match ty {
            Scalar::F16 => narrow_as::<F16>(sums, out, chunk),
            Scalar::BF16 => narrow_as::<Bf16>(sums, out, chunk),
            _ => narrow_as::<f32>(sums, out, chunk),
        }
    }
}

/// [`multiply_body`] that widens only what is not `f32`.
///
/// # Safety
/// As for [`multiply_body`], and the machine has these instructions. An output may be an input of its type.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_avx2([a, b]: [&Source; 2], c: Option<&Source>, out: [*mut u8; 2], ty: Scalar, chunk: usize) {
    let mut widened = [[[0f32; CHUNK]; 2]; 3];
    let [left, right, added] = &mut widened;
    /// Where the elements of a chunk lie as `f32`.
    #[target_feature(enable = "avx2,f16c")]
    #[inline]
    unsafe fn elements(source: &Source, chunk: usize, widened: &mut Elements) -> [*const f32; 2] {
        if source.ty == Scalar::F32 {
            return source.elements.map(|src| src.ptr.wrapping_add(chunk * src.step).cast());
        }
        // SAFETY: by the function's contract.
        unsafe { widen_avx2(source, chunk, widened) };
        [widened[0].as_ptr(), widened[1].as_ptr()]
    }
    // SAFETY: by the function's contract.
    unsafe {
        let (a, b) = (elements(a, chunk, left), elements(b, chunk, right));
        let c = c.map(|c| elements(c, chunk, added));
        if ty == Scalar::F32 {
            let out = out.map(|out| out.cast::<[f32; CHUNK]>().add(chunk).cast());
            return add_product_avx2(a, b, c, out);
        }
        let mut sums = [[0f32; CHUNK]; 2];
        add_product_avx2(a, b, c, sums.each_mut().map(|sums| sums.as_mut_ptr()));
        match ty {
            Scalar::F16 => narrow_as::<F16>(&sums, out, chunk),
            _ => narrow_as::<Bf16>(&sums, out, chunk),
        }
    }
}

impl Worker<'_> {
    /// `d = a·b (+ c)` in every SIMD-group that is here; each must be here as a whole.
    pub(super) fn simdgroup_matrix_multiply(
        &mut self,
        a: &MatrixOperand,
        b: &MatrixOperand,
        c: Option<&MatrixOperand>,
        ty: Scalar,
        out: [Reg; 2],
    ) -> Outcome {
        let mut source = |operand: &MatrixOperand| Source {
            elements: [self.src(operand.values[0]), self.src(operand.values[1])],
            ty: operand.ty,
        };
        let (a, b, c) = (source(a), source(b), c.map(&mut source));
        let out = [self.dst(out[0]).1, self.dst(out[1]).1];
        let all = self.lanes.current == super::Mask::All && self.lanes.live.is_multiple_of(CHUNK);
        for first in (0..self.lanes.live).step_by(CHUNK) {
            if !all {
                let here = (first..first + CHUNK).filter(|&lane| self.is_active(lane)).count();
                if here == 0 {
                    continue;
                }
                if here != CHUNK {
                    let lane = self.first_active(first, first + CHUNK).unwrap_or(first);
                    let reason = format!(
                        "a product of simdgroup matrices needs all {CHUNK} threads of its SIMD-group, only {here} are here: \
                         it must be in control flow that is uniform over the SIMD-group, in a threadgroup of whole SIMD-groups"
                    );
                    return raise(FaultKind::TileOperation { reason }, lane);
                }
            }
            let chunk = first / CHUNK;
            // SAFETY: registers hold all lanes of their types (a uniform one 32 equal elements); an output is apart from inputs, or one of them
            // where it is a local; the instruction set was detected.
            unsafe {
                match self.shared.isa {
                    Isa::Portable => multiply_body([&a, &b], c.as_ref(), out, ty, chunk),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 | Isa::Avx512 => multiply_avx2([&a, &b], c.as_ref(), out, ty, chunk),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row and column of an element of a lane by reference 5.6.
    fn place(lane: usize, element: usize) -> (usize, usize) {
        let bit = |n: usize| lane >> n & 1;
        (bit(1) + 2 * bit(2) + 4 * bit(4), 2 * bit(0) + 4 * bit(3) + element)
    }

    fn elements(matrix: impl Fn(usize, usize) -> f32) -> Elements {
        std::array::from_fn(|e| {
            std::array::from_fn(|lane| {
                let (row, column) = place(lane, e);
                matrix(row, column)
            })
        })
    }

    #[test]
    fn products_are_those_of_matrices() {
        // Small integers, so that every sum is exact.
        let a = |row: usize, column: usize| (row * 8 + column) as f32 - 20.0;
        let b = |row: usize, column: usize| (row * 5 + column * 3 % 7) as f32 - 9.0;
        let wanted = elements(|row, column| (0..N).map(|k| a(row, k) * b(k, column)).sum::<f32>() + 1.0);
        let mut sums = [[1.0; CHUNK]; 2];
        add_product(&elements(a), &elements(b), &mut sums);
        assert_eq!(sums, wanted);
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() == Isa::Avx2 {
            let mut sums = [[1.0; CHUNK]; 2];
            let (a, b, c) = (elements(a), elements(b), [[1.0; CHUNK]; 2]);
            let pointers = |elements: &Elements| [elements[0].as_ptr(), elements[1].as_ptr()];
            let out = sums.each_mut().map(|sums| sums.as_mut_ptr());
            // SAFETY: the machine has the instructions.
            unsafe { add_product_avx2(pointers(&a), pointers(&b), Some(pointers(&c)), out) };
            assert_eq!(sums, wanted);
        }
    }
}
