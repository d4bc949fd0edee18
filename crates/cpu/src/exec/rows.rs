//! Passes over a tile by rows ([`RowMap`]): each element is read and written once, and the sums of the rows are taken on the way.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::mask::Mask;
use super::{Worker, reduce};
use crate::compile::program::{RowFunction, RowMap, RowOperand};
use crate::lanes::Isa;
use crate::math;

/// A number for each row: the first one, and the elements from one to the next.
#[derive(Clone, Copy)]
struct ByRow {
    first: *const f32,
    step: usize,
}

impl ByRow {
    /// # Safety
    /// There must be such a row.
    #[inline(always)]
    unsafe fn of(self, row: usize) -> f32 {
        // SAFETY: the caller's contract.
        unsafe { *self.first.add(row * self.step) }
    }
}

/// A pass over some rows, which lie one after the other.
struct Pass {
    tile: *mut f32,
    rows: usize,
    columns: usize,
    factor: ByRow,
    addend: ByRow,
    negative: bool,
    /// Where sums go, unless it is null, and what they start from.
    sums: *mut f32,
    identity: f32,
}

impl Pass {
    /// # Safety
    /// There must be such a row.
    #[inline(always)]
    unsafe fn row(&self, row: usize) -> (*mut f32, f32, f32) {
        // SAFETY: the caller's contract.
        let (x, factor, addend) = unsafe {
            (
                self.tile.add(row * self.columns),
                self.factor.of(row),
                self.addend.of(row),
            )
        };
        (x, factor, if self.negative { -addend } else { addend })
    }
}

const EXP: u8 = 1;
const EXP2: u8 = 2;

/// Multiplies the rows. A factor of 1 changes nothing: a running softmax has it wherever a block did not raise the maximum.
///
/// # Safety
/// The pass must be over memory that is there.
#[inline(always)]
unsafe fn multiply(pass: &Pass) {
    for row in 0..pass.rows {
        // SAFETY: the caller's contract.
        unsafe {
            let (x, factor, _) = pass.row(row);
            if factor != 1.0 {
                std::slice::from_raw_parts_mut(x, pass.columns)
                    .iter_mut()
                    .for_each(|x| *x *= factor);
            }
        }
    }
}

/// An exponential of every element, on any machine.
///
/// # Safety
/// As for [`multiply`].
unsafe fn portable<const FUNCTION: u8>(pass: &Pass) {
    for row in 0..pass.rows {
        // SAFETY: the caller's contract.
        unsafe {
            let (x, factor, addend) = pass.row(row);
            let x = std::slice::from_raw_parts_mut(x, pass.columns);
            for x in &mut *x {
                let y = x.mul_add(factor, addend);
                *x = if FUNCTION == EXP { math::exp(y) } else { math::exp2(y) };
            }
            if !pass.sums.is_null() {
                *pass.sums.add(row) = x.iter().fold(pass.identity, |sum, &x| sum + x);
            }
        }
    }
}

/// The same for vectors of a width.
macro_rules! vector_pass {
    ($name:ident, $row:ident, $exponential:ident, $vector:ty, $multiply:ident, $features:literal, $width:literal, $math:ident, $totals:ident, $set:ident, $load:ident, $store:ident,
     $fma:ident, $add:ident) => {
        /// # Safety
        /// As for [`multiply`], on a machine with the instructions, and rows of whole vectors.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const FUNCTION: u8>(pass: &Pass) {
            for row in (0..pass.rows).step_by(4) {
                let mut four = [$set(0.0); 4];
                for (i, sums) in four.iter_mut().enumerate().take(pass.rows - row) {
                    // SAFETY: the caller's contract.
                    *sums = unsafe { $row::<FUNCTION>(pass, row + i) };
                }
                if !pass.sums.is_null() {
                    // SAFETY: there is a sum for each row.
                    unsafe {
                        reduce::put_totals::<0>(
                            reduce::$totals::<0>(four),
                            pass.identity,
                            pass.sums,
                            row,
                            pass.rows,
                        )
                    };
                }
            }
        }

        /// One row; a vector of sums whose sum is that of its elements.
        ///
        /// # Safety
        /// As above.
        #[cfg(target_arch = "x86_64")]
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $row<const FUNCTION: u8>(pass: &Pass, row: usize) -> $vector {
            // SAFETY: the caller's contract.
            unsafe {
                let (x, factor, addend) = pass.row(row);
                let (factor, addend) = ($set(factor), $set(addend));
                // −0 + x is x for every x.
                let mut sums = $set(-0.0);
                let mut at = 0;
                while at + 4 * $width <= pass.columns {
                    let mut y = [factor; 4];
                    for i in 0..4 {
                        y[i] = $fma($load(x.add(at + $width * i)), factor, addend);
                    }
                    let y = $exponential::<FUNCTION>(y);
                    for i in 0..4 {
                        $store(x.add(at + $width * i), y[i]);
                    }
                    sums = $add($add($add(y[0], y[1]), $add(y[2], y[3])), sums);
                    at += 4 * $width;
                }
                while at < pass.columns {
                    let [y, ..] = $exponential::<FUNCTION>([$fma($load(x.add(at)), factor, addend); 4]);
                    $store(x.add(at), y);
                    sums = $add(y, sums);
                    at += $width;
                }
                sums
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[inline]
        #[target_feature(enable = $features)]
        fn $exponential<const FUNCTION: u8>(x: [$vector; 4]) -> [$vector; 4] {
            match FUNCTION {
                EXP => math::$math::exp(x),
                _ => math::$math::exp2(x),
            }
        }

        /// # Safety
        /// As for [`multiply`], on a machine with the instructions.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $multiply(pass: &Pass) {
            // SAFETY: the caller's contract.
            unsafe { multiply(pass) }
        }
    };
}

vector_pass!(
    exponential_avx2,
    row_avx2,
    four_avx2,
    __m256,
    multiply_avx2,
    "avx2,fma",
    8,
    avx2,
    totals_avx2,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
vector_pass!(
    exponential_avx512,
    row_avx512,
    four_avx512,
    __m512,
    multiply_avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    16,
    avx512,
    totals_avx512,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps
);

/// The loop of a function on an instruction set.
fn pass_of(function: RowFunction, isa: Isa) -> unsafe fn(&Pass) {
    match (function, isa) {
        (RowFunction::None, Isa::Portable) => multiply,
        (RowFunction::Exp, Isa::Portable) => portable::<EXP>,
        (RowFunction::Exp2, Isa::Portable) => portable::<EXP2>,
        #[cfg(target_arch = "x86_64")]
        (RowFunction::None, Isa::Avx2) => multiply_avx2,
        #[cfg(target_arch = "x86_64")]
        (RowFunction::Exp, Isa::Avx2) => exponential_avx2::<EXP>,
        #[cfg(target_arch = "x86_64")]
        (RowFunction::Exp2, Isa::Avx2) => exponential_avx2::<EXP2>,
        #[cfg(target_arch = "x86_64")]
        (RowFunction::None, Isa::Avx512) => multiply_avx512,
        #[cfg(target_arch = "x86_64")]
        (RowFunction::Exp, Isa::Avx512) => exponential_avx512::<EXP>,
        #[cfg(target_arch = "x86_64")]
        (RowFunction::Exp2, Isa::Avx512) => exponential_avx512::<EXP2>,
    }
}

impl Worker<'_> {
    pub(super) fn row_map(&mut self, map: &RowMap) {
        let run = pass_of(map.function, self.shared.isa);
        let tile = self.tiles[map.over as usize];
        let by_rows = |coop: u32| {
            (
                self.tiles[coop as usize],
                self.tiles[coop as usize].stride == tile.rows * 4,
            )
        };
        let operands = [map.factor, map.addend, map.sums.map(|(to, _)| RowOperand::Rows(to))];
        // Rows of instances that lie side by side are rows of one tile.
        let together = self.lanes.current == Mask::All
            && tile.stride == tile.elements() * tile.size
            && operands
                .iter()
                .all(|operand| !matches!(operand, Some(RowOperand::Rows(coop)) if !by_rows(*coop).1));
        let count = if together { self.instances(tile.simdgroups) } else { 1 };
        let value = |operand: Option<RowOperand>, other: f32| match operand {
            Some(RowOperand::Value(reg)) => f32::from_bits(self.uniform_value(reg) as u32),
            _ => other,
        };
        let (factor, addend) = (value(map.factor, 1.0), value(map.addend, 0.0));
        for (instance, _) in self.active_instances(tile.simdgroups) {
            let rows_of = |coop: u32| self.tiles[coop as usize].instance(instance).cast::<f32>();
            let by_row = |operand: Option<RowOperand>, value: &f32| match operand {
                Some(RowOperand::Rows(coop)) => ByRow {
                    first: rows_of(coop),
                    step: 1,
                },
                _ => ByRow { first: value, step: 0 },
            };
            let pass = Pass {
                tile: tile.instance(instance).cast(),
                rows: tile.rows * count,
                columns: tile.columns,
                factor: by_row(map.factor, &factor),
                addend: by_row(map.addend, &addend),
                negative: map.negative,
                sums: map.sums.map_or(std::ptr::null_mut(), |(to, _)| rows_of(to)),
                identity: map
                    .sums
                    .map_or(0.0, |(_, reg)| f32::from_bits(self.uniform_value(reg) as u32)),
            };
            // SAFETY: the compiler saw that tiles are of `float` and reduction tensors have an element for each row; those of as many
            // instances lie side by side. The loop is one of this machine's.
            unsafe { run(&pass) };
            if together {
                break;
            }
        }
    }
}
