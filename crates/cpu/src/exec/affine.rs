//! Integers and pointers that are known as `base + lane · stride`.

use anymetal_ir::{CompareOp, Scalar};

use super::mask::Mask;
use super::{Value, Worker};
use crate::compile::program::{AffineKind, Lanes, Reg};
use crate::lanes::convert::BlendFn;
use crate::lanes::{CHUNK, Fn1};

/// What is known of a tagged register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub affine: bool,
    /// The lanes are written out too.
    pub filled: bool,
    pub base: u64,
    pub stride: u64,
}

impl Tag {
    pub const LANES: Tag = Tag {
        affine: false,
        filled: true,
        base: 0,
        stride: 0,
    };

    pub const fn new(base: u64, stride: u64) -> Tag {
        Tag {
            affine: true,
            filled: false,
            base,
            stride,
        }
    }

    pub const fn unfilled(self) -> Tag {
        Tag { filled: false, ..self }
    }
}

/// Value of a lane, in the low `size` bytes. A pointer's stride never carries into its object: offsets are kept modulo 2^48.
pub(super) fn lane(base: u64, stride: u64, lane: u64, size: u8) -> u64 {
    let value = base.wrapping_add(stride.wrapping_mul(lane));
    match size {
        8 => value,
        size => value & ((1 << (8 * size)) - 1),
    }
}

/// Sign- or zero-extends the low bits of a value; `None` from 2^63 on, where lanes are looked at instead.
#[inline(always)]
fn extend(value: u64, ty: Scalar) -> Option<i64> {
    let unused = 64 - ty.bits();
    if ty.is_signed() {
        Some(((value << unused) as i64) >> unused)
    } else {
        i64::try_from((value << unused) >> unused).ok()
    }
}

/// The stride as a signed number of the type's width.
#[inline(always)]
fn signed(stride: u64, ty: Scalar) -> i64 {
    let unused = 64 - ty.bits();
    ((stride << unused) as i64) >> unused
}

/// The numbers of a type, as far as an `i64` holds them.
#[inline(always)]
fn range(ty: Scalar) -> (i64, i64) {
    let bits = ty.bits();
    if ty.is_signed() {
        (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))
    } else {
        (0, (u64::MAX >> (64 - bits)).min(i64::MAX as u64) as i64)
    }
}

/// An operand, or `None` where its lanes have to be looked at.
type Line = Option<(u64, u64)>;

fn line(value: Value) -> Line {
    match value {
        Value::Uniform(value) => Some((value, 0)),
        Value::Affine { base, stride } => Some((base, stride)),
        Value::Lanes => None,
    }
}

impl Worker<'_> {
    /// Writes out the lanes of a tagged register.
    pub(super) fn fill(&mut self, reg: Reg, tag: usize) {
        let Tag {
            affine,
            filled,
            base,
            stride,
        } = self.lanes.tags[tag];
        if filled || !affine {
            return;
        }
        let count = self.lanes.chunks * CHUNK;
        let ptr = self.ptr(reg);
        macro_rules! fill {
            ($t:ty) => {{
                // SAFETY: the register has room for all chunks, aligned to its element.
                let out = unsafe { std::slice::from_raw_parts_mut(ptr.cast::<$t>(), count) };
                let (base, stride) = (base as $t, stride as $t);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = base.wrapping_add(stride.wrapping_mul(i as $t));
                }
            }};
        }
        match reg.size {
            1 => fill!(u8),
            2 => fill!(u16),
            4 => fill!(u32),
            _ => fill!(u64),
        }
        self.lanes.tags[tag].filled = true;
    }

    /// First and last value over the live lanes as integers, if no lane wraps.
    #[inline(always)]
    fn ends(&self, (base, stride): (u64, u64), ty: Scalar) -> Option<(i64, i64)> {
        let first = extend(base, ty)?;
        let way = signed(stride, ty).checked_mul(self.lanes.live.max(1) as i64 - 1)?;
        let last = first.checked_add(way)?;
        let (low, high) = range(ty);
        (low..=high).contains(&last).then_some((first, last))
    }

    /// The result of an operation as a line, if it is one.
    fn affine_line(&self, kind: AffineKind, ty: Scalar, a: Line, b: Line) -> Line {
        let (a, b) = (a?, b?);
        match kind {
            AffineKind::Add => Some((a.0.wrapping_add(b.0), a.1.wrapping_add(b.1))),
            AffineKind::Sub => Some((a.0.wrapping_sub(b.0), a.1.wrapping_sub(b.1))),
            AffineKind::Mul if b.1 == 0 => Some((a.0.wrapping_mul(b.0), a.1.wrapping_mul(b.0))),
            AffineKind::Mul if a.1 == 0 => Some((a.0.wrapping_mul(b.0), b.1.wrapping_mul(a.0))),
            AffineKind::Shl if b.1 == 0 => {
                let count = b.0 as u32 & (ty.bits() - 1);
                Some((a.0 << count, a.1 << count))
            }
            AffineKind::PointerOffset => {
                // Only lines that stay inside the offset's own range: beyond it pointers do not wrap.
                const LOW: u64 = (1 << 48) - 1;
                let own = ((a.0 << 16) as i64) >> 16;
                let stride = a.1.wrapping_add(b.1);
                let first = own.checked_add(b.0 as i64)?;
                let way = (stride as i64).checked_mul(self.lanes.live.max(1) as i64 - 1)?;
                let last = first.checked_add(way)?;
                let inside = 0..1i64 << 47;
                (inside.contains(&first) && inside.contains(&last)).then_some(((a.0 & !LOW) | first as u64, stride))
            }
            AffineKind::Min | AffineKind::Max => {
                let first_is_less = self.affine_compare(CompareOp::Le, ty, Some(a), Some(b))?;
                Some(if first_is_less == (kind == AffineKind::Min) {
                    a
                } else {
                    b
                })
            }
            AffineKind::Convert(from, to) => {
                if to.bits() <= from.bits() {
                    return Some(a);
                }
                let (first, _) = self.ends(a, from)?;
                Some((first as u64, signed(a.1, from) as u64))
            }
            AffineKind::Div | AffineKind::Shr | AffineKind::Rem | AffineKind::And if b.1 == 0 => {
                let (first, last) = self.ends(a, ty)?;
                let divisor = match kind {
                    AffineKind::Shr => 1i64
                        .checked_shl(b.0 as u32 & (ty.bits() - 1))
                        .filter(|&power| power > 0)?,
                    AffineKind::And => {
                        let above = extend(b.0, ty)?.checked_add(1)?;
                        if above <= 0 || above & (above - 1) != 0 {
                            return None;
                        }
                        above
                    }
                    _ => extend(b.0, ty)?,
                };
                // Non-negative numbers between two multiples of the divisor share the quotient.
                if divisor <= 0 || first < 0 || last < 0 || first / divisor != last / divisor {
                    return None;
                }
                let quotient = first / divisor;
                match kind {
                    AffineKind::Div | AffineKind::Shr => Some((quotient as u64, 0)),
                    _ => Some(((first - quotient * divisor) as u64, a.1)),
                }
            }
            _ => None,
        }
    }

    /// The answer of a comparison, if it is the same in all live lanes.
    fn affine_compare(&self, op: CompareOp, ty: Scalar, a: Line, b: Line) -> Option<bool> {
        let (a, b) = (self.ends(a?, ty)?, self.ends(b?, ty)?);
        // The difference is a line, so its ends bound it.
        let (first, last) = (a.0.checked_sub(b.0)?, a.1.checked_sub(b.1)?);
        let (low, high) = (first.min(last), first.max(last));
        let (yes, no) = match op {
            CompareOp::Lt => (high < 0, low >= 0),
            CompareOp::Le => (high <= 0, low > 0),
            CompareOp::Gt => (low > 0, high <= 0),
            CompareOp::Ge => (low >= 0, high < 0),
            CompareOp::Eq => (low == 0 && high == 0, low > 0 || high < 0),
            CompareOp::Ne => (low > 0 || high < 0, low == 0 && high == 0),
        };
        if yes {
            Some(true)
        } else if no {
            Some(false)
        } else {
            None
        }
    }

    /// The answer of a comparison of registers, if it is the same in all live lanes by their form.
    pub(super) fn compare_lines(&self, op: CompareOp, ty: Scalar, a: Reg, b: Reg) -> Option<bool> {
        self.affine_compare(op, ty, line(self.value(a)), line(self.value(b)))
    }

    /// An operation that keeps lines where it can.
    #[inline(never)]
    pub(super) fn affine(&mut self, kind: AffineKind, ty: Scalar, lanes: Lanes, out: Reg, a: Reg, b: Reg) {
        let (x, y) = (line(self.value(a)), line(self.value(b)));
        if let AffineKind::Compare(op) = kind {
            if let Some(answer) = self.affine_compare(op, ty, x, y) {
                self.set_all(out, u64::from(answer));
                return;
            }
        } else if let Some((base, stride)) = self.affine_line(kind, ty, x, y)
            && let Some(tag) = out.tag_index()
        {
            self.lanes.tags[tag] = Tag::new(base, stride);
            return;
        }
        match lanes {
            Lanes::One(f) => {
                let a = self.src(a);
                let (chunks, out) = self.dst(out);
                // SAFETY: the compiler chose the loop for the registers' types.
                unsafe { f(chunks, out, a) }
            }
            Lanes::Two(f) => {
                let (a, b) = (self.src(a), self.src(b));
                let (chunks, out) = self.dst(out);
                // SAFETY: as above.
                unsafe { f(chunks, out, a, b) }
            }
        }
    }

    /// Sets a local in the active lanes.
    pub(super) fn local_set(&mut self, copy: Fn1, blend: BlendFn, local: Reg, value: Reg) {
        if local.is_uniform() {
            // All lanes that will read it are here.
            let from = self.src(value);
            // SAFETY: both registers hold a chunk of the local's type.
            unsafe { copy(0, self.ptr(local), from) };
            return;
        }
        match self.lanes.current {
            Mask::Part(slot) => {
                if let Some(tag) = local.tag_index() {
                    self.fill(local, tag);
                    self.lanes.tags[tag] = Tag::LANES;
                }
                let from = self.src(value);
                let mask = self.mask_ptr(slot);
                // SAFETY: the registers have room for all chunks, and so has the mask.
                unsafe { blend(self.lanes.chunks, self.ptr(local), from, mask) }
            }
            _ => {
                if let (Some(to), Some((base, stride))) = (local.tag_index(), line(self.value(value))) {
                    self.lanes.tags[to] = Tag::new(base, stride);
                    return;
                }
                let from = self.src(value);
                let (chunks, out) = self.dst(local);
                // SAFETY: as above.
                unsafe { copy(chunks, out, from) }
            }
        }
    }
}
