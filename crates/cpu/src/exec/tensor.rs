//! Tensor handles, and the checks of element accesses.

use anymetal_ir::{AddressSpace, TensorField, TensorSpec};

use super::{Outcome, Value, Worker, raise, write};
use crate::compile::program::{Reach, Reg};
use crate::fault::{AccessKind, FaultKind, TensorMismatch};
use crate::lanes::convert::offset_pointer;
use crate::launch::TensorBinding;

/// Does a tensor fit the type that a kernel declares?
pub(crate) fn fits(binding: &TensorBinding, spec: &TensorSpec) -> Result<(), TensorMismatch> {
    if binding.format != spec.format {
        return Err(TensorMismatch::Format {
            expected: spec.format,
            given: binding.format,
        });
    }
    if binding.extents.len() != spec.extents.len() {
        return Err(TensorMismatch::Rank {
            expected: spec.extents.len(),
            given: binding.extents.len(),
            extents: binding.extents.clone(),
        });
    }
    for (dimension, (&given, &expected)) in binding.extents.iter().zip(&spec.extents).enumerate() {
        if let Some(expected) = expected
            && expected != given
        {
            return Err(TensorMismatch::Extent {
                dimension,
                expected,
                given,
                extents: binding.extents.clone(),
            });
        }
    }
    if let Some(block) = &spec.scale_block {
        let given = binding.scales.as_ref().map(|plane| plane.block.clone());
        if given.as_ref() != Some(block) {
            return Err(TensorMismatch::Scales {
                expected: block.clone(),
                given,
            });
        }
    }
    Ok(())
}

impl<'d> Worker<'d> {
    /// One part of the tensor behind a handle.
    fn field(&mut self, handle: u64, spec: &TensorSpec, field: TensorField, lane: usize) -> Outcome<u64> {
        if handle == 0 {
            return Ok(0);
        }
        let find = |registry: &super::objects::Registry| -> Option<Outcome<u64>> {
            let tensor = &registry.tensors[*registry.by_handle.get(&handle)?];
            if let Err(mismatch) = fits(&tensor.binding, spec) {
                return Some(raise(FaultKind::Tensor { mismatch }, lane));
            }
            let binding = &tensor.binding;
            Some(Ok(match field {
                TensorField::Pointer => tensor.pointer,
                TensorField::Extent(d) => binding.extents.get(d as usize).copied().unwrap_or(0),
                TensorField::Stride(d) => binding.strides.get(d as usize).copied().unwrap_or(0) as u64,
                TensorField::ScalePointer => tensor.scales,
                TensorField::ScaleStride(d) => binding
                    .scales
                    .as_ref()
                    .and_then(|plane| plane.strides.get(d as usize).copied())
                    .unwrap_or(0) as u64,
            }))
        };
        let shared = self.shared;
        {
            let registry = shared.registry.read().unwrap_or_else(|e| e.into_inner());
            if let Some(found) = find(&registry) {
                return found;
            }
        }
        let Some(mut binding) = shared.table.tensor(handle) else {
            return raise(FaultKind::UnknownTensor { handle }, lane);
        };
        binding.handle = handle;
        if !shared.register(binding) {
            return raise(FaultKind::UnknownTensor { handle }, lane);
        }
        let registry = shared.registry.read().unwrap_or_else(|e| e.into_inner());
        find(&registry).unwrap_or_else(|| raise(FaultKind::UnknownTensor { handle }, lane))
    }

    pub(super) fn tensor_query(
        &mut self,
        handle: Reg,
        spec: &'d TensorSpec,
        field: TensorField,
        out: Reg,
        memory: usize,
    ) -> Outcome {
        debug_assert!(spec.space != AddressSpace::Thread);
        match self.value(handle) {
            Value::Uniform(handle)
            | Value::Affine {
                base: handle,
                stride: 0,
            } => {
                // What is bound does not change during a dispatch. Handle 0 stands for nothing remembered yet.
                if handle != 0 && self.queries[memory].0 == handle {
                    self.set_all(out, self.queries[memory].1);
                    return Ok(());
                }
                let lane = self.first_active(0, usize::MAX).unwrap_or(0);
                let value = self.field(handle, spec, field, lane)?;
                self.queries[memory] = (handle, value);
                self.set_all(out, value);
            }
            _ => {
                self.src(handle);
                let (_, to) = self.dst(out);
                for lane in 0..self.lanes.live {
                    if self.is_active(lane) {
                        let value = self.lane_value(handle, lane);
                        let value = self.field(value, spec, field, lane)?;
                        // SAFETY: the register holds all lanes.
                        unsafe { write(to.add(lane * out.size as usize), out.size, value) };
                    }
                }
            }
        }
        Ok(())
    }

    /// Least and greatest value of a register over the live lanes, as `i64`.
    fn bounds(&mut self, reg: Reg) -> (i64, i64) {
        match self.value(reg) {
            Value::Uniform(value) => (value as i64, value as i64),
            Value::Affine { base, stride } => {
                let last = (base as i64).saturating_add((stride as i64).saturating_mul(self.lanes.live as i64 - 1));
                ((base as i64).min(last), (base as i64).max(last))
            }
            Value::Plane(plane) => match self.extent(plane, anymetal_ir::Scalar::I64, true) {
                Some(extent) => (extent.low, extent.high),
                None => (i64::MIN, i64::MAX),
            },
            Value::Lanes => {
                // SAFETY: the register holds an `i64` for each lane.
                let values = unsafe { std::slice::from_raw_parts(self.ptr(reg).cast::<i64>(), self.lanes.live) };
                values.iter().fold((i64::MAX, i64::MIN), |(low, high), &value| {
                    (low.min(value), high.max(value))
                })
            }
        }
    }

    /// True if every index of every live lane, active or not, is inside.
    fn all_inside(&mut self, indices: &[Reg], extents: &[Reg]) -> bool {
        indices.iter().zip(extents).all(|(&index, &extent)| {
            let (low, high) = self.bounds(index);
            low >= 0 && high < self.bounds(extent).0
        })
    }

    fn inside(&self, indices: &[Reg], extents: &[Reg], lane: usize) -> bool {
        indices.iter().zip(extents).all(|(&index, &extent)| {
            let index = self.lane_value(index, lane) as i64;
            index >= 0 && index < self.lane_value(extent, lane) as i64
        })
    }

    pub(super) fn check_index(&mut self, access: AccessKind, indices: &[Reg], extents: &[Reg], name: &str) -> Outcome {
        if self.all_inside(indices, extents) {
            return Ok(());
        }
        for lane in 0..self.lanes.live {
            if self.is_active(lane) && !self.inside(indices, extents, lane) {
                let list = |worker: &Self, regs: &[Reg]| -> Vec<i64> {
                    regs.iter().map(|&reg| worker.lane_value(reg, lane) as i64).collect()
                };
                let kind = FaultKind::TensorIndex {
                    access,
                    tensor: name.to_string(),
                    coordinates: list(self, indices),
                    extents: list(self, extents),
                };
                return raise(kind, lane);
            }
        }
        Ok(())
    }

    pub(super) fn check_reach(&mut self, reach: &Reach) -> Outcome {
        let bits = i128::from(reach.bits);
        let size = |(low, high): (i64, i64)| i128::from(low.unsigned_abs().max(high.unsigned_abs()));
        let mut most = 0i128;
        for (d, (&origin, &stride)) in reach.origin.iter().zip(&reach.strides).enumerate() {
            let origin = size(self.bounds(origin));
            let at = match &reach.extents {
                Some(extents) => origin.max(size(self.bounds(extents[d]))),
                None => origin + size(self.bounds(reach.indices[d])),
            };
            most = most.saturating_add(at.saturating_mul(size(self.bounds(stride))));
        }
        if most.saturating_mul(bits) < 1 << 62 {
            return Ok(());
        }
        for lane in 0..self.lanes.live {
            let wanted = reach.predicate.is_none_or(|reg| self.lane_value(reg, lane) != 0);
            if !wanted || !self.is_active(lane) {
                continue;
            }
            let value = |reg: Reg| i128::from(self.lane_value(reg, lane) as i64);
            let mut at = 0i128;
            for ((&index, &origin), &stride) in reach.indices.iter().zip(&reach.origin).zip(&reach.strides) {
                let part = (value(origin) + value(index)).saturating_mul(value(stride));
                at = at.saturating_add(part);
            }
            let at = at.saturating_mul(bits);
            if i64::try_from(at).is_err() {
                // No object is that large: the place that the message names is as far as a pointer goes.
                let far = (at / 8).clamp(-(1 << 46), 1 << 46) as i64;
                let pointer = offset_pointer(self.lane_value(reach.pointer, lane), far as u64);
                let kind = self.refusal(pointer, u64::from(reach.bits).div_ceil(8), reach.access);
                return raise(kind, lane);
            }
        }
        Ok(())
    }

    pub(super) fn in_range(&mut self, out: Reg, indices: &[Reg], extents: &[Reg]) {
        if self.all_inside(indices, extents) {
            self.set_all(out, 1);
            return;
        }
        if out.is_uniform() {
            let inside = self.inside(indices, extents, 0);
            self.set_all(out, u64::from(inside));
            return;
        }
        let (_, to) = self.dst(out);
        for lane in 0..self.lanes.live {
            let inside = self.inside(indices, extents, lane);
            // SAFETY: the register holds all lanes.
            unsafe { *to.add(lane) = u8::from(inside) };
        }
    }
}
