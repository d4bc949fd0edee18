//! Which products are staged, and how.

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, MatmulDescriptor, TensorRef};

use super::epilogue::Output;
use super::plan::{Input, Plan, Unit};
use super::widened::Packing;
use crate::lower::Lower;
use crate::options::Target;

/// How stages are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Feed {
    /// Bulk tensor copies.
    Bulk,
    /// `cp.async`.
    Copied,
    /// Through registers, widened.
    Widened([Packing; 2]),
}

/// Shared memory that a staged product may take.
const fn shared_limit(target: Target) -> u32 {
    match target.sm {
        90 | 100 | 103 => 200 * 1024,
        80 | 87 => 160 * 1024,
        _ => 98 * 1024,
    }
}

/// The elements as staged, and how they get there from memory; `None` where they are not staged.
fn inputs(
    descriptor: &MatmulDescriptor,
    target: Target,
    a: &TensorRef,
    b: &TensorRef,
) -> Option<(Input, Option<[Packing; 2]>)> {
    use ElementFormat::{BF16, F16, Fp8E4M3, Fp8E5M2};
    let scaled = a.scales.is_some() || b.scales.is_some();
    match (a.format, b.format) {
        (BF16, BF16) if !scaled => return Some((Input::BF16, None)),
        (F16, F16) if !scaled => return Some((Input::F16, None)),
        (Fp8E4M3, Fp8E4M3) if !scaled && descriptor.relaxed_precision && target.has_wgmma() => {
            return Some((Input::E4M3, None));
        }
        _ => {}
    }
    if !target.has_fp8_conversion() {
        return None;
    }
    let packing = |tensor: &TensorRef| match tensor.format {
        F16 | BF16 if tensor.scales.is_none() => Some(Packing::Plain),
        Fp8E4M3 => Some(Packing::E4M3),
        Fp8E5M2 => Some(Packing::E5M2),
        _ => None,
    };
    let packings = [packing(a)?, packing(b)?];
    // The range of a scaled element is that of `bfloat`.
    let input = match (
        [a.format, b.format].contains(&F16),
        scaled || [a.format, b.format].contains(&BF16),
    ) {
        (false, true) => Input::BF16,
        (_, false) => Input::F16,
        (true, true) => return None,
    };
    Some((input, Some(packings)))
}

impl Lower<'_> {
    /// How the product of two tensors into a third would be made; `None` if it is not staged.
    pub(super) fn staged_plan(
        &self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        [a, b, c]: [&TensorRef; 3],
    ) -> Option<(Plan, Feed, Output)> {
        if simdgroups < 4 || self.options.checked {
            return None;
        }
        let output = match c.format {
            ElementFormat::F32 => Output::F32,
            ElementFormat::F16 => Output::F16,
            ElementFormat::BF16 => Output::BF16,
            _ => return None,
        };
        let plain = |tensor: &TensorRef| {
            tensor.origin.len() == 2
                && matches!(tensor.space, AddressSpace::Device | AddressSpace::Constant)
                && self.constant(tensor.strides[0]) == Some(1)
                && tensor.scales.as_ref().is_none_or(|plane| {
                    plane.block == [32, 1]
                        && matches!(plane.space, AddressSpace::Device | AddressSpace::Constant)
                        && self.constant(plane.strides[0]) == Some(1)
                })
        };
        if ![a, b, c].into_iter().all(plain) {
            return None;
        }
        let target = self.options.target;
        let (input, packings) = inputs(descriptor, target, a, b)?;
        let base = Plan {
            m: descriptor.m,
            n: descriptor.n,
            warps: simdgroups,
            unit: Unit::Warpgroup,
            input,
            left_along_k: !descriptor.transpose_left,
            right_along_k: descriptor.transpose_right,
            stages: 3,
            banded: false,
        };
        if let Some(packings) = packings {
            let plan = best_unit(base, target).filter(|plan| plan.left_along_k && plan.right_along_k)?;
            return (plan.shared_bytes() <= shared_limit(target)).then_some((plan, Feed::Widened(packings), output));
        }
        let Some(mut plan) = best_unit(base, target) else {
            // Tiles that are too large to keep two sets of sums are widened.
            let wide = Plan {
                input: Input::F16,
                ..base
            };
            let packings = [Packing::E4M3; 2];
            let fits = input == Input::E4M3 && wide.left_along_k && wide.right_along_k;
            let plan = best_unit(wide, target).filter(|plan| fits && plan.shared_bytes() <= shared_limit(target))?;
            return Some((plan, Feed::Widened(packings), output));
        };
        let feed = if plan.unit == Unit::Warpgroup {
            Feed::Bulk
        } else {
            Feed::Copied
        };
        // Small tiles leave room for a second block on the multiprocessor; large ones take all there is.
        let limit = if plan.warps == 4 {
            shared_limit(target) / 2 + 8 * 1024
        } else {
            shared_limit(target)
        };
        plan.stages = 2;
        while plan.stages < 6
            && (Plan {
                stages: plan.stages + 1,
                ..plan
            })
            .shared_bytes()
                <= limit
        {
            plan.stages += 1;
        }
        (plan.shared_bytes() <= shared_limit(target)).then_some((plan, feed, output))
    }
}

/// The plan with the unit that suits it: warpgroups, or warps whose parts are as square as possible.
fn best_unit(plan: Plan, target: Target) -> Option<Plan> {
    if target.has_wgmma() && plan.fits() {
        return Some(plan);
    }
    [1, 2, 4, 8, 16]
        .into_iter()
        .filter(|columns| plan.warps.is_multiple_of(*columns))
        .map(|columns| Plan {
            unit: Unit::Warp { columns },
            ..plan
        })
        .filter(Plan::fits)
        .min_by_key(|plan| 16 * plan.blocks() + plan.warp_columns())
}
