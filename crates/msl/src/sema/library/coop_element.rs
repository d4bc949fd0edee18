//! Single elements of cooperative tensors. Those of format types (`int4b_format`, `metal_fp8_e4m3_format`, …) are codes in
//! the language, while tiles hold the values that the codes stand for ([`anymetal_ir::tile_scalar`]); the two are converted
//! where an element is read or written, exactly.

use anymetal_formats::ElementFormat;
use anymetal_ir::{BinaryOp, CompareOp, CoopId, MathMode, Op, Scalar, tile_scalar};

use super::args::element_format;
use crate::sema::context::{Res, Sema};
use crate::sema::types::Type;
use crate::sema::value::Leaf;

/// The element in a slot, of the tensor's element type.
pub fn get(sema: &mut Sema<'_>, coop: CoopId, slot: &Leaf, ty: &Type) -> Res<Leaf> {
    let element = element_format(ty).unwrap_or(ElementFormat::F32);
    let slot = sema.convert_leaf(slot, Scalar::I32)?;
    let slot = sema.materialize(&slot)?;
    let value = sema.emit1(Op::CoopGet { coop, slot }, tile_scalar(element))?;
    if element.is_format_type() {
        encode(sema, &value, element)
    } else {
        Ok(value)
    }
}

/// Writes an element of the tensor's element type into a slot.
pub fn set(sema: &mut Sema<'_>, coop: CoopId, slot: &Leaf, ty: &Type, value: &Leaf) -> Res<()> {
    let element = element_format(ty).unwrap_or(ElementFormat::F32);
    sema.runtime_only()?;
    let slot = sema.convert_leaf(slot, Scalar::I32)?;
    let slot = sema.materialize(&slot)?;
    let value = if element.is_format_type() {
        decode(sema, value, element)?
    } else {
        value.clone()
    };
    let value = sema.materialize(&value)?;
    sema.builder.emit_void(Op::CoopSet { coop, slot, value });
    Ok(())
}

/// Leaf arithmetic with constants, in one type.
struct Bits<'s, 'a> {
    sema: &'s mut Sema<'a>,
    ty: Scalar,
}

impl Bits<'_, '_> {
    fn op(&mut self, op: BinaryOp, a: &Leaf, constant: i128) -> Res<Leaf> {
        let constant = Sema::int_leaf(self.ty, constant);
        self.sema.binary_leaf(op, a, &constant, MathMode::Precise)
    }

    fn or(&mut self, a: &Leaf, b: &Leaf) -> Res<Leaf> {
        self.sema.binary_leaf(BinaryOp::Or, a, b, MathMode::Precise)
    }

    fn equals(&mut self, a: &Leaf, constant: i128) -> Res<Leaf> {
        let constant = Sema::int_leaf(self.ty, constant);
        self.sema.compare_leaf(CompareOp::Eq, a, &constant)
    }

    fn cast(&mut self, a: &Leaf, to: Scalar) -> Res<Leaf> {
        let operand = self.sema.materialize(a)?;
        self.sema.emit1(Op::Bitcast { operand, to: to.into() }, to)
    }

    /// A half times a power of two.
    fn scaled(&mut self, a: &Leaf, exponent: i32) -> Res<Leaf> {
        let factor = Leaf::Const(anymetal_ir::Const {
            ty: Scalar::F16,
            bits: ((exponent + 15) as u64) << 10,
        });
        self.sema.binary_leaf(BinaryOp::Mul, a, &factor, MathMode::Precise)
    }
}

/// Where a small float lies in a half whose exponent it shares: bits of its magnitude, the left shift, and the exponent of
/// the factor between the two.
const fn place(element: ElementFormat) -> (u32, u32, i32) {
    match element {
        // 2 bits of exponent with bias 1, against 5 with bias 15.
        ElementFormat::Fp4E2M1 => (3, 9, 14),
        // 4 bits with bias 7.
        ElementFormat::Fp8E4M3 => (7, 7, 8),
        _ => (7, 8, 0),
    }
}

/// The value of a code, as tiles hold it.
fn decode(sema: &mut Sema<'_>, code: &Leaf, element: ElementFormat) -> Res<Leaf> {
    let bits = element.bits() as i128;
    let held = tile_scalar(element);
    let code = sema.convert_leaf(code, Scalar::U8)?;
    if held != Scalar::F16 {
        let signed = sema.convert_leaf(&code, held)?;
        let mut b = Bits { sema, ty: held };
        let up = b.op(BinaryOp::Shl, &signed, 8 - bits)?;
        return b.op(BinaryOp::Shr, &up, 8 - bits);
    }
    let (magnitude, shift, exponent) = place(element);
    let code = sema.convert_leaf(&code, Scalar::U16)?;
    let mut b = Bits { sema, ty: Scalar::U16 };
    let low = b.op(BinaryOp::And, &code, (1 << magnitude) - 1)?;
    let moved = b.op(BinaryOp::Shl, &low, i128::from(shift))?;
    let sign = b.op(BinaryOp::And, &code, 1 << magnitude)?;
    let sign = b.op(BinaryOp::Shl, &sign, 15 - i128::from(magnitude))?;
    let all = b.or(&moved, &sign)?;
    let half = b.cast(&all, Scalar::F16)?;
    if exponent == 0 {
        return Ok(half);
    }
    let value = b.scaled(&half, exponent)?;
    if element != ElementFormat::Fp8E4M3 {
        return Ok(value);
    }
    // The code of all ones is NaN.
    let is_nan = b.equals(&low, 0x7f)?;
    let nan = Leaf::Const(anymetal_ir::Const {
        ty: Scalar::F16,
        bits: 0x7e00,
    });
    sema.select_leaf(&is_nan, &nan, &value)
}

/// The code of a value that the format has.
fn encode(sema: &mut Sema<'_>, value: &Leaf, element: ElementFormat) -> Res<Leaf> {
    let bits = element.bits() as u32;
    if tile_scalar(element) != Scalar::F16 {
        let code = sema.convert_leaf(value, Scalar::U8)?;
        let mut b = Bits { sema, ty: Scalar::U8 };
        return b.op(BinaryOp::And, &code, (1 << bits) - 1);
    }
    let (magnitude, shift, exponent) = place(element);
    let mut b = Bits { sema, ty: Scalar::U16 };
    let whole = b.cast(value, Scalar::U16)?;
    let small = if exponent == 0 {
        value.clone()
    } else {
        b.scaled(value, -exponent)?
    };
    let small = b.cast(&small, Scalar::U16)?;
    let low = b.op(BinaryOp::Shr, &small, i128::from(shift))?;
    let mut low = b.op(BinaryOp::And, &low, (1 << magnitude) - 1)?;
    if element == ElementFormat::Fp8E4M3 {
        let exponent = b.op(BinaryOp::And, &whole, 0x7c00)?;
        let is_nan = b.equals(&exponent, 0x7c00)?;
        low = b.sema.select_leaf(&is_nan, &Sema::int_leaf(Scalar::U16, 0x7f), &low)?;
    }
    let sign = b.op(BinaryOp::And, &whole, 0x8000)?;
    let sign = b.op(BinaryOp::Shr, &sign, 15 - i128::from(magnitude))?;
    let code = b.or(&low, &sign)?;
    sema.convert_leaf(&code, Scalar::U8)
}
