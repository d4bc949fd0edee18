//! Products of 8 × 8 matrices that the lanes of a SIMD-group hold, two elements each (`simdgroup_matrix`, reference 5.6 layout S).

use anymetal_ir::Scalar;

use super::{Outcome, Worker, raise};
use crate::compile::program::{MatrixOperand, Reg};
use crate::fault::FaultKind;
use crate::lanes::scalar::{Bf16, F16, Float};
use crate::lanes::{CHUNK, Isa, Src};

/// Rows and columns.
const N: usize = 8;

/// A matrix, row after row.
type Matrix = [[f32; N]; N];

/// The lane that holds columns `2·pair` and `2·pair + 1` of a row: bits of the pair are lane bits 0 and 3, those of the row 1, 2 and 4.
const fn lane_of(row: usize, pair: usize) -> usize {
    (pair & 1) | (row & 1) << 1 | (row >> 1 & 1) << 2 | (pair >> 1) << 3 | (row >> 2) << 4
}

/// One operand of all SIMD-groups: the registers of its first and second elements.
#[derive(Clone, Copy)]
struct Source {
    elements: [Src; 2],
    ty: Scalar,
}

/// # Safety
/// Both registers hold a chunk of 32 lanes of `T` at `chunk`.
#[inline(always)]
unsafe fn gather_as<T: Float>(elements: &[Src; 2], chunk: usize, out: &mut Matrix) {
    // SAFETY: by the function's contract.
    let [first, second] = elements.map(|src| unsafe { *src.ptr.add(chunk * src.step).cast::<[T; CHUNK]>() });
    let (mut low, mut high) = ([0f32; CHUNK], [0f32; CHUNK]);
    for lane in 0..CHUNK {
        low[lane] = first[lane].widen();
        high[lane] = second[lane].widen();
    }
    for (row, out) in out.iter_mut().enumerate() {
        for pair in 0..N / 2 {
            out[2 * pair] = low[lane_of(row, pair)];
            out[2 * pair + 1] = high[lane_of(row, pair)];
        }
    }
}

/// # Safety
/// The source's registers hold a chunk of 32 lanes of its type at `chunk`.
#[inline(always)]
unsafe fn gather(source: &Source, chunk: usize, out: &mut Matrix) {
    // SAFETY: by the function's contract.
    unsafe {
        match source.ty {
            Scalar::F16 => gather_as::<F16>(&source.elements, chunk, out),
            Scalar::BF16 => gather_as::<Bf16>(&source.elements, chunk, out),
            _ => gather_as::<f32>(&source.elements, chunk, out),
        }
    }
}

/// # Safety
/// Both registers have room for 32 lanes of `T` at `chunk`.
#[inline(always)]
unsafe fn scatter_as<T: Float>(matrix: &Matrix, elements: [*mut u8; 2], chunk: usize) {
    let (mut low, mut high) = ([0f32; CHUNK], [0f32; CHUNK]);
    for (row, values) in matrix.iter().enumerate() {
        for pair in 0..N / 2 {
            low[lane_of(row, pair)] = values[2 * pair];
            high[lane_of(row, pair)] = values[2 * pair + 1];
        }
    }
    for (values, to) in [low, high].into_iter().zip(elements) {
        // SAFETY: by the function's contract.
        let to = unsafe { &mut *to.cast::<[T; CHUNK]>().add(chunk) };
        for lane in 0..CHUNK {
            to[lane] = T::narrow(values[lane]);
        }
    }
}

/// # Safety
/// Sources hold chunk `chunk` of their types, `out` has room for it; outputs do not overlap inputs.
#[inline(always)]
unsafe fn multiply_body<const FUSED: bool>(
    a: &Source,
    b: &Source,
    c: Option<&Source>,
    out: [*mut u8; 2],
    ty: Scalar,
    chunk: usize,
) {
    let (mut left, mut right, mut sums) = ([[0f32; N]; N], [[0f32; N]; N], [[0f32; N]; N]);
    // SAFETY: by the function's contract.
    unsafe {
        gather(a, chunk, &mut left);
        gather(b, chunk, &mut right);
        if let Some(c) = c {
            gather(c, chunk, &mut sums);
        }
    }
    for (sums, left) in sums.iter_mut().zip(&left) {
        for (k, right) in right.iter().enumerate() {
            for column in 0..N {
                sums[column] = if FUSED {
                    left[k].mul_add(right[column], sums[column])
                } else {
                    sums[column] + left[k] * right[column]
                };
            }
        }
    }
    // SAFETY: by the function's contract.
    unsafe {
        match ty {
            Scalar::F16 => scatter_as::<F16>(&sums, out, chunk),
            Scalar::BF16 => scatter_as::<Bf16>(&sums, out, chunk),
            _ => scatter_as::<f32>(&sums, out, chunk),
        }
    }
}

/// # Safety
/// As for [`multiply_body`], and the machine has these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_avx2(a: &Source, b: &Source, c: Option<&Source>, out: [*mut u8; 2], ty: Scalar, chunk: usize) {
    // SAFETY: by the function's contract.
    unsafe { multiply_body::<true>(a, b, c, out, ty, chunk) }
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
            elements: operand.values.map(|reg| self.src(reg)),
            ty: operand.ty,
        };
        let (a, b, c) = (source(a), source(b), c.map(&mut source));
        let out = out.map(|reg| self.dst(reg).1);
        for first in (0..self.lanes.live).step_by(CHUNK) {
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
            let chunk = first / CHUNK;
            // SAFETY: registers hold all lanes of their types (a uniform one 32 equal elements); the allocator keeps outputs apart from
            // inputs; the instruction set was detected.
            unsafe {
                match self.shared.isa {
                    Isa::Portable => multiply_body::<false>(&a, &b, c.as_ref(), out, ty, chunk),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 | Isa::Avx512 => multiply_avx2(&a, &b, c.as_ref(), out, ty, chunk),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference 5.6: column 2·b0 + 4·b3 (+ 1), row b1 + 2·b2 + 4·b4; every lane has one place.
    #[test]
    fn lanes_follow_layout_s() {
        let mut seen = [false; CHUNK];
        for row in 0..N {
            for pair in 0..N / 2 {
                let lane = lane_of(row, pair);
                assert!(!std::mem::replace(&mut seen[lane], true));
                let bit = |n: usize| lane >> n & 1;
                assert_eq!(2 * pair, 2 * bit(0) + 4 * bit(3));
                assert_eq!(row, bit(1) + 2 * bit(2) + 4 * bit(4));
            }
        }
    }
}
