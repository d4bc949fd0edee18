//! Tensor views: where the elements of a [`TensorRef`] are, and which of them exist.

mod check;
mod element;
mod handle;
mod int;

pub(crate) use element::Place;
pub(crate) use handle::Handles;
pub(crate) use int::{Int, MAX_EXTENT, signed};

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, Extent, TensorRef};

use super::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A view as tile operations use it: its origin is folded into the address, and its valid part is a box from 0 on.
///
/// Coordinates are `.b32` and not negative. Where a view starts before its tensor, nothing of it is valid.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Where the elements are.
    pub space: AddressSpace,
    /// What they are.
    pub format: ElementFormat,
    /// Address of the byte where element (0, …) of the view begins: `.b64` in device and constant memory, else `.b32`.
    pub base: Reg,
    /// The bit of that byte where it begins (`.b32`); 0 for formats of whole bytes.
    pub phase: Int,
    /// Strides in bytes, for formats of less than a byte in elements; of the class of addresses.
    pub strides: Vec<Int>,
    /// Elements of each dimension that exist: `.b32`, 0…2³¹ − 1.
    pub valid: Vec<Int>,
    /// Extents of the view itself, `i64`.
    pub extents: Vec<Int>,
}

/// The class of an address.
pub(crate) const fn address_class(space: AddressSpace) -> Class {
    match space {
        AddressSpace::Device | AddressSpace::Constant => Class::B64,
        AddressSpace::Threadgroup | AddressSpace::Thread => Class::B32,
    }
}

/// The state space in `ld` and `st`.
pub(crate) const fn state_space(space: AddressSpace) -> &'static str {
    match space {
        AddressSpace::Device | AddressSpace::Constant => "global",
        AddressSpace::Threadgroup => "shared",
        AddressSpace::Thread => "local",
    }
}

impl View {
    /// The class of its addresses.
    pub fn class(&self) -> Class {
        address_class(self.space)
    }

    /// Bits of an element.
    pub fn bits(&self) -> u32 {
        self.format.bits() as u32
    }
}

impl<'k> Lower<'k> {
    /// Resolves a view, unchecked.
    fn resolve_view(&mut self, tensor: &TensorRef) -> Result<View> {
        let rank = tensor.origin.len();
        let class = address_class(tensor.space);
        let bits = tensor.format.bits() as i64;
        let (mut valid, mut extents, mut strides) = (Vec::new(), Vec::new(), Vec::new());
        let mut offset = Int::Const(0);
        for d in 0..rank {
            let origin = self.int(tensor.origin[d]);
            let rest = self.rest(tensor, d);
            let own = match tensor.extents[d] {
                Extent::Rest => rest,
                Extent::Dynamic(value) => self.int(value),
                Extent::Static(extent) => Int::Const(extent as i64),
            };
            let bound = self.int_min(rest, own, Class::B64);
            let mut bound = self.int_extent(bound);
            match origin {
                Int::Const(0..) => {}
                Int::Const(_) => bound = Int::Const(0),
                Int::Reg(reg) => {
                    let before = self.reg(Class::Pred);
                    ptx!(self, "setp.lt.s64 {before}, {reg}, 0");
                    bound = self.int_select(before, Int::Const(0), bound, Class::B32);
                }
            }
            valid.push(bound);
            extents.push(own);
            let stride = self.int(tensor.strides[d]);
            let first = self.int_mul(origin, stride, Class::B64);
            offset = self.int_add(offset, first, Class::B64);
            let stride = if bits < 8 {
                stride
            } else {
                self.int_mul(stride, Int::Const(bits / 8), class)
            };
            strides.push(match stride {
                Int::Reg(_) => Int::Reg(self.int_reg(stride, class)),
                known => known,
            });
        }
        let pointer = self.value(tensor.pointer);
        let bit = self.int_mul(offset, Int::Const(bits), Class::B64);
        let byte = match bit {
            Int::Const(bit) => Int::Const(bit >> 3),
            Int::Reg(_) if bits >= 8 => self.int_mul(offset, Int::Const(bits / 8), Class::B64),
            Int::Reg(bit) => {
                let byte = self.reg(Class::B64);
                ptx!(self, "shr.s64 {byte}, {bit}, 3");
                Int::Reg(byte)
            }
        };
        let phase = match bit {
            Int::Const(bit) => Int::Const(bit & 7),
            Int::Reg(_) if bits >= 8 => Int::Const(0),
            Int::Reg(bit) => {
                let (low, phase) = (self.reg(Class::B32), self.reg(Class::B32));
                ptx!(self, "cvt.u32.u64 {low}, {bit}");
                ptx!(self, "and.b32 {phase}, {low}, 7");
                Int::Reg(phase)
            }
        };
        let base = self.int_add(Int::Reg(pointer), byte, class);
        let base = self.int_reg(base, class);
        Ok(View {
            space: tensor.space,
            format: tensor.format,
            base,
            phase,
            strides,
            valid,
            extents,
        })
    }

    /// What is left of the base from the view's origin on, `i64`.
    fn rest(&mut self, tensor: &TensorRef, d: usize) -> Int {
        let (base, origin) = (self.int(tensor.base_extents[d]), self.int(tensor.origin[d]));
        self.int_sub(base, origin, Class::B64)
    }
}
