//! Communication between the lanes of a SIMD-group or quad-group: a chunk of 32 lanes, or four of them.

use anymetal_ir::{GroupOp, GroupWidth, Scalar, ShuffleOp, VoteOp};

use super::mask::Mask;
use super::{Worker, read, write};
use crate::compile::program::Reg;
use crate::lanes::CHUNK;
use crate::lanes::int::Int;
use crate::lanes::scalar::{Bf16, Bool, F16, Float};

/// An element type that reductions work on.
trait Element: Copy {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    fn both(self, other: Self) -> Self;
    fn either(self, other: Self) -> Self;
    fn differ(self, other: Self) -> Self;
    const ZERO: Self;
    const ONE: Self;
}

macro_rules! int_elements {
    ($($t:ty),*) => {$(
        impl Element for $t {
            fn sum(self, other: Self) -> Self { Int::add(self, other) }
            fn product(self, other: Self) -> Self { Int::mul(self, other) }
            fn least(self, other: Self) -> Self { self.min(other) }
            fn greatest(self, other: Self) -> Self { self.max(other) }
            fn both(self, other: Self) -> Self { self & other }
            fn either(self, other: Self) -> Self { self | other }
            fn differ(self, other: Self) -> Self { self ^ other }
            const ZERO: Self = 0;
            const ONE: Self = 1;
        }
    )*};
}
int_elements!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! float_elements {
    ($($t:ty = $zero:expr, $one:expr);*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { <$t>::narrow(self.widen() + other.widen()) }
            #[inline(always)]
            fn product(self, other: Self) -> Self { <$t>::narrow(self.widen() * other.widen()) }
            #[inline(always)]
            fn least(self, other: Self) -> Self { <$t>::narrow(self.widen().min(other.widen())) }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self { <$t>::narrow(self.widen().max(other.widen())) }
            fn both(self, _: Self) -> Self { self }
            fn either(self, _: Self) -> Self { self }
            fn differ(self, _: Self) -> Self { self }
            const ZERO: Self = $zero;
            const ONE: Self = $one;
        }
    )*};
}
float_elements!(f32 = 0.0, 1.0; F16 = F16(0), F16(0x3c00); Bf16 = Bf16(0), Bf16(0x3f80));

impl Element for Bool {
    fn sum(self, other: Self) -> Self {
        Bool(self.0 | other.0)
    }
    fn product(self, other: Self) -> Self {
        Bool(self.0 & other.0)
    }
    fn least(self, other: Self) -> Self {
        Bool(self.0 & other.0)
    }
    fn greatest(self, other: Self) -> Self {
        Bool(self.0 | other.0)
    }
    fn both(self, other: Self) -> Self {
        Bool(self.0 & other.0)
    }
    fn either(self, other: Self) -> Self {
        Bool(self.0 | other.0)
    }
    fn differ(self, other: Self) -> Self {
        Bool(self.0 ^ other.0)
    }
    const ZERO: Self = Bool(0);
    const ONE: Self = Bool(1);
}

/// Combines the active lanes of one group, in a tree when all of them take part.
fn reduce<T: Element>(values: &[T], active: Option<&[u8]>, op: impl Fn(T, T) -> T) -> Option<T> {
    match active {
        None if values.len() == CHUNK => {
            let mut tree = [values[0]; CHUNK / 2];
            for i in 0..CHUNK / 2 {
                tree[i] = op(values[i], values[i + CHUNK / 2]);
            }
            let mut width = CHUNK / 4;
            while width > 0 {
                for i in 0..width {
                    tree[i] = op(tree[i], tree[i + width]);
                }
                width /= 2;
            }
            Some(tree[0])
        }
        _ => {
            let mut total = None;
            for (i, &value) in values.iter().enumerate() {
                if active.is_none_or(|active| active[i] != 0) {
                    total = Some(match total {
                        Some(total) => op(total, value),
                        None => value,
                    });
                }
            }
            total
        }
    }
}

/// Inclusive or exclusive running combination over the active lanes.
fn scan<T: Element>(
    values: &[T],
    out: &mut [T],
    active: Option<&[u8]>,
    start: T,
    exclusive: bool,
    op: impl Fn(T, T) -> T,
) {
    let mut total = start;
    for (i, (&value, out)) in values.iter().zip(out).enumerate() {
        if active.is_none_or(|active| active[i] != 0) {
            let next = op(total, value);
            *out = if exclusive { total } else { next };
            total = next;
        }
    }
}

fn group_chunk<T: Element>(op: GroupOp, values: &[T], out: &mut [T], active: Option<&[u8]>) {
    let all = |result: Option<T>, out: &mut [T]| {
        if let Some(result) = result {
            out.fill(result);
        }
    };
    match op {
        GroupOp::Sum => all(reduce(values, active, T::sum), out),
        GroupOp::Product => all(reduce(values, active, T::product), out),
        GroupOp::Min => all(reduce(values, active, T::least), out),
        GroupOp::Max => all(reduce(values, active, T::greatest), out),
        GroupOp::And => all(reduce(values, active, T::both), out),
        GroupOp::Or => all(reduce(values, active, T::either), out),
        GroupOp::Xor => all(reduce(values, active, T::differ), out),
        GroupOp::PrefixInclusiveSum => scan(values, out, active, T::ZERO, false, T::sum),
        GroupOp::PrefixExclusiveSum => scan(values, out, active, T::ZERO, true, T::sum),
        GroupOp::PrefixInclusiveProduct => scan(values, out, active, T::ONE, false, T::product),
        GroupOp::PrefixExclusiveProduct => scan(values, out, active, T::ONE, true, T::product),
    }
}

fn span(width: GroupWidth) -> usize {
    match width {
        GroupWidth::Simd => CHUNK,
        GroupWidth::Quad => 4,
    }
}

impl Worker<'_> {
    /// Bytes of the active lanes from `first` on, or `None` if all of them are.
    fn group_mask(&self, first: usize, count: usize) -> Option<&[u8]> {
        match self.lanes.current {
            Mask::Part(_) => self
                .mask_bytes(self.lanes.current)
                .map(|bytes| &bytes[first..first + count]),
            _ => None,
        }
    }

    fn group_of<T: Element>(&mut self, op: GroupOp, width: GroupWidth, out: Reg, a: Reg) {
        let from = self.src(a);
        let (_, to) = self.dst(out);
        let span = span(width);
        let live = self.lanes.live;
        for first in (0..live).step_by(span) {
            let count = span.min(live - first);
            // SAFETY: registers hold all lanes of the type, a uniform one 32; the output is not the input.
            let (values, out) = unsafe {
                let from = if from.step == 0 {
                    from.ptr.cast::<T>()
                } else {
                    from.ptr.cast::<T>().add(first)
                };
                (
                    std::slice::from_raw_parts(from, count),
                    std::slice::from_raw_parts_mut(to.cast::<T>().add(first), count),
                )
            };
            group_chunk(op, values, out, self.group_mask(first, count));
        }
    }

    /// Reductions and scans.
    pub(super) fn group(&mut self, op: GroupOp, width: GroupWidth, ty: Scalar, out: Reg, a: Reg) {
        if let (Scalar::F32, GroupWidth::Simd, false) = (ty, width, a.is_uniform())
            && self.lanes.live.is_multiple_of(CHUNK)
            && !matches!(self.lanes.current, Mask::Part(_))
            && let Some(f) = crate::lanes::group::group(op, self.shared.isa)
        {
            let from = self.src(a);
            let (chunks, to) = self.dst(out);
            // SAFETY: both registers have all chunks; the output is not the input.
            unsafe { f(to.cast(), from.ptr.cast(), chunks) };
            return;
        }
        match ty {
            Scalar::Bool => self.group_of::<Bool>(op, width, out, a),
            Scalar::I8 => self.group_of::<i8>(op, width, out, a),
            Scalar::U8 => self.group_of::<u8>(op, width, out, a),
            Scalar::I16 => self.group_of::<i16>(op, width, out, a),
            Scalar::U16 => self.group_of::<u16>(op, width, out, a),
            Scalar::I32 => self.group_of::<i32>(op, width, out, a),
            Scalar::U32 => self.group_of::<u32>(op, width, out, a),
            Scalar::I64 => self.group_of::<i64>(op, width, out, a),
            Scalar::U64 => self.group_of::<u64>(op, width, out, a),
            Scalar::F16 => self.group_of::<F16>(op, width, out, a),
            Scalar::BF16 => self.group_of::<Bf16>(op, width, out, a),
            Scalar::F32 => self.group_of::<f32>(op, width, out, a),
        }
    }

    /// Data movement. A lane that does not exist gives the reader its own value.
    pub(super) fn shuffle(&mut self, op: ShuffleOp, width: GroupWidth, out: Reg, a: Reg, index: Reg, index_ty: Scalar) {
        let from = self.src(a);
        let size = a.size;
        let step = if from.step == 0 { 0 } else { size as usize };
        let span = span(width) as i64;
        let live = self.lanes.live;
        let uniform_index = match self.value(index) {
            super::Value::Uniform(value) => Some(value),
            super::Value::Affine { base, stride: 0 } => Some(base),
            _ => None,
        };
        let unused = 64 - index_ty.bits();
        let signed = |value: u64| {
            if index_ty.is_signed() {
                ((value << unused) as i64) >> unused
            } else {
                ((value << unused) >> unused) as i64
            }
        };
        let indices = self.src(index);
        let index_step = if indices.step == 0 { 0 } else { index.size as usize };
        let (_, to) = self.dst(out);
        for first in (0..live).step_by(span as usize) {
            let count = (span as usize).min(live - first);
            let leader = match op {
                ShuffleOp::BroadcastFirst => self.first_active(first, first + count).unwrap_or(first) - first,
                _ => 0,
            };
            for i in 0..count {
                let own = i as i64;
                let index = signed(uniform_index.unwrap_or_else(|| {
                    // SAFETY: the register holds an index for each lane.
                    unsafe { read(indices.ptr.add((first + i) * index_step), index.size) }
                }));
                let source = match op {
                    ShuffleOp::Shuffle | ShuffleOp::Broadcast => index,
                    ShuffleOp::ShuffleXor => own ^ index,
                    ShuffleOp::ShuffleDown => own.saturating_add(index),
                    ShuffleOp::ShuffleUp => own.saturating_sub(index),
                    ShuffleOp::RotateDown => (own + index.rem_euclid(span)) % span,
                    ShuffleOp::RotateUp => (own - index.rem_euclid(span)).rem_euclid(span),
                    ShuffleOp::BroadcastFirst => leader as i64,
                };
                let source = if (0..count as i64).contains(&source) {
                    source as usize
                } else {
                    i
                };
                // SAFETY: both lanes are live; the output is not the input.
                unsafe {
                    let value = read(from.ptr.add((first + source) * step), size);
                    write(to.add((first + i) * size as usize), size, value);
                }
            }
        }
    }

    /// Votes and ballots.
    pub(super) fn vote(&mut self, op: VoteOp, width: GroupWidth, out: Reg, a: Option<Reg>) {
        let from = a.map(|a| self.src(a));
        let span = span(width);
        let live = self.lanes.live;
        let (_, to) = self.dst(out);
        for first in (0..live).step_by(span) {
            let count = span.min(live - first);
            let mut active = 0u64;
            let mut votes = 0u64;
            for i in 0..count {
                if !self.is_active(first + i) {
                    continue;
                }
                active |= 1 << i;
                if let Some(from) = from {
                    let lane = if from.step == 0 { 0 } else { first + i };
                    // SAFETY: the register holds a byte for each lane.
                    if unsafe { *from.ptr.add(lane) } != 0 {
                        votes |= 1 << i;
                    }
                }
            }
            let result = match op {
                VoteOp::All => u64::from(votes == active),
                VoteOp::Any => u64::from(votes != 0),
                VoteOp::Ballot => votes,
                VoteOp::ActiveMask => active,
                VoteOp::IsFirst => 0,
            };
            for i in 0..count {
                let result = match op {
                    VoteOp::IsFirst => u64::from(active & ((1 << i) - 1) == 0 && active >> i & 1 != 0),
                    _ => result,
                };
                // SAFETY: the register holds all lanes.
                unsafe { write(to.add((first + i) * out.size as usize), out.size, result) };
            }
        }
    }
}
