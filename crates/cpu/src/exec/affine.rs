//! Integers and pointers that are known without their lanes: `base + lane · stride + (lane / width) · row`.
//!
//! With `row` zero that is a line. Otherwise it is a plane: lanes lie in rows of a strip's width, which is that of a two-dimensional
//! threadgroup, or a SIMD-group. Positions in the threadgroup and in the SIMD-group are planes, and what is added to them.

use anymetal_ir::{CompareOp, Scalar};

use super::mask::Mask;
use super::matrix::{Shape, Steps};
use super::{LaneState, Value, Worker};
use crate::compile::program::{AffineKind, Lanes, Reg};
use crate::lanes::convert::BlendFn;
use crate::lanes::{CHUNK, Fn1};

/// A number of each lane, modulo the width of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plane {
    pub base: u64,
    pub stride: u64,
    /// What a row adds to the line.
    pub row: u64,
}

impl Plane {
    pub const fn line(base: u64, stride: u64) -> Plane {
        Plane { base, stride, row: 0 }
    }

    /// Value of a lane, in the low `size` bytes. A pointer's steps never carry into its object: offsets are kept modulo 2^48.
    pub fn lane(self, lane: u64, width: usize, size: u8) -> u64 {
        let mut value = self.base.wrapping_add(self.stride.wrapping_mul(lane));
        if self.row != 0 {
            value = value.wrapping_add(self.row.wrapping_mul(lane / width as u64));
        }
        match size {
            8 => value,
            size => value & ((1 << (8 * size)) - 1),
        }
    }

    fn map(self, f: impl Fn(u64) -> u64) -> Plane {
        Plane {
            base: f(self.base),
            stride: f(self.stride),
            row: f(self.row),
        }
    }

    fn zip(self, other: Plane, f: impl Fn(u64, u64) -> u64) -> Plane {
        Plane {
            base: f(self.base, other.base),
            stride: f(self.stride, other.stride),
            row: f(self.row, other.row),
        }
    }

    fn is_uniform(self) -> bool {
        self.stride == 0 && self.row == 0
    }
}

/// What is known of a tagged register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub affine: bool,
    /// The lanes are written out too.
    pub filled: bool,
    pub plane: Plane,
    /// Of lanes that are no plane.
    pub shape: Shape,
}

impl Tag {
    pub const LANES: Tag = Tag {
        affine: false,
        filled: true,
        plane: Plane::line(0, 0),
        shape: Shape::Unknown,
    };

    pub const fn new(plane: Plane) -> Tag {
        Tag {
            affine: true,
            filled: false,
            plane,
            shape: Shape::Other,
        }
    }

    /// Lanes that are not written out but for the first of each SIMD-group.
    pub const fn matrix(steps: Steps) -> Tag {
        Tag {
            filled: false,
            shape: Shape::Matrix(steps),
            ..Tag::LANES
        }
    }

    pub const fn unfilled(self) -> Tag {
        Tag { filled: false, ..self }
    }
}

/// A plane whose lanes do not wrap, as integers: `first + column · across + row · down` over a rectangle of lanes, all of them within
/// `low..=high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub first: i64,
    pub across: i64,
    pub down: i64,
    pub low: i64,
    pub high: i64,
}

/// Least and greatest of `first + column · across + row · down`.
pub(super) fn corners(first: i64, across: i64, down: i64, (columns, rows): (usize, usize)) -> Option<(i64, i64)> {
    let over = across.checked_mul(columns as i64 - 1)?;
    let along = down.checked_mul(rows as i64 - 1)?;
    let low = first.checked_add(over.min(0))?.checked_add(along.min(0))?;
    let high = first.checked_add(over.max(0))?.checked_add(along.max(0))?;
    Some((low, high))
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
type Known = Option<Plane>;

fn known(value: Value) -> Known {
    match value {
        Value::Uniform(value) => Some(Plane::line(value, 0)),
        Value::Affine { base, stride } => Some(Plane::line(base, stride)),
        Value::Plane(plane) => Some(plane),
        Value::Lanes => None,
    }
}

impl LaneState {
    /// Columns and rows of the rectangle that the live lanes lie in: one row for lines.
    #[inline(always)]
    pub(super) fn rectangle(&self, planar: bool) -> (usize, usize) {
        match planar {
            true => self.rectangle,
            false => (self.live.max(1), 1),
        }
    }
}

impl Worker<'_> {
    /// Writes out the lanes of a tagged register.
    pub(super) fn fill(&mut self, reg: Reg, tag: usize) {
        let Tag {
            affine,
            filled,
            plane,
            shape,
        } = self.lanes.tags[tag];
        if filled {
            return;
        }
        if !affine {
            if let Shape::Matrix(steps) = shape {
                self.fill_matrix(reg, steps);
            }
            self.lanes.tags[tag].filled = true;
            return;
        }
        let count = self.lanes.chunks * CHUNK;
        let width = match plane.row {
            0 => count.max(1),
            _ => self.lanes.width,
        };
        let ptr = self.ptr(reg);
        macro_rules! fill {
            ($t:ty) => {{
                // SAFETY: the register has room for all chunks, aligned to its element.
                let out = unsafe { std::slice::from_raw_parts_mut(ptr.cast::<$t>(), count) };
                let (mut base, stride) = (plane.base as $t, plane.stride as $t);
                let down = stride.wrapping_mul(width as $t).wrapping_add(plane.row as $t);
                for out in out.chunks_mut(width) {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = base.wrapping_add(stride.wrapping_mul(i as $t));
                    }
                    base = base.wrapping_add(down);
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

    /// A plane as integers, if no lane wraps; over the rectangle of planes if `planar`.
    #[inline(always)]
    pub(super) fn extent(&self, plane: Plane, ty: Scalar, planar: bool) -> Option<Extent> {
        let first = extend(plane.base, ty)?;
        let across = signed(plane.stride, ty);
        let down = match planar {
            true => signed(
                plane
                    .stride
                    .wrapping_mul(self.lanes.width as u64)
                    .wrapping_add(plane.row),
                ty,
            ),
            false => 0,
        };
        let (low, high) = corners(first, across, down, self.lanes.rectangle(planar))?;
        let (least, most) = range(ty);
        (low >= least && high <= most).then_some(Extent {
            first,
            across,
            down,
            low,
            high,
        })
    }

    /// A plane by its steps over a rectangle.
    fn of_steps(&self, first: i64, across: i64, down: i64, planar: bool) -> Plane {
        let row = match planar {
            true => (down as u64).wrapping_sub((across as u64).wrapping_mul(self.lanes.width as u64)),
            false => 0,
        };
        Plane {
            base: first as u64,
            stride: across as u64,
            row,
        }
    }

    /// The result of an operation as a plane, if it is one.
    fn affine_plane(&self, kind: AffineKind, ty: Scalar, a: Known, b: Known) -> Known {
        let (a, b) = (a?, b?);
        match kind {
            AffineKind::Add => Some(a.zip(b, u64::wrapping_add)),
            AffineKind::Sub => Some(a.zip(b, u64::wrapping_sub)),
            AffineKind::Mul if b.is_uniform() => Some(a.map(|x| x.wrapping_mul(b.base))),
            AffineKind::Mul if a.is_uniform() => Some(b.map(|x| x.wrapping_mul(a.base))),
            AffineKind::Shl if b.is_uniform() => {
                let count = b.base as u32 & (ty.bits() - 1);
                Some(a.map(|x| x << count))
            }
            AffineKind::PointerOffset => {
                // Only what stays inside the offset's own range: beyond it pointers do not wrap.
                const LOW: u64 = (1 << 48) - 1;
                let own = ((a.base << 16) as i64) >> 16;
                let (stride, row) = (a.stride.wrapping_add(b.stride), a.row.wrapping_add(b.row));
                let first = own.checked_add(b.base as i64)?;
                let planar = row != 0;
                let down = stride.wrapping_mul(self.lanes.width as u64).wrapping_add(row) as i64;
                let (low, high) = corners(first, stride as i64, down, self.lanes.rectangle(planar))?;
                (low >= 0 && high < 1i64 << 47).then_some(Plane {
                    base: (a.base & !LOW) | first as u64,
                    stride,
                    row,
                })
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
                let planar = a.row != 0;
                let Extent {
                    first, across, down, ..
                } = self.extent(a, from, planar)?;
                Some(self.of_steps(first, across, down, planar))
            }
            AffineKind::Div | AffineKind::Shr | AffineKind::Rem | AffineKind::And if b.is_uniform() => {
                let divisor = match kind {
                    AffineKind::Shr => 1i64
                        .checked_shl(b.base as u32 & (ty.bits() - 1))
                        .filter(|&power| power > 0)?,
                    AffineKind::And => {
                        let above = extend(b.base, ty)?.checked_add(1)?;
                        if above <= 0 || above & (above - 1) != 0 {
                            return None;
                        }
                        above
                    }
                    _ => extend(b.base, ty)?,
                };
                if divisor <= 0 {
                    return None;
                }
                let quotient_wanted = matches!(kind, AffineKind::Div | AffineKind::Shr);
                let whole = self.extent(a, ty, a.row != 0)?;
                if whole.low < 0 {
                    return None;
                }
                // Non-negative numbers between two multiples of the divisor share the quotient.
                let quotient = whole.first / divisor;
                if whole.low / divisor == whole.high / divisor {
                    return Some(match quotient_wanted {
                        true => Plane::line(quotient as u64, 0),
                        false => Plane {
                            base: (whole.first - quotient * divisor) as u64,
                            ..a
                        },
                    });
                }
                // Lanes that are whole multiples have no remainder.
                let whole_steps = |extent: &Extent| {
                    [extent.first, extent.across, extent.down]
                        .iter()
                        .all(|step| step % divisor == 0)
                };
                if whole_steps(&whole) {
                    return Some(match quotient_wanted {
                        true => self.of_steps(quotient, whole.across / divisor, whole.down / divisor, a.row != 0),
                        false => Plane::line(0, 0),
                    });
                }
                // Rows that are whole multiples apart share the remainders, each with a quotient of its own.
                let Extent { across, down, .. } = self.extent(a, ty, true)?;
                let rest = whole.first - quotient * divisor;
                let (columns, _) = self.lanes.rectangle(true);
                let (low, high) = corners(rest, across, 0, (columns, 1))?;
                if down % divisor != 0 || low < 0 || high >= divisor {
                    return None;
                }
                Some(match quotient_wanted {
                    true => self.of_steps(quotient, 0, down / divisor, true),
                    false => self.of_steps(rest, across, 0, true),
                })
            }
            _ => None,
        }
    }

    /// The answer of a comparison, if it is the same in all live lanes.
    fn affine_compare(&self, op: CompareOp, ty: Scalar, a: Known, b: Known) -> Option<bool> {
        let (a, b) = (a?, b?);
        let planar = a.row != 0 || b.row != 0;
        let (a, b) = (self.extent(a, ty, planar)?, self.extent(b, ty, planar)?);
        // The difference is a plane too, so its corners bound it.
        let (low, high) = corners(
            a.first.checked_sub(b.first)?,
            a.across.checked_sub(b.across)?,
            a.down.checked_sub(b.down)?,
            self.lanes.rectangle(planar),
        )?;
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
        self.affine_compare(op, ty, known(self.value(a)), known(self.value(b)))
    }

    /// An operation that keeps lines and planes where it can.
    #[inline(never)]
    pub(super) fn affine(&mut self, kind: AffineKind, ty: Scalar, lanes: Lanes, out: Reg, a: Reg, b: Reg) {
        let (x, y) = (known(self.value(a)), known(self.value(b)));
        if let AffineKind::Compare(op) = kind {
            if let Some(answer) = self.affine_compare(op, ty, x, y) {
                self.set_all(out, u64::from(answer));
                return;
            }
        } else if let Some(plane) = self.affine_plane(kind, ty, x, y)
            && let Some(tag) = out.tag_index()
        {
            self.lanes.tags[tag] = Tag::new(plane);
            return;
        } else if kind == AffineKind::PointerOffset && self.matrix_offset(out, a, b) {
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

    /// Sets a local in the lanes of a mask.
    pub(super) fn merge(&mut self, blend: BlendFn, local: Reg, value: Reg, slot: u32) {
        if let Some(tag) = local.tag_index() {
            self.fill(local, tag);
            self.lanes.tags[tag] = Tag::LANES;
        }
        let from = self.src(value);
        let mask = self.mask_ptr(slot);
        // SAFETY: the registers have room for all chunks, and so has the mask.
        unsafe { blend(self.lanes.chunks, self.ptr(local), from, mask) }
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
            Mask::Part(slot) => self.merge(blend, local, value, slot),
            _ => {
                if let (Some(to), Some(plane)) = (local.tag_index(), known(self.value(value))) {
                    self.lanes.tags[to] = Tag::new(plane);
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
