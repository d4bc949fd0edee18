//! Atomic operations, lane after lane, with the machine's own atomics.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anymetal_ir::{AtomicOp, Scalar};

use super::objects::split;
use super::{Outcome, Worker, raise, write};
use crate::compile::program::Reg;
use crate::fault::{AccessKind, FaultKind};

/// What an operation makes of the old value.
fn combine(op: AtomicOp, ty: Scalar, old: u64, value: u64) -> u64 {
    let float =
        |f: fn(f32, f32) -> f32| u64::from(f(f32::from_bits(old as u32), f32::from_bits(value as u32)).to_bits());
    match (op, ty) {
        (AtomicOp::Load, _) => old,
        (AtomicOp::Store | AtomicOp::Exchange, _) => value,
        (AtomicOp::Add, Scalar::F32) => float(|a, b| a + b),
        (AtomicOp::Sub, Scalar::F32) => float(|a, b| a - b),
        (AtomicOp::Min, Scalar::F32) => float(f32::min),
        (AtomicOp::Max, Scalar::F32) => float(f32::max),
        (AtomicOp::Add, _) => old.wrapping_add(value),
        (AtomicOp::Sub, _) => old.wrapping_sub(value),
        (AtomicOp::And, _) => old & value,
        (AtomicOp::Or, _) => old | value,
        (AtomicOp::Xor, _) => old ^ value,
        (AtomicOp::Min, Scalar::I32) => (old as i32).min(value as i32) as u32 as u64,
        (AtomicOp::Max, Scalar::I32) => (old as i32).max(value as i32) as u32 as u64,
        (AtomicOp::Min, _) => old.min(value),
        (AtomicOp::Max, _) => old.max(value),
        // Handled apart.
        (AtomicOp::CompareExchangeWeak, _) => old,
    }
}

impl Worker<'_> {
    pub(super) fn atomic(
        &mut self,
        op: AtomicOp,
        ty: Scalar,
        pointer: Reg,
        values: &[Reg],
        out: Option<Reg>,
        success: Option<Reg>,
    ) -> Outcome {
        let size = ty.size() as u8;
        for reg in [Some(pointer)].into_iter().flatten().chain(values.iter().copied()) {
            self.src(reg);
        }
        let out = out.map(|out| (self.dst(out).1, out.size));
        let success = success.map(|success| self.dst(success).1);
        for lane in 0..self.lanes.live {
            if !self.is_active(lane) {
                continue;
            }
            let at = self.lane_value(pointer, lane);
            let first = values.first().map_or(0, |&reg| self.lane_value(reg, lane));
            let second = values.get(1).map_or(0, |&reg| self.lane_value(reg, lane));
            let (number, offset) = split(at);
            if let Some(object) = self.object(number)
                && object.lane_unit != 0
            {
                // Atomics are on device and threadgroup memory.
                let name = self.shared.name(number).name;
                return raise(FaultKind::ReadOnly { object: name }, lane);
            }
            let writes = op != AtomicOp::Load;
            let Some(address) = self.address(at, u64::from(size), writes) else {
                let access = if writes { AccessKind::Atomic } else { AccessKind::Read };
                let kind = self.refusal(at, u64::from(size), access);
                return raise(kind, lane);
            };
            if !(address as usize).is_multiple_of(size as usize) {
                let kind = FaultKind::Misaligned {
                    access: AccessKind::Atomic,
                    object: self.shared.name(number).name,
                    offset,
                    align: u32::from(size),
                };
                return raise(kind, lane);
            }
            let (old, done) = if size == 4 {
                // SAFETY: the address is inside its object and aligned.
                let cell = unsafe { AtomicU32::from_ptr(address.cast()) };
                match op {
                    AtomicOp::Load => (cell.load(Ordering::SeqCst), true),
                    AtomicOp::CompareExchangeWeak => {
                        match cell.compare_exchange(first as u32, second as u32, Ordering::SeqCst, Ordering::SeqCst) {
                            Ok(old) => (old, true),
                            Err(old) => (old, false),
                        }
                    }
                    _ => {
                        let old = cell
                            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
                                Some(combine(op, ty, u64::from(old), first) as u32)
                            })
                            .unwrap_or_else(|old| old);
                        (old, true)
                    }
                }
            } else {
                (0, true)
            };
            let (old, done) = if size == 8 {
                // SAFETY: as above.
                let cell = unsafe { AtomicU64::from_ptr(address.cast()) };
                match op {
                    AtomicOp::Load => (cell.load(Ordering::SeqCst), true),
                    AtomicOp::CompareExchangeWeak => {
                        match cell.compare_exchange(first, second, Ordering::SeqCst, Ordering::SeqCst) {
                            Ok(old) => (old, true),
                            Err(old) => (old, false),
                        }
                    }
                    _ => {
                        let old = cell
                            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
                                Some(combine(op, ty, old, first))
                            })
                            .unwrap_or_else(|old| old);
                        (old, true)
                    }
                }
            } else {
                (u64::from(old), done)
            };
            // SAFETY: the registers hold all lanes.
            unsafe {
                if let Some((out, size)) = out {
                    write(out.add(lane * size as usize), size, old);
                }
                if let Some(success) = success {
                    *success.add(lane) = u8::from(done);
                }
            }
        }
        Ok(())
    }
}
