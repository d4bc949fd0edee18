//! Which products are staged, and how.

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, ArgumentKind, MatmulDescriptor, Operand, Scalar, TensorRef};

use super::decode::Packing;
use super::epilogue::Output;
use super::plan::{Bands, Input, Plan, Unit};
use crate::lower::{ColumnMap, Lower};
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

/// A product that is staged.
pub(super) struct Selected {
    /// The pipeline.
    pub plan: Plan,
    /// What fills it.
    pub feed: Feed,
    /// Element type of the destination.
    pub output: Output,
    /// The pipeline that reads images of operands which would be widened, where they may have some.
    pub image_plan: Option<Plan>,
    /// The right operand's rows have levels, which only an image can have.
    pub levelled: bool,
}

/// Shared memory that a staged product may take on a chip, with what the kernel itself takes at most.
const fn shared_limit(target: Target) -> u32 {
    match target.sm {
        90 | 100 | 103 => 226 * 1024,
        80 | 87 => 162 * 1024,
        _ => 98 * 1024,
    }
}

/// The elements as staged.
struct Staged {
    input: Input,
    /// How they are in memory, where they are widened.
    packings: Option<[Packing; 2]>,
    levelled: bool,
}

/// The elements as staged, and how they get there from memory; `None` where they are not staged.
fn inputs(descriptor: &MatmulDescriptor, target: Target, a: &TensorRef, b: &TensorRef) -> Option<Staged> {
    use ElementFormat::{BF16, F16, F32, Fp8E4M3};
    let scaled = a.scales.is_some() || b.scales.is_some();
    let plain = |input| {
        Some(Staged {
            input,
            packings: None,
            levelled: false,
        })
    };
    match (a.format, b.format) {
        (BF16, BF16) if !scaled => return plain(Input::BF16),
        (F16, F16) if !scaled => return plain(Input::F16),
        (F32, F32) if !scaled && descriptor.relaxed_precision => return plain(Input::TF32),
        (F32, F32) if !scaled => return plain(Input::F32),
        (Fp8E4M3, Fp8E4M3) if !scaled && descriptor.relaxed_precision && target.has_wgmma() => {
            return plain(Input::E4M3);
        }
        _ => {}
    }
    let packing = |tensor: &TensorRef| match Packing::of(tensor.format)? {
        Packing::Plain if tensor.scales.is_some() => None,
        Packing::E4M3 | Packing::E5M2 if !target.has_fp8_conversion() => None,
        packing => Some(packing),
    };
    let packings = [packing(a)?, packing(b)?];
    let half = [a.format, b.format].contains(&F16);
    // The range of a scaled element is that of `bfloat`.
    let input = if half || !scaled && ![a.format, b.format].contains(&BF16) {
        Input::F16
    } else {
        Input::BF16
    };
    let levelled = half && scaled;
    if half && [a.format, b.format].contains(&BF16) || levelled && a.scales.is_some() {
        return None;
    }
    Some(Staged {
        input,
        packings: Some(packings),
        levelled,
    })
}

impl Lower<'_> {
    /// How the product of two tensors would be made; `None` if it is not staged.
    pub(super) fn staged_plan(
        &self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        [a, b]: [&TensorRef; 2],
        destination: &Operand,
    ) -> Option<Selected> {
        if simdgroups < 4 || self.options.checked {
            return None;
        }
        let output = self.staged_output(descriptor, simdgroups, destination)?;
        let target = self.options.target;
        if ![a, b].into_iter().all(|tensor| self.runs_along_memory(tensor)) {
            return None;
        }
        let Staged {
            input,
            packings,
            levelled,
        } = inputs(descriptor, target, a, b)?;
        let base = Plan {
            m: descriptor.m,
            n: descriptor.n,
            warps: simdgroups,
            unit: Unit::Warpgroup,
            input,
            left_along_k: !descriptor.transpose_left,
            right_along_k: descriptor.transpose_right,
            stages: 3,
            bands: match destination {
                Operand::Tensor(_) => Bands::Free,
                Operand::Coop(id) if self.tile(*id).by_rows => Bands::Rows,
                Operand::Coop(_) => Bands::Columns,
            },
        };
        let room = self.staged_room();
        let direct = |plan: Plan| Selected {
            plan,
            feed: if plan.unit == Unit::Warpgroup {
                Feed::Bulk
            } else {
                Feed::Copied
            },
            output,
            image_plan: None,
            levelled: false,
        };
        let packings = match (packings, best_unit(base, target)) {
            (None, Some(plan)) => return deepened(plan, target, room).map(direct),
            (Some(packings), _) => packings,
            // Tiles too large for two sets of sums are widened, where they are of fp8.
            (None, None) if input == Input::E4M3 => [Packing::E4M3; 2],
            _ => return None,
        };
        let base = Plan {
            input: if input == Input::E4M3 { Input::F16 } else { input },
            ..base
        };
        // Warps read a stage before they go on, so two take turns; warpgroups still read one while the next but one is filled.
        let two_or_three = |plan: Plan| Plan {
            stages: if plan.unit == Unit::Warpgroup { 3 } else { 2 },
            ..plan
        };
        let plan = best_unit(base, target)
            .map(two_or_three)
            .filter(|plan| plan.left_along_k && plan.right_along_k && plan.shared_bytes() <= room)?;
        let packed = [a, b]
            .into_iter()
            .zip(packings)
            .filter(|(_, packing)| *packing != Packing::Plain);
        let images = plan.unit == Unit::Warpgroup && packed.clone().all(|(tensor, _)| self.may_have_image(tensor));
        // Few rows by four bits have a faster way of their own.
        let narrow = packings.iter().any(|packing| packing.bits() < 8);
        let image_plan = deepened(plan, target, room).filter(|_| images);
        if (narrow || levelled) && image_plan.is_none() || levelled && descriptor.accumulate {
            return None;
        }
        Some(Selected {
            plan,
            feed: Feed::Widened(packings),
            output,
            image_plan,
            levelled,
        })
    }

    /// Shared memory that a staged product of this kernel may take.
    fn staged_room(&self) -> u32 {
        let dynamic = self
            .kernel
            .arguments
            .iter()
            .any(|a| matches!(a.kind, ArgumentKind::Threadgroup { .. }));
        // Metal's limit on what a kernel has itself.
        let own = if dynamic {
            32 * 1024
        } else {
            self.kernel.static_threadgroup_bytes().min(32 * 1024) as u32
        };
        shared_limit(self.options.target).saturating_sub(own)
    }

    /// Dimension 0 may have stride 1 (which is looked at when the kernel runs), and scales may be as the pipeline reads them.
    fn runs_along_memory(&self, tensor: &TensorRef) -> bool {
        let reachable = |space| matches!(space, AddressSpace::Device | AddressSpace::Constant);
        tensor.origin.len() == 2
            && reachable(tensor.space)
            && self.constant(tensor.strides[0]).is_none_or(|stride| stride == 1)
            && tensor.scales.as_ref().is_none_or(|plane| {
                plane.block == [32, 1]
                    && reachable(plane.space)
                    && self.constant(plane.strides[0]).is_none_or(|stride| stride == 1)
            })
    }

    /// The element type of a destination that sums can go to.
    fn staged_output(&self, descriptor: &MatmulDescriptor, simdgroups: u32, destination: &Operand) -> Option<Output> {
        match destination {
            Operand::Tensor(tensor) if self.runs_along_memory(tensor) && tensor.scales.is_none() => match tensor.format
            {
                ElementFormat::F32 => Some(Output::F32),
                ElementFormat::F16 => Some(Output::F16),
                ElementFormat::BF16 => Some(Output::BF16),
                _ => None,
            },
            Operand::Tensor(_) => None,
            Operand::Coop(id) => {
                let tile = self.tile(*id);
                let bands = if tile.by_rows {
                    tile.band_rows.is_multiple_of(16) && tile.band_rows * simdgroups == tile.rows
                } else {
                    tile.band_columns.is_multiple_of(16) && tile.band_columns * simdgroups == tile.columns
                };
                let whole = bands
                    && tile.column_map == ColumnMap::Natural
                    && (tile.rows, tile.columns) == (descriptor.m, descriptor.n);
                match tile.element {
                    Scalar::F32 if whole => Some(Output::F32),
                    Scalar::F16 if whole => Some(Output::F16),
                    Scalar::BF16 if whole => Some(Output::BF16),
                    _ => None,
                }
            }
        }
    }
}

/// The plan with as many stages as there is room for. Small tiles leave room for a second block on the multiprocessor.
fn deepened(plan: Plan, target: Target, room: u32) -> Option<Plan> {
    let limit = if plan.warps == 4 {
        (shared_limit(target) / 2).min(room)
    } else {
        room
    };
    let with = |stages: u32| Plan { stages, ..plan };
    (2..=6)
        .rev()
        .map(with)
        .find(|plan| plan.shared_bytes() <= if plan.stages == 2 { room } else { limit })
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
