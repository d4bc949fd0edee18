//! Tensors in memory as products see them: origin, what is inside, strides.

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, Block, Extent, Op, TensorField, TensorRef, ValueId};

use super::emit::{Wide, Word, def};
use crate::lower::check::AccessKind;
use crate::lower::view::Int;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::Reg;

/// A view of a tensor, its values in registers.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub pointer: Reg,
    pub space: AddressSpace,
    pub format: ElementFormat,
    /// Element of the base where the view begins, by dimension.
    pub origin: Vec<Wide>,
    /// In elements.
    pub strides: Vec<Wide>,
    /// The view's own extents.
    pub extents: Vec<Wide>,
    /// What of them is inside the base; never negative.
    pub valid: Vec<Wide>,
    /// Element number of the view's first element.
    pub first: Wide,
    pub scales: Option<ScaleRegion>,
}

/// The scale plane of a region.
#[derive(Clone, Debug)]
pub(super) struct ScaleRegion {
    pub pointer: Reg,
    pub space: AddressSpace,
    pub block: Vec<u32>,
    pub strides: Vec<Wide>,
}

impl Region {
    pub fn bits(&self) -> u32 {
        self.format.bits() as u32
    }

    /// The number of elements of a dimension that are inside, counted from `start` on, as a word of 0…`most`.
    pub fn inside(&self, l: &mut Lower, dimension: usize, start: Word, most: Option<u32>) -> Word {
        let start = start.widen(l);
        let left = self.valid[dimension].sub(l, start);
        let left = left.max(l, 0);
        let left = left.min(l, Wide::Known(most.map_or(0x7fff_ff00, i64::from)));
        match left {
            Wide::Known(left) => Word::Known(left as i32),
            Wide::Reg(left) => Word::Reg(def!(l, B32, "cvt.u32.u64", "{left}")),
        }
    }
}

/// A value as a number or a register.
pub(super) fn wide(l: &Lower, value: ValueId) -> Wide {
    match l.constant(value) {
        Some(bits) => Wide::Known(bits as i64),
        None => Wide::Reg(l.value(value)),
    }
}

/// A stride; the innermost one of a bound tensor is always 1.
fn stride(l: &Lower, value: ValueId) -> Wide {
    match wide(l, value) {
        Wide::Reg(_) if is_innermost_stride(&l.kernel.body, value) == Some(true) => Wide::Known(1),
        stride => stride,
    }
}

/// Is a value the innermost stride of a bound tensor? `None` if the block does not define it.
fn is_innermost_stride(block: &Block, value: ValueId) -> Option<bool> {
    for inst in &block.insts {
        if inst.count > 0 && (inst.first.0..inst.first.0 + inst.count).contains(&value.0) {
            return Some(matches!(
                inst.op,
                Op::TensorQuery {
                    field: TensorField::Stride(0),
                    ..
                }
            ));
        }
        let found = match &inst.op {
            Op::If { then, otherwise, .. } => {
                is_innermost_stride(then, value).or_else(|| is_innermost_stride(otherwise, value))
            }
            Op::Loop { body, latch, .. } => {
                is_innermost_stride(body, value).or_else(|| is_innermost_stride(latch, value))
            }
            Op::Scope { body } | Op::CoopMap { body, .. } => is_innermost_stride(body, value),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Resolves a view. In checked mode nothing is valid of one that does not lie in its memory.
pub(super) fn region(l: &mut Lower, tensor: &TensorRef, kind: AccessKind) -> Result<Region> {
    let rank = tensor.origin.len();
    let mut region = Region {
        pointer: l.value(tensor.pointer),
        space: tensor.space,
        format: tensor.format,
        origin: Vec::new(),
        strides: Vec::new(),
        extents: Vec::new(),
        valid: Vec::new(),
        first: Wide::Known(0),
        scales: None,
    };
    for d in 0..rank {
        let origin = wide(l, tensor.origin[d]);
        let base = wide(l, tensor.base_extents[d]);
        let stride = stride(l, tensor.strides[d]);
        let rest = match origin {
            Wide::Known(origin) if origin < 0 => Wide::Known(0),
            Wide::Known(_) => {
                let rest = base.sub(l, origin);
                rest.max(l, 0)
            }
            Wide::Reg(reg) => {
                // Nothing is inside of a view that begins before its tensor.
                let rest = base.sub(l, origin);
                let rest = rest.max(l, 0).reg(l);
                let before = def!(l, Pred, "setp.lt.s64", "{reg}, 0");
                Wide::Reg(def!(l, B64, "selp.b64", "0, {rest}, {before}"))
            }
        };
        let own = match tensor.extents[d] {
            Extent::Rest => rest,
            Extent::Dynamic(value) => {
                let own = wide(l, value);
                own.max(l, 0)
            }
            Extent::Static(extent) => Wide::Known(extent as i64),
        };
        let valid = own.min(l, rest);
        let offset = origin.mul(l, stride);
        region.first = region.first.add(l, offset);
        region.origin.push(origin);
        region.strides.push(stride);
        region.extents.push(own);
        region.valid.push(valid);
    }
    while region.valid.len() < 2 {
        region.origin.push(Wide::Known(0));
        region.strides.push(Wide::Known(0));
        region.extents.push(Wide::Known(1));
        region.valid.push(Wide::Known(1));
    }
    if let Some(plane) = &tensor.scales {
        let mut block = plane.block.clone();
        let mut strides: Vec<Wide> = plane.strides.iter().map(|&value| wide(l, value)).collect();
        block.resize(region.valid.len(), 1);
        strides.resize(region.valid.len(), Wide::Known(0));
        region.scales = Some(ScaleRegion {
            pointer: l.value(plane.pointer),
            space: plane.space,
            block,
            strides,
        });
    }
    if l.options.checked {
        let view = match kind {
            AccessKind::Read => l.view(tensor)?,
            _ => l.written_view(tensor)?,
        };
        for d in 0..rank {
            region.valid[d] = match view.valid[d] {
                Int::Const(valid) => Wide::Known(valid),
                Int::Reg(valid) => Wide::Reg(def!(l, B64, "cvt.u64.u32", "{valid}")),
            };
        }
    }
    Ok(region)
}

/// Loads an element's code, zero-extended, from an element number relative to a pointer; zero where the condition does not hold.
pub(super) fn load_code(l: &mut Lower, region: &Region, index: Wide, condition: Option<Reg>) -> Reg {
    let bits = region.bits();
    let bit = index.mul(l, Wide::Known(bits.into()));
    let (bytes, shift) = match bit {
        _ if bits >= 8 => (index.mul(l, Wide::Known((bits / 8).into())), None),
        Wide::Known(bit) => (Wide::Known(bit >> 3), Some(Word::Known((bit & 7) as i32))),
        Wide::Reg(bit) => {
            let bytes = def!(l, B64, "shr.s64", "{bit}, 3");
            let low = def!(l, B32, "cvt.u32.u64", "{bit}");
            (Wide::Reg(bytes), Some(Word::Reg(def!(l, B32, "and.b32", "{low}, 7"))))
        }
    };
    let address = super::emit::advance(l, region.pointer, bytes);
    let code = load_bits(l, region.space, address, 0, bits.max(8), condition);
    match shift {
        None => code,
        Some(shift) => {
            let shifted = def!(l, B32, "shr.u32", "{code}, {shift}");
            def!(l, B32, "and.b32", "{shifted}, {}", (1u32 << bits) - 1)
        }
    }
}

/// Loads 8, 16 or 32 bits, zero-extended; zero where the condition does not hold.
pub(super) fn load_bits(
    l: &mut Lower,
    space: AddressSpace,
    address: Reg,
    offset: i64,
    bits: u32,
    condition: Option<Reg>,
) -> Reg {
    let state = super::emit::state_space(space);
    let d = l.reg(crate::ptx::Class::B32);
    let ty = match bits {
        8 => "u8",
        16 => "u16",
        _ => "b32",
    };
    if let Some(condition) = condition {
        ptx!(l, "mov.b32 {d}, 0");
        ptx!(l, "@{condition} ld.{state}.{ty} {d}, [{address}+{offset}]");
    } else {
        ptx!(l, "ld.{state}.{ty} {d}, [{address}+{offset}]");
    }
    d
}
